"""Search by meaning: the vector of a question, the memories and messages nearest to it, and how near any of them is.

The index is asked on until enough memories pass the filters; where a filter that it does not know leaves few, those
are compared one by one, exactly. Stored vectors are read once for each memory, whatever they are needed for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from recollect.domain.memory import message_key, space_name
from recollect.domain.text.late_interaction import Codes
from recollect.domain.text.questions import Question, is_latin
from recollect.errors import EmbedderFailed, IndexFailed
from recollect.ports.models import OneScriptEmbedder, Vectors
from recollect.ports.vectors import SearchesPassing, StoredVector
from recollect.services.memories.embeddings import GivenVectors, check_lengths, length_of, question_vector
from recollect.services.recall import few_passing
from recollect.services.recall.few_passing import all_passing
from recollect.services.recall.memory_rows import MemoryRow, MemoryRows
from recollect.services.recall.message_conditions import MessageConditions
from recollect.services.recall.near_depth import Conditions, first_depth, next_depth, note_share
from recollect.services.tenant import Tenant


@dataclass(frozen=True, slots=True)
class QuestionVector:
    """The question as the vectors see it: as it was put, or in the first person of the author it names."""

    vector: Vectors
    rephrased: bool
    model: str
    codes: Codes | None = None


def vector_of(
    tenant: Tenant,
    question: Question,
    namespaces: Sequence[str],
    found: Iterable[MemoryRow],
    given: GivenVectors | None,
    notes: list[str],
    guessed: QuestionVector | None = None,
) -> QuestionVector | None:
    """One vector for the question. Whom it may name is read off the memories found by its words.

    `guessed` is what was made before they were known, of the question as it was put.
    """
    for model, vector in (given or {}).items():
        check_lengths(tenant, [({model: vector}, namespaces)])
        if length_of(tenant, model, namespaces, len(vector)) is None:
            notes.append(f"searched by words only: there are no vectors by '{model}'")
            return None
        return QuestionVector(vector, rephrased=False, model=model)
    if tenant.embedder is None:
        return None
    if not is_understood(tenant, question) and isinstance(tenant.embedder, OneScriptEmbedder):
        notes.append(
            f"found mostly by words: the embedding model reads {tenant.embedder.language}; a multilingual one also"
            " compares meaning (setting `embedder`)"
        )
    rephrased = question.rephrased({row.author for row in found if row.author})
    if rephrased is None and guessed is not None:
        return guessed
    text, model = rephrased or question.text, tenant.embedder.model
    try:
        vector, codes = question_vector(tenant.embedder, text, coded=tenant.late_interaction)
        return QuestionVector(vector, rephrased is not None, model, codes)
    except EmbedderFailed as failure:
        notes.append(f"searched by words only: {failure.message}")
        return None


def is_understood(tenant: Tenant, question: Question) -> bool:
    """Whether the embedder reads the script of the question."""
    return is_latin(question.text) or not isinstance(tenant.embedder, OneScriptEmbedder)


@dataclass(slots=True)
class VectorSearch:
    """The vectors of one tenant, compared with one question under its filters."""

    tenant: Tenant
    searched: Sequence[Conditions]
    question: QuestionVector
    _stored: dict[str, list[StoredVector]] = field(default_factory=dict)

    def nearest(
        self, conditions: Conditions, rows: MemoryRows, limit: int, notes: list[str], few: Sequence[str] | None = None
    ) -> dict[str, float]:
        """The nearest that pass every filter with their similarities, best first. Of `few` that pass, all are compared.

        While the index is away, few are still searched exactly, and many by words only; the notes say so.
        """
        if few is not None:
            return self._among(conditions, few, limit)
        try:
            return self._by_index(conditions, rows, limit)
        except IndexFailed as failure:
            few = all_passing(self.tenant, conditions)
            how = "by words only" if few is None else "without the vector index"
            note = f"searched {how}: {failure.message}"
            notes += [note] if note not in notes else []
            return self._among(conditions, few or (), limit)

    def _among(self, conditions: Conditions, ids: Sequence[str], limit: int) -> dict[str, float]:
        return _best(self.similarities(keys_of(conditions, ids)), limit)

    def _by_index(self, conditions: Conditions, rows: MemoryRows, limit: int) -> dict[str, float]:
        vectors = self.tenant.vectors
        if conditions.is_narrowed and isinstance(vectors, SearchesPassing):
            best = self._passing(vectors, conditions, rows, limit)
            if best is not None:
                return best
        depth = first_depth(self.tenant.scope.organization_id, conditions, limit)
        while True:
            found, is_exhausted = self._indexed(conditions, depth)
            passing = rows.passing(list(found))
            note_share(self.tenant.scope.organization_id, conditions, len(found), len(passing))
            if len(passing) >= limit or is_exhausted:
                return _best({id: found[id] for id in passing}, limit)
            depth = next_depth(depth, limit, len(found), len(passing))
            # Where one in a thousand passes, those that do are fewer than those that would have to be looked at.
            most = few_passing.worth_comparing(conditions, depth)
            few = all_passing(self.tenant, conditions, most) if most > few_passing.EXACT_UP_TO else None
            if few is not None:
                return self._among(conditions, few, limit)

    def _passing(
        self, vectors: SearchesPassing, conditions: Conditions, rows: MemoryRows, limit: int
    ) -> dict[str, float] | None:
        """By an index that asks who passes; where hardly any do, those that do are compared one by one.

        None where hardly any of the nearest pass, but many of the others: then it has to be searched deeper.
        """
        found: dict[str, float] = {}
        tenant, vector = self.tenant.scope.organization_id, self.question.vector
        for space, facets in product(self._spaces(conditions), conditions.vector_searches()):
            for hit in vectors.search_passing(tenant, space, vector, limit, facets, rows.which_pass):
                found[hit.memory_id] = max(hit.similarity, found.get(hit.memory_id, -1.0))
        passing = rows.passing(list(found))
        if len(passing) >= limit:
            return _best({id: found[id] for id in passing}, limit)
        few = all_passing(self.tenant, conditions, few_passing.MOST_COMPARED)
        return None if few is None else self._among(conditions, few, limit)

    def _indexed(self, conditions: Conditions, depth: int) -> tuple[dict[str, float], bool]:
        """What the index finds in any of the namespaces, and whether there is no more."""
        found: dict[str, float] = {}
        is_exhausted = True
        tenant = self.tenant.scope.organization_id
        for space, facets in product(self._spaces(conditions), conditions.vector_searches()):
            hits = self.tenant.vectors.search(tenant, space, self.question.vector, depth, facets)
            is_exhausted = is_exhausted and len(hits) < depth
            for hit in hits:
                found[hit.memory_id] = max(hit.similarity, found.get(hit.memory_id, -1.0))
        return found, is_exhausted

    def _spaces(self, conditions: Conditions) -> list[str]:
        return [space_name(namespace, self.question.model) for namespace in conditions.namespaces]

    def stored(self, ids: Iterable[str]) -> list[StoredVector]:
        """The stored vectors of these memories that the question can be compared with: all of their passages."""
        ids = list(dict.fromkeys(ids))
        unread = [id for id in ids if id not in self._stored]
        if unread:
            self._stored |= {id: [] for id in unread}
            for space in (space for conditions in self.searched for space in self._spaces(conditions)):
                for row in self.tenant.store.stored_vectors(self.tenant.scope, space, unread):
                    self._stored[row[0]].append(row)
        return [row for id in ids for row in self._stored[id]]

    def similarities(self, ids: Iterable[str]) -> dict[str, float]:
        """The similarity of each of these memories that has a vector: that of its likest passage."""
        best: dict[str, float] = {}
        for row, similarity in self.compared(ids):
            best[row[0]] = max(similarity, best.get(row[0], -2.0))
        return best

    def compared(self, ids: Iterable[str]) -> Sequence[tuple[StoredVector, float]]:
        """Every stored vector of these memories that can be compared, with its similarity."""
        vector = self.question.vector
        rows = [row for row in self.stored(ids) if len(row[1]) == 2 * len(vector)]
        if not rows:
            return []
        matrix = np.frombuffer(b"".join(row[1] for row in rows), dtype="<f2").reshape(len(rows), -1)
        return list(zip(rows, (matrix.astype(np.float32) @ vector).tolist(), strict=True))


def keys_of(conditions: Conditions, ids: Sequence[str]) -> list[str]:
    """What rows and vectors know these records by."""
    return [message_key(id) for id in ids] if isinstance(conditions, MessageConditions) else list(ids)


def _best(scores: dict[str, float], limit: int) -> dict[str, float]:
    return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit])
