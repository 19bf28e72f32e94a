"""The times a text names: dates as people write them, "last March", "two weeks before Easter 2023", "vor zwei Wochen".

The text becomes words, and each is looked up once: it may begin a phrase, which a function of its own reads from there
on. A phrase looks at a few words beside it and at phrases within it, never deeper than DEEPEST, so a text takes as long
as it has words, whatever they are; the one pattern repeats nothing that it could give back. Dates are read in
`named_dates.py`, the words stand in `time_words.py`. `tests/domain/test_named_times.py` holds down what is read, what
is not, and that it takes no longer than the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime

from recollect.domain.text import calendar_spans as spans
from recollect.domain.text import named_dates as dates
from recollect.domain.text import time_words as known
from recollect.domain.text.calendar_spans import Span, days
from recollect.domain.text.named_dates import Found, NamedTime, Said

__all__ = ["NamedTime", "named_times"]

MOST_TIMES = 64  # each is compared with the day of every candidate; a pasted page must not take a thousand looks
DEEPEST = 3  # "since the end of the first week of May 2023"

_TOKEN = re.compile(
    r"(?:19|20)[0-9]{2}(?:-[0-9]{2}(?:-[0-9]{2})?|/[0-9]{2}/[0-9]{2})(?=\b|T[0-9])"  # 2024-01-21, also in a path
    r"|(?<![\w./+-])[0-9]++(?:[./-][0-9]++)++(?![\w%]|[./-]\w)"  # 21.01.2024, 1/21/24, 3-9, also 10.0.0.1
    r"|['’][0-9]{2}(?!\w)"  # '24
    r"|\w++(?:['’]s\b)?+"
    r"|[^\w\s]"
)
_BEYOND = [""] * 8  # more than any phrase looks ahead, or behind the first word


def named_times(text: str, now: datetime | None = None) -> list[NamedTime]:
    """The times that a text names, each once; "last week" and its like count from `now` and say nothing without it."""
    written = _TOKEN.findall(text)
    words = [_word(one) for one in written]
    if known.ANCHORS.isdisjoint(words) and dates.DIGITS.isdisjoint(text):
        return []
    said = Said(words + _BEYOND, written + _BEYOND, now.date() if now is not None else None)
    phrases, years = _phrases(said, len(words))
    if not any(phrase.is_a_date for phrase in phrases):
        phrases += years
    return list(dict.fromkeys(time for phrase in phrases for time in phrase.times))[:MOST_TIMES]


def _word(written: str) -> str:
    word = written.lower()
    if word[-2:] not in ("'s", "’s"):
        return word
    return word[:-2] + "s" if word[0] in dates.DIGITS else word[:-2]  # the 1990's


def _phrases(said: Said, end: int) -> tuple[list[Found], list[Found]]:
    """All phrases that name a time, and the numbers outside of them that could be years."""
    found, years, at = [], [], 0
    while at < end:
        try:
            phrase = _opened(said, at)
        except (ValueError, OverflowError):  # before the first day of the calendar, or after its last
            phrase = None
        if phrase is not None:
            found.append(phrase)
            at = phrase.end
            continue
        if dates.is_a_year(said.words[at]):
            years.append(dates.spoken(spans.years_from(int(said.words[at])), at + 1))
        at += 1
    return found, years


# --- Phrases around phrases ------------------------------------------------------------------------------


def _opened(said: Said, at: int) -> Found | None:
    """A phrase, with the side open that a word before it opens: since, after, before, until."""
    word = said.words[at]
    if word not in known.AFTER and word not in known.BEFORE:
        return _ranged(said, at)
    if word == "vor" and (ago := _ago(said, at + 1, behind=False)):
        return ago
    found = _ranged(said, dates.past_articles(said, at + (2 if word == "prior" else 1)))
    if found is None:
        return None
    return found._replace(times=_open(found.times, word, said.today))


def _open(times: tuple[NamedTime, ...], word: str, today: date | None) -> tuple[NamedTime, ...]:
    """What is since one of several, a month or a feast, is since the last of them."""
    if word in known.SINCE and today is not None and times:
        times = (_latest(times[0], today),) if times[0].month is not None else times[-1:]
    if len(times) != 1 or times[0].month is not None:
        return times
    return (NamedTime(first=times[0].first),) if word in known.AFTER else (NamedTime(last=times[0].last),)


def _latest(time: NamedTime, today: date) -> NamedTime:
    if time.month is None:
        return time
    return dates.in_year(
        time, today.year if (time.month, time.day or 1) <= (today.month, today.day) else today.year - 1
    )


def _ranged(said: Said, at: int) -> Found | None:
    """A phrase, or two of them that are the ends of one: "between May and July 2023", "3 June 2023 to 9 June 2023"."""
    one = _phrase(said, at)
    if one is None or len(one.times) != 1:
        return one
    joint = said.words[one.end]
    if joint not in known.TO and joint not in known.AND:
        return one
    other = _phrase(said, dates.past_articles(said, one.end + 1))
    if other is None or len(other.times) != 1:
        return one
    if joint in known.TO or dates.word_before(said, at) in known.BETWEEN:
        times = dates.from_to(one.times[0], other.times[0])
    else:
        times = dates.of_one_year(one.times[0], other.times[0])
    return Found(times, other.end, one.is_a_date or other.is_a_date)


def _phrase(said: Said, at: int, depth: int = 0) -> Found | None:
    word = said.words[at]
    alone = _ALONE.get(word)
    if alone is not None:
        return alone(said, at)
    around = _number if word[:1] in dates.DIGITS else _AROUND.get(word)
    return around(said, at, depth) if around is not None and depth <= DEEPEST else None


def _within(said: Said, at: int, depth: int) -> Found | None:
    """The phrase in "the end of ...": there "last year" is the calendar's, and a year needs nothing before it."""
    at = dates.past_articles(said, at + (said.words[at] == "to"))  # prior to
    which, unit = known.WHICH.get(said.words[at]), known.UNITS.get(said.words[at + 1])
    if which is not None and unit in spans.UNIT_DAYS:
        return dates.from_today(said, lambda today: spans.calendar_unit(today, unit, which), at + 2)
    year, end = dates.year_at(said, at)
    return dates.spoken(spans.years_from(year), end) if year else _phrase(said, at, depth + 1)


def _mapped(found: Found, change: Callable[[Span], Span]) -> Found:
    """Another span for each that was found; months of any year stay what they are."""
    times = tuple(
        dates.time_of(change((time.first, time.last))) if time.first is not None and time.last is not None else time
        for time in found.times
    )
    return found._replace(times=times)


def _number(said: Said, at: int, depth: int) -> Found | None:
    """What begins with a digit: 21.01.2024, 5 May, the 5th of May 2023, 3 to 9 June, 10 days ago, 1st week, 2010s."""
    word = said.words[at]
    if "." in word or "/" in word or "-" in word:
        return dates.read_written(said, at) or dates.read_day_first(said, at)
    if dates.is_a_year(word):
        return dates.read_year(said, at)
    if len(word) == 5 and word[:2] in ("19", "20") and word.endswith("0s"):
        return dates.spoken(spans.years_from(int(word[:4]), 10), at + 1)
    if said.words[at + 1] not in known.AFTER_A_NUMBER:  # most numbers: a table pasted into a question has thousands
        return None
    return dates.read_day_first(said, at) or _ordinal(said, at, depth) or _ago(said, at) or _counted(said, at, depth)


# --- Parts of a time -------------------------------------------------------------------------------------


def _part(said: Said, at: int, depth: int) -> Found | None:
    """Early 2023, mid-March 2023, at the end of last year, Ende März 2023."""
    word, start = said.words[at], at + 1
    is_noun = word in known.PARTS_OF  # "Did it end in May 2023?" is not about the end of May
    if said.words[start] in (known.OF_ALONE if is_noun else known.OF):
        start += 1
    elif is_noun:
        return None
    found = _within(said, start, depth)
    third = known.THIRDS[word] * 4
    return _mapped(found, lambda span: spans.part_of(span, third, third + 4)) if found else None


def _ordinal(said: Said, at: int, depth: int) -> Found | None:
    """The first half of 2023, the third quarter of 2023, the last week of May 2023, the first of May."""
    number, unit = known.ORDINALS.get(said.words[at]), said.words[at + 1]
    if number is not None and number > 0 and unit == "of" and said.words[at + 2] in known.MONTH_NUMBERS:
        year, end = dates.year_at(said, at + 3)
        return dates.calendar_date(year, known.MONTH_NUMBERS[said.words[at + 2]], number, end)
    if number is None or said.words[at + 2] not in known.OF:
        return None
    change = _numbered_part(number, unit)
    found = _within(said, at + 3, depth) if change else None
    return _mapped(found, change) if found and change else None


def _numbered_part(number: int, word: str) -> Callable[[Span], Span] | None:
    unit = known.UNITS.get(word)
    if word in known.HALVES or unit == "quarter":
        parts = 2 if word in known.HALVES else 4
        place, size = (number if number > 0 else parts) - 1, 12 // parts
        return (lambda span: spans.part_of(span, size * place, size * place + size)) if place < parts else None
    if unit in ("day", "week", "month"):
        return lambda span: spans.numbered(span, unit, number)
    weekday = spans.SATURDAY if unit == "weekend" else known.WEEKDAYS.get(word)
    if weekday is None:
        return None
    length = 1 if unit == "weekend" else 0
    return lambda span: ((day := spans.numbered_weekday(span, weekday, number)), days(day, length))


# --- Counted from today, or from another time ------------------------------------------------------------


def _near_day(said: Said, at: int) -> Found | None:
    step = known.NEAR_DAYS[said.words[at]]
    return dates.from_today(said, lambda today: (days(today, step), days(today, step)), at + 1)


def _which(said: Said, at: int, depth: int) -> Found | None:
    """Last March, this summer, next Friday, last night, last week, the past ten days, last week before 3 May 2023."""
    return (
        _ordinal(said, at, depth)
        or (_unit(said, at + 1, depth) if said.words[at + 2] in known.SIDES else None)
        or _once(said, at, depth)
        or _one_unit(said, at)
        or _last_few(said, at)
    )


def _once(said: Said, at: int, depth: int) -> Found | None:
    """What comes once a year or a week: last March, next Easter, this Friday. Last March 2023 is named by its year."""
    which = known.WHICH[said.words[at]]
    span = _once_a_year(said, at + 1, which) or _once_a_week(said.words[at + 1], which)
    if span is None:
        return None
    feast = dates.feast_at(said, at + 1)
    end = feast[1] if feast else at + 2
    is_dated = dates.year_at(said, end)[0] or dates.day_at(said, end)[0]
    return (_phrase(said, at + 1, depth + 1) if is_dated else None) or dates.from_today(said, span, end)


def _one_unit(said: Said, at: int) -> Found | None:
    """Last night, this morning, last week, next month; the last year of school is something else."""
    word, which, after = said.words[at], known.WHICH[said.words[at]], said.words[at + 1]
    if (word, after) == ("last", "night") or (word == "this" and after in known.TIMES_OF_DAY):
        return dates.from_today(said, lambda today: (days(today, which), days(today, which)), at + 2)
    unit = known.UNITS.get(after)
    if unit not in ("week", "month", "quarter", "year") or after.endswith("s") or said.words[at + 2] == "of":
        return None
    if which > 0:
        return dates.from_today(said, lambda today: spans.calendar_unit(today, unit, 1), at + 2)
    reach = spans.UNIT_DAYS[unit] * (2 if word in known.REACHING_TWICE else 1)
    return dates.from_today(said, _reaching(reach, which), at + 2)


def _reaching(reach: int, which: int) -> Callable[[date], Span]:
    return lambda today: (today, days(today, reach)) if which > 0 else (days(today, -reach), today)


def _last_few(said: Said, at: int) -> Found | None:
    """The last three weeks, the past few months."""
    (_, most), unit, end = _count_at(said, at + 1)
    which = known.WHICH[said.words[at]]
    if not most or not which or unit not in spans.UNIT_DAYS or said.words[end] == "of":
        return None
    return dates.from_today(said, _reaching(int(most * spans.UNIT_DAYS[unit]), which), end)


def _once_a_year(said: Said, at: int, which: int) -> Callable[[date], Span] | None:
    word = said.words[at]
    month, season, feast = known.MONTH_NUMBERS.get(word), known.SEASONS.get(word), dates.feast_at(said, at)
    if month is not None:
        if word in known.VERBS and not said.written[at][0].isupper():
            return None
        return lambda today: spans.chosen(lambda year: spans.months_from(year, month), which, today, today.year)
    if season is not None:
        if dates.is_a_fall(said, at, ""):
            return None
        # In spring "this winter" is the one that was.
        begun = season == "winter"
        return lambda today: spans.chosen(
            lambda year: spans.season(season, year), which, today, today.year - (begun and today.month < 8)
        )
    if feast is None:
        return None
    return lambda today: spans.chosen(lambda year: dates.day_of(feast[0], year), which, today, today.year)


def _once_a_week(word: str, which: int) -> Callable[[date], Span] | None:
    if known.UNITS.get(word) == "weekend":
        if which:
            return lambda today: spans.last_weekend(today) if which < 0 else spans.beside((today, today), "weekend", 1)
        return spans.nearest_weekend
    weekday = known.WEEKDAYS.get(word)
    return None if weekday is None else lambda today: _weekday_from(today, weekday, which)


def _weekday_from(today: date, weekday: int, which: int) -> Span:
    if which:
        day = spans.weekday_before(today, weekday) if which < 0 else spans.weekday_after(today, weekday)
    else:
        day = days(today, weekday - today.weekday())
    return day, day


def _so_far(said: Said, at: int) -> Found | None:
    """Earlier this year, later this week."""
    unit = known.UNITS.get(said.words[at + 2])
    if known.WHICH.get(said.words[at + 1]) != 0 or unit not in spans.UNIT_DAYS:
        return None
    if said.words[at] == "earlier":
        return dates.from_today(said, lambda today: (spans.calendar_unit(today, unit, 0)[0], today), at + 3)
    return dates.from_today(said, lambda today: (today, spans.calendar_unit(today, unit, 0)[1]), at + 3)


def _count_at(said: Said, at: int) -> tuple[tuple[float, float], str | None, int]:
    """Two weeks, 10 days, a couple of months: how many, of what, and the word after it."""
    if said.words[at] in ("a", "ein") and said.words[at + 1] in known.COUNTS:
        at += 1
    word = said.words[at]
    number = int(word) if len(word) <= 3 and word.isdecimal() else 0
    count = known.COUNTS.get(word, (number, number))
    at += 2 if word == "couple" and said.words[at + 1] == "of" else 1
    return count, known.UNITS.get(said.words[at]), at + 1


def _ago(said: Said, at: int, behind: bool = True) -> Found | None:
    """Two weeks ago; in German the word for ago stands before it."""
    (least, most), unit, end = _count_at(said, at)
    if not most or unit not in spans.UNIT_DAYS or (behind and said.words[end] not in known.AGO):
        return None
    return dates.from_today(said, lambda today: spans.shifted((today, today), unit, -most, -least), end + behind)


def _counted(said: Said, at: int, depth: int) -> Found | None:
    """Two weeks before 5 May 2023, a month after Christmas 2022."""
    (least, most), unit, end = _count_at(said, at)
    side = known.SIDES.get(said.words[end])
    if not most or unit not in spans.UNIT_DAYS or side is None:
        return None
    found = _within(said, end + 1, depth)
    if found is None:
        return None
    low, high = (least, most) if side > 0 else (-most, -least)
    return _shifted(found, lambda span: spans.shifted(span, unit, low, high))


def _shifted(found: Found, change: Callable[[Span], Span]) -> Found:
    """Besides spans also a day of any year, by where the change puts the middle of it in a year that has all days."""
    times = []
    for time in _mapped(found, change).times:
        if time.month is not None and time.day is not None:
            first, last = change((day := date(2000, time.month, time.day), day))
            middle = days(first, (last - first).days // 2)
            time = dates.any_year(middle)
        times.append(time)
    return found._replace(times=tuple(times))


def _count(said: Said, at: int, depth: int) -> Found | None:
    return _ago(said, at) or _counted(said, at, depth)


def _unit(said: Said, at: int, depth: int) -> Found | None:
    """The week of 3 June 2023, the day before yesterday, the Monday after Easter, at the weekend."""
    word, after = said.words[at], said.words[at + 1]
    unit, side = known.UNITS.get(word), known.SIDES.get(after)
    if unit is None and word not in known.WEEKDAYS:
        return None
    if after in ("of", "vom"):
        return _named_by_a_day(said, at, depth)
    if side is not None:
        found = _within(said, at + 2, depth)
        return _shifted(found, lambda span: _beside(span, word, side)) if found else _before_last(said, at, unit)
    if unit == "weekend" and dates.word_before(said, at) in known.BEFORE_A_WEEKEND:
        return dates.from_today(said, lambda today: spans.last_weekend(days(today, 1)), at + 1)
    return None


def _beside(span: Span, word: str, side: int) -> Span:
    weekday = known.WEEKDAYS.get(word)
    if weekday is None:
        return spans.beside(span, known.UNITS[word], side)
    day = spans.weekday_before(span[0], weekday) if side < 0 else spans.weekday_after(span[1], weekday)
    return day, day


def _before_last(said: Said, at: int, unit: str | None) -> Found | None:
    """The week before last; "the weekend before" alone is the same."""
    is_last = said.words[at + 2] == "last"
    if unit is None or unit == "day" or said.words[at + 1] != "before":
        return None
    if unit == "weekend" and (is_last or not said.words[at + 2][:1].isalnum()):
        end = at + 2 + is_last
        return dates.from_today(said, lambda today: spans.last_weekend(spans.last_weekend(today)[0]), end)
    if is_last and unit != "weekend":
        return dates.from_today(said, lambda today: spans.calendar_unit(today, unit, -2), at + 3)
    return None


def _named_by_a_day(said: Said, at: int, depth: int) -> Found | None:
    """The week of 3 June 2023, the weekend of 3 June 2023."""
    unit = known.UNITS.get(said.words[at])
    found = _within(said, at + 2, depth) if unit in ("week", "weekend") else None
    if found is None or any(time.first != time.last for time in found.times):
        return None
    name = spans.week_with if unit == "week" else spans.nearest_weekend
    return _mapped(found, lambda span: name(span[0]))


def _weekday(said: Said, at: int, depth: int) -> Found | None:
    """On Tuesday: the last one. Monday, 5 May 2023, is named by its date, and the Monday before that by it, too."""
    beside = _unit(said, at, depth)
    if beside is not None:
        return beside
    date_at = dates.past_articles(said, at + 1 + (said.words[at + 1] == ","))
    dated = _phrase(said, date_at, depth + 1) if _is_date_start(said.words[date_at]) else None
    if dated is not None and dated.is_a_date:
        return dated
    joined = dates.word_before(said, at) if said.words[at - 1] not in known.ARTICLES else ""  # the Monday of the feast
    if joined not in known.BEFORE_A_WEEKDAY:
        return None
    weekday = known.WEEKDAYS[said.words[at]]
    return dates.from_today(said, lambda today: _weekday_from(today, weekday, -1), at + 1)


def _is_date_start(word: str) -> bool:
    return word[:1] in dates.DIGITS or word in known.MONTH_NUMBERS


_Alone = Callable[[Said, int], Found | None]
_Around = Callable[[Said, int, int], Found | None]
# By the word that they begin with: the phrases that hold no other, and those that may.
_ALONE: dict[str, _Alone] = {
    **dict.fromkeys(known.MONTH_NUMBERS, dates.read_month),
    **dict.fromkeys(known.SEASONS, dates.read_season),
    **dict.fromkeys(known.FEASTS, dates.read_feast),
    **dict.fromkeys(known.NEAR_DAYS, _near_day),
    **dict.fromkeys(("q1", "q2", "q3", "q4", "h1", "h2"), dates.read_quarter),
    **dict.fromkeys(("earlier", "later"), _so_far),
}
_AROUND: dict[str, _Around] = {
    **dict.fromkeys(known.COUNTS, _count),
    **dict.fromkeys(known.THIRDS, _part),
    **dict.fromkeys(known.ORDINALS, _ordinal),
    **dict.fromkeys(known.WHICH, _which),
    **dict.fromkeys(known.WEEKDAYS, _weekday),
    **dict.fromkeys(known.UNITS, _unit),
}
