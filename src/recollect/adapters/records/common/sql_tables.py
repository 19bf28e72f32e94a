"""The tables of a transaction for the stores that speak SQL: each verb in statements, the text index kept in step.

A store supplies how to run a statement, the next seq, and its text index.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import ClassVar, Generic

from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.dialect import Dialect, Values
from recollect.adapters.records.common.sql_compiler import Compiler, quoted
from recollect.adapters.records.common.transaction import Handle, Stored
from recollect.domain.record import Record
from recollect.domain.tenancy import Organization
from recollect.ports.query import Query, Row
from recollect.ports.records import Scope
from recollect.ports.steps import Touch

KEY = 2  # organization_id and id are the first columns of every record
GONE = ("seq", "organization_id", "table_name", "id")
RETURNED = "DELETE FROM recollect_gone WHERE organization_id = ? AND table_name = ? AND id = ?"


class SqlTables(Generic[Handle]):
    """Fills `transaction.Tables`; a row is what the dialect's `row` names."""

    dialect: ClassVar[Dialect]
    deleted_at_once = 500
    unguarded: frozenset[str] = frozenset()
    """The tables whose unique keys the database cannot keep by itself; then `check_unique` does."""

    def __init__(self, codec: Callable[[type[Record]], Codec], compiler: Callable[[], Compiler]) -> None:
        self.codec = codec
        self.compiler = compiler
        self.seq = 0
        self.tenant = ""

    def serve(self, scope: Scope) -> None:
        """The tenant of the next steps."""
        self.tenant = scope.organization_id

    @abstractmethod
    def run(self, statement: str, values: Values = ()) -> list[Row]: ...

    @abstractmethod
    def insert_row(self, table: str, names: tuple[str, ...], values: Values) -> Handle:
        """Adds a row and says by what it is found, for the text index; may wait with it until the next `run`."""

    @abstractmethod
    def next_seq(self) -> int: ...

    def update_row(self, table: str, names: tuple[str, ...], values: Values, where: Row) -> None:
        """Writes these columns of one row anew; `where` is what the dialect's `at_row` asks for."""
        self.run(update_statement(table, names, self.dialect.at_row), [*values, *where])

    def look(self, query: Query[Record], statement: str, values: Values) -> list[Row]:
        """Runs the statement of a query; where rows wait, those that cannot pass it may go on waiting."""
        return self.run(statement, values)

    def check_unique(self, record: Record) -> None:
        """Only for the `unguarded` tables."""

    def is_indexed(self, row: Handle, record: type[Record], values: Values) -> bool:
        """Whether the text index has what a row that becomes this is found by; `values` follow the key. Only for stores
        where to ask costs less than to index it again."""
        return False

    def index_text(self, row: Handle, record: Record, *, fresh: bool) -> None:
        """Puts the record into its text index, in place of what is there unless the row is `fresh`."""

    def unindex_text(self, record: type[Record], rows: Values) -> None: ...

    def current(self, record: Record) -> Stored[Handle] | None:
        rows = self.run(stored_statement(type(record), self.dialect.row), (self.tenant, record.id))
        return Stored(rows[0][0], rows[0][1], rows[0][2:]) if rows else None

    def has(self, table: str, id: str, *, living: bool) -> bool:
        return bool(self.run(_has_statement(table, living), (self.tenant, id)))

    def ids(self, query: Query[Record]) -> list[str]:
        compiler = self.compiler()
        statement = compiler.select(Scope(self.tenant), query, ("id",))
        return [id for (id,) in self.look(query, statement, compiler.values)]

    def insert(self, record: Record) -> None:
        table, codec = record.shape.table, self.codec(type(record))
        if table in self.unguarded:
            self.check_unique(record)
        row = self.insert_row(table, ("_seq", *codec.written), [self.next_seq(), *codec.row(record)])
        if record.shape.leaves_trace:
            self.run(RETURNED, (self.tenant, table, record.id))
        if record.shape.text and not record.is_deleted:
            self.index_text(row, record, fresh=True)

    def replace(self, row: Handle, record: Record) -> None:
        table, codec = record.shape.table, self.codec(type(record))
        if table in self.unguarded:
            self.check_unique(record)
        where = (row,) if self.dialect.at_row.count("?") == 1 else (self.tenant, row)
        # A record keeps its key: a cluster refuses to write the organization anew, even the same one.
        names, values = ("_seq", *codec.written[KEY:]), codec.row(record)[KEY:]
        has_words = bool(record.shape.text) and not record.is_deleted
        is_indexed = has_words and self.is_indexed(row, type(record), values)
        self.update_row(table, names, [self.next_seq(), *values], where)
        if record.shape.text and record.is_deleted:
            self.unindex_text(type(record), [row])
        elif has_words and not is_indexed:
            self.index_text(row, record, fresh=False)

    def touch(self, step: Touch, put: Mapping[str, object]) -> None:
        codec = self.codec(step.record)
        values = [*step.add.values(), *(codec.stored(self.tenant, step.id, name, value) for name, value in put.items())]
        self.run(touch_statement(step.record, tuple(step.add), tuple(put)), [*values, self.tenant, step.id])

    def present(self, record: type[Record], ids: Sequence[str]) -> list[tuple[Handle, str]]:
        found = self._where(record, f"{self.dialect.row}, {quoted('id')}", "id", ids)
        return [(row, id) for row, id in found]

    def ids_referring(self, record: type[Record], field: str, ids: Sequence[str]) -> list[str]:
        return [id for (id,) in self._where(record, quoted("id"), field, ids)]

    def referring(self, record: type[Record], field: str, ids: Sequence[str]) -> list[tuple[Handle, Record]]:
        codec = self.codec(record)
        columns = ", ".join([self.dialect.row, *map(quoted, codec.names)])
        return [(row, codec.record_or_sealed(stored)) for row, *stored in self._where(record, columns, field, ids)]

    def remove(self, record: type[Record], found: Sequence[tuple[Handle, str]]) -> None:
        table = record.shape.table
        if record.shape.text:
            self.unindex_text(record, [row for row, _ in found])
        where = f"{quoted('organization_id')} = ? AND {quoted('id')} IN ({', '.join('?' * len(found))})"
        self.run(f"DELETE FROM {quoted(table)} WHERE {where}", (self.tenant, *(id for _, id in found)))
        if record is Organization:  # nothing is left of it, not even what was deleted before
            self.run("DELETE FROM recollect_gone WHERE organization_id = ?", (self.tenant,))
            return
        for _, id in found if record.shape.leaves_trace else ():
            self.insert_row("recollect_gone", GONE, (self.next_seq(), self.tenant, table, id))

    def _where(self, record: type[Record], columns: str, field: str, ids: Sequence[str]) -> list[Row]:
        where = f"{quoted('organization_id')} = ? AND {quoted(field)} IN ({', '.join('?' * len(ids))})"
        return self.run(f"SELECT {columns} FROM {quoted(record.shape.table)} WHERE {where}", (self.tenant, *ids))


def rename_deleted(tables: SqlTables[Handle], scope: Scope, names: Mapping[tuple[str, str], str]) -> None:
    """Other names for what was deleted, where the store tells that it is gone."""
    tenant = scope.organization_id
    for (table, id), name in names.items():
        if tables.run(f"SELECT 1 FROM recollect_gone WHERE {_GONE}", (tenant, table, id)):
            # One of that name may be there from the last time that it was deleted.
            tables.run(f"DELETE FROM recollect_gone WHERE {_GONE}", (tenant, table, name))
            tables.run(f"UPDATE recollect_gone SET id = ? WHERE {_GONE}", (name, tenant, table, id))


_GONE = "organization_id = ? AND table_name = ? AND id = ?"
_AT_KEY = f"{quoted('organization_id')} = ? AND {quoted('id')} = ?"


@cache
def _has_statement(table: str, living: bool) -> str:
    return f"SELECT 1 FROM {quoted(table)} WHERE {_AT_KEY}{' AND is_deleted = FALSE' if living else ''}"


@cache
def insert_statement(table: str, names: tuple[str, ...]) -> str:
    columns = ", ".join(quoted(name) for name in names)
    return f"INSERT INTO {quoted(table)}({columns}) VALUES ({', '.join('?' * len(names))})"


@cache
def update_statement(table: str, names: tuple[str, ...], at_row: str) -> str:
    return f"UPDATE {quoted(table)} SET {', '.join(f'{quoted(name)} = ?' for name in names)} WHERE {at_row}"


@cache
def touch_statement(record: type[Record], add: tuple[str, ...], put: tuple[str, ...]) -> str:
    sets = [f"{quoted(name)} = coalesce({quoted(name)}, 0) + ?" for name in add]
    sets += [f"{quoted(name)} = ?" for name in put]
    return f"UPDATE {quoted(record.shape.table)} SET {', '.join(sets)} WHERE {_AT_KEY}"


@cache
def stored_statement(record: type[Record], row: str) -> str:
    columns = ", ".join([row, quoted("version"), *(quoted(name) for name in record.shape.references)])
    return f"SELECT {columns} FROM {quoted(record.shape.table)} WHERE {_AT_KEY}"
