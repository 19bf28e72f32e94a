"""How the words of a search meet names, descriptions and values: letter for letter, in another form, or alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from recollect.domain.text.questions import STOP_WORDS, read_question
from recollect.domain.text.tokenizer import folded, is_paired, parts, terms_asked, terms_of
from recollect.domain.text.tokenizer import tokens as runs_of
from recollect.services.data.asking.language.words import (
    STOPWORDS,
    Token,
    german_words,
    name_words,
    plain,
    related,
    stem,
    tokens,
)

MOST_WORDS = 32
_LEAST_ALIKE = 0.55
_ALIKE = 0.9  # of what a word counts that is only related
_LONGEST_PIECE = 8  # characters of a value in a script without spaces
_MOST_PIECES = 400
_READ = 2000  # characters of a description


@dataclass(frozen=True)
class SearchWords:
    """A search in words: `words` are those that say something, `pieces` all that may be a value."""

    words: tuple[Token, ...]
    pieces: tuple[Token, ...]
    terms: tuple[str, ...]
    """What full text is asked for."""
    text: str
    """What its vector is made of: the search, and where it is German its English, too."""


@dataclass(frozen=True, slots=True)
class WordMatch:
    """How well a word is met, from 0 to 1, and in what: its name, its description, its values, a word like it."""

    strength: float
    where: str


NO_MATCH = WordMatch(0.0, "")


def search_words(query: str) -> SearchWords:
    found = tokens(query)
    runs = _runs(query)
    whole = [
        one
        for one in found
        if one.kind != "mark" and not any(run in folded(one.text) or folded(one.text) in run for run, _ in runs)
    ]
    said = [one for one in whole if one.word not in STOPWORDS | STOP_WORDS]
    pairs = [one for run, start in runs for one in _stretches(run, start, 2)]
    words = (*(said or whole if not pairs else said), *pairs)[:MOST_WORDS]
    english = [one.word for one in words if one.kind == "word" and plain(one.text) != one.word]
    terms = dict.fromkeys((*read_question(query).terms, *english))
    text = f"{query} ({' '.join(one.word for one in words)})" if english else query
    # Any stretch of a script without spaces may be a value.
    stretches = [
        one for run, at in runs for length in range(_LONGEST_PIECE, 1, -1) for one in _stretches(run, at, length)
    ]
    return SearchWords(words, (*found[: 2 * MOST_WORDS], *stretches[:_MOST_PIECES]), tuple(terms), text)


def _runs(query: str) -> list[tuple[str, int]]:
    """The runs of characters of scripts without spaces, and where each begins."""
    found, at, text = [], 0, folded(query)
    for run in runs_of(query):
        at = text.find(run, at)
        if is_paired(run):
            found.append((run, at))
    return found


def _stretches(run: str, start: int, length: int) -> Iterator[Token]:
    """Every so many neighbouring characters; of two, the one that stands alone, too."""
    for at in range(max(len(run) - length + 1, len(run) == 1 and length == 2)):
        piece = run[at : at + length]
        yield Token(piece, piece, piece, start + at, start + at + len(piece), "quote")


@lru_cache(maxsize=50_000)
def _stems(name: str) -> frozenset[str]:
    """The stems of the words of a name; of German ones also those of their English."""
    words = name_words(name)
    return frozenset(stem(one) for word in words for one in (word, *(german_words(word) or ())))


def in_name(word: Token, name: str) -> WordMatch:
    if is_paired(word.text):
        return WordMatch(_shared_pairs(word.text, name), "name")
    stems = _stems(name)
    if word.stem in stems or stem(word.text) in stems:
        return WordMatch(1.0, "name")
    alike = max((related(word.stem, one) for one in stems), default=0.0) if word.kind == "word" else 0.0
    return WordMatch(_ALIKE * alike, "like") if alike >= _LEAST_ALIKE else NO_MATCH


def in_text(word: Token, text: str, where: str, weight: float) -> WordMatch:
    """Whether a text has a word; what it says counts less than a name."""
    if not text:
        return NO_MATCH
    if is_paired(word.text):
        return WordMatch(weight * _shared_pairs(word.text, text[:_READ]), where)
    said = _terms(text[:_READ])
    asked = terms_asked([word.text]) or {"": None}
    has = all(term in said for term in asked) or word.stem in said
    return WordMatch(weight, where) if has else NO_MATCH


@lru_cache(maxsize=5_000)
def _terms(text: str) -> frozenset[str]:
    return frozenset(terms_of([text]))


def _shared_pairs(run: str, text: str) -> float:
    asked = {pair for token in runs_of(run) if is_paired(token) for pair in parts(token)}
    return sum(pair in folded(text) for pair in asked) / len(asked) if asked else 0.0


def best(matches: Iterable[WordMatch]) -> WordMatch:
    return max(matches, key=lambda one: one.strength, default=NO_MATCH)


def spelling(asked: str, value: str) -> str:
    """How a value is written in a search, in words."""
    if plain(asked) == plain(value):
        return f"is the value '{asked}'" if asked == value else f"is written '{value}'"
    if {stem(one) for one in plain(asked).split()} == {stem(one) for one in plain(value).split()}:
        return f"is another form of '{asked}'"
    if plain(asked) in plain(value):
        return f"has '{asked}' in it"
    is_alike = any(related(stem(one), stem(other)) for one in asked.split() for other in value.split())
    return f"is spelled differently: '{asked}'" if is_alike else f"stands for '{asked}'"
