"""What the steps of a transaction mean: the one interpreter, for every store.

It checks tenants, references, versions and requirements, counts versions up and follows what deleting does to those
who refer. How records are found and written is the store's: it lends `Tables`, filled by `sql_tables` for the stores
that speak SQL and by `record_tables` for those that hold records. A step that fails raises; the store undoes what was
done before it. References are followed here rather than by a database, because a composite reference cannot be cleared
by `ON DELETE SET NULL` without clearing the tenant too, and two of the engines have no cascades at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from recollect.adapters.records.common.checks import checked_touch
from recollect.domain.record import RECORDS, Record, Unique
from recollect.errors import InvalidInput, NotFound, ReferenceMissing, RequirementFailed, VersionConflict
from recollect.ports.query import Filter, Query, equal
from recollect.ports.records import Scope
from recollect.ports.steps import Absent, Committed, Delete, DeleteWhere, Insert, Put, Require, Step, Touch, Update

# Made from the other records and made again when they vanish, so nobody counts them.
DERIVED = frozenset({"embedding", "index_task"})
Handle = TypeVar("Handle")
"""By what a store finds again what it has found: a row number, an id, the record itself."""


class Stored(NamedTuple, Generic[Handle]):
    """The stored version of a record, with the values of its references in the order of its shape."""

    row: Handle
    version: int
    references: Sequence[str | None]


class Tables(Protocol[Handle]):
    """One tenant's records as the steps of one transaction see and change them, with what earlier steps did."""

    seq: int
    """The last that was given out."""
    deleted_at_once: int
    """How many records are deleted together."""

    def current(self, record: Record) -> Stored[Handle] | None:
        """What this record replaces, soft-deleted or not."""

    def has(self, table: str, id: str, *, living: bool) -> bool: ...

    def ids(self, query: Query[Record]) -> list[str]: ...

    def insert(self, record: Record) -> None:
        """Under a new seq; DuplicateKey if the id or a unique key is taken."""

    def replace(self, row: Handle, record: Record) -> None:
        """Under a new seq; DuplicateKey if a unique key is taken."""

    def touch(self, step: Touch, put: Mapping[str, object]) -> None:
        """Under the seq it has; nothing happens where there is no such record."""

    def present(self, record: type[Record], ids: Sequence[str]) -> list[tuple[Handle, str]]:
        """Those of them that are there, soft-deleted or not; they are about to go."""

    def ids_referring(self, record: type[Record], field: str, ids: Sequence[str]) -> list[str]:
        """The records, soft-deleted or not, whose field is one of the ids."""

    def referring(self, record: type[Record], field: str, ids: Sequence[str]) -> list[tuple[Handle, Record]]: ...

    def remove(self, record: type[Record], found: Sequence[tuple[Handle, str]]) -> None:
        """Deletes them, each with a note under a new seq where its shape asks for one."""


class Transaction(Generic[Handle]):
    """Applies the steps of one transaction; `growth` says how many records more there are than before."""

    def __init__(self, tables: Tables[Handle], scope: Scope) -> None:
        self._tables = tables
        self._scope = scope
        self._living: set[tuple[str, str]] = set()  # records that are known to be there
        self._there: set[tuple[str, str]] = set()  # and soft-deleted ones, which restored records may refer to
        self.deleted = 0
        self.growth = 0

    def apply(self, steps: Sequence[Step]) -> Committed:
        before = self._tables.seq
        self._apply_all(steps)
        return Committed(self._tables.seq if self._tables.seq != before else 0, self.deleted)

    def expect(self, table: str, id: str, is_deleted: bool) -> None:
        """A record that is known to be there need not be asked for by each that refers to it."""
        self._there.add((table, id))
        if not is_deleted:
            self._living.add((table, id))

    def _apply_all(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._apply(step)

    def _apply(self, step: Step) -> None:
        match step:
            case Insert():
                self._insert(step.record, living=not step.restoring)
            case Absent():
                self._absent(step)
            case Update():
                self._update(step.record, 0 if step.same_version else 1)
            case Put():
                self._put(step)
            case Require():
                self._require(step)
            case Touch():
                put = checked_touch(step)
                if step.add or put:
                    self._tables.touch(step, put)
            case Delete():
                self._delete(step.record, [step.id])
            case DeleteWhere():
                if not step.where:
                    raise InvalidInput("refusing to delete every record of a kind", remedy="give at least one filter")
                self._delete(step.record, self._tables.ids(Query(step.record, step.where, deleted="yes")))

    def _insert(self, record: Record, living: bool) -> None:
        self._check_tenant(record)
        self._check_references(referred_to(record), living)
        self._tables.insert(record)
        self._grow(type(record), 1)
        self.expect(record.shape.table, record.id, record.is_deleted)

    def _update(self, record: Record, by: int) -> None:
        self._check_tenant(record)
        found = self._tables.current(record)
        if found is None:
            raise NotFound(f"there is no {record.shape.table} '{record.id}'", remedy="create it first", id=record.id)
        if found.version != record.version:
            raise VersionConflict(
                f"{record.shape.table} '{record.id}' was changed by someone else",
                remedy="read it again and repeat the change",
                id=record.id,
                expected=record.version,
                found=found.version,
            )
        self._replace(found, record, found.version + by)

    def _put(self, step: Put) -> None:
        self._check_tenant(step.record)
        found = self._tables.current(step.record)
        if found is None:
            self._insert(step.record, living=not step.restoring)
        elif step.restoring:
            self._replace(found, step.record, step.record.version, living=False)
        else:
            self._replace(found, step.record, found.version + 1)

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

    def _first(self, record: type[Record], where: tuple[Filter, ...]) -> str | None:
        # Mostly there is none. Asked for the first by its id, a database may walk all in that order to find out.
        if not self._tables.ids(Query(record, where, limit=1, any_order=True)):
            return None
        return next(iter(self._tables.ids(Query(record, where, limit=1))), None)

    def _check_tenant(self, record: Record) -> None:
        if record.organization_id != self._scope.organization_id:
            raise InvalidInput("a record must belong to the organization it is written in", id=record.id)

    def _check_references(self, referred: Iterable[tuple[str, str, str]], living: bool = True) -> None:
        for field, target, id in referred:
            if (target, id) in (self._living if living else self._there):
                continue
            if not self._tables.has(target, id, living=living):
                raise ReferenceMissing(
                    f"there is no {target} '{id[:80]}' to refer to",
                    remedy=f"create the {target} first, or leave it out",
                    field=field,
                    id=id,
                )
            self.expect(target, id, is_deleted=not living)

    def _replace(self, found: Stored[Handle], record: Record, version: int, living: bool = True) -> None:
        before = dict(zip(record.shape.references, found.references, strict=True))
        self._check_references((one for one in referred_to(record) if before[one[0]] != one[2]), living)
        self._write(found.row, record.model_copy(update={"version": version}))

    def _write(self, row: Handle, record: Record) -> None:
        self._tables.replace(row, record)
        self._living.discard((record.shape.table, record.id))
        self.expect(record.shape.table, record.id, record.is_deleted)

    def _delete(self, record: type[Record], ids: Sequence[str]) -> None:
        self._living.clear()
        self._there.clear()
        for start in range(0, len(ids), self._tables.deleted_at_once):
            found = self._tables.present(record, ids[start : start + self._tables.deleted_at_once])
            if found:
                self._follow(record.shape.table, [id for _, id in found])
                self._tables.remove(record, found)
                self.deleted += len(found)
                self._grow(record, -len(found))

    def _follow(self, table: str, ids: Sequence[str]) -> None:
        """What deleting does to those who refer: they go, too, or are written anew without the reference."""
        for referrer, field, on_delete in referrers(table):
            if on_delete == "cascade":
                self._delete(referrer, self._tables.ids_referring(referrer, field, ids))
                continue
            for row, record in self._tables.referring(referrer, field, ids):
                self._write(row, record.model_copy(update={field: None, "version": record.version + 1}))

    def _grow(self, record: type[Record], by: int) -> None:
        if record.shape.table not in DERIVED:
            self.growth += by


def references_of(steps: Iterable[Step]) -> dict[str, set[str]]:
    """The ids, by table, that inserted records refer to and that are not inserted by the same steps: to be asked for
    together, and made known by `expect`.
    """
    inserted: dict[type[Record], list[dict[str, Any]]] = {}
    for step in steps:
        if isinstance(step, Insert):
            inserted.setdefault(type(step.record), []).append(step.record.__dict__)
    wanted: dict[str, set[str]] = {}
    for record_type, records in inserted.items():
        for field, target, unless in references_from(record_type):
            named = records
            if unless:
                named = [one for one in records if all(one[other] is None for other in unless)]
            wanted.setdefault(target, set()).update([one[field] for one in named])
    for record_type, records in inserted.items():
        if record_type.shape.table in wanted:
            wanted[record_type.shape.table].difference_update([one["id"] for one in records])
    for ids in wanted.values():
        ids.discard(cast(str, None))
    return {target: ids for target, ids in wanted.items() if ids}


def referred_to(record: Record) -> list[tuple[str, str, str]]:
    """The fields that refer to something, each with the table and the id."""
    values = record.__dict__
    return [
        (field, target, id)
        for field, target, unless in references_from(type(record))
        if (id := values[field]) is not None and not (unless and any(values[other] is not None for other in unless))
    ]


@cache
def references_from(record: type[Record]) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """The fields of a type that refer, each with the table and the fields that refer in its place."""
    return tuple((field, one.to, tuple(one.unless)) for field, one in record.shape.references.items())


@cache
def referrers(table: str) -> tuple[tuple[type[Record], str, str], ...]:
    """Who refers to a table: the record type, its field, and what deleting the target does to it."""
    return tuple(
        (record, field, reference.on_delete)
        for record in RECORDS.values()
        for field, reference in record.shape.references.items()
        if reference.to == table
    )


def unique_values(record: Record, key: Unique) -> tuple[object, ...] | None:
    """What must not be there twice; None where an empty field keeps the record out of it."""
    values = tuple(getattr(record, name) for name in key.fields)
    return None if None in values and not key.nulls_equal else values
