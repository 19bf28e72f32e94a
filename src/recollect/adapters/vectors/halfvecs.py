"""How a table with a column of pgvector's type `halfvec` is searched and indexed.

A scope of up to so many rows is filtered first and scored exactly: under a selective filter an HNSW walk is slower and
misses most. A broader one walks the HNSW index that covers it, if there is one, and on until enough of what it meets
passes the filters (iterative scan, in strict order).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from recollect.adapters.records.postgres_link import Connection
from recollect.adapters.records.postgres_vectors import Half, half
from recollect.ports.vectors import FACETS

EXACT_ROWS = 10_000
INDEX_ROWS = 50_000
INDEXABLE_DIMENSIONS = 4000


@dataclass(frozen=True, slots=True)
class Halfvecs:
    """A table whose rows have `_halfvec` and `facets`; `key` is the column that a search is for."""

    table: str
    key: str

    def nearest(
        self,
        connection: Connection,
        condition: str,
        values: Sequence[Any],
        query: NDArray[np.floating],
        limit: int,
        exact_rows: int,
    ) -> list[tuple[Any, ...]]:
        """(key, minus the similarity), best first."""
        vector = half(query.astype("<f2").tobytes())
        few = f"SELECT count(*) FROM (SELECT 1 FROM {self.table} WHERE {condition} LIMIT {exact_rows + 1}) c"
        if connection.execute(few, values).fetchall()[0][0] <= exact_rows:
            return self._exact(connection, condition, values, vector, limit)
        return self._walk(connection, condition, values, vector, len(query), limit)

    def _exact(
        self, connection: Connection, condition: str, values: Sequence[Any], vector: Half | None, limit: int
    ) -> list[tuple[Any, ...]]:
        text = (
            f"WITH scope AS MATERIALIZED (SELECT {self.key}, _halfvec FROM {self.table} WHERE {condition}) "
            f"SELECT {self.key}, _halfvec <#> %s::halfvec AS distance FROM scope ORDER BY distance, {self.key} LIMIT %s"
        )
        return connection.execute(text, [*values, vector, limit]).fetchall()

    def _walk(
        self,
        connection: Connection,
        condition: str,
        values: Sequence[Any],
        vector: Half | None,
        dimensions: int,
        limit: int,
    ) -> list[tuple[Any, ...]]:
        effort = min(max(2 * limit, 100), 1000)
        connection.execute("SET LOCAL hnsw.iterative_scan = strict_order")
        connection.execute(f"SET LOCAL hnsw.ef_search = {effort}")
        statement = self.walk_statement(condition, dimensions)
        return connection.execute(statement, [vector, *values, vector, limit]).fetchall()

    def walk_statement(self, condition: str, dimensions: int) -> str:
        distance = f"(_halfvec::halfvec({dimensions})) <#> %s::halfvec({dimensions})"
        return f"SELECT {self.key}, {distance} FROM {self.table} WHERE {condition} ORDER BY {distance} LIMIT %s"


def literal(condition: str, *values: Any) -> str:
    """The values as literals: only then may the planner use an index that covers just this scope."""
    text: str = sql.SQL(condition).format(*map(sql.Literal, values)).as_string()
    return text.replace("%", "%%")


def facet_tests(where: Mapping[str, Collection[str | None]]) -> tuple[list[str], list[Any]]:
    tests: list[str] = []
    values: list[Any] = []
    for name, allowed in where.items():
        facet = f"facets ->> {FACETS.index(name)}"
        values.append([value for value in allowed if value is not None])
        test = f"{facet} = ANY(%s::text[])"
        tests.append(f"({test} OR {facet} IS NULL)" if None in allowed else test)
    return tests, values


def make_index(
    connection: Connection, name: str, table: str, dimensions: int, condition: str, schema: str = ""
) -> None:
    """An HNSW index of part of a table, made without blocking writers."""
    connection.execute("SET maintenance_work_mem = '256MB'")
    full = f"{schema}.{name}" if schema else name
    found = connection.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", (full,)).fetchall()
    if found and not found[0][0]:  # what an interrupted build leaves behind
        connection.execute(f"DROP INDEX {full}")
    # No values are bound here, so a percent sign stands for itself.
    connection.execute(
        f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {table} "
        f"USING hnsw ((_halfvec::halfvec({dimensions})) halfvec_ip_ops) WHERE {condition.replace('%%', '%')}"
    )
