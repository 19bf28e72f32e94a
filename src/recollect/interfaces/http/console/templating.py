"""How pages are drawn: the templates, and the numbers behind charts, graphs and diffs.

Every value is escaped by the templates; charts are plain SVG made here, so a page needs nothing from elsewhere.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import quote
from zoneinfo import ZoneInfo

from jinja2 import Environment, FunctionLoader, StrictUndefined

from recollect.domain.text.alignment import changes

_HERE = files("recollect.interfaces.http.console")
STATIC: dict[str, bytes] = {one.name: one.read_bytes() for one in (_HERE / "static").iterdir() if one.is_file()}
VERSION = sha256(b"".join(STATIC[name] for name in sorted(STATIC))).hexdigest()[:12]
MOST_DIFFED_WORDS = 4000
_FENCE = re.compile(r"```[^\n`]*\n")


def rendered(template: str, facts: Mapping[str, object]) -> str:
    return _environment().get_template(template).render(facts)


@cache
def _environment() -> Environment:
    def source(name: str) -> str:
        return (_HERE / "templates" / name).read_text("utf-8")

    made = Environment(
        loader=FunctionLoader(source), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {
        "when": when,
        "ago": ago,
        "number": number,
        "pretty": pretty,
        "size": size,
        "short": short,
        "counted": counted,
        "fenced": fenced,
        "span": span,
        "tools": tool_names,
        "percent": percent,
        "urlencode": partial(quote, safe=""),  # an id may hold a slash
    }
    made.globals |= {"version": VERSION, "fields_of": fields_of}
    return made


def _moment(value: datetime | str) -> datetime:
    found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def when(value: datetime | str | None, zone: str = "UTC", shape: str = "%Y-%m-%d %H:%M") -> str:
    """A time as people read it, in the store's zone."""
    return _moment(value).astimezone(ZoneInfo(zone)).strftime(shape) if value else ""


_STEPS = ((60, "s"), (3600, "min"), (86_400, "h"), (86_400 * 60, "d"), (86_400 * 730, "mo"))
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "mo": 86_400 * 30.4, "y": 86_400 * 365}


def ago(value: datetime | str | None) -> str:
    """How long ago, in its largest unit."""
    if not value:
        return ""
    seconds = (datetime.now(UTC) - _moment(value)).total_seconds()
    unit = next((unit for limit, unit in _STEPS if abs(seconds) < limit), "y")
    amount = max(0, round(abs(seconds) / _UNITS[unit]))
    return "now" if amount == 0 else f"{amount} {unit} ago" if seconds > 0 else f"in {amount} {unit}"


def span(value: timedelta) -> str:
    """How long something took, in its largest unit."""
    seconds = value.total_seconds()
    unit = next((unit for limit, unit in _STEPS if seconds < limit), "y")
    return f"{seconds:.1f} s" if unit == "s" else f"{round(seconds / _UNITS[unit])} {unit}"


def number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def size(value: float) -> str:
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def percent(share: float) -> str:
    return "<1%" if 0 < share < 0.5 else f"{share:.0f}%"


def counted(amount: int, noun: str) -> str:
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"


def short(text: str, most: int = 140) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def tool_names(calls: Iterable[object]) -> str:
    """Which tools were called, however the framework that stored the calls spells them."""
    found = []
    for call in calls:
        named = call.get("function", call) if isinstance(call, dict) else call
        found.append(str(named["name"]) if isinstance(named, dict) and named.get("name") else "a tool")
    return ", ".join(found)


def pretty(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)


def fields_of(values: Mapping[str, object], *but: str) -> list[tuple[str, object]]:
    """What is worth showing of an object, in its order."""
    return [(name, value) for name, value in values.items() if name not in but and value not in (None, "", [], {})]


class Slice(NamedTuple):
    name: str
    amount: int
    share: float
    start: float


def slices(counts: Mapping[str, int], most: int = 8) -> list[Slice]:
    """Counts as parts of one bar, the largest first; what is beyond `most` is put together."""
    ordered = sorted(((count, name) for name, count in counts.items() if count), reverse=True)
    kept = [(name, count) for count, name in ordered[:most]]
    rest = sum(count for count, _ in ordered[most:])
    kept += [("others", rest)] if rest else []
    total = sum(count for _, count in kept)
    found, start = [], 0.0
    for name, count in kept:
        share = 100 * count / total
        found.append(Slice(name, count, round(share, 3), round(start, 3)))
        start += share
    return found


class Chart(NamedTuple):
    """A series over days: a line and its area for levels, bars for amounts; `ticks` are (y, label).

    `cut` are the bars that reach beyond the scale, each as (x, width, label): an import or a check of everything would
    otherwise press all other days flat.
    """

    line: str
    area: str
    bars: list[tuple[float, float, float, float, str, float]]
    ticks: list[tuple[float, str]]
    labels: list[tuple[float, str]]
    width: int
    height: int
    cut: list[tuple[float, float, str]]


def chart(
    dates: Sequence[str], values: Sequence[float], *, bars: bool = False, width: int = 560, height: int = 150
) -> Chart:
    left, bottom, top = 42, 22, 14
    high = _rounded_up(_highest_usual(values) if bars else max(values, default=0))
    wide, tall = width - left - 4, height - bottom - top
    step = wide / max(len(values), 1)

    def y(value: float) -> float:
        return round(top + tall * (1 - min(value, high) / high), 2)

    points = [(round(left + step * (at + 0.5), 2), y(value)) for at, value in enumerate(values)]
    line = " ".join(f"{x},{level}" for x, level in points)
    area = f"{points[0][0]},{y(0)} {line} {points[-1][0]},{y(0)}" if points else ""
    gap = min(2.0, step / 4)
    drawn = [
        (round(left + step * at + gap / 2, 2), y(value), round(step - gap, 2), round(y(0) - y(value), 2), date, value)
        for at, (date, value) in enumerate(zip(dates, values, strict=True))
    ]
    ticks = [(y(high * part), _compact(high * part)) for part in (0, 0.5, 1)]
    every = max(1, len(dates) // 5)
    marked = range((len(dates) - 1) % every, len(dates), every)  # the last day is one of them
    labels = [(points[at][0], f"{datetime.fromisoformat(dates[at]):%d %b}") for at in marked]
    cut = [(x, breadth, _compact(value)) for x, _, breadth, _, _, value in drawn if value > high]
    return Chart(line, area, drawn, ticks, labels, width, height, cut)


MOST_CUT, FAR_OUT = 3, 4


def _highest_usual(values: Sequence[float]) -> float:
    """The highest value, but for the few that tower far above all others."""
    ordered = sorted(values, reverse=True)
    for number, usual in enumerate(ordered[1 : MOST_CUT + 1], 1):
        if usual and ordered[number - 1] > FAR_OUT * usual:
            return usual * 1.2
    return ordered[0] if ordered else 0


def weekly(days: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Amounts by day put together by weeks that end with the last day; each named by its first."""
    starts = range(len(days) % 7, len(days), 7)
    return [(days[at][0], sum(amount for _, amount in days[at : at + 7])) for at in starts]


def _rounded_up(value: float) -> float:
    """The next even mark of an axis."""
    if value <= 4:
        return 4
    magnitude = 10.0 ** math.floor(math.log10(value))
    return next(magnitude * mark for mark in (1, 2, 4, 5, 6, 8, 10) if magnitude * mark >= value)


def _compact(value: float) -> str:
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:g}"


class Part(NamedTuple):
    """One reason of a rank, as a bar that starts at the middle: to the right it helped, to the left it did not."""

    name: str
    value: float
    x: float
    width: float


def parts(values: Mapping[str, float], most: int = 6) -> list[Part]:
    ordered = sorted(values.items(), key=lambda item: -abs(item[1]))[:most]
    scale = max((abs(value) for _, value in ordered), default=0) or 1
    found = []
    for name, value in ordered:
        width = round(50 * abs(value) / scale, 2)
        found.append(Part(name, value, 50 if value >= 0 else 50 - width, width))
    return [part for part in found if abs(part.value) >= 0.005]


class Fan(NamedTuple):
    """The relations on one side of a memory: each with the height, in percent, at which its line meets it."""

    side: str
    links: list[tuple[Any, float]]
    left_out: int


def fans(links: Iterable[Any], most: int = 8) -> list[Fan]:
    """A memory between what points at it, to its left, and what it points at. A side without relations is left out."""
    found = []
    for side, direction in (("left", "from"), ("right", "to")):
        here = [link for link in links if link.direction == direction]
        shown = here[:most]
        heights = [round(100 * (at + 0.5) / len(shown), 2) for at in range(len(shown))]
        found.append(Fan(side, list(zip(shown, heights, strict=True)), len(here) - len(shown)))
    return [fan for fan in found if fan.links]


class Piece(NamedTuple):
    kind: str
    text: str


def word_diff(before: str, after: str) -> list[Piece]:
    """What changed, word by word: pieces that are the same, deleted or inserted."""
    old, new = re.findall(r"\s+|\w+|[^\w\s]", before), re.findall(r"\s+|\w+|[^\w\s]", after)
    if len(old) + len(new) > MOST_DIFFED_WORDS:  # nobody reads on
        return [Piece("del", before), Piece("ins", after)]
    pieces: list[Piece] = []
    for tag, i1, i2, j1, j2 in changes(old, new):
        if tag == "equal":
            pieces.append(Piece("same", "".join(old[i1:i2])))
            continue
        pieces += [Piece("del", "".join(old[i1:i2]))] if i2 > i1 else []
        pieces += [Piece("ins", "".join(new[j1:j2]))] if j2 > j1 else []
    return pieces


def fenced(text: str) -> list[Piece]:
    """Text with the code in it set apart, as people write it in messages: between lines of three backticks."""
    lines = text.splitlines(keepends=True)
    ends = [number for number, line in enumerate(lines) if line.rstrip() == "```"]
    pieces: list[Piece] = []
    shown, number = 0, 0  # up to which line it is shown, and which is looked at
    while ends and number < ends[-1]:
        if not _FENCE.fullmatch(lines[number]):
            number += 1
            continue
        end = ends[bisect_right(ends, number)]
        pieces += [Piece("text", "".join(lines[shown:number])), Piece("code", "".join(lines[number + 1 : end]))]
        shown = number = end + 1
    pieces.append(Piece("text", "".join(lines[shown:])))
    return [piece for piece in pieces if piece.text.strip()]


def line_kinds(diff: str) -> list[Piece]:
    """A diff by lines, each with what it is; without the two lines that name the file."""
    marks = {"+": "ins", "-": "del", "@": "at"}
    lines = diff.splitlines()
    lines = lines[2:] if lines[:1] and lines[0].startswith("--- ") else lines
    return [Piece(marks.get(line[:1], "same"), line) for line in lines]
