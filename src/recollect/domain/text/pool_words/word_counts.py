"""How often the terms of a question stand in the texts of a pool: as words with their endings, in identifiers, and if
they stand nowhere, as the words they are probably meant to be.

The promise: the compiled kernel (`_words.c`, optional) and Python give the same counts. Measured, four terms in
the texts of a pool, 35,000 characters: 25 microseconds compiled, 120 in Python.
`tests/domain/text/pool_words/test_word_counts.py` runs both against each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from recollect.domain.text.pool_words.latin_words import LatinWords
from recollect.domain.text.pool_words.pool_texts import Joined, PoolTexts
from recollect.domain.text.spelling import compounds_of, errors_in, meant
from recollect.domain.text.tokenizer import HALF, JOINT, LETTERS, is_bare, spellings, stem

try:
    from recollect.domain.text.pool_words import _words as _compiled  # type: ignore[attr-defined,unused-ignore]
except ImportError:
    _compiled = None

_INTERFACE = 1
# One that was left from an older build does not count.
compiled: ModuleType | None = _compiled if getattr(_compiled, "interface", 0) == _INTERFACE else None

Floats = NDArray[np.float64]

# A word that stands nowhere in the pool counts as the one it is probably meant to be, or as those it is a part of
# ("test" of "pytest"), a little less.
MISSPELT = 0.7
# Each unknown word is compared with every word of the pool: no pasted page may have thousands compared with thousands.
MOST_UNKNOWN, MOST_SPELT = 8, 200_000
_ASCII_WORD = re.compile("[a-z0-9]++")


def occurrences(terms: Sequence[str], texts: PoolTexts) -> Floats:
    """How often each term stands in each text: one scan over all texts joined, not text by text."""
    counts = _counted(terms, texts)
    unknown = [row for row in np.flatnonzero(~counts.any(axis=1)).tolist() if errors_in(terms[row])][:MOST_UNKNOWN]
    if unknown:
        words = LatinWords(texts.beginning(MOST_SPELT))
        for row in unknown:
            counts[row] = MISSPELT * np.add.reduce(_counted(_likely(terms[row], words), texts), axis=0)
    return counts


def _counted(terms: Sequence[str], texts: PoolTexts) -> Floats:
    counts = np.zeros((len(terms), len(texts.lengths)))
    uncounted = _count_words(terms, texts.plain, counts) if compiled else range(len(terms))
    for row in uncounted:
        if terms[row].isascii():  # any other stands in no text of ASCII
            _count_places(terms[row], texts.plain, counts[row])
    if texts.other is not None:
        for term, in_texts in zip(terms, counts, strict=True):
            _count_places(term, texts.other, in_texts)
    return counts


def _count_words(terms: Sequence[str], plain: Joined, counts: Floats) -> list[int]:
    """Counts those that are a word of ASCII by the compiled kernel; which are left: identifiers, forms of "die"."""
    counted = [term if len(spellings(term)) == 1 and term.isascii() and term.isalnum() else "" for term in terms]
    assert compiled is not None
    compiled.count(plain.text, plain.starts, tuple(counted), counts)
    return [row for row, term in enumerate(counted) if not term]


def _count_places(term: str, joined: Joined, counts: Floats) -> None:
    places = _places(term, joined.text)
    if places:
        counts += np.bincount(joined.rows_at(places), minlength=len(counts))


def _likely(term: str, words: LatinWords) -> list[str]:
    """The words that one is probably meant to be that stands nowhere, or else those it is a part of."""
    return meant(term, words.like(term, errors_in(term))) or compounds_of(term, words.around(term))


def _places(term: str, text: str) -> list[int]:
    """Where the term stands in a folded text: the words that have it for a stem, two such words in an identifier."""
    if is_bare(term):
        return list(_found(term, text))
    one, joint, other = term.partition("-")
    if not joint and text.isascii():
        return _plain_places(one, text)
    places = []
    for spelling in spellings(one):
        for at in _found(spelling, text):
            if at and (text[at - 1].isalnum() if text[at - 1].isascii() else LETTERS.match(text[at - 1])):
                continue
            word = LETTERS.match(text, at)
            if word is None:
                continue
            held = stem(word[0])
            if held == one if not joint else held[:HALF] == one and _goes_on(text, word.end(), other):
                places.append(at)
    return places


def _plain_places(term: str, text: str) -> list[int]:
    """The same for a single word and a text of ASCII alone, which most are."""
    places = []
    word_at = _ASCII_WORD.match
    for spelling in spellings(term):
        at, size = text.find(spelling), len(spelling)
        while at >= 0:
            if not at or not text[at - 1].isalnum():
                word = word_at(text, at)
                if word is not None and stem(word[0]) == term:
                    places.append(at)
            at = text.find(spelling, at + size)
    return places


def _found(wanted: str, text: str) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + len(wanted))


def _goes_on(text: str, end: int, other: str) -> bool:
    joint = JOINT.match(text, end)
    word = LETTERS.match(text, joint.end()) if joint else None
    return word is not None and stem(word[0])[:HALF] == other
