"""Queries to SQL, shared by the stores that speak it.

Identifiers come only from the records' declarations and are always quoted; values are always bound. A dialect says
only what differs: how a place-holder, a JSON member and a JSON list look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from recollect.adapters.records.checks import check_filters, check_ordering
from recollect.adapters.records.rows import Codec
from recollect.domain.record import Record
from recollect.ports.records import AnyOf, Compare, Filter, Holds, Linked, OneOf, Query, Scope

Many = Callable[[list[Any], list[Any]], str]
"""Writes `IN` over a long list: gets the list and the bound values to add to, gives the text."""


def quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


class Compiler:
    """Builds one statement: collects bound values while it writes the text."""

    def __init__(self, codec_of: Callable[[type[Record]], Codec], many: Many | None = None) -> None:
        self._codec_of = codec_of
        self._many = many
        self.values: list[Any] = []
        self._aliases = 0

    def bind(self, value: Any) -> str:
        self.values.append(value)
        return "?"

    def select(self, scope: Scope, query: Query[Any], fields: Sequence[str]) -> str:
        check_ordering(query, fields)
        alias = self._alias()
        wanted = ", ".join(f"{alias}.{quoted(name)}" for name in fields)
        text = (
            f"SELECT {wanted} FROM {quoted(query.record.shape.table)} {alias} WHERE {self.where(scope, query, alias)}"
        )
        start = query.start()
        if start is not None:
            text += f" AND {self._beyond(query, alias, start)}"
        text += " ORDER BY " + ", ".join(
            self._order(order.field, order.descending, alias) for order in query.ordering()
        )
        if query.limit is not None:
            text += f" LIMIT {int(query.limit)}"
        return text

    def where(self, scope: Scope, query: Query[Any], alias: str) -> str:
        check_filters(query.record, query.where)
        parts = [f"{alias}.{quoted('organization_id')} = {self.bind(scope.organization_id)}"]
        if query.deleted != "yes":
            parts.append(f"{alias}.{quoted('is_deleted')} = {1 if query.deleted == 'only' else 0}")
        parts.extend(self.filter(scope, query.record, one, alias) for one in query.where)
        return " AND ".join(parts)

    def filter(self, scope: Scope, record: type[Record], given: Filter, alias: str) -> str:
        if isinstance(given, AnyOf):
            if not given.filters:
                return "0"
            return "(" + " OR ".join(self.filter(scope, record, one, alias) for one in given.filters) + ")"
        if isinstance(given, Linked):
            return self._linked(scope, given, alias)
        codec = self._codec_of(record)
        column = f"{alias}.{quoted(given.field)}"
        if isinstance(given, Compare):
            return self._compare(given, codec, column)
        if isinstance(given, OneOf):
            return self._one_of(given, codec, column)
        if isinstance(given, Holds):
            # Only members of a list have numbers for keys; `atom`, because `value` shows a nested list as text.
            member = f"typeof(key) = 'integer' AND type = 'text' AND atom = {self.bind(given.value)}"
            return f"EXISTS (SELECT 1 FROM json_each({column}) WHERE {member})"
        return f"{column} IS {'' if given.wanted else 'NOT '}NULL"

    def _compare(self, given: Compare, codec: Codec, column: str) -> str:
        if given.key is not None:
            return self._member(given, column)
        bound = self.bind(codec.bound(given.field, given.value))
        if given.operator == "!=":
            return f"{column} IS NOT {bound}"
        return f"{column} {given.operator} {bound}"

    def _member(self, given: Compare, column: str) -> str:
        key = self.bind(given.key)
        if given.value is None or isinstance(given.value, bool):
            wanted = {None: "null", True: "true", False: "false"}[given.value]
            test = f"type = '{wanted}'"
        else:
            kinds = ("text",) if isinstance(given.value, str) else ("integer", "real")
            listed = ", ".join(f"'{kind}'" for kind in kinds)
            operator = "=" if given.operator == "!=" else given.operator
            test = f"type IN ({listed}) AND atom {operator} {self.bind(given.value)}"
        found = f"EXISTS (SELECT 1 FROM json_each({column}) WHERE key = {key} AND {test})"
        return f"NOT {found}" if given.operator == "!=" else found

    def _one_of(self, given: OneOf, codec: Codec, column: str) -> str:
        plain = [codec.bound(given.field, value) for value in given.values if value is not None]
        parts = []
        if plain and self._many is not None and len(plain) > 50:
            # One bound array instead of thousands of place-holders: no limit, one cached statement.
            parts.append(f"{column} IN {self._many(plain, self.values)}")
        elif plain:
            parts.append(f"{column} IN ({', '.join(self.bind(value) for value in plain)})")
        if len(plain) < len(given.values):
            parts.append(f"{column} IS NULL")
        return "(" + " OR ".join(parts) + ")" if parts else "0"

    def _linked(self, scope: Scope, given: Linked, alias: str) -> str:
        inner = self._alias()
        query = Query(given.record, given.where)
        condition = self.where(scope, query, inner)
        return (
            f"{'' if given.wanted else 'NOT '}EXISTS (SELECT 1 FROM {quoted(given.record.shape.table)} {inner} "
            f"WHERE {condition} AND {inner}.{quoted(given.field)} = {alias}.{quoted('id')})"
        )

    def _order(self, field: str, descending: bool, alias: str) -> str:
        return f"{alias}.{quoted(field)}{' DESC' if descending else ''}"

    def _beyond(self, query: Query[Any], alias: str, start: Sequence[Any]) -> str:
        """Rows that come after `start` in the ordering, written out field by field because fields may be null."""
        codec = self._codec_of(query.record)
        marks = [
            (f"{alias}.{quoted(order.field)}", order.descending, codec.bound(order.field, value))
            for order, value in zip(query.ordering(), start, strict=True)
        ]
        branches = []
        for position, (column, descending, stored) in enumerate(marks):
            same = [f"{before} IS {self.bind(value)}" for before, _, value in marks[:position]]
            branches.append(" AND ".join([*same, self._further(column, descending, stored)]))
        return "(" + " OR ".join(branches) + ")"

    def _further(self, column: str, descending: bool, stored: Any) -> str:
        if stored is None:
            return "0" if descending else f"{column} IS NOT NULL"
        if descending:
            return f"({column} < {self.bind(stored)} OR {column} IS NULL)"
        return f"{column} > {self.bind(stored)}"

    def _alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"
