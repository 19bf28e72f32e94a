"""Days counted: months, seasons, feasts, parts of a span and what stands beside one. A span is its first and last day.

Pure, and without words: `named_times.py` reads what people write and asks here which days that is. A span that would
leave the calendar raises what `datetime.date` raises (ValueError, OverflowError).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

Span = tuple[date, date]

UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "quarter": 91, "year": 365, "decade": 3652}
SATURDAY, THURSDAY, SUNDAY = 5, 3, 6
FIRST_MONTHS = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}  # in the north, where most people live


def days(day: date, count: int) -> date:
    return day + timedelta(days=count)


def months_from(year: int, month: int, count: int = 1) -> Span:
    """So many whole months; the winter of a year goes into the next one."""
    after = year * 12 + month - 1 + count
    return date(year, month, 1), days(date(after // 12, after % 12 + 1, 1), -1)


def years_from(year: int, count: int = 1) -> Span:
    return date(year, 1, 1), date(year + count - 1, 12, 31)


def calendar_unit(day: date, unit: str, step: int) -> Span:
    """The week, month, quarter, year or decade that a day lies in, or one so many steps from it."""
    if unit == "year":
        return years_from(day.year + step)
    if unit == "decade":
        return years_from((day.year // 10 + step) * 10, 10)
    if unit in ("month", "quarter"):
        size = 3 if unit == "quarter" else 1
        at = (day.year * 12 + day.month - 1) // size * size + step * size
        return months_from(at // 12, at % 12 + 1, size)
    monday = days(day, 7 * step - day.weekday())
    return (monday, days(monday, 6)) if unit == "week" else (days(day, step), days(day, step))


def week_with(day: date) -> Span:
    """From Monday, as most calendars have it; a Sunday that names its week begins it."""
    first = day if day.weekday() == SUNDAY else days(day, -day.weekday())
    return first, days(first, 6)


def part_of(span: Span, begin: int, end: int) -> Span:
    """The part from one twelfth to another: in whole months where that comes out even, else in days."""
    first, last = span
    months = (last.year - first.year) * 12 + last.month - first.month + 1
    if first.day == 1 and days(last, 1).day == 1 and not (months * begin) % 12 and not (months * end) % 12:
        at = first.year * 12 + first.month - 1 + months * begin // 12
        return months_from(at // 12, at % 12 + 1, months * (end - begin) // 12)
    length = (last - first).days + 1
    after = max(length * end // 12, length * begin // 12 + 1)
    return days(first, length * begin // 12), days(first, after - 1)


def numbered(span: Span, unit: str, number: int) -> Span:
    """The first to fifth day, month or seven days of a span, -1 for the last."""
    first, last = span
    if unit == "month":
        return calendar_unit(last if number < 0 else first, unit, max(number - 1, 0))
    length = UNIT_DAYS[unit]
    start = days(last, 1 - length) if number < 0 else days(first, length * (number - 1))
    return start, min(days(start, length - 1), last)


def weekday_before(day: date, weekday: int) -> date:
    return days(day, -((day.weekday() - weekday - 1) % 7 + 1))


def weekday_after(day: date, weekday: int) -> date:
    return days(day, (weekday - day.weekday() - 1) % 7 + 1)


def numbered_weekday(span: Span, weekday: int, number: int) -> date:
    if number < 0:
        return weekday_before(days(span[1], 1), weekday)
    return days(weekday_after(days(span[0], -1), weekday), 7 * number - 7)


def last_weekend(day: date) -> Span:
    """The last Saturday and Sunday that are over on that day."""
    sunday = weekday_before(day, SUNDAY)
    return days(sunday, -1), sunday


def nearest_weekend(day: date) -> Span:
    """The one a day lies in or is nearest to: on a Monday "this weekend" is over, on a Thursday it is to come."""
    saturday = days(day, SATURDAY - day.weekday() - (7 if day.weekday() < 2 else 0))
    return saturday, days(saturday, 1)


def beside(span: Span, unit: str, side: int) -> Span:
    """The day, week, weekend, month or year just before (-1) or after (1) a span."""
    if unit == "weekend":
        start = weekday_after(span[1], SATURDAY) if side > 0 else last_weekend(span[0])[0]
        return start, days(start, 1)
    length = UNIT_DAYS[unit]
    return (days(span[1], 1), days(span[1], length)) if side > 0 else (days(span[0], -length), days(span[0], -1))


def shifted(span: Span, unit: str, least: float, most: float) -> Span:
    """So many units away; below nought before it. A single number reaches half a unit to either side."""
    length = UNIT_DAYS[unit]
    start, end = (span[0], span[0]) if most <= 0 else (span[1], span[1])
    if least == most:
        middle = days(start, int(length * least))
        return days(middle, -(length // 2)), days(middle, length // 2)
    return days(start, int(length * least)), days(end, int(length * most))


def chosen(span_of: Callable[[int], Span], which: int, today: date, this_year: int) -> Span:
    """Of what comes once a year: the last that is over (-1), this year's (0), the next to begin (1)."""
    if not which:
        return span_of(this_year)
    if which > 0:
        return next(span for year in range(today.year - 1, today.year + 3) if (span := span_of(year))[0] > today)
    return next(span for year in range(today.year, today.year - 3, -1) if (span := span_of(year))[1] < today)


def season(name: str, year: int) -> Span:
    """The season that begins in that year."""
    return months_from(year, FIRST_MONTHS[name], 3)


def easter(year: int) -> date:
    """Easter Sunday in the Gregorian calendar (Meeus, Jones and Butcher)."""
    century, rest = divmod(year, 100)
    golden = year % 19
    correction = (century - (century + 8) // 25 + 1) // 3
    epact = (19 * golden + century - century // 4 - correction + 15) % 30
    weekday = (32 + 2 * (century % 4) + 2 * (rest // 4) - epact - rest % 4) % 7
    shift = (golden + 11 * epact + 22 * weekday) // 451
    month, day = divmod(epact + weekday - 7 * shift + 114, 31)
    return date(year, month, day + 1)


def thanksgiving(year: int) -> date:
    """As in the United States: the fourth Thursday of November."""
    return numbered_weekday(months_from(year, 11), THURSDAY, 4)
