"""How a table with a column of pgvector's type `halfvec` is searched and indexed.

Where only so many rows pass the filter, they are filtered first and scored exactly: under a selective filter an HNSW
walk is slower and misses most. A broader one walks the HNSW index that covers it, if there is one, and on until enough
of what it meets passes the filters (iterative scan, in strict order). Where that gives up too early, all rows that pass
are scored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from recollect.adapters.postgres.connection import Connection, Row
from recollect.adapters.postgres.halfvec import HalfVector, half
from recollect.adapters.ttl_cache import TtlCache
from recollect.ports.vectors import FACETS

Vector = NDArray[np.floating]
Neighbour = Row  # its key, and minus the similarity
EXACT_ROWS = 5_000
INDEX_ROWS = 10_000
INDEXABLE_DIMENSIONS = 4000
EVERY = 1 << 40  # rows: no limit
MOST_WALKED = 10_000
LEAST_EFFORT = 100
LEAST_BUILD_MEMORY = 256 * 2**20  # one index is made at a time
LINK_BYTES = 1_000  # of a vector in an HNSW index that is being made, beside its numbers: 700 to 930 were measured


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows a search may find."""

    condition: str
    values: Sequence[object]

    @property
    def key(self) -> Hashable:
        return self.condition, repr(self.values)

    def within(self, part: str) -> RowFilter:
        return RowFilter(f"{self.condition} AND {part}", self.values) if part else self


class Part(NamedTuple):
    """Rows that are searched together: those of an index, or those that none covers, which come in a settled order."""

    condition: str = ""
    has_index: bool = True


class Server(NamedTuple):
    """How the table is reached: by one question, or by one in a transaction that was told something first."""

    ask: Callable[[str, Sequence[object]], list[Row]]
    walk: Callable[[str, str, Sequence[object]], list[Row]]


@dataclass(frozen=True, slots=True)
class Halfvecs:
    """A table whose rows have `_halfvec` and `facets`; `key` is the column that a search is for."""

    table: str
    key: str

    def exact(self, row_filter: RowFilter, query: Vector, limit: int, most: int) -> tuple[str, list[object]]:
        """Scores each row that passes, if there are no more than `most`; `scored` reads the answer."""
        text = (
            f"WITH passed AS MATERIALIZED (SELECT {self.key}, _halfvec FROM {self.table} WHERE {row_filter.condition} "
            f"LIMIT {most + 1}), best AS (SELECT {self.key}, min(_halfvec <#> %s::halfvec) AS distance FROM passed "
            f"GROUP BY {self.key} ORDER BY distance, {self.key} LIMIT %s) "
            f"SELECT {self.key}, distance, size FROM (SELECT count(*) AS size FROM passed) c LEFT JOIN best ON TRUE"
        )
        return text, [*row_filter.values, _half(query), limit]

    def nearest(
        self,
        row_filter: RowFilter,
        query: Vector,
        limit: int,
        most: int,
        broad: TtlCache[bool],
        server: Server,
        divided: Callable[[], Sequence[Part]] = lambda: (Part(),),
    ) -> list[Neighbour]:
        """(key, minus the similarity), best first. `broad` remembers the filters that are too broad to be scored.

        `divided` says how the rows are divided between the indexes; the last part is what none of them covers.
        """
        if not broad.get(row_filter.key):
            found = scored(server.ask(*self.exact(row_filter, query, limit, most)), most)
            if found is not None:
                return found
            broad.set(row_filter.key, True)
        rows, parts = limit, divided()
        while True:
            statement = self.walk_statement(row_filter.condition, len(query), rows, parts)
            values = self.walk_values(row_filter, query, parts)
            walked = server.walk(_told(walk_settings(rows)), statement, values)
            short, found = _short(walked, rows, parts), _each_once(walked)
            if not short and len(found) < limit and rows <= MOST_WALKED:
                rows *= 4  # several of the nearest have one key: more are needed
                continue
            if not short and len(found) >= limit:
                return found[:limit]
            # A walk gives up where few of what it meets pass: what its index covers is scored whole.
            left = [row_filter.within(parts[number].condition) for number in short] or [row_filter]
            for one in left:
                found += scored(server.ask(*self.exact(one, query, limit, EVERY)), EVERY) or []
            return _each_once(found)[:limit]

    def walk_statement(self, condition: str, dimensions: int, limit: int, parts: Sequence[Part]) -> str:
        """Gives (key, minus the similarity, number of the part), a part's best first; one may give up too early.

        The limit is written out: a plan that is made once would else be one for a tenth of the table.
        """
        distance = f"(_halfvec::halfvec({dimensions})) <#> %s::halfvec({dimensions})"
        walks = [
            f"SELECT {self.key}, {distance} AS distance, {number} AS part FROM {self.table} "
            f"WHERE {condition}{part.condition and f' AND {part.condition}'} "
            f"ORDER BY {distance}{'' if part.has_index else f', {self.key}'} LIMIT {limit}"
            for number, part in enumerate(parts)
        ]
        return walks[0] if len(walks) == 1 else " UNION ALL ".join(f"({walk})" for walk in walks)

    def walk_values(self, row_filter: RowFilter, query: Vector, parts: Sequence[Part]) -> list[object]:
        vector = _half(query)
        return [value for _ in parts for value in (vector, *row_filter.values, vector)]


def walk_settings(limit: int) -> dict[str, str]:
    """For one transaction: go on until enough pass, nearest first, looking at several times as many as are wanted."""
    return {
        "hnsw.iterative_scan": "strict_order",
        "hnsw.ef_search": str(min(max(2 * limit, LEAST_EFFORT), 1000)),
    }


def _told(settings: Mapping[str, str]) -> str:
    return "SELECT " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())


def walked_enough(walked: Sequence[Row], limit: int, parts: Sequence[Part]) -> list[Neighbour] | None:
    """The answer of one walk; None if it takes more to be sure of it."""
    found = _each_once(walked)
    return found[:limit] if len(found) >= limit and not _short(walked, limit, parts) else None


def _short(walked: Sequence[Row], rows: int, parts: Sequence[Part]) -> list[int]:
    """The parts whose walk came to fewer than were asked for; of the last, which no index covers, that is all."""
    met = Counter(row[2] for row in walked)
    return [number for number in range(max(1, len(parts) - 1)) if met[number] < rows]


def _each_once(walked: Sequence[Row]) -> list[Neighbour]:
    """The nearest of each key, best first."""
    found: dict[Hashable, float] = {}
    for row in sorted(walked, key=_by_distance):
        found.setdefault(row[0], row[1])
    return list(found.items())


def _by_distance(one: Row) -> tuple[float, Any]:
    return one[1], one[0]


def scored(rows: Sequence[Row], most: int) -> list[Neighbour] | None:
    """The answer to an exact search: (key, minus the similarity), best first; None if too many rows pass."""
    if rows[0][2] > most:
        return None
    return sorted(((key, distance) for key, distance, _ in rows if key is not None), key=_by_distance)


def _half(query: Vector) -> HalfVector | None:
    return half(query.astype("<f2").tobytes())


@lru_cache(maxsize=4096)
def literal(condition: str, *values: Hashable) -> str:
    """The values as literals: only then may the planner use an index that covers just these rows."""
    text: str = sql.SQL(condition).format(*map(sql.Literal, values)).as_string()
    return text.replace("%", "%%")


def facet_tests(
    where: Mapping[str, Collection[str | None]], columns: Mapping[str, str] | None = None
) -> tuple[list[str], list[object]]:
    """Conditions on the facets of a row; some of them may have a column of their own."""
    tests: list[str] = []
    values: list[object] = []
    for name, allowed in where.items():
        facet = (columns or {}).get(name) or f"facets ->> {FACETS.index(name)}"
        wanted = [value for value in allowed if value is not None]
        is_one = len(wanted) == 1  # which is planned sooner
        values.append(wanted[0] if is_one else wanted)
        test = f"{facet} = %s::text" if is_one else f"{facet} = ANY(%s::text[])"
        tests.append(f"({test} OR {facet} IS NULL)" if None in allowed else test)
    return tests, values


def build_memory(connection: Connection, *, is_pooled: bool) -> int:
    """The bytes that an index may take while it is made: what the administrator gave, and not too little."""
    ((kib,),) = connection.execute("SELECT setting::bigint FROM pg_settings WHERE name = 'maintenance_work_mem'")
    return int(kib) * 1024 if is_pooled else max(int(kib) * 1024, LEAST_BUILD_MEMORY)


def rows_that_fit(memory: int, dimensions: int) -> int:
    """Of so many vectors an index is made in memory; each further one takes ten times as long."""
    return max(1, memory // (2 * dimensions + LINK_BYTES))


def make_index(
    connection: Connection,
    name: str,
    table: str,
    dimensions: int,
    condition: str,
    schema: str = "",
    *,
    is_pooled: bool = False,
) -> None:
    """An HNSW index of part of a table, made without blocking writers."""
    if not is_pooled:  # it cannot be made inside a transaction, and a setting of the session would be left to others
        connection.execute(f"SET maintenance_work_mem = '{build_memory(connection, is_pooled=False) // 1024}kB'")
    full = f"{schema}.{name}" if schema else name
    found = connection.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", (full,)).fetchall()
    if found and not found[0][0]:  # what an interrupted build leaves behind, on a cluster on some of the shards only
        connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {full}")
    # No values are bound here, so a percent sign stands for itself.
    connection.execute(
        f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {table} "
        f"USING hnsw ((_halfvec::halfvec({dimensions})) halfvec_ip_ops) WHERE {condition.replace('%%', '%')}"
    )
