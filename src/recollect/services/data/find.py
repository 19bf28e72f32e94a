"""Find tables, then their fields, then values, by words and by meaning; each with the reason.

Full text and the vector index suggest; what they suggest is read from the records, and only what belongs to a source
that is there and was asked for is shown. Values come from the lists of the likeliest tables first, so a word that
names nothing but a value ("Berlin") leads to its field and table. The number of statements does not depend on how many
fields there are (tests/services/data/test_find.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field as Having
from pydantic import StringConstraints

from recollect.domain.memory import DATA, space_name
from recollect.domain.record import Id, JsonList, Name, Text
from recollect.domain.sources import Field, Source, Table
from recollect.errors import DamagedData, EmbedderFailed, IndexFailed, NotFound, Unavailable
from recollect.ports.query import AnyOf, Filter, IsNull, OneOf, Order, Query, TextQuery
from recollect.services.data.asking.language.values import ValueHit
from recollect.services.data.tables import sources_named
from recollect.services.data.value_lists import MOST_KEPT, index_of
from recollect.services.data.word_matches import (
    SearchWords,
    WordMatch,
    best,
    in_name,
    in_text,
    search_words,
    spelling,
)
from recollect.services.memories.embeddings import question_vector
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant

TABLES_POOL, FIELDS_POOL, SOURCES_POOL = 50, 150, 20
MOST_TABLES = 300
VALUE_TABLES = 64
LEAST_VALUE = 0.5
LEAST_SCORE = 0.08
DESCRIPTION, SAMPLES, OF_SOURCE, OF_FIELD, OF_TABLE = 0.7, 0.6, 0.5, 0.85, 0.2
WORDS, MEANING = 0.65, 0.35
UNRELATED, ALIKE = 0.2, 0.7
"""Similarities that count as nothing, and as the same."""
NEAR = 0.35


class FindRequest(Request):
    """What to look for in your data."""

    query: Annotated[Text, StringConstraints(min_length=1, max_length=2000)] = Having(
        description="What to look for, in plain words: names, meanings, values"
    )
    sources: list[Name] = Having(
        default_factory=list, max_length=100, description="Only in these sources, by id or name; all by default"
    )
    project: Id | None = Having(None, description="Only in the sources of this project")
    user: Id | None = Having(None, description="Only in the sources of this user")
    limit: int = Having(10, ge=1, le=100, description="How many tables, fields and values to return at most, of each")


class FoundTable(Reply):
    """A table that fits. The score, from 0 to 1, compares what one search found."""

    id: str
    source: str = Having(description="The id of its source")
    source_name: str
    name: str
    rows: int
    description: str = ""
    score: float
    why: str


class FoundField(Reply):
    """A field that fits."""

    id: str
    source: str = Having(description="The id of its source")
    table: str
    name: str
    type: str
    meaning: str = ""
    description: str = ""
    samples: JsonList = Having(default_factory=list)
    score: float
    why: str


class FoundValue(Reply):
    """A value that the search names."""

    source: str = Having(description="The id of its source")
    table: str
    field: str
    value: str
    asked: str = Having(description="The words of the search that it was found by")
    score: float
    why: str


class FindReply(Reply):
    """Tables, their fields and values, each best first. `notes` says what could not be searched."""

    tables: list[FoundTable] = Having(default_factory=list)
    fields: list[FoundField] = Having(default_factory=list)
    values: list[FoundValue] = Having(default_factory=list)
    notes: list[str] = Having(default_factory=list)


@dataclass(frozen=True)
class _Scope:
    """The sources and tables that may be shown; None where all may."""

    sources: tuple[str, ...] | None = None
    tables: tuple[str, ...] | None = None

    def within(self, field: str) -> tuple[Filter, ...]:
        ids = self.tables if field == "table_id" else self.sources
        return () if ids is None else (OneOf(field, ids),)


@dataclass(frozen=True)
class _Value:
    """A value of a table's column that stands in the search, and the places of the words that say it."""

    table_id: str
    column: str
    hit: ValueHit
    asked: str
    words: frozenset[int]


@dataclass
class _Found:
    """Everything that was suggested, as it is in the records."""

    asked: SearchWords
    sources: dict[str, Source] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    fields: dict[str, Field] = field(default_factory=dict)
    values: list[_Value] = field(default_factory=list)
    near: Mapping[str, float] | None = None
    """Similarities, by the keys of the index; None if meaning was not searched."""
    notes: list[str] = field(default_factory=list)


def find(tenant: Tenant, request: FindRequest) -> FindReply:
    """Find tables, fields and values by words and meaning, each with its reason."""
    found = _Found(search_words(request.query))
    scope = _scope(tenant, request)
    if scope.sources == ():
        return FindReply(notes=["there are no sources to search"])
    found.near = _near(tenant, found, scope)
    with tenant.turn:
        _read(tenant, found, scope, *_by_words(tenant, found.asked, scope))
    _find_values(tenant, found)
    return _Ranking(found).reply(request.limit)


def _scope(tenant: Tenant, request: FindRequest) -> _Scope:
    if not (request.sources or request.project or request.user):
        return _Scope()
    sources = tuple(one.id for one in sources_named(tenant, request.sources, request.project, request.user))
    of_these = Query(Table, (OneOf("source_id", sources),))
    return _Scope(sources, tuple(id for (id,) in tenant.select(of_these, ("id",))) if sources else ())


def _by_words(tenant: Tenant, asked: SearchWords, scope: _Scope) -> tuple[list[str], list[str], list[str]]:
    """The ids of sources, tables and fields that full text suggests."""
    if not asked.terms:
        return [], [], []
    sources = TextQuery(Source, asked.terms, SOURCES_POOL, where=scope.within("id"))
    tables = TextQuery(Table, asked.terms, TABLES_POOL, where=scope.within("source_id"))
    fields = TextQuery(Field, asked.terms, FIELDS_POOL, where=scope.within("table_id"))
    source_ids, table_ids, field_ids = (
        [hit.id for hit in tenant.search_text(query)] for query in (sources, tables, fields)
    )
    return source_ids, table_ids, field_ids


def _near(tenant: Tenant, found: _Found, scope: _Scope) -> Mapping[str, float] | None:
    """The nearest tables and fields with their similarities."""
    embedder = tenant.embedder
    if embedder is None:
        return None
    near: dict[str, float] = {}
    within = {} if scope.sources is None else {"scope": scope.sources}
    try:
        vector, _ = question_vector(embedder, found.asked.text)
        space, owner = space_name(DATA, embedder.model), tenant.scope.organization_id
        for kind, limit in (("table", TABLES_POOL), ("field", FIELDS_POOL)):
            hits = tenant.vectors.search(owner, space, vector, limit, {"kind": (kind,), **within})
            near |= {hit.memory_id: hit.similarity for hit in hits}
    except (EmbedderFailed, IndexFailed) as failure:
        found.notes.append(f"searched by words only: {failure.message}")
        return None
    return near


def _read(
    tenant: Tenant, found: _Found, scope: _Scope, source_ids: list[str], table_ids: list[str], field_ids: list[str]
) -> None:
    """Read what was suggested, and tables whose values may be named; only of living sources that were asked for."""
    named = [key.partition(":")[::2] for key in found.near or ()]
    field_ids = [*field_ids, *(id for kind, id in named if kind == "field")]
    table_ids = [*table_ids, *(id for kind, id in named if kind == "table")]
    fields = tenant.find(Query(Field, (OneOf("id", tuple(dict.fromkeys(field_ids))),))).records if field_ids else []
    table_ids += [one.table_id for one in fields]
    suggested = AnyOf((OneOf("id", tuple(dict.fromkeys(table_ids))), OneOf("source_id", tuple(source_ids))))
    inside = scope.within("source_id")
    tables = tenant.find(Query(Table, (suggested, *inside), (Order("id"),), limit=MOST_TABLES)).records
    listed = Query(
        Table, (IsNull("values_digest", wanted=False), *inside), (Order("updated_at", True),), limit=VALUE_TABLES + 1
    )
    tables += tenant.find(listed).records
    owners = tuple({one.source_id for one in tables})
    living = tenant.find(Query(Source, (OneOf("id", owners), *scope.within("id")))).records if owners else []
    found.sources = {one.id: one for one in living}
    found.tables = {one.id: one for one in tables if one.source_id in found.sources}
    found.fields = {one.id: one for one in fields if one.table_id in found.tables}


def _find_values(tenant: Tenant, found: _Found) -> None:
    """Look the words up in the values of tables, those that were suggested first, as far as the bound allows."""
    suggested = {one.table_id for one in found.fields.values()}
    listed = [one for one in found.tables.values() if one.values_digest is not None]
    listed.sort(key=lambda one: (one.id not in suggested, one.updated_at, one.id))
    searched = left = 0
    failed: list[str] = []
    for table in listed[:VALUE_TABLES]:
        try:
            values = index_of(tenant, table)
        except (NotFound, DamagedData, Unavailable) as failure:
            failed.append(f"'{table.name}' were not searched: {failure.message}")
            continue
        searched += values.count if values else 0
        if values is None or (searched > MOST_KEPT and found.values):
            left += values is not None
            continue
        for hit in values.index.find(found.asked.pieces):
            if hit.score >= LEAST_VALUE:
                found.values.append(_value(found.asked, table.id, values.columns[hit.field], hit))
    if failed:
        others = f"{len(failed) - 1} more tables and " if failed[1:] else ""
        found.notes.append(f"the values of {others}{failed[0]}")
    left += len(listed) - len(listed[:VALUE_TABLES])
    if left:
        found.notes.append(f"the values of {left} more tables were not searched: name the sources you mean")
    _read_fields_of_values(tenant, found)


def _value(asked: SearchWords, table_id: str, column: str, hit: ValueHit) -> _Value:
    said = [one for one in asked.pieces[hit.start : hit.end] if one.kind != "mark"]
    start, end = said[0].start, said[-1].end
    words = frozenset(at for at, word in enumerate(asked.words) if start <= word.start and word.end <= end)
    return _Value(table_id, column, hit, " ".join(dict.fromkeys(one.text for one in said)), words)


def _read_fields_of_values(tenant: Tenant, found: _Found) -> None:
    known = {(one.table_id, one.name) for one in found.fields.values()}
    unread = [one for one in found.values if (one.table_id, one.column) not in known]
    if unread:
        where = (
            OneOf("table_id", tuple({one.table_id for one in unread})),
            OneOf("name", tuple({one.column for one in unread})),
        )
        found.fields |= {one.id: one for one in tenant.find(Query(Field, where)).records}


class _Ranking:
    """Scores fields by the words they meet and how near they are, and tables by their own and their fields'."""

    def __init__(self, found: _Found) -> None:
        self._found = found
        self._words = found.asked.words
        self._values: dict[tuple[str, str], list[_Value]] = {}
        for value in sorted(found.values, key=lambda one: (-one.hit.score, -len(one.asked), one.hit.value)):
            self._values.setdefault((value.table_id, value.column), []).append(value)
        self._of_field = {id: self._field_matches(one) for id, one in found.fields.items()}
        self._fields_of: dict[str, list[Field]] = {}
        for one in found.fields.values():
            self._fields_of.setdefault(one.table_id, []).append(one)
        self._of_table = {id: self._table_matches(one) for id, one in found.tables.items()}

    def reply(self, limit: int) -> FindReply:
        found = self._found
        tables = {id: self._table_score(one) for id, one in found.tables.items()}
        shown = _best(tables, limit)
        fields = {
            id: (1 - OF_TABLE) * own + OF_TABLE * tables[one.table_id]
            for id, one in found.fields.items()
            if one.table_id in shown and (own := self._field_score(one)) >= LEAST_SCORE
        }
        return FindReply(
            tables=[self._table(found.tables[id], score) for id, score in shown.items()],
            fields=[self._field(found.fields[id], score) for id, score in _best(fields, limit).items()],
            values=self._shown_values(shown, tables, limit),
            notes=found.notes,
        )

    def _field_matches(self, one: Field) -> list[WordMatch]:
        """How each word is met by a field."""
        values = self._values.get((one.table_id, one.name), [])
        return [
            best(
                (
                    in_name(word, one.name),
                    in_text(word, one.description, "description", DESCRIPTION),
                    in_text(word, one.sample_text, "values", SAMPLES),
                    *(WordMatch(value.hit.score, "value") for value in values if at in value.words),
                )
            )
            for at, word in enumerate(self._words)
        ]

    def _table_matches(self, one: Table) -> list[WordMatch]:
        source = self._found.sources[one.source_id]
        columns = [self._of_field[field.id] for field in self._fields_of.get(one.id, ())]
        return [
            best(
                (
                    in_name(word, one.name),
                    in_text(word, one.description, "description", DESCRIPTION),
                    in_text(word, f"{source.name} {source.description}", "source", OF_SOURCE),
                    *(_by_column(matches[at]) for matches in columns),
                )
            )
            for at, word in enumerate(self._words)
        ]

    def _similarity(self, kind: str, id: str) -> float:
        return (self._found.near or {}).get(f"{kind}:{id}", 0.0)

    def _score(self, matches: Sequence[WordMatch], similarity: float) -> float:
        words = sum(one.strength for one in matches) / len(matches) if matches else 0.0
        if self._found.near is None:
            return words
        return WORDS * words + MEANING * min(max((similarity - UNRELATED) / (ALIKE - UNRELATED), 0.0), 1.0)

    def _field_score(self, one: Field) -> float:
        return self._score(self._of_field[one.id], self._similarity("field", one.id))

    def _table_score(self, one: Table) -> float:
        inside = [OF_FIELD * self._similarity("field", field.id) for field in self._fields_of.get(one.id, ())]
        return self._score(self._of_table[one.id], max([self._similarity("table", one.id), *inside]))

    def _table(self, one: Table, score: float) -> FoundTable:
        source = self._found.sources[one.source_id]
        reasons = self._reasons(self._of_table[one.id], self._similarity("table", one.id))
        columns = [
            field.name
            for field in sorted(self._fields_of.get(one.id, ()), key=lambda field: -self._field_score(field))
            if any(match.strength >= SAMPLES for match in self._of_field[field.id])
        ]
        reasons += [f"has {', '.join(columns[:4])}"] if columns else []
        return FoundTable(
            id=one.id, source=source.id, source_name=source.name, name=one.name, rows=one.row_count,
            description=one.description, score=round(score, 3), why=_told(reasons),
        )  # fmt: skip

    def _field(self, one: Field, score: float) -> FoundField:
        table = self._found.tables[one.table_id]
        reasons = self._reasons(self._of_field[one.id], self._similarity("field", one.id))
        values = dict.fromkeys(value.hit.value for value in self._values.get((one.table_id, one.name), ()))
        reasons += [f"has the value {', '.join(repr(value) for value in list(values)[:3])}"] if values else []
        return FoundField(
            id=one.id, source=table.source_id, table=table.name, name=one.name, type=one.type, meaning=one.meaning,
            description=one.description, samples=one.sample_values[:5], score=round(score, 3), why=_told(reasons),
        )  # fmt: skip

    def _reasons(self, matches: Sequence[WordMatch], similarity: float) -> list[str]:
        said: dict[str, dict[str, None]] = {}
        for word, match in zip(self._words, matches, strict=True):
            if match.strength and match.where in _SAID:
                said.setdefault(match.where, {})[word.text] = None
        reasons = [
            f"{_SAID[where]} {', '.join(repr(word) for word in said[where])}" for where in _SAID if where in said
        ]
        return reasons + ([f"is near in meaning ({similarity:.2f})"] if similarity >= NEAR else [])

    def _shown_values(self, shown: Iterable[str], scores: Mapping[str, float], limit: int) -> list[FoundValue]:
        inside = [one for some in self._values.values() for one in some if one.table_id in set(shown)]
        inside.sort(
            key=lambda one: (
                -round(one.hit.score, 2),
                -len(one.asked),
                -scores[one.table_id],
                one.column,
                one.hit.value,
            )
        )
        distinct = {(one.table_id, one.column, one.hit.value): one for one in reversed(inside)}
        return [
            FoundValue(
                source=self._found.tables[one.table_id].source_id,
                table=self._found.tables[one.table_id].name,
                field=one.column,
                value=one.hit.value,
                asked=one.asked,
                score=round(one.hit.score, 3),
                why=spelling(one.asked, one.hit.value),
            )
            for one in list(reversed(distinct.values()))[:limit]
        ]


_SAID = {
    "name": "its name says",
    "like": "its name is like",
    "description": "its description says",
    "values": "its samples say",
    "source": "its source says",
}


def _by_column(match: WordMatch) -> WordMatch:
    """What a column says counts a little less for its table; a value says it all."""
    return WordMatch(match.strength * (1.0 if match.where == "value" else OF_FIELD), "column")


def _told(reasons: Sequence[str]) -> str:
    return "; ".join(reasons) or "is somewhat near in meaning"


def _best(scores: Mapping[str, float], limit: int) -> dict[str, float]:
    """The best of what is above the least, ties by id."""
    ordered = sorted(scores.items(), key=lambda one: (-round(one[1], 6), one[0]))
    return {id: score for id, score in ordered[:limit] if score >= LEAST_SCORE}
