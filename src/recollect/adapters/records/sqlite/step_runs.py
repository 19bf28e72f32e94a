"""Inserts that follow one another, written table by table, and touches of the same fields: one prepared statement each.

A bulk of a thousand memories is a run of thousands of inserts. Taken one by one, each is some ten calls of Python and
a statement of its own; together they are checked first and then handed to SQLite by `executemany`, each with the seq
that it would have had. So are the memories that recalls have shown, which are counted (32 recalls touch 300), and the
log entries of a seal. A run that fails cannot tell which step a step-by-step transaction would have named: the store
undoes it and takes the steps one by one (`writer_tables.py:WriterTables.apply`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

import apsw

from recollect.adapters.records.common.checks import check_added, checked_touch, touched_alike
from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.sql_compiler import Compiler
from recollect.adapters.records.common.sql_tables import SqlTables, insert_statement, touch_statement
from recollect.adapters.records.common.transaction import Transaction, references_from
from recollect.adapters.records.sqlite import fulltext
from recollect.adapters.records.sqlite.connection import duplicate_key
from recollect.domain.record import Record
from recollect.ports.query import Row
from recollect.ports.records import Scope
from recollect.ports.steps import Insert, Step, Touch

FEWEST = 8  # a single memory with its tags and vectors is a few inserts: to sort them by table gains nothing
AT_ONCE = 20_000  # rows that are held as SQLite takes them, beside the records


class RunTables(SqlTables[int]):
    """The writer's connection, as far as inserting needs it."""

    def __init__(
        self, connection: apsw.Connection, codec: Callable[[type[Record]], Codec], compiler: Callable[[], Compiler]
    ) -> None:
        super().__init__(codec, compiler)
        self._connection = connection
        self._cursor = connection.cursor()
        self._returned: list[Row] = []  # inserted again, perhaps, after they were deleted
        self.indexed: set[type[Record]] = set()  # whose text indexes have grown since they were merged

    def insert_many(self, records: Sequence[Record]) -> None:
        """Each under a new seq, in this order; DuplicateKey if an id or a unique key is taken."""
        seqs: dict[type[Record], list[int]] = {}
        alike: dict[type[Record], list[Record]] = {}
        for seq, record in enumerate(records, self.seq + 1):
            seqs.setdefault(type(record), []).append(seq)
            alike.setdefault(type(record), []).append(record)
        for record_type, some in alike.items():
            self._insert_alike(record_type, some, seqs[record_type])
        self.seq += len(records)

    def _insert_alike(self, record_type: type[Record], records: Sequence[Record], seqs: Sequence[int]) -> None:
        shape, codec = record_type.shape, self.codec(record_type)
        statement = insert_statement(shape.table, ("_seq", *codec.written))
        try:
            self._cursor.executemany(statement, codec.rows(records, seqs))
        except apsw.ConstraintError as error:
            raise duplicate_key(error) from None
        if shape.leaves_trace:
            self._returned += [(self.tenant, shape.table, record.id) for record in records]
        if shape.text:
            # Rows are numbered one after the other: nobody else inserts meanwhile.
            first = self._connection.last_insert_rowid() - len(records) + 1
            fresh = (fulltext.indexed(row, one) for row, one in enumerate(records, first) if not one.is_deleted)
            self._cursor.executemany(fulltext.index_statement(record_type, True), fresh)
            self.indexed.add(record_type)

    def touch_many(self, run: Sequence[Touch], put: Mapping[str, object]) -> None:
        """One after the other, as single ones are; `put` is the same in all of them."""
        first = run[0]
        codec, statement = self.codec(first.record), touch_statement(first.record, tuple(first.add), tuple(put))
        values = [codec.bound(name, value) for name, value in put.items()]
        try:
            self._cursor.executemany(statement, [(*one.add.values(), *values, self.tenant, one.id) for one in run])
        except apsw.ConstraintError as error:
            raise duplicate_key(error) from None


class RunTransaction(Transaction[int]):
    """Takes runs of inserts together, and runs of touches."""

    def __init__(self, tables: RunTables, scope: Scope) -> None:
        super().__init__(tables, scope)
        self._many = tables

    def _apply_all(self, steps: Sequence[Step]) -> None:
        for kind, run in _runs(steps):
            if kind is None or len(run) < FEWEST:
                super()._apply_all(run)
                continue
            for start in range(0, len(run), AT_ONCE):
                some = run[start : start + AT_ONCE]
                if kind is Insert:
                    self._insert_all(cast(list[Insert], some))
                else:
                    self._touch_all(cast(list[Touch], some))

    def _insert_all(self, run: Sequence[Insert]) -> None:
        records = [step.record for step in run]
        for step, record in zip(run, records, strict=True):
            values = record.__dict__
            if values["organization_id"] != self._scope.organization_id:
                self._check_tenant(record)
            self._check_unknown(record, values, living=not step.restoring)
            self.expect(record.shape.table, values["id"], values["is_deleted"])
        for record_type, count in Counter(map(type, records)).items():
            self._grow(record_type, count)
        self._many.insert_many(records)

    def _touch_all(self, run: Sequence[Touch]) -> None:
        first = run[0]
        put, codec = checked_touch(first), self._many.codec(first.record)
        if any(map(codec.is_sealed, put)):  # for each record in another way
            super()._apply_all(run)
            return
        for step in run[1:]:
            check_added(step)
        self._many.touch_many(run, put)

    def _check_unknown(self, record: Record, values: Mapping[str, Any], *, living: bool) -> None:
        """As `_check_references`; but most of a run refer to what is known by now, which is seen at once."""
        known = self._living if living else self._there
        for field, target, unless in references_from(type(record)):
            id = values[field]
            if id is None or (target, id) in known or any(values[other] is not None for other in unless):
                continue
            self._check_references([(field, target, id)], living)


def has_run(steps: Sequence[Step]) -> bool:
    """Whether there is a run of steps to be taken together."""
    return len(steps) >= FEWEST and any(kind is not None and len(run) >= FEWEST for kind, run in _runs(steps))


def _runs(steps: Sequence[Step]) -> Iterator[tuple[type[Step] | None, list[Step]]]:
    """The steps by what can be taken together: inserts, touches of the same fields, and others one by one."""
    for kind, run in groupby(steps, _Kinds()):
        yield (None if kind is None else type(kind)), list(run)


class _Kinds:
    """The first step of each run, by which the others are compared; None for what is taken one by one."""

    def __init__(self) -> None:
        self._last: Step | None = None
        self._alike: tuple[Hashable, ...] = ()

    def __call__(self, step: Step) -> Step | None:
        if isinstance(step, Insert):
            self._last = self._last if isinstance(self._last, Insert) else step
        elif isinstance(step, Touch) and (step.add or step.put):
            alike = touched_alike(step)
            self._last = self._last if isinstance(self._last, Touch) and alike == self._alike else step
            self._alike = alike
        else:
            self._last = None
        return self._last
