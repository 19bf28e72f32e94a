"""Which questions are answered from the rows of memories that are kept (`known_rows.py`), and which of these pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from recollect.adapters.records.common.checks import check_filters
from recollect.domain.memory import Memory
from recollect.domain.record import Record
from recollect.ports.query import AllOf, AnyOf, Beside, Filter, Holds, Linked, OneOf, Query, Row, TextQuery, meets

FIELDS = (
    "id", "text", "kind", "status", "author", "occurred_at", "user_id", "agent_id", "session_id", "priority",
    "is_deleted", "level", "namespaces", "expires_at", "valid_from", "valid_to", "scope", "project_id",
)  # fmt: skip
"""What is kept of a memory: what ranks it, and what the filters of every recall look at."""
KNOWN = frozenset(FIELDS)
_ANSWERED = KNOWN - {"namespaces"}  # a list, which whoever asked could change
MOST_RECENT, MOST_VERDICTS = 50, 20_000
_OWN = frozenset({"text", "occurred_at"})
"""Fields in which hardly two are alike."""
PLACES = {name: place for place, name in enumerate(FIELDS)}


class KnownQuery(NamedTuple):
    """Some fields of the memories with these ids that pass some filters."""

    ids: tuple[str, ...]
    filters: tuple[Filter, ...]
    fields: tuple[str, ...]
    any_order: bool

    @property
    def is_kept(self) -> bool:
        """Whether all that is asked for is kept."""
        return _ANSWERED.issuperset(self.fields)

    def of(self, rows: Sequence[Row]) -> list[Row]:
        """The fields of these rows."""
        return list(map(_picking(self.fields), rows))

    def ordered(self, rows: Sequence[Row]) -> Sequence[Row]:
        return rows if self.any_order else sorted(rows, key=itemgetter(PLACES["id"]))


class RecentFilters:
    """Filters that were made ready lately: a recall asks with the very same ones three or four times.

    They are known by what they are, not by what they say, which would take as long to find out as to use them. Each
    entry holds its filters, so that none is taken for another.
    """

    def __init__(self) -> None:
        self._ready: dict[tuple[int, ...], _Asked] = {}

    def passing(self, rows: Sequence[Row], filters: tuple[Filter, ...]) -> Sequence[Row]:
        """Those that are not deleted and pass."""
        asked = self._of(filters)
        values, verdicts = list(map(asked.looked_at, rows)), asked.verdicts
        if not verdicts.keys() >= set(values):
            if len(verdicts) > MOST_VERDICTS:
                verdicts = asked.verdicts = {}
            alike = dict(zip(values, rows, strict=True))
            verdicts |= {one: asked.admits(row) for one, row in alike.items() if one not in verdicts}
        if not all(map(verdicts.__getitem__, values)):
            rows = [row for row, one in zip(rows, values, strict=True) if verdicts[one]]
        return [row for row in rows if _meets_all(row, asked.single)] if asked.single else rows

    def _of(self, filters: tuple[Filter, ...]) -> _Asked:
        key = tuple(map(id, filters))
        asked = self._ready.get(key)
        if asked is None:
            if len(self._ready) >= MOST_RECENT:
                self._ready.clear()
            asked = self._ready[key] = _Asked(filters)
        return asked


class _Asked:
    """Filters made ready. Most rows are alike in what most filters look at: of these a verdict is found once."""

    def __init__(self, filters: tuple[Filter, ...]) -> None:
        check_filters(Memory, filters)
        self.filters = filters
        self.single = [one for one in filters if not _OWN.isdisjoint(_fields_of(one))]
        self._common = [one for one in filters if _OWN.isdisjoint(_fields_of(one))]
        fields = {"is_deleted"}.union(*map(_fields_of, self._common))
        self.looked_at = itemgetter(*(PLACES[name] for name in fields))
        self.verdicts: dict[object, bool] = {}

    def admits(self, row: Row) -> bool:
        return not row[PLACES["is_deleted"]] and _meets_all(row, self._common)


def _meets_all(row: Row, filters: Sequence[Filter]) -> bool:
    def value_of(field: str) -> Any:
        value = row[PLACES[field]]
        return list(value) if field == "namespaces" else value

    return all(meets(value_of, given) for given in filters)


def known_query(query: Query[Record], fields: Sequence[str]) -> KnownQuery | None:
    """None where it asks for something else than memories by their ids, or looks at what is not kept."""
    if query.record is not Memory or query.order or query.limit is not None or query.after or query.deleted != "no":
        return None
    if not query.where or not fields or not Memory.model_fields.keys() >= set(fields):
        return None
    first, *others = query.where
    if not isinstance(first, OneOf) or first.field != "id" or not first.wanted or not are_known(others):
        return None
    if not all(isinstance(id, str) for id in first.values) or "\0" in "".join(first.values):  # no array takes that
        return None
    return KnownQuery(tuple(dict.fromkeys(first.values)), tuple(others), tuple(fields), query.any_order)


def text_filters(query: TextQuery[Record]) -> tuple[Filter, ...] | None:
    """What a memory that is found by its words must pass."""
    if query.record is not Memory or not KNOWN.issuperset(query.facets) or not are_known(query.where):
        return None
    return (*(_facet(name, values) for name, values in query.facets.items()), *query.where)


def is_known_place(query: Beside[Record]) -> bool:
    return query.record is Memory and query.within in WITHIN and are_known(query.where)


WITHIN = ("session_id", "user_id", "agent_id", "kind")
"""What memories stand within beside each other."""


def _facet(name: str, values: Sequence[str]) -> Filter:
    if name == "namespaces":
        return AnyOf(tuple(Holds(name, value) for value in values))
    return OneOf(name, tuple(values))


def are_known(filters: Iterable[Filter]) -> bool:
    return all(map(_is_known, filters))


def _is_known(given: Filter) -> bool:
    if isinstance(given, AnyOf | AllOf):
        return are_known(given.filters)
    # Of ids there may be thousands, and each is compared with all of them.
    is_kept = not isinstance(given, Linked) and given.field in KNOWN and given.field != "id"
    return is_kept and getattr(given, "key", None) is None


def _fields_of(given: Filter) -> set[str]:
    if isinstance(given, AnyOf | AllOf):
        return set[str]().union(*map(_fields_of, given.filters))
    return set() if isinstance(given, Linked) else {given.field}


@lru_cache(maxsize=100)
def _picking(fields: tuple[str, ...]) -> Callable[[Row], Row]:
    places = [PLACES[name] for name in fields]
    if places == list(range(len(places))):
        return itemgetter(slice(len(places)))
    return itemgetter(*places) if len(places) > 1 else lambda row: (row[places[0]],)
