"""The steps of a transaction taken together, for stores that are a round trip away.

A run of inserts asks all its questions at once (do the records that they refer to exist, are the keys free), waits once
and then writes without waiting; a run of absences that differ in one value is one question. All of them count
something, so a store may ask them in one statement. When something is wrong the run cannot tell which step a
step-by-step transaction would have named, so it raises `Unclear`: the store undoes all of it and repeats it one by one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

from recollect.adapters.records.common.checks import touched_alike
from recollect.adapters.records.common.dialect import Values
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.adapters.records.common.sql_tables import SqlTables, insert_statement
from recollect.adapters.records.common.transaction import Transaction, unique_values
from recollect.domain.record import RECORDS, Record
from recollect.ports.query import Compare, Filter, OneOf, Query
from recollect.ports.records import Scope
from recollect.ports.steps import Absent, Insert, Step, Touch

AT_ONCE = 5000


class StepFailed(Exception):
    """A step failed; taken one by one, the steps say which."""


@dataclass(frozen=True, slots=True)
class CountStatement:
    """A statement that counts something, and what to do with the number."""

    statement: str
    values: Values
    then: Callable[[int], None]


Counted = Callable[[], tuple[list[int], list[int]]]


class DistantTables(SqlTables[str]):
    """Tables that answer many questions in one round trip, and take many rows in one go."""

    @abstractmethod
    def count_all(self, counts: Sequence[CountStatement], seqs: int) -> Counted:
        """What waits for the answers: those, and so many new seqs in order."""

    @abstractmethod
    def write_many(self, statement: str, rows: Sequence[Values]) -> None: ...

    def write_each(self, inserts: Sequence[tuple[str, Values]]) -> None:
        """One row into each of some tables."""
        for statement, row in inserts:
            self.write_many(statement, [row])

    def touch_many(self, run: Sequence[Touch]) -> bool:
        """Changes different records at once, all in the same fields, if that can be done."""
        return False

    def copy_many(self, table: str, names: tuple[str, ...], rows: Sequence[Values]) -> bool:
        """Takes them by a faster way than `write_many`, if there is one."""
        return False


@dataclass(frozen=True, slots=True)
class StepKind:
    """What steps of one run have in common: inserts, absences that differ in the value of one field, or touches of the
    same fields."""

    step: type
    record: type[Record] | None = None
    field: str = ""
    rest: tuple[object, ...] = ()


class BulkTransaction(Transaction[str]):
    _tables: DistantTables

    def __init__(self, tables: DistantTables, scope: Scope) -> None:
        super().__init__(tables, scope)
        self._counts: list[CountStatement] = []

    def _apply_all(self, steps: Sequence[Step]) -> None:
        for kind, run in groupby(steps, step_kind):
            if kind.step is Absent:
                self._none_of(kind, cast(list[Absent], list(run)))
            elif kind.step is Insert:
                self._insert_all(cast(list[Insert], list(run)))
            elif kind.step is Touch:
                self._touch_all(cast(list[Touch], list(run)))
            else:
                self._settle()
                for step in run:
                    self._apply(step)
        self._settle()

    def _settle(self) -> None:
        """Ask what is to be asked, and look at the answers."""
        if self._counts:
            self._asked(0)()

    def _asked(self, seqs: int) -> Callable[[], list[int]]:
        """Ask what is to be asked. What it gives waits for the answers, looks at them, and gives new seqs."""
        counts, self._counts = self._counts, []
        counted = self._tables.count_all(counts, seqs)

        def answered() -> list[int]:
            answers, new = counted()
            for count, answer in zip(counts, answers, strict=True):
                count.then(answer)
            return new

        return answered

    def _none_of(self, kind: StepKind, run: Sequence[Absent]) -> None:
        assert kind.record is not None
        for some in _pieces(run):
            values = tuple(cast(Compare, step.where[0]).value for step in some)
            compiler = self._tables.compiler()
            filters = (OneOf(kind.field, values), *cast(tuple[Filter, ...], kind.rest))
            where = compiler.where(self._scope, Query(kind.record, filters), "t")
            # Counted: asked for the first one, a planner is tempted to walk through all until it meets one.
            statement = f"SELECT count(*) FROM {quoted(kind.record.shape.table)} t WHERE {where}"
            self._counts.append(CountStatement(statement, compiler.values, _is_none))

    def _insert_all(self, run: Sequence[Insert]) -> None:
        for some in _pieces(run):
            for step in some:
                self._check_tenant(step.record)
            self._ask_for_references(some)
            for table in self._tables.unguarded & {step.record.shape.table for step in some}:
                self._ask_for_keys([step.record for step in some if step.record.shape.table == table])
            ids: dict[str, list[str]] = {}
            for step in some:
                ids.setdefault(step.record.shape.table, []).append(step.record.id)
            traced = {table: some_ids for table, some_ids in ids.items() if RECORDS[table].shape.leaves_trace}
            back: list[str] = []
            self._ask_for_gone(traced, back)
            answered = self._asked(len(some))
            try:
                rows = self._rows_of(some)  # while the server counts
            finally:
                seqs = answered()  # what it has to say comes first
            self._write_rows(rows, seqs)
            for table in back:
                self._forget_gone(table, traced[table])

    def _touch_all(self, run: Sequence[Touch]) -> None:
        """Touches of many records, as one change where the store can do that."""
        self._settle()
        if len(run) == 1 or len({step.id for step in run}) < len(run) or not self._tables.touch_many(run):
            for step in run:
                self._apply(step)

    def _ask_for_references(self, run: Sequence[Insert]) -> None:
        """What is inserted earlier in the run is there; everything else must be in the store."""
        wanted: dict[tuple[str, bool], dict[str, None]] = {}
        new: dict[tuple[str, str], bool] = {}
        for step in run:
            record = step.record
            for field, reference in record.shape.references.items():
                id, living = record.refers(field), not step.restoring
                if id is None or (reference.to, id) in self._living:
                    continue
                if not (new.get((reference.to, id), False) or ((reference.to, id) in new and not living)):
                    wanted.setdefault((reference.to, living), {})[id] = None
            new[record.shape.table, record.id] = not record.is_deleted
        for (table, living), ids in wanted.items():
            self._expect_all(table, living, list(ids))
        self._living.update(key for key, is_living in new.items() if is_living)

    def _expect_all(self, table: str, living: bool, ids: list[str]) -> None:
        def check(answer: int) -> None:
            if answer != len(ids):
                raise StepFailed
            if living:
                self._living.update((table, id) for id in ids)

        self._count(table, "id", ids, check, " AND is_deleted = FALSE" if living else "")

    def _ask_for_keys(self, records: Sequence[Record]) -> None:
        """The unique keys that the database cannot keep by itself."""
        for key in records[0].shape.unique:
            held = [values for record in records if (values := unique_values(record, key)) is not None]
            if len(key.fields) > 1 or any(None in values for values in held):
                for record in records:
                    self._tables.check_unique(record)
            elif held:
                if len(set(held)) < len(held):
                    raise StepFailed
                self._count(records[0].shape.table, key.fields[0], [value for (value,) in held], _is_none)

    def _ask_for_gone(self, ids: Mapping[str, list[str]], back: list[str]) -> None:
        """Whether any of them was deleted for good before: then there is a note of it that no longer holds."""
        if not ids:
            return

        def note(answer: int) -> None:
            if answer:
                back.extend(ids)

        compiler = self._tables.compiler()
        tenant = compiler.bind(self._scope.organization_id)
        tables = self._tables.dialect.many("table_name", list(ids), compiler.bind)
        among = self._tables.dialect.many("id", [id for some in ids.values() for id in some], compiler.bind)
        where = f"organization_id = {tenant} AND {tables} AND {among}"
        self._counts.append(CountStatement(f"SELECT count(*) FROM recollect_gone WHERE {where}", compiler.values, note))

    def _count(self, table: str, field: str, among: Values, then: Callable[[int], None], besides: str = "") -> None:
        compiler = self._tables.compiler()
        tenant = compiler.bind(self._scope.organization_id)
        held = self._tables.dialect.many(quoted(field), among, compiler.bind)
        statement = f"SELECT count(*) FROM {quoted(table)} WHERE organization_id = {tenant} AND {held}{besides}"
        self._counts.append(CountStatement(statement, compiler.values, then))

    def _rows_of(self, run: Sequence[Insert]) -> list[tuple[type[Record], list[object]]]:
        return [(type(step.record), self._tables.codec(type(step.record)).row(step.record)) for step in run]

    def _write_rows(self, encoded: Sequence[tuple[type[Record], list[object]]], seqs: Sequence[int]) -> None:
        rows: dict[type[Record], list[Values]] = {}
        for (record_type, row), seq in zip(encoded, seqs, strict=True):
            rows.setdefault(record_type, []).append([seq, *row])
        single: list[tuple[str, Values]] = []
        for record_type, values in rows.items():
            table, names = record_type.shape.table, ("_seq", *self._tables.codec(record_type).written)
            if len(values) == 1:
                single.append((insert_statement(table, names), values[0]))
            elif not self._tables.copy_many(table, names, values):
                self._tables.write_many(insert_statement(table, names), values)
            self._grow(record_type, len(values))
        self._tables.write_each(single)
        self._tables.seq = seqs[-1]

    def _forget_gone(self, table: str, ids: list[str]) -> None:
        compiler = self._tables.compiler()
        tenant, name = compiler.bind(self._scope.organization_id), compiler.bind(table)
        among = self._tables.dialect.many("id", ids, compiler.bind)
        where = f"organization_id = {tenant} AND table_name = {name} AND {among}"
        self._tables.run(f"DELETE FROM recollect_gone WHERE {where}", compiler.values)


def _is_none(answer: int) -> None:
    if answer:
        raise StepFailed


def is_by_key(steps: Sequence[Step]) -> bool:
    """Whether nothing but keys is looked up: then a plan that is made once does for every tenant."""
    return all(step_kind(step).step is not object for step in steps)


def step_kind(step: Step) -> StepKind:
    if isinstance(step, Absent) and step.where:
        first = step.where[0]
        if isinstance(first, Compare) and first.operator == "=" and first.key is None and first.value is not None:
            return StepKind(Absent, step.record, first.field, step.where[1:])
    if isinstance(step, Touch) and (step.add or step.put):
        return StepKind(Touch, rest=touched_alike(step))
    return StepKind(Insert) if isinstance(step, Insert) else StepKind(object)


def _pieces(run: Values) -> Iterator[Values]:
    for start in range(0, len(run), AT_ONCE):
        yield run[start : start + AT_ONCE]
