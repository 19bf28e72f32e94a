"""What a recall is going to read, told to a store that can read it in one wait (`ports/read_ahead.py`)."""

from __future__ import annotations

from itertools import product

from recollect.domain.memory import Tag, space_name
from recollect.domain.provenance import Citation
from recollect.domain.text.questions import Question
from recollect.domain.text.relevance import DENSE_POOL, LEXICAL_POOL, NEIGHBOUR_REACH, NEIGHBOURS_OF
from recollect.ports.query import TextQuery
from recollect.ports.read_ahead import NearSearch, Neighbours, PoolReading
from recollect.services.recall.filters import NO_SUMMARY
from recollect.services.recall.meaning import Conditions, QuestionVector
from recollect.services.recall.memory_rows import FIELDS
from recollect.services.trust import citations

HANGING = ((Citation, ("memory_id", *citations.SHOWN)), (Tag, ("memory_id", "tag")))
# A memory stands beside others of its session; without one, of its user, its agent or its kind.
WITHIN = {"session_id": "occurred_at", "user_id": "id", "agent_id": "id", "kind": "id"}


def pool_reading(conditions: Conditions, question: Question, vector: QuestionVector | None, depth: int) -> PoolReading:
    """Of a recall by everything."""
    (facets, *others) = conditions.text_searches()
    words = TextQuery(conditions.record, question.terms, LEXICAL_POOL * depth, facets, conditions.unknown_to_indexes())
    spaces = [space_name(namespace, vector.model) for namespace in conditions.namespaces] if vector else []
    return PoolReading(
        conditions.record,
        FIELDS,
        conditions.filters(),
        words=None if others else words,
        near=_near(conditions, vector, DENSE_POOL * depth),
        neighbours=Neighbours(WITHIN, NEIGHBOURS_OF, NEIGHBOUR_REACH, (NO_SUMMARY,)),
        spaces=tuple(spaces),
    )


def near_reading(conditions: Conditions, vector: QuestionVector, limit: int) -> PoolReading:
    """Of a recall by meaning alone: what is near is what is shown."""
    return PoolReading(
        conditions.record, FIELDS, conditions.filters(), near=_near(conditions, vector, limit), hanging=HANGING
    )


def _near(conditions: Conditions, vector: QuestionVector | None, limit: int) -> tuple[NearSearch, ...]:
    """Not under a filter that the index does not know: then those that pass may be compared one by one."""
    if vector is None or conditions.is_narrowed:
        return ()
    spaces = [space_name(namespace, vector.model) for namespace in conditions.namespaces]
    return tuple(
        NearSearch(space, vector.vector, limit, facets)
        for space, facets in product(spaces, conditions.vector_searches())
    )
