"""The texts of a pool joined to one, in which a word of all of them is found by a single look.

Those of ASCII alone are joined apart from the others. Most are, and their words end where letters and digits do: one
emoji somewhere in a pool shall not have all the rest looked through with the rules for every script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recollect.domain.text.tokenizer import folded

Rows = NDArray[np.int64]

# Characters of all texts of a pool together. A pool of 200 has some 20,000; if it has more than this, each memory is
# looked at from its beginning as far as its share goes, so that whoever stores long texts slows nobody down.
MOST_SCANNED = 2_000_000


@dataclass(slots=True)
class Joined:
    """Texts of a pool, folded, with a line break between any two. Those that belong elsewhere are empty lines."""

    text: str
    starts: Rows
    """Where each of them begins in it."""

    def rows_at(self, places: Sequence[int]) -> Rows:
        """Which of the texts these places are in."""
        return self.starts.searchsorted(places, "right") - 1

    def edges(self, place: int) -> tuple[int, int]:
        """Where the text begins and ends that a place is in."""
        at = int(self.starts.searchsorted(place, "right"))
        return int(self.starts[at - 1]), int(self.starts[at]) - 1 if at < len(self.starts) else len(self.text)


@dataclass(slots=True)
class PoolTexts:
    lengths: Rows
    """In characters, to their ends."""
    plain: Joined
    """The texts of ASCII alone, the others being empty lines."""
    other: Joined | None
    """The others, those being empty lines; None if there are none."""
    rows: list[int]
    """Which the others are."""
    is_whole: bool
    """Whether all are there to their ends."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> PoolTexts:
        lengths = shown = np.fromiter(map(len, texts), np.int64, len(texts))
        is_whole = bool(np.add.reduce(lengths) <= MOST_SCANNED)
        if not is_whole:
            share = MOST_SCANNED // len(texts)
            texts, shown = [text[:share] for text in texts], np.minimum(lengths, share)
        rows = [row for row, text in enumerate(texts) if not text.isascii()]
        plain = "\n".join(_without(texts, rows))
        if not rows:
            return cls(lengths, Joined(plain.lower(), _starts(shown)), None, [], is_whole)
        rest, rest_lengths, plain_lengths = [""] * len(texts), np.zeros_like(shown), shown.copy()
        for row in rows:
            rest[row] = folded(texts[row])
            rest_lengths[row] = len(rest[row])
            plain_lengths[row] = 0
        other = Joined("\n".join(rest), _starts(rest_lengths))
        return cls(lengths, Joined(plain.lower(), _starts(plain_lengths)), other, rows, is_whole)

    def beginning(self, most: int) -> str:
        """The texts in the order of the pool, as many characters of them as may be looked at."""
        if self.other is None:
            return self.plain.text[:most]
        if len(self.plain.text) + len(self.other.text) < most:  # then their order does not matter
            return f"{self.plain.text}\n{self.other.text}"
        both = zip(_lines(self.plain), _lines(self.other), strict=True)
        return "\n".join(plain or other for plain, other in both)[:most]


def bytes_of(texts: Sequence[str]) -> NDArray[np.float64]:
    """How long each is, to its end."""
    return np.array([len(text) if text.isascii() else len(text.encode()) for text in texts], dtype=float)


def questions_in(texts: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """1 for each that ends with a question; 1 for each with a question anywhere."""
    anywhere, at_end = np.zeros(len(texts)), np.zeros(len(texts))
    for row, text in enumerate(texts):
        if "?" in text:
            anywhere[row], at_end[row] = 1, text.rstrip()[-1] == "?"
    return at_end, anywhere


def _without(texts: Sequence[str], rows: Sequence[int]) -> Sequence[str]:
    """With nothing in the place of some."""
    if not rows:
        return texts
    rest = list(texts)
    for row in rows:
        rest[row] = ""
    return rest


def _starts(lengths: Rows) -> Rows:
    taken = lengths + 1
    return np.add.accumulate(taken) - taken


def _lines(joined: Joined) -> list[str]:
    """The texts it is made of."""
    starts = joined.starts.tolist()
    ends = [start - 1 for start in starts[1:]]
    return [joined.text[start:end] for start, end in zip(starts, [*ends, None], strict=True)]
