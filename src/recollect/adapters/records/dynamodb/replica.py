"""What a process keeps of a tenant to search it: the words of its texts, its vectors, the order of sessions.

DynamoDB can search neither. Keeping an item for each word of each text would make a write of fifty words cost fifty
writes; instead each process that searches reads the texts once, or fetches a sealed copy of what another process made
of them (segments.py), and then follows the log: one read of the head for each search when nothing changed. What it
keeps equals the table at the head's moment: entries are read until the head stands still. Texts and vectors
are kept in a file without a name (replica_file.py), in memory only the order of ids within sessions.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.in_python_queries import around
from recollect.adapters.records.dynamodb.client import pauses
from recollect.adapters.records.dynamodb.facts import Known
from recollect.adapters.records.dynamodb.log import LogHead, TenantLog
from recollect.adapters.records.dynamodb.replica_file import EMBEDDINGS, ReplicaFile
from recollect.adapters.records.dynamodb.segments import Segments
from recollect.adapters.records.dynamodb.tenant_view import TenantView
from recollect.domain.record import RECORDS, Record
from recollect.errors import StoreBusy
from recollect.ports.query import Beside, Filter, TextHit, TextQuery, passes
from recollect.ports.vectors import StoredVector, VectorRow

About = tuple[str, str, str, tuple[Filter, ...]]


class Replica:
    """One tenant, followed; under its lock the file equals the table at the moment of `head`."""

    def __init__(
        self,
        tenant: TenantLog,
        codec: Callable[[type[Record]], Codec],
        segments: Callable[[], Segments | None] = lambda: None,
        *,
        in_memory: bool = False,
    ) -> None:
        """`in_memory`: the file is, too, because the store is encrypted."""
        self._tenant = tenant
        self._codec = codec
        self._segments = segments
        self._in_memory = in_memory
        self.lock = threading.RLock()
        self._file: ReplicaFile | None = None
        self._orders: dict[About, OrderIndex] = {}
        self._unsealed = 0
        self.head = LogHead(shards=1)

    def search(self, query: TextQuery[Record]) -> list[TextHit]:
        with self.lock:
            return self.caught_up(query.record.shape.table).search(query)

    def stored_vectors(self, space: str, ids: Sequence[str]) -> list[StoredVector]:
        with self.lock:
            file = self.caught_up(EMBEDDINGS)
            return [found for id in ids for found in file.vectors_of(space, id)]

    def beside(self, query: Beside[Record]) -> list[list[str]]:
        with self.lock:
            file = self.caught_up(query.record.shape.table)
            about = (query.record.shape.table, query.within, query.by, query.where)
            if about not in self._orders:
                self._orders[about] = self._ordered(file, query)
            return self._orders[about].beside(query)

    def _ordered(self, file: ReplicaFile, query: Beside[Record]) -> OrderIndex:
        order = OrderIndex(query.within, query.by, query.where)
        unclear = [id for id, known in file.small_fields(query.record) if not order.take_known(id, known)]
        view = TenantView(self._tenant, self._codec, self.head)
        view.fetch([(query.record.shape.table, id) for id in unclear])
        for id in unclear:
            order.take(id, view.record(query.record.shape.table, id))
        return order

    def close(self) -> None:
        """The file goes with the last who reads it."""
        with self.lock:
            self._file = None

    # -- following ---------------------------------------------------------------------------------------------------

    def caught_up(self, table: str) -> ReplicaFile:
        """The file, up to date and with this table. To be called and used under the lock."""
        head = self._tenant.head()
        if self._file is None or head.incarnation != self.head.incarnation:
            self._begin(head)
        self._follow(head)
        if table in self._kept().loaded():  # a search asks for several tables: all of them go into one segment
            self._seal_if_due()
        while table not in self._kept().loaded():
            self._load(table)
        return self._kept()

    def _seal_if_due(self) -> None:
        """One try: after as many changes again, or in the next process, there is another."""
        segments = self._segments()
        if segments is not None and segments.is_due(self._kept().size(), self._unsealed):
            self._unsealed = 0
            segments.seal(self._tenant, self.head, self._kept())

    def _kept(self) -> ReplicaFile:
        assert self._file is not None
        return self._file

    def _begin(self, head: LogHead) -> None:
        """From the segment in force, or from nothing."""
        self._file, self._orders, self.head = ReplicaFile(in_memory=self._in_memory), {}, head
        segments = self._segments()
        seq = segments.fill(self._tenant, head, self._file) if segments is not None else None
        if seq is not None:
            self.head = replace(head, seq=seq)

    def _load(self, table: str) -> None:
        record, file = RECORDS[table], self._kept()
        with file.changing:
            for stored in TenantView(self._tenant, self._codec, self.head).everything(table):
                if stored.record is not None:
                    file.take(record, stored.record.id, stored)
                    self._unsealed += 1
            file.has_loaded(table)
        self._follow(self._tenant.head())

    def _follow(self, head: LogHead) -> None:
        for pause in pauses(40):
            if head.is_at(self.head):
                return
            self._take_changes()
            self.head, head = head, self._tenant.head()
            if head.incarnation != self.head.incarnation:
                break
            if not head.is_at(self.head):
                pause()
        else:
            raise StoreBusy("the table is written to faster than it can be read", remedy="try again")
        if not head.is_at(self.head):
            self._begin(head)

    def _take_changes(self) -> None:
        file = self._kept()
        loaded = file.loaded()
        changed = dict.fromkeys(
            (table, id) for table, id, _, _ in self._tenant.log_after(self.head.seq) if table in loaded
        )
        view = TenantView(self._tenant, self._codec, self.head)
        view.fetch(changed)
        with file.changing:
            for table, id in changed:
                file.take(RECORDS[table], id, view.stored(table, id))
        for table, id in changed:
            for about, order in self._orders.items():
                if about[0] == table:
                    order.take(id, view.record(table, id))
        self._unsealed += len(changed)


class OrderIndex:
    """The order in which records stand within each value of a field; of the living that pass the filters only."""

    def __init__(self, within: str, by: str, where: Sequence[Filter]) -> None:
        self._within = within
        self._by = by
        self._where = where
        self._held: dict[str, tuple[Any, tuple[Any, str]]] = {}
        self._orders: dict[Any, list[tuple[Any, str]]] = {}

    def take(self, id: str, record: Record | None) -> None:
        if id in self._held:
            within, place = self._held.pop(id)
            order = self._orders[within]
            del order[bisect_left(order, place)]
            if not order:
                del self._orders[within]
        if record is None or record.is_deleted or getattr(record, self._within) is None:
            return
        if all(passes(record, one) for one in self._where):
            self._put(id, record)

    def take_known(self, id: str, known: Known) -> bool:
        """A record that is not in it yet; False if it has to be read."""
        needed = {self._within, self._by} - {"id"}
        verdict = known.passes_all(self._where) if needed <= known.names else None
        if verdict and getattr(known.known, self._within) is not None:
            self._put(id, known.known)
        return verdict is not None

    def _put(self, id: str, record: Record) -> None:
        place = (id if self._by == "id" else getattr(record, self._by), id)
        within = getattr(record, self._within)
        self._held[id] = within, place
        insort(self._orders.setdefault(within, []), place)

    def beside(self, query: Beside[Record]) -> list[list[str]]:
        return [around(self._orders.get(within, []), (by, id), query.reach) for within, by, id in query.places]


class ReplicaSnapshot:
    """The vectors of one tenant at one moment; see ports.vectors.VectorSnapshot."""

    def __init__(self, lock: threading.RLock, file: ReplicaFile, tenant_id: str, head: LogHead, moment: int) -> None:
        self._lock = lock
        self._file = file
        self._tenant_id = tenant_id
        self._head = head
        self._moment = moment
        self.incarnation = head.incarnation or "none"

    def last_seq(self) -> int:
        return self._head.seq

    def rows_after(self, seq: int, limit: int) -> list[VectorRow]:
        return self._rows("seq > :after", "ORDER BY seq LIMIT :limit", after=seq, limit=limit)

    def rows_at(self, seqs: Sequence[int]) -> list[VectorRow]:
        asked = ",".join(str(int(seq)) for seq in seqs)
        return self._rows("seq IN (SELECT value FROM json_each(:asked))", asked=f"[{asked}]")

    def living_seqs(self, after: int, upto: int) -> list[int]:
        with self._lock:
            return self._file.living_seqs(self._moment, after, min(upto, self._head.seq))

    def _rows(self, where: str, order: str = "", **values: object) -> list[VectorRow]:
        given = {"moment": self._moment, "last": self._head.seq, **values}
        with self._lock:
            return self._file.rows(self._tenant_id, f"seq <= :last AND {where}", order, **given)


class ReplicaVectors:
    """Where the index of one tenant reads its vectors from."""

    def __init__(self, followed: Replica, tenant_id: str) -> None:
        self._followed = followed
        self._tenant_id = tenant_id

    @contextmanager
    def vector_snapshot(self) -> Iterator[ReplicaSnapshot]:
        followed = self._followed
        with followed.lock:
            file = followed.caught_up(EMBEDDINGS)
            moment = file.opened()
            snapshot = ReplicaSnapshot(followed.lock, file, self._tenant_id, followed.head, moment)
        try:
            yield snapshot
        finally:
            with followed.lock:
                file.let_go(moment)
