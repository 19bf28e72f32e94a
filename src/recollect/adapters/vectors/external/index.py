"""A vector index kept in another system, fed from the truth.

The promise: a search considers every row committed before it began, whichever process wrote it, and shows only what the
truth proves in the query's own snapshot, scored exactly from the stored vector. What the other system says is a
suggestion.

The shape: the stored embedding row with its seq, written in the memory's own transaction, is the outbox. The other
system remembers up to which seq it was fed; whoever needs it next (a search, or the background after a commit) feeds
the rows after that. A row that changes gets a new seq, so entries are only added; those of dead rows are skipped by
searches and removed in upkeep. Another incarnation of the store (a restored backup) is another index. Feeding twice
does no harm, so processes need no lock among them.

If it is away, a search raises IndexFailed at once for some seconds instead of trying each time, and for longer each
time that it is still away.

What proves it: VectorStoreContract in recollect.testing.conformance, tests/property, tests/crash/test_outside_crash.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from recollect.adapters.vectors.exact import VectorFilter, best_of_each, products, scored, unit_query
from recollect.adapters.vectors.external.port import (
    Entry,
    ExternalSystem,
    Generation,
    GenerationDeleted,
    can_hold,
    entry_of,
    place_of,
    store_key,
    wanted_hashes,
)
from recollect.background_thread import BackgroundThread
from recollect.errors import Closed, IndexFailed
from recollect.ports.vectors import VectorHit, VectorRow, VectorSnapshot, VectorTruth

T = TypeVar("T")
FEED_ROWS = 1000
_NOTE_ROWS = 200  # how many rows are fed before the system is told to remember it: the rest would be fed once more
_SPARE = 10  # asked for besides, since some of the nearest may be dead
_TRIES = 5
_PAUSE_SECONDS = 5.0  # after a failure nobody tries; twice as long after the next one
_LONGEST_PAUSE_SECONDS = 60.0
_PATIENCE_SECONDS = 30.0
_GATHER_SECONDS = 0.05  # commits of a moment are fed together


class _Question(NamedTuple):
    row_filter: VectorFilter
    place: str
    wanted: Mapping[str, Sequence[str]]
    query: NDArray[np.float64]
    limit: int


class ExternalIndex:
    def __init__(self, truth: VectorTruth, system: ExternalSystem, *, background: bool = True) -> None:
        self._truth = truth
        self._system = system
        self._background = background
        self._state: Generation | None = None  # as far as this process knows: never ahead of what is there
        self._noted = 0
        self._unnoted = 0
        self._dead: dict[str, set[int]] = {}
        self._feeding = threading.Lock()
        self._feeder = BackgroundThread("recollect.feeder", self._keep_up, complaint="the vector index is behind")
        self._stopping = self._feeder.stopping
        self._away_until = 0.0
        self._pause_seconds = _PAUSE_SECONDS
        self._large: set[str] = set()  # places with more than the few that are compared one by one
        self._away_because: IndexFailed | None = None

    @property
    def label(self) -> str:
        return self._system.label

    # -- searching ---------------------------------------------------------------------------------------------------

    def search(
        self,
        organization_id: str,
        space: str,
        query: NDArray[np.float32],
        limit: int,
        where: Mapping[str, Collection[str | None]] | None = None,
    ) -> list[VectorHit]:
        row_filter, asked = VectorFilter.of(organization_id, space, where), unit_query(query)
        if limit <= 0 or not all(row_filter.allowed.values()) or len(asked) > self._system.most_dimensions:
            return []
        place = place_of(organization_id, space, len(asked))
        question = _Question(row_filter, place, wanted_hashes(row_filter.allowed), asked, limit)
        with self._unless_away():
            return self._caught_up(lambda snapshot, generation: self._answer(snapshot, generation, question))

    def _answer(self, snapshot: VectorSnapshot, generation: Generation, asked: _Question) -> list[VectorHit]:
        """Few rows pass the filter: all of them. Many: the nearest, and more of them until enough are alive."""
        # A graph of a few dozen entries, some of them replaced, does not always lead to each of them.
        if self._system.exact_rows and (asked.wanted or asked.place not in self._large):
            few = self._system.within(generation, asked.place, asked.wanted, self._system.exact_rows)
            if few is not None:
                return _hits(self._proven(snapshot, asked, few), asked.limit)
            self._large |= set() if asked.wanted else {asked.place}
        query = asked.query.astype(np.float32)
        depth = asked.limit + _SPARE
        while True:
            found = self._system.nearest(generation, asked.place, asked.wanted, query, depth)
            proven = self._proven(snapshot, asked, found)
            if len(proven) >= asked.limit or (len(found) < depth and not asked.wanted):
                return _hits(proven, asked.limit)
            if len(found) < depth:  # a walk through a graph may give up early under a filter
                every = self._system.within(generation, asked.place, asked.wanted, snapshot.last_seq())
                return _hits(self._proven(snapshot, asked, every or []), asked.limit)
            depth *= 4

    def _proven(self, snapshot: VectorSnapshot, asked: _Question, seqs: Sequence[int]) -> list[tuple[float, str]]:
        rows = snapshot.rows_at(list(seqs)) if seqs else []
        if len(rows) < len(seqs):
            last, alive = snapshot.last_seq(), {row.seq for row in rows}
            # What is younger than the snapshot only looks dead.
            self._dead.setdefault(asked.place, set()).update(s for s in seqs if s <= last and s not in alive)
        kept = asked.row_filter.admitted(rows, len(asked.query))
        return best_of_each(scored(kept, products(kept, asked.query))) if kept else []

    # -- feeding -----------------------------------------------------------------------------------------------------

    def _caught_up(self, work: Callable[[VectorSnapshot, Generation], T]) -> T:
        """Runs the work on a snapshot all of whose rows the system has."""
        for attempt in range(_TRIES):
            try:
                while True:
                    with self._truth.vector_snapshot() as snapshot:
                        generation, complete = self._fed(snapshot)
                        if complete:
                            return work(snapshot, generation)
            except GenerationDeleted:
                self._state = None
                time.sleep(0.01 * attempt)
        raise IndexFailed(f"the index at {self.label} keeps being deleted", remedy="find out what else writes there")

    def _fed(self, snapshot: VectorSnapshot) -> tuple[Generation, bool]:
        """Feed one portion; whether that was the last."""
        if self._stopping.is_set():
            raise Closed("the vector index is closed")
        store, last = store_key(snapshot.incarnation), snapshot.last_seq()
        state = self._state
        if state is not None and state.store == store and (state.fed == last or self._is_younger(state, last)):
            return state, True
        with self._feeding:
            generation = self._in_use(store, last)
            if generation.fed >= last:
                return generation, True
            rows = snapshot.rows_after(generation.fed, FEED_ROWS)
            complete = len(rows) < FEED_ROWS
            self._push(generation, rows)
            self._state = replace(generation, fed=last if complete else rows[-1].seq)
            self._unnoted += len(rows)
            if self._unnoted >= _NOTE_ROWS:
                self._note()
            return self._state, complete

    def _in_use(self, store: str, last: int) -> Generation:
        """The generation to feed; a new one if the store went back in time in spite of its incarnation."""
        state = self._state
        if state is None or state.store != store or (state.fed > last and not self._is_younger(state, last)):
            state = self._system.current(store)
            if state is None or (state.fed > last and not self._is_younger(state, last)):
                state = self._system.begin(store)
                self._system.use(state)
            self._state, self._noted, self._unnoted, self._dead = state, state.fed, 0, {}
        return state

    def _is_younger(self, generation: Generation, last: int) -> bool:
        """Whether others fed rows that were committed after our snapshot, and the store has not gone back in time."""
        if generation.fed <= last:
            return False
        with self._truth.vector_snapshot() as snapshot:
            return store_key(snapshot.incarnation) == generation.store and snapshot.last_seq() >= generation.fed

    def _push(self, generation: Generation, rows: Sequence[VectorRow]) -> int:
        places: dict[str, list[Entry]] = {}
        for row in rows:
            if can_hold(row, self._system.most_dimensions):
                place = place_of(row.organization_id, row.space, len(row.vector) // 2)
                places.setdefault(place, []).append(entry_of(row))
        for place, entries in places.items():
            self._system.add(generation, place, entries)
        return sum(map(len, places.values()))

    def _note(self) -> None:
        state = self._state
        if state is not None and state.fed > self._noted:
            self._system.note(state, state.fed)
            self._noted, self._unnoted = state.fed, 0

    @contextmanager
    def _unless_away(self) -> Iterator[None]:
        if self._away_because is not None and time.monotonic() < self._away_until:
            raise IndexFailed(self._away_because.message, remedy=self._away_because.remedy)
        try:
            yield
        except IndexFailed as error:
            self._away_because, self._away_until = error, time.monotonic() + self._pause_seconds
            self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)
            raise
        self._away_because, self._pause_seconds = None, _PAUSE_SECONDS

    # -- upkeep ------------------------------------------------------------------------------------------------------

    def hint(self, seq: int) -> None:
        if self._background:
            self._feeder.wake()

    def _keep_up(self) -> None:
        self._stopping.wait(_GATHER_SECONDS)
        with self._unless_away():
            self._caught_up(lambda snapshot, generation: self._tidy(generation))

    def _tidy(self, generation: Generation) -> None:
        """Remove the dead that searches came across, and remember how far we are."""
        with self._feeding:
            for place in list(self._dead):
                self._system.remove(generation, place, sorted(self._dead.pop(place)))
            self._note()

    def refresh(self) -> None:
        self.purge()
        self._caught_up(lambda snapshot, generation: self._system.tend(generation))

    def purge(self) -> None:
        self._caught_up(self._sweep)

    def _sweep(self, snapshot: VectorSnapshot, generation: Generation) -> None:
        last = snapshot.last_seq()
        living = np.fromiter(snapshot.living_seqs(0, last), np.int64)
        for place in self._system.places(generation):
            dead: list[int] = []
            for seqs in self._system.seqs(generation, place):
                held = np.asarray(seqs, np.int64)
                dead += held[(held <= last) & np.isin(held, living, invert=True)].tolist()
            if dead:
                self._system.remove(generation, place, dead)
        self._tidy(generation)

    def rebuild(self) -> int:
        """The old generation serves until the new one is whole."""
        with self._truth.vector_snapshot() as snapshot:
            made = self._system.begin(store_key(snapshot.incarnation))
        held = 0
        while True:
            with self._truth.vector_snapshot() as snapshot:
                rows = snapshot.rows_after(made.fed, FEED_ROWS)
                held += self._push(made, rows)
                complete = len(rows) < FEED_ROWS
                made = replace(made, fed=snapshot.last_seq() if complete else rows[-1].seq)
            if complete:
                break
        self._system.tend(made)
        self._system.note(made, made.fed)
        with self._feeding:
            self._system.use(made)
            self._state = None
        return held

    # -- checking ----------------------------------------------------------------------------------------------------

    def behind(self) -> int:
        with self._truth.vector_snapshot() as snapshot:
            store = store_key(snapshot.incarnation)
            generation = self._system.current(store)
            known = self._state if self._state is not None and self._state.store == store else None
            fed = max(generation.fed, known.fed if known else 0) if generation else 0
            return sum(1 for _ in snapshot.living_seqs(fed, snapshot.last_seq()))

    def verify(self) -> list[str]:
        return self._caught_up(self._compare)

    def _compare(self, snapshot: VectorSnapshot, generation: Generation) -> list[str]:
        """What the system has that the truth has otherwise or not yet; then what the truth has and the system has not.

        Entries of dead rows are no disagreement: they are never shown, and leave in upkeep.
        """
        found: list[str] = []
        held: set[int] = set()
        for place in self._system.places(generation):
            for entries in self._system.entries(generation, place):
                rows = {row.seq: row for row in snapshot.rows_at([entry.seq for entry in entries])}
                for entry in entries:
                    held.add(entry.seq)
                    found += _disagreement(entry, rows.get(entry.seq), place)
        with self._truth.vector_snapshot() as now:  # others go on feeding
            last = now.last_seq()
        found += ["the vector index has an entry of a row that never was" for seq in held if seq > last]
        after = 0
        while rows_after := snapshot.rows_after(after, FEED_ROWS):
            after = rows_after[-1].seq
            for row in rows_after:
                if row.seq not in held and can_hold(row, self._system.most_dimensions):
                    found.append("a vector is missing in the vector index")
        return found

    def close(self) -> None:
        self._feeder.stop(_PATIENCE_SECONDS)
        with suppress(IndexFailed, GenerationDeleted):  # what is not remembered is fed once more
            if self._away_because is None:
                self._note()
        self._system.close()


def _hits(proven: list[tuple[float, str]], limit: int) -> list[VectorHit]:
    return [VectorHit(memory_id, -worse) for worse, memory_id in proven[:limit]]


def _disagreement(entry: Entry, row: VectorRow | None, place: str) -> list[str]:
    if row is None:
        return []
    if place != place_of(row.organization_id, row.space, len(row.vector) // 2):
        return ["a vector lies in a wrong place of the vector index"]
    true = entry_of(row)
    if true.facets != entry.facets or not np.array_equal(true.vector, entry.vector):
        return ["a vector or its facets are others in the vector index"]
    return []
