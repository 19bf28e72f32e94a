"""One search over one view of the index: from all rows that pass the filter to the few that are asked of the truth.

The promise: what comes out was read from the truth in the query's own snapshot, is alive, and belongs to the tenant,
space and facets asked for, whatever the index says. The stages: select the rows by tenant and facet hashes; if
they are many, keep those whose 1-bit codes are nearest; estimate these from int8 with a bound on the error; ask the
truth for those that can still be among the nearest, best first, until no other can. Rows that died meanwhile do not
count, so the next best follow; when all candidates are used up and more codes are left, four times as many are taken.

A filter that leaves up to `exact_values` numbers (rows times dimensions) skips the codes: its answer is exactly the
nearest, proven by the bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.adapters.vectors.embedded import kernels
from recollect.adapters.vectors.embedded.quantization import FacetHashes, Query, Section, Selection
from recollect.adapters.vectors.embedded.segment import SealedSection
from recollect.adapters.vectors.exact import VectorFilter, best_of_each, digest, products, scored
from recollect.ports.vectors import NamesRows, Passing, VectorHit, VectorRow, VectorSnapshot

# How far to go, measured at 384 dimensions on one core. Scoring every row takes 0.65 ms for 16 million
# numbers (43,000 rows), so up to there the answer is exact. Beyond, 16,000 candidates cost 0.4 ms. Of 300,000 vectors
# in clusters with twice as much noise as signal they hold 0.995 of the ten nearest; 2,000 hold 0.907 (of sentences by
# MiniLM 0.9995). A tenant whose rows are scattered over many clusters is as hard: with 2,000 candidates 0.956 of the
# ten nearest of 10,000 rows were found.
EXACT_VALUES = 16 << 20
CANDIDATES = 16_000
_SCOPE_PER_CANDIDATE = 50
_ALWAYS = 256  # a section with fewer such rows gives them all: its own codes may be centred on very little
_FIRST_QUESTION = 128  # rows asked of the truth at once, doubled each time; 10 hits need 30 to 50 of them
_ROUNDING = 2e-6
_NAMED_FIRST, MOST_NAMED = 1_000, 16_000  # rows of which it is asked whether they pass, before those who do are sought


class Disagreement(Exception):
    """The truth lies outside the bounds of the index: `section` describes other rows than the truth holds."""

    def __init__(self, section: Section) -> None:
        super().__init__("an estimate is out of its bounds")
        self.section = section


class Candidates(NamedTuple):
    seq: NDArray[np.int64]
    similarity: NDArray[np.float64]
    slack: NDArray[np.float64]
    section: NDArray[np.intp]

    def best_first(self) -> Candidates:
        return self.at(np.argsort(-(self.similarity + self.slack), kind="stable"))

    def at(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Candidates:
        return Candidates(self.seq[rows], self.similarity[rows], self.slack[rows], self.section[rows])


@dataclass
class Search:
    """The search for the `limit` nearest memories among `sections`, which were taken from one view."""

    sections: Sequence[Section]
    row_filter: VectorFilter
    query: Query
    limit: int
    exact_values: int = EXACT_VALUES
    depth: int = CANDIDATES
    trusting: bool = False  # do not check the bounds
    passing: Passing | None = None  # asked before vectors are read
    asked: int = 0
    dead: int = 0
    _best: list[tuple[float, str]] = field(default_factory=list)  # (-similarity, memory_id), sorted

    def run(self, snapshot: VectorSnapshot) -> list[VectorHit]:
        if self.limit > 0:
            for candidates in self._batches():
                self._rescore(snapshot, candidates)
                if len(self._best) >= self.limit or self._is_too_rare:
                    break
        return [VectorHit(memory_id, -worse) for worse, memory_id in self._best]

    @property
    def _is_too_rare(self) -> bool:
        """Whether more would have to be named than is worth it, going by those that passed so far."""
        if self.passing is None or self.asked < _NAMED_FIRST or len(self._best) >= self.limit:
            return False
        return self.asked * self.limit > MOST_NAMED * (len(self._best) + 2)

    def _batches(self) -> Iterator[Candidates]:
        """The candidates; then, as long as there is any, more of them."""
        wanted = _hashes(self.row_filter)
        if any(not len(hashes) for hashes in wanted.values()):
            return
        tenant = digest(self.row_filter.organization_id)
        selections = [section.select(tenant, wanted) for section in self.sections]
        whole: list[tuple[int, Selection]] = []
        coded: list[tuple[int, Selection]] = []
        sealed = sum(selection.count for _, selection in self._sealed(selections))
        wide = sealed * len(self.query.exact) > self.exact_values
        for number, selection in enumerate(selections):
            by_code = isinstance(self.sections[number], SealedSection) and selection.count > _ALWAYS
            (coded if by_code and wide else whole).append((number, selection))
        if not coded:
            yield self._candidates(whole)
            return
        scanned = _ScannedRows(
            [(number, selection, *self._distances(number, selection)) for number, selection in coded]
        )
        depth = max(self.depth, 20 * self.limit, sealed // _SCOPE_PER_CANDIDATE)
        while True:
            yield self._candidates([*whole, *scanned.next(depth)])
            if scanned.exhausted:
                return
            whole, depth = [], 4 * depth

    def _sealed(self, selections: Sequence[Selection]) -> Iterator[tuple[SealedSection, Selection]]:
        for section, selection in zip(self.sections, selections, strict=True):
            if isinstance(section, SealedSection):
                yield section, selection

    def _distances(self, number: int, selection: Selection) -> tuple[NDArray[np.uint16], NDArray[np.uint32]]:
        section = self.sections[number]
        assert isinstance(section, SealedSection)
        return section.distances(selection, self.query)

    def _candidates(self, selections: Sequence[tuple[int, Selection]]) -> Candidates:
        found = [
            (number, self.sections[number].estimate(selection, self.query))
            for number, selection in selections
            if selection.count
        ]
        if not found:
            return Candidates(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0, np.intp))
        return Candidates(
            np.concatenate([estimate.seq for _, estimate in found]),
            np.concatenate([estimate.similarity for _, estimate in found]),
            np.concatenate([estimate.slack for _, estimate in found]),
            np.repeat([number for number, _ in found], [len(estimate.seq) for _, estimate in found]),
        )

    def _rescore(self, snapshot: VectorSnapshot, candidates: Candidates) -> None:
        """Ask the truth, best first, until no candidate left can be among the nearest.

        If all are alive, the first part holds the answer: the rest is sorted only when it does not.
        """
        hopeful = self._hopeful(candidates)
        self._ask_in_turn(snapshot, candidates.at(hopeful).best_first())
        rest = candidates.at(~hopeful)
        if len(self._best) >= self.limit and len(rest.seq):
            rest = rest.at(rest.similarity + rest.slack + _ROUNDING >= -self._best[-1][0])
        self._ask_in_turn(snapshot, rest.best_first())

    def _hopeful(self, candidates: Candidates) -> NDArray[np.bool_]:
        """Those that can be among the nearest, judged by the bounds alone."""
        if len(candidates.seq) <= self.limit:
            return np.ones(len(candidates.seq), np.bool_)
        lower = candidates.similarity - candidates.slack
        bar = np.partition(lower, len(lower) - self.limit)[len(lower) - self.limit]
        hopeful: NDArray[np.bool_] = candidates.similarity + candidates.slack >= bar
        return hopeful

    def _ask_in_turn(self, snapshot: VectorSnapshot, candidates: Candidates) -> None:
        upper = candidates.similarity + candidates.slack
        start, size = 0, _FIRST_QUESTION
        while start < len(upper) and not self._is_too_rare:
            if len(self._best) >= self.limit and upper[start] + _ROUNDING < -self._best[-1][0]:
                return
            self._ask(snapshot, candidates.at(slice(start, start + size)))
            start, size = start + size, min(2 * size, 2048)

    def _ask(self, snapshot: VectorSnapshot, part: Candidates) -> None:
        if self.passing is not None:
            part = self._passing_of(snapshot, part, self.passing)
            rows = snapshot.rows_at(part.seq.tolist())
        else:
            rows = snapshot.rows_at(part.seq.tolist())
            self.asked += len(part.seq)
            self.dead += len(part.seq) - len(rows)
        dimensions = len(self.query.exact)
        kept = self.row_filter.admitted(rows, dimensions)
        if not kept:
            return
        similarity = products(kept, self.query.exact)
        if not self.trusting:
            self._check_bounds(part, kept, similarity)
        found = scored(kept, similarity)
        if len(self._best) >= self.limit:
            worst, _ = self._best[-1]
            found = [one for one in found if one[0] <= worst]
        self._best = best_of_each([*self._best, *found])[: self.limit]

    def _passing_of(self, snapshot: VectorSnapshot, part: Candidates, passing: Passing) -> Candidates:
        seqs = part.seq.tolist()
        if isinstance(snapshot, NamesRows):
            named = dict(snapshot.memories_at(seqs))
        else:
            named = {row.seq: row.memory_id for row in snapshot.rows_at(seqs)}
        self.asked += len(seqs)
        self.dead += len(seqs) - len(named)
        passed = set(passing(list(dict.fromkeys(named.values()))))
        return part.at(np.array([named.get(seq) in passed for seq in seqs], np.bool_))

    def _check_bounds(self, part: Candidates, rows: Sequence[VectorRow], similarity: NDArray[np.float64]) -> None:
        order = np.argsort(part.seq)
        place = order[np.searchsorted(part.seq, [row.seq for row in rows], sorter=order)]
        wrong = np.abs(similarity - part.similarity[place]) > part.slack[place] + _ROUNDING
        wrong &= np.isfinite(similarity)
        if wrong.any():
            raise Disagreement(self.sections[int(part.section[place][wrong][0])])


def _hashes(row_filter: VectorFilter) -> FacetHashes:
    """The facets as the index has them."""
    return {
        facet: np.array(sorted({digest(value) for value in values}), np.uint64)
        for facet, values in row_filter.allowed.items()
    }


@dataclass
class _ScannedRows:
    """Rows with their code distances, given out nearest first."""

    parts: list[tuple[int, Selection, NDArray[np.uint16], NDArray[np.uint32]]]
    _given: int = -1
    exhausted: bool = False

    def next(self, wanted: int) -> list[tuple[int, Selection]]:
        """All rows not given out yet, up to the distance within which there are `wanted` rows."""
        reach = kernels.nearest_within([histogram for *_, histogram in self.parts], wanted)
        self.exhausted = sum(int(histogram[reach + 1 :].sum()) for *_, histogram in self.parts) == 0
        given, self._given = self._given, reach
        chosen = []
        for number, selection, distances, _ in self.parts:
            near = distances <= reach
            if given >= 0:
                near &= distances > given
            places = np.flatnonzero(near)
            rows = places + selection.low if selection.rows is None else selection.rows[places]
            chosen.append((number, Selection(selection.low, selection.high, len(rows), rows=rows)))
        return chosen
