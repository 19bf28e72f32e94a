"""Text search in DuckDB: a table of (word, row) that is scanned, and the rarity of a word within the scope.

No extension is loaded: the terms are those of `domain/text/tokenizer.py`, kept as 63-bit hashes.
A column of numbers needs no index: DuckDB reads a million of them in a millisecond or two, and a write adds its rows at
the end. The tenant and the facets are conditions on the records themselves, so nothing of others is ever counted.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import duckdb

from recollect.adapters.records.common import text_terms
from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.dialect import Run
from recollect.adapters.records.common.sql_compiler import Compiler, quoted
from recollect.domain.record import Record
from recollect.domain.text.tokenizer import terms_asked
from recollect.ports.query import Query, TextHit, TextQuery
from recollect.ports.records import Scope

NAMES = ("term", "row")
INDEXED_AT_ONCE = 2000
MAKER = "63-bit hashes of terms"


def text_table(record: type[Record]) -> str:
    return record.shape.table + "_text"


def make_text(run: Run, record: type[Record], codec: Codec) -> int:
    """The table of words of a record type, anew and filled from the records; gives how many are in it."""
    name = quoted(text_table(record))
    run(f"DROP TABLE IF EXISTS {name}", ())
    run(f"CREATE TABLE {name}(term BIGINT, row BIGINT)", ())
    columns = ", ".join(quoted(column) for column in codec.names)
    living = f"SELECT _row, {columns} FROM {quoted(record.shape.table)} WHERE is_deleted = FALSE AND _row > ?"
    count, last = 0, -1
    while rows := run(f"{living} ORDER BY _row LIMIT {INDEXED_AT_ONCE}", (last,)):
        words = [(term, row[0]) for row in rows for term in sorted(terms_of(codec.record(row[1:])))]
        if words:
            numbers, holders = (list(column) for column in zip(*words, strict=True))
            run(f"INSERT INTO {name} SELECT unnest(?::BIGINT[]), unnest(?::BIGINT[])", (numbers, holders))
        count, last = count + len(rows), rows[-1][0]
    return count


def terms_of(record: Record) -> set[int]:
    return set(map(_number, text_terms.terms_of(record)))


@lru_cache(maxsize=100_000)
def _number(term: str) -> int:
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "big") >> 1


def search(
    cursor: duckdb.DuckDBPyConnection, compiler: Compiler, scope: Scope, query: TextQuery[Record]
) -> list[TextHit]:
    asked = sorted(map(_number, terms_asked(query.terms)))
    if not asked or not query.limit:
        return []
    found = cursor.execute(_statement(compiler, scope, query, asked), compiler.values).fetchall()
    return [TextHit(id, score) for id, score in found]


def _statement(compiler: Compiler, scope: Scope, query: TextQuery[Record], numbers: list[int]) -> str:
    table, index = quoted(query.record.shape.table), quoted(text_table(query.record))
    asked = f"SELECT unnest({compiler.bind(numbers)}::BIGINT[])"
    within = _within(compiler, scope, query)
    passing = compiler.where(scope, Query(query.record, query.where), "t")
    # Scores are added as whole numbers: sums of fractions would depend on the order in which threads meet them.
    worth = "round(1e9 * ln(1 + ((SELECT count(*) FROM inside) - count(*) + 0.5) / (count(*) + 0.5)))::BIGINT"
    return (
        f"WITH held AS MATERIALIZED (SELECT term, row FROM {index} WHERE term IN ({asked})), "
        f"inside AS MATERIALIZED (SELECT s._row AS row FROM {table} s WHERE {within}), "
        "found AS MATERIALIZED (SELECT held.term, held.row FROM held JOIN inside ON inside.row = held.row), "
        f"worth AS (SELECT term, {worth} AS worth FROM found GROUP BY term), "
        "scored AS (SELECT row, sum(worth)::DOUBLE / 1e9 AS score FROM found JOIN worth USING (term) GROUP BY row) "
        f"SELECT t.id, c.score FROM scored c JOIN {table} t ON t._row = c.row WHERE {passing} "
        f"ORDER BY c.score DESC, t.id LIMIT {int(query.limit)}"
    )


def _within(compiler: Compiler, scope: Scope, query: TextQuery[Record]) -> str:
    parts = [compiler.where(scope, Query(query.record), "s")]
    for name, values in query.facets.items():
        column, wanted = f"s.{quoted(name)}", f"{compiler.bind(list(values))}::VARCHAR[]"
        if next(one.type for one in query.record.columns() if one.name == name) == "json":
            parts.append(f"list_has_any(from_json({column}, '[\"VARCHAR\"]'), {wanted})")
        else:
            parts.append(f"{column} IN (SELECT unnest({wanted}))")
    return " AND ".join(parts)
