"""What the columns of a result are to a chart: times, categories, numbers; the rest cannot be drawn."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal

from recollect.domain.charts.formats import Unit, label_text, unit_of, words_of

Role = Literal["time", "category", "number", "other"]

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
            "UHUGEINT", "DOUBLE", "FLOAT", "REAL", "DECIMAL", "NUMERIC", "BIGNUM")  # fmt: skip
_NESTED = ("STRUCT", "MAP", "UNION", "LIST", "ARRAY", "VARIANT", "BLOB", "JSON", "BIT")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "U")
_NO_AMOUNTS = frozenset({"id", "postcode", "phone", "category", "flag", "month"})
# Vega's tooltip makes an <img> of a value that is called "image", and a heading of a "title".
_TITLES = {"count_star()": "count", "image": "Image", "title": "Title"}
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?)?")


@dataclass(frozen=True, slots=True)
class ChartColumn:
    """A column of a result: its name, its type in DuckDB, and what it means where that is known."""

    name: str
    type: str
    meaning: str | None = None


@dataclass(frozen=True)
class Series:
    """A column with its values as they are drawn: moments, labels or numbers; None where there is none."""

    title: str
    role: Role
    moments: Sequence[datetime | None] = ()
    labels: Sequence[str] = ()
    numbers: Sequence[float | None] = ()
    unit: Unit = "number"
    is_id: bool = False

    @cached_property
    def distinct(self) -> int:
        return len(set(self.labels or self.moments or self.numbers))

    def known(self) -> list[float]:
        return [value for value in self.numbers if value is not None]


def read_column(column: ChartColumn, values: Sequence[object]) -> Series:
    title = _TITLES.get(column.name) or label_text(column.name, 60)
    role = _role(column, values)
    if role == "time":
        moments = [_moment(value) for value in values]
        if any(moments):
            return Series(title, "time", moments=moments)
        role = "category"
    if role == "number":
        numbers = [_number(value) for value in values]
        known = [value for value in numbers if value is not None]
        if known:
            return Series(title, "number", numbers=numbers, unit=unit_of(column.name, column.meaning, known))
        return Series(title, "other")
    if role == "category" and any(value is not None for value in values):
        return Series(title, "category", labels=_labels(values), is_id=_is_id(column))
    return Series(title, "other")


def role_of_type(type: str) -> Role:
    """What a column likely is, by its type alone."""
    type = type.upper()
    if type.endswith("]") or type.startswith(_NESTED):
        return "other"
    if type.startswith(("DATE", "TIMESTAMP")):
        return "time"
    return "number" if type.startswith(_NUMBERS) else "category"


def _role(column: ChartColumn, values: Sequence[object]) -> Role:
    likely = role_of_type(column.type)
    known = [value for value in values if value is not None]
    if likely == "category" and known and all(type(value) in (int, float) for value in known):
        likely = "number"  # whatever another database calls its numbers
    if likely == "number":
        words = words_of(column.name)
        if column.meaning == "year" or (column.meaning is None and words[-1:] == ["year"]):
            return "time"
        if column.meaning in _NO_AMOUNTS or _is_id(column):
            return "category"
        return "category" if column.meaning is None and words[-1:] == ["month"] else "number"
    if likely != "category":
        return likely
    if known and all(isinstance(value, str) and _DATE.fullmatch(value) for value in known):
        return "time"
    return "category"


def _is_id(column: ChartColumn) -> bool:
    is_whole = column.type.upper().startswith(_WHOLE)
    return column.meaning == "id" or (column.meaning is None and is_whole and words_of(column.name)[-1:] == ["id"])


def _number(value: object) -> float | None:
    """Also of a decimal with many digits, which comes as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _moment(value: object) -> datetime | None:
    """The date and time as written, whatever the zone: what was asked for was in the user's zone already."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime(int(value), 1, 1, tzinfo=UTC) if 1 <= value <= 9999 and value == int(value) else None
    if not isinstance(value, str):
        return None
    text = f"{value}-01" if len(value) == 7 else value
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None


def _labels(values: Sequence[object]) -> list[str]:
    """Labels that differ where the values do, also when they were cut."""
    keys = [(type(value).__name__, str(value)) for value in values]
    found: dict[tuple[str, str], str] = {}
    taken: Counter[str] = Counter()
    for key, value in zip(keys, values, strict=True):
        if key not in found:
            label = label_text(value)
            taken[label] += 1
            while taken[label] > 1:
                label = f"{label_text(value, 52)} ({taken[label]})"
                taken[label] += 1
            found[key] = label
    return [found[key] for key in keys]
