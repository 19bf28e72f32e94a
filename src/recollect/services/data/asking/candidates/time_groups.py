"""Questions for each month, week or year: "revenue by month", "how many orders per week in 2025", "monthly revenue".

Which column is meant is left unsaid, so such a question is read without these words, and what it asks for is then
grouped by a date of the same table.
"""

from __future__ import annotations

import re

from recollect.services.data.asking.analysis import Prepared
from recollect.services.data.asking.follow_up import date_field
from recollect.services.data.asking.plans.plan import ANY, DatePart, Item, Order, Plan

_UNITS: dict[str, DatePart] = {
    "year": "year", "quarter": "quarter", "month": "month", "week": "week", "day": "day",
    "jahr": "year", "quartal": "quarter", "monat": "month", "woche": "week", "tag": "day",
}  # fmt: skip
_ADJECTIVES: dict[str, DatePart] = {
    "yearly": "year", "annual": "year", "quarterly": "quarter", "monthly": "month", "weekly": "week", "daily": "day",
    "jährlich": "year", "quartalsweise": "quarter", "monatlich": "month", "wöchentlich": "week", "täglich": "day",
}  # fmt: skip
_UNIT = "|".join(_UNITS)
_GROUPED = re.compile(
    rf"\b(?:(?:for|in) (?:each|every)|by|per|each|every|pro|je|jede[mnrs]?|nach)\s+(?:the\s+)?({_UNIT})(?:e?s|en|e)?\b",
    re.IGNORECASE,
)
_AS_WELL = re.compile(
    rf"(\b(?:by|per|each|pro|je|nach)\s+\w+(?: \w+)?)\s+(?:and|und)\s+({_UNIT})(?:e?s|en|e)?\b", re.IGNORECASE
)
_ADJECTIVE = re.compile(rf"\b({'|'.join(_ADJECTIVES)})(?:e[mnrs]?)?\b", re.IGNORECASE)
_AMOUNTS = frozenset({"money", "number", "count"})


def time_grouping(question: str) -> tuple[str, DatePart] | None:
    """The question without the words that ask for groups of time, and which; None if there are none."""
    if found := _AS_WELL.search(question):
        return f"{question[: found.start()]}{found[1]}{question[found.end() :]}", _UNITS[found[2].lower()]
    if found := _GROUPED.search(question):
        return _without(question, found), _UNITS[found[1].lower()]
    if found := _ADJECTIVE.search(question):
        return _without(question, found), _ADJECTIVES[found[1].lower()]
    return None


def _without(question: str, words: re.Match[str]) -> str:
    """The rest of the question; a bare noun such as "revenue" asks for its total."""
    rest = f"{question[: words.start()].rstrip()} {question[words.end() :].lstrip(' ,')}".strip()
    return f"total {rest}" if re.fullmatch(r"\w+\W*", rest) else rest


def grouped_by_time(plan: Plan, part: DatePart, prepared: Prepared) -> Plan | None:
    """The plan for each span of time; None where there is no date to group by, or a column is named like the span."""
    schema = prepared.schema
    if plan.combination or any(field.name.lower() == part and field.kind != "date" for field in schema.fields):
        return None
    dated = date_field(plan, prepared, None)
    if dated is None:
        return None
    aggregates = [item for item in plan.select if item.aggregate]
    if not aggregates:
        amounts = [
            item
            for item in plan.select
            if item.field != ANY and schema.fields[item.field].kind == "number"
            and schema.fields[item.field].meaning in _AMOUNTS
        ]  # fmt: skip
        aggregates = [Item(item.field, "sum") for item in amounts] or [Item(ANY, "count")]
    key = Item(dated, part=part)
    return plan.changed(
        select=(key, *plan.group, *aggregates),
        group=(key, *plan.group),
        order=(Order(key),),
        limit=None,
        distinct=False,
        tables=tuple({*plan.tables, *(schema.table_of[item.field] for item in plan.select if item.field != ANY)}),
    )
