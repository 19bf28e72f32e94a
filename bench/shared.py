"""What the benchmarks share: synthetic memories with vectors, timing, a description of the machine, tables.

Everything is drawn from a seed. A topic is a few words and a centre on the sphere; a memory is a sentence about a topic
and a vector near its centre; a user cares about some thirty topics. So words and vectors agree, as real ones do, and
the nearest of a question are a matter of degree. No model runs: the embedder looks the vector of a text up.

Memories are told in sessions of fifty, a minute apart, by whom the sentence begins with: what recall reads beside its
hits and what it reads off authors and dates is part of what is timed.
"""

from __future__ import annotations

import os
import platform
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

Vectors = NDArray[np.float32]
DIMENSIONS = 384
TOPICS = 300
TOPICS_OF_A_USER = 30
SESSION = 50
START = datetime(2024, 1, 1, tzinfo=UTC)
SPREAD = 0.7  # of a vector around its centre: two of one topic have a cosine of about 0.67

# Wide enough for a table in a log file, too.
console = Console(width=None if sys.stdout.isatty() else 150)

_PEOPLE = (
    "Alice Bruno Carla Deniz Emeka Farah Goran Hanna Ivan Jun Keiko Lars Mina Nadia Omar Priya Quentin Rosa Samir Tara"
    " Uwe Vera Wendell Ximena Yusuf Zoe Anton Bea Chidi Dora Elif Femi Greta Hugo Ines Jonas Kofi Leila Marek Noor"
).split()
_AREAS = (
    "billing checkout search onboarding login payroll inventory shipping reporting export import mobile desktop backup"
    " staging kitchen garden travel music running cycling reading piano chess camping sailing pottery baking budget tax"
    " insurance school hiring support pricing translation analytics caching migration"
).split()
_THINGS = (
    "pipeline schedule dashboard contract checklist recipe invoice calendar workshop rehearsal release incident ticket"
    " review interview newsletter survey prototype diagram playlist itinerary lesson tournament harvest renovation"
    " appointment subscription deadline handbook benchmark timeout queue schema cluster certificate webhook replica"
    " partition form template"
).split()
_VERBS = (
    "prefers mentioned postponed finished started cancelled reviewed approved questioned explained repaired measured"
    " moved shared rewrote tested forgot remembered promised ordered"
).split()
_MANNERS = (
    "because the old one was too slow, after a long talk with the neighbours, although nobody had asked for it, before"
    " the holidays begin, despite the heavy rain, until the new budget is signed, so that the weekend stays free, while"
    " waiting for the train, instead of the usual phone call, with a little help from a colleague"
).split(", ")
_TIMES = "on Monday, last spring, two weeks ago, this morning, in October, at noon, every Friday, since 2021".split(
    ", "
)

_QUESTION = re.compile(r"\(question (\d+)\)\?$")


@dataclass
class Corpus:
    """Memories of some users in the order they are stored, and questions with vectors of their own."""

    texts: list[str]
    users: list[str]
    vectors: Vectors
    questions: list[tuple[str, str]]  # user, text
    question_vectors: Vectors
    places: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._owners = np.array(self.users)
        counted: dict[str, Iterator[int]] = defaultdict(count)
        self._turns = [next(counted[user]) for user in self.users]
        self.places = {text: place for place, text in enumerate(self.texts)}

    def __len__(self) -> int:
        return len(self.texts)

    def told(self, place: int) -> dict[str, Any]:
        """Whose memory it is, in which session, by whom and when it was said: as `remember` takes it."""
        user, turn = self.users[place], self._turns[place]
        session, minutes = divmod(turn, SESSION)
        at = START + timedelta(days=session, minutes=minutes)
        return {
            "user": user,
            "session": f"{user}-{session}",
            "author": self.texts[place].split()[0],
            "at": at.isoformat(),
        }

    def add_people(self, mem: Any) -> None:
        """The users, and the sessions in which they tell all of this."""
        for user in sorted(set(self.users)):
            mem.user.add(user, id=user)
        told = map(self.told, range(len(self)))
        for session, user in sorted({one["session"]: one["user"] for one in told}.items()):
            mem.session.add(id=session, user=user)

    def vector(self, text: str) -> Vectors:
        number = question_number(text)
        vector: NDArray[np.float32] = (
            self.vectors[self.places[text]] if number is None else self.question_vectors[number]
        )
        return vector

    def nearest(self, question: int, stored: int, limit: int) -> set[int]:
        """By brute force: the truth that a recall of the user's own memories is measured against."""
        mine = np.flatnonzero(self._owners[:stored] == self.questions[question][0])
        similarity = self.vectors[mine] @ self.question_vectors[question]
        return set(mine[np.argsort(-similarity)[:limit]].tolist())


def question_number(text: str) -> int | None:
    """Which question a text is: each is also asked in the first person of whom it names."""
    asked = _QUESTION.search(text)
    return int(asked[1]) if asked else None


def key(place: int) -> str:
    return f"m{place:08d}"


def corpus(rows: int, users: int = 100, questions: int = 400, seed: int = 7, *, in_turn: int = 1) -> Corpus:
    """`in_turn`: how many memories a user tells before the next one does."""
    draw, numbers = random.Random(seed), np.random.default_rng(seed)
    about_what = topics(draw, TOPICS)
    centres = unit(numbers.standard_normal((TOPICS, DIMENSIONS), dtype=np.float32))
    names = [f"user-{number:03d}" for number in range(users)]
    cares = {name: draw.sample(range(TOPICS), TOPICS_OF_A_USER) for name in names}
    owners = [names[place // in_turn % users] for place in range(rows)]
    about = [draw.choice(cares[owner]) for owner in owners]
    askers = [names[place % users] for place in range(questions)]
    asked = [draw.choice(cares[asker]) for asker in askers]
    return Corpus(
        [sentence(draw, about_what[topic], place) for place, topic in enumerate(about)],
        owners,
        near(numbers, centres, np.array(about)),
        [(askers[place], question(draw, about_what[topic], place)) for place, topic in enumerate(asked)],
        near(numbers, centres, np.array(asked)),
    )


def topics(draw: random.Random, count: int) -> list[tuple[str, str]]:
    return draw.sample([(area, thing) for area in _AREAS for thing in _THINGS], count)


def unit(vectors: Vectors) -> Vectors:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), np.float32)


def near(numbers: np.random.Generator, centres: Vectors, chosen: NDArray[Any], spread: float = SPREAD) -> Vectors:
    noise = numbers.standard_normal((len(chosen), centres.shape[1]), dtype=np.float32)
    return unit(centres[chosen] + noise * np.float32(spread / np.sqrt(centres.shape[1])))


def sentence(draw: random.Random, topic: tuple[str, str], place: int) -> str:
    """8 to 25 words; the number makes it the only one of its kind, as a ticket or an order number does."""
    area, thing = topic
    parts = [draw.choice(_PEOPLE), draw.choice(_VERBS), "the", area, thing, f"number {place}", draw.choice(_TIMES)]
    for _ in range(draw.randint(0, 2)):
        parts.append(draw.choice(_MANNERS))
    return " ".join(parts) + "."


def question(draw: random.Random, topic: tuple[str, str], place: int) -> str:
    area, thing = topic
    return f"What did {draw.choice(_PEOPLE)} say about the {area} {thing} {draw.choice(_TIMES)} (question {place})?"


class Lookup:
    """An `Embedder` that knows the vector of every text, so that no model's speed is in the numbers."""

    model = "lookup"
    dimensions = DIMENSIONS

    def __init__(self, known: Callable[[str], Vectors]) -> None:
        self._known = known

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self._known(text) for text in texts])

    def embed_query(self, text: str) -> Vectors:
        return self._known(text)


# -- timing ----------------------------------------------------------------------------------------------------------


def timed(work: Iterable[Callable[[], Any]], seconds: float) -> list[float]:
    """Milliseconds of each piece of work, stopping when the time is used up."""
    spent: list[float] = []
    deadline = time.perf_counter() + seconds
    for piece in work:
        begun = time.perf_counter()
        piece()
        ended = time.perf_counter()
        spent.append((ended - begun) * 1000)
        if ended > deadline:
            break
    return spent


def summary(milliseconds: Sequence[float], cpu_seconds: float = 0.0) -> dict[str, float]:
    """Median and tail by the clock; the processor's time each, too, which a busy machine blurs less."""
    values = np.asarray(milliseconds)
    return {
        "cpu_ms": _short(1000 * cpu_seconds / len(values)),
        "p50_ms": _short(float(np.percentile(values, 50))),
        "p99_ms": _short(float(np.percentile(values, 99))),
        "per_second": _short(1000 * len(values) / float(values.sum())),
        "count": len(values),
    }


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def sync_ms(folder: Path, times: int = 50) -> dict[str, float]:
    """What one small write that is synced to disk costs here: no durable add can be faster."""
    with (folder / "sync-probe").open("wb", buffering=0) as file:

        def write() -> None:
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())

        found = summary(timed([write] * times, 5.0))
    (folder / "sync-probe").unlink()
    return found


# -- the machine, files, tables --------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """Enough to judge the numbers, nothing that names the machine."""
    with Path("/proc/meminfo").open() as file:
        memory = int(file.readline().split()[1]) / 2**20
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average": [round(one, 2) for one in os.getloadavg()],
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for number, head in enumerate(heads):
        made.add_column(head, justify="left" if number == 0 else "right", no_wrap=True)
    for row in rows:
        made.add_row(*row)
    return made


def in_words(value: float) -> str:
    """Three digits are all that a benchmark knows."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
