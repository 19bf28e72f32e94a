"""The steps of a transaction in SQL: checks references, counts versions, cascades, keeps the text index in step.

Shared by the SQL stores. A store supplies a `Tables`: how to run a statement, the next seq, and its text index.
References are checked and followed here rather than by the database, because a composite reference cannot be
cleared by `ON DELETE SET NULL` without clearing the tenant too, and two of the engines have no cascades at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol, cast

from recollect.adapters.records.common.checks import checked_touch
from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.dialect import Dialect
from recollect.adapters.records.common.sql_compiler import Compiler, quoted
from recollect.domain.record import RECORDS, Record
from recollect.errors import (
    DuplicateKey,
    InvalidInput,
    NotFound,
    ReferenceMissing,
    RequirementFailed,
    VersionConflict,
)
from recollect.ports.query import Query, equal
from recollect.ports.records import Scope
from recollect.ports.steps import Absent, Committed, Delete, DeleteWhere, Insert, Put, Require, Step, Touch, Update

CHUNK = 500
KEY = 2  # organization_id and id are the first columns of every record
# Made from the other records and made again when they vanish, so nobody counts them.
DERIVED = frozenset({"embedding", "index_task"})
GONE = ("seq", "organization_id", "table_name", "id")
RETURNED = "DELETE FROM recollect_gone WHERE organization_id = ? AND table_name = ? AND id = ?"


class Tables(Protocol):
    """What a store lends to the steps."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    def insert(self, table: str, names: tuple[str, ...], values: Sequence[Any]) -> int:
        """Adds a row and gives its row number, for the text index; may wait with it until the next `run`."""

    def look(self, query: Query[Any], statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Runs the statement of a query; where rows wait, those that cannot pass it may go on waiting."""

    def update(self, table: str, names: tuple[str, ...], values: Sequence[Any], where: tuple[Any, ...]) -> None:
        """Writes these columns of one row anew; `where` is what the dialect's `at_row` asks for."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def unguarded(self) -> frozenset[str]:
        """The tables whose unique keys the database cannot keep by itself; then `check_unique` does."""

    def check_unique(self, record: Record) -> None: ...

    def next_seq(self) -> int: ...

    def codec(self, record: type[Record]) -> Codec: ...

    def compiler(self) -> Compiler: ...

    def index_text(self, row: int, record: Record, *, fresh: bool) -> None:
        """Puts the record into its text index, in place of what is there unless the row is `fresh`."""

    def unindex_text(self, record: type[Record], rows: Sequence[int]) -> None: ...


@cache
def referrers(table: str) -> tuple[tuple[type[Record], str, str], ...]:
    """Who refers to a table: the record type, its field, and what deleting the target does to it."""
    return tuple(
        (record, field, reference.on_delete)
        for record in RECORDS.values()
        for field, reference in record.shape.references.items()
        if reference.to == table
    )


def taken(table: str, fields: Sequence[str]) -> DuplicateKey:
    return DuplicateKey(
        f"there is such a {table} already",
        remedy="change the existing one, or choose another key",
        fields=list(fields),
    )


class Steps:
    """Applies the steps of one transaction; `growth` says how many records more there are than before."""

    def __init__(self, tables: Tables, scope: Scope) -> None:
        self._tables = tables
        self._scope = scope
        self._known: set[tuple[str, str]] = set()  # living records
        self._there: set[tuple[str, str]] = set()  # and soft-deleted ones, which restored records may refer to
        self._seq = 0
        self._deleted = 0
        self.growth = 0

    def apply(self, steps: Sequence[Step]) -> Committed:
        for step in steps:
            cast(Callable[[Any], None], VERBS[type(step)].__get__(self))(step)
        return Committed(self._seq, self._deleted)

    def expect(self, table: str, id: str, is_deleted: bool) -> None:
        """A record that is known to be there when the steps begin need not be asked for by each that refers to it."""
        self._there.add((table, id))
        if not is_deleted:
            self._known.add((table, id))

    def _forget(self) -> None:
        self._known.clear()
        self._there.clear()

    def _insert(self, step: Insert) -> None:
        record = step.record
        self._check_tenant(record)
        self._check_references(record, record.shape.references, living=not step.restoring)
        if record.shape.table in self._tables.unguarded:
            self._tables.check_unique(record)
        codec = self._tables.codec(type(record))
        row = self._tables.insert(record.shape.table, ("_seq", *codec.written), [self._next_seq(), *codec.row(record)])
        self._grow(type(record), 1)
        if record.shape.leaves_trace:
            self._tables.run(RETURNED, (record.organization_id, record.shape.table, record.id))
        self.expect(record.shape.table, record.id, record.is_deleted)
        if record.shape.text and not record.is_deleted:
            self._tables.index_text(row, record, fresh=True)

    def _update(self, step: Update) -> None:
        record = step.record
        found = self._stored(record)
        if found is None:
            raise NotFound(f"there is no {record.shape.table} '{record.id}'", remedy="create it first", id=record.id)
        row, version, *_ = found
        if version != record.version:
            raise VersionConflict(
                f"{record.shape.table} '{record.id}' was changed by someone else",
                remedy="read it again and repeat the change",
                id=record.id,
                expected=record.version,
                found=version,
            )
        self._replace(row, version, record, found)

    def _put(self, step: Put) -> None:
        found = self._stored(step.record)
        if found is None:
            self._insert(Insert(step.record, step.restoring))
        elif step.restoring:
            self._replace(found[0], step.record.version - 1, step.record, found, living=False)
        else:
            self._replace(found[0], found[1], step.record, found)

    def _delete(self, step: Delete) -> None:
        self._delete_ids(step.record, [step.id])

    def _delete_where(self, step: DeleteWhere) -> None:
        if not step.where:
            raise InvalidInput("refusing to delete every record of a kind", remedy="give at least one filter")
        compiler = self._tables.compiler()
        statement = compiler.select(self._scope, Query(step.record, step.where, deleted="yes"), ("id",))
        self._delete_ids(step.record, [id for (id,) in self._tables.run(statement, compiler.values)])

    def _touch(self, step: Touch) -> None:
        put = checked_touch(step)
        codec = self._tables.codec(step.record)
        sets = [f"{quoted(name)} = coalesce({quoted(name)}, 0) + ?" for name in step.add]
        sets += [f"{quoted(name)} = ?" for name in put]
        if not sets:
            return
        values = [*step.add.values(), *(codec.bound(name, value) for name, value in put.items())]
        self._tables.run(
            f"UPDATE {quoted(step.record.shape.table)} SET {', '.join(sets)} "
            f"WHERE {quoted('organization_id')} = ? AND {quoted('id')} = ?",
            [*values, self._scope.organization_id, step.id],
        )

    def _require(self, step: Require) -> None:
        where = (equal("id", step.id), *(equal(name, value) for name, value in step.match.items()))
        if self._first(step.record, where) is None:
            raise RequirementFailed(
                f"{step.record.shape.table} '{step.id}' is not as required",
                remedy="read it again",
                id=step.id,
                table=step.record.shape.table,
            )

    def _absent(self, step: Absent) -> None:
        found = self._first(step.record, step.where)
        if found is not None:
            raise RequirementFailed(
                f"there is such a {step.record.shape.table} already: '{found}'", id=found, table=step.record.shape.table
            )

    def _first(self, record: type[Record], where: tuple[Any, ...]) -> str | None:
        compiler = self._tables.compiler()
        query = Query(record, where, limit=1)
        rows = self._tables.look(query, compiler.select(self._scope, query, ("id",)), compiler.values)
        return rows[0][0] if rows else None

    def _stored(self, record: Record) -> tuple[Any, ...] | None:
        """Row number, version and references of the stored version of a record."""
        self._check_tenant(record)
        rows = self._tables.run(
            stored_statement(type(record), self._tables.dialect.row), (record.organization_id, record.id)
        )
        return rows[0] if rows else None

    def _replace(self, row: Any, version: int, record: Record, found: Sequence[Any], living: bool = True) -> None:
        before = dict(zip(record.shape.references, found[2:], strict=True))
        moved = [name for name in before if getattr(record, name) != before[name]]
        self._check_references(record, moved, living)
        codec = self._tables.codec(type(record))
        values = codec.row(record)
        values[_position(type(record), "version")] = version + 1
        if record.shape.table in self._tables.unguarded:
            self._tables.check_unique(record)
        at_row = self._tables.dialect.at_row
        where = (row,) if at_row.count("?") == 1 else (record.organization_id, row)
        # A record keeps its key: a cluster refuses to write the organization anew, even the same one.
        written = ("_seq", *codec.written[KEY:])
        self._tables.update(record.shape.table, written, [self._next_seq(), *values[KEY:]], where)
        self._known.discard((record.shape.table, record.id))
        self.expect(record.shape.table, record.id, record.is_deleted)
        if record.shape.text:
            if record.is_deleted:
                self._tables.unindex_text(type(record), [row])
            else:
                self._tables.index_text(row, record, fresh=False)

    def _check_tenant(self, record: Record) -> None:
        if record.organization_id != self._scope.organization_id:
            raise InvalidInput("a record must belong to the organization it is written in", id=record.id)

    def _check_references(self, record: Record, fields: Any, living: bool = True) -> None:
        for field in fields:
            target, id = record.shape.references[field].to, getattr(record, field)
            if id is None or (target, id) in (self._known if living else self._there):
                continue
            statement = f"SELECT 1 FROM {quoted(target)} WHERE {quoted('organization_id')} = ? AND {quoted('id')} = ?"
            if living:
                statement += f" AND {quoted('is_deleted')} = FALSE"
            if not self._tables.run(statement, (self._scope.organization_id, id)):
                raise ReferenceMissing(
                    f"there is no {target} '{id[:80]}' to refer to",
                    remedy=f"create the {target} first, or leave it out",
                    field=field,
                    id=id,
                )
            self.expect(target, id, is_deleted=not living)

    def _delete_ids(self, record: type[Record], ids: Sequence[str]) -> None:
        self._forget()
        for start in range(0, len(ids), CHUNK):
            self._delete_chunk(record, ids[start : start + CHUNK])

    def _delete_chunk(self, record: type[Record], ids: Sequence[str]) -> None:
        marks = ", ".join("?" * len(ids))
        key = f"{quoted('organization_id')} = ? AND {quoted('id')} IN ({marks})"
        values = (self._scope.organization_id, *ids)
        table = quoted(record.shape.table)
        rows = self._tables.run(f"SELECT {self._tables.dialect.row}, {quoted('id')} FROM {table} WHERE {key}", values)
        if not rows:
            return
        present = [id for _, id in rows]
        for referrer, field, on_delete in referrers(record.shape.table):
            self._follow(referrer, field, on_delete, present)
        if record.shape.text:
            self._tables.unindex_text(record, [row for row, _ in rows])
        self._tables.run(f"DELETE FROM {table} WHERE {key}", values)
        for id in present if record.shape.leaves_trace else ():
            self._tables.insert(
                "recollect_gone", GONE, (self._next_seq(), self._scope.organization_id, record.shape.table, id)
            )
        self._deleted += len(present)
        self._grow(record, -len(present))

    def _follow(self, referrer: type[Record], field: str, on_delete: str, ids: Sequence[str]) -> None:
        marks = ", ".join("?" * len(ids))
        where = f"{quoted('organization_id')} = ? AND {quoted(field)} IN ({marks})"
        values = (self._scope.organization_id, *ids)
        table = quoted(referrer.shape.table)
        if on_delete == "cascade":
            found = self._tables.run(f"SELECT {quoted('id')} FROM {table} WHERE {where}", values)
            self._delete_ids(referrer, [id for (id,) in found])
            return
        codec = self._tables.codec(referrer)
        columns = ", ".join(quoted(name) for name in codec.names)
        statement = f"SELECT {self._tables.dialect.row}, {columns} FROM {table} WHERE {where}"
        for row, *stored in self._tables.run(statement, values):
            record = codec.record(stored).changed(**{field: None})
            self._replace(row, record.version, record, self._stored(record) or ())

    def _grow(self, record: type[Record], by: int) -> None:
        if record.shape.table not in DERIVED:
            self.growth += by

    def _next_seq(self) -> int:
        self._seq = self._tables.next_seq()
        return self._seq


VERBS: dict[type, Any] = {
    Insert: Steps._insert,
    Update: Steps._update,
    Put: Steps._put,
    Delete: Steps._delete,
    DeleteWhere: Steps._delete_where,
    Touch: Steps._touch,
    Require: Steps._require,
    Absent: Steps._absent,
}


@cache
def _position(record: type[Record], name: str) -> int:
    return [column.name for column in record.columns()].index(name)


@cache
def insert_statement(table: str, names: tuple[str, ...]) -> str:
    columns = ", ".join(quoted(name) for name in names)
    return f"INSERT INTO {quoted(table)}({columns}) VALUES ({', '.join('?' * len(names))})"


@cache
def update_statement(table: str, names: tuple[str, ...], at_row: str) -> str:
    return f"UPDATE {quoted(table)} SET {', '.join(f'{quoted(name)} = ?' for name in names)} WHERE {at_row}"


@cache
def stored_statement(record: type[Record], row: str) -> str:
    columns = ", ".join([row, quoted("version"), *(quoted(name) for name in record.shape.references)])
    key = f"{quoted('organization_id')} = ? AND {quoted('id')} = ?"
    return f"SELECT {columns} FROM {quoted(record.shape.table)} WHERE {key}"
