"""Indexes of members of JSON fields, which an operator declares: for stores that can have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from recollect.domain.record import Record


class MemberIndex(NamedTuple):
    """A member that records are often found by: of which record, in which field, by which names."""

    record: type[Record]
    field: str
    path: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.record.shape.table}.{self.field}.{'.'.join(self.path)}"


@runtime_checkable
class IndexesMembers(Protocol):
    def index_members(self, wanted: Sequence[MemberIndex]) -> None:
        """Have an index for these members, and none for others. Answers are the same with and without."""
