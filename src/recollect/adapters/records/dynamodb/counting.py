"""Counting without reading: the head knows how many records of each group there are, index entries tell the rest.

A count that narrows to nobody in particular is added up from the groups that the head counts. Groups that a filter does
not decide as a whole (has it expired by now?) have a moment set that few records have, whose index entries lead to
them. A count of somebody's records goes through the index entries that lead to these, and looks at their facts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from recollect.adapters.records.common.checks import check_query, in_utc
from recollect.adapters.records.common.in_python_queries import counted
from recollect.adapters.records.dynamodb import tallies
from recollect.adapters.records.dynamodb.facts import Known, fact_fields, group_of, grouping_fields, known_by_group
from recollect.adapters.records.dynamodb.keys import HOURS, ORDERED, TALLIED, entry_fields, index_word
from recollect.adapters.records.dynamodb.lookups import lookups_of
from recollect.adapters.records.dynamodb.paging import PagingView
from recollect.adapters.records.dynamodb.spans import LAST
from recollect.adapters.records.dynamodb.tenant_view import verdict_on
from recollect.domain.record import Record
from recollect.ports.query import Compare, Filter, Linked, Query, Row, Spans

R = TypeVar("R", bound=Record)


class KeptGroup(NamedTuple):
    """Records that are counted together, and whether they pass the filters; None if some may and some may not."""

    name: str
    known: Known
    records: int
    passes: bool | None


class CountingView(PagingView):
    """A view that only reads; it counts, too."""

    def matching(self, query: Query[R]) -> list[R]:
        """A page longer than all there is ends with the last: what is known not to be there is not looked for."""
        check_query(query)
        groups = self._kept_groups(query) if query.limit and query.after is None else None
        if groups is not None and all(one.passes is not None for one in groups):
            total = sum(one.records for one in groups if one.passes)
            if total == 0:
                return []
            query = replace(query, limit=min(total, query.limit or total))
        return super().matching(query)

    def counted(self, query: Query[Record]) -> int:
        """How many pass the filters: as the head or a tally counts them, or by facts of entries; the rest is read."""
        for kept in (self._kept_count, self._tallied_count, self._count_without_links):
            count = kept(query)
            if count is not None:
                return count
        ids = self._candidate_ids(query)
        return len(self.passing(query)) if ids is None else self._count_among(query, ids)

    def _candidate_ids(self, query: Query[Record]) -> Collection[str] | None:
        ids = self._named(query.record, query.where, query.deleted)
        return self.covered(query) if ids is None else ids

    def counted_by(self, query: Query[Record], by: Sequence[str | Spans]) -> dict[Row, int]:
        """How many pass the filters, for each combination of values; see `Reads.count_by`."""
        groups = self._kept_groups(query)
        names = [name for name in by if isinstance(name, str) and name in grouping_fields(query.record)]
        if groups is not None and len(names) == len(by) and all(one.passes is not None for one in groups):
            found: Counter[Row] = Counter()
            for one in groups:
                if one.passes:
                    found[tuple(getattr(one.known.known, name) for name in names)] += one.records
            return dict(found)
        by_time = self._counted_by_time(query, by[0]) if len(by) == 1 and isinstance(by[0], Spans) else None
        return self._counted_among(query, by) if by_time is None else by_time

    def _counted_among(self, query: Query[Record], by: Sequence[str | Spans]) -> dict[Row, int]:
        """By the facts of entries, where these tell what is asked for."""
        asked = {one.field if isinstance(one, Spans) else one for one in by}
        told = {*fact_fields(query.record), "id"}
        ids = self._candidate_ids(query) if asked <= told else None
        return counted(self.passing(query) if ids is None else self._all_among(query, ids), by)

    def _all_among(self, query: Query[R], ids: Collection[str]) -> list[R]:
        """Those of the candidates that pass: with their facts alone, or whole."""
        passing, unclear = self._judged(query, ids)
        if self._are_most(query.record, len(unclear)):
            return self._filtered(query, None, self._all(query.record))
        return passing + self._filtered(query, self._records(query.record, unclear))

    # -- by time -----------------------------------------------------------------------------------------------------

    def _counted_by_time(self, query: Query[Record], spans: Spans) -> dict[Row, int] | None:
        """What was made between moments: by hours, or by entries from the first on; what was before is the rest."""
        table, field = query.record.shape.table, spans.field
        total = self._kept_count(replace(query, where=_without_start(query.where, spans)))
        if not spans.edges:
            return None
        if HOURS.get(table) == field:
            found = self._counted_by_hours(query, spans)
        elif (table, field) in ORDERED:
            ids = self._in_span(table, field, index_word(in_utc(spans.edges[0])), LAST)
            since = (*query.where, Compare(field, ">=", spans.edges[0]))
            found = counted(self._all_among(replace(query, where=since), ids), [spans])
        else:
            return None
        if found is None or _has_start(query.where, spans):
            return found
        before = None if total is None else total - sum(found.values())
        return None if before is None else found | ({(0,): before} if before else {})

    def _counted_by_hours(self, query: Query[Record], spans: Spans) -> dict[Row, int] | None:
        """From the first moment on; None if quarters of an hour do not tell."""
        edges = [in_utc(edge) for edge in spans.edges]
        if any(edge.timestamp() % tallies.QUARTER.total_seconds() for edge in edges):
            return None
        rest, found = replace(query, where=_without_start(query.where, spans)), Counter[Row]()
        for item in self._tenant.dynamo.query(self.keys.hours, "s >= :s", {":s": tallies.hour_of(edges[0])}):
            tally = tallies.read(self.keys, (item["p"], item["s"]), item["d"])
            if tally is None:
                return None
            for one in tallies.quarters(tally, item["s"], query.record.shape.table):
                verdict = verdict_on(one.known, rest)
                if verdict is None:
                    return None
                if verdict and one.begins >= edges[0]:
                    found[(bisect_right(edges, one.begins),)] += one.records
        return dict(found)

    # -- as counted --------------------------------------------------------------------------------------------------

    def _tallied_count(self, query: Query[Record]) -> int | None:
        """Of somebody's records, as the tally of his has them; None where that does not tell enough."""
        table = query.record.shape.table
        named = [one for one in lookups_of(query.record, query.where) if len(one[1]) == 1]
        field, values = next((one for one in named if one[0] in TALLIED.get(table, ())), ("", ()))
        if not field or self.written(table) or self.head.counts() is None:
            return None
        value = next(iter(values))
        key = self.keys.tally(table, field, value)
        tally = tallies.read(self.keys, key, self.texts_at([key])[key])
        if tally is None:
            return None
        groups = tallies.known_groups(tally, query.record, field, value)
        verdicts = {name: verdict_on(known, query) for name, known in groups.items()}
        unclear = {name: known for name, known in groups.items() if verdicts[name] is None}
        total = sum(number for name, number in tally.items() if verdicts[name])
        if not unclear:
            return total
        if any(not known.is_set for known in unclear.values()) or not self._have_few(
            query, unclear, sum(tally.values())
        ):
            return None
        return total + self._count_one_by_one(query, unclear)

    def _have_few(self, query: Query[Record], groups: Mapping[str, Known], most: int) -> bool:
        """Whether fewer records have one of the moments that lead to these groups."""
        fields = {min(known.is_set) for known in groups.values()}
        counts = self.head.counts()
        assert counts is not None
        held = ((known_by_group(query.record, name), number) for name, number in counts.of(query.record).items())
        return sum(number for known, number in held if known.is_set & fields) <= most

    def _count_without_links(self, query: Query[Record]) -> int | None:
        """Of all that nothing leads to from elsewhere: all, less those that something does lead to."""
        table = query.record.shape.table
        given = query.where[0] if len(query.where) == 1 else None
        if not isinstance(given, Linked) or given.wanted or given.by != "id" or query.deleted != "no":
            return None
        reference = given.record.shape.references.get(given.field)
        total = self._kept_count(replace(query, where=()))
        if total is None or reference is None or reference.to != table or reference.unless or self._moved.get(table):
            return None
        if "is_deleted" not in entry_fields(query.record) or self.written(table):
            return None
        linked = self._linked(None, given)
        return total - len(linked - set(self._in_span(table, "is_deleted", "", LAST)))

    def _kept_groups(self, query: Query[Record]) -> list[KeptGroup] | None:
        """What the head counts; None if that is not known."""
        counts = self.head.counts()
        if counts is None or self.written(query.record.shape.table):
            return None
        held = counts.of(query.record).items()
        groups = ((name, known_by_group(query.record, name), records) for name, records in held)
        return [KeptGroup(name, known, records, verdict_on(known, query)) for name, known, records in groups]

    def _kept_count(self, query: Query[Record]) -> int | None:
        """None where the head does not tell enough."""
        groups = self._kept_groups(query)
        if groups is None:
            return None
        unclear = {one.name: one.known for one in groups if one.passes is None}
        if any(not known.is_set for known in unclear.values()):
            return None
        total = sum(one.records for one in groups if one.passes)
        return total + (self._count_one_by_one(query, unclear) if unclear else 0)

    def _count_one_by_one(self, query: Query[Record], groups: Mapping[str, Known]) -> int:
        """Of groups that a filter does not decide as a whole: each has a moment that few have, which leads to them."""
        fields = {min(known.is_set) for known in groups.values()}
        ids = [id for field in fields for id in self._in_span(query.record.shape.table, field, "", LAST)]
        return self._count_among(query, ids, lambda one: group_of(one) in groups)

    def _count_among(
        self, query: Query[R], ids: Collection[str], also: Callable[[Record], bool] = lambda one: True
    ) -> int:
        """Of these candidates and what changed since they were read; those whose facts do not tell are read."""
        return sum(also(one) for one in self._all_among(query, ids))


def _has_start(where: Sequence[Filter], spans: Spans) -> bool:
    return any(_is_start(one, spans) for one in where)


def _without_start(where: Sequence[Filter], spans: Spans) -> tuple[Filter, ...]:
    return tuple(one for one in where if not _is_start(one, spans))


def _is_start(given: Filter, spans: Spans) -> bool:
    """Whether a filter leaves just what is not before the first moment."""
    return (
        isinstance(given, Compare)
        and (given.field, given.operator, given.key) == (spans.field, ">=", None)
        and given.value == spans.edges[0]
    )
