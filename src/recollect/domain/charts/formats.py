"""Numbers and dates for people: on axes as formats of d3, in labels as text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

Unit = Literal["number", "whole", "money", "percent", "share", "year"]
"""`share`: a percentage stored as 0 to 1; `percent`: one stored as 0 to 100."""

BILLIONS = "datum.value == 0 ? '0' : replace(datum.label, 'G', 'B')"
"""d3 writes G for giga where people say billion. One of the two expressions that charts have, both our own."""
PERCENT = "datum.label + '%'"

_MONEY = frozenset(
    "amount balance budget charge cost costs earnings expense expenses fee fees income margin payment price profit "
    "revenue salary sales spend spending total_price turnover wage wages umsatz betrag kosten preis gehalt".split()
)
_PERCENT = frozenset("percent percentage pct rate ratio share anteil quote prozent".split())
_YEAR = frozenset("year years jahr yr".split())
_WORDS = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![a-z])|\d+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def words_of(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def unit_of(name: str, meaning: str | None, values: Sequence[float]) -> Unit:
    """What a column of numbers counts, by what is known of it, else by its name."""
    words = set(words_of(name))
    is_whole = all(value == int(value) for value in values if math.isfinite(value))
    if is_whole and values and min(values) >= 1000 and max(values) <= 2500 and (meaning == "year" or words & _YEAR):
        return "year"
    if meaning == "percent" or (meaning is None and words & _PERCENT):
        is_share = bool(values) and max(map(abs, values)) <= 1
        return "share" if is_share else "percent"
    if meaning == "money" or (meaning is None and words & _MONEY and not words & {"count", "number", "anzahl"}):
        return "money"
    return "whole" if is_whole else "number"


def axis_format(unit: Unit, largest: float) -> dict[str, object]:
    """How an axis words its numbers."""
    if unit == "year":
        return {"format": "d"}
    if unit == "share":
        return {"format": ".0%" if largest >= 0.05 else ".2~%"}
    if unit == "percent":
        return {"format": ",.2~f", "labelExpr": PERCENT}
    if largest >= 10_000:
        return {"format": "~s", "labelExpr": BILLIONS}
    return {"format": ",.3~f" if largest >= 0.01 or largest == 0 else ".2~g"}


def tooltip_format(unit: Unit) -> str:
    return {"year": "d", "share": ".2~%", "money": ",.2f", "whole": ",d"}.get(unit, ",.4~f")


def number_text(value: float, unit: Unit, *, exact: bool = False) -> str:
    """A number as a person writes it: short on the end of a bar, `exact` where there is room."""
    size = abs(value)
    if unit == "year":
        return str(int(value))
    if unit == "share":
        return f"{_plain(value * 100, 1)}%"
    if unit == "percent":
        return f"{_plain(value, 1)}%"
    if size >= 1e15:
        return f"{value:.3g}"
    if exact:
        return f"{value:,.2f}" if unit == "money" and value != int(value) else _plain(value, 4)
    for step, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if size >= step:
            return f"{_plain(value / step, 2)}{suffix}"
    if size >= 10_000:
        return f"{value:,.0f}"
    if size and size < 0.01:
        return f"{value:.2g}"
    return f"{value:,.2f}" if unit == "money" and value != int(value) else _plain(value, 2)


def _plain(value: float, digits: int) -> str:
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


Grain = Literal["year", "month", "day", "moment"]
_SHOWN: dict[Grain, tuple[str, str]] = {  # for Python, for d3
    "year": ("%Y", "%Y"),
    "month": ("%b %Y", "%b %Y"),
    "day": ("%d %b %Y", "%d %b %Y"),
    "moment": ("%d %b %Y %H:%M", ""),
}


def grain_of(moments: Sequence[datetime]) -> Grain:
    """The finest part of the dates that says something."""
    if any(one.hour or one.minute or one.second or one.microsecond for one in moments):
        return "moment"
    if any(one.day != 1 for one in moments):
        return "day"
    return "month" if any(one.month != 1 for one in moments) else "year"


def moment_text(moment: datetime, grain: Grain) -> str:
    return moment.strftime(_SHOWN[grain][0])


def time_axis(moments: Sequence[datetime], grain: Grain) -> dict[str, object]:
    """Ticks at dates that the data have while those are few; else where Vega finds them good."""
    distinct = sorted(set(moments))
    if grain == "moment" or len(distinct) > 40:
        return {"format": "%Y"} if grain == "year" else {}
    step = math.ceil(len(distinct) / 8)
    return {"format": _SHOWN[grain][1], "values": [utc_text(one) for one in distinct[::step]]}


def utc_text(moment: datetime) -> str:
    """With a Z, and drawn on a scale in UTC: a day is the same day wherever the chart is looked at."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + "Z"


def label_text(value: object, most: int = 60) -> str:
    """A value as a label: one line, not too long, told from empty ones."""
    if value is None:
        return "(empty)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = _CONTROL.sub(" ", str(value)).strip()
    if not text:
        return "(blank)"
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def wrapped(text: str, width: int, lines: int) -> list[str]:
    """A text in at most so many lines. Characters of East Asian scripts are wide, and break anywhere."""
    found: list[str] = [""]
    taken = 0
    for word in re.findall(
        r"[\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef]|[^\s\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef]+|\s+", text
    ):
        size = sum(2 if ord(char) >= 0x2E80 else 1 for char in word)
        if taken and taken + size > width and not word.isspace():
            found.append("")
            taken = 0
        if taken or not word.isspace():
            found[-1] += word
            taken += size
    found = [line.rstrip()[: 2 * width] for line in found]
    if len(found) > lines:
        found = [*found[: lines - 1], found[lines - 1] + " …"]
    return found
