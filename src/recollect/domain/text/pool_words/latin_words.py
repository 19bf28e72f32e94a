"""The words of Latin letters in a text, of which some are like another: found without cutting out all the others.

A pool has some thousand different words, and to cut, stem and compare them all takes a millisecond. By their lengths
and first letters, which arrays tell, a few dozen are left to be cut out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from recollect.domain.text.spelling import LONGEST, SHORTEST
from recollect.domain.text.tokenizer import stem

_SHORTEST, _LONGEST = SHORTEST - 1, LONGEST + 2  # with an error that left something out, or put something in
_WORD = re.compile(rf"[a-z]{{{_SHORTEST},{_LONGEST}}}+")
_MOST_TAKEN_OFF = 8  # by `stem`: "ly", "ings", one of a doubled letter and an e, i or y at the end
_A, _LETTERS = ord("a"), 26


class LatinWords:
    """The runs of at least three Latin letters in a folded text; what is longer than any word counts in pieces."""

    def __init__(self, text: str) -> None:
        self._text = f"\n{text}\n\n\n".encode(errors="replace")
        letters = np.frombuffer(self._text, np.uint8)
        is_letter = letters - np.uint8(_A) < _LETTERS  # what is before "a" wraps around
        edges = np.flatnonzero(is_letter[1:] != is_letter[:-1]) + 1
        self._starts, self._ends = edges[0::2], edges[1::2]
        self._lengths = self._ends - self._starts
        self._letters = [letters[self._starts + place] for place in range(4)]
        too_long = np.flatnonzero(self._lengths > _LONGEST).tolist()
        self._pieces = {piece for run in self._cut(too_long) for piece in _WORD.findall(run)}

    def like(self, word: str, errors: int) -> set[str]:
        """Without their endings, those that may be this one with so many typing errors, and some others."""
        one, other, next_one = map(ord, word[:3])
        first, second, third, fourth = self._letters
        may_be = (first == one) | (second == other) | ((first == other) & (second == one))
        if errors == 1:  # either it is after the first two letters, or the third has its place or is one off
            is_later = (first == one) & (second == other)
            may_be &= is_later | (third == next_one) | (second == next_one) | (fourth == next_one)
        if len(word) - errors <= _SHORTEST:
            may_be |= second == ord("y")  # "dying" is a form of "die"
        longest = min(len(word) + errors + _MOST_TAKEN_OFF, _LONGEST)
        may_be &= (self._lengths >= len(word) - errors) & (self._lengths <= longest)
        letters, most = set(word), 2 * errors  # an error changes two letters at most
        stems = self._stems(np.flatnonzero(may_be).tolist())
        return {found for found in stems if len(letters.symmetric_difference(found)) <= most}

    def around(self, part: str) -> set[str]:
        """Without their endings, those that have this in them, and some others."""
        if not part.isascii():
            return set()
        sought, places = part.encode(), []
        at = self._text.find(sought)
        while at >= 0:
            places.append(at)
            at = self._text.find(sought, at + len(sought))
        runs = np.searchsorted(self._starts, places, "right") - 1
        return self._stems(runs[self._lengths[runs] <= _LONGEST].tolist())

    def _stems(self, runs: Sequence[int]) -> set[str]:
        return set(map(stem, self._pieces.union(self._cut(runs))))

    def _cut(self, runs: Sequence[int]) -> set[str]:
        text, starts, ends = self._text, self._starts[runs].tolist(), self._ends[runs].tolist()
        return {text[start:end].decode() for start, end in zip(starts, ends, strict=True)}
