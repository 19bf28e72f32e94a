"""Measurements on a store of one's own: how well recall finds what answers given questions, and how long calls take.

Questions are asked of the store itself, which is only read: they are not counted as uses. Speed is measured on a copy,
and so is the leak test, which tries to change everything.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recollect.app import build, close, require_organization
from recollect.app.store_copies import temporary_copy
from recollect.app.stores import file_of, refuse_missing
from recollect.domain.kinds import describe
from recollect.domain.memory import Memory
from recollect.errors import InvalidInput, NotFound
from recollect.interfaces.leak_test import leak_test
from recollect.interfaces.measurement_replies import CallTimes, LeakTestReply, LeakTestRow, RecallMeasure, SpeedMeasure
from recollect.ports.query import Order, Query
from recollect.ports.records import RecordStore, Scope
from recollect.services.access_journal import Journal
from recollect.services.memories.draft import RememberRequest
from recollect.services.memories.indexing import Progress
from recollect.services.memories.remember import remember
from recollect.services.recall.recall import RecallRequest, recall
from recollect.services.requests import Request
from recollect.services.tenant import Tenant
from recollect.settings import EmbedderSettings, Settings, load

MOST_QUESTIONS = 100_000
DEEPEST = 10
MOST_MISSES = 20
_STORE = "The store, or a YAML file with settings; by default what the environment names"
_WHOSE = "The organization (tenant) whose memories are meant; by default that of the settings"


def _ignored(done: int, total: int) -> None:
    """For those who do not ask how far it is."""


class EvidenceQuestion(BaseModel):
    """A line of a file of questions: what is asked, and which memories answer it, by id or by a part of their text."""

    model_config = ConfigDict(extra="forbid")
    question: str = Field(min_length=1)
    ids: list[str] = Field(default_factory=list)
    texts: list[str] = Field(default_factory=list)
    filters: dict[str, Any] = Field(default_factory=dict)


class BenchRecallRequest(Request):
    """Questions with known answers, to measure recall with."""

    file: Path = Field(description="JSON Lines: a question, and the ids or texts of the memories that answer it")
    settings: str | None = Field(None, description=_STORE)
    organization: str | None = Field(None, description=_WHOSE)


def bench_recall(request: BenchRecallRequest, progress: Progress | None = None) -> RecallMeasure:
    """Ask every question of a file, and look where its evidence is among the hits. Nothing is stored.

    Each line is such as {"question": "when is tea?", "ids": ["0198…"]}, or has "texts", a part of what each memory
    says; "filters" are those of recall.
    """
    asked = list(_questions(request.file))
    found: list[list[int | None]] = []
    with _opened(_settings(request.settings, request.organization)) as tenant:
        for number, one in enumerate(asked, 1):
            found.append(_ranks(tenant, one))
            (progress or _ignored)(number, len(asked))
    firsts = [min((rank for rank in ranks if rank is not None), default=None) for ranks in found]
    missed = [one.question for one, first in zip(asked, firsts, strict=True) if first is None]
    return RecallMeasure(
        questions=len(asked),
        **{f"recall_at_{depth}": _mean([_share(ranks, depth) for ranks in found]) for depth in (1, 5, 10)},
        mrr=_mean([1 / first if first else 0.0 for first in firsts]),
        missed=missed[:MOST_MISSES],
    )


def _questions(path: Path) -> Iterator[EvidenceQuestion]:
    if not path.is_file():
        raise NotFound(f"there is no file '{path}'", remedy="give a JSON Lines file with a question per line")
    number = 0
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if number > MOST_QUESTIONS:
                raise InvalidInput(f"that file has more than {MOST_QUESTIONS:,} questions", remedy="measure with fewer")
            if line.strip():
                yield _question(line, number)
    if not number:
        raise InvalidInput(f"'{path}' is empty", remedy='write lines such as {"question": "…", "ids": ["…"]}')


def _question(line: str, number: int) -> EvidenceQuestion:
    remedy = 'write {"question": "…", "ids": ["…"]} or {"question": "…", "texts": ["…"]}'
    try:
        one = EvidenceQuestion.model_validate(json.loads(line))
    except ValidationError as error:
        raise InvalidInput(f"line {number}: {describe(error)}", remedy=remedy) from None
    except ValueError:
        raise InvalidInput(f"line {number} is not JSON", remedy=remedy) from None
    if not one.ids and not one.texts:
        raise InvalidInput(f"line {number} names no evidence", remedy=remedy)
    return one


def _ranks(tenant: Tenant, asked: EvidenceQuestion) -> list[int | None]:
    """Where each piece of evidence is among the hits; None if it is not."""
    try:
        request = RecallRequest.model_validate({"query": asked.question, "limit": DEEPEST, **asked.filters})
    except ValidationError as error:
        raise InvalidInput(f"filters: {describe(error)}", remedy="use the filters of recall") from None
    hits = recall(tenant, request).hits[:DEEPEST]
    by_id = [next((rank for rank, hit in enumerate(hits, 1) if hit.id == id), None) for id in asked.ids]
    words = [(_folded(text), [_folded(hit.text) for hit in hits]) for text in asked.texts]
    return by_id + [next((rank for rank, hit in enumerate(told, 1) if text in hit), None) for text, told in words]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _share(ranks: list[int | None], depth: int) -> float:
    return sum(rank is not None and rank <= depth for rank in ranks) / len(ranks)


def _mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 4) if values else 0.0


class BenchSpeedRequest(Request):
    """How to measure speed."""

    settings: str | None = Field(None, description=_STORE)
    organization: str | None = Field(None, description=_WHOSE)
    calls: int = Field(100, ge=2, le=10_000, description="How many calls of each operation")


def bench_speed(request: BenchSpeedRequest, progress: Progress | None = None) -> SpeedMeasure:
    """Recall and remember on a copy of the store, with the words of its own memories; the copy is deleted."""
    loaded, calls = _settings(request.settings, request.organization), request.calls
    with temporary_copy(loaded, progress) as at, _opened(at) as tenant:
        newest = Query(Memory, (), (Order("id", descending=True),), calls)
        texts = [text for (text,) in tenant.select(newest, ("text",))]
        if not texts:
            raise InvalidInput("there is nothing in that store to measure with", remedy="remember something first")
        texts = [texts[number % len(texts)] for number in range(calls)]
        count = tenant.count(Query(Memory))
        asked = [RecallRequest(query=" ".join(text.split()[:12])[:500] or text) for text in texts]
        told = [RememberRequest(content=f"{text[:5000]} ({number})") for number, text in enumerate(texts)]
        times = [
            _timed("recall", [partial(recall, tenant, one) for one in asked]),
            _timed("remember", [partial(remember, tenant, one) for one in told]),
        ]
        kind = tenant.store.capabilities.name
    notes = [] if file_of(loaded.store) else [f"measured on a copy in {kind}: what a network adds is not in it"]
    return SpeedMeasure(store=kind, memories=count, times=times, notes=notes)


def _timed(operation: str, work: list[Callable[[], object]]) -> CallTimes:
    work[0]()  # the first one also loads the model and fills the caches
    took = []
    for one in work:
        start = time.perf_counter()
        one()
        took.append((time.perf_counter() - start) * 1000)
    took.sort()
    at = [took[min(len(took) - 1, int(len(took) * share))] for share in (0.5, 0.95)]
    rounded = [round(one, 2) for one in (*at, took[-1])]
    return CallTimes(
        operation=operation, calls=len(took), p50=rounded[0], p95=rounded[1], slowest=rounded[2], chart=histogram(took)
    )


def histogram(took: list[float], ranges: int = 8, width: int = 40) -> list[str]:
    """How many values lie in each of some ranges of equal width, as lines of text."""
    low, high = min(took), max(took)
    step = (high - low) / ranges or 1.0
    counts = [0] * ranges
    for one in took:
        counts[min(ranges - 1, int((one - low) / step))] += 1
    most = max(counts)
    return [
        f"{low + number * step:8.1f} ms {'█' * round(count / most * width)}{' ' if count else ''}{count or ''}".rstrip()
        for number, count in enumerate(counts)
    ]


class LeakTestRequest(Request):
    """How to try whether anything leaks."""

    settings: str | None = Field(None, description=_STORE)
    ids: int = Field(1, ge=1, le=1000, description="How many ids of each type of record are tried")
    every: bool = Field(False, description="Also list the operations that did not leak")


def run_leak_test(request: LeakTestRequest, progress: Progress | None = None) -> LeakTestReply:
    """Copy the store, try every operation on the copy as a stranger, and delete the copy."""
    no_model = EmbedderSettings(provider="none")
    with temporary_copy(_settings(request.settings, None), embedder=no_model, incoming_embedder=None) as at:
        core = build(at, prepare=_prepared)
        try:
            tried = [
                LeakTestRow(operation=one.operation, caller=one.caller, tries=one.tries, leaks=one.leaks)
                for one in leak_test(core, request.ids, progress or _ignored)
            ]
        finally:
            close(core)
    return LeakTestReply(
        well=not any(row.leaks for row in tried),
        operations=len({row.operation for row in tried}),
        tries=sum(row.tries for row in tried),
        rows=[row for row in tried if request.every or row.leaks],
    )


def _prepared(store: RecordStore, scope: Scope) -> None:
    """A copy has all the organizations that it needs."""


def _settings(settings: str | None, organization: str | None) -> Settings:
    loaded = load(settings, organization=organization)
    refuse_missing(loaded.store)
    return loaded


class _QuietJournal(Journal):
    """Notes nothing: what a measurement reads is not a use."""

    def _add(self, *note: object) -> None:
        pass


@contextmanager
def _opened(settings: Settings) -> Iterator[Tenant]:
    core = build(settings, prepare=require_organization)
    try:
        quiet = replace(core, journal=_QuietJournal(core.store))
        yield quiet.for_scope(Scope(settings.organization, settings.actor))
    finally:
        close(core)
