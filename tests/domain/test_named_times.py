"""Which times a text names, which it does not, and that reading takes no longer than the text, whatever it holds."""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counting import steps_of
from recollect.domain.text import time_words
from recollect.domain.text.calendar_spans import easter, thanksgiving
from recollect.domain.text.named_times import MOST_TIMES, NamedTime, named_times
from recollect.domain.text.questions import read_question
from recollect.domain.text.relevance import Candidate, rank

NOW = datetime(2024, 5, 20, 12, tzinfo=UTC)  # a Monday


def written(time: NamedTime) -> str:
    """2023-05-01..2023-05-31, 2023-05-08, 2023-05-08.. for what is open; --05 and --05-08 of any year."""
    if time.month is not None:
        return f"--{time.month:02}" + (f"-{time.day:02}" if time.day else "")
    if time.first == time.last:
        return str(time.first)
    return f"{time.first or ''}..{time.last or ''}"


def read(text: str, now: datetime | None = NOW) -> str:
    return " ".join(written(time) for time in named_times(text, now))


DATES = """
    on 21.01.2024                           | 2024-01-21
    on 21.1.24                              | 2024-01-21
    21.1.24: what was said?                 | 2024-01-21
    on 21/01/2024                           | 2024-01-21
    on 1/21/2024                            | 2024-01-21
    on 1/21/24                              | 2024-01-21
    on 3/4/2024                             | 2024-03-04
    on 4.3.2024                             | 2024-03-04
    on 13-01-2024                           | 2024-01-13
    on 2024/01/21                           | 2024-01-21
    on 2024.01.21                           | 2024-01-21
    Log of 2024-01-21                       | 2024-01-21
    at 2024-01-21T10:00:00Z                 | 2024-01-21
    in logs/2024/01/21/app.log              | 2024-01-21
    in log-2024-01-21.txt                   | 2024-01-21
    in 2024-01                              | 2024-01-01..2024-01-31
    the invoices of 01/2024                 | 2024-01-01..2024-01-31
    January 2024                            | 2024-01-01..2024-01-31
    in January of 2024                      | 2024-01-01..2024-01-31
    Jan '24                                 | 2024-01-01..2024-01-31
    Jan ’24                                 | 2024-01-01..2024-01-31
    January 21st, 2024                      | 2024-01-21
    January 21,2024                         | 2024-01-21
    Jan. 21, 2024                           | 2024-01-21
    the 21st of January, 2024               | 2024-01-21
    on Sunday, 21 January 2024              | 2024-01-21
    the 21st of January                     | --01-21
    21st Jan                                | --01-21
    on 5 May                                | --05-05
    on May 5th                              | --05-05
    May the 5th                             | --05-05
    on the fourth of July                   | --07-04
    29 February                             | --02-29
    What happened in June?                  | --06
    what happened in june?                  | --06
    what happened in may?                   | --05
    the June trip                           | --06
    in May 5 people came                    | --05
    What happened in 2022?                  | 2022-01-01..2022-12-31
    Room 2024                               | 2024-01-01..2024-12-31
    Compare 2021 with 2022                  | 2021-01-01..2021-12-31 2022-01-01..2022-12-31
    Room 2024 in May 2023                   | 2023-05-01..2023-05-31
    In 2022, as I said yesterday            | 2022-01-01..2022-12-31 2024-05-19
    the 2022 trip I mentioned yesterday     | 2024-05-19 2022-01-01..2022-12-31
    in the 2010s                            | 2010-01-01..2019-12-31
    in the 1990's                           | 1990-01-01..1999-12-31
    the season 2023/24                      | 2023-01-01..2024-12-31
"""
SEASONS_AND_FEASTS = """
    in summer 2023                          | 2023-06-01..2023-08-31
    in the fall of 2023                     | 2023-09-01..2023-11-30
    in winter 2023                          | 2023-01-01..2023-02-28 2023-12-01..2024-02-29
    during the summer                       | --06 --07 --08
    last summer                             | 2023-06-01..2023-08-31
    last winter                             | 2023-12-01..2024-02-29
    last spring                             | 2023-03-01..2023-05-31
    last autumn                             | 2023-09-01..2023-11-30
    last fall                               | 2023-09-01..2023-11-30
    this winter                             | 2023-12-01..2024-02-29
    next summer                             | 2024-06-01..2024-08-31
    Christmas 2022                          | 2022-12-25
    at Christmas                            | --12-25
    last Christmas                          | 2023-12-25
    on Christmas Eve                        | --12-24
    New Year's Eve 2023                     | 2023-12-31
    on New Year’s Eve                       | --12-31
    between Christmas and New Year          | --12-25 --12-26 --12-27 --12-28 --12-29 --12-30 --12-31 --01-01
    Thanksgiving 2023                       | 2023-11-23
    last Thanksgiving                       | 2023-11-23
    Easter 2023                             | 2023-04-09
    last Easter                             | 2024-03-31
    on Easter Monday 2024                   | 2024-04-01
    on Halloween                            | --10-31
    Valentine's Day 2024                    | 2024-02-14
    last Valentine's Day                    | 2024-02-14
"""
RELATIVE = """
    today                                   | 2024-05-20
    yesterday                               | 2024-05-19
    tomorrow                                | 2024-05-21
    last night                              | 2024-05-19
    this morning                            | 2024-05-20
    the day before yesterday                | 2024-05-18
    the day after tomorrow                  | 2024-05-22
    last Monday                             | 2024-05-13
    on Tuesday                              | 2024-05-14
    on Tuesday after work                   | 2024-05-14
    between Monday and Thursday             | 2024-05-13..2024-05-16
    last Monday 5 people came               | 2024-05-13
    this Friday                             | 2024-05-24
    next Friday                             | 2024-05-24
    last weekend                            | 2024-05-18..2024-05-19
    over the weekend                        | 2024-05-18..2024-05-19
    the weekend before                      | 2024-05-11..2024-05-12
    the weekend before last                 | 2024-05-11..2024-05-12
    the week before last                    | 2024-05-06..2024-05-12
    last week                               | 2024-05-06..2024-05-20
    this month                              | 2024-04-20..2024-05-20
    next month                              | 2024-06-01..2024-06-30
    last March                              | 2024-03-01..2024-03-31
    last May                                | 2023-05-01..2023-05-31
    last March 2023                         | 2023-03-01..2023-03-31
    this March                              | 2024-03-01..2024-03-31
    next March                              | 2025-03-01..2025-03-31
    two weeks ago                           | 2024-05-03..2024-05-09
    10 days ago                             | 2024-05-10
    a couple of weeks ago                   | 2024-04-29..2024-05-10
    a few days ago                          | 2024-05-15..2024-05-18
    several months ago                      | 2023-10-23..2024-02-20
    the past three weeks                    | 2024-04-29..2024-05-20
    earlier this year                       | 2024-01-01..2024-05-20
    later this week                         | 2024-05-20..2024-05-26
"""
PARTS = """
    at the end of 2023                      | 2023-09-01..2023-12-31
    early 2023                              | 2023-01-01..2023-04-30
    mid-2023                                | 2023-05-01..2023-08-31
    in mid-August 2023                      | 2023-08-11..2023-08-20
    late March 2023                         | 2023-03-21..2023-03-31
    late March                              | --03
    at the end of the last decade           | 2016-09-01..2019-12-31
    at the end of last month                | 2024-04-21..2024-04-30
    towards the end of summer 2023          | 2023-08-01..2023-08-31
    in the late 1990s                       | 1996-09-01..1999-12-31
    the first half of 2023                  | 2023-01-01..2023-06-30
    the second half of last year            | 2023-07-01..2023-12-31
    the third quarter of 2023               | 2023-07-01..2023-09-30
    Q3 2023                                 | 2023-07-01..2023-09-30
    H1 2023                                 | 2023-01-01..2023-06-30
    the first week of May 2023              | 2023-05-01..2023-05-07
    the last week of August 2023            | 2023-08-25..2023-08-31
    the first weekend of August 2023        | 2023-08-05..2023-08-06
    the last Friday of May 2023             | 2023-05-26
    the last day of 2023                    | 2023-12-31
    the second week of November             | --11
    the week of 3 June 2023                 | 2023-05-29..2023-06-04
    When did it end in May 2023?            | 2023-05-01..2023-05-31
"""
ENDS_AND_NEIGHBOURS = """
    between May and July 2023               | 2023-05-01..2023-07-31
    between april and june 2023             | 2023-04-01..2023-06-30
    between May and July                    | --05 --06 --07
    May-July 2023                           | 2023-05-01..2023-07-31
    from November to February 2023          | 2022-11-01..2023-02-28
    from November 2022 to February          | 2022-11-01..2023-02-28
    from April to August                    | --04 --05 --06 --07 --08
    in May and June 2023                    | 2023-05-01..2023-05-31 2023-06-01..2023-06-30
    from 3 to 9 June 2023                   | 2023-06-03..2023-06-09
    3-9 June 2023                           | 2023-06-03..2023-06-09
    June 3-9, 2023                          | 2023-06-03..2023-06-09
    between 11 and 15 August 2023           | 2023-08-11..2023-08-15
    between August 11 and August 15 2023    | 2023-08-11..2023-08-15
    from 28 May to 3 June 2023              | 2023-05-28..2023-06-03
    2019-2023                               | 2019-01-01..2023-12-31
    two weeks before 5 May 2023             | 2023-04-18..2023-04-24
    two days prior to 5 May 2023            | 2023-05-03
    a month after Christmas 2022            | 2023-01-09..2023-02-08
    two weeks before Christmas              | --12-11
    the week before August 3, 2023          | 2023-07-27..2023-08-02
    last weekend before April 10, 2023      | 2023-04-08..2023-04-09
    the Sunday before October 25, 2022      | 2022-10-23
    the Saturday after October 28, 2023     | 2023-11-04
    since June 2023                         | 2023-06-01..
    before June 2023                        | ..2023-06-30
    prior to 2020                           | ..2020-12-31
    after 21.01.2024                        | 2024-01-21..
    until the end of 2023                   | ..2023-12-31
    since last March                        | 2024-03-01..
    since March                             | 2024-03-01..
    since June                              | 2023-06-01..
    since Christmas                         | 2023-12-25..
    since Easter                            | 2024-03-31..
    since two weeks ago                     | 2024-05-03..
    until yesterday                         | ..2024-05-19
    before Easter 2023                      | ..2023-04-09
    after the first week of May 2023        | 2023-05-01..
"""
GERMAN = """
    am 21. Januar 2024                      | 2024-01-21
    am 21.1.24                              | 2024-01-21
    im März 2023                            | 2023-03-01..2023-03-31
    im Mai                                  | --05
    letzten Montag                          | 2024-05-13
    letzte Woche                            | 2024-05-06..2024-05-20
    letzten Sommer                          | 2023-06-01..2023-08-31
    vor zwei Wochen                         | 2024-05-03..2024-05-09
    vor ein paar Tagen                      | 2024-05-15..2024-05-18
    gestern                                 | 2024-05-19
    vorgestern                              | 2024-05-18
    vor dem 5. Mai 2023                     | ..2023-05-05
    seit März                               | 2024-03-01..
    Ende März 2023                          | 2023-03-21..2023-03-31
    vom 3. bis 9. Juni 2023                 | 2023-06-03..2023-06-09
    zwischen Mai und Juli 2023              | 2023-05-01..2023-07-31
    zu Weihnachten                          | --12-25
"""


def rows(*tables: str) -> list[tuple[str, str]]:
    lines = [line.partition("|") for table in tables for line in table.strip().splitlines()]
    return [(text.strip(), expected.strip()) for text, _, expected in lines]


@pytest.mark.parametrize(
    ("text", "expected"), rows(DATES, SEASONS_AND_FEASTS, RELATIVE, PARTS, ENDS_AND_NEIGHBOURS, GERMAN)
)
def test_a_time_is_read_as_people_write_it(text: str, expected: str) -> None:
    assert read(text) == expected
    assert read(f"What did we say about it, {text}, and why?".replace("?, and", ", and")) == expected


@pytest.mark.parametrize("text", [text for text, _ in rows(RELATIVE) if "2023" not in text])
def test_what_counts_from_today_says_nothing_without_a_clock(text: str) -> None:
    assert read(text, None) == ""


@pytest.mark.parametrize("text", [text for text, _ in rows(DATES) if "yesterday" not in text])
def test_a_date_needs_no_clock(text: str) -> None:
    assert read(text, None) == read(text)


NO_TIMES = """May I march on?
    It may rain, march!
    I may, you may
    march on
    march 10 miles
    of these 5 may fail
    We are 5. May I go?
    What did Jan say?
    What did April and June say to August?
    What does Mai like?
    a 24/7 service
    3/4 cup
    version 1.2.3
    python 3.11.10
    on 3.11.10rc1
    3.11.10 release notes
    since version 3.11.10
    from 1.2.3 to 1.3.0
    10.0.0.1
    at 10.1.1.24 and 192.168.1.24
    call 555-123-4567 or +49 30 1234567
    12-05-2400
    the 90% mark
    the second half
    the first one
    the last time
    the next step
    the end of the day
    my last year of school
    for two weeks
    one day, back in the day
    a week of work
    in 5 minutes
    in the sun
    Sat by the sun
    fall down
    Will this fall apart?
    after the fall of Rome
    after the fall he limped
    spring a surprise
    a spring in his step
    summer holiday plans
    on cold winter days
    a Christmas tree, an Easter egg
    What do they love during Halloween?
    after the Christmas party
    a new year-long plan
    every Monday
    on the Monday after the wedding
    on Mondays
    the early bird, late fees, mid-size
    Q3 results
    Room 2350
    On 31 February 2023
    on 31.02.2024
    on 13/13/2024
    on 2023-02-31"""


@pytest.mark.parametrize("text", [line.strip() for line in NO_TIMES.splitlines()])
def test_what_only_looks_like_a_time_is_none(text: str) -> None:
    assert read(text) == ""


@pytest.mark.parametrize(
    ("today", "text", "expected"),
    [
        ("2024-10-31", "last Halloween", "2023-10-31"),
        ("2024-11-01", "last Halloween", "2024-10-31"),
        ("2024-10-31", "next Halloween", "2025-10-31"),
        ("2024-03-31", "last March", "2023-03-01..2023-03-31"),
        ("2024-08-31", "last summer", "2023-06-01..2023-08-31"),
        ("2024-09-01", "last summer", "2024-06-01..2024-08-31"),
        ("2024-01-15", "last winter", "2022-12-01..2023-02-28"),
        ("2024-01-15", "this winter", "2023-12-01..2024-02-29"),
        ("2024-11-15", "this winter", "2024-12-01..2025-02-28"),
        ("2024-05-18", "last weekend", "2024-05-11..2024-05-12"),
        ("2024-05-18", "over the weekend", "2024-05-11..2024-05-12"),
        ("2024-05-19", "this weekend", "2024-05-18..2024-05-19"),
        ("2024-05-21", "this weekend", "2024-05-18..2024-05-19"),
        ("2024-05-22", "this weekend", "2024-05-25..2024-05-26"),
        ("2024-05-21", "on Monday", "2024-05-20"),
    ],
)
def test_what_counts_from_today_turns_at_its_own_end(today: str, text: str, expected: str) -> None:
    assert read(text, datetime.fromisoformat(f"{today}T12:00:00+00:00")) == expected


def test_a_feast_that_moves_is_looked_for_in_the_last_ten_years() -> None:
    assert read("at Easter").split() == [str(easter(year)) for year in range(2015, 2025)]
    assert read("at Easter", None) == ""


def test_feasts_that_move_are_computed() -> None:
    known = [
        "1954-04-18",
        "1981-04-19",
        "2000-04-23",
        "2008-03-23",
        "2011-04-24",
        "2019-04-21",
        "2024-03-31",
        "2025-04-20",
        "2038-04-25",
    ]
    assert [easter(date.fromisoformat(day).year).isoformat() for day in known] == known
    assert [thanksgiving(year).day for year in (2018, 2019, 2022, 2023, 2024)] == [22, 28, 24, 23, 28]


@pytest.mark.parametrize(
    ("question", "days", "nearest"),
    [
        ("What happened on 8 May?", ["2023-05-18", "2021-05-10", "2022-05-30"], "2021-05-10"),
        ("What happened on New Year's Eve?", ["2022-12-20", "2023-01-02", "2023-06-30"], "2023-01-02"),
        ("What happened on 29 February?", ["2023-03-01", "2023-03-12", "2023-06-30"], "2023-03-01"),
    ],
)
def test_a_day_of_any_year_is_near_to_the_days_around_it_in_every_year(
    question: str, days: list[str], nearest: str
) -> None:
    pool = [Candidate(day, "the same", at=datetime.fromisoformat(f"{day}T12:00:00+00:00")) for day in days]
    found = rank(read_question(question, NOW), pool)
    assert found[0].id == nearest
    assert [one.id for one in found if one.parts["date"] > 0] == [nearest]


# --- Whatever stands in the text ---------------------------------------------------------------------------------

WORDS = sorted(
    {*time_words.ANCHORS, *time_words.COUNTS, *time_words.ORDINALS, *time_words.THIRDS, *time_words.WHICH}
    | {*time_words.BEFORE_A_MONTH, *time_words.SIDES, *time_words.TO, *time_words.AND, *time_words.ARTICLES}
    | {"ago", "of", "in", "May", "June", ",", ".", "'24", "q3", "earlier", "2010s", "0", "31", "3rd", "999", "2024"}
    | {"1900", "2099", "1.1.24", "29.2.2023", "2024-12-31", "1999-2000", "3-9", "12/31/99", "half", "2024.1.2.3"}
)
MOMENTS = st.none() | st.datetimes(timezones=st.just(UTC)) | st.sampled_from([datetime.min, datetime.max])


@given(st.lists(st.sampled_from(WORDS), max_size=12), MOMENTS)
def test_no_words_and_no_day_make_reading_fail(words: list[str], now: datetime | None) -> None:
    for time in named_times(" ".join(words), now):
        if time.first is not None and time.last is not None:
            assert time.first <= time.last
        assert (time.month is None) != (time.first is None and time.last is None)


@given(st.text(max_size=200), MOMENTS)
def test_no_text_makes_reading_fail(text: str, now: datetime | None) -> None:
    named_times(text, now)


HOSTILE = [
    " ", "1", "1.", "1-", "1/", "1 ", "12/", "-1.", "1'", "2024-", "2024-01-", "1.1.24 ", "on 21.1.24 and ", "5. May ",
    "May ", "in May since ", "12 to ", "3 to 9 June ", "between 3 and ", "last ", "last week of ", "the end of ",
    "two weeks before ", "Monday before ", "last Monday before the first week of ", "since ", "a couple of ", "a's",
]  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE)
def test_reading_takes_no_more_than_its_share_of_a_long_text(unit: str) -> None:
    short, long = (partial(named_times, (unit * length)[:length], NOW) for length in (1_000, 4_000))
    assert steps_of(long) <= 4.4 * steps_of(short)


def test_a_question_without_a_time_takes_a_few_steps() -> None:
    question = "Which restaurant did Anna recommend to me for the team dinner?"
    assert steps_of(partial(named_times, question, NOW)) < 400


def test_a_question_with_times_takes_some_more() -> None:
    question = "Did we meet two weeks before 5 May 2023 or on Monday, in May?"
    assert steps_of(partial(named_times, question, NOW)) < 4_000


def test_each_time_is_named_once_and_not_without_end() -> None:
    assert read("in May 2023, in May 2023") == "2023-05-01..2023-05-31"
    text = " ".join(f"on {day} {month} 2023" for month in time_words.MONTHS for day in range(1, 28))
    assert len(named_times(text, NOW)) == MOST_TIMES
