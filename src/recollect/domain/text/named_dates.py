"""Dates as people write them: days, months, seasons and feasts, of a year or of any; and what a reader knows of a text.

Each `read_` function reads one phrase from a word on and looks a few words around it, no further; None where no time is
meant. May and march are verbs, June is a person, 3.11.10 a version: what stands before them tells. `named_times.py`
puts these together with the phrases that hold other phrases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from recollect.domain.text import calendar_spans as spans
from recollect.domain.text import time_words as known
from recollect.domain.text.calendar_spans import Span, days

YEARS_BACK = 10  # of a feast that moves, where no year is named

DIGITS = frozenset("0123456789")
_DAY = re.compile(r"([0-3]?[0-9])(st|nd|rd|th)?")
_PARTS = re.compile(r"[./-]")


@dataclass(frozen=True, slots=True)
class NamedTime:
    """A named time: from `first` to `last`, both included, None for open; or a month, or a day of it, of any year."""

    first: date | None = None
    last: date | None = None
    month: int | None = None
    day: int | None = None


class Found(NamedTuple):
    """What a phrase names, and the word after it. A date that no calendar has names nothing, yet is one.

    Beside a date no bare number is taken for a year; beside what only counts from today, or another year, it is.
    """

    times: tuple[NamedTime, ...]
    end: int
    is_a_date: bool = True


class Said(NamedTuple):
    """A text as words in small letters, as it writes them, and the day from which "last week" counts, if known."""

    words: list[str]
    written: list[str]
    today: date | None


def past_articles(said: Said, at: int) -> int:
    return at + 1 if said.words[at] in known.ARTICLES else at


def word_before(said: Said, at: int) -> str:
    """The word before, an article or a hyphen left out; "between" for the second of two ends: "May to July"."""
    word = said.words[at - 1]
    if word in known.AND and not known.BETWEEN.isdisjoint(said.words[max(0, at - 6) : at - 1]):
        return "between"
    if word in known.TO and (said.words[at - 2] in known.MONTH_NUMBERS or said.words[at - 2][:1] in DIGITS):
        return "between"
    return said.words[at - 2] if word in known.ARTICLES or word == "-" else word


def any_year(day: date) -> NamedTime:
    return NamedTime(month=day.month, day=day.day)


def time_of(span: Span) -> NamedTime:
    return NamedTime(*span)


def spoken(span: Span, end: int) -> Found:
    return Found((NamedTime(*span),), end)


def from_today(said: Said, span: Callable[[date], Span], end: int) -> Found:
    return Found((time_of(span(said.today)),) if said.today is not None else (), end, is_a_date=False)


def in_year(time: NamedTime, year: int) -> NamedTime:
    if time.month is None:
        return time
    if time.day is None:
        return time_of(spans.months_from(year, time.month))
    day = date(year, time.month, time.day)
    return NamedTime(day, day)


def of_one_year(one: NamedTime, other: NamedTime) -> tuple[NamedTime, NamedTime]:
    """ "In May and June 2023" names the year of both, "from 5 May 2023 to 9 June" as well."""
    if one.month is not None and other.first is not None:
        earlier = in_year(one, other.first.year)
        is_later = earlier.first is not None and earlier.first > other.first
        return (in_year(one, other.first.year - 1) if is_later else earlier), other
    if other.month is not None and one.first is not None:
        later = in_year(other, one.first.year)
        is_earlier = later.first is not None and later.first < one.first
        return one, (in_year(other, one.first.year + 1) if is_earlier else later)
    return one, other


def from_to(one: NamedTime, other: NamedTime) -> tuple[NamedTime, ...]:
    one, other = of_one_year(one, other)
    if one.first is not None and other.last is not None:
        return (NamedTime(one.first, other.last),) if one.first <= other.last else (one, other)
    if one.month is None or other.month is None:
        return one, other
    if one.day is not None and other.day is not None:
        first, last = date(2000, one.month, one.day), date(2000, other.month, other.day)
        length = (last - first).days % 366
        if length < 31:
            return tuple(any_year(days(first, step)) for step in range(length + 1))
    return tuple(NamedTime(month=(one.month + step - 1) % 12 + 1) for step in range((other.month - one.month) % 12 + 1))


def calendar_date(year: int, month: int, day: int, end: int) -> Found:
    """0 stands for a part that was not named."""
    if not 1 <= month <= 12:
        return Found((), end)
    if not day:
        return spoken(spans.months_from(year, month), end) if year else Found((NamedTime(month=month),), end)
    try:
        named = date(year or 2000, month, day)
    except ValueError:
        return Found((), end)
    return spoken((named, named), end) if year else Found((NamedTime(month=month, day=day),), end)


def year_at(said: Said, at: int) -> tuple[int, int]:
    """The year that stands there, also after a comma, "of" or "in", and the word after it; 0 where there is none."""
    place = at + 1 if said.words[at] in (",", "of", "in") else at
    word = said.words[place]
    if is_a_year(word):
        return int(word), place + 1
    return (_full_year(word[1:]), place + 1) if word[:1] in ("'", "’") and len(word) == 3 else (0, at)


def _full_year(written: str) -> int:
    return int(written) + (0 if len(written) == 4 else 2000 if int(written) < 69 else 1900)


def is_a_year(written: str) -> bool:
    return len(written) == 4 and written[:2] in ("19", "20") and written.isdecimal()


def day_at(said: Said, at: int) -> tuple[int, bool]:
    """The day of a month that stands there, 0 where none does, and whether it is written as one (5th)."""
    match = _DAY.fullmatch(said.words[at])
    day = int(match[1]) if match else 0
    return (day, bool(match and match[2])) if 1 <= day <= 31 else (0, False)


def read_month(said: Said, at: int) -> Found | None:
    """May 2023, May '23, May 5th, May 5, 2023, May 3-9, 2023."""
    month = known.MONTH_NUMBERS[said.words[at]]
    end = at + 1 + (said.words[at + 1] == "." and len(said.words[at]) < 5)
    year, after = year_at(said, end)
    if year:
        return calendar_date(year, month, 0, after)
    is_the = said.words[end] == "the" and day_at(said, end + 1)[1]  # May the 5th
    first, last, is_ordinal, end_of_days = _days_at(said, end + is_the)
    if said.words[end_of_days] in known.MONTH_NUMBERS and last != first:
        last, end_of_days = first, end + is_the + 1  # 3 to 9 June: the second day belongs to the month after it
    year, after = year_at(said, end_of_days) if first else (0, end)
    if first and word_before(said, at) == "in" and not year and not is_ordinal:
        first = 0  # "in May 5 people came"
    if not year and not _is_a_month(said, at, at, bool(first), is_ordinal):
        return None
    return _days(year, month, first, last, after if year else end_of_days if first else end)


def _days_at(said: Said, at: int) -> tuple[int, int, bool, int]:
    """One day of a month or the first and last of several, whether written as days, and the word after them."""
    first, is_ordinal = day_at(said, at)
    if first:
        last = day_at(said, at + 2)[0] if said.words[at + 1] in known.TO else 0
        return (first, last, is_ordinal, at + 3) if last > first else (first, first, is_ordinal, at + 1)
    ends = said.words[at].split("-", 2)
    if len(ends) == 2 and all(_DAY.fullmatch(one) for one in ends) and 1 <= int(ends[0]) < int(ends[1]) <= 31:
        return int(ends[0]), int(ends[1]), False, at + 1
    return 0, 0, False, at


def _days(year: int, month: int, first: int, last: int, end: int) -> Found:
    if first == last:
        return calendar_date(year, month, first, end)
    ends = calendar_date(year, month, first, end).times + calendar_date(year, month, last, end).times
    return Found(from_to(*ends) if len(ends) == 2 else (), end)


def _is_a_month(said: Said, at: int, start: int, has_day: bool, is_ordinal: bool) -> bool:
    """May and march are verbs, June and Jan are people: these need a word before them that times have.

    `start` is where the phrase begins: at the day, if that stands before the month.
    """
    word, is_capital = said.words[at], said.written[at][0].isupper()
    before = word_before(said, start)
    if has_day:
        return is_capital or is_ordinal or word not in known.VERBS or before in known.BEFORE_A_DAY
    if said.words[at + 1] in known.TO and said.words[at + 2] in known.MONTH_NUMBERS:
        return True  # May-July 2023
    if not is_capital:
        return before in (known.BEFORE_A_VERB if word in known.WEAK_MONTHS else known.BEFORE_A_SMALL_MONTH)
    return word not in known.WEAK_MONTHS or not known.BEFORE_A_MONTH.isdisjoint((before, said.words[start - 1]))


def read_year(said: Said, at: int) -> Found | None:
    if word_before(said, at) not in known.BEFORE_A_YEAR:
        return None
    return spoken(spans.years_from(int(said.words[at])), at + 1)._replace(is_a_date=False)


def read_day_first(said: Said, at: int) -> Found | None:
    """5 May, 5. Mai 2023, the 5th of May '23, 3-9 June 2023, 3rd to 9th June."""
    first, last, is_ordinal, end = _days_at(said, at)
    if first and first == last:
        last, end = _second_day(said, at, end)
    has_point = said.words[end] == "."
    end = past_articles(said, end + 1) if said.words[end] == "of" else end + has_point
    month = known.MONTH_NUMBERS.get(said.words[end])
    if not first or month is None or (has_point and said.words[end] in known.VERBS):  # "We are 5. May I ..."
        return None
    year, after = year_at(said, end + 1 + (said.words[end + 1] == "." and len(said.words[end]) < 5))
    if not year and not _is_a_month(said, end, at, True, is_ordinal):
        return None
    return _days(year, month, first, last, after if year else end + 1)


def _second_day(said: Said, at: int, end: int) -> tuple[int, int]:
    """The last day in "3. bis 9. Juni" and in "between 3 and 9 June", and the word after it; else the first again."""
    first = day_at(said, at)[0]
    if said.words[end] == "." and said.words[end + 1] in known.TO and day_at(said, end + 2)[0]:
        return day_at(said, end + 2)[0], end + 3
    if word_before(said, at) in known.BETWEEN and said.words[end] in known.AND and day_at(said, end + 1)[0]:
        return day_at(said, end + 1)[0], end + 2
    return first, end


def read_written(said: Said, at: int) -> Found | None:
    """21.01.2024, 21.1.24, 1/21/2024, 2024-01-21, 2024/01, 2019-2023."""
    word = said.words[at]
    parts = _PARTS.split(word, 3)
    mark = word[len(parts[0])]
    sizes = tuple(map(len, parts))
    if len(parts) > 3 or max(sizes) > 4 or word.count(mark) != len(parts) - 1:
        return None
    if is_a_year(parts[0]):
        return _year_first([int(one) for one in parts], sizes, mark, at)
    if len(parts) == 2 and mark == "/" and is_a_year(parts[1]) and sizes[0] < 3:
        return calendar_date(int(parts[1]), int(parts[0]), 0, at + 1)
    if len(parts) != 3 or max(sizes[:2]) > 2 or not (is_a_year(parts[2]) or sizes[2] == 2):
        return None
    if sizes[2] == 2 and (mark == "-" or (mark == "." and not _is_a_day_of(said, at))):
        return None
    return _day_or_month_first(int(parts[0]), int(parts[1]), _full_year(parts[2]), mark, at)


def _is_a_day_of(said: Said, at: int) -> bool:
    """3.11.10 is a version as often as a day: it is one at the beginning and after what days have before them."""
    before, after = word_before(said, at), said.words[at + 1]
    if before in known.VERSION or after in known.VERSION:
        return False
    return before in known.BEFORE_A_DAY or before in known.AND or not before[:1].isalnum()


def _year_first(parts: Sequence[int], sizes: tuple[int, ...], mark: str, at: int) -> Found | None:
    if len(parts) == 2 and sizes[1] == 4:
        return spoken(spans.years_from(parts[0], parts[1] - parts[0] + 1), at + 1) if parts[0] < parts[1] else None
    if len(parts) == 2 and parts[1] > 12 and parts[1] == (parts[0] + 1) % 100:
        return spoken(spans.years_from(parts[0], 2), at + 1)  # 2023/24
    if max(sizes[1:]) > 2 or (mark == "." and sizes[1:] != (2, 2)):
        return None
    return calendar_date(parts[0], parts[1], parts[2] if len(parts) == 3 else 0, at + 1)


def _day_or_month_first(one: int, other: int, year: int, mark: str, at: int) -> Found | None:
    """By value where that tells; else the day is first with dots, the month with slashes, and a hyphen says neither."""
    if one <= 12 and other <= 12 and one != other and mark == "-":
        return None
    is_month_first = other > 12 or (mark == "/" and one <= 12)
    return calendar_date(year, one, other, at + 1) if is_month_first else calendar_date(year, other, one, at + 1)


def read_season(said: Said, at: int) -> Found | None:
    """Summer 2023, or the months of any; what else a fall or a spring can be is none."""
    name = known.SEASONS[said.words[at]]
    year, end = year_at(said, at + 1)
    if year:
        whole = time_of(spans.season(name, year))
        return Found((time_of(spans.months_from(year, 1, 2)), whole) if name == "winter" else (whole,), end)
    before = word_before(said, at)
    if said.words[at + 1] == "of" or before not in known.BEFORE_A_SEASON or is_a_fall(said, at, before):
        return None
    first = spans.FIRST_MONTHS[name]
    return Found(tuple(NamedTime(month=(first + step - 1) % 12 + 1) for step in range(3)), at + 1)


def is_a_fall(said: Said, at: int, before: str) -> bool:
    """After the fall, this fall apart: no season."""
    if said.words[at] not in ("fall", "spring"):
        return False
    return before in known.SIDES or said.words[at + 1] in known.AFTER_A_FALL


def feast_at(said: Said, at: int) -> tuple[known.Feast, int] | None:
    for following, feast in known.FEASTS.get(said.words[at], ()):
        end = at + 1 + len(following)
        if tuple(said.words[at + 1 : end]) == following:
            return feast, end
    return None


def day_of(feast: known.Feast, year: int) -> Span:
    day = feast(year) if callable(feast) else date(year, *feast)
    return day, day


def read_feast(said: Said, at: int) -> Found | None:
    """Christmas 2022; without a year that of any, if a word before it says that it is a time, and no Christmas tree."""
    named = feast_at(said, at)
    if named is None:
        return None
    feast, end = named
    year, after = year_at(said, end)
    if year:
        return spoken(day_of(feast, year), after)
    if said.words[at - 1] in known.ARTICLES or word_before(said, at) not in known.BEFORE_A_FEAST:
        return None
    if not callable(feast):
        return Found((NamedTime(month=feast[0], day=feast[1]),), end)
    if said.today is None:
        return None
    years = range(said.today.year - YEARS_BACK + 1, said.today.year + 1)
    return Found(tuple(time_of(day_of(feast, year)) for year in years), end)


def read_quarter(said: Said, at: int) -> Found | None:
    """Q3 2023, H1 '23."""
    year, end = year_at(said, at + 1)
    size = 3 if said.words[at][0] == "q" else 6
    return spoken(spans.months_from(year, int(said.words[at][1]) * size - size + 1, size), end) if year else None
