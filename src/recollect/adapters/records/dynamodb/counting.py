"""Counting without reading: the head knows how many records of each group there are, index entries tell the rest.

A count that narrows to nobody in particular is added up from the groups that the head counts. Groups that a filter does
not decide as a whole (has it expired by now?) have a moment set that few records have, whose index entries lead to
them. A count of somebody's records goes through the index entries that lead to these, and looks at their facts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from recollect.adapters.records.common.checks import check_query
from recollect.adapters.records.common.in_python_queries import counted
from recollect.adapters.records.dynamodb.facts import Known, group_of, grouping_fields, known_by_group
from recollect.adapters.records.dynamodb.tenant_view import LAST, TenantView, verdict_on
from recollect.domain.record import Record
from recollect.ports.query import Query, Row, Spans

R = TypeVar("R", bound=Record)


class KeptGroup(NamedTuple):
    """Records that are counted together, and whether they pass the filters; None if some may and some may not."""

    name: str
    known: Known
    records: int
    passes: bool | None


class CountingView(TenantView):
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
        """How many pass the filters: as the head counts them, or by the facts of entries; the rest is read."""
        kept = self._kept_count(query)
        if kept is not None:
            return kept
        ids = self._named(query.record, query.where)
        return len(self.passing(query)) if ids is None else self._count_among(query, ids)

    def counted_by(self, query: Query[Record], by: Sequence[str | Spans]) -> dict[Row, int]:
        """How many pass the filters, for each combination of values; see `Reads.count_by`."""
        groups = self._kept_groups(query)
        names = [name for name in by if isinstance(name, str) and name in grouping_fields(query.record)]
        if groups is None or len(names) < len(by) or any(one.passes is None for one in groups):
            return counted(self.passing(query), by)
        found: dict[Row, int] = {}
        for one in groups:
            if one.passes:
                values = tuple(getattr(one.known.known, name) for name in names)
                found[values] = found.get(values, 0) + one.records
        return found

    def _kept_groups(self, query: Query[Record]) -> list[KeptGroup] | None:
        """What the head counts; None if that is not known."""
        counts = self.head.counts()
        if counts is None or self.written(query.record.shape.table):
            return None
        groups = ((name, known_by_group(query.record, name), n) for name, n in counts.of(query.record).items())
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
        table = query.record.shape.table
        newer = {*self._moved.get(table, ()), *self.written(table)}
        total, unclear = 0, list(newer)
        for id in dict.fromkeys(ids):
            if id not in newer:
                known = self._known(query.record, id)
                verdict = verdict_on(known, query) if known else None
                total += bool(verdict and known and also(known.known))
                unclear += [id] if verdict is None else []
        return total + sum(also(one) for one in self._filtered(query, self._records(query.record, unclear)))
