"""The sentences of a stretch that say most of it: a summary without a language model.

Each sentence is scored by how much of the rest it stands for (a walk over the likeness of sentences, as in TextRank)
and by what people look for afterwards: names, numbers, decisions. The best are taken one by one, each the less welcome
the more it repeats what is taken already, until the room is full; then they are put back in order. Nothing is worded
anew, so nothing is made up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recollect.domain.text.similarity import Matrix, likeness, word_likeness, words

_SENTENCE = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|\n+")
_NUMBER = re.compile(r"\d")
_NAME = re.compile(r"(?<![.!?…]\s)(?<!^)\b[A-Z][\w-]+")
_DECISION = re.compile(
    r"\b(?:agreed|chose|chosen|concluded|confirmed|decided|decision|deadline|due|must|plan|planned|prefers?|promised|"
    r"will|won't|shall|should|let's|we'll|I'll|allergic|because|instead|never|always|fixed|failed|solved|works?)\b",
    re.IGNORECASE,
)
DAMPING = 0.85
NUMBER_BONUS, NAME_BONUS, DECISION_BONUS = 0.35, 0.2, 0.35
QUESTION_FACTOR, SHORT_FACTOR = 0.4, 0.3
SHORT_WORDS = 3
REPETITION = 0.7
LEAST_WORTH = 0.25
LONGEST_SENTENCE = 400
MOST_SENTENCES = 400  # compared with each other


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, who said it, and the vector of the passage it stands in, if there is one."""

    text: str
    by: str | None = None
    vector: NDArray[np.float32] | None = None


VectorAt = Callable[[int], NDArray[np.float32] | None]


def sentences(text: str, by: str | None = None, vector_at: VectorAt = lambda place: None) -> list[Sentence]:
    """The sentences of a text; `vector_at` says which vector what begins at a character stands in."""
    gaps = list(_SENTENCE.finditer(text))
    begins, ends = [0, *(gap.end() for gap in gaps)], [*(gap.start() for gap in gaps), len(text)]
    parts = (part for begin, end in zip(begins, ends, strict=True) for part in _pieces(text, begin, end))
    return [Sentence(part, by, vector_at(begin)) for begin, part in parts if part]


def _pieces(text: str, begin: int, end: int) -> Iterator[tuple[int, str]]:
    """A sentence, or what is written without an end to it in pieces, at a space where there is one."""
    while end - begin > LONGEST_SENTENCE:
        space = text.rfind(" ", begin + 1, begin + LONGEST_SENTENCE)
        upto = space if space > begin else begin + LONGEST_SENTENCE
        yield begin, text[begin:upto].strip()
        begin = upto
    yield begin, text[begin:end].strip()


def extract(given: Sequence[Sentence], most_words: int) -> list[Sentence]:
    """The sentences that say most, in their order, within the room; at least one."""
    distinct = list({(one.text, one.by): one for one in given}.values())
    if sum(_length(one) for one in distinct) <= most_words:
        return distinct
    distinct = _most_interesting(distinct)
    alike = _likeness(distinct)
    worth = _centrality(alike) * np.array([_interest(one.text) for one in distinct])
    chosen: list[int] = []
    room = most_words
    while True:
        left = [row for row in range(len(distinct)) if row not in chosen and _length(distinct[row]) <= room]
        if not left:
            break
        repeats = {row: max((alike[row, taken] for taken in chosen), default=0.0) for row in left}
        best = max(left, key=lambda row: (worth[row] * (1 - REPETITION * repeats[row]), -row))
        if chosen and worth[best] < LEAST_WORTH * worth.max():
            break  # room that is left is no reason to fill it with small talk
        chosen.append(best)
        room -= _length(distinct[best])
    return [distinct[row] for row in sorted(chosen or [int(np.argmax(worth))])]


def _most_interesting(given: list[Sentence]) -> list[Sentence]:
    """Of very many those that are compared: all of them with all would grow with the square of their number."""
    if len(given) <= MOST_SENTENCES:
        return given
    best = sorted(range(len(given)), key=lambda row: (-_interest(given[row].text), row))[:MOST_SENTENCES]
    return [given[row] for row in sorted(best)]


def _length(sentence: Sentence) -> int:
    """In words; where a script has no spaces between them, or there are none, ten characters count as one."""
    return max(len(sentence.text.split()), len(sentence.text) // 10) + (1 if sentence.by else 0)


def _likeness(given: Sequence[Sentence]) -> Matrix:
    texts = [one.text for one in given]
    vectors = [one.vector for one in given if one.vector is not None]
    if len(vectors) < len(given) or len({len(vector) for vector in vectors}) != 1:
        return word_likeness(texts)
    return likeness(texts, np.stack(vectors))


def _centrality(alike: Matrix) -> NDArray[np.float64]:
    """How much of the rest each sentence stands for: the stationary walk, scaled to a mean of one."""
    count = len(alike)
    weights = alike.copy()
    np.fill_diagonal(weights, 0.0)
    totals = weights.sum(axis=1, keepdims=True)
    steps = np.divide(weights, totals, out=np.full_like(weights, 1.0 / count), where=totals > 0)
    rank = np.full(count, 1.0 / count)
    for _ in range(50):
        rank = (1 - DAMPING) / count + DAMPING * (rank @ steps)
    return np.asarray(rank * count)


def _interest(text: str) -> float:
    """What people look for afterwards: numbers, names, decisions; questions and greetings hardly."""
    interest = 1.0
    interest += NUMBER_BONUS * bool(_NUMBER.search(text))
    interest += NAME_BONUS * bool(_NAME.search(text))
    interest += DECISION_BONUS * bool(_DECISION.search(text))
    if text.rstrip().endswith("?"):
        interest *= QUESTION_FACTOR
    return interest * SHORT_FACTOR if len(words(text)) < SHORT_WORDS and not _NUMBER.search(text) else interest


def numbers_in(text: str) -> set[str]:
    """The numbers a text names, for comparing a written summary with what it summarises."""
    return set(re.findall(r"\d+(?:[.,:]\d+)*", text))
