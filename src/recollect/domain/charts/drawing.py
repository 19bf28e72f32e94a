"""A chart before it has a title, and what charts have in common: axes, tooltips, colours, words for what is shown.

Fields of the data have names of ours (x, y, series, label), never those of the columns: a column named `a.b['c']` needs
no escaping. What is counted or cut is counted and cut here, so a spec has no transform and no expression of strangers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from recollect.domain.charts.columns import Series
from recollect.domain.charts.formats import axis_format, grain_of, moment_text, number_text, tooltip_format

Json = dict[str, object]
T = TypeVar("T")

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""What a spec says it is. A name: nothing is loaded from there."""
MOST_POINTS = 5_000
MOST_SERIES = 8
WIDTH, HEIGHT = 640, 320


class Unfit(Exception):
    """The data cannot be drawn so; the text says why, as the end of "a bar chart needs …"."""


@dataclass(frozen=True, slots=True)
class Table:
    """The columns that can be drawn, by what they are."""

    rows: int
    times: list[Series] = field(default_factory=list)
    categories: list[Series] = field(default_factory=list)
    numbers: list[Series] = field(default_factory=list)

    def number(self) -> Series:
        """The number that the result is about: the one it is sorted by, else the first."""
        if not self.numbers:
            raise Unfit("a column of numbers")
        for one in self.numbers if self.rows > 2 else ():
            known = one.known()
            steps = [after - before for before, after in pairwise(known)]
            if any(steps) and (min(steps) >= 0 or max(steps) <= 0):
                return one
        return self.numbers[0]

    def label(self) -> Series | None:
        """The column that names each row; one with words rather than one with ids."""
        unique = [one for one in self.categories if one.distinct == self.rows]
        return next((one for one in unique if not one.is_id), unique[0] if unique else None)

    def pair(self) -> tuple[Series, Series] | None:
        """Two columns that name each row only together."""
        for place, first in enumerate(self.categories):
            for second in self.categories[place + 1 :]:
                is_pair = 1 < first.distinct < self.rows and 1 < second.distinct < self.rows
                if is_pair and len(set(zip(first.labels, second.labels, strict=True))) == self.rows:
                    return first, second
        return None


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart before it has a title: its own part of the spec, what it shows in words, what was left out."""

    spec: Json
    summary: str
    notes: list[str] = field(default_factory=list)


def thinned(points: Sequence[T]) -> tuple[list[T], list[str]]:
    """At most 5,000 of them, evenly chosen, so that the shape stays."""
    if len(points) <= MOST_POINTS:
        return list(points), []
    kept = [points[place * len(points) // MOST_POINTS] for place in range(MOST_POINTS)]
    return kept, [f"{MOST_POINTS:,} of {len(points):,} points are drawn, evenly chosen"]


def as_labels(time: Series) -> Series:
    grain = grain_of([one for one in time.moments if one is not None])
    labels = [moment_text(one, grain) if one else "(empty)" for one in time.moments]
    return Series(time.title, "category", labels=labels)


def alike(numbers: list[Series]) -> list[Series]:
    """The first numbers that can share an axis: the same unit, and none dwarfs the others."""
    first = numbers[0]
    most = max(map(abs, first.known()))
    found = [
        one for one in numbers[:5]
        if one.unit == first.unit and most / 20 <= max(map(abs, one.known())) <= most * 20
    ]  # fmt: skip
    return found if most else [first]


def number_axis(number: Series, values: Sequence[float], *, zero: bool, near: float = 0.4) -> Json:
    """An axis of numbers: from zero on where it must be, or where that takes no more than the share `near` of it."""
    low, high = min(values, default=0), max(values, default=0)
    is_based = zero or 0 <= low <= near * high
    axis = axis_format(number.unit, max(abs(low), abs(high)))
    if number.unit == "whole" and high - low <= 5:
        axis |= {"tickMinStep": 1}
    return {"field": "y", "type": "quantitative", "title": number.title or None, "axis": {"tickCount": 6, **axis},
            "scale": {"zero": is_based, "nice": True}}  # fmt: skip


def number_tip(number: Series, field: str = "y") -> Json:
    return {
        "field": field,
        "type": "quantitative",
        "title": number.title or "value",
        "format": tooltip_format(number.unit),
    }


def series_colour(series: Series) -> Json:
    legend = {"orient": "top", "columns": 4, "title": None}
    return {"field": "series", "type": "nominal", "sort": None, "title": series.title or None, "legend": legend}


def missing(count: int, number: Series) -> list[str]:
    whose = f" in {number.title}" if number.title else ""
    return [f"{count:,} {'row has' if count == 1 else 'rows have'} no number{whose}"] if count else []


def range_text(number: Series, values: Sequence[float]) -> str:
    return f"{number_text(min(values), number.unit)} to {number_text(max(values), number.unit)}"


def extremes(number: Series, pairs: Sequence[tuple[str, float]], what: str) -> str:
    if not pairs:
        return f"no {what}"
    low, high = min(pairs, key=lambda one: one[1]), max(pairs, key=lambda one: one[1])
    return (
        f"{len(pairs):,} {what}, from {number_text(low[1], number.unit)} ({low[0]}) "
        f"to {number_text(high[1], number.unit)} ({high[0]})"
    )
