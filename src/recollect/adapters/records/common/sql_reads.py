"""The reading verbs of the stores that speak SQL: written once over one way to run a statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import TypeVar

from recollect.adapters.records.common.checks import check_beside, check_groups
from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.dialect import Convert, Dialect, Values, same
from recollect.adapters.records.common.field_cipher import FieldCipher
from recollect.adapters.records.common.sql_compiler import Compiler, changes_statement, quoted
from recollect.domain.record import Record
from recollect.errors import Closed, InvalidInput
from recollect.ports.query import Beside, Page, Query, Reading, Row, Spans, encode_cursor
from recollect.ports.records import Change, Scope

R = TypeVar("R", bound=Record)
H = TypeVar("H")
Ran = Callable[[H, str, Values], list[Row]]
Derived = tuple[tuple[str, Convert], ...]


class SqlReads:
    dialect: Dialect

    def __init__(self, cipher: FieldCipher) -> None:
        self._cipher = cipher
        self._codecs: dict[type[Record], Codec] = {}

    def _read(self, scope: Scope, statement: str, values: Values) -> list[Row]:
        """Runs one statement that reads, on behalf of the tenant."""
        return self._read_all(scope, [(statement, values)])[0]

    def _read_all(self, scope: Scope, readings: Sequence[tuple[str, Values]]) -> list[list[Row]]:
        """Runs statements that do not depend on each other; a store overrides this or `_read`."""
        return [self._read(scope, statement, values) for statement, values in readings]

    def _derived(self, record: type[Record]) -> Derived:
        """Columns that are written beside the record's own, each made from the record."""
        return ()

    def get(self, scope: Scope, record: type[R], id: str, *, deleted: bool = False) -> R | None:
        codec = self.codec(record)
        rows = self._read(scope, _get_statement(record), (scope.organization_id, id))
        if not rows:
            return None
        found: R = codec.record(rows[0])
        return found if deleted or not found.is_deleted else None

    def find(self, scope: Scope, query: Query[R]) -> Page[R]:
        codec = self.codec(query.record)
        records: list[R] = [codec.record(row) for row in self._rows(scope, query, codec.names)]
        if query.limit is None or len(records) < query.limit or not records:
            return Page(records)
        return Page(records, encode_cursor([getattr(records[-1], order.field) for order in query.ordering()]))

    def select(self, scope: Scope, query: Query[Record], fields: Sequence[str]) -> list[Row]:
        return self.select_each(scope, [(query, fields)])[0]

    def select_each(self, scope: Scope, readings: Sequence[Reading]) -> list[list[Row]]:
        to_read = [(query, self.codec(query.record).fields_to_read(fields)) for query, fields in readings]
        answers = self._read_all(scope, [self._statement(scope, query, fields) for query, fields in to_read])
        return [
            self.codec(query.record).decoded(scope.organization_id, rows, fields)
            for (query, fields), rows in zip(readings, answers, strict=True)
        ]

    def beside(self, scope: Scope, query: Beside[Record]) -> list[list[str]]:
        check_beside(query)
        if not query.places:
            return []
        compiler = self.compiler()
        rows = self._read(scope, compiler.beside(scope, query), compiler.values)
        unlisted = self.dialect.unlisted
        return [[*reversed(unlisted(before)), *unlisted(after)] for _, before, after in rows]

    def count(self, scope: Scope, query: Query[Record], most: int | None = None) -> int:
        compiler = self.compiler()
        condition = compiler.where(scope, query, "t")
        text = f"FROM {quoted(query.record.shape.table)} t WHERE {condition}"
        text = f"SELECT count(*) {text}" if most is None else f"SELECT count(*) FROM (SELECT 1 {text} LIMIT {most:d}) n"
        return int(self._read(scope, text, compiler.values)[0][0])

    def count_by(self, scope: Scope, query: Query[Record], by: Sequence[str | Spans]) -> dict[Row, int]:
        check_groups(query.record, by)
        compiler, codec = self.compiler(), self.codec(query.record)
        rows = self._read(scope, compiler.count_by(scope, query, by), compiler.values)
        decode = [same if isinstance(one, Spans) else self.dialect.decode[codec.types[one]] for one in by]
        return {
            tuple(None if value is None else make(value) for make, value in zip(decode, row, strict=False)): row[-1]
            for row in rows
        }

    def changes(self, scope: Scope, after: int, limit: int = 1000) -> list[Change]:
        statement, times = changes_statement()
        rows = self._read(scope, statement, (*(after, scope.organization_id, limit) * times, limit))
        return [Change(seq, table, id, bool(is_gone)) for seq, table, id, is_gone in rows]

    def codec(self, record: type[Record]) -> Codec:
        codec = self._codecs.get(record)
        if codec is None:
            codec = self._codecs[record] = Codec(record, self._cipher, self.dialect, self._derived(record))
        return codec

    def compiler(self) -> Compiler:
        return Compiler(self.codec, self.dialect, self._cipher.seals_texts)

    def _rows(self, scope: Scope, query: Query[Record], fields: Sequence[str]) -> list[Row]:
        return self._read(scope, *self._statement(scope, query, fields))

    def _statement(self, scope: Scope, query: Query[Record], fields: Sequence[str]) -> tuple[str, Values]:
        compiler = self.compiler()
        return compiler.select(scope, query, fields), compiler.values


Run = Callable[[str, Values], list[Row]]
"""Runs one statement that reads."""


class SqlSnapshot(SqlReads):
    """The same verbs over one transaction, for one tenant, until it ends."""

    def __init__(self, store: SqlReads, scope: Scope, run: Run) -> None:
        super().__init__(store._cipher)
        self.dialect = store.dialect
        self._codecs = store._codecs
        self._tenant = scope.organization_id
        self._run: Run | None = run

    def _read(self, scope: Scope, statement: str, values: Values) -> list[Row]:
        if self._run is None:
            raise Closed("this snapshot has ended", remedy="read inside of its block")
        if scope.organization_id != self._tenant:
            raise InvalidInput("this snapshot is of another organization", remedy="take one of this organization")
        return self._run(statement, values)

    def end(self) -> None:
        self._run = None


@contextmanager
def reading(store: SqlReads, scope: Scope, holding: AbstractContextManager[H], run: Ran[H]) -> Iterator[SqlSnapshot]:
    """A moment over what is held for it. Errors of whoever reads pass as they are: they are none of the store's."""
    held = holding.__enter__()
    moment = SqlSnapshot(store, scope, lambda statement, values: run(held, statement, values))
    try:
        moment._read(scope, "SELECT 1 FROM recollect_store LIMIT 1", ())  # the moment is now, not when first asked
        yield moment
    finally:
        moment.end()
        holding.__exit__(None, None, None)


@cache
def _get_statement(record: type[Record]) -> str:
    columns = ", ".join(quoted(column.name) for column in record.columns())
    return f"SELECT {columns} FROM {quoted(record.shape.table)} WHERE organization_id = ? AND id = ?"
