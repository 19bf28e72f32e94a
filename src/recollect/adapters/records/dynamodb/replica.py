"""What a process keeps of a tenant in memory to search it: the words of its texts, its vectors, the order of sessions.

DynamoDB can search neither. Keeping an item for each word of each text would make a write of fifty words cost fifty
writes; instead each process that searches reads the texts once and then follows the log, which costs one read of the
head for each search when nothing changed. What it keeps equals the table at the head's moment: entries are read until
the head stands still. Nothing is kept on disk; a new process reads the texts again.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.in_python_queries import around, by_rarity, facet_values
from recollect.adapters.records.common.text_terms import terms_of
from recollect.adapters.records.dynamodb.client import pauses
from recollect.adapters.records.dynamodb.codec import StoredRecord
from recollect.adapters.records.dynamodb.log import LogHead, TenantLog
from recollect.adapters.records.dynamodb.tenant_view import TenantView
from recollect.domain.memory import Embedding
from recollect.domain.record import Record
from recollect.domain.text.tokenizer import terms_asked
from recollect.errors import StoreBusy
from recollect.ports.query import Beside, Filter, TextHit, TextQuery, passes
from recollect.ports.vectors import StoredVector, VectorRow

K = TypeVar("K")


class ReplicaIndex(Protocol):
    """Something made from the records of one type."""

    def take(self, id: str, stored: StoredRecord | None) -> None:
        """The record is now this, or gone."""


class Replica:
    """One tenant, followed; under its lock all followers equal the table at the moment of `head`."""

    def __init__(self, tenant: TenantLog, codec: Callable[[type[Record]], Codec]) -> None:
        self._tenant = tenant
        self._codec = codec
        self.lock = threading.RLock()
        self._followers: dict[Hashable, ReplicaIndex] = {}
        self._of_table: dict[str, list[ReplicaIndex]] = {}
        self.head = LogHead()

    def catch_up(self, table: str, make: Callable[[], ReplicaIndex], about: Hashable = None) -> Any:
        """The follower of a table, up to date; one for each thing it is about. To be called and used under the lock."""
        head = self._tenant.head()
        if head.incarnation != self.head.incarnation:
            self._forget()
        if not self._followers:
            self.head = head
        self._follow(head)
        while (table, about) not in self._followers:
            self._load(table, make(), about)
        return self._followers[(table, about)]

    def _forget(self) -> None:
        self._followers, self._of_table = {}, {}

    def _load(self, table: str, follower: ReplicaIndex, about: Hashable) -> None:
        for stored in TenantView(self._tenant, self._codec).everything(table):
            if stored.record is not None:
                follower.take(stored.record.id, stored)
        self._followers[(table, about)] = follower
        self._of_table.setdefault(table, []).append(follower)
        self._follow(self._tenant.head())

    def _follow(self, head: LogHead) -> None:
        for pause in pauses(40):
            if head.is_at(self.head):
                return
            changed = [(table, id) for table, id, _, _ in self._tenant.log_after(self.head.seq)]
            view = TenantView(self._tenant, self._codec)
            wanted = [name for name in changed if name[0] in self._of_table]
            view.fetch(wanted)
            for table, id in wanted:
                for follower in self._of_table[table]:
                    follower.take(id, view.stored(table, id))
            self.head, head = head, self._tenant.head()
            if head.incarnation != self.head.incarnation:
                break
            if not head.is_at(self.head):
                pause()
        else:
            raise StoreBusy("the table is written to faster than it can be read", remedy="try again")
        if not head.is_at(self.head):
            self._forget()
            self.head = head


class TextIndex:
    """Who has which word, and which facet; of the living only."""

    def __init__(self, record: type[Record]) -> None:
        assert record.shape.text is not None
        self._text = record.shape.text
        self._held: dict[str, tuple[list[str], list[tuple[str, object]]]] = {}
        self._holders: dict[str, set[str]] = {}
        self._facets: dict[tuple[str, object], set[str]] = {}

    def take(self, id: str, stored: StoredRecord | None) -> None:
        words, facets = self._held.pop(id, ((), ()))
        for word in words:
            _drop(self._holders, word, id)
        for facet in facets:
            _drop(self._facets, facet, id)
        record = stored.record if stored else None
        if record is None or record.is_deleted:
            return
        found = sorted(terms_of(record))
        marks = [(name, value) for name in self._text.facets for value in facet_values(record, name)]
        self._held[id] = (found, marks)
        for word in found:
            self._holders.setdefault(word, set()).add(id)
        for mark in marks:
            self._facets.setdefault(mark, set()).add(id)

    def search(self, query: TextQuery[Record]) -> list[TextHit]:
        """All that have one of the words, best first; the query's filters are for the caller."""
        scope: set[str] | None = None
        for name, values in query.facets.items():
            having: set[str] = set().union(*(self._facets.get((name, value), ()) for value in values))
            scope = having if scope is None else scope & having
        size = len(self._held) if scope is None else len(scope)
        asked = [self._holders[word] for word in terms_asked(query.terms) if word in self._holders]
        narrowed = asked if scope is None else [holders & scope for holders in asked]
        return by_rarity({str(place): holders for place, holders in enumerate(narrowed)}, size)


class OrderIndex:
    """The order in which records stand within each value of a field; of the living that pass the filters only."""

    def __init__(self, within: str, by: str, where: Sequence[Filter]) -> None:
        self._within = within
        self._by = by
        self._where = where
        self._held: dict[str, tuple[Any, tuple[Any, str]]] = {}
        self._orders: dict[Any, list[tuple[Any, str]]] = {}

    def take(self, id: str, stored: StoredRecord | None) -> None:
        if id in self._held:
            within, place = self._held.pop(id)
            order = self._orders[within]
            del order[bisect_left(order, place)]
            if not order:
                del self._orders[within]
        record = stored.record if stored else None
        if record is None or record.is_deleted or getattr(record, self._within) is None:
            return
        if all(passes(record, one) for one in self._where):
            within, place = getattr(record, self._within), (getattr(record, self._by), id)
            self._held[id] = within, place
            insort(self._orders.setdefault(within, []), place)

    def beside(self, query: Beside[Record]) -> list[list[str]]:
        return [around(self._orders.get(within, []), (by, id), query.reach) for within, by, id in query.places]


def _drop(index: dict[K, set[str]], key: K, id: str) -> None:
    index[key].discard(id)
    if not index[key]:
        del index[key]


class Vectors:
    """The stored vectors by seq. A row that died is kept as long as a snapshot may still want it."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[VectorRow, StoredVector]] = {}
        self._seqs: list[int] = []
        self._of: dict[str, int] = {}
        self._memories: dict[tuple[str, str], list[int]] = {}
        self._died: dict[int, int] = {}
        self._clock = 0
        self._open: list[int] = []

    def take(self, id: str, stored: StoredRecord | None) -> None:
        self._clock += 1
        before = self._of.pop(id, None)
        made = stored.record if stored else None
        if stored is not None and before == stored.seq and made is not None:
            self._of[id] = before
            return
        if before is not None:
            row = self._rows[before][0]
            parts = self._memories[(row.space, row.memory_id)]
            parts.remove(before)
            if not parts:
                del self._memories[(row.space, row.memory_id)]
            self._died[before] = self._clock
        if stored is not None and isinstance(made, Embedding):
            row = VectorRow(
                stored.seq, made.organization_id, made.memory_id, made.space, tuple(made.facets), made.vector
            )
            kept = (made.memory_id, made.vector, made.tokens, made.start, made.end)
            self._rows[stored.seq] = (row, kept)
            insort(self._seqs, stored.seq)
            self._of[id] = stored.seq
            self._memories.setdefault((row.space, row.memory_id), []).append(stored.seq)
        self._bury()

    def _bury(self) -> None:
        if self._open or len(self._died) < 1 + len(self._rows) // 8:
            return
        for seq in self._died:
            del self._rows[seq]
        self._died.clear()
        self._seqs = sorted(self._rows)

    def opened(self) -> int:
        self._open.append(self._clock)
        return self._clock

    def let_go(self, moment: int) -> None:
        self._open.remove(moment)

    def is_alive(self, seq: int, moment: int) -> bool:
        return seq in self._rows and self._died.get(seq, moment + 1) > moment

    def between(self, after: int, upto: int | None = None) -> Iterator[int]:
        start = bisect_right(self._seqs, after)
        for place in range(start, len(self._seqs)):
            if upto is not None and self._seqs[place] > upto:
                return
            yield self._seqs[place]

    def row(self, seq: int) -> VectorRow:
        return self._rows[seq][0]

    def of_memory(self, space: str, id: str) -> list[StoredVector]:
        return [self._rows[seq][1] for seq in self._memories.get((space, id), ())]


class ReplicaSnapshot:
    """The vectors of one tenant at one moment; see ports.vectors.VectorSnapshot."""

    def __init__(self, followed: Replica, vectors: Vectors, head: LogHead, moment: int) -> None:
        self._followed = followed
        self._vectors = vectors
        self._head = head
        self._moment = moment
        self.incarnation = head.incarnation or "none"

    def last_seq(self) -> int:
        return self._head.seq

    def rows_after(self, seq: int, limit: int) -> list[VectorRow]:
        with self._followed.lock:
            rows: list[VectorRow] = []
            for one in self._vectors.between(seq, self._head.seq):
                if len(rows) == limit:
                    break
                if self._is_alive(one):
                    rows.append(self._vectors.row(one))
            return rows

    def rows_at(self, seqs: Sequence[int]) -> list[VectorRow]:
        with self._followed.lock:
            return [self._vectors.row(int(seq)) for seq in seqs if self._is_alive(int(seq))]

    def living_seqs(self, after: int, upto: int) -> list[int]:
        with self._followed.lock:
            return [seq for seq in self._vectors.between(after, upto) if self._is_alive(seq)]

    def _is_alive(self, seq: int) -> bool:
        return seq <= self._head.seq and self._vectors.is_alive(seq, self._moment)


class ReplicaVectors:
    """Where the index of one tenant reads its vectors from."""

    def __init__(self, followed: Replica) -> None:
        self._followed = followed

    @contextmanager
    def vector_snapshot(self) -> Iterator[ReplicaSnapshot]:
        followed = self._followed
        with followed.lock:
            vectors: Vectors = followed.catch_up(Embedding.shape.table, Vectors)
            moment = vectors.opened()
            snapshot = ReplicaSnapshot(followed, vectors, followed.head, moment)
        try:
            yield snapshot
        finally:
            with followed.lock:
                vectors.let_go(moment)
