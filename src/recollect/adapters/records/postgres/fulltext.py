"""Text search in PostgreSQL: a GIN index finds who has a term, its rarity within the scope says what that is worth.

Under row-level security the planner may not use the GIN index (`@@` is not leakproof), and would read every text of
the tenant. So the upkeep role searches, with the tenant and the facets as ordinary conditions, and the application
role then reads each hit again behind the wall: what the tenant may not see does not come back.

A scope of up to FEW records is read whole. In a broader one the holders of each term are counted, and those are looked
at who have a term that hardly anybody has, or two: the index finds them without a look at the others. When the last of
the best is worth more than anybody else can be, they are the best. Otherwise all who have any term are read.

The index knows the holders of all tenants and users. So where somebody's own are up to SCANNED, and a small part of
what there is, these are gone through instead, once to count and once to score: of 36,500 among 3.65 million that took
100 ms instead of 500; of 10,000 among 20,000 it takes twice as long as the index. So are those whom a time or another
filter leaves of very many. And of whoever has nearly everything, the statistics of the server say which terms are too
common to be counted.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from recollect.adapters.postgres.connection import UPKEEP, Database, ReadStatement
from recollect.adapters.records.common.field_cipher import FieldCipher
from recollect.adapters.records.common.sql_compiler import Compiler, quoted
from recollect.adapters.records.common.text_terms import term_forms
from recollect.adapters.records.postgres.dialect import placeholders
from recollect.adapters.records.postgres.fulltext_index import asked_value
from recollect.adapters.ttl_cache import KEPT_FOR_SECONDS, TtlCache
from recollect.domain.record import Record
from recollect.domain.text.tokenizer import terms_asked
from recollect.ports.query import Query, Row, TextHit, TextQuery
from recollect.ports.records import Scope

FEW = 2000
COMMON = 200  # holders; how many there are of such a term is noted for a while, since one more hardly matters
MOST_HOLDERS = 50_000  # as many as this stand for the rest
SCANNED = MOST_HOLDERS
SMALL_PART = 10  # times as many there are of all
ESTIMATED = 200_000  # records, from which on the statistics are asked
MOST_OF_ALL, MUCH_MORE = 0.9, 1.25
_UNKNOWN = "'a word that nobody said'"  # of which the statistics know nothing
KEPT_LONG_SECONDS = 3600.0  # how many there are of what is very common, since a thousand more hardly matter
MOST_PAIRED, MANY_TIMES = 12, 10
_UNIT = 10**12  # Sums of the same terms must be equal in whatever order they are made, so they are not of floats.
_ASKED = "w::tsquery"


class _Term(NamedTuple):
    """A term as the index knows it, how many of the scope hold it, and what that makes it worth."""

    word: str
    holders: int
    worth: int = 0


@dataclass(frozen=True, slots=True)
class TextSearch:
    """Where a store searches. It remembers the sizes of broad scopes, and of common terms, for a while."""

    database: Database
    compiler: Callable[[], Compiler]
    cipher: FieldCipher
    sizes: TtlCache[int] = field(default_factory=TtlCache)
    common: TtlCache[_Term] = field(default_factory=TtlCache)

    def search(self, scope: Scope, query: TextQuery[Record], *, bound: str | None = None) -> list[TextHit]:
        """`bound` is the tenant that the database holds the search to; it is the scope's own."""
        tenant = bound or scope.organization_id
        return self._proven(tenant, scope, query, self.suggested(scope, query, bound=tenant))

    def suggested(self, scope: Scope, query: TextQuery[Record], *, bound: str | None = None) -> list[TextHit]:
        """What the upkeep role finds: to be read again by the other before anybody sees it."""
        terms = self._terms(scope, query)
        return _Search(self, bound or scope.organization_id, scope, query).best(terms) if terms else []

    def _terms(self, scope: Scope, query: TextQuery[Record]) -> list[str]:
        asked = terms_asked(query.terms) if query.limit else ()
        return [asked_value(term_forms(query.record, scope.organization_id, term, self.cipher)) for term in asked]

    def among_few(self, scope: Scope, query: TextQuery[Record]) -> ReadStatement | None:
        """The whole search as one statement that gives (id, score, how many there are); None if they are many, or
        nothing is asked for. To be run by the upkeep role, and what it finds is to be read again by the other.
        """
        terms, search = self._terms(scope, query), _Search(self, scope.organization_id, scope, query)
        if not terms or search.is_broad:
            return None
        compiler = self.compiler()
        return ReadStatement(placeholders(search.among_few(compiler, terms)), compiler.values)

    def _proven(self, tenant: str, scope: Scope, query: TextQuery[Record], hits: list[TextHit]) -> list[TextHit]:
        if not hits:
            return []
        proof = f"SELECT id FROM {quoted(query.record.shape.table)} WHERE organization_id = %s AND id = ANY(%s)"
        (found,) = self.database.ask(tenant, ReadStatement(proof, (scope.organization_id, [hit.id for hit in hits])))
        proven = {id for (id,) in found}
        return [hit for hit in hits if hit.id in proven]


class _Search:
    """One search in one scope."""

    def __init__(self, using: TextSearch, tenant: str, scope: Scope, query: TextQuery[Record]) -> None:
        self._link, self._compiler = using.database, using.compiler
        self._sizes, self._common = using.sizes, using.common
        self._tenant, self._scope, self._query = tenant, scope, query
        self._table = quoted(query.record.shape.table)
        self._known_as: Hashable = (tenant, query.record, repr(sorted(query.facets.items())))

    @property
    def is_broad(self) -> bool:
        return self._sizes.get(self._known_as) is not None

    def best(self, terms: Sequence[str]) -> list[TextHit]:
        if not self.is_broad:
            compiler = self._compiler()
            rows = self._ask(self.among_few(compiler, terms), compiler)
            if rows[0][2] <= FEW:
                return [TextHit(id, score) for id, score, _ in rows if id is not None]
        scanned = self._scanned(terms)
        size, counted = scanned or self._counted(terms)
        worthy = [one._replace(worth=_worth(one.holders, size)) for one in counted if one.holders]
        worthy.sort(key=lambda one: (-one.worth, one.word))
        if scanned or (size >= ESTIMATED and self._few_pass()):
            hits, held = self._held(worthy, _any_of(worthy), by_index=False)
            if held <= SCANNED:  # else the statistics were wrong
                return hits
        for wanted, most_of_others in _promising(worthy, self._query.limit, size):
            hits = self._holding(worthy, wanted)
            if len(hits) == self._query.limit and hits[-1].score * _UNIT > most_of_others:
                return hits
        return self._holding(worthy, _any_of(worthy))

    def _ask(self, statement: str, compiler: Compiler) -> list[Row]:
        (rows,) = self._link.ask(self._tenant, ReadStatement(placeholders(statement), compiler.values), role=UPKEEP)
        return rows

    def among_few(self, compiler: Compiler, terms: Sequence[str]) -> str:
        """All in one, with the size of the scope beside each hit. Values are bound in the order they stand in."""
        asked = f"SELECT {_ASKED} AS q FROM unnest({compiler.bind(list(terms))}::text[]) w"
        passing = self._passing(compiler)
        return (
            f"WITH asked AS MATERIALIZED (SELECT q, row_number() OVER () AS n FROM ({asked}) a), "
            f"few AS MATERIALIZED (SELECT t.id, t._text, {passing} AS passes FROM {self._table} t "
            f"WHERE {self._within(compiler)} LIMIT {FEW + 1}), size AS (SELECT count(*) AS size FROM few), "
            "held AS MATERIALIZED (SELECT f.id, f.passes, a.n FROM few f JOIN asked a ON f._text @@ a.q), "
            "worth AS MATERIALIZED (SELECT n, ln(1 + (greatest((SELECT size FROM size) - count(*), 0) + 0.5)::float8 "
            "/ (count(*) + 0.5)::float8)::numeric AS w FROM held GROUP BY n), "
            "best AS (SELECT h.id, sum(w.w)::float8 AS score FROM held h JOIN worth w USING (n) WHERE h.passes "
            f"GROUP BY h.id ORDER BY score DESC, h.id LIMIT {int(self._query.limit)}) "
            "SELECT b.id, b.score, s.size FROM size s LEFT JOIN best b ON TRUE ORDER BY b.score DESC, b.id"
        )

    def _scanned(self, terms: Sequence[str]) -> tuple[int, list[_Term]] | None:
        """What `_counted` gives, by one look at each of the scope; None where they are too many, or not narrowed."""
        size = self._sizes.get(self._known_as)
        if not self._query.facets or (size is not None and not self._is_small(size)):
            return None
        compiler = self._compiler()
        counts = [f"count(*) FILTER (WHERE s._text @@ {compiler.bind(term)}::text::tsquery)" for term in terms]
        words = [f"{compiler.bind(term)}::text::tsquery::text" for term in terms]
        statement = (
            f"SELECT count(*), {', '.join([*counts, *words])} FROM (SELECT t._text FROM {self._table} t "
            f"WHERE {self._within(compiler)} LIMIT {SCANNED + 1}) s"
        )
        ((found, *told),) = self._ask(statement, compiler)
        if found > SCANNED:
            return None
        self._sizes.set(self._known_as, found)
        holders, names = told[: len(terms)], told[len(terms) :]
        return found, list({word: _Term(word, count) for word, count in zip(names, holders, strict=True)}.values())

    def _is_small(self, size: int) -> bool:
        """Whether to go through so many takes less than to ask the index, which knows of all."""
        if size > SCANNED:
            return False
        everything = self._sizes.get(self._query.record)
        if everything is None:
            asked = self._ask(f"EXPLAIN (FORMAT JSON) SELECT FROM {self._table} t", self._compiler())
            # Of a table that is spread over a cluster the server knows nothing, and says the same of each.
            is_known = asked[0][0][0]["Plan"]["Node Type"] != "Custom Scan"
            everything = int(_estimate(asked)) if is_known else sys.maxsize
            self._sizes.set(self._query.record, everything)
        return SMALL_PART * size <= everything

    def _counted(self, terms: Sequence[str]) -> tuple[int, list[_Term]]:
        """The size of the scope, and the different terms with the number of their holders."""
        size = self._sizes.get(self._known_as)
        known = {term: self._common.get((self._known_as, term)) for term in terms}
        size, common = self._very_common([term for term, found in known.items() if found is None], size)
        known |= common
        new = [term for term, found in known.items() if found is None]
        questions = []
        if new:
            compiler = self._compiler()
            questions.append(ReadStatement(placeholders(self._holders(compiler, new)), compiler.values))
        if size is None:
            compiler = self._compiler()
            text = f"SELECT count(*) FROM {self._table} t WHERE {self._within(compiler)}"
            questions.append(ReadStatement(placeholders(text), compiler.values))
        answers = self._link.ask(self._tenant, *questions, role=UPKEEP) if questions else []
        if size is None:
            size = answers.pop()[0][0]
            self._sizes.set(self._known_as, size, KEPT_LONG_SECONDS if size >= ESTIMATED else KEPT_FOR_SECONDS)
        for term, word, holders in answers[0] if answers else []:
            known[term] = counted = _Term(word, holders)
            if holders >= COMMON:
                self._keep(term, counted)
        return size, list({one.word: one for one in known.values() if one is not None}.values())

    def _keep(self, term: str, counted: _Term) -> None:
        is_full = counted.holders >= MOST_HOLDERS
        self._common.set((self._known_as, term), counted, KEPT_LONG_SECONDS if is_full else KEPT_FOR_SECONDS)

    def _very_common(self, terms: Sequence[str], size: int | None) -> tuple[int | None, dict[str, _Term]]:
        """The size, and the terms that more than MOST_HOLDERS hold, as the server estimates them; of whoever has nearly
        all there is, so that the statistics are of theirs.
        """
        if not terms or self._query.facets or (size is not None and size < ESTIMATED):
            return size, {}
        compiler, explain = self._compiler(), f"EXPLAIN (FORMAT JSON) SELECT FROM {self._table} t"
        within = ReadStatement(placeholders(f"{explain} WHERE {self._within(compiler)}"), compiler.values)
        holding = f"{explain} WHERE t._text @@ %s::text::tsquery"
        asked = [ReadStatement(holding, (term,)) for term in (_UNKNOWN, *terms)]
        words = ReadStatement("SELECT w, w::tsquery::text FROM unnest(%s::text[]) w", (list(terms),))
        spelt, *explained = self._link.ask(self._tenant, words, ReadStatement(explain), within, *asked, role=UPKEEP)
        everything, ours, unknown, *estimates = map(_estimate, explained)
        if ours < max(ESTIMATED, MOST_OF_ALL * everything):
            return size, {}
        if size is None:
            size = int(ours)
            self._sizes.set(self._known_as, size, KEPT_LONG_SECONDS)
        spelling: dict[str, str] = dict(spelt)
        found = {}
        for term, estimate in zip(terms, estimates, strict=True):
            if estimate >= max(MUCH_MORE * MOST_HOLDERS, 2 * unknown):
                found[term] = _Term(spelling[term], MOST_HOLDERS)
                self._keep(term, found[term])
        return size, found

    def _holders(self, compiler: Compiler, terms: Sequence[str]) -> str:
        asked = f"SELECT w, {_ASKED} AS q FROM unnest({compiler.bind(list(terms))}::text[]) w"
        return (
            f"WITH asked AS MATERIALIZED ({asked}) SELECT a.w, a.q::text, (SELECT count(*) FROM (SELECT "
            f"FROM {self._table} t WHERE {self._within(compiler)} AND t._text @@ a.q LIMIT {MOST_HOLDERS}) h) "
            "FROM asked a"
        )

    def _few_pass(self) -> bool:
        """Whether the filters leave so few that these are gone through, by the statistics of the server."""
        compiler = self._compiler()
        text = f"EXPLAIN (FORMAT JSON) SELECT FROM {self._table} t WHERE {self._within(compiler)}"
        return _estimate(self._ask(f"{text} AND {self._passing(compiler)}", compiler)) <= SCANNED

    def _holding(self, terms: Sequence[_Term], wanted: str) -> list[TextHit]:
        return self._held(terms, wanted, by_index=True)[0]

    def _held(self, terms: Sequence[_Term], wanted: str, *, by_index: bool) -> tuple[list[TextHit], int]:
        """The best of those found for `wanted`, by the index or one by one, scored by all terms; and where they
        were gone through, how many were found, at most MOST_HOLDERS and one.
        """
        if not terms:
            return [], 0
        compiler = self._compiler()
        score = " + ".join(
            f"CASE WHEN h._text @@ {compiler.bind(one.word)}::tsquery THEN {compiler.bind(one.worth)}::int8 ELSE 0 END"
            for one in terms
        )
        by, held = ("", "0") if by_index else (" IS TRUE", "count(*) OVER ()")  # which no index can find
        statement = (
            f"SELECT h.id, {score} AS score, {held} FROM (SELECT t.id, t._text FROM {self._table} t "
            f"WHERE {self._within(compiler)} AND (t._text @@ {compiler.bind(wanted)}::tsquery){by} "
            f"AND {self._passing(compiler)} LIMIT {MOST_HOLDERS + (not by_index)}) h "
            f"ORDER BY score DESC, h.id LIMIT {int(self._query.limit)}"
        )
        rows = self._ask(statement, compiler)
        return [TextHit(id, score / _UNIT) for id, score, _ in rows], rows[0][2] if rows else 0

    def _passing(self, compiler: Compiler) -> str:
        return compiler.where(self._scope, Query(self._query.record, self._query.where), "t")

    def _within(self, compiler: Compiler) -> str:
        parts = [compiler.where(self._scope, Query(self._query.record), "t")]
        for name, values in self._query.facets.items():
            column = f"t.{quoted(name)}"
            bound = compiler.bind(list(values)) + "::text[]"
            if next(one.type for one in self._query.record.columns() if one.name == name) == "json":
                parts.append(f"EXISTS (SELECT 1 FROM json_array_elements_text({column}) e WHERE e = ANY({bound}))")
            else:
                parts.append(f"{column} = ANY({bound})")
        return " AND ".join(parts)


def _estimate(explained: Sequence[Row]) -> float:
    (([told],),) = explained
    return float(told["Plan"]["Plan Rows"])


def _worth(holders: int, size: int) -> int:
    return round(math.log(1 + (max(size - holders, 0) + 0.5) / (holders + 0.5)) * _UNIT)


def _promising(terms: Sequence[_Term], limit: int, size: int) -> Iterator[tuple[str, int]]:
    """What finds few that are worth much; and the most that anybody else can be worth.

    Those with a rare term or with several. Nothing where all who have any term are few enough to be read, or the
    question would grow too long.
    """
    holders, rare = 0, 0
    while rare < len(terms) and holders + terms[rare].holders <= limit:
        holders += terms[rare].holders
        rare += 1
    others = terms[rare:]
    if not 2 <= len(others) <= MOST_PAIRED or sum(one.holders for one in others) < MANY_TIMES * limit:
        return
    alone = [f"({one.word})" for one in terms[:rare]]
    if size >= ESTIMATED and _with_three(others, size) >= limit:  # of millions, too many have two
        yield " | ".join([*alone, *_triples(others)]), others[0].worth + others[1].worth
    pairs, most = _pairs(others)
    yield " | ".join([*alone, *pairs]), most


def _with_three(terms: Sequence[_Term], size: int) -> float:
    """How many would have three of them by chance; there are more, since words of one subject stand together."""
    return size * sum(math.prod(one.holders / size for one in three) for three in combinations(terms, 3))


def _triples(terms: Sequence[_Term]) -> Iterator[str]:
    for first, second in combinations(range(len(terms) - 1), 2):
        yield f"(({terms[first].word}) & ({terms[second].word}) & ({_any_of(terms[second + 1 :])}))"


def _pairs(terms: Sequence[_Term]) -> tuple[list[str], int]:
    """Pairs of the commonest terms are left out as long as all of these together are worth less than any pair that is
    in: words that stand together everywhere ("last week") would find too many.
    """
    left = most = sum(one.worth for one in terms)
    pairs = []
    for place, one in enumerate(terms[:-1], 1):
        left -= one.worth
        pairs.append(f"(({one.word}) & ({_any_of(terms[place:])}))")
        most = max(left, terms[0].worth)
        if one.worth + terms[-1].worth > most:
            break
    return pairs, most


def _any_of(terms: Sequence[_Term]) -> str:
    return " | ".join(f"({one.word})" for one in terms)
