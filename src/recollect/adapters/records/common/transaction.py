"""The steps of a transaction over any ground that can read and write records one by one.

For the stores without SQL: checks references and unique keys, counts versions, follows cascades. What a step sees and
leaves is the ground's business; a step that fails raises, and the ground forgets or undoes what was done before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from recollect.adapters.records.common.checks import checked_touch
from recollect.adapters.records.common.sql_transaction import referrers
from recollect.domain.record import Record, Unique
from recollect.errors import DuplicateKey, InvalidInput, NotFound, ReferenceMissing, RequirementFailed, VersionConflict
from recollect.ports.query import Query, equal
from recollect.ports.records import Scope
from recollect.ports.steps import Absent, Delete, DeleteWhere, Insert, Put, Require, Step, Touch, Update


class Ground(Protocol):
    """One tenant's records as the steps see them, with what earlier steps did."""

    def read(self, table: str, id: str) -> Record | None:
        """Soft-deleted or not."""

    def matching(self, query: Query[Any]) -> list[Any]: ...

    def foresee(self, table: str, ids: Sequence[str]) -> None:
        """These are about to go: what hangs on them may be looked for together."""

    def referring(self, record: type[Record], field: str, ids: Sequence[str]) -> list[Record]:
        """The records, soft-deleted or not, whose field is one of the ids."""

    def is_taken(self, record: Record, key: Unique, values: tuple[Any, ...]) -> bool:
        """Whether another record of the table has these values in the fields of the unique key."""

    def write(self, record: Record) -> None:
        """Stores the record under a new seq."""

    def touch(self, record: Record) -> None:
        """Stores the record under the seq it has."""

    def remove(self, record: Record) -> None: ...


class Planner:
    def __init__(self, ground: Ground, scope: Scope) -> None:
        self._ground = ground
        self._scope = scope
        self.deleted = 0

    def apply(self, steps: Sequence[Step]) -> None:
        for step in steps:
            _VERBS[type(step)](self, step)

    def _insert(self, step: Insert) -> None:
        record = step.record
        self._check_tenant(record)
        self._check_references(record, record.shape.references, living=not step.restoring)
        if self._ground.read(record.shape.table, record.id) is not None:
            raise _taken(record, ["id"])
        self._write(record)

    def _update(self, step: Update) -> None:
        record = step.record
        self._check_tenant(record)
        stored = self._ground.read(record.shape.table, record.id)
        if stored is None:
            raise NotFound(f"there is no {record.shape.table} '{record.id}'", remedy="create it first", id=record.id)
        if stored.version != record.version:
            raise VersionConflict(
                f"{record.shape.table} '{record.id}' was changed by someone else",
                remedy="read it again and repeat the change",
                id=record.id,
                expected=record.version,
                found=stored.version,
            )
        self._replace(stored, record, stored.version + 1)

    def _put(self, step: Put) -> None:
        self._check_tenant(step.record)
        stored = self._ground.read(step.record.shape.table, step.record.id)
        if stored is None:
            self._insert(Insert(step.record, step.restoring))
        else:
            version = step.record.version if step.restoring else stored.version + 1
            self._replace(stored, step.record, version, living=not step.restoring)

    def _delete(self, step: Delete) -> None:
        self._remove(step.record, [step.id])

    def _delete_where(self, step: DeleteWhere) -> None:
        if not step.where:
            raise InvalidInput("refusing to delete every record of a kind", remedy="give at least one filter")
        found = self._ground.matching(Query(step.record, step.where, deleted="yes"))
        self._remove(step.record, [record.id for record in found])

    def _touch(self, step: Touch) -> None:
        put = checked_touch(step)
        stored = self._ground.read(step.record.shape.table, step.id)
        if stored is not None and (step.add or put):
            added = {name: (getattr(stored, name) or 0) + amount for name, amount in step.add.items()}
            self._ground.touch(stored.model_copy(update={**added, **put}))

    def _require(self, step: Require) -> None:
        where = (equal("id", step.id), *(equal(name, value) for name, value in step.match.items()))
        if not self._ground.matching(Query(step.record, where)):
            raise RequirementFailed(
                f"{step.record.shape.table} '{step.id}' is not as required",
                remedy="read it again",
                id=step.id,
                table=step.record.shape.table,
            )

    def _absent(self, step: Absent) -> None:
        for found in self._ground.matching(Query(step.record, step.where, limit=1)):
            raise RequirementFailed(
                f"there is such a {step.record.shape.table} already", id=found.id, table=step.record.shape.table
            )

    def _check_tenant(self, record: Record) -> None:
        if record.organization_id != self._scope.organization_id:
            raise InvalidInput("a record must belong to the organization it is written in", id=record.id)

    def _replace(self, stored: Record, record: Record, version: int, living: bool = True) -> None:
        moved = [name for name in record.shape.references if getattr(record, name) != getattr(stored, name)]
        self._check_references(record, moved, living)
        self._write(record.changed(version=version))

    def _write(self, record: Record) -> None:
        for key in record.shape.unique:
            values = unique_values(record, key)
            if values is not None and self._ground.is_taken(record, key, values):
                raise _taken(record, list(key.fields))
        self._ground.write(record)

    def _check_references(self, record: Record, fields: Iterable[str], living: bool = True) -> None:
        for field in fields:
            target, id = record.shape.references[field].to, getattr(record, field)
            found = self._ground.read(target, id) if id is not None else None
            if id is not None and (found is None or (living and found.is_deleted)):
                raise ReferenceMissing(
                    f"there is no {target} '{id[:80]}' to refer to",
                    remedy=f"create the {target} first, or leave it out",
                    field=field,
                    id=id,
                )

    def _remove(self, record: type[Record], ids: Iterable[str]) -> None:
        table = record.shape.table
        present = [id for id in dict.fromkeys(ids) if self._ground.read(table, id) is not None]
        if not present:
            return
        self._ground.foresee(table, present)
        for referrer, field, on_delete in referrers(table):
            hanging = self._ground.referring(referrer, field, present)
            if on_delete == "cascade":
                self._remove(referrer, [one.id for one in hanging])
                continue
            for one in hanging:
                self._write(one.changed(**{field: None, "version": one.version + 1}))
        for id in present:
            found = self._ground.read(table, id)
            if found is not None:
                self._ground.remove(found)
                self.deleted += 1


_VERBS: dict[type, Callable[[Planner, Any], None]] = {
    Insert: Planner._insert,
    Update: Planner._update,
    Put: Planner._put,
    Delete: Planner._delete,
    DeleteWhere: Planner._delete_where,
    Touch: Planner._touch,
    Require: Planner._require,
    Absent: Planner._absent,
}


def unique_values(record: Record, key: Unique) -> tuple[Any, ...] | None:
    """What must not be there twice; None where an empty field keeps the record out of it."""
    values = tuple(getattr(record, name) for name in key.fields)
    return None if None in values and not key.nulls_equal else values


def dangling(record: Record, is_there: Callable[[str, str], bool]) -> list[str]:
    """The fields of a record that refer to nothing."""
    return [
        field
        for field, reference in record.shape.references.items()
        if getattr(record, field) is not None and not is_there(reference.to, getattr(record, field))
    ]


def _taken(record: Record, fields: list[str]) -> DuplicateKey:
    return DuplicateKey(
        f"there is such a {record.shape.table} already",
        remedy="change the existing one, or choose another key",
        fields=fields,
    )
