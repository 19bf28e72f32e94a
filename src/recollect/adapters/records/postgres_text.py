"""Text search in PostgreSQL: a GIN index finds who has a term, its rarity within the scope says what that is worth.

Under row-level security the planner may not use the GIN index (`@@` is not leakproof), and would read every text of
the tenant. So the upkeep role searches, with the tenant and the facets as ordinary conditions, and the application
role then reads each hit again behind the wall: what the tenant may not see does not come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recollect.adapters.records.postgres_dialect import placeholders
from recollect.adapters.records.postgres_link import UPKEEP, Link, Question
from recollect.adapters.records.sql import Compiler, quoted
from recollect.ports.records import Query, Scope, TextHit, TextQuery

LONGEST_WORD = 2000  # bytes; PostgreSQL indexes none that is longer, and refuses to look for one
# A term that more of the scope has than this tells little; as many as this stand for the rest.
MOST_HOLDERS = 50_000


def search(
    link: Link, compiler: Compiler, scope: Scope, query: TextQuery[Any], *, bound: str | None = None
) -> list[TextHit]:
    """`bound` is the tenant that the database holds the search to; it is the scope's own."""
    terms = [plain for term in dict.fromkeys(query.terms) if (plain := _plain(term)).strip()]
    if not terms or not query.limit:
        return []
    tenant = bound or scope.organization_id
    statement = placeholders(_statement(compiler, scope, query, terms))
    (hits,) = link.ask(tenant, Question(statement, compiler.values), role=UPKEEP)
    table = quoted(query.record.shape.table)
    proof = f"SELECT id FROM {table} WHERE organization_id = %s AND id = ANY(%s)"
    (rows,) = link.ask(tenant, Question(proof, (scope.organization_id, [id for id, _ in hits])))
    proven = {id for (id,) in rows}
    return [TextHit(id, score) for id, score in hits if id in proven]


def _plain(term: str) -> str:
    storable = term.encode("utf-8", "replace").decode().replace("\x00", " ")
    return " ".join(word for word in storable.split() if len(word.encode()) <= LONGEST_WORD)


def _statement(compiler: Compiler, scope: Scope, query: TextQuery[Any], terms: Sequence[str]) -> str:
    table = quoted(query.record.shape.table)
    words = f"unnest({compiler.bind(list(terms))}::text[]) w"
    asked = f"SELECT DISTINCT phraseto_tsquery('recollect_words', recollect_plain(w)) AS q FROM {words}"
    within = _within(compiler, scope, query, "s")
    matched = _within(compiler, scope, query, "t")
    passing = compiler.where(scope, Query(query.record, query.where), "t")
    return (
        f"WITH asked AS MATERIALIZED (SELECT q FROM ({asked}) a WHERE numnode(q) > 0), "
        f"scope AS (SELECT count(*) AS size FROM {table} s WHERE {within}), "
        f"matched AS MATERIALIZED (SELECT t.id, t._text FROM {table} t WHERE {matched} "
        f"AND t._text @@ (SELECT string_agg(q::text, ' | ')::tsquery FROM asked) LIMIT {MOST_HOLDERS}), "
        "held AS MATERIALIZED (SELECT m.id, a.q FROM matched m JOIN asked a ON m._text @@ a.q), "
        "worth AS (SELECT q, ln(1 + (greatest((SELECT size FROM scope) - count(*), 0) + 0.5) / (count(*) + 0.5)) AS w "
        "FROM held GROUP BY q), "
        "scored AS (SELECT h.id, sum(w.w)::float8 AS score FROM held h JOIN worth w ON w.q = h.q GROUP BY h.id) "
        f"SELECT t.id, c.score FROM scored c JOIN {table} t ON t.id = c.id AND {passing} "
        f"ORDER BY c.score DESC, t.id LIMIT {int(query.limit)}"
    )


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
