"""A year of an organization as REQUIREMENTS names it: 10,000 memories and 5,000 vectors of 1536 numbers a day.

Everything follows from the number of a memory, so a load that was killed goes on with the same data. Memories are told
in sessions of fifty by a hundred users in turn, evenly over 365 days; every other one comes with a vector. A share of
the year has so many fewer each day, and as many days.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared import SESSION, Vectors, near, question, question_number, sentence, topics, unit

DAYS = 365
MEMORIES_A_DAY, VECTORS_A_DAY, READS_A_DAY = 10_000, 5_000, 1_000
USERS = 100
TOPICS = 1_000
SPREAD = 0.9  # two vectors of one topic have a cosine of about 0.55
MODEL = "year"
BATCH = 1_000
_SEED = 23


@dataclass(frozen=True)
class Year:
    share: float
    dimensions: int
    begun: datetime
    """When the year began."""

    @property
    def memories(self) -> int:
        """In whole batches."""
        return max(1, round(self.share * DAYS * MEMORIES_A_DAY / BATCH)) * BATCH

    @property
    def vectors(self) -> int:
        return self.memories * VECTORS_A_DAY // MEMORIES_A_DAY

    @property
    def reads(self) -> int:
        return self.memories * READS_A_DAY // MEMORIES_A_DAY

    @property
    def month(self) -> int:
        """How many memories are of the first month."""
        return self.memories // 12

    def key(self, place: int) -> str:
        return f"m{place:010d}"

    def user(self, place: int) -> str:
        return f"user-{place // SESSION % USERS:03d}"

    def session(self, place: int) -> str:
        return f"s{place // SESSION:07d}"

    def at(self, place: int) -> datetime:
        return self.begun + timedelta(days=DAYS * place / self.memories)

    @cached_property
    def _topics(self) -> list[tuple[str, str]]:
        return topics(random.Random(_SEED), TOPICS)

    @cached_property
    def _centres(self) -> Vectors:
        return unit(np.random.default_rng(_SEED).standard_normal((TOPICS, self.dimensions), dtype=np.float32))

    def batch(self, start: int) -> list[dict[str, Any]]:
        """The memories of one batch, as `remember_many` takes them."""
        draw = random.Random(_SEED + start)
        about = [draw.randrange(TOPICS) for _ in range(BATCH)]
        vectors = self._near(start, about[::2]).tolist()
        made = [self._memory(draw, start + number, topic) for number, topic in enumerate(about)]
        for number, vector in enumerate(vectors):
            made[2 * number] |= {"vector": vector, "vector_model": MODEL}
        return made

    def _memory(self, draw: random.Random, place: int, topic: int) -> dict[str, Any]:
        text = sentence(draw, self._topics[topic], place)
        whose = {"user": self.user(place), "session": self.session(place), "author": text.split()[0]}
        return {"content": text, "id": self.key(place), "at": self.at(place).isoformat(), **whose}

    def _near(self, seed: int, chosen: list[int]) -> NDArray[np.float32]:
        return near(np.random.default_rng(_SEED + seed), self._centres, np.array(chosen), SPREAD)

    def questions(self, count: int) -> tuple[list[tuple[str, str]], Vectors]:
        """Who asks what, and the vectors of what is asked."""
        draw = random.Random(_SEED - 1)
        about = [draw.randrange(TOPICS) for _ in range(count)]
        asked = [(f"user-{n % USERS:03d}", question(draw, self._topics[topic], n)) for n, topic in enumerate(about)]
        return asked, self._near(-1 - _SEED + 2**31, about)


class Asked:
    """An `Embedder` that knows the vectors of the questions; no model's speed is in the figures."""

    model = MODEL

    def __init__(self, year: Year, vectors: Vectors) -> None:
        self.dimensions = year.dimensions
        self._vectors = vectors

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Vectors:
        """What is added while measuring gets the vector of some question."""
        number = question_number(text)
        vector: Vectors = self._vectors[len(text) % len(self._vectors) if number is None else number]
        return vector
