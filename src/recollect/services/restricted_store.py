"""A record store that reaches only a part of an organization: every read is narrowed, every write is checked.

It is bound in place of the store for callers with a restriction (services/tenant.py); the others pay nothing for it.
What is out of reach looks exactly like what is absent: it is not found, cannot be referred to, and deleting it does
nothing. What can be read and not changed is refused as Denied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal, NoReturn, TypeVar

from recollect.domain.access import Restriction
from recollect.domain.conversations import Message
from recollect.domain.memory import Memory, message_id, message_key
from recollect.domain.record import RECORDS, Record
from recollect.domain.tenancy import Organization
from recollect.errors import Denied, NotFound, ReferenceMissing, RequirementFailed
from recollect.ports.query import (
    AllOf,
    AnyOf,
    Beside,
    Filter,
    Linked,
    OneOf,
    Page,
    Query,
    Reading,
    Row,
    Spans,
    TextHit,
    TextQuery,
    equal,
    passes,
)
from recollect.ports.records import Capabilities, Change, Problem, Reads, RecordStore, Scope
from recollect.ports.steps import Absent, Committed, Delete, DeleteWhere, Insert, Put, Require, Step, Touch, Update
from recollect.ports.vectors import StoredVector
from recollect.services.restrictions import Conditions, Rules

R = TypeVar("R", bound=Record)
_SPOKEN = {"execution": "run"}


class RestrictedReads:
    """Implements `recollect.ports.records.Reads` over another."""

    def __init__(self, reads: Reads, rules: Rules) -> None:
        self._reads = reads
        self.rules = rules

    def _within(self, query: Query[R]) -> Query[R]:
        return replace(query, where=(*query.where, *self.rules.readable(query.record)))

    def get(self, scope: Scope, record: type[R], id: str, *, deleted: bool = False) -> R | None:
        found = self._reads.get(scope, record, id, deleted=deleted)
        conditions = self.rules.readable(record)
        if found is None or not conditions:
            return found
        query = Query(record, (equal("id", id), *conditions), deleted="yes" if deleted else "no")
        return found if self._reads.count(scope, query) else None

    def find(self, scope: Scope, query: Query[R]) -> Page[R]:
        return self._reads.find(scope, self._within(query))

    def select(self, scope: Scope, query: Query[Record], fields: Sequence[str]) -> list[Row]:
        return self._reads.select(scope, self._within(query), fields)

    def select_each(self, scope: Scope, readings: Sequence[Reading]) -> list[list[Row]]:
        return self._reads.select_each(scope, [(self._within(query), fields) for query, fields in readings])

    def count(self, scope: Scope, query: Query[Record], most: int | None = None) -> int:
        return self._reads.count(scope, self._within(query), most)

    def count_by(self, scope: Scope, query: Query[Record], by: Sequence[str | Spans]) -> dict[Row, int]:
        return self._reads.count_by(scope, self._within(query), by)


class RestrictedStore(RestrictedReads):
    """Implements `recollect.ports.records.RecordStore` over another; what concerns a whole store is refused."""

    def __init__(self, store: RecordStore, restriction: Restriction) -> None:
        super().__init__(store, Rules(restriction))
        self.unrestricted = store
        self.restriction = restriction

    @property
    def capabilities(self) -> Capabilities:
        return replace(self.unrestricted.capabilities, sql=False, partitions=False)

    @contextmanager
    def snapshot(self, scope: Scope) -> Iterator[Reads]:
        with self.unrestricted.snapshot(scope) as reads:
            yield RestrictedReads(reads, self.rules)

    def beside(self, scope: Scope, query: Beside[Record]) -> list[list[str]]:
        found = self.unrestricted.beside(scope, query)
        readable = self._readable_ids(scope, query.record, {id for ids in found for id in ids})
        return [[id for id in ids if id in readable] for ids in found]

    def search_text(self, scope: Scope, query: TextQuery[Record]) -> list[TextHit]:
        conditions = self.rules.readable(query.record)
        return self.unrestricted.search_text(scope, replace(query, where=(*query.where, *conditions)))

    def stored_vectors(self, scope: Scope, space: str, ids: Sequence[str]) -> Sequence[StoredVector]:
        messages = {id for id in ids if id.startswith(message_key(""))}
        readable = self._readable_ids(scope, Memory, set(ids) - messages) if len(messages) < len(ids) else set()
        if messages:
            found = self._readable_ids(scope, Message, {message_id(key) for key in messages})
            readable |= {message_key(id) for id in found}
        return self.unrestricted.stored_vectors(scope, space, [id for id in ids if id in readable])

    def transact(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        return self.unrestricted.transact(scope, _WriteCheck(self.unrestricted, scope, self.rules, steps).allowed())

    def tenants(self) -> list[str]:
        self._refuse()

    def changes(self, scope: Scope, after: int, limit: int = 1000) -> list[Change]:
        self._refuse()

    def migrate(self) -> list[str]:
        self._refuse()

    def backup(self, target: Path) -> None:
        self._refuse()

    def verify(self) -> list[Problem]:
        self._refuse()

    def mend(self) -> list[str]:
        self._refuse()

    def erase_traces(self) -> list[str]:
        self._refuse()

    def close(self) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise Denied("that concerns the whole store", remedy="use a key that is not restricted")

    def _readable_ids(self, scope: Scope, record: type[Record], ids: Sequence[str] | set[str]) -> set[str]:
        return {id for (id,) in self.select(scope, Query(record, (OneOf("id", tuple(ids)),), deleted="yes"), ("id",))}


class _WriteCheck:
    """The steps of one transaction: what may be written and referred to, with what the steps themselves write."""

    def __init__(self, store: RecordStore, scope: Scope, rules: Rules, steps: Sequence[Step]) -> None:
        self._store = store
        self._scope = scope
        self.rules = rules
        self._steps = steps
        written = [step.record for step in steps if isinstance(step, Insert | Put | Update)]
        self._written = {(record.shape.table, record.id): record for record in written}

    def allowed(self) -> list[Step]:
        """The steps that are left: what is out of reach is not deleted or counted, as if it were absent."""
        return [checked for step in self._steps if (checked := self._checked(step)) is not None]

    def _checked(self, step: Step) -> Step | None:
        match step:
            case Insert() | Put() | Update():
                self._check_written(step)
            case Delete() | Touch():
                return self._existing(step)
            case DeleteWhere():
                return replace(step, where=(*step.where, *self.rules.writable(step.record)))
            case Absent():
                return replace(step, where=(*step.where, *self.rules.readable(step.record)))
            case Require():
                is_written = (step.record.shape.table, step.id) in self._written
                if not is_written and not self._is(step.record, step.id, self.rules.readable(step.record)):
                    table = step.record.shape.table
                    message = f"{table} '{step.id}' is not as required"
                    raise RequirementFailed(message, remedy="read it again", id=step.id, table=table)
        return step

    def _check_written(self, step: Insert | Put | Update) -> None:
        record = step.record
        before = (
            None if isinstance(step, Insert) else self._store.get(self._scope, type(record), record.id, deleted=True)
        )
        if before is not None and not self._is(type(record), record.id, self.rules.writable(type(record))):
            if not self._is(type(record), record.id, self.rules.readable(type(record))):
                table = record.shape.table
                raise NotFound(f"there is no {table} '{record.id}'", remedy="create it first", id=record.id)
            self._deny(type(record))
        self._check_references(record, before, living=isinstance(step, Update) or not step.restoring)
        if not all(self._fits(record, one) for one in self.rules.writable(type(record))):
            self._deny(type(record))
        namespace = self.rules.restriction.namespace
        if isinstance(record, Memory) and namespace is not None:
            known = before.namespaces if isinstance(before, Memory) else []
            if set(record.namespaces) - {namespace, *known}:
                raise Denied(f"this key writes to the namespace '{namespace}' only", remedy="name no other")

    def _check_references(self, record: Record, before: Record | None, *, living: bool) -> None:
        """As the store does, in the same order: what is out of reach is not there."""
        for name, reference in record.shape.references.items():
            id, target = record.refers(name), RECORDS[reference.to]
            if id is None or (reference.to, id) in self._written or (before is not None and before.refers(name) == id):
                continue
            if target is Organization:
                continue
            query = Query(target, (equal("id", id), *self.rules.nameable(target)), deleted="no" if living else "yes")
            if not self._store.count(self._scope, query):
                raise ReferenceMissing(
                    f"there is no {reference.to} '{id[:80]}' to refer to",
                    remedy=f"create the {reference.to} first, or leave it out",
                    field=name,
                    id=id,
                )

    def _existing(self, step: Delete | Touch) -> Step | None:
        """Statistics may be noted of whatever can be read."""
        needed = self.rules.readable if isinstance(step, Touch) else self.rules.writable
        if self._is(step.record, step.id, needed(step.record)):
            return step
        if self._is(step.record, step.id, self.rules.readable(step.record)):
            self._deny(step.record)
        return None

    def _is(self, record: type[Record], id: str, conditions: Conditions) -> bool:
        """Whether a stored record passes; where nothing is asked, the store itself says whether it is there."""
        query = Query(record, (equal("id", id), *conditions), deleted="yes")
        return not conditions or self._store.count(self._scope, query) > 0

    def _fits(self, record: Record, given: Filter) -> bool:
        """Whether a record that is not stored yet passes a condition."""
        if isinstance(given, AnyOf):
            return any(self._fits(record, one) for one in given.filters)
        if isinstance(given, AllOf):
            return all(self._fits(record, one) for one in given.filters)
        if not isinstance(given, Linked):
            return passes(record, given) is True
        value = getattr(record, given.by)
        for other in self._among_written(given, value):
            return all(self._fits(other, one) for one in given.where)
        deleted: Literal["yes", "no"] = "yes" if given.deleted else "no"
        query = Query(given.record, (equal(given.field, value), *given.where), deleted=deleted)
        return value is not None and self._store.count(self._scope, query) > 0

    def _among_written(self, given: Linked, value: str | None) -> list[Record]:
        if given.field == "id":
            found = self._written.get((given.record.shape.table, value or ""))
            return [found] if found is not None else []
        return [
            one for one in self._written.values() if type(one) is given.record and getattr(one, given.field) == value
        ]

    def _deny(self, record: type[Record]) -> NoReturn:
        spoken = _SPOKEN.get(record.shape.table, record.shape.table.replace("_", " "))
        raise Denied(
            f"this key is restricted and cannot change that {spoken}",
            remedy="change what belongs to its user, agent, project or namespace, or use a key that is not restricted",
        )
