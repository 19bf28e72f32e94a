"""What a recall is going to read, told to a store that can read it in one wait (`ports/read_ahead.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from recollect.domain.memory import Memory, Tag, space_name
from recollect.domain.provenance import Citation
from recollect.domain.text.questions import Question
from recollect.domain.text.relevance import DENSE_POOL, LEXICAL_POOL, NEIGHBOUR_REACH, NEIGHBOURS_OF
from recollect.ports.query import Reading, TextQuery
from recollect.ports.read_ahead import NearSearch, Neighbours, PoolReading
from recollect.services.memories.embeddings import GivenVectors
from recollect.services.read_ahead import reading_ahead, reads_ahead
from recollect.services.recall.filters import NO_SUMMARY, SearchConditions
from recollect.services.recall.meaning import QuestionVector, vector_of
from recollect.services.recall.memory_rows import FIELDS
from recollect.services.recall.near_depth import Conditions, first_depth
from recollect.services.tenant import Tenant
from recollect.services.trust import citations

HANGING = ((Citation, ("memory_id", *citations.SHOWN)), (Tag, ("memory_id", "tag")))
# A memory stands beside others of its session; without one, of its user, its agent or its kind.
WITHIN = {"session_id": "occurred_at", "user_id": "id", "agent_id": "id", "kind": "id"}


def depth_of(limit: int) -> int:
    """How many times the usual pool is gathered for so many hits."""
    return max(1, limit // 50)


def read_first(
    tenant: Tenant,
    question: Question,
    conditions: SearchConditions,
    given: GivenVectors | None,
    *,
    by: str,
    limit: int,
    besides: Sequence[Reading],
    notes: list[str],
) -> tuple[Tenant, QuestionVector | None]:
    """The tenant after the first reading, and the vector that was made for it.

    Whom a question names is only known when its words were searched, and then it may have another vector: of those that
    name somebody none is made beforehand, but to recall by meaning alone.
    """
    if not reads_ahead(tenant):
        return tenant, None
    vector = None
    if by == "meaning" or given or not question.names:
        told: list[str] = []
        vector = vector_of(tenant, question, conditions.namespaces, (), given, told)
        if vector is None and not given:  # a model that is away is not waited for a second time
            notes += told
            tenant = replace(tenant, embedders=())
    if by == "meaning":
        near = _near(tenant, conditions, vector, limit)
        reading = PoolReading(Memory, FIELDS, conditions.filters(), near=near, hanging=HANGING)
    else:
        is_done = vector is not None or tenant.embedder is None
        words = TextQuery(
            Memory,
            question.terms,
            LEXICAL_POOL * depth_of(limit),
            conditions.facets,
            conditions.unknown_to_indexes(),
        )
        reading = replace(_pool(tenant, conditions, vector, limit), words=words)
        reading = reading if is_done else replace(reading, neighbours=None)
    return reading_ahead(tenant, replace(reading, besides=tuple(besides))), vector


def reading_on(
    tenant: Tenant, conditions: Conditions, vector: QuestionVector, known: Sequence[str], limit: int
) -> PoolReading:
    """What is left to be read once the words were searched, and the question has its vector."""
    return replace(_pool(tenant, conditions, vector, limit), known=tuple(known))


def _pool(tenant: Tenant, conditions: Conditions, vector: QuestionVector | None, limit: int) -> PoolReading:
    spaces = [space_name(namespace, vector.model) for namespace in conditions.namespaces] if vector else []
    return PoolReading(
        conditions.record,
        FIELDS,
        conditions.filters(),
        near=_near(tenant, conditions, vector, DENSE_POOL * depth_of(limit)),
        neighbours=Neighbours(WITHIN, NEIGHBOURS_OF, NEIGHBOUR_REACH, (NO_SUMMARY,)),
        spaces=tuple(spaces),
    )


def _near(tenant: Tenant, conditions: Conditions, vector: QuestionVector | None, limit: int) -> tuple[NearSearch, ...]:
    """Not under a filter that the index does not know: then those that pass may be compared one by one."""
    if vector is None or conditions.is_narrowed:
        return ()
    spaces = [space_name(namespace, vector.model) for namespace in conditions.namespaces]
    depth = first_depth(tenant.scope.organization_id, conditions, limit)
    return tuple(
        NearSearch(space, vector.vector, depth, facets)
        for space, facets in product(spaces, conditions.vector_searches())
    )
