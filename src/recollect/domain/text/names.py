"""Names of tables and columns as words."""

from __future__ import annotations

import re

_BETWEEN = re.compile(r"[\W_]+")


def in_words(name: str) -> str:
    """A name as people would write it: `orderDate`, `ORDER_DATE` and `order-date` are all "order date"."""
    return " ".join(word.lower() for part in _BETWEEN.split(name) if part for word in _cut(part))


def _cut(part: str) -> list[str]:
    """At each capital that begins a word: after a small letter, or before one (`HTTPStatus`)."""
    starts = [
        at
        for at in range(1, len(part))
        if part[at].isupper()
        and (part[at - 1].islower() or (part[at - 1].isupper() and part[at + 1 : at + 2].islower()))
    ]
    return [part[start:end] for start, end in zip([0, *starts], [*starts, len(part)], strict=True)]
