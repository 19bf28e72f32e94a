"""Queries answered over records at hand: order, pages, facets and words, in the most obvious way.

For the stores that have no query language of their own; those with one are compared with this.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from recollect.adapters.records.common.checks import in_utc
from recollect.adapters.records.common.dialect import Values
from recollect.domain.record import Record
from recollect.ports.query import (
    AllOf,
    AnyOf,
    Beside,
    Filter,
    Linked,
    Page,
    Query,
    Row,
    Spans,
    TextHit,
    encode_cursor,
    passes,
)

R = TypeVar("R", bound=Record)
LIVING: Mapping[str, tuple[bool, ...]] = {"no": (False,), "yes": (False, True), "only": (True,)}


def fits(record: Record, given: Filter, linked: Callable[[Linked], Collection[str]]) -> bool:
    """Whether a record passes a filter; `linked` gives the values that a Linked filter finds something for."""
    if isinstance(given, AnyOf):
        return any(fits(record, one, linked) for one in given.filters)
    if isinstance(given, AllOf):
        return all(fits(record, one, linked) for one in given.filters)
    if isinstance(given, Linked):
        return (getattr(record, given.by) in linked(given)) == given.wanted
    return passes(record, given) is True


def leading_to(given: Linked, *more: Filter) -> Query[Record]:
    """The records that a Linked filter asks for."""
    return Query(given.record, (*given.where, *more), deleted="yes" if given.deleted else "no")


def once(find: Callable[[Linked], Collection[str]]) -> Callable[[Linked], Collection[str]]:
    """Asks once for each filter of a query; by identity, because 1 and true are equal and do not match alike."""
    known: dict[int, Collection[str]] = {}

    def linked(given: Linked) -> Collection[str]:
        if id(given) not in known:
            known[id(given)] = find(given)
        return known[id(given)]

    return linked


def in_order(records: Iterable[R], query: Query[R]) -> list[R]:
    """The page of these records that a query asks for."""
    found = list(records)
    for order in reversed(query.ordering()):
        found.sort(key=partial(_sortable_field, order.field), reverse=order.descending)
    start = query.start()
    if start is not None:
        found = [record for record in found if is_beyond(record, query, start)]
    return found[: query.limit]


def counted(records: Iterable[Record], by: Sequence[str | Spans]) -> dict[Row, int]:
    """How many records there are of each combination of values; see `Reads.count_by`."""
    return dict(Counter(tuple(_group(record, one) for one in by) for record in records))


def _group(record: Record, by: str | Spans) -> object:
    if isinstance(by, str):
        return getattr(record, by)
    moment = getattr(record, by.field)
    return 0 if moment is None else bisect_right([in_utc(edge) for edge in by.edges], moment)


def paged(records: list[R], query: Query[R]) -> Page[R]:
    """These records, with the cursor of the next page if there may be one."""
    if query.limit is None or len(records) < query.limit or not records:
        return Page(records)
    return Page(records, encode_cursor([getattr(records[-1], order.field) for order in query.ordering()]))


def is_beyond(record: Record, query: Query[Record], start: Values) -> bool:
    for order, mark in zip(query.ordering(), start, strict=True):
        here, there = _sortable(getattr(record, order.field)), _sortable(mark)
        if here != there:
            return here < there if order.descending else here > there
    return False


def stand_beside(query: Beside[Record], records: Iterable[Record]) -> list[list[str]]:
    """What stands beside each place among these records, which all pass."""
    groups: dict[Any, list[tuple[Any, str]]] = {}
    for record in records:
        insort(groups.setdefault(getattr(record, query.within), []), (getattr(record, query.by), record.id))
    return [around(groups.get(within, []), (by, id), query.reach) for within, by, id in query.places]


def around(ordered: Sequence[tuple[Any, str]], place: tuple[Any, str], reach: int) -> list[str]:
    """The ids at most `reach` before and after a place in an order, and the one at the place."""
    at = bisect_left(ordered, place)
    is_there = ordered[at : at + 1] == [place]
    return [id for _, id in ordered[max(0, at - reach) : at + reach + is_there]]


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)


def _sortable_field(name: str, record: Record) -> tuple[bool, Any]:
    return _sortable(getattr(record, name))


def facet_values(record: Record, name: str) -> list[object]:
    value = getattr(record, name)
    return value if isinstance(value, list) else [value]


def has_facets(record: Record, facets: Mapping[str, Sequence[str]]) -> bool:
    return all(any(one in wanted for one in facet_values(record, name)) for name, wanted in facets.items())


def by_rarity(holders: Mapping[str, Collection[str]], size: int) -> list[TextHit]:
    """Scores from who holds each word, within a scope of some size: the rarer a word, the more it counts."""
    scores: dict[str, float] = {}
    for held_by in holders.values():
        rarity = math.log(1 + (size - len(held_by) + 0.5) / (len(held_by) + 0.5))
        for id in held_by:
            scores[id] = scores.get(id, 0.0) + rarity
    return sorted((TextHit(id, score) for id, score in scores.items()), key=lambda hit: (-hit.score, hit.id))
