"""Rows of memories and vectors that were read before, kept for the next question until somebody changes them.

SQLite's own cache is emptied by every commit, whoever's it is, and recalls are followed by commits that note what was
shown. So a recall read, checked and decoded some 300 rows and as many vectors anew: half of its time. What is kept here
outlives commits that changed something else. Each transaction compares the marks of the store (`row_marks.py`) with
those of what is kept: rows with a later seq, and vectors that ended, are dropped; where too much happened, or something
that the marks cannot tell one by one, everything is.

Nothing is answered from here that the transaction would not have read: one that sees an earlier moment than what is
kept reads for itself, and what it reads is not kept. What is counted up without a new seq (how often a memory was read)
is not kept either.

A step that is cut off half-way (Ctrl-C in a notebook) leaves nothing behind: all is dropped then.

What is kept are plain tuples of plain values, which Python's garbage collector leaves alone: named ones it would look
at again and again, 0.1 s at a time. Proof: tests/adapters/records/sqlite/test_known_rows.py.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import repeat, starmap
from operator import itemgetter
from typing import Any, Generic, TypeVar

import apsw

from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.adapters.records.common.vector_rows import VECTOR_COLUMNS, vector_rows
from recollect.adapters.records.sqlite.known_queries import FIELDS, PLACES, WITHIN, KnownQuery, RecentFilters
from recollect.adapters.records.sqlite.row_marks import RowMarks, read_marks
from recollect.domain.record import Record
from recollect.ports.query import Beside, Filter, Row
from recollect.ports.vectors import StoredVector, VectorRow

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Owner = tuple[str, str]
"""A memory: its organization and id."""
Space = tuple[str, str, str]
"""Organization, namespace and model."""

MOST_CHANGES = 5_000
"""Beyond so many new seqs it is quicker to begin anew than to find out what they are of."""
MOST_SHARED, MOST_STRETCHES, MOST_WAYS, MOST_OWNERS = 100_000, 50_000, 1_000, 400_000
"""Of what leads to rows and vectors; fewer in proportion where less room is given."""
ROW_BYTES, VECTOR_BYTES = 96_000_000, 128_000_000
SHARE_OF_ROWS = ROW_BYTES / (ROW_BYTES + VECTOR_BYTES)
LONGEST_SHARED = 100  # characters
_ROW_OVERHEAD, _VECTOR_OVERHEAD = 600, 500  # as measured, with what leads to them
_ID, _TEXT, _AUTHOR, _NAMESPACES = PLACES["id"], PLACES["text"], PLACES["author"], PLACES["namespaces"]
_ROW, _ORGANIZATION = len(FIELDS), len(FIELDS) + 1  # behind the fields
_SHARED = tuple(PLACES[name] for name in ("kind", "status", "user_id", "agent_id", "session_id", "level"))
_CHANGED = (
    f"SELECT 'memory', organization_id, id, version, {', '.join(WITHIN)} FROM memory WHERE _seq > ?1"
    " UNION ALL SELECT 'memory', organization_id, id, 2, NULL, NULL, NULL, NULL FROM recollect_gone"
    " WHERE seq > ?1 AND table_name = 'memory'"
    " UNION ALL SELECT 'vector', organization_id, memory_id, 0, namespace, model, NULL, NULL FROM embedding"
    " WHERE _seq > ?1"
)
_COLUMNS = ", ".join(f"t.{quoted(name)}" for name in FIELDS)
_MEMORIES = f"SELECT {_COLUMNS}, t._row FROM carray(?) c CROSS JOIN memory t ON t.organization_id = ?"
_BY_ID, _BY_ROW = f"{_MEMORIES} AND t.id = c.value", f"{_MEMORIES} AND t._row = c.value"
_VECTORS = f'SELECT {VECTOR_COLUMNS}, tokens, start, "end" FROM carray(?) c CROSS JOIN embedding e ON'
_SEQ, _TENANT, _OWNER, _SPACE, _VECTOR, _DESCRIBED = 0, 1, 2, 3, 5, 6  # a VectorRow; then its codes, start and end
_VECTORS_AT = f"{_VECTORS} e._seq = c.value"
_VECTORS_OF = f"{_VECTORS} e.organization_id = ? AND e.memory_id = c.value AND e.namespace = ? AND e.model = ?"


class _Bounded(Generic[K, V]):
    """Up to so many bytes; then what came first goes, and leaves a quarter of the room."""

    def __init__(self, most_bytes: int, size_of: Callable[[V], int]) -> None:
        self.entries: dict[K, V] = {}
        self.most, self._size_of = most_bytes, size_of
        self._bytes = 0

    def put(self, entries: Mapping[K, V]) -> None:
        for key in self.entries.keys() & entries.keys():
            self.drop(key)
        self.entries |= entries
        self._bytes += sum(map(self._size_of, entries.values()))

    def drop(self, key: K) -> V | None:
        found = self.entries.pop(key, None)
        if found is not None:
            self._bytes -= self._size_of(found)
        return found

    def surplus(self) -> list[tuple[K, V]]:
        """What has to go, so that there is room."""
        if self._bytes <= self.most:
            return []
        left, going = self._bytes, []
        for key, value in self.entries.items():
            if left <= 3 * self.most // 4:
                break
            left -= self._size_of(value)
            going.append((key, value))
        return going

    def clear(self) -> None:
        self.entries, self._bytes = {}, 0


class KnownRows:
    """Of one open store, for all threads."""

    def __init__(self, codec: Codec, row_bytes: int = ROW_BYTES, vector_bytes: int = VECTOR_BYTES) -> None:
        self._codec = codec
        # Where fields are encrypted one by one, whoever reads them is asked for the key each time.
        self.keeps_memories = not any(map(codec.is_sealed, FIELDS))
        self._filters = RecentFilters()
        self._lock = threading.Lock()
        self._marks: RowMarks | None = None
        self._rows: _Bounded[int, Row] = _Bounded(row_bytes, _row_size)
        self._ids: dict[str, dict[str, Row]] = {}
        self._vectors: _Bounded[int, Row] = _Bounded(vector_bytes, _vector_size)
        self._owners: dict[Space, dict[str, tuple[StoredVector, ...]]] = {}
        self._owned = 0
        self._share = 1.0
        """Of what is kept by default, beside rows and vectors."""
        self._stretches: dict[tuple[str, str, Any], dict[Hashable, tuple[str, ...]]] = {}
        self._ways: dict[Hashable, int] = {}
        """Numbers for the ways to ask for a stretch: to be compared once, and not for each place."""
        self._stretched = 0
        self._shared: dict[Hashable, Any] = {}

    def limit(self, most_bytes: int) -> None:
        """Up to so many bytes from now on, of rows and vectors together."""
        with self._lock:
            self._forget_all()
            self._rows.most = int(most_bytes * SHARE_OF_ROWS)
            self._vectors.most = most_bytes - self._rows.most
            self._share = min(1.0, most_bytes / (ROW_BYTES + VECTOR_BYTES))

    def clear(self) -> None:
        with self._lock:
            self._forget_all()
            self._filters = RecentFilters()  # which name whom they ask about

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """For one thread at a time, and whole."""
        with self._lock:
            try:
                yield
            except BaseException:
                self._forget_all()
                raise

    def view(self, connection: apsw.Connection, counters: Mapping[str, Any]) -> RowMarks | None:
        """What the transaction of a connection sees, with these counters of the store; None where what is kept cannot
        be told to be of it.
        """
        marks = read_marks(counters.get("row_marks"), counters["seq"])
        if marks is None:
            return None
        if marks == self._marks:
            return marks
        with self._changing():
            known = self._marks
            if known is not None and marks.epoch == known.epoch:
                if marks.seq < known.seq or marks.ended < known.ended:
                    return None
                self._forget_changed(connection, known, marks)
            else:
                self._forget_all()
            self._marks = marks
            return marks

    def _forget_all(self) -> None:
        self._marks = None
        self._rows.clear()
        self._vectors.clear()
        self._ids, self._owners, self._shared, self._owned = {}, {}, {}, 0
        self._forget_stretches()

    def _forget_stretches(self) -> None:
        self._stretches, self._ways, self._stretched = {}, {}, 0

    def _forget_changed(self, connection: apsw.Connection, known: RowMarks, now: RowMarks) -> None:
        ended = now.ended - known.ended
        if now.seq - known.seq > MOST_CHANGES or ended > len(now.last_ended):
            self._forget_all()
            return
        for seq in now.last_ended[len(now.last_ended) - ended :]:
            self._forget_vector(seq)
        for what, organization_id, id, version, *rest in connection.execute(_CHANGED, (known.seq,)):
            if what == "vector":
                self._owners.get((organization_id, *rest[:2]), {}).pop(id, None)
            else:
                self._forget_memory(organization_id, id, version == 1, rest)

    def _forget_vector(self, seq: int) -> None:
        found = self._vectors.drop(seq)
        if found is not None:
            namespace, _, model = found[_SPACE].partition("/")
            self._owners.get((found[_TENANT], namespace, model), {}).pop(found[_OWNER], None)

    def _forget_memory(self, organization_id: str, id: str, is_new: bool, within: Sequence[Any]) -> None:
        """With the stretches that it stood or stands in now."""
        before = self._ids.get(organization_id, {}).pop(id, None)
        if before is not None:
            self._rows.drop(before[_ROW])
            self._forget_around(organization_id, [before[PLACES[name]] for name in WITHIN])
        elif not is_new:
            self._forget_stretches()
        self._forget_around(organization_id, within)

    def _forget_around(self, organization_id: str, within: Sequence[Any]) -> None:
        for name, value in zip(WITHIN, within, strict=True):
            self._stretches.pop((organization_id, name, value), None)

    # -- memories ------------------------------------------------------------------------------------------------------

    def select(
        self, view: RowMarks, connection: apsw.Connection, asked: KnownQuery, organization_id: str
    ) -> list[Row] | None:
        """None where something else is asked for than what is kept, of rows of which not all are known."""
        with self._lock:
            known = self._ids.get(organization_id) if self._marks == view else None
            found = list(map(known.get, asked.ids)) if known else [None] * len(asked.ids)
        rows = [row for row in found if row is not None]
        if len(rows) < len(found):
            if not asked.is_kept:
                return None
            unread = tuple(id for id, row in zip(asked.ids, found, strict=True) if row is None)
            rows += self._read(view, connection, _BY_ID, apsw.carray(unread), organization_id)
        passing = asked.ordered(self._filters.passing(rows, asked.filters))
        return asked.of(passing) if asked.is_kept else self._rest_of(connection, passing, asked.fields)

    def _rest_of(self, connection: apsw.Connection, passing: Sequence[Row], fields: tuple[str, ...]) -> list[Row]:
        """Fields that are not kept, of rows that are known to pass."""
        import numpy as np

        if not passing:  # an array must not be empty
            return []
        wanted = apsw.carray(np.array([row[_ROW] for row in passing], np.int64))
        rows = connection.execute(_fields_at(tuple(self._codec.fields_to_read(fields))), (wanted,)).fetchall()
        return self._codec.decoded(passing[0][_ORGANIZATION], rows, fields)

    def passing_rows(
        self,
        view: RowMarks,
        connection: apsw.Connection,
        rows: Sequence[int],
        organization_id: str,
        filters: tuple[Filter, ...],
    ) -> dict[int, str]:
        """The ids of those that pass, by the numbers of their rows."""
        import numpy as np

        with self._lock:
            found = list(map(self._rows.entries.get, rows)) if self._marks == view else [None] * len(rows)
        kept = [row for row in found if row is not None and row[_ORGANIZATION] == organization_id]
        unread = [number for number, row in zip(rows, found, strict=True) if row is None]
        if unread:
            kept += self._read(view, connection, _BY_ROW, apsw.carray(np.array(unread, np.int64)), organization_id)
        return {row[_ROW]: row[_ID] for row in self._filters.passing(kept, filters)}

    def _read(
        self, view: RowMarks, connection: apsw.Connection, text: str, wanted: object, organization_id: str
    ) -> list[Row]:
        read: list[Row] = connection.execute(text, (wanted, organization_id)).fetchall()
        decoded = self._codec.decoded(organization_id, read, FIELDS)
        with self._changing():
            rows = self._compact(decoded, [row[_ROW] for row in read], organization_id)
            if self._marks == view:
                self._ids.setdefault(organization_id, {}).update((row[_ID], row) for row in rows)
                self._rows.put({row[_ROW]: row for row in rows})
                for number, row in self._rows.surplus():
                    self._rows.drop(number)
                    self._ids[row[_ORGANIZATION]].pop(row[_ID], None)
        return rows

    def _compact(self, rows: Sequence[Row], numbers: Sequence[int], organization_id: str) -> list[Row]:
        """Hashable, with one object for a value that many rows have; with their numbers and the organization."""
        if not rows:
            return []
        if len(self._shared) >= MOST_SHARED * self._share:
            self._shared = {}
        columns: list[Iterable[Any]] = list(zip(*rows, strict=True))
        shared = self._shared
        for place in _SHARED:
            columns[place] = [shared.setdefault(value, value) for value in columns[place]]
        columns[_AUTHOR] = [
            shared.setdefault(one, one) if one is None or len(one) <= LONGEST_SHARED else one
            for one in columns[_AUTHOR]
        ]
        columns[_NAMESPACES] = [
            shared.setdefault(some, some) if sum(map(len, some)) <= LONGEST_SHARED else some
            for some in map(tuple, columns[_NAMESPACES])
        ]
        return list(zip(*columns, numbers, repeat(organization_id)))

    # -- what stands beside them --------------------------------------------------------------------------------------

    def beside(
        self,
        view: RowMarks,
        organization_id: str,
        asked: Beside[Record],
        read: Callable[[tuple[tuple[Any, Any, str], ...]], list[list[str]]],
    ) -> list[list[str]]:
        """`read` tells of places that are not known."""
        with self._changing():
            way = self._way(asked)
            known: list[tuple[str, ...] | None] = [None] * len(asked.places)
            if self._marks == view:
                groups = self._stretches
                known = [
                    groups.get((organization_id, asked.within, within), {}).get((way, by, id))
                    for within, by, id in asked.places
                ]
        unread = tuple(place for place, one in zip(asked.places, known, strict=True) if one is None)
        if not unread:
            return [list(one) for one in known if one is not None]
        found = read(unread)
        with self._changing():
            if self._marks == view:
                self._keep_stretches(organization_id, asked, unread, found)
        told = iter(found)
        return [next(told) if one is None else list(one) for one in known]

    def _way(self, asked: Beside[Record]) -> int:
        if len(self._ways) >= MOST_WAYS:
            self._forget_stretches()
        return self._ways.setdefault((asked.by, asked.reach, asked.where), len(self._ways))

    def _keep_stretches(
        self,
        organization_id: str,
        asked: Beside[Record],
        places: Sequence[tuple[Any, Any, str]],
        found: Iterable[list[str]],
    ) -> None:
        if self._stretched + len(places) > MOST_STRETCHES * self._share:
            self._forget_stretches()
        if len(places) > MOST_STRETCHES * self._share:
            return
        way = self._way(asked)  # it may have another number by now
        for (group, by, id), ids in zip(places, found, strict=True):
            self._stretches.setdefault((organization_id, asked.within, group), {})[way, by, id] = tuple(ids)
            self._stretched += 1

    # -- vectors -------------------------------------------------------------------------------------------------------

    def vectors_at(self, view: RowMarks | None, connection: apsw.Connection, seqs: Sequence[int]) -> list[VectorRow]:
        """Those that live of the vectors with these seqs."""
        import numpy as np

        with self._lock:
            is_now = view is not None and self._marks == view
            found = list(map(self._vectors.entries.get, seqs)) if is_now else [None] * len(seqs)
        kept = [one for one in found if one is not None]
        if len(kept) < len(found):
            unread = [seq for seq, one in zip(seqs, found, strict=True) if one is None]
            wanted = apsw.carray(np.array(unread, np.int64))
            read = _kept_vectors(connection.execute(_VECTORS_AT, (wanted,)).fetchall())
            self._keep_vectors(view, read)
            kept += read
        return list(starmap(VectorRow, map(_DESCRIPTION, kept)))

    def vectors_of(
        self, view: RowMarks | None, connection: apsw.Connection, space: Space, ids: Sequence[str]
    ) -> list[StoredVector]:
        """All vectors that these memories have in a space."""
        with self._lock:
            known = self._owners.get(space) if view is not None and self._marks == view else None
            found = list(map(known.get, ids)) if known else [None] * len(ids)
        stored = [one for some in found if some is not None for one in some]
        unread = tuple(dict.fromkeys(id for id, some in zip(ids, found, strict=True) if some is None))
        if unread:
            values = (apsw.carray(unread), *space)
            read = _kept_vectors(connection.execute(_VECTORS_OF, values).fetchall())
            self._keep_vectors(view, read, space, unread)
            stored += map(_stored, read)
        return stored

    def _keep_vectors(
        self,
        view: RowMarks | None,
        read: Sequence[Row],
        space: Space | None = None,
        ids: Sequence[str] = (),
    ) -> None:
        """With a `space`, they are all that these memories have in it."""
        with self._changing():
            if view is None or self._marks != view:
                return
            self._vectors.put({one[_SEQ]: one for one in read})
            if space is not None:
                self._keep_owners(space, ids, read)
            for seq, _ in self._vectors.surplus():
                self._forget_vector(seq)

    def _keep_owners(self, space: Space, ids: Sequence[str], read: Sequence[Row]) -> None:
        self._owned += len(ids)
        if self._owned > MOST_OWNERS * self._share:
            self._owners, self._owned = {}, len(ids)
        if self._owned > MOST_OWNERS * self._share:
            self._owned = 0
            return
        owners = self._owners.setdefault(space, {})
        owners.update(dict.fromkeys(ids, ()))
        for one in read:
            owners[one[_OWNER]] += (_stored(one),)


@cache
def _fields_at(fields: tuple[str, ...]) -> str:
    columns = ", ".join(f"t.{quoted(name)}" for name in fields)
    return f"SELECT {columns} FROM carray(?) c CROSS JOIN memory t ON t._row = c.value"


def _kept_vectors(rows: Sequence[Row]) -> list[Row]:
    described = vector_rows([row[:-3] for row in rows])
    return [(*one, *row[-3:]) for one, row in zip(described, rows, strict=True)]


_DESCRIPTION: Callable[[Row], Row] = itemgetter(slice(_DESCRIBED))
_stored: Callable[[Row], StoredVector] = itemgetter(_OWNER, _VECTOR, _DESCRIBED, _DESCRIBED + 1, _DESCRIBED + 2)


def _row_size(row: Row) -> int:
    author = row[_AUTHOR]
    own = sys.getsizeof(author) if author and len(author) > LONGEST_SHARED else 0
    return _ROW_OVERHEAD + sys.getsizeof(row[_TEXT]) + own


def _vector_size(one: Row) -> int:
    return _VECTOR_OVERHEAD + len(one[_VECTOR]) + len(one[_DESCRIBED] or b"")
