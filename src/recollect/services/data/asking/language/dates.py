"""Spans of time in a question: "in March 2024", "last month", "since 2020", "the last 30 days", "Q1", "yesterday".

Spans are half open: from the first day to the day after the last, as ISO dates in the asker's calendar. A bare year is
left to the numbers: it may be a year, a price or a room.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from recollect.services.data.asking.language.words import NUMBERS, Token

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
            "september sep sept", "october oct", "november nov", "december dec",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_UNITS = {"day": "day", "week": "week", "month": "month", "quarter": "quarter", "year": "year"}
_BEFORE_YEARS = frozenset("in during of for since before after until from year".split())
_OPEN_START = frozenset({"before", "until", "till"})
_OPEN_END = frozenset({"since", "after", "from"})


@dataclass(frozen=True)
class TimeSpan:
    """Days from `first` until before `after`, said by tokens `start` to `end`. An open side is None."""

    first: date | None
    after: date | None
    start: int
    end: int


def time_spans(tokens: Sequence[Token], today: date, bare_years: bool = False) -> list[TimeSpan]:
    """All spans, in order; with `bare_years` also "in 2024", where the data leave no doubt that it is a year."""
    found: list[TimeSpan] = []
    at = 0
    while at < len(tokens):
        span = _span_at(tokens, at, today) or (_bare_year(tokens, at) if bare_years else None)
        if span is None:
            at += 1
            continue
        found.append(_opened(tokens, span))
        at = span.end
    return found


def _bare_year(tokens: Sequence[Token], at: int) -> TimeSpan | None:
    before = tokens[at - 1].word if at else ""
    if before not in _BEFORE_YEARS or not re.fullmatch(r"(1[5-9]|20|21)\d\d", tokens[at].word):
        return None
    year = int(tokens[at].word)
    return TimeSpan(date(year, 1, 1), date(year + 1, 1, 1), at, at + 1)


def _opened(tokens: Sequence[Token], span: TimeSpan) -> TimeSpan:
    """With the side opened that a word before it opens."""
    before = [token.word for token in tokens[max(0, span.start - 2) : span.start]]
    word = next((each for each in reversed(before) if each not in ("the", "in")), "")
    start = span.start - 1 if before else span.start
    if word in _OPEN_START:
        return TimeSpan(None, span.after if word != "before" else span.first, start, span.end)
    if word == "after":
        return TimeSpan(span.after, None, start, span.end)
    if word in _OPEN_END and not _followed_by(tokens, span.end, ("to", "until")):
        return TimeSpan(span.first, None, start, span.end)
    return span


def _followed_by(tokens: Sequence[Token], at: int, words: tuple[str, ...]) -> bool:
    return at < len(tokens) and tokens[at].word in words


def _span_at(tokens: Sequence[Token], at: int, today: date) -> TimeSpan | None:
    word = tokens[at].word
    after = tokens[at + 1].word if at + 1 < len(tokens) else ""
    if tokens[at].kind == "date":
        return _day(tokens[at].text, at)
    if word in ("today", "yesterday"):
        day = today - timedelta(days=word == "yesterday")
        return TimeSpan(day, day + timedelta(days=1), at, at + 1)
    if word in ("last", "past", "previous", "this", "current", "next"):
        return _relative(tokens, at, today)
    if re.fullmatch(r"q[1-4]", word):
        year, used = _year_at(tokens, at + 1)
        quarter = int(word[1])
        return _months(year or today.year, quarter * 3 - 2, 3, at, at + 1 + used)
    if word in _MONTHS:
        return _named_month(tokens, at, today, after)
    return None


def _day(text: str, at: int) -> TimeSpan | None:
    year, month, day = (int(each) for each in re.findall(r"\d+", text)[:3])
    try:
        found = date(year, month, day)
    except ValueError:
        return None
    return TimeSpan(found, found + timedelta(days=1), at, at + 1)


def _year_at(tokens: Sequence[Token], at: int) -> tuple[int | None, int]:
    """A year at a token or after "of" or a comma, and how many tokens it took."""
    skipped = 1 if at < len(tokens) and tokens[at].word in ("of", ",") else 0
    if at + skipped < len(tokens) and re.fullmatch(r"(1[5-9]|20|21)\d\d", tokens[at + skipped].word):
        return int(tokens[at + skipped].word), skipped + 1
    return None, 0


def _named_month(tokens: Sequence[Token], at: int, today: date, after: str) -> TimeSpan | None:
    """March 2024, March 5 2024, 5 March 2024; a month alone is the last one of that name that has begun."""
    word = tokens[at].word
    month = _MONTHS[word]
    year, used = _year_at(tokens, at + 1)
    before = tokens[at - 1].word if at else ""
    day_before = _day_number(before)
    day_after = _day_number(after) if year is None else None
    if day_after is not None:
        year, used = _year_at(tokens, at + 2)
        used += 1
    day = day_before or day_after
    if word in ("may", "march", "mar") and year is None and day is None and not tokens[at].is_capitalized:
        return None
    if year is None:
        year = today.year if month <= today.month else today.year - 1
    start = at - 1 if day_before else at
    if day is None:
        return _months(year, month, 1, start, at + 1 + used)
    try:
        found = date(year, month, day)
    except ValueError:
        return None
    return TimeSpan(found, found + timedelta(days=1), start, at + 1 + used)


def _day_number(word: str) -> int | None:
    match = re.fullmatch(r"([0-3]?\d)(st|nd|rd|th|\.)?", word)
    return int(match.group(1)) if match and 1 <= int(match.group(1)) <= 31 else None


def _relative(tokens: Sequence[Token], at: int, today: date) -> TimeSpan | None:
    which, words = tokens[at].word, [token.word for token in tokens[at + 1 : at + 3]]
    if not words:
        return None
    if words[0] in _MONTHS:
        month = _MONTHS[words[0]]
        year = today.year if month < today.month or which == "this" else today.year - 1
        return _months(year, month, 1, at, at + 2)
    count = NUMBERS.get(words[0]) or (int(words[0]) if words[0].isdigit() else None)
    if count is not None and len(words) > 1 and _unit(words[1]) and which in ("last", "past", "previous"):
        return TimeSpan(_back(today, _unit(words[1]) or "day", count), today + timedelta(days=1), at, at + 3)
    unit = _unit(words[0])
    if unit is None or words[0].endswith("s"):
        return None
    steps = {"this": 0, "current": 0, "next": 1}.get(which, -1)
    return _unit_span(today, unit, steps, at)


def _unit(word: str) -> str | None:
    return _UNITS.get(word.removesuffix("s"))


def _back(today: date, unit: str, count: int) -> date:
    if unit in ("day", "week"):
        return today - timedelta(days=count * (7 if unit == "week" else 1))
    months = count * {"month": 1, "quarter": 3, "year": 12}[unit]
    year, month = divmod(today.year * 12 + today.month - 1 - months, 12)
    return date(year, month + 1, min(today.day, 28))


def _unit_span(today: date, unit: str, steps: int, at: int) -> TimeSpan:
    if unit in ("day", "week"):
        days = 7 if unit == "week" else 1
        first = today - timedelta(days=today.weekday() if unit == "week" else 0) + timedelta(days=days * steps)
        return TimeSpan(first, first + timedelta(days=days), at, at + 2)
    if unit == "year":
        return TimeSpan(date(today.year + steps, 1, 1), date(today.year + steps + 1, 1, 1), at, at + 2)
    size = 3 if unit == "quarter" else 1
    index = (today.year * 12 + today.month - 1) // size * size + steps * size
    return _months(index // 12, index % 12 + 1, size, at, at + 2)


def _months(year: int, month: int, count: int, start: int, end: int) -> TimeSpan:
    last, rest = divmod(year * 12 + month - 1 + count, 12)
    return TimeSpan(date(year, month, 1), date(last, rest + 1, 1), start, end)
