"""Vectors of texts, one for each passage; those of a record by every configured model, and those that came with it.

A vector that a caller gives is kept under the name of the model that made it, for the whole memory. No model here can
make it again, so it stays as long as the text is the same: through forgetting and restoring, a move to other
namespaces, a reindexing. A new text makes it untrue, and it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import NamedTuple

import numpy as np

from recollect.domain.memory import Embedding, IndexTask, Memory
from recollect.domain.record import now
from recollect.domain.text.late_interaction import Codes, token_codes
from recollect.domain.text.passages import MOST_PASSAGES, PASSAGE_TOKENS, Passage, PassageSelection
from recollect.errors import EmbedderFailed, InvalidInput
from recollect.ports.models import Embedder, TokenEmbedder, Vectors
from recollect.ports.query import OneOf, Query, equal
from recollect.ports.records import Scope
from recollect.ports.steps import DeleteWhere, Insert, Put, Step
from recollect.services.memories.embedded_records import EmbeddedRecord, embedded_memory, read_whole
from recollect.services.tenant import Core, Tenant

MOST_DIMENSIONS = 16_000  # more than any index holds
GivenVectors = Mapping[str, Vectors]
"""What a caller gave for one memory, by the name of the model that made it."""
MOST_OF_A_WHOLE = 8  # passages of a question, or of a text compared as a whole; each costs a run of the model
TOLD_AFTER = 128  # records that are embedded at once where somebody wants to know how far it is
LATER = "long texts get their vectors in the background; their words find them at once"


class PassageVector(NamedTuple):
    """The vector of one passage, or of a whole memory; token codes where they are kept."""

    vector: Vectors
    codes: bytes | None = None
    passage: Passage | None = None
    half: bytes | None = None
    """As it is stored, where it was made together with others."""

    @property
    def stored(self) -> bytes:
        return self.half if self.half is not None else self.vector.astype("<f2").tobytes()


@cache
def _vector_name(model: str) -> str:
    return f"vector:{model}"


@dataclass(slots=True)
class IndexingResult:
    """What became of the vectors of one record."""

    made: dict[str, int] = field(default_factory=dict)
    queued: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return ["text", *map(_vector_name, self.made)]

    @property
    def vectors(self) -> int:
        return sum(self.made.values())


def index_steps(
    core: Core,
    records: Sequence[EmbeddedRecord],
    given: Sequence[GivenVectors] | None = None,
    done: Callable[[int], None] | None = None,
) -> tuple[list[Step], list[IndexingResult]]:
    """The steps that index new records by every embedder and keep the vectors given, and what became of each.

    `done` is told how many more got the vectors of one embedder.
    """
    own = given if given is not None else [{} for _ in records]
    steps: list[Step] = []
    became = [IndexingResult() for _ in records]
    for embedder in core.embedders:
        wanting = [place for place, kept in enumerate(own) if embedder.model not in kept]
        asked = _at_once(core, embedder, records, wanting)
        for place in sorted(set(wanting) - set(asked)):
            steps += task_steps(records[place], embedder.model, LATER)
            became[place].queued.append(f"vector:{embedder.model}")
            became[place].notes += [] if LATER in became[place].notes else [LATER]
        try:
            made = _embedded_in_parts(core, embedder, [records[place] for place in asked], done)
        except EmbedderFailed as failure:
            for place in asked:
                steps += task_steps(records[place], embedder.model, failure.message)
                became[place].queued.append(f"vector:{embedder.model}")
            continue
        for place, vectors in zip(asked, made, strict=True):
            steps += insert_steps(records[place], embedder.model, vectors)
            became[place].made[embedder.model] = len(vectors)
            if len(vectors) >= MOST_PASSAGES:  # of fewer none was left out
                became[place].notes += left_out(records[place].passages(embedder))
    for record, kept, became_of_it in zip(records, own, became, strict=True):
        for model, vector in kept.items():
            steps += [Insert(one) for one in embeddings(record, model, [PassageVector(vector)], given=True)]
            became_of_it.made[model] = 1
    return steps, became


def _embedded_in_parts(
    core: Core, embedder: Embedder, records: Sequence[EmbeddedRecord], done: Callable[[int], None] | None
) -> list[list[PassageVector]]:
    """All at once, unless somebody is to be told how far it is."""
    size = TOLD_AFTER if done is not None else max(len(records), 1)
    made: list[list[PassageVector]] = []
    for start in range(0, len(records), size):
        part = records[start : start + size]
        made += embedded(core, embedder, part)
        if done is not None:
            done(len(part))
    return made


def _at_once(core: Core, embedder: Embedder, records: Sequence[EmbeddedRecord], wanting: Sequence[int]) -> list[int]:
    """Which of the records are embedded while the caller waits: as many, in their order, as the bound leaves time for.

    One key must not keep the model busy for minutes with a few large requests.
    """
    if core.passages_at_once is None:
        return list(wanting)
    chosen: list[int] = []
    left = float(core.passages_at_once)
    for place in wanting:
        costs = cost_of(records[place].text, embedder)
        if costs <= left:
            chosen.append(place)
            left -= costs
    return chosen


def cost_of(text: str, embedder: Embedder, most: int = MOST_PASSAGES) -> float:
    """How many passages a text is; one that does not fill its only passage takes the model less time than a whole."""
    if len(text) <= PASSAGE_TOKENS:
        return max(len(text) / PASSAGE_TOKENS, 1 / 8)
    return float(len(read_whole(text, embedder, most).passages))


def left_out(found: PassageSelection) -> list[str]:
    """What a receipt says of a text that is longer than its vectors."""
    taken = len(found.passages)
    if taken == found.of:
        return []
    return [f"{taken} of its {found.of} passages have a vector, evenly spread: split the text to have them all"]


def reindex_steps(core: Core, before: Memory, after: Memory, given: GivenVectors | None = None) -> list[Step]:
    """The steps that bring the vectors of one changed memory up to date."""
    of_it, no_task = equal("memory_id", after.id), DeleteWhere(IndexTask, (equal("memory_id", after.id),))
    if after.is_deleted:  # what was given is kept: nothing forgotten is ever shown, and a restoring needs it
        return [DeleteWhere(Embedding, (of_it, equal("given", False))), no_task]
    former, record = embedded_memory(before), embedded_memory(after)
    same_text = former.text == record.text
    if not given and same_text and before.namespaces == after.namespaces and not before.is_deleted:
        if former.facets == record.facets:
            return []
        return [Put(vector.changed(facets=record.facets)) for vector in _stored(core, after)]
    kept = _given(_stored(core, after)).get(after.id, {}) if same_text else {}
    dropped: list[Step] = [DeleteWhere(Embedding, (of_it,)), no_task]
    return dropped + index_steps(core, [record], [{**kept, **(given or {})}])[0]


def restored_steps(tenant: Tenant, memories: Sequence[Memory]) -> list[Step]:
    """The steps that give forgotten memories their vectors again: those that were given are still there."""
    if not memories:
        return []
    of_these = OneOf("memory_id", tuple(memory.id for memory in memories))
    kept = _given(tenant.find(Query(Embedding, (of_these, equal("given", True)))).records)
    records = [embedded_memory(memory) for memory in memories]
    steps, _ = index_steps(tenant, records, [kept.get(memory.id, {}) for memory in memories])
    return [DeleteWhere(Embedding, (of_these,)), *steps]


def _given(stored: Sequence[Embedding]) -> dict[str, dict[str, Vectors]]:
    """The vectors that came with memories, by memory and model."""
    found: dict[str, dict[str, Vectors]] = {}
    for one in stored:
        if one.given:
            vector = np.frombuffer(one.vector, dtype="<f2").astype(np.float32)
            found.setdefault(one.memory_id, {})[one.model] = vector
    return found


def _stored(core: Core, memory: Memory) -> list[Embedding]:
    scope = Scope(memory.organization_id)
    return core.store.find(scope, Query(Embedding, (equal("memory_id", memory.id),))).records


def embedded(core: Core, embedder: Embedder, records: Sequence[EmbeddedRecord]) -> list[list[PassageVector]]:
    """A vector for each passage of each record, with token codes where the settings want them; data needs none."""
    coded = core.late_interaction and not any(one.source_id for one in records)
    return passage_vectors(embedder, [one.text for one in records], coded=coded)


def passage_vectors(
    embedder: Embedder, texts: Sequence[str], *, coded: bool = False, most: int = MOST_PASSAGES
) -> list[list[PassageVector]]:
    """A vector for each passage of each text, with token codes if wanted and the model tells tokens apart."""
    cuts = [read_whole(text, embedder, most).passages for text in texts]
    parts = [text[one.start : one.end] for text, some in zip(texts, cuts, strict=True) for one in some]
    if not parts:
        return [[] for _ in texts]
    codes: list[bytes] | list[None] = [None] * len(parts)
    if coded and hasattr(embedder, "embed_with_tokens"):  # to ask whether it is a `TokenEmbedder` takes 20 us
        vectors, tokens = embedder.embed_with_tokens(parts)
        codes = [token_codes(states).tobytes() for states in tokens]
    else:
        vectors = embedder.embed(parts)
    array = usable(vectors, embedder, len(parts))
    cut = [one for some in cuts for one in some]
    made = map(PassageVector, array, codes, cut, _halves(array))
    return [list(islice(made, len(some))) for some in cuts]


def _halves(vectors: Vectors) -> list[bytes]:
    """Each vector as it is stored, all turned at once."""
    raw, size = vectors.astype("<f2").tobytes(), 2 * vectors.shape[1]
    return [raw[start : start + size] for start in range(0, len(raw), size)] if size else [b""] * len(vectors)


def whole_vectors(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """One vector for all of each text, to compare whole texts with each other: what its passages have in common."""
    found = passage_vectors(embedder, texts, most=MOST_OF_A_WHOLE)
    return np.stack([_middle([one.vector for one in some]) for some in found])


def question_vector(embedder: Embedder, text: str, *, coded: bool = False) -> tuple[Vectors, Codes | None]:
    """The vector of all of a question, and its token codes if wanted: of a long one its passages, evenly spread."""
    parts = [text[one.start : one.end] for one in read_whole(text, embedder, MOST_OF_A_WHOLE).passages]
    if not coded or not isinstance(embedder, TokenEmbedder):
        return _middle([embedder.embed_query(part) for part in parts]), None
    asked = [embedder.embed_query_with_tokens(part) for part in parts]
    # Each token is compared with all of the candidates: a longer question has no more of them than one passage.
    tokens = np.concatenate([states[:: len(parts)] for _, states in asked])
    return _middle([vector for vector, _ in asked]), token_codes(tokens)


def _middle(vectors: Sequence[Vectors]) -> Vectors:
    if len(vectors) == 1:
        return vectors[0]
    total = np.sum(vectors, axis=0)
    return unit(total) if total.any() else vectors[0]


def usable(vectors: Vectors, embedder: Embedder, count: int) -> Vectors:
    """One bad vector would spoil every ranking it takes part in, so a model that makes one has failed."""
    array = np.asarray(vectors, dtype=np.float32)
    if array.shape != (count, embedder.dimensions) or not np.isfinite(array).all():
        raise EmbedderFailed(f"the model '{embedder.model}' gave vectors that cannot be used", remedy="check the model")
    return array


def unit(vector: Sequence[float]) -> Vectors:
    array = np.asarray(vector, dtype=np.float64)
    largest = float(np.abs(array).max(initial=0.0))
    if not np.isfinite(largest) or largest == 0:
        raise InvalidInput("a vector must be finite and have a direction", remedy="leave it out to have one made")
    scaled = array / largest  # first, so that no square overflows
    return (scaled / np.linalg.norm(scaled)).astype(np.float32)


def embeddings(
    record: EmbeddedRecord, model: str, made: Sequence[PassageVector], given: bool = False
) -> Iterator[Embedding]:
    moment, owner, text_hash = now(), record.record, record.text_hash
    for namespace in record.namespaces:
        for part, one in enumerate(made):
            start, end = one.passage or (None, None)
            # Of a stored or validated record, and of our own making: valid as it is.
            yield Embedding.of_valid(
                {
                    "organization_id": owner.organization_id,
                    "created_at": moment,
                    "updated_at": moment,
                    "memory_id": record.key,
                    "source_id": record.source_id,
                    "message_id": record.message_id,
                    "namespace": namespace,
                    "model": str(model),
                    "given": given,
                    "part": part,
                    "start": start,
                    "end": end,
                    "dimensions": len(one.vector),
                    "vector": one.stored,
                    "tokens": one.codes,
                    "text_hash": text_hash,
                    "facets": record.facets,
                },
            )


def insert_steps(record: EmbeddedRecord, model: str, made: Sequence[PassageVector]) -> Iterator[Step]:
    """Sources that were removed keep their tables and fields, which are embedded like all others."""
    return (Insert(one, restoring=record.source_id is not None) for one in embeddings(record, model, made))


def task_steps(record: EmbeddedRecord, model: str, problem: str) -> Iterator[Step]:
    """Note that vectors are owed."""
    for namespace in record.namespaces:
        yield Insert(
            IndexTask(
                organization_id=record.record.organization_id,
                memory_id=record.key,
                source_id=record.source_id,
                message_id=record.message_id,
                namespace=namespace,
                model=model,
                problem=problem,
            ),
            restoring=record.source_id is not None,
        )


# --- Vectors from outside ----------------------------------------------------------------------------------


def given_vector(core: Core, vector: Sequence[float] | None, model: str | None) -> GivenVectors:
    """A vector under the name of its model, or a clear refusal: it can neither be kept nor used without."""
    if vector is None:
        if model is not None:
            raise InvalidInput("vector_model names the model of a vector, and none is given", remedy="give `vector`")
        return {}
    if model is None:
        known = f" (the store's own is '{core.embedder.model}')" if core.embedder else ""
        raise InvalidInput(
            "a vector needs the name of the model that made it",
            remedy=f"give vector_model{known}, or leave the vector out",
        )
    if not 0 < len(vector) <= MOST_DIMENSIONS:
        raise InvalidInput(f"a vector has 1 to {MOST_DIMENSIONS:,} dimensions, not {len(vector):,}")
    return {model: unit(vector)}


def check_lengths(tenant: Tenant, given: Sequence[tuple[GivenVectors, Sequence[str]]]) -> None:
    """All vectors of a model are of one length: those given together, and those in the namespaces already."""
    together: dict[str, int] = {}
    for vectors, namespaces in given:
        for model, vector in vectors.items():
            known = together.setdefault(model, len(vector))
            if len(vector) == known:
                known = length_of(tenant, model, namespaces, len(vector)) or known
            if len(vector) != known:
                raise InvalidInput(
                    f"a vector has {len(vector)} dimensions, those of '{model}' have {known}",
                    remedy="name the model that made it in vector_model, or leave the vector out",
                )


def length_of(tenant: Tenant, model: str, namespaces: Sequence[str], expected: int) -> int | None:
    """How long the vectors of a model are in the namespaces; None if there are none. Looked up once as expected."""
    for embedder in tenant.embedders:
        if embedder.model == model:
            return embedder.dimensions
    for namespace in namespaces:
        key = (tenant.scope.organization_id, namespace, model)
        if tenant.lengths.get(key) == expected:
            return expected
        where = (equal("namespace", namespace), equal("model", model))
        for (length,) in tenant.select(Query(Embedding, where, limit=1), ("dimensions",)):
            tenant.lengths[key] = int(length)
            return int(length)
    return None
