"""What texts really are: numbers, dates, times, booleans. A sample suggests a type, all rows must confirm it.

A column becomes something else than text only when every value fits, but for marks of absence ('n/a', 'null', '-'),
which are read as empty and counted in a note. So no value is ever lost: one that does not fit keeps the whole column
text, and the note says which. Texts with leading zeros are names, not numbers, and stay.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

ABSENT = ("", "na", "n/a", "#n/a", "null", "none", "nan", "nil", "-", "--", "?", ".", "unknown", "\\n")
_ABSENT_SQL = "(" + ", ".join("'" + word.replace("'", "''") + "'" for word in ABSENT) + ")"
_SAMPLE_ROWS = 4000
_MOST_DIGITS = 18

_INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_LEADING_ZERO = re.compile(r"[+-]?0\d")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_EUROPEAN = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+")
_MONEY = re.compile(r"[-+]?\s?[$€£¥]\s?[-+]?[\d.,]+|[-+]?[\d.,]+\s?[$€£¥]")
_PERCENT = re.compile(r"[+-]?\d+(\.\d+)?\s?%")
_FLAGS = ({"true", "false"}, {"yes", "no"}, {"t", "f"}, {"y", "n"})

_DATE_FORMS = {
    r"\d{1,2}/\d{1,2}/\d{4}": ("%m/%d/%Y", "%d/%m/%Y"),
    r"\d{1,2}-\d{1,2}-\d{4}": ("%d-%m-%Y", "%m-%d-%Y"),
    r"\d{1,2}\.\d{1,2}\.\d{4}": ("%d.%m.%Y",),
    r"\d{4}/\d{1,2}/\d{1,2}": ("%Y/%m/%d",),
    r"\d{4}\.\d{1,2}\.\d{1,2}": ("%Y.%m.%d",),
    r"\d{1,2}/\d{1,2}/\d{2}": ("%m/%d/%y", "%d/%m/%y"),
    r"\d{1,2}[ -][A-Za-z]{3}[ -]\d{4}": ("%d %b %Y", "%d-%b-%Y"),
    r"\d{1,2}-[A-Za-z]{3}-\d{2}": ("%d-%b-%y",),
    r"\d{1,2} [A-Za-z]{4,9} \d{4}": ("%d %B %Y",),
    r"[A-Za-z]{3} \d{1,2}, \d{4}": ("%b %d, %Y",),
    r"[A-Za-z]{4,9} \d{1,2}, \d{4}": ("%B %d, %Y",),
}
_TIME_ENDINGS = {
    r" \d{1,2}:\d\d": " %H:%M",
    r" \d{1,2}:\d\d:\d\d": " %H:%M:%S",
    r" \d{1,2}:\d\d [AaPp][Mm]": " %I:%M %p",
    r" \d{1,2}:\d\d:\d\d [AaPp][Mm]": " %I:%M:%S %p",
}
_ISO_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}")
_ISO_TIME = re.compile(r"\d{4}-\d{1,2}-\d{1,2}[T ]\d{1,2}:\d\d(:\d\d(\.\d{1,9})?)?")
_ISO_ZONED = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?\s?(Z|[+-]\d\d(:?\d\d)?)")
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d(\.\d+)?)?")


@dataclass(frozen=True)
class Candidate:
    """A type that a column may have. `sql` makes it of a text `{x}`, and is NULL where that is not possible.

    `short` does the same in less time once it is known that every value fits.
    """

    type: str
    sql: str
    note: str = ""
    short: str = ""
    rival: str = ""
    """Another reading of the same texts. If it fits all of them too, the texts leave open which is meant."""


_AS_INTEGER = Candidate(
    "BIGINT",
    "CASE WHEN TRY_CAST({x} AS BIGINT)::VARCHAR = {x} THEN TRY_CAST({x} AS BIGINT) END",
    short="TRY_CAST({x} AS BIGINT)",
)
_AS_DECIMAL = Candidate(
    "DOUBLE",
    "CASE WHEN NOT ({x} >= '00' AND {x} < '0:') THEN TRY_CAST({x} AS DOUBLE) END",
    short="TRY_CAST({x} AS DOUBLE)",
)
_AS_DATE = Candidate(
    "DATE", "CASE WHEN length({x}) <= 10 THEN TRY_CAST({x} AS DATE) END", short="TRY_CAST({x} AS DATE)"
)
_AS_TIMESTAMP = Candidate("TIMESTAMP", "TRY_CAST({x} AS TIMESTAMP)")


def _matching(type: str, pattern: re.Pattern[str], strip: str, note: str = "", swap: bool = False) -> Candidate:
    """A number with marks in it, which are taken out."""
    text = f"regexp_replace({{x}}, '[{strip}]', '', 'g')"
    number = f"replace({text}, ',', '.')" if swap else text
    return Candidate(
        type, f"CASE WHEN regexp_full_match({{x}}, '{pattern.pattern}') THEN TRY_CAST({number} AS {type}) END", note
    )


def candidates(values: Sequence[str], *, iso_only: bool = False) -> list[Candidate]:
    """The types that a sample of values allows, the most special first."""
    filled = [value.strip() for value in values if value.strip().lower() not in ABSENT]
    if not filled:
        return []
    if moments := _moments(filled, iso_only):
        return moments
    return [] if iso_only else _numbers(filled) or _flags(filled)


def _all(pattern: re.Pattern[str], values: list[str]) -> bool:
    return all(pattern.fullmatch(value) for value in values)


def _moments(values: list[str], iso_only: bool) -> list[Candidate]:
    if _all(_ISO_DATE, values):
        return [_AS_DATE, _AS_TIMESTAMP]
    if all(_ISO_TIME.fullmatch(value) or _ISO_DATE.fullmatch(value) for value in values):
        return [_AS_TIMESTAMP]
    if all(_ISO_ZONED.fullmatch(value) for value in values):
        return [Candidate("TIMESTAMPTZ", "TRY_CAST({x} AS TIMESTAMPTZ)")]
    if _all(_CLOCK, values) and len(values) > 1:
        clock = "CASE WHEN length({x}) = 4 OR (length({x}) = 7) THEN '0' || {x} ELSE {x} END"
        return [Candidate("TIME", f"TRY_CAST({clock} AS TIME)")]
    if iso_only:
        return []
    for pattern, forms in _DATE_FORMS.items():
        if re.fullmatch(pattern, values[0]) and _all(re.compile(pattern), values):
            return _by_forms("DATE", forms)
        for ending, clock in _TIME_ENDINGS.items():
            if re.fullmatch(pattern + ending, values[0]) and _all(re.compile(pattern + ending), values):
                return _by_forms("TIMESTAMP", tuple(form + clock for form in forms))
    return []


def _by_forms(type: str, forms: tuple[str, ...]) -> list[Candidate]:
    """Each form that fits; of two that differ in the order of day and month, each is the other's rival."""
    kind = "::DATE" if type == "DATE" else ""
    rivals = {form: f"TRY_STRPTIME({{x}}, '{other}')" for form, other in zip(forms, forms[::-1], strict=True)}
    return [
        Candidate(
            type,
            f"TRY_STRPTIME({{x}}, '{form}'){kind}",
            f"dates were read as {form}",
            rival=rivals[form] if len(forms) == 2 and "b" not in form else "",
        )
        for form in forms
    ]


def _numbers(values: list[str]) -> list[Candidate]:
    if any(_LEADING_ZERO.match(value) for value in values) and not any(
        "." in value or "," in value for value in values
    ):
        return []
    if _all(_INTEGER, values):
        return [_AS_INTEGER, _AS_DECIMAL]
    if any(len(re.sub(r"\D", "", value)) > _MOST_DIGITS and value.isdigit() for value in values):
        return []
    if _all(_DECIMAL, values):
        return [_AS_DECIMAL]
    either = re.compile(f"{_DECIMAL.pattern}|{_THOUSANDS.pattern}")
    if _all(either, values):
        whole = not any("." in value for value in values)
        note = "commas between thousands were taken out"
        found = [_matching("DOUBLE", either, ",", note)]
        return (
            [_matching("BIGINT", re.compile(r"[+-]?\d+|[+-]?\d{1,3}(,\d{3})+"), ",", note), *found] if whole else found
        )
    european = re.compile(f"{_EUROPEAN.pattern}|[+-]?\\d+")
    if _all(european, values):
        return [_matching("DOUBLE", european, ".", "the comma was read as the decimal point", swap=True)]
    if _all(_MONEY, values):
        marks = sorted({char for value in values for char in value if char in "$€£¥"})
        european_money = all(re.search(r",\d\d(\D|$)", value) for value in values if "," in value or "." in value)
        strip, swap = (r"$€£¥\s.", True) if european_money and any("," in v for v in values) else (r"$€£¥\s,", False)
        return [_matching("DOUBLE", _MONEY, strip, f"amounts in {' '.join(marks)} were read as numbers", swap)]
    if _all(_PERCENT, values):
        return [_matching("DOUBLE", _PERCENT, r"%\s", "values in % were read as numbers (12% is 12)")]
    return []


def _flags(values: list[str]) -> list[Candidate]:
    found = {value.lower() for value in values}
    if len(found) == 2 and found in _FLAGS:
        true = next(word for word in ("true", "yes", "t", "y") if word in found)
        false = next(word for word in ("false", "no", "f", "n") if word in found)
        return [Candidate("BOOLEAN", f"CASE lower({{x}}) WHEN '{true}' THEN true WHEN '{false}' THEN false END")]
    return []


@dataclass(frozen=True)
class Chosen:
    """How a column is written: an expression over the raw table, and what to say about it."""

    sql: str
    notes: list[str]


@dataclass
class _Trial:
    """The readings of a column that are still to be tried, as SQL; what was found so far."""

    index: int
    options: list[tuple[Candidate, str]]
    fewest_wrong: tuple[int, str, str] | None = None

    @classmethod
    def of(cls, index: int, found: list[Candidate]) -> _Trial:
        # Taking spaces away costs as much as everything else, so it is tried only where it is needed.
        return cls(index, [(option, text) for option in found for text in (f"c{index}", f"trim(c{index})")])

    def fits(self) -> list[str]:
        """How many values there are, how many fit, and how many its rival fits: three counts, which cost the least."""
        option, text = self.options[0]
        rival = option.rival.replace("{x}", text) if option.rival else "NULL"
        return [f"count(c{self.index})", f"count({option.sql.replace('{x}', text)})", f"count({rival})"]

    def state(self) -> str:
        """Of each value: 0 when it fits, 1 when it is a mark of absence, 2 when it is wrong."""
        option, text = self.options[0]
        fits = f"c{self.index} IS NULL OR ({option.sql.replace('{x}', text)}) IS NOT NULL"
        absent = f"lower(trim(c{self.index})) IN {_ABSENT_SQL}"
        return f"CASE WHEN {fits} THEN 0 WHEN {absent} THEN 1 ELSE 2 END AS s{self.index}"

    def counts(self) -> list[str]:
        option, text = self.options[0]
        column, state = f"c{self.index}", f"s{self.index}"
        rival = f"{column} IS NOT NULL AND ({option.rival.replace('{x}', text)}) IS NULL" if option.rival else "false"
        return [
            f"count(*) FILTER ({state} = 2)",
            f"any_value({column}) FILTER ({state} = 2)",
            f"count(*) FILTER ({state} = 1)",
            f"count(*) FILTER ({rival})",
        ]

    def decided(self, name: str, wrong: int, example: object, absent: int, rival_wrong: int) -> Chosen | None:
        option, text = self.options.pop(0)
        if not wrong:
            is_open = option.rival and rival_wrong <= absent
            notes = [f"{name}: {option.note}{', which they leave open' if is_open else ''}"] if option.note else []
            if absent:
                notes.append(f"{name}: {absent:,} marks such as 'n/a' were read as empty")
            # Without the condition DuckDB lets the reader of CSV do the cast, which rejects rows with such a mark.
            value = (option.short or option.sql).replace("{x}", text)
            return Chosen(f"CASE WHEN c{self.index} <> '' THEN {value} END", notes)
        if self.fewest_wrong is None or wrong < self.fewest_wrong[0]:
            self.fewest_wrong = wrong, _in_words(option.type), str(example)[:40]
        if self.options:
            return None
        count, kind, value = self.fewest_wrong
        said = f"stays text, since {count:,} of its values are not {kind}, such as '{value}'"
        return Chosen(f"c{self.index}", [f"{name}: {said}"])


def chosen(
    connection: duckdb.DuckDBPyConnection, sql: str, names: Sequence[str], texts: Sequence[int], *, iso_only: bool
) -> dict[int, Chosen]:
    """The types of text columns (by position), each confirmed by all rows of a raw table."""
    wanted = ", ".join(f"c{index}" for index in texts)
    sample = connection.execute(f"SELECT {wanted} FROM ({sql}) LIMIT {_SAMPLE_ROWS}").fetchall() if texts else []
    trials = []
    for place, index in enumerate(texts):
        values = [row[place] for row in sample if row[place] is not None]
        if found := candidates(values, iso_only=iso_only):
            trials.append(_Trial.of(index, found))
    done = _quickly(connection, sql, names, trials)
    trials = [trial for trial in trials if trial.index not in done]
    while trials:
        states = ", ".join(f"c{trial.index}, {trial.state()}" for trial in trials)
        counts = ", ".join(part for trial in trials for part in trial.counts())
        (counted,) = connection.execute(f"SELECT {counts} FROM (SELECT {states} FROM ({sql}))").fetchall()
        for place, trial in enumerate(trials):
            wrong, example, absent, rival_wrong = counted[4 * place : 4 * place + 4]
            if (found_type := trial.decided(names[trial.index], wrong, example, absent, rival_wrong)) is not None:
                done[trial.index] = found_type
        trials = [trial for trial in trials if trial.index not in done]
    return done


def _quickly(
    connection: duckdb.DuckDBPyConnection, sql: str, names: Sequence[str], trials: Sequence[_Trial]
) -> dict[int, Chosen]:
    """The columns whose first reading fits every value, most often all of them; the rest is looked at closely."""
    if not trials:
        return {}
    asked = ", ".join(part for trial in trials for part in trial.fits())
    (counted,) = connection.execute(f"SELECT {asked} FROM ({sql})").fetchall()
    done = {}
    for place, trial in enumerate(trials):
        filled, fitting, rival = counted[3 * place : 3 * place + 3]
        if filled == fitting:
            found = trial.decided(names[trial.index], wrong=0, example=None, absent=0, rival_wrong=filled - rival)
            done[trial.index] = found or Chosen(f"c{trial.index}", [])
    return done


def _in_words(type: str) -> str:
    return {"BIGINT": "whole numbers", "DOUBLE": "numbers", "BOOLEAN": "yes or no"}.get(type, "dates or times")
