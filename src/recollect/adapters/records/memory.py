"""The plain in-memory store: the reference that every other store is compared with, and a store for tests.

It keeps every rule of the port in the most obvious way, so that reading it tells what the rules mean. Nothing is
durable. A transaction is undone by putting back what each step replaced.
"""

from __future__ import annotations

import copy
import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from recollect.adapters.records.checks import check_filters, check_query, check_text, checked_touch
from recollect.adapters.records.steps import referrers
from recollect.domain.memory import Embedding
from recollect.domain.record import Record, new_id
from recollect.errors import (
    Closed,
    DuplicateKey,
    InvalidInput,
    NotFound,
    ReferenceMissing,
    RequirementFailed,
    VersionConflict,
)
from recollect.ports.records import (
    Absent,
    AnyOf,
    Capabilities,
    Change,
    Committed,
    Delete,
    DeleteWhere,
    Filter,
    Insert,
    Linked,
    Page,
    Problem,
    Put,
    Query,
    Require,
    Scope,
    Step,
    TextHit,
    TextQuery,
    Touch,
    Update,
    encode_cursor,
    equal,
    passes,
)
from recollect.ports.vectors import VectorRow

R = TypeVar("R", bound=Record)
Key = tuple[str, str, str]  # table, organization, id
WORD = re.compile(r"\w+")


class MemoryStore:
    def __init__(self) -> None:
        self._records: dict[Key, Record] = {}
        self._seqs: dict[Key, int] = {}
        self._gone: dict[Key, int] = {}
        self._seq = 0
        self._lock = threading.RLock()
        self._closed = False
        self._incarnation = new_id()
        self.capabilities = Capabilities("memory", durable=False, many_processes=False)

    def tenants(self) -> list[str]:
        with self._reading():
            return sorted(id for table, _, id in self._records if table == "organization")

    def get(self, scope: Scope, record: type[R], id: str, *, deleted: bool = False) -> R | None:
        with self._reading():
            found = self._records.get((record.shape.table, scope.organization_id, id))
            if isinstance(found, record) and (deleted or not found.is_deleted):
                return _copied(found)
            return None

    def find(self, scope: Scope, query: Query[R]) -> Page[R]:
        with self._reading():
            records = [_copied(record) for record in self._matching(scope, query)]
        if query.limit is None or len(records) < query.limit or not records:
            return Page(records)
        return Page(records, encode_cursor([getattr(records[-1], order.field) for order in query.ordering()]))

    def select(self, scope: Scope, query: Query[Any], fields: Sequence[str]) -> list[tuple[Any, ...]]:
        check_query(query, fields)
        return [tuple(getattr(record, name) for name in fields) for record in self.find(scope, query).records]

    def count(self, scope: Scope, query: Query[Any]) -> int:
        with self._reading():
            check_filters(query.record, query.where)
            return sum(1 for _ in self._living(scope, query))

    def transact(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        with self._reading():
            return _Transaction(self, scope).apply(steps)

    def search_text(self, scope: Scope, query: TextQuery[Any]) -> list[TextHit]:
        check_text(query)
        shape = query.record.shape.text
        assert shape is not None
        with self._reading():
            scoped = [r for r in self._living(scope, Query(query.record)) if _has_facets(r, query.facets)]
            wanted = {record.id for record in self._living(scope, Query(query.record, query.where))}
        words = {record.id: _words(record, shape.fields) for record in scoped}
        hits = _by_rarity(words, [word.casefold() for term in query.terms for word in WORD.findall(term)])
        best = sorted((hit for hit in hits if hit.id in wanted), key=lambda hit: (-hit.score, hit.id))
        return best[: query.limit]

    def changes(self, scope: Scope, after: int, limit: int = 1000) -> list[Change]:
        with self._reading():
            found = [
                Change(seq, key[0], key[2], gone)
                for seqs, gone in ((self._seqs, False), (self._gone, True))
                for key, seq in seqs.items()
                if key[1] == scope.organization_id and seq > after
            ]
        return sorted(found, key=lambda change: change.seq)[:limit]

    def migrate(self) -> list[str]:
        return []

    def backup(self, target: Path) -> None:
        raise InvalidInput("the in-memory store cannot be backed up", remedy="export it, or open a file instead")

    def verify(self) -> list[Problem]:
        with self._reading():
            return [
                Problem(f"its {field} points at nothing", table, id, organization)
                for (table, organization, id), record in self._records.items()
                for field, reference in record.shape.references.items()
                if getattr(record, field) is not None
                and (reference.to, organization, getattr(record, field)) not in self._records
            ]

    def mend(self) -> list[str]:
        return []

    def erase_traces(self) -> None:
        """Nothing is kept of what was deleted."""

    def close(self) -> None:
        self._closed = True

    @contextmanager
    def vector_snapshot(self) -> Iterator[MemoryVectors]:
        with self._reading():
            rows = [
                VectorRow(self._seqs[key], e.organization_id, e.memory_id, e.space, tuple(e.facets), e.vector)
                for key, e in self._records.items()
                if isinstance(e, Embedding)
            ]
            tokens = {self._seqs[key]: e.tokens for key, e in self._records.items() if isinstance(e, Embedding)}
            snapshot = MemoryVectors(self._incarnation, self._seq, sorted(rows, key=lambda row: row.seq), tokens)
        yield snapshot

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise Closed("this store is closed", remedy="open it again")
            yield

    def _matching(self, scope: Scope, query: Query[R]) -> list[R]:
        check_query(query)
        records = list(self._living(scope, query))
        for order in reversed(query.ordering()):
            records.sort(key=partial(_sortable_field, order.field), reverse=order.descending)
        start = query.start()
        if start is not None:
            records = [record for record in records if _is_beyond(record, query, start)]
        return records[: query.limit]

    def _living(self, scope: Scope, query: Query[R]) -> Iterator[R]:
        wanted = {"no": (False,), "yes": (False, True), "only": (True,)}[query.deleted]
        for (table, organization, _), record in self._records.items():
            if table != query.record.shape.table or organization != scope.organization_id:
                continue
            if record.is_deleted in wanted and all(self._passes(scope, record, one) for one in query.where):
                yield record  # type: ignore[misc]

    def _passes(self, scope: Scope, record: Record, given: Filter) -> bool:
        if isinstance(given, AnyOf):
            return any(self._passes(scope, record, one) for one in given.filters)
        if isinstance(given, Linked):
            links = self._living(scope, Query(given.record, given.where))
            return any(getattr(link, given.field) == record.id for link in links) == given.wanted
        return passes(record, given) is True


class _Transaction:
    def __init__(self, store: MemoryStore, scope: Scope) -> None:
        self._store = store
        self._scope = scope
        self._undo: list[Callable[[], None]] = []
        self._deleted = 0

    def apply(self, steps: Sequence[Step]) -> Committed:
        seq = self._store._seq
        try:
            for step in steps:
                _VERBS[type(step)](self, step)
        except BaseException:
            for undo in reversed(self._undo):
                undo()
            self._store._seq = seq
            raise
        return Committed(self._store._seq if self._store._seq > seq else 0, self._deleted)

    def _insert(self, step: Insert) -> None:
        key = self._key(step.record)
        self._check_references(step.record, step.record.shape.references, living=not step.restoring)
        if key in self._store._records:
            raise DuplicateKey(f"there is such a {key[0]} already", fields=["id"])
        self._write(key, step.record)

    def _update(self, step: Update) -> None:
        key = self._key(step.record)
        stored = self._store._records.get(key)
        if stored is None:
            raise NotFound(f"there is no {key[0]} '{key[2]}'", id=key[2])
        if stored.version != step.record.version:
            raise VersionConflict(f"{key[0]} '{key[2]}' was changed by someone else", id=key[2])
        self._replace(key, stored, step.record, stored.version + 1)

    def _put(self, step: Put) -> None:
        key = self._key(step.record)
        stored = self._store._records.get(key)
        if stored is None:
            self._insert(Insert(step.record, step.restoring))
        else:
            version = step.record.version if step.restoring else stored.version + 1
            self._replace(key, stored, step.record, version, living=not step.restoring)

    def _delete(self, step: Delete) -> None:
        self._remove((step.record.shape.table, self._scope.organization_id, step.id))

    def _delete_where(self, step: DeleteWhere) -> None:
        if not step.where:
            raise InvalidInput("refusing to delete every record of a kind", remedy="give at least one filter")
        for record in self._store._matching(self._scope, Query(step.record, step.where, deleted="yes")):
            self._remove(self._key(record))

    def _touch(self, step: Touch) -> None:
        key = (step.record.shape.table, self._scope.organization_id, step.id)
        stored = self._store._records.get(key)
        put = checked_touch(step)
        if stored is not None:
            added = {name: (getattr(stored, name) or 0) + amount for name, amount in step.add.items()}
            self._set(self._store._records, key, _copied(stored.model_copy(update={**added, **put})))

    def _require(self, step: Require) -> None:
        where = (equal("id", step.id), *(equal(name, value) for name, value in step.match.items()))
        if not self._store._matching(self._scope, Query(step.record, where)):
            raise RequirementFailed(f"{step.record.shape.table} '{step.id}' is not as required", id=step.id)

    def _absent(self, step: Absent) -> None:
        for found in self._store._matching(self._scope, Query(step.record, step.where, limit=1)):
            raise RequirementFailed(f"there is such a {step.record.shape.table} already", id=found.id)

    def _key(self, record: Record) -> Key:
        if record.organization_id != self._scope.organization_id:
            raise InvalidInput("a record must belong to the organization it is written in", id=record.id)
        return (record.shape.table, record.organization_id, record.id)

    def _replace(self, key: Key, stored: Record, record: Record, version: int, living: bool = True) -> None:
        moved = [name for name in record.shape.references if getattr(record, name) != getattr(stored, name)]
        self._check_references(record, moved, living)
        self._write(key, record.changed(version=version))

    def _write(self, key: Key, record: Record) -> None:
        for unique in record.shape.unique:
            taken = _unique_value(record, unique.fields, unique.nulls_equal)
            for other_key, other in self._store._records.items():
                same_table = other_key[:2] == key[:2] and other_key != key and taken is not None
                if same_table and _unique_value(other, unique.fields, unique.nulls_equal) == taken:
                    raise DuplicateKey(f"there is such a {key[0]} already", fields=list(unique.fields))
        self._set(self._store._records, key, _copied(record))
        self._set(self._store._seqs, key, self._next_seq())
        self._set(self._store._gone, key, None)

    def _check_references(self, record: Record, fields: Any, living: bool = True) -> None:
        for field in fields:
            target, id = record.shape.references[field].to, getattr(record, field)
            found = self._store._records.get((target, record.organization_id, id))
            if id is not None and (found is None or (living and found.is_deleted)):
                raise ReferenceMissing(f"there is no {target} '{id[:80]}' to refer to", field=field, id=id)

    def _remove(self, key: Key) -> None:
        if key not in self._store._records:
            return
        for referrer, field, on_delete in referrers(key[0]):
            hanging = [
                (other, record)
                for other, record in self._store._records.items()
                if isinstance(record, referrer) and other[1] == key[1] and getattr(record, field) == key[2]
            ]
            for other, record in hanging:
                if on_delete == "cascade":
                    self._remove(other)
                else:
                    self._write(other, record.changed(**{field: None, "version": record.version + 1}))
        leaves_trace = self._store._records[key].shape.leaves_trace
        self._set(self._store._records, key, None)
        self._set(self._store._seqs, key, None)
        if leaves_trace:
            self._set(self._store._gone, key, self._next_seq())
        self._deleted += 1

    def _set(self, mapping: dict[Key, Any], key: Key, value: Any) -> None:
        before = mapping.get(key)
        self._undo.append(lambda: _assign(mapping, key, before))
        _assign(mapping, key, value)

    def _next_seq(self) -> int:
        self._store._seq += 1
        return self._store._seq


_VERBS: dict[type, Callable[[_Transaction, Any], None]] = {
    Insert: _Transaction._insert,
    Update: _Transaction._update,
    Put: _Transaction._put,
    Delete: _Transaction._delete,
    DeleteWhere: _Transaction._delete_where,
    Touch: _Transaction._touch,
    Require: _Transaction._require,
    Absent: _Transaction._absent,
}


class MemoryVectors:
    def __init__(self, incarnation: str, last_seq: int, rows: list[VectorRow], tokens: dict[int, bytes | None]) -> None:
        self._tokens = tokens
        self.incarnation = incarnation
        self._last_seq = last_seq
        self._rows = rows

    def last_seq(self) -> int:
        return self._last_seq

    def rows_after(self, seq: int, limit: int) -> list[VectorRow]:
        return [row for row in self._rows if row.seq > seq][:limit]

    def rows_at(self, seqs: Sequence[int]) -> list[VectorRow]:
        wanted = set(seqs)
        return [row for row in self._rows if row.seq in wanted]

    def living_seqs(self, after: int, upto: int) -> list[int]:
        return [row.seq for row in self._rows if after < row.seq <= upto]

    def of_memories(
        self, organization_id: str, space: str, ids: Sequence[str]
    ) -> list[tuple[str, bytes, bytes | None]]:
        wanted = set(ids)
        return [
            (row.memory_id, row.vector, self._tokens[row.seq])
            for row in self._rows
            if row.organization_id == organization_id and row.space == space and row.memory_id in wanted
        ]


def _assign(mapping: dict[Key, Any], key: Key, value: Any) -> None:
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value


def _copied(record: R) -> R:
    return copy.deepcopy(record)


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)


def _sortable_field(name: str, record: Record) -> tuple[bool, Any]:
    return _sortable(getattr(record, name))


def _is_beyond(record: Record, query: Query[Any], start: Sequence[Any]) -> bool:
    for order, mark in zip(query.ordering(), start, strict=True):
        here, there = _sortable(getattr(record, order.field)), _sortable(mark)
        if here != there:
            return here < there if order.descending else here > there
    return False


def _unique_value(record: Record, fields: Sequence[str], nulls_equal: bool) -> tuple[Any, ...] | None:
    values = tuple(getattr(record, name) for name in fields)
    return None if None in values and not nulls_equal else values


def _has_facets(record: Record, facets: Any) -> bool:
    for name, wanted in facets.items():
        value = getattr(record, name)
        if not any(one in wanted for one in (value if isinstance(value, list) else [value])):
            return False
    return True


def _words(record: Record, fields: Sequence[str]) -> set[str]:
    return {word for name in fields for word in WORD.findall((getattr(record, name) or "").casefold())}


def _by_rarity(words: dict[str, set[str]], terms: Sequence[str]) -> list[TextHit]:
    scores: dict[str, float] = {}
    for term in set(terms):
        holders = [id for id, held in words.items() if term in held]
        rarity = math.log(1 + (len(words) - len(holders) + 0.5) / (len(holders) + 0.5))
        for id in holders:
            scores[id] = scores.get(id, 0.0) + rarity
    return [TextHit(id, score) for id, score in scores.items()]
