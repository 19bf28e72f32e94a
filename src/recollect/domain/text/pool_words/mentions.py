"""Which texts tell of a person, and do not only call them: "Thanks, Ann!" calls her and says nothing about her."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from recollect.domain.text.pool_words.pool_texts import Joined, PoolTexts

_CALLED = ",!?."
_CALLING = re.compile(r"(?:,|\b(?:hey|hi|hello|thanks|thank you|wow|bye|dear))\s*$", re.IGNORECASE)
_LOOKED_BACK = 12  # characters


def telling(names: Collection[str], texts: Sequence[str], pool: PoolTexts) -> set[int]:
    """Which texts of a pool tell of one of these: by their places."""
    quick = pool.is_whole and all(map(str.isascii, names))
    rows = _telling_plainly(names, pool.plain) if quick else set()
    if quick and not pool.rows:
        return rows
    named = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)", re.IGNORECASE)
    for row in pool.rows if quick else range(len(texts)):
        text = texts[row]
        if any(_is_told_of(text, *found.span(), 0, len(text)) for found in named.finditer(text)):
            rows.add(row)
    return rows


def _telling_plainly(names: Collection[str], plain: Joined) -> set[int]:
    """Of those in ASCII, by a name in ASCII: most have none of the names, and of the others most call by them."""
    text, places = plain.text, []
    for name in {name.lower() for name in names}:
        size, at = len(name), text.find(name)
        while at >= 0:
            end = at + size
            after = text[end : end + 1]
            if (
                after not in _CALLED
                and not _in_word(after)
                and not (at and _in_word(text[at - 1]))
                and _is_told_of(text, at, end, *_around(plain, at, end))
            ):
                places.append(at)
            at = text.find(name, end)
    return set(plain.rows_at(places).tolist())


def _around(plain: Joined, at: int, end: int) -> tuple[int, int]:
    """From where to where at least the text reaches that a name is in; it is looked up where a line ends beside it."""
    if "\n" in plain.text[max(0, at - _LOOKED_BACK) : end + 1]:
        return plain.edges(at)
    return max(0, at - _LOOKED_BACK), end + 1


def _is_told_of(text: str, at: int, end: int, first: int, last: int) -> bool:
    """Whether the name from `at` to `end` is no call, in a text from `first` to `last`."""
    if end == last or text[end] in _CALLED:
        return False
    return _CALLING.search(text[max(first, at - _LOOKED_BACK) : at]) is None


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"
