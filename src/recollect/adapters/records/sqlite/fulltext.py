"""Text search in SQLite: FTS5 finds who has a term, the rarity of the term within the scope says what that is worth.

The terms are ours, with a space between them; the tokenizer, one that every SQLite has, leaves them as they are.
The tenant and the facets are words of the index itself, folded together, so that a search walks only its own scope.
Not FTS5's own bm25: it counts every term over the whole store, all tenants together, which took 10 ms where this
takes 1.5 (100,000 memories of 100 users), and whose pools held less of LoCoMo's evidence (96.9% against 97.7%).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import apsw

from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.sql_compiler import Compiler, quoted
from recollect.adapters.records.common.text_terms import terms_of
from recollect.adapters.records.sqlite.known_queries import text_filters
from recollect.adapters.records.sqlite.known_rows import KnownRows
from recollect.adapters.records.sqlite.row_marks import RowMarks
from recollect.adapters.records.sqlite.term_holders import MOST_HOLDERS, TermHolders
from recollect.adapters.records.sqlite.text_tables import text_table
from recollect.domain.record import Record, TextIndex
from recollect.domain.text.tokenizer import terms_asked
from recollect.errors import DamagedData
from recollect.ports.query import OneOf, Query, Row, TextHit, TextQuery
from recollect.ports.records import Scope

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows: TypeAlias = NDArray[np.int64]
    SmallRows: TypeAlias = NDArray[np.int32]

INDEXED_AT_ONCE = 1000
PROVEN_BEFORE, MOST_PASSING = 2_000, 50_000  # so many are looked at before it is asked which pass
MOST_KEPT = 1_000  # of more at a time most are looked at this once only
# Leaves our terms whole: whatever is not ASCII belongs to a word, and so do letters, digits and the hyphen.
TOKENIZER = "ascii tokenchars '-'"
_TENANT = 99
FEW_HELD, CLOSE, MOST_BITS = 10_000, 16, 16  # fewer rows, or further apart, are merged more quickly


@lru_cache(maxsize=100_000)
def facet_token(position: int, tenant: str, value: str) -> str:
    """A word of digits only: equal for equal values of one facet of one tenant."""
    raw = f"{tenant}\x1f{value}".encode("utf-8", "surrogatepass")
    return f"{position:02d}{int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), 'big')}"


def facet_tokens(record: Record) -> str:
    values = record.__dict__
    facets = [values[name] for name in shape_of(type(record)).facets]
    return _tokens_of(record.organization_id, *(tuple(one) if type(one) is list else one for one in facets))


@lru_cache(maxsize=10_000)
def _tokens_of(tenant: str, *facets: str | tuple[str, ...] | None) -> str:
    """Many records have the same: what one user said in one session."""
    tokens = [facet_token(_TENANT, tenant, "")]
    for position, value in enumerate(facets):
        for one in value if isinstance(value, tuple) else (value,):
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
    merge_in_steps(connection, record)
    statement = index_statement(record, True)
    columns = ", ".join(quoted(column) for column in codec.names)
    living = f"SELECT _row, {columns} FROM {quoted(record.shape.table)} WHERE is_deleted = 0 AND _row > ? ORDER BY _row"
    count, last = 0, -1
    while rows := cast(list[Row], connection.execute(f"{living} LIMIT {INDEXED_AT_ONCE}", (last,)).fetchall()):
        connection.executemany(statement, (indexed(row[0], codec.record(row[1:])) for row in rows))
        count, last = count + len(rows), rows[-1][0]
    return count


def merge_in_steps(connection: apsw.Connection, record: type[Record]) -> None:
    """Leave merging to us, in steps that others can write between and that nobody's commit waits for.

    To write an index anew without what was deleted is for `erase_traces`. By itself FTS5 does it when a tenth is
    deleted, in whatever transaction deletes that: beside a prune in a store of two million memories whoever else added
    one waited 8 s. What was added it merges within every sixtieth commit, which took 15 ms where others take 1.
    """
    name, kept = text_table(record), quoted(record.shape.table + "_text_config")
    set_to = dict(cast(list[tuple[str, int]], connection.execute(f"SELECT k, v FROM {kept}").fetchall()))
    for option in ("deletemerge", "automerge"):
        if set_to.get(option) != 0:
            connection.execute(f"INSERT INTO {name}({name}, rank) VALUES ('{option}', 0)")


def indexed(row: int, record: Record) -> list[int | str]:
    """What `index_statement` wants to know of a record."""
    return [row, facet_tokens(record), " ".join(terms_of(record))]


@cache
def index_statement(record: type[Record], fresh: bool) -> str:
    verb = "INSERT" if fresh else "INSERT OR REPLACE"
    return f"{verb} INTO {text_table(record)}(rowid, facets, terms) VALUES (?, ?, ?)"


def search(
    connection: apsw.Connection,
    compiler: Compiler,
    holders: TermHolders,
    known: KnownRows,
    counters: Mapping[str, Any],
    scope: Scope,
    query: TextQuery[Record],
) -> list[TextHit]:
    """`counters` are those of the store, as the transaction sees them."""
    facets = _facets(scope, query)
    view = holders.view(connection, query.record, counters)
    size = holders.size(connection, view, facets, is_narrowed=bool(query.facets))
    within = "" if size.is_all else f"{facets} AND "
    matches = [f'{within}terms : "{term}"' for term in terms_asked(query.terms)]
    found = holders.of(connection, view, matches, newest=size.rows > MOST_HOLDERS)
    scored = _scored(found, size.rows)
    for only in (one for one in query.where if isinstance(one, OneOf) and one.field == "id" and one.wanted):
        scored = scored.among(_rows_of(connection, scope, query.record, only.values))
        query = replace(query, where=tuple(one for one in query.where if one is not only))
    return _proven(connection, compiler, known, known.view(connection, counters), scope, query, scored)


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
            near = scores >= self._least_of(wanted)
            first, rest = np.flatnonzero(near), np.flatnonzero(~near)
            best = np.concatenate([first[np.lexsort((-rows[first], -scores[first]))], rest])
            self._ordered = len(first)
        self._rows, self._scores = rows[best], scores[best]

    def _least_of(self, wanted: int) -> float:
        """The score that so many have at least."""
        import numpy as np

        # Sorted, not partitioned: most are equal, with which numpy takes twenty times as long to partition.
        return float(np.sort(self._scores)[len(self._scores) - wanted])

    def __len__(self) -> int:
        return len(self._rows)


class _ScoredByTerms(_Scored):
    """The same where it is known which terms a row has, as a bit for each, and what each set of them is worth."""

    def __init__(self, rows: Rows, terms: NDArray[Any], worth: NDArray[np.float64]) -> None:
        super().__init__(rows, worth[terms])
        self._terms, self._worth = terms, worth

    def _least_of(self, wanted: int) -> float:
        import numpy as np

        order = np.argsort(-self._worth)
        reached = np.cumsum(np.bincount(self._terms, minlength=len(order))[order])
        return float(self._worth[order[np.searchsorted(reached, wanted)]])


def _scored(found: Sequence[Rows | SmallRows], size: int) -> _Scored:
    import numpy as np

    held = [rows for rows in found if len(rows)]
    if not held:
        return _Scored(np.empty(0, np.int64), np.empty(0))
    worth = [math.log(1 + (max(size - len(rows), 0) + 0.5) / (len(rows) + 0.5)) for rows in held]
    first, last = min(int(rows[0]) for rows in held), max(int(rows[-1]) for rows in held)
    count = sum(map(len, held))
    if count > FEW_HELD and last - first < CLOSE * count and len(held) <= MOST_BITS:
        return _by_terms(held, worth, first, last)
    # Runs that go up are merged, and those of one row are added in the order of the terms.
    together, worths = np.concatenate(held, dtype=np.int64), np.repeat(worth, [len(one) for one in held])
    order = np.argsort(together, kind="stable")
    rows = together[order]
    is_first = np.concatenate([[True], rows[1:] != rows[:-1]])
    places = np.cumsum(is_first) - 1
    return _Scored(rows[is_first], np.bincount(places, worths[order]).astype(np.float64, copy=False))


def _by_terms(held: Sequence[Rows | SmallRows], worth: Sequence[float], first: int, last: int) -> _Scored:
    """Where many lie close together: 40,000 among 100,000 rows in 0.2 ms, which to merge takes 0.7."""
    import numpy as np

    terms: NDArray[Any] = np.zeros(last - first + 1, np.uint8 if len(held) <= 8 else np.uint16)
    sums = np.zeros(1)
    for bit, (rows, worth_of_one) in enumerate(zip(held, worth, strict=True)):
        terms[rows - first] |= 1 << bit
        sums = np.concatenate([sums, sums + worth_of_one])
    rows = np.flatnonzero(terms != 0)
    return _ScoredByTerms(rows + first, terms[rows], sums)


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
    known: KnownRows,
    seen: RowMarks | None,
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
    filters = text_filters(query) if known.keeps_memories else None
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
        found: dict[Any, Any] | None = None
        if seen is not None and filters is not None and len(rows) <= MOST_KEPT:
            # One that cannot be read, perhaps of none that passes, is dealt with by who reads those that do.
            with suppress(DamagedData, TypeError, UnicodeDecodeError):
                found = known.passing_rows(seen, connection, rows.tolist(), scope.organization_id, filters)
        if found is None:
            found = dict(connection.execute(statement, (apsw.carray(rows), *compiler.values)))
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
