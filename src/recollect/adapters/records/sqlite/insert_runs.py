"""Inserts that follow one another, written table by table: one prepared statement for all rows of a table.

A bulk of a thousand memories is a run of thousands of inserts. Taken one by one, each is some ten calls of Python and
a statement of its own; together they are checked first and then handed to SQLite by `executemany`, each with the seq
that it would have had. A run that fails cannot tell which step a step-by-step transaction would have named: the store
undoes it and takes the steps one by one (`store._Tables.apply`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Protocol, cast

from recollect.adapters.records.common.transaction import Tables, Transaction, referred_to
from recollect.domain.record import Record
from recollect.ports.records import Scope
from recollect.ports.steps import Insert, Step

FEWEST = 8  # a single memory with its tags and vectors is a few inserts: to sort them by table gains nothing
AT_ONCE = 20_000  # rows that are held as SQLite takes them, beside the records


class InsertsMany(Tables[int], Protocol):
    @abstractmethod
    def insert_many(self, records: Sequence[Record]) -> None:
        """Each under a new seq, in this order; DuplicateKey if an id or a unique key is taken."""


class RunTransaction(Transaction[int]):
    """Takes runs of inserts together."""

    def __init__(self, tables: InsertsMany, scope: Scope) -> None:
        super().__init__(tables, scope)
        self._many = tables

    def _apply_all(self, steps: Sequence[Step]) -> None:
        for is_insert, run in groupby(steps, _is_insert):
            some = list(run)
            if not is_insert or len(some) < FEWEST:
                super()._apply_all(some)
                continue
            for start in range(0, len(some), AT_ONCE):
                self._insert_all(cast(list[Insert], some[start : start + AT_ONCE]))

    def _insert_all(self, run: Sequence[Insert]) -> None:
        records = [step.record for step in run]
        for step, record in zip(run, records, strict=True):
            self._check_tenant(record)
            self._check_references(referred_to(record), not step.restoring)
            self.expect(record.shape.table, record.id, record.is_deleted)
        for record_type, count in Counter(map(type, records)).items():
            self._grow(record_type, count)
        self._many.insert_many(records)


def has_run(steps: Sequence[Step]) -> bool:
    """Whether there is a run of inserts to be taken together."""
    return len(steps) >= FEWEST and any(
        is_insert and len(list(run)) >= FEWEST for is_insert, run in groupby(steps, _is_insert)
    )


def _is_insert(step: Step) -> bool:
    return isinstance(step, Insert)
