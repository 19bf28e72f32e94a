"""What ranking needs of a text whatever is asked: kept with the text, it is not worked out again for every question."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from recollect.domain.text.tokenizer import folded

# Characters. A text without end would have to be folded to its end, of which a pool looks at the beginning alone.
LONGEST_KEPT = 10_000
_NUMBERS = Struct("3d")


@dataclass(slots=True)
class Traits:
    """Of one text and of nothing else: as long as the text is the same, they are. Some 110 bytes of memory."""

    numbers: bytes
    """How a pool has them in one array: see `numbers_of`."""
    folded: str | None = None
    """As its words are compared; None for ASCII alone, which is folded in no time, and for what is too long to keep."""


def traits_of(text: str) -> Traits:
    has_question = "?" in text
    asks = has_question and text.rstrip()[-1] == "?"
    if text.isascii():
        return Traits(_NUMBERS.pack(len(text), asks, has_question))
    return Traits(
        _NUMBERS.pack(len(text.encode()), asks, has_question), folded(text) if len(text) <= LONGEST_KEPT else None
    )


def numbers_of(traits: Iterable[Traits]) -> NDArray[np.float64]:
    """Three rows: how long each is in bytes; 1 where it ends with a question; 1 where there is a question anywhere."""
    return np.frombuffer(b"".join([known.numbers for known in traits])).reshape(-1, 3).T.copy()
