"""What is remembered of somebody already, to compare new statements with: the same, or something else instead.

The same is what reads the same, gives a slot the value it has, or is as near in meaning as a rewording. A contradiction
is another value of the same slot: where somebody lives, what they are called, liking a thing or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import numpy as np

from recollect.domain.memory import LONG_TERM, Memory, space_name
from recollect.domain.text.extractive import numbers_in
from recollect.domain.text.personal_statements import (
    Statement,
    contradict,
    is_negated,
    read_statement,
    repeats,
    says_the_same,
)
from recollect.errors import EmbedderFailed
from recollect.ports.models import Vectors
from recollect.ports.query import Filter, Order, Query
from recollect.services.memories.embeddings import whole_vectors
from recollect.services.memories.revise import current
from recollect.services.tenant import Tenant

MOST_KNOWN = 1_000  # memories of somebody that new statements are compared with, the newest
NEAR = 0.93  # cosine from which two sentences without another number or a "not" say the same


class KnownStatement(NamedTuple):
    id: str
    text: str
    occurred_at: datetime
    statement: Statement | None


@dataclass(slots=True)
class KnownStatements:
    """The newest memories of somebody, and their vectors."""

    tenant: Tenant
    known: list[KnownStatement]
    vectors: dict[str, Vectors] = field(default_factory=dict)

    @classmethod
    def of(cls, tenant: Tenant, owner: Sequence[Filter]) -> KnownStatements:
        newest = Query(Memory, (*owner, *current()), (Order("id", descending=True),), limit=MOST_KNOWN)
        rows = tenant.select(newest, ("id", "text", "occurred_at"))
        known = [KnownStatement(id, text, at, read_statement(text)) for id, text, at in rows]
        return cls(tenant, known, _stored(tenant, [one.id for one in known]))

    def same(self, statement: Statement, vector: Vectors | None) -> KnownStatement | None:
        """The memory that says this already."""
        for one in self.known:
            if says_the_same(statement.text, one.text) or (one.statement and repeats(statement, one.statement)):
                return one
        return self._near(statement, vector) if vector is not None else None

    def contradicted(self, statement: Statement) -> list[KnownStatement]:
        """The memories that say something else of the same."""
        return [one for one in self.known if one.statement is not None and contradict(statement, one.statement)]

    def _near(self, statement: Statement, vector: Vectors) -> KnownStatement | None:
        told = is_negated(statement.text), numbers_in(statement.text)
        for one in self.known:
            other = self.vectors.get(one.id)
            if other is None or len(other) != len(vector) or float(other @ vector) < NEAR:
                continue
            if told == (is_negated(one.text), numbers_in(one.text)) and self._says_so_too(statement.text, one.text):
                return one
        return None

    def _says_so_too(self, one: str, other: str) -> bool:
        """Whether the model that compares statements agrees, where another one serves recall."""
        embedder = self.tenant.likeness_embedder
        if embedder is None or embedder is self.tenant.embedder:
            return True
        try:
            first, second = whole_vectors(embedder, [one, other])
        except EmbedderFailed:
            return False
        return float(first @ second) >= NEAR


def _stored(tenant: Tenant, ids: Sequence[str]) -> dict[str, Vectors]:
    """The vectors of short memories, which are of one passage."""
    if tenant.embedder is None or not ids:
        return {}
    rows = tenant.store.stored_vectors(tenant.scope, space_name(LONG_TERM, tenant.embedder.model), ids)
    return {id: np.frombuffer(vector, dtype="<f2").astype(np.float32) for id, vector, *_ in rows}


def vectors_of(tenant: Tenant, texts: Sequence[str]) -> Sequence[Vectors | None]:
    """The vectors of new statements; none where there is no model, or it is away."""
    if tenant.embedder is None or not texts:
        return [None] * len(texts)
    try:
        return list(whole_vectors(tenant.embedder, texts))
    except EmbedderFailed:
        return [None] * len(texts)
