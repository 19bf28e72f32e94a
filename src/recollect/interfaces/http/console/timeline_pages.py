"""The timeline: what was remembered, done and corrected, day by day, for a day, a week, a month or a quarter.

How much there was on each day comes from `activity`, which is kept for large stores; what it was is read newest first,
a bounded number of each. Every part is shown to those who may ask for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from recollect.domain.record import now
from recollect.interfaces.http.console.memory_pages import KEPT_FROM
from recollect.interfaces.http.console.page_context import Page, PageContext, TemplateValues

SPANS = {"day": 1, "week": 7, "month": 30, "quarter": 90}
FURTHEST_DAYS = 366  # as far as `activity` looks back
SHOWN_AT_ONCE = 100
CORRECTING = {"supersedes": "replaces", "contradicts": "contradicts", "merged_into": "was merged into"}
HEIGHT = 60.0


class Event(NamedTuple):
    """Something that happened: what a memory is about, a run that began, one memory that corrected another."""

    at: datetime
    kind: str
    what: Any


class Bar(NamedTuple):
    """One day: how many of each, and the pieces to draw them as (kind, y, height)."""

    day: date
    amounts: dict[str, int]
    pieces: list[tuple[str, float, float]]


class Window(NamedTuple):
    """The days that are shown, the last included, in the visitor's zone."""

    first: date
    last: date
    today: date
    zone: ZoneInfo

    @property
    def days(self) -> list[date]:
        return [self.first + timedelta(days=number) for number in range((self.last - self.first).days + 1)]

    def moment(self, day: date) -> datetime:
        return datetime(day.year, day.month, day.day, tzinfo=self.zone)

    def day_of(self, moment: datetime) -> date:
        return moment.astimezone(self.zone).date()


def timeline(context: PageContext) -> TemplateValues:
    span = context.query("span") if context.query("span") in SPANS else "month"
    window = _window(context, SPANS[span])
    stored = _memories(context, window)
    runs, corrections = [*_runs(context, window)], [*_corrections(context, window)]
    events = sorted([*stored, *runs, *corrections], key=lambda one: one.at, reverse=True)[: 2 * SHOWN_AT_ONCE]
    bars = _bars(context, window, runs, corrections)
    back, forward = window.first - timedelta(days=1), window.last + timedelta(days=SPANS[span])
    earliest = window.today - timedelta(days=FURTHEST_DAYS - 1)
    return {
        "span": span,
        "spans": list(SPANS),
        "window": window,
        "until": context.query("until"),
        "bars": bars,
        "height": HEIGHT,
        "days": [(day, list(some)) for day, some in groupby(events, lambda one: window.day_of(one.at))],
        "totals": {kind: sum(bar.amounts[kind] for bar in bars) for kind in ("memories", "runs", "corrections")},
        "is_cut": len(stored) == SHOWN_AT_ONCE,
        "earlier": back.isoformat() if back >= earliest else None,
        "later": min(forward, window.today).isoformat() if window.last < window.today else None,
        "correcting": CORRECTING,
    }


def _window(context: PageContext, days: int) -> Window:
    zone = ZoneInfo(context.introduced.timezone)
    today = now().astimezone(zone).date()
    try:
        last = date.fromisoformat(context.query("until"))
    except ValueError:
        last = today
    last = max(min(last, today), today - timedelta(days=FURTHEST_DAYS - 1))
    return Window(last - timedelta(days=days - 1), last, today, zone)


def _memories(context: PageContext, window: Window) -> list[Event]:
    asked = {
        "since": window.moment(window.first).isoformat(),
        "until": window.moment(window.last + timedelta(days=1)).isoformat(),
        "limit": SHOWN_AT_ONCE,
        "count_at_most": 1,
    }
    page = context.ask("list", **asked)
    return [Event(datetime.fromisoformat(one.occurred_at), "memory", one) for one in page.memories] if page else []


def _runs(context: PageContext, window: Window) -> Iterator[Event]:
    page = context.ask("run.list", limit=SHOWN_AT_ONCE)
    for one in page.runs if page else ():
        if window.first <= window.day_of(one.created_at) <= window.last:
            yield Event(one.created_at, "run", one)


def _corrections(context: PageContext, window: Window) -> Iterator[Event]:
    for type in CORRECTING:
        page = context.ask("relations", type=type, limit=SHOWN_AT_ONCE)
        for one in page.relations if page else ():
            if window.first <= window.day_of(one.created_at) <= window.last:
                yield Event(one.created_at, "correction", one)


def _bars(context: PageContext, window: Window, runs: Sequence[Event], corrections: Sequence[Event]) -> list[Bar]:
    """How much there was on each day: memories as counted by the store, of the others what was read."""
    kept = context.kept(
        "activity", lambda found: found.days[-1].total > KEPT_FROM, days=FURTHEST_DAYS, by="happened"
    ).figures
    stored = {day.date: day.remembered for day in kept.days}
    counted = [
        {"memories": stored.get(day.isoformat(), 0), "runs": of_runs[day], "corrections": of_corrections[day]}
        for of_runs in [Counter(window.day_of(one.at) for one in runs)]
        for of_corrections in [Counter(window.day_of(one.at) for one in corrections)]
        for day in window.days
    ]
    highest = max((sum(one.values()) for one in counted), default=0) or 1
    return [Bar(day, one, _pieces(one, highest)) for day, one in zip(window.days, counted, strict=True)]


def _pieces(amounts: dict[str, int], highest: int) -> list[tuple[str, float, float]]:
    """From the ground up; whatever there is can be seen."""
    found, top = [], HEIGHT
    for kind, amount in amounts.items():
        tall = max(2.0, round(HEIGHT * amount / highest, 2)) if amount else 0.0
        top = max(top - tall, 0.0)
        found += [(kind, round(top, 2), tall)] if amount else []
    return found


PAGES = (Page("/timeline", "timeline.html", "activity", timeline),)
