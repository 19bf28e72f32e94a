"""The words that times are named with, in English and, where nothing else could be meant, in German.

`named_times.py` reads phrases made of them. Everything is in small letters, as the words of a question are looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from recollect.domain.text.calendar_spans import days, easter, thanksgiving

_NAMES = "January February March April May June July August September October November December"
MONTHS = tuple(_NAMES.split())


def _numbered(*groups: str) -> dict[str, int]:
    """Each word with the number of its group."""
    return {word: number for number, group in enumerate(groups) for word in group.split()}


_GERMAN_MONTHS = "januar februar märz _ mai juni juli _ _ oktober _ dezember".split()
_MONTH_WORDS = [
    f"{name.lower()} {name[:3].lower()} {other}" for name, other in zip(MONTHS, _GERMAN_MONTHS, strict=True)
]
MONTH_NUMBERS = {word: number + 1 for word, number in _numbered(*_MONTH_WORDS).items() if word != "_"} | {"sept": 9}
# Verbs and people's names: without a day or a year they need "in", "last" or the like before them.
WEAK_MONTHS = frozenset("may mar march jan april june august mai juni juli".split())
VERBS = frozenset({"may", "march", "mar"})
WEEKDAYS = _numbered(
    "monday montag", "tuesday dienstag", "wednesday mittwoch", "thursday donnerstag", "friday freitag",
    "saturday samstag", "sunday sonntag",
)  # fmt: skip
SEASONS = {
    "spring": "spring", "summer": "summer", "autumn": "autumn", "fall": "autumn", "winter": "winter",
    "frühling": "spring", "frühjahr": "spring", "sommer": "summer", "herbst": "autumn",
}  # fmt: skip
UNITS = {
    word: unit
    for unit, words in {
        "day": "day days tag tage tagen",
        "week": "week weeks woche wochen",
        "month": "month months monat monate monaten",
        "quarter": "quarter quarters quartal quartale",
        "year": "year years jahr jahre jahren",
        "decade": "decade decades",
        "weekend": "weekend wochenende",
    }.items()
    for word in words.split()
}
NEAR_DAYS = {
    "today": 0,
    "tonight": 0,
    "yesterday": -1,
    "tomorrow": 1,
    "heute": 0,
    "gestern": -1,
    "vorgestern": -2,
    "übermorgen": 2,
}
TIMES_OF_DAY = frozenset("morning afternoon evening night".split())

# -1 the last, 0 this, 1 the next.
_WHICH = ("last past previous letzte vergangene vorige", "this current diese", "next coming nächste kommende")
_ENDINGS = ("n", "r", "s", "m")
WHICH = {word: number - 1 for word, number in _numbered(*_WHICH).items()}
WHICH |= {word + end: which for word, which in WHICH.items() if word.endswith("e") for end in _ENDINGS}
# "Last month" is used for the past 30 days as well as for the calendar's, so it reaches over both.
REACHING_TWICE = frozenset(word for word, which in WHICH.items() if which < 0 and word != "past")

COUNTS: dict[str, tuple[float, float]] = {
    word: (number, number)
    for word, number in _numbered(
        "", "a an one ein eine einem einer einen", "two zwei", "three drei", "four vier", "five fünf", "six sechs",
        "seven sieben", "eight acht", "nine neun", "ten zehn", "eleven elf", "twelve zwölf",
    ).items()
} | {"couple": (1.5, 3), "few": (2, 5), "paar": (2, 5), "several": (3, 7)}  # fmt: skip
ORDINALS = _numbered(
    "", "first 1st erste ersten", "second 2nd zweite zweiten", "third 3rd dritte dritten", "fourth 4th vierte vierten",
    "fifth 5th fünfte fünften",
) | {"last": -1, "final": -1, "letzte": -1, "letzten": -1}  # fmt: skip
PARTS_OF = frozenset("beginning start middle end".split())
THIRDS = _numbered("early beginning start anfang", "mid middle mitte", "late end ende")
HALVES = frozenset({"half", "hälfte"})

SINCE = frozenset({"since", "seit"})
AFTER = SINCE | {"after", "following", "nach"}
BEFORE = frozenset("before until till prior vor bis".split())
SIDES = {"before": -1, "prior": -1, "after": 1, "following": 1, "vor": -1, "nach": 1}
AGO = frozenset({"ago", "back"})
TO = frozenset({"to", "until", "till", "through", "thru", "bis", "-", "–", "—"})
BETWEEN = frozenset({"between", "zwischen"})
AND = frozenset({"and", "und", "&"})
OF_ALONE = frozenset({"of", "des"})
OF = OF_ALONE | {"in", "im", "-"}
ARTICLES = frozenset("the dem der den das des zum".split())
# What stands before a month, a year, a season, a feast, a weekday that is a time.
_OPENING = AFTER | BEFORE | BETWEEN
BEFORE_A_MONTH = _OPENING | frozenset(
    "in of on during by from early late mid around for the our my his her their beginning start middle end".split()
    + "im ab von anfang mitte ende".split()
) | WHICH.keys()  # fmt: skip
BEFORE_A_VERB = frozenset("in since during early late mid until between".split())
BEFORE_A_SMALL_MONTH = BEFORE_A_VERB | frozenset("before after by from to till im seit vor nach bis".split())
BEFORE_A_DAY = _OPENING | frozenset("on by from am to vom zum".split())
BEFORE_A_YEAR = _OPENING | TO - {"-"} | frozenset("in of during by from year around im jahr jahre ab von".split())
BEFORE_A_SEASON = _OPENING | frozenset({"in", "during", "over", "by", "im"})
# Not "during": what is loved during Christmas is so every year.
BEFORE_A_FEAST = _OPENING | frozenset("at on over by around zu über am".split())
BEFORE_A_WEEKDAY = _OPENING | frozenset({"on", "by", "am"})
BEFORE_A_WEEKEND = BEFORE_A_WEEKDAY | frozenset({"at", "over", "during", "übers"})
AFTER_A_NUMBER = frozenset(MONTH_NUMBERS.keys() | WEEKDAYS.keys() | UNITS.keys() | HALVES | TO | AND | {".", "of"})
AFTER_A_FALL = frozenset("down apart under into off over back behind within through short out from to".split())
# A version is written like a day with a short year.
VERSION = frozenset("version versions release releases v update upgrade patch tag build".split())

Feast = tuple[int, int] | Callable[[int], date]
"""A day of every year, or how to find it."""
# By the first word: the words after it, the longest first.
FEASTS: dict[str, list[tuple[tuple[str, ...], Feast]]] = {
    "christmas": [(("eve",), (12, 24)), (("day",), (12, 25)), ((), (12, 25))],
    "xmas": [((), (12, 25))],
    "boxing": [(("day",), (12, 26))],
    "new": [
        (("year", "eve"), (12, 31)),
        (("years", "eve"), (12, 31)),
        (("year", "day"), (1, 1)),
        (("years", "day"), (1, 1)),
        (("year",), (1, 1)),
    ],
    "halloween": [((), (10, 31))],
    "valentine": [(("day",), (2, 14)), ((), (2, 14))],
    "valentines": [(("day",), (2, 14))],
    "thanksgiving": [(("day",), thanksgiving), ((), thanksgiving)],
    "easter": [(("sunday",), easter), (("monday",), lambda year: days(easter(year), 1)), ((), easter)],
    "weihnachten": [((), (12, 25))],
    "heiligabend": [((), (12, 24))],
    "silvester": [((), (12, 31))],
    "neujahr": [((), (1, 1))],
    "ostern": [((), easter)],
}

# Every phrase that names a time has one of these, or a digit: without any there is nothing to read.
ANCHORS = frozenset(
    MONTH_NUMBERS.keys()
    | WEEKDAYS.keys()
    | SEASONS.keys()
    | UNITS.keys()
    | NEAR_DAYS.keys()
    | FEASTS.keys()
    | TIMES_OF_DAY
)
