"""Values of data in a terminal: one line each, without the characters that would move its cursor or colour it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from recollect.domain.text.shown import clean as clean

LONGEST = 200
MOST_DECIMALS = 6


def column_texts(values: Sequence[object]) -> list[str]:
    """The values of a column; fractions have the same number of decimals, so that the points stand below each other."""
    texts = [cell_text(value) for value in values]
    fractions = [value for value in values if isinstance(value, float)]
    decimals = [len(text.partition(".")[2]) for text in texts]
    if not fractions or max(decimals) > MOST_DECIMALS or any("e" in text for text in texts):
        return texts
    return [
        f"{value:.{max(decimals)}f}" if isinstance(value, float) else text
        for value, text in zip(values, texts, strict=True)
    ]


def cell_text(value: object) -> str:
    """A value as a cell: numbers without the noise of binary fractions, nothing as nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.12g}"
    text = clean(json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
