"""The tables of a transaction for the stores without SQL, which find and hold records one by one."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from recollect.adapters.records.common.checks import column
from recollect.adapters.records.common.transaction import Stored, unique_values
from recollect.domain.record import Record, Unique
from recollect.errors import DuplicateKey
from recollect.ports.query import Query
from recollect.ports.steps import Touch

R = TypeVar("R", bound=Record)


class RecordTables:
    """Fills `transaction.Tables` from the verbs that a store overrides; a row is the stored record itself."""

    deleted_at_once = sys.maxsize

    @abstractmethod
    def read(self, table: str, id: str) -> Record | None:
        """Soft-deleted or not."""

    @abstractmethod
    def matching(self, query: Query[R]) -> list[R]: ...

    @abstractmethod
    def hanging(self, record: type[R], field: str, ids: Sequence[str]) -> list[R]:
        """The records, soft-deleted or not, whose field is one of the ids."""

    @abstractmethod
    def is_taken(self, record: Record, key: Unique, values: tuple[object, ...]) -> bool:
        """Whether another record of the table has these values in the fields of the unique key."""

    @abstractmethod
    def write(self, record: Record) -> None:
        """Stores the record under a new seq."""

    @abstractmethod
    def rewrite(self, record: Record) -> None:
        """Stores the record under the seq it has."""

    @abstractmethod
    def erase(self, record: Record) -> None: ...

    def current(self, record: Record) -> Stored[Record] | None:
        found = self.read(record.shape.table, record.id)
        if found is None:
            return None
        return Stored(found, found.version, [getattr(found, name) for name in record.shape.references])

    def has(self, table: str, id: str, *, living: bool) -> bool:
        found = self.read(table, id)
        return found is not None and not (living and found.is_deleted)

    def ids(self, query: Query[Record]) -> list[str]:
        return [record.id for record in self.matching(query)]

    def insert(self, record: Record) -> None:
        if self.read(record.shape.table, record.id) is not None:
            raise DuplicateKey.of(record.shape.table, ["id"])
        self._write(record)

    def replace(self, row: Record, record: Record) -> None:
        self._write(record)

    def _write(self, record: Record) -> None:
        for key in record.shape.unique:
            values = unique_values(record, key)
            if values is not None and self.is_taken(record, key, values):
                raise DuplicateKey.of(record.shape.table, key.fields)
        self.write(record)

    def touch(self, step: Touch, put: Mapping[str, object]) -> None:
        stored = self.read(step.record.shape.table, step.id)
        if stored is not None:
            added = {name: (getattr(stored, name) or 0) + amount for name, amount in step.add.items()}
            real = {name: float(number) for name, number in added.items() if column(step.record, name).type == "real"}
            self.rewrite(stored.model_copy(update={**added, **real, **put}))

    def present(self, record: type[Record], ids: Sequence[str]) -> list[tuple[Record, str]]:
        found = {id: self.read(record.shape.table, id) for id in ids}
        return [(one, id) for id, one in found.items() if one is not None]

    def referring(self, record: type[Record], field: str, ids: Sequence[str]) -> list[tuple[Record, Record]]:
        return [(one, one) for one in self.hanging(record, field, ids)]

    def ids_referring(self, record: type[Record], field: str, ids: Sequence[str]) -> list[str]:
        return [one.id for one in self.hanging(record, field, ids)]

    def remove(self, record: type[Record], found: Sequence[tuple[Record, str]]) -> None:
        for one, _ in found:
            self.erase(one)


def dangling(record: Record, is_there: Callable[[str, str], bool]) -> list[str]:
    """The fields of a record that refer to nothing."""
    return [
        field
        for field, reference in record.shape.references.items()
        if (id := record.refers(field)) is not None and not is_there(reference.to, id)
    ]
