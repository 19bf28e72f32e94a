"""What a column means, by rules: its type, the words of its name, and what its values look like."""

from __future__ import annotations

import re
from collections.abc import Sequence

from recollect.ports.data import Column, Meaning

_WORDS = re.compile(r"[A-Z]?[a-zà-ÿ]+|[A-Z]+(?![a-zà-ÿ])|\d+|%")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_ID = _set("id key uuid guid pk fk identifier nr kennung")
_NAMED_SO: dict[Meaning, frozenset[str]] = {
    "year": _set("year yr jahr año annee"),
    "month": _set("month monat mes mois"),
    "money": _set(
        "amount price cost costs revenue salary total fee fees balance budget income sales usd eur gbp payment profit "
        "wage tax discount spend spent gross value betrag preis kosten umsatz gehalt summe steuer gewinn precio "
        "importe prix montant charge turnover earnings"
    ),
    "percent": _set("pct percent percentage rate ratio share % anteil prozent quote"),
    "count": _set(
        "count qty quantity num units visits views clicks anzahl menge stock number items population capacity"
    ),
    "coordinate": _set("lat latitude lon lng long longitude breite laenge länge"),
    "postcode": _set("zip zipcode postcode postal plz"),
    "phone": _set("phone telephone tel mobile cell fax telefon handy"),
    "country": _set("country nation land nationality pais pays"),
    "email": _set("email mail"),
    "url": _set("url link website homepage href uri"),
    "name": _set("name title first last surname nachname vorname city town street address"),
}
_PATTERNS: dict[Meaning, re.Pattern[str]] = {
    "email": re.compile(r"[^@\s]{1,64}@[^@\s]+\.[A-Za-z]{2,}"),
    "url": re.compile(r"(https?://|www\.)\S+", re.IGNORECASE),
    "id": re.compile(
        r"[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9a-f]{24}|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}"
    ),
    "phone": re.compile(r"\+?[\d(][\d\s().\-/]{6,18}(x\d+)?"),
    "json": re.compile(r"\s*[\[{].*[\]}]\s*", re.DOTALL),
    "date": re.compile(r"\d{4}-\d\d-\d\d.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}.*"),
}
_COUNTRIES = _set(
    "germany france spain italy austria switzerland poland usa us uk gb de fr es it at ch pl nl be se no dk fi ie pt "
    "gr cz hu ro bg canada ca mexico mx brazil br argentina china cn japan jp india in australia au russia ru deu fra "
    "esp ita gbr netherlands belgium sweden norway denmark finland ireland portugal greece hungary romania turkey"
)
_FIXED: dict[str, Meaning] = {"BOOLEAN": "flag", "BLOB": "binary", "JSON": "json", "UUID": "id", "TIME": "time"}


def words_of(name: str) -> list[str]:
    """The words of a column's name, in lower case: customerId, customer_id and 'Customer ID' have the same."""
    return [word.lower() for word in _WORDS.findall(name)]


def meaning_of(
    column: Column, values: Sequence[object], *, rows: int, filled: int, distinct: int, low: object, high: object
) -> Meaning:
    if not filled:
        return "empty"
    if column.type in _FIXED:
        return _FIXED[column.type]
    if column.type.startswith(("DATE", "TIMESTAMP")) and not column.type.endswith("[]"):
        return "date"
    if column.type.endswith("[]") or column.type.startswith(("STRUCT", "MAP", "UNION", "LIST", "ARRAY", "VARIANT")):
        return "nested"
    words = words_of(column.name)
    if column.type == "VARCHAR":
        return _of_texts(words, [str(value) for value in values], filled, distinct)
    return _of_numbers(words, column.type, filled, distinct, low, high)


def _named(words: list[str], meaning: Meaning) -> bool:
    return not _NAMED_SO[meaning].isdisjoint(words)


def _of_numbers(words: list[str], type: str, filled: int, distinct: int, low: object, high: object) -> Meaning:
    is_whole = not type.startswith(("DOUBLE", "FLOAT", "DECIMAL"))
    smallest = float(low) if isinstance(low, int | float) else 0.0
    largest = float(high) if isinstance(high, int | float) else 0.0
    if is_whole and words and not _ID.isdisjoint(words[-1:] + words[:1]):
        return "id"
    if is_whole and _named(words, "year") and smallest >= 1000 and largest <= 2500:
        return "year"
    if is_whole and _named(words, "month") and smallest >= 1 and largest <= 12:
        return "month"
    if is_whole and _named(words, "postcode"):
        return "postcode"
    if is_whole and _named(words, "phone"):
        return "phone"
    if _named(words, "coordinate") and smallest >= -180 and largest <= 180:
        return "coordinate"
    if _named(words, "percent"):
        return "percent"
    if _named(words, "count") and is_whole and smallest >= 0:
        return "count"
    if _named(words, "money"):
        return "money"
    if is_whole and smallest == 0 and largest == 1:
        return "flag"
    if is_whole and smallest >= 1900 and largest <= 2100 and distinct <= 200 and filled > 2 * distinct:
        return "year"
    return "category" if is_whole and distinct <= 12 and filled >= 20 * distinct else "number"


def _of_texts(words: list[str], values: list[str], filled: int, distinct: int) -> Meaning:
    def share(pattern: re.Pattern[str]) -> float:
        return sum(bool(pattern.fullmatch(value.strip())) for value in values) / max(1, len(values))

    for meaning in ("email", "url", "id", "json"):
        if share(_PATTERNS[meaning]) > 0.9:
            return meaning
    if _named(words, "postcode"):
        return "postcode"
    if share(_PATTERNS["date"]) > 0.9:
        return "date"
    digits = sum(sum(char.isdigit() for char in value) >= 7 for value in values) > 0.9 * len(values)
    if share(_PATTERNS["phone"]) > 0.9 and digits and (_named(words, "phone") or any("+" in value for value in values)):
        return "phone"
    if _named(words, "country") or sum(value.strip().lower() in _COUNTRIES for value in values) > 0.9 * len(values):
        return "country" if distinct <= 400 else "name"
    length = sum(map(len, values)) / max(1, len(values))
    spaces = sum(value.count(" ") for value in values) / max(1, len(values))
    if not _ID.isdisjoint(words[-1:]) and spaces < 0.2:
        return "id"
    if length > 60 or spaces > 8:
        return "text"
    if distinct <= max(20, min(1000, filled * 0.05)) and filled > 1.5 * distinct:
        return "category"
    return "name" if _named(words, "name") or spaces < 4 else "text"
