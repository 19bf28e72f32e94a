"""A long text cut into passages, each of which a model reads whole: a vector of 256 tokens says nothing of the 257th.

Passages end where the text does: at a paragraph, a line, a sentence, a word, whichever comes latest in the second half
of what fits. They overlap a little, so that what stands across an end is whole in one of them. A text without any of
these (one long line, a script without spaces) is cut all the same. Pure and linear: the same text always gives the same
passages, and a million characters take a fraction of a second. `tests/domain/test_passages.py` holds it down.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import NamedTuple

# The built-in model reads 256 tokens, two of which are its own marks; the estimate below may be a little low.
PASSAGE_TOKENS = 240
OVERLAP_TOKENS = 30
# 256 passages are some 200,000 characters of English, 50,000 of Chinese. Of a longer text so many are taken, evenly.
MOST_PASSAGES = 256

# Runs are bounded, so that a line of 200,000 letters is many pieces, and each alternative begins differently: linear.
_PIECE = re.compile(r"[A-Za-z]{1,24}|[0-9]{1,24}|\s+|[^A-Za-z0-9\s]")
_SENTENCE_END = frozenset(".!?…")
_FULL_STOP = frozenset("。！？｡．؟।።")  # end a sentence without a space after them
_NOWHERE, _WORD, _SENTENCE, _LINE, _PARAGRAPH = range(5)


class Passage(NamedTuple):
    """Where a passage stands in its text."""

    start: int
    end: int


class PassageSelection(NamedTuple):
    """The passages of a text that get a vector, and how many there are in all."""

    passages: list[Passage]
    of: int


def cut(text: str, tokens: int = PASSAGE_TOKENS, most: int = MOST_PASSAGES) -> PassageSelection:
    """The passages of a text, at most so many: evenly spread, the first and the last among them."""
    found = passages(text, tokens)
    if len(found) <= most:
        return PassageSelection(found, len(found))
    chosen = [found[round(place * (len(found) - 1) / (most - 1))] for place in range(most)]
    return PassageSelection(chosen, len(found))


def passages(text: str, tokens: int = PASSAGE_TOKENS) -> list[Passage]:
    """All passages of a text, in order; one that fits is one passage."""
    if len(text) <= tokens:  # no character costs more than a token
        return [Passage(0, len(text))]
    pieces = _Pieces(text)
    if pieces.spent[-1] <= tokens:
        return [Passage(0, len(text))]
    overlap = min(OVERLAP_TOKENS, tokens // 8)
    found: list[Passage] = []
    first, last = 0, len(pieces.ends)
    while True:
        upto = pieces.fitting(first, tokens)
        end = last if upto == last else pieces.best_end(first, upto, tokens)
        found.append(Passage(pieces.start(first), pieces.ends[end - 1]))
        if end == last:
            return [one for one in found if text[one.start : one.end].strip()]
        first = pieces.begin_before(end, overlap, first)


class _Pieces:
    """The smallest parts of a text, what they cost up to each, and how good it is to end after each."""

    def __init__(self, text: str) -> None:
        found = _PIECE.findall(text)
        self.ends = list(accumulate(map(len, found)))
        self.spent = [0, *accumulate(map(_tokens, found))]
        self.good = _ends(found)

    def start(self, piece: int) -> int:
        return self.ends[piece - 1] if piece else 0

    def fitting(self, first: int, tokens: int) -> int:
        """The piece before which the tokens are used up; one at least fits."""
        return max(first + 1, bisect_right(self.spent, self.spent[first] + tokens) - 1)

    def best_end(self, first: int, upto: int, tokens: int) -> int:
        half = max(first + 1, bisect_left(self.spent, self.spent[first] + tokens // 2))
        return max(range(min(half, upto), upto + 1), key=lambda end: (self.good[end - 1], end))

    def begin_before(self, end: int, overlap: int, first: int) -> int:
        """Where the next passage begins: some tokens before the end of this one, at a word if there is one."""
        back = max(first + 1, bisect_left(self.spent, self.spent[end] - overlap))
        starts = (piece for piece in range(back, end) if self.good[piece - 1] > _NOWHERE)
        return next(starts, back)


def _tokens(piece: str) -> int:
    """What a piece costs, about, in a vocabulary of word pieces: short words one, numbers one for two digits."""
    if piece[0].isspace():
        return 0
    if not piece[0].isascii() or not piece[0].isalnum():
        return 1
    if piece[0].isdigit():
        return -(-len(piece) // 2)
    return 1 if len(piece) <= 7 else -(-len(piece) // 4)


def _ends(pieces: list[str]) -> list[int]:
    """How good it is to end a passage after each piece."""
    good: list[int] = []
    before = ""
    for piece in pieces:
        if piece.isspace():
            good.append(_after_space(piece, before))
        else:
            good.append(_SENTENCE if piece in _FULL_STOP else _NOWHERE)
            before = piece
    return good


def _after_space(space: str, before: str) -> int:
    lines = space.count("\n")
    if lines:
        return _PARAGRAPH if lines > 1 else _LINE
    return _SENTENCE if before in _SENTENCE_END else _WORD
