"""Words that were typed wrongly: which of the words at hand is meant by one that stands nowhere.

Pure and bounded: a word has at most LONGEST letters here, and only words of about the same length are compared.
"""

from __future__ import annotations

from collections.abc import Iterable

SHORTEST, LONGEST = 4, 24
MOST_COMPOUNDS = 5  # what is a part of more says too little
_FAR = 99


def meant(word: str, among: Iterable[str]) -> list[str]:
    """Those of the words that are within a typing error or two of this one: the nearest alone."""
    most = errors_in(word)
    if not most:
        return []
    likely = (other for other in among if abs(len(other) - len(word)) <= most and _may_be(word, other))
    near = [(typing_errors(word, other, most), other) for other in likely]
    least = min((errors for errors, _ in near), default=_FAR)
    return sorted(other for errors, other in near if errors == least) if least <= most else []


def compounds_of(word: str, among: Iterable[str]) -> list[str]:
    """Those of the words that begin or end with this one: "pytest" for "test", "bookshelf" for "book"."""
    if len(word) < SHORTEST:
        return []
    found = sorted(other for other in among if other.startswith(word) or other.endswith(word))
    return found if len(found) <= MOST_COMPOUNDS else []


def errors_in(word: str) -> int:
    """How many typing errors are believed of a word: none in a short one, which is too near to others, or a number."""
    if not word.isalpha() or not SHORTEST <= len(word) <= LONGEST:
        return 0
    return 1 if len(word) < 8 else 2


def _may_be(one: str, other: str) -> bool:
    """Of words with two errors at the beginning nobody knows what is meant."""
    return one[0] == other[0] or one[1:2] == other[1:2] or (one[0] == other[1:2] and one[1:2] == other[0])


def typing_errors(one: str, other: str, most: int) -> int:
    """How many letters were left out, doubled, swapped or hit wrongly; more than `most` is far."""
    if one == other:
        return 0
    if abs(len(one) - len(other)) > most:
        return _FAR
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, row, last = row, [i], before
        for j, there in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != there))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == there:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return _FAR
    return row[-1] if row[-1] <= most else _FAR
