"""The plain in-memory store: the reference that every other store is compared with, and a store for tests.

It keeps every rule of the port in the most obvious way, so that reading it tells what the rules mean. Nothing is
durable. A transaction is undone by putting back what each step replaced.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from recollect.adapters.records.common.checks import check_beside, check_filters, check_groups, check_query, check_text
from recollect.adapters.records.common.in_python_queries import (
    LIVING,
    by_rarity,
    counted,
    fits,
    has_facets,
    in_order,
    leading_to,
    once,
    paged,
    stand_beside,
)
from recollect.adapters.records.common.record_tables import RecordTables, dangling
from recollect.adapters.records.common.text_terms import terms_of
from recollect.adapters.records.common.transaction import Transaction, unique_values
from recollect.domain.memory import Embedding
from recollect.domain.record import Record, Unique, new_id
from recollect.domain.text.tokenizer import terms_asked
from recollect.errors import Closed, InvalidInput
from recollect.ports.query import Beside, Linked, OneOf, Page, Query, Reading, Row, Spans, TextHit, TextQuery
from recollect.ports.records import Capabilities, Change, Problem, Scope
from recollect.ports.steps import Committed, Step
from recollect.ports.vectors import StoredVector, VectorRow

R = TypeVar("R", bound=Record)
T = TypeVar("T")
Key = tuple[str, str, str]  # table, organization, id


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
            return paged([_copied(record) for record in self._matching(scope, query)], query)

    def select(self, scope: Scope, query: Query[Record], fields: Sequence[str]) -> list[Row]:
        check_query(query, fields)
        return [tuple(getattr(record, name) for name in fields) for record in self.find(scope, query).records]

    def select_each(self, scope: Scope, readings: Sequence[Reading]) -> list[list[Row]]:
        return [self.select(scope, query, fields) for query, fields in readings]

    def beside(self, scope: Scope, query: Beside[Record]) -> list[list[str]]:
        check_beside(query)
        with self._reading():
            within = OneOf(query.within, tuple({place[0] for place in query.places}))
            return stand_beside(query, self._living(scope, Query(query.record, (within, *query.where))))

    def count(self, scope: Scope, query: Query[Record], most: int | None = None) -> int:
        with self._reading():
            check_filters(query.record, query.where)
            return sum(1 for _ in islice(self._living(scope, query), most))

    def count_by(self, scope: Scope, query: Query[Record], by: Sequence[str | Spans]) -> dict[Row, int]:
        check_filters(query.record, query.where)
        check_groups(query.record, by)
        with self._reading():
            return counted(self._living(scope, query), by)

    def transact(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        with self._reading():
            return _Tables(self, scope).apply(steps)

    def search_text(self, scope: Scope, query: TextQuery[Record]) -> list[TextHit]:
        check_text(query)
        with self._reading():
            scoped = [r for r in self._living(scope, Query(query.record)) if has_facets(r, query.facets)]
            wanted = {record.id for record in self._living(scope, Query(query.record, query.where))}
        held = {record.id: terms_of(record) for record in scoped}
        holders = {term: [id for id, terms in held.items() if term in terms] for term in terms_asked(query.terms)}
        return [hit for hit in by_rarity(holders, len(scoped)) if hit.id in wanted][: query.limit]

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
                for field in dangling(record, partial(self._is_there, organization))
            ]

    def mend(self) -> list[str]:
        return []

    def erase_traces(self) -> list[str]:
        """Nothing is kept of what was deleted."""
        return []

    def rename_deleted(self, scope: Scope, names: Mapping[tuple[str, str], str]) -> None:
        with self._reading():
            for (table, id), name in names.items():
                seq = self._gone.pop((table, scope.organization_id, id), None)
                if seq is not None:
                    self._gone[table, scope.organization_id, name] = seq

    def close(self) -> None:
        self._closed = True

    @contextmanager
    def snapshot(self, scope: Scope) -> Iterator[MemoryStore]:
        moment = MemoryStore()
        with self._reading():
            mine = [(key, one) for key, one in self._records.items() if key[1] == scope.organization_id]
            moment._records = dict(mine)  # a record is replaced, never changed
        try:
            yield moment
        finally:
            moment.close()

    @contextmanager
    def vector_snapshot(self) -> Iterator[MemoryVectors]:
        with self._reading():
            rows = [
                VectorRow(self._seqs[key], e.organization_id, e.memory_id, e.space, tuple(e.facets), e.vector)
                for key, e in self._records.items()
                if isinstance(e, Embedding)
            ]
            snapshot = MemoryVectors(self._incarnation, self._seq, sorted(rows, key=lambda row: row.seq))
        yield snapshot

    def stored_vectors(self, scope: Scope, space: str, ids: Sequence[str]) -> list[StoredVector]:
        wanted = set(ids)
        with self._reading():
            return [
                (e.memory_id, e.vector, e.tokens, e.start, e.end)
                for (_, organization, _), e in self._records.items()
                if isinstance(e, Embedding)
                and organization == scope.organization_id
                and e.space == space
                and e.memory_id in wanted
            ]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise Closed("this store is closed", remedy="open it again")
            yield

    def _matching(self, scope: Scope, query: Query[R]) -> list[R]:
        check_query(query)
        return in_order(self._living(scope, query), query)

    def _living(self, scope: Scope, query: Query[R]) -> Iterator[R]:
        wanted = LIVING[query.deleted]
        linked = once(partial(self._linked, scope))
        for (table, organization, _), record in self._records.items():
            if table != query.record.shape.table or organization != scope.organization_id:
                continue
            if record.is_deleted in wanted and all(fits(record, one, linked) for one in query.where):
                yield record  # type: ignore[misc]

    def _linked(self, scope: Scope, given: Linked) -> set[str]:
        return {getattr(link, given.field) for link in self._living(scope, leading_to(given))}

    def _is_there(self, organization_id: str, table: str, id: str) -> bool:
        return (table, organization_id, id) in self._records


class _Tables(RecordTables):
    """The tables of one transaction: the store itself, with what each change replaced."""

    def __init__(self, store: MemoryStore, scope: Scope) -> None:
        self._store = store
        self._scope = scope
        self._undo: list[Callable[[], None]] = []
        self.seq = store._seq

    def apply(self, steps: Sequence[Step]) -> Committed:
        try:
            done = Transaction(self, self._scope).apply(steps)
        except BaseException:
            for undo in reversed(self._undo):
                undo()
            raise
        self._store._seq = self.seq
        return done

    def read(self, table: str, id: str) -> Record | None:
        return self._store._records.get((table, self._scope.organization_id, id))

    def matching(self, query: Query[R]) -> list[R]:
        return self._store._matching(self._scope, query)

    def hanging(self, record: type[R], field: str, ids: Sequence[str]) -> list[R]:
        wanted = set(ids)
        everything = self._store._living(self._scope, Query(record, deleted="yes"))
        return [one for one in everything if getattr(one, field) in wanted]

    def is_taken(self, record: Record, key: Unique, values: tuple[object, ...]) -> bool:
        everything = self._store._living(self._scope, Query(type(record), deleted="yes"))
        return any(one.id != record.id and unique_values(one, key) == values for one in everything)

    def write(self, record: Record) -> None:
        key = _key(record)
        self._set(self._store._records, key, _copied(record))
        self._set(self._store._seqs, key, self._next_seq())
        self._set(self._store._gone, key, None)

    def rewrite(self, record: Record) -> None:
        self._set(self._store._records, _key(record), _copied(record))

    def erase(self, record: Record) -> None:
        key = _key(record)
        self._set(self._store._records, key, None)
        self._set(self._store._seqs, key, None)
        if record.shape.leaves_trace:
            self._set(self._store._gone, key, self._next_seq())

    def _set(self, mapping: dict[Key, T], key: Key, value: T | None) -> None:
        before = mapping.get(key)
        self._undo.append(lambda: _assign(mapping, key, before))
        _assign(mapping, key, value)

    def _next_seq(self) -> int:
        self.seq += 1
        return self.seq


class MemoryVectors:
    def __init__(self, incarnation: str, last_seq: int, rows: list[VectorRow]) -> None:
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


def _assign(mapping: dict[Key, T], key: Key, value: T | None) -> None:
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value


def _copied(record: R) -> R:
    return copy.deepcopy(record)


def _key(record: Record) -> Key:
    return (record.shape.table, record.organization_id, record.id)
