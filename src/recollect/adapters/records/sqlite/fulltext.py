"""Text search in SQLite: FTS5 finds who has a term, the rarity of the term within the scope says what that is worth.

The terms are ours, with a space between them; the tokenizer, one that every SQLite has, leaves them as they are.
The tenant and the facets are words of the index itself, folded together, so that a search walks only its own scope.
Not FTS5's own bm25: it counts every term over the whole store, all tenants together, which took 10 ms where this
takes 1.5 (100,000 memories of 100 users), and whose pools held less of LoCoMo's evidence (96.9% against 97.7%).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import apsw

from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.sql_compiler import Compiler, quoted
from recollect.adapters.records.common.text_terms import terms_of
from recollect.adapters.records.sqlite.term_holders import MOST_HOLDERS, TermHolders
from recollect.adapters.records.sqlite.text_tables import text_table
from recollect.domain.record import Record, TextIndex
from recollect.domain.text.tokenizer import terms_asked
from recollect.ports.query import OneOf, Query, Row, TextHit, TextQuery
from recollect.ports.records import Scope

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows: TypeAlias = NDArray[np.int64]
    SmallRows: TypeAlias = NDArray[np.int32]

INDEXED_AT_ONCE = 1000
PROVEN_BEFORE, MOST_PASSING = 2_000, 50_000  # so many are looked at before it is asked which pass
# Leaves our terms whole: whatever is not ASCII belongs to a word, and so do letters, digits and the hyphen.
TOKENIZER = "ascii tokenchars '-'"
_TENANT = 99


@lru_cache(maxsize=100_000)
def facet_token(position: int, tenant: str, value: str) -> str:
    """A word of digits only: equal for equal values of one facet of one tenant."""
    raw = f"{tenant}\x1f{value}".encode("utf-8", "surrogatepass")
    return f"{position:02d}{int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), 'big')}"


def facet_tokens(record: Record) -> str:
    tenant = record.organization_id
    tokens = [facet_token(_TENANT, tenant, "")]
    for position, name in enumerate(shape_of(type(record)).facets):
        value = getattr(record, name)
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                tokens.append(facet_token(position, tenant, one))
    return " ".join(tokens)


def shape_of(record: type[Record]) -> TextIndex:
    shape = record.shape.text
    assert shape is not None
    return shape


def make_text(connection: apsw.Connection, record: type[Record], codec: Codec) -> int:
    """The text index of a record type, anew and filled from the records; gives how many are in it."""
    name = text_table(record)
    connection.execute(f"DROP TABLE IF EXISTS {name}")
    connection.execute(
        f"CREATE VIRTUAL TABLE {name} USING fts5(facets, terms, content='', contentless_delete=1, detail=column, "
        f'tokenize="{TOKENIZER}")'
    )
    connection.execute(f"INSERT INTO {name}({name}, rank) VALUES ('secure-delete', 1)")
    statement = index_statement(record, True)
    columns = ", ".join(quoted(column) for column in codec.names)
    living = f"SELECT _row, {columns} FROM {quoted(record.shape.table)} WHERE is_deleted = 0 AND _row > ? ORDER BY _row"
    count, last = 0, -1
    while rows := cast(list[Row], connection.execute(f"{living} LIMIT {INDEXED_AT_ONCE}", (last,)).fetchall()):
        connection.executemany(statement, (indexed(row[0], codec.record(row[1:])) for row in rows))
        count, last = count + len(rows), rows[-1][0]
    return count


def indexed(row: int, record: Record) -> list[int | str]:
    """What `index_statement` wants to know of a record."""
    return [row, facet_tokens(record), " ".join(terms_of(record))]


@cache
def index_statement(record: type[Record], fresh: bool) -> str:
    verb = "INSERT" if fresh else "INSERT OR REPLACE"
    return f"{verb} INTO {text_table(record)}(rowid, facets, terms) VALUES (?, ?, ?)"


def search(
    connection: apsw.Connection, compiler: Compiler, holders: TermHolders, scope: Scope, query: TextQuery[Record]
) -> list[TextHit]:
    facets = _facets(scope, query)
    view = holders.view(connection, query.record)
    size = holders.size(connection, view, facets, is_narrowed=bool(query.facets))
    within = "" if size.is_all else f"{facets} AND "
    matches = [f'{within}terms : "{term}"' for term in terms_asked(query.terms)]
    found = holders.of(connection, view, matches, newest=size.rows > MOST_HOLDERS)
    scored = _scored(found, size.rows)
    for only in (one for one in query.where if isinstance(one, OneOf) and one.field == "id" and one.wanted):
        scored = scored.among(_rows_of(connection, scope, query.record, only.values))
        query = replace(query, where=tuple(one for one in query.where if one is not only))
    return _proven(connection, compiler, scope, query, scored)


def _rows_of(connection: apsw.Connection, scope: Scope, record: type[Record], ids: Sequence[Any]) -> Rows:
    import numpy as np

    text = (
        f"SELECT t._row FROM carray(?) c CROSS JOIN {quoted(record.shape.table)} t"
        " ON t.organization_id = ? AND t.id = c.value"
    )
    known = tuple(id for id in ids if isinstance(id, str))
    if not known:  # an array must not be empty
        return np.empty(0, np.int64)
    rows = connection.execute(text, (apsw.carray(known), scope.organization_id)).fetchall()
    return np.fromiter((row for (row,) in rows), np.int64, len(rows))


class _Scored:
    """Every row that holds a term, with the sum of what its terms are worth, given out the best first.

    Of thousands only the best are put in order; the others when they are asked for.
    """

    def __init__(self, rows: Rows, scores: NDArray[np.float64]) -> None:
        self._rows, self._scores = rows, scores
        self._ordered = 0

    def among(self, rows: Rows) -> _Scored:
        import numpy as np

        kept = np.isin(self._rows, rows)
        return _Scored(self._rows[kept], self._scores[kept])

    def slice(self, start: int, stop: int) -> tuple[Rows, list[float]]:
        if stop > self._ordered < len(self._rows):
            self._order(stop)
        return self._rows[start:stop], self._scores[start:stop].tolist()

    def _order(self, wanted: int) -> None:
        import numpy as np

        rows, scores = self._rows, self._scores
        if self._ordered or 4 * wanted >= len(rows):
            best = np.lexsort((-rows, -scores))
            self._ordered = len(rows)
        else:
            # Sorted, not partitioned: most are equal, with which numpy takes twenty times as long to partition.
            near = scores >= np.sort(scores)[len(scores) - wanted]
            first, rest = np.flatnonzero(near), np.flatnonzero(~near)
            best = np.concatenate([first[np.lexsort((-rows[first], -scores[first]))], rest])
            self._ordered = len(first)
        self._rows, self._scores = rows[best], scores[best]

    def __len__(self) -> int:
        return len(self._rows)


def _scored(found: Sequence[Rows | SmallRows], size: int) -> _Scored:
    import numpy as np

    held = [rows for rows in found if len(rows)]
    if not held:
        return _Scored(np.empty(0, np.int64), np.empty(0))
    worth = [math.log(1 + (max(size - len(rows), 0) + 0.5) / (len(rows) + 0.5)) for rows in held]
    first, last = min(int(rows[0]) for rows in held), max(int(rows[-1]) for rows in held)
    together, worths = np.concatenate(held, dtype=np.int64), np.repeat(worth, [len(one) for one in held])
    if last - first < 2 * len(together):
        every = _sums(together - first, worths)
        rows = np.flatnonzero(every)
        return _Scored(rows + first, every[rows])
    # They lie far apart: runs that go up are merged, and those of one row are added in the order of the terms.
    order = np.argsort(together, kind="stable")
    rows = together[order]
    is_first = np.concatenate([[True], rows[1:] != rows[:-1]])
    return _Scored(rows[is_first], _sums(np.cumsum(is_first) - 1, worths[order]))


def _sums(places: Rows, worths: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return np.bincount(places, worths).astype(np.float64, copy=False)


def _facets(scope: Scope, query: TextQuery[Record]) -> str:
    shape, tenant = shape_of(query.record), scope.organization_id
    groups = []
    for name, values in query.facets.items():
        position = shape.facets.index(name)
        tokens = " OR ".join(facet_token(position, tenant, value) for value in values) or '""'
        groups.append(f"facets : ({tokens})")
    return " AND ".join(groups or [f"facets : {facet_token(_TENANT, tenant, '')}"])


def _proven(
    connection: apsw.Connection,
    compiler: Compiler,
    scope: Scope,
    query: TextQuery[Record],
    scored: _Scored,
) -> list[TextHit]:
    """Each hit is read from the record itself, slice by slice until there are enough: tokens are only hashes."""
    proof = [_facet_proof(compiler, name, values) for name, values in query.facets.items()]
    condition = " AND ".join([*proof, compiler.where(scope, Query(query.record, query.where), "t")])
    statement = (
        f"SELECT t._row, t.id FROM carray(?) c CROSS JOIN {quoted(query.record.shape.table)} t ON t._row = c.value "
        f"WHERE {condition}"
    )
    hits: list[TextHit] = []
    start, size, is_known = 0, max(query.limit, 1), False
    while start < len(scored) and len(hits) < query.limit:
        if start >= PROVEN_BEFORE and not is_known:
            is_known = True
            left = min(len(scored), start * query.limit // max(len(hits), 1)) - start
            passing = _passing(connection, query.record, condition, compiler.values, most=min(left, MOST_PASSING))
            if passing is not None:
                scored, hits, start, size = scored.among(passing), [], 0, query.limit
                continue
        rows, scores = scored.slice(start, start + size)
        found: dict[Any, Any] = dict(connection.execute(statement, (apsw.carray(rows), *compiler.values)))
        hits += [TextHit(found[row], score) for row, score in zip(rows.tolist(), scores, strict=True) if row in found]
        start, size = start + size, min(4 * size, 20_000)
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[: query.limit]


def _passing(
    connection: apsw.Connection, record: type[Record], condition: str, values: Sequence[object], most: int
) -> Rows | None:
    """The rows that pass, where they are fewer than those that would have to be looked at."""
    import numpy as np

    text = f"SELECT t._row FROM {quoted(record.shape.table)} t WHERE {condition} LIMIT {most + 1}"
    rows = connection.execute(text, tuple(values)).fetchall()
    return np.fromiter((row for (row,) in rows), np.int64, len(rows)) if len(rows) <= most else None


def _facet_proof(compiler: Compiler, name: str, values: Sequence[str]) -> str:
    marks = ", ".join(compiler.bind(value) for value in values)
    if name == "namespaces":
        return f"EXISTS (SELECT 1 FROM json_each(t.namespaces) WHERE value IN ({marks}))"
    return f"t.{quoted(name)} IN ({marks})"
