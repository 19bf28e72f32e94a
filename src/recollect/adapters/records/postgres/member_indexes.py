"""Declared indexes of members of JSON fields: one GIN index for each field that has such a member.

Under row-level security the planner may not use it (`@>` is not leakproof). So, as for text, the upkeep role finds
who may have the members, with the tenant as an ordinary condition, and the application role reads those behind the
wall under every filter again. Where they are many, it reads all as if there were no index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from recollect.adapters.postgres.connection import UPKEEP, Connection, Database, ReadStatement
from recollect.adapters.records.common.checks import check_filters
from recollect.adapters.records.common.dialect import json_text
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.domain.record import Record
from recollect.ports.member_indexes import MemberIndex
from recollect.ports.query import AnyOf, Compare, Filter, OneOf, Query
from recollect.ports.records import Scope

R = TypeVar("R", bound=Record)
MOST_FOUND = 2000
PREFIX = "members of "


def update(connection: Connection, wanted: Sequence[MemberIndex]) -> None:
    """Make those that are missing, and drop those that are no longer declared."""
    named = "SELECT c.relname FROM pg_class c WHERE starts_with(c.relname, %s) AND pg_table_is_visible(c.oid)"
    have = {str(name) for (name,) in connection.execute(named, (PREFIX,)).fetchall()}
    want = {f"{PREFIX}{one.record.shape.table}.{one.field}": one for one in wanted}
    for name in sorted(have - want.keys()):
        connection.execute(f"DROP INDEX IF EXISTS {quoted(name)}")
    for name in sorted(want.keys() - have):
        table, column = quoted(want[name].record.shape.table), quoted(want[name].field)
        connection.execute(
            f"CREATE INDEX IF NOT EXISTS {quoted(name)} ON {table} USING gin (({column}::jsonb) jsonb_path_ops)"
        )


@dataclass(slots=True)
class MemberSearch:
    """Narrows queries to the records that an index finds."""

    database: Database
    indexed: frozenset[tuple[type[Record], str]] = field(default_factory=frozenset)

    def narrowed(self, scope: Scope, query: Query[R]) -> Query[R]:
        """The query with the ids that it may find, if an index knows and they are few."""
        if not any(record is query.record for record, _ in self.indexed):
            return query
        check_filters(query.record, query.where)
        statement = self.statement(scope, query)
        if statement is None:
            return query
        (rows,) = self.database.ask(scope.organization_id, statement, role=UPKEEP)
        if len(rows) > MOST_FOUND:
            return query
        return replace(query, where=(OneOf("id", tuple(id for (id,) in rows)), *query.where))

    def statement(self, scope: Scope, query: Query[R]) -> ReadStatement | None:
        """What finds them; None if no filter asks for the value of an indexed member."""
        values: list[object] = [scope.organization_id]
        known = [one for one in query.where if self._is_indexed(query.record, one)]
        if not known:
            return None
        conditions = [_contains(one, values) for one in known]
        text = f"SELECT id FROM {quoted(query.record.shape.table)} WHERE organization_id = %s AND "
        return ReadStatement(f"{text}{' AND '.join(conditions)} LIMIT {MOST_FOUND + 1}", values)

    def _is_indexed(self, record: type[Record], given: Filter) -> bool:
        if isinstance(given, AnyOf):
            return bool(given.filters) and all(self._is_indexed(record, one) for one in given.filters)
        if not isinstance(given, Compare) or given.key is None or given.operator != "=":
            return False
        return (record, given.field) in self.indexed


def _contains(given: Filter, values: list[object]) -> str:
    """All that pass contain the object with just this member; more may."""
    if isinstance(given, AnyOf):
        return "(" + " OR ".join(_contains(one, values) for one in given.filters) + ")"
    assert isinstance(given, Compare), "only those are indexed"
    wanted: object = given.value
    for key in reversed(given.path):
        wanted = {key: wanted}
    values.append(json_text(wanted))
    return f"{quoted(given.field)}::jsonb @> %s::jsonb"
