"""Text search in PostgreSQL: a GIN index finds who has a term, its rarity within the scope says what that is worth.

Under row-level security the planner may not use the GIN index (`@@` is not leakproof), and would read every text of
the tenant. So the upkeep role searches, with the tenant and the facets as ordinary conditions, and the application
role then reads each hit again behind the wall: what the tenant may not see does not come back.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from typing import Any

from recollect.adapters.records.postgres_dialect import placeholders
from recollect.adapters.records.postgres_link import UPKEEP, Link, Question
from recollect.adapters.records.sql import Compiler, quoted
from recollect.ports.records import Query, Scope, TextHit, TextQuery

LONGEST_WORD = 2000  # bytes; PostgreSQL indexes none that is longer, and refuses to look for one
# A term that more of the scope has than this tells little; as many as this stand for the rest.
MOST_HOLDERS = 50_000
MANY, MOST_KNOWN, COUNTED_AGAIN_SECONDS = 10_000, 1000, 60.0


class Sizes:
    """How many records a scope has. Counting many takes longer than finding the best, and one more hardly matters."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[float, int]] = {}

    def of(self, scope: Hashable) -> int | None:
        until, size = self._known.get(scope, (0.0, 0))
        return size if until > time.monotonic() else None

    def note(self, scope: Hashable, size: int) -> None:
        if size >= MANY:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[scope] = time.monotonic() + COUNTED_AGAIN_SECONDS, size


def search(
    link: Link, compiler: Compiler, scope: Scope, query: TextQuery[Any], sizes: Sizes, *, bound: str | None = None
) -> list[TextHit]:
    """`bound` is the tenant that the database holds the search to; it is the scope's own."""
    terms = [plain for term in dict.fromkeys(query.terms) if (plain := _plain(term)).strip()]
    if not terms or not query.limit:
        return []
    tenant = bound or scope.organization_id
    within = (tenant, query.record, repr(sorted(query.facets.items())))
    statement = placeholders(_statement(compiler, scope, query, terms, sizes.of(within)))
    (rows,) = link.ask(tenant, Question(statement, compiler.values), role=UPKEEP)
    if not rows:
        return []
    sizes.note(within, rows[0][2])
    table = quoted(query.record.shape.table)
    proof = f"SELECT id FROM {table} WHERE organization_id = %s AND id = ANY(%s)"
    (found,) = link.ask(tenant, Question(proof, (scope.organization_id, [row[0] for row in rows])))
    proven = {id for (id,) in found}
    return [TextHit(id, score) for id, score, _ in rows if id in proven]


def _plain(term: str) -> str:
    storable = term.encode("utf-8", "replace").decode().replace("\x00", " ")
    return " ".join(word for word in storable.split() if len(word.encode()) <= LONGEST_WORD)


def _statement(compiler: Compiler, scope: Scope, query: TextQuery[Any], terms: Sequence[str], size: int | None) -> str:
    """Values are bound in the order in which they stand in the text."""
    table = quoted(query.record.shape.table)
    words = f"unnest({compiler.bind(list(terms))}::text[]) w"
    asked = f"SELECT DISTINCT phraseto_tsquery('recollect_words', recollect_plain(w)) AS q FROM {words}"
    passing = compiler.where(scope, Query(query.record, query.where), "t")
    matched = _within(compiler, scope, query, "t")
    counted = f"{size}" if size is not None else _count(compiler, scope, query)
    # Sums of the same terms must be equal in whatever order they are made, so they are not of floats.
    return (
        f"WITH asked AS MATERIALIZED (SELECT q, row_number() OVER () AS n FROM ({asked}) a WHERE numnode(q) > 0), "
        f"matched AS MATERIALIZED (SELECT t.id, t._text, {passing} AS passes FROM {table} t WHERE {matched} "
        f"AND t._text @@ (SELECT string_agg(q::text, ' | ')::tsquery FROM asked) LIMIT {MOST_HOLDERS}), "
        "held AS MATERIALIZED (SELECT m.id, m.passes, a.n FROM matched m JOIN asked a ON m._text @@ a.q), "
        f"scope AS MATERIALIZED (SELECT ({counted})::bigint AS size), "
        "worth AS MATERIALIZED (SELECT n, ln(1 + (greatest((SELECT size FROM scope) - count(*), 0) + 0.5)::float8 "
        "/ (count(*) + 0.5)::float8)::numeric AS w FROM held GROUP BY n) "
        "SELECT h.id, sum(w.w)::float8 AS score, (SELECT size FROM scope) FROM held h JOIN worth w USING (n) "
        f"WHERE h.passes GROUP BY h.id ORDER BY score DESC, h.id LIMIT {int(query.limit)}"
    )


def _count(compiler: Compiler, scope: Scope, query: TextQuery[Any]) -> str:
    return f"SELECT count(*) FROM {quoted(query.record.shape.table)} s WHERE {_within(compiler, scope, query, 's')}"


def _within(compiler: Compiler, scope: Scope, query: TextQuery[Any], alias: str) -> str:
    parts = [compiler.where(scope, Query(query.record), alias)]
    for name, values in query.facets.items():
        column = f"{alias}.{quoted(name)}"
        bound = compiler.bind(list(values)) + "::text[]"
        if next(one.type for one in query.record.columns() if one.name == name) == "json":
            parts.append(f"EXISTS (SELECT 1 FROM json_array_elements_text({column}) e WHERE e = ANY({bound}))")
        else:
            parts.append(f"{column} = ANY({bound})")
    return " AND ".join(parts)
