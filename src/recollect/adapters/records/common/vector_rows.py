"""Rows of stored vectors, as the stores that keep lists as JSON text read them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache

from recollect.domain.memory import space_name
from recollect.errors import DamagedData
from recollect.ports.query import Row
from recollect.ports.vectors import VectorRow

VECTOR_COLUMNS = "_seq, organization_id, memory_id, namespace, model, facets, vector"


@lru_cache(maxsize=100_000)
def _facets_of(raw: str) -> tuple[str | None, ...]:
    try:
        return tuple(json.loads(raw))
    except (ValueError, TypeError) as error:
        raise DamagedData(
            "a stored vector cannot be read", remedy="run `recollect verify`, then restore a backup"
        ) from error


def vector_rows(rows: Iterable[Row]) -> list[VectorRow]:
    return [
        VectorRow(seq, organization_id, memory_id, _space_name(namespace, model), _facets_of(facets), vector)
        for seq, organization_id, memory_id, namespace, model, facets, vector in rows
    ]


_space_name = lru_cache(maxsize=1000)(space_name)
