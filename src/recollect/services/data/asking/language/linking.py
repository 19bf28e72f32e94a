"""Which tables and fields a question speaks of, and with which words.

By spelling, stems, a general lexicon and, where an encoder is handed in, by the meaning of single words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

import numpy as np
from numpy.typing import NDArray

from recollect.services.data.asking.language.values import ValueHit, ValueIndex
from recollect.services.data.asking.language.words import (
    STOPWORDS,
    Token,
    german_words,
    lexicon,
    name_words,
    plain,
    related,
    stem,
    tokens,
)
from recollect.services.data.asking.plans.schema import Field, Schema

Matrix = NDArray[np.float32]
Encode = Callable[[list[str]], Matrix]

_spelled = lru_cache(maxsize=200_000)(related)
_FILLERS = frozenset({"of", "the", "a", "an", "in", "s", "and", "or", "for", "is"})
_REACH = 3  # tokens between the words of one mention
_CACHED_WORDS = 20_000
_YES_NO = (("yes", "no"), ("y", "n"), ("true", "false"), ("t", "f"), ("1", "0"), ("ja", "nein"), ("j", "n"))
_NEGATIONS = frozenset("not no n't without never non isn't aren't don't doesn't wasn't didn't".split())
_REVENUE = frozenset(stem(word) for word in "revenue turnover income earnings proceeds takings umsatz erlös".split())
_BARE_REVENUE = re.compile(r"\b(revenue|turnover|income|earnings|proceeds|takings|umsatz|erlös)\b", re.IGNORECASE)
_SAYS_HOW = frozenset(
    "total sum average mean avg maximum max minimum min highest lowest largest smallest most least top list each every "
    "all median more less over under above below between than gesamt summe durchschnitt durchschnittlich höchste "
    "niedrigste alle jede jeder jedes mehr weniger".split()
)
_EARNED = "~earned"  # stands for these words in the names of fields


@dataclass(frozen=True)
class Mention:
    """Words of the question, by token numbers, that name a field or table. `score` is the share of its name found."""

    start: int
    end: int
    score: float
    mass: float  # how much rare wording was found
    places: frozenset[int]
    by_spelling: float  # the same share, without meaning


@dataclass(frozen=True)
class Links:
    tokens: Sequence[Token]
    fields: Sequence[Sequence[Mention]]  # of each field, best first
    tables: Sequence[Sequence[Mention]]
    values: Sequence[ValueHit]
    field_meaning: Matrix  # similarity of question and field, 0 where no encoder is at hand
    table_meaning: Matrix
    vector: Matrix | None = None  # of the whole question
    text: str = ""  # the question, in English where it was German


@dataclass(frozen=True)
class _Name:
    """The words of a field or table with their weights."""

    stems: tuple[tuple[str, ...], ...]  # of each word: its stem and, where German, that of its English
    weights: tuple[float, ...]


class WordLinker:
    """Prepared once per source; `encode` gives one vector of length one per text."""

    def __init__(self, schema: Schema, values: ValueIndex, encode: Encode | None = None) -> None:
        self.schema = schema
        self.values = values
        self.encode = encode
        table_words = [_words(table.name) for table in schema.tables]
        field_words = [_words(each.name) for each in schema.fields]
        for number in _earnings(schema):
            first, *others = field_words[number]
            field_words[number] = ((first[0], _EARNED, *first[1:], first[-1]), *others)
        counts: dict[str, int] = {}
        for words in (*field_words, *table_words):
            for forms in set(words):
                counts[forms[0]] = counts.get(forms[0], 0) + 1
        total = len(field_words) + len(table_words)
        rarity = {word: 0.4 + 0.6 * log(1 + total / count) / log(1 + total) for word, count in counts.items()}
        self._tables = [_Name(words, tuple(rarity[w[0]] for w in words)) for words in table_words]
        self._fields = []
        for number, words in enumerate(field_words):
            own = {w[0] for w in table_words[schema.table_of[number]]}
            alone = all(w[0] in own for w in words)
            weights = tuple(rarity[w[0]] * (0.35 if w[0] in own and not alone else 1.0) for w in words)
            self._fields.append(_Name(words, weights))
        self._vocabulary = sorted({forms for words in (*field_words, *table_words) for forms in words})
        self._row = {forms: row for row, forms in enumerate(self._vocabulary)}
        self._yes_no = {n: pair for n, each in enumerate(schema.fields) if (pair := _yes_and_no(each)) is not None}
        self._vectors: dict[str, Matrix] = {}
        self._prepare_vectors()

    def _prepare_vectors(self) -> None:
        if self.encode is None:
            return
        words = [forms[-1] for forms in self._vocabulary]
        fields = [
            " ".join((*name_words(f.table), *name_words(f.name))) + _described(f.description)
            for f in self.schema.fields
        ]
        tables = [" ".join(name_words(table.name)) + _described(table.description) for table in self.schema.tables]
        vectors = self.encode([*words, *fields, *tables])
        self._word_vectors = vectors[: len(words)]
        self._field_vectors = vectors[len(words) : len(words) + len(fields)]
        self._table_vectors = vectors[len(words) + len(fields) :]

    def link(self, question: str) -> Links:
        found = tokens(question)
        spelled, meant = self._similarities(found)
        if any(plain(token.text) != token.word for token in found if token.kind == "word"):
            question = " ".join(token.word for token in found)  # in English, which the encoder knows best
        vector = self.encode([question])[0] if self.encode is not None else None
        field_meaning, table_meaning = self._meanings(vector)
        fields = [self._mentions(name, spelled, meant, found) for name in self._fields]
        return Links(
            found,
            fields,
            [self._mentions(name, spelled, meant, found) for name in self._tables],
            [*self.values.find(found), *self._flags(found, fields)],
            field_meaning,
            table_meaning,
            vector,
            question,
        )

    def _flags(self, found: Sequence[Token], fields: Sequence[Sequence[Mention]]) -> Iterable[ValueHit]:
        """Fields of yes and no that the question names: the name is the condition."""
        for number, (yes, no) in self._yes_no.items():
            for mention in fields[number][:1]:
                if mention.by_spelling >= 0.6:
                    before = {token.word for token in found[max(0, mention.start - 4) : mention.start]}
                    value = no if before & _NEGATIONS else yes
                    yield ValueHit(number, value, mention.start, mention.end, 0.7, is_flag=True)

    def _meanings(self, vector: Matrix | None) -> tuple[Matrix, Matrix]:
        if vector is None:
            return np.zeros(len(self._fields), np.float32), np.zeros(len(self._tables), np.float32)
        return self._field_vectors @ vector, self._table_vectors @ vector

    def _similarities(self, found: Sequence[Token]) -> tuple[Matrix, Matrix]:
        """Of every word of the schema to every token: by spelling and lexicon, and by meaning too."""
        spelled = np.zeros((len(self._vocabulary), len(found)), np.float32)
        for place, forms in _question_forms(found):
            for row, stems in enumerate(self._vocabulary):
                best = max((forms.get(each, 0.0) for each in stems), default=0.0)
                for at in place:
                    spelled[row, at] = max(spelled[row, at], best)
        content = [at for at, token in enumerate(found) if _is_content(token)]
        for at in content:
            for row, stems in enumerate(self._vocabulary):
                if spelled[row, at] < 0.9:
                    spelled[row, at] = max(spelled[row, at], *(_spelled(found[at].stem, each) for each in stems))
        meant = spelled.copy()
        if self.encode is not None and content:
            vectors = self._encoded([found[at].word for at in content])
            cosines = self._word_vectors @ vectors.T
            meant[:, content] = np.maximum(meant[:, content], np.clip((cosines - 0.38) / 0.5, 0, 1) * 0.8)
        return spelled, meant

    def _encoded(self, words: Sequence[str]) -> Matrix:
        missing = [word for word in dict.fromkeys(words) if word not in self._vectors]
        if missing and self.encode is not None:
            if len(self._vectors) > _CACHED_WORDS:
                self._vectors.clear()
                missing = list(dict.fromkeys(words))
            for word, vector in zip(missing, self.encode(missing), strict=True):
                self._vectors[word] = vector
        return np.stack([self._vectors[word] for word in words])

    def _mentions(self, name: _Name, spelled: Matrix, meant: Matrix, found: Sequence[Token]) -> list[Mention]:
        if not name.stems:
            return []
        rows = [self._row[forms] for forms in name.stems]
        sims = meant[rows]
        strong = sims.max(axis=0)
        anchors = np.flatnonzero(strong > 0.35).tolist()
        weights = np.array(name.weights, np.float32)
        mentions = []
        for at in anchors:
            low, high = max(0, at - _REACH), min(len(found), at + _REACH + 1)
            window = sims[:, low:high]
            places = window.argmax(axis=1) + low
            best = window.max(axis=1)
            used = {at} | {int(p) for p, value in zip(places, best, strict=True) if value > 0.35}
            gaps = sum(_is_content(found[i]) for i in range(min(used), max(used)) if i not in used)
            near = 1.0 - 0.12 * gaps
            share = float((weights * np.where(best > 0.35, best, 0)).sum() / weights.sum()) * near
            exact = spelled[rows][:, low:high].max(axis=1)
            spelling = float((weights * np.where(exact > 0.35, exact, 0)).sum() / weights.sum()) * near
            mass = float((weights * best).sum()) * near
            mentions.append(Mention(min(used), max(used) + 1, share, mass, frozenset(used), spelling))
        return _distinct_mentions(mentions)


def _earnings(schema: Schema) -> list[int]:
    """Fields that "revenue" can only mean: the one amount of money of a table, where no field is called like it."""
    if any(_REVENUE & {form for word in _words(field.name) for form in word} for field in schema.fields):
        return []
    money = [[n for n in numbers if schema.fields[n].meaning == "money"] for numbers in schema.fields_of]
    return [numbers[0] for numbers in money if len(numbers) == 1 and _words(schema.fields[numbers[0]].name)]


def in_total(question: str, schema: Schema) -> str:
    """The question with "total" before a bare word for revenue, where that can only be the amount of many rows."""
    words = [token.word for token in tokens(question)]
    if not _earnings(schema) or any(word in _SAYS_HOW for word in words):
        return question
    return _BARE_REVENUE.sub(r"total \1", question, count=1)


def _yes_and_no(field: Field) -> tuple[str, str] | None:
    """The two values of a field that says yes or no, as they are stored."""
    values = {str(value).lower().removesuffix(".0"): str(value) for value in field.top}
    if not values or len(values) > 2 or field.distinct > 2:
        return None
    for yes, no in _YES_NO:
        if set(values) <= {yes, no}:
            return values.get(yes, yes), values.get(no, no)
    return None


def _described(description: str) -> str:
    return f": {description[:100]}" if description else ""


def _is_content(token: Token) -> bool:
    return token.kind == "word" and (
        token.word not in STOPWORDS or token.word in ("number", "total", "average", "count")
    )


def _words(name: str) -> tuple[tuple[str, ...], ...]:
    """The words of a name, each with its stem and the stem of its English where it is German."""
    found: list[tuple[str, ...]] = []
    for word in name_words(name):
        if word in _FILLERS and len(name_words(name)) > 1:
            continue
        english = german_words(word)
        forms = (stem(word), *(stem(each) for each in english or ()))
        found.append(tuple(dict.fromkeys(forms)))
    return tuple(found)


def _question_forms(found: Sequence[Token]) -> Iterable[tuple[range, dict[str, float]]]:
    """Places of the question and what stands there: words, their synonyms, and what phrases of it stand for."""
    synonyms = lexicon().synonyms
    for start, token in enumerate(found):
        if token.kind == "word":
            forms = {token.stem: 1.0, _EARNED: 0.9} if token.stem in _REVENUE else {token.stem: 1.0}
            for other in synonyms.get(token.stem, ()):
                for part in other.split():
                    forms[part] = max(forms.get(part, 0.0), 0.85)
            yield range(start, start + 1), forms
        for length in (2, 3):
            phrase = " ".join(each.stem for each in found[start : start + length])
            if len(found) >= start + length and phrase in synonyms:
                yield range(start, start + length), {part: 0.9 for o in synonyms[phrase] for part in o.split()}


def _distinct_mentions(mentions: list[Mention]) -> list[Mention]:
    mentions.sort(key=lambda each: (-each.score, each.end - each.start, each.start))
    kept: list[Mention] = []
    for each in mentions:
        if all(not (each.places & other.places) for other in kept):
            kept.append(each)
    return kept[:3]
