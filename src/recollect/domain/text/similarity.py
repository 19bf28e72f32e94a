"""How alike short texts are, and which of them belong together.

Likeness is the mean of two cosines where both are known: of words, weighed by how rare they are among the texts, and of
vectors. Groups are made bottom-up by average linkage until no two groups are alike enough: the number of groups is
found, not given. Pure and deterministic: the same texts in the same order give the same groups.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recollect.domain.text.questions import STOP_WORDS
from recollect.domain.text.tokenizer import stem, words_in

Matrix = NDArray[np.float64]
MOST_COMPARED = 4_000  # characters of a text: a task or a sentence says what it is about long before


def words(text: str) -> list[str]:
    """The stems of a text's words that say something."""
    return [stem(word) for word in words_in(text) if word not in STOP_WORDS]


def every_word(text: str) -> list[str]:
    return [stem(word) for word in words_in(text)]


def word_likeness(texts: Sequence[str]) -> Matrix:
    """Cosine of every two texts over their words; a word that many texts share says less."""
    bags = [Counter(words(text[:MOST_COMPARED])) for text in texts]
    spread = Counter(word for bag in bags for word in bag)
    column = {word: place for place, word in enumerate(sorted(spread))}
    weights: Matrix = np.zeros((len(texts), max(len(column), 1)))
    for row, bag in enumerate(bags):
        for word, count in bag.items():
            rarity = math.log(1 + len(texts) / spread[word])
            weights[row, column[word]] = (1 + math.log(count)) * rarity
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    unit = np.divide(weights, lengths, out=np.zeros_like(weights), where=lengths > 0)
    return np.asarray(unit @ unit.T)


def likeness(texts: Sequence[str], vectors: NDArray[np.floating] | None = None) -> Matrix:
    """From 0 to 1 for every two texts: by words, and by meaning where there are vectors."""
    by_words = word_likeness(texts)
    if vectors is None:
        return by_words
    by_meaning = np.clip(np.asarray(vectors, dtype=np.float64) @ np.asarray(vectors, dtype=np.float64).T, 0, 1)
    return np.asarray((by_words + by_meaning) / 2)


def grouped(alike: Matrix, threshold: float) -> list[list[int]]:
    """Groups of rows by average linkage, each in order, the groups by their first row."""
    count = len(alike)
    members = {row: [row] for row in range(count)}
    between = alike.astype(np.float64).copy()
    np.fill_diagonal(between, -np.inf)
    while len(members) > 1:
        place = int(np.argmax(between))  # the first of equals, so that ties always break alike
        one, other = divmod(place, count)
        if between[one, other] < threshold:
            break
        sizes = len(members[one]), len(members[other])
        merged = (between[one] * sizes[0] + between[other] * sizes[1]) / sum(sizes)
        between[one], between[:, one] = merged, merged
        between[other], between[:, other] = -np.inf, -np.inf
        between[one, one] = -np.inf
        members[one] += members.pop(other)
    return sorted(sorted(rows) for rows in members.values())
