"""How often the terms of a question stand in the texts of a pool: as words with their endings, in identifiers, and if
they stand nowhere, as the words they are probably meant to be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from recollect.domain.text.spelling import LONGEST, SHORTEST, compounds_of, errors_in, meant
from recollect.domain.text.tokenizer import HALF, JOINT, LETTERS, folded, is_bare, spellings, stem

Floats = NDArray[np.float64]

# A word that stands nowhere in the pool counts as the one it is probably meant to be, or as those it is a part of
# ("test" of "pytest"), a little less.
MISSPELT = 0.7
# Each unknown word is compared with every word of the pool: no pasted page may have thousands compared with thousands.
MOST_UNKNOWN, MOST_SPELT = 8, 200_000
# Characters of all texts of a pool together. A pool of 200 has some 20,000; if it has more than this, each memory is
# looked at from its beginning as far as its share goes, so that whoever stores long texts slows nobody down.
MOST_SCANNED = 2_000_000
_ASCII_WORD = re.compile("[a-z0-9]++")
_LATIN_WORD = re.compile(rf"[a-z]{{{SHORTEST - 1},{LONGEST + 2}}}+")


def occurrences(terms: Sequence[str], texts: Sequence[str]) -> Floats:
    """How often each term stands in each text: one scan per term over all texts joined, not text by text."""
    if sum(map(len, texts)) > MOST_SCANNED:
        texts = [text[: MOST_SCANNED // len(texts)] for text in texts]
    joined = "\n".join(texts)
    if joined.isascii():
        joined = joined.lower()
    else:
        texts = [folded(text) for text in texts]
        joined = "\n".join(texts)
    starts = np.cumsum([0, *(len(text) + 1 for text in texts[:-1])])
    counts = np.zeros((len(terms), len(texts)))
    for row, term in enumerate(terms):
        found = _places(term, joined)
        if found:
            counts[row] = np.bincount(np.searchsorted(starts, found, "right") - 1, minlength=len(texts))
    unknown = [row for row in np.flatnonzero(~counts.any(axis=1)).tolist() if errors_in(terms[row])]
    words = _words_in(joined[:MOST_SPELT]) if unknown else frozenset()
    for row in unknown[:MOST_UNKNOWN]:
        likely = meant(terms[row], words) or compounds_of(terms[row], words)
        found = [place for word in likely for place in _places(word, joined)]
        if found:
            each = np.bincount(np.searchsorted(starts, found, "right") - 1, minlength=len(texts))
            counts[row] = MISSPELT * each
    return counts


def _words_in(text: str) -> frozenset[str]:
    """The different words of a folded text, without their endings."""
    return frozenset(map(stem, set(_LATIN_WORD.findall(text))))


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
