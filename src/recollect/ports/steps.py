"""The steps of a transaction, as data; `transact` applies all of them or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from recollect.domain.record import Record
from recollect.ports.query import Filter


@dataclass(frozen=True, slots=True)
class Insert:
    """Fails with DuplicateKey if the id or a unique key is taken.

    With `restoring`, references may point at soft-deleted records: for imports, and for what is kept about them.
    """

    record: Record
    restoring: bool = False


@dataclass(frozen=True, slots=True)
class Update:
    """Replaces the record if its stored version is still the given one's; the store counts the version up.

    Not with `same_version`: for storing the same content in another form.
    """

    record: Record
    same_version: bool = False


@dataclass(frozen=True, slots=True)
class Put:
    """Inserts, or replaces whatever version is there: only for what cannot be lost by overwriting.

    With `restoring`, the record keeps its own version and may refer to soft-deleted records: for imports.
    """

    record: Record
    restoring: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes for good, with all that hangs on it. Deleting what is not there is no error."""

    record: type[Record]
    id: str


@dataclass(frozen=True, slots=True)
class DeleteWhere:
    """Deletes for good every record, soft-deleted or not, that passes all filters; one filter at least."""

    record: type[Record]
    where: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Touch:
    """Adds to counters and sets fields without a new version or seq: for statistics, which never conflict."""

    record: type[Record]
    id: str
    add: Mapping[str, int | float] = field(default_factory=dict)
    put: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Require:
    """Fails with RequirementFailed unless this living record exists and its fields equal `match`."""

    record: type[Record]
    id: str
    match: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Absent:
    """Fails with RequirementFailed, naming the id it found, if a living record passes all filters."""

    record: type[Record]
    where: tuple[Filter, ...]


Step = Insert | Update | Put | Delete | DeleteWhere | Touch | Require | Absent


@dataclass(frozen=True, slots=True)
class Committed:
    """What a transaction did: the highest seq it gave out, and how many records it deleted for good."""

    seq: int
    deleted: int = 0
