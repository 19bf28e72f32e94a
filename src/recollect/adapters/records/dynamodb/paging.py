"""One page of a query without reading the rest: along the records or index entries that are in its order.

In order of id: along the entries of the one value that a filter names, or along the records. In another order: along
the entries of that field, where every record that may pass has one (`ORDERED`, texts that are never empty); along the
entries of what few have, with all others between them (`RARE`); or the candidates are put in order by the facts of
their entries. In each case only the records of the page are read, and those that facts do not decide.

Where somebody's memories are asked for in the order in which they happened, either his entries or those of the order
lead there: both are read by turns, ever more, until one of them suffices.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from recollect.adapters.records.common.checks import check_query
from recollect.adapters.records.common.in_python_queries import LIVING, fits, in_order, is_beyond, once
from recollect.adapters.records.dynamodb.client import KEYS_AT_ONCE
from recollect.adapters.records.dynamodb.codec import Item
from recollect.adapters.records.dynamodb.facts import partial_record
from recollect.adapters.records.dynamodb.keys import (
    LONGEST_WORD,
    RARE,
    column_of,
    entry_fields,
    has_entries,
    is_gathered,
    ordered_word,
    shortened,
)
from recollect.adapters.records.dynamodb.lookups import is_gettable, single_values, values_of
from recollect.adapters.records.dynamodb.spans import LAST, Span, span_of
from recollect.adapters.records.dynamodb.tenant_view import TenantView
from recollect.adapters.records.dynamodb.walks import EntryWalk
from recollect.domain.record import Record
from recollect.ports.query import Compare, Order, Query, encode_cursor

R = TypeVar("R", bound=Record)


class PagingView(TenantView):
    """A view that gives pages."""

    def matching(self, query: Query[R]) -> list[R]:
        check_query(query)
        if query.limit:
            by_id = query.ordering()[0].field == "id"
            page = self._in_order_of_id(query) if by_id else self._in_other_order(query)
            if page is not None:
                return page
        return in_order(self.passing(query), query)

    # -- in order of id ----------------------------------------------------------------------------------------------

    def _in_order_of_id(self, query: Query[R]) -> list[R] | None:
        """One page without reading the rest; None if ids are so long that their keys are not in order."""
        down, start = query.ordering()[0].descending, query.start()
        walk = self._walk_of_value(query, down, start[0] if start else None)
        ids = walk.ids() if walk is not None else self._named(query.record, query.where, query.deleted)
        if ids is not None:
            page = self._page_of(query, self._in_turn(query, ids if walk is not None else sorted(ids, reverse=down)))
            return None if walk is not None and walk.has_shortened else page
        scan = self._scan(query.record.shape.table, not down, start[0] if start else None, query.limit)
        wanted, page = LIVING[query.deleted], []
        linked = once(partial(self._linked, None))
        for record in self._walk(query.record, scan, down=down):
            if start is not None and not is_beyond(record, query, start):
                continue
            if record.is_deleted in wanted and all(fits(record, one, linked) for one in query.where):
                page.append(record)
                if len(page) == query.limit:
                    break
        return None if scan.has_shortened else page

    def _in_turn(self, query: Query[Record], ids: Iterable[str]) -> Iterator[str]:
        """The ids of all that may pass, in order, with what changed since they were found."""
        down, table = query.ordering()[0].descending, query.record.shape.table
        newer = {*self._moved.get(table, ()), *self.written(table)}
        older = (id for id in ids if id not in newer and self._may_pass(query, id))
        return iter(heapq.merge(older, sorted(newer, reverse=down), reverse=down))

    def _page_of(self, query: Query[R], ids: Iterator[str]) -> list[R]:
        """As many of these as pass and are asked for, read a few at a time."""
        page: list[R] = []
        limit, start = query.limit or 0, query.start()
        size = limit
        while len(page) < limit:
            some = list(islice(ids, max(size, limit - len(page))))
            if not some:
                break
            read = self._records(query.record, some)
            beyond = read if start is None else [one for one in read if is_beyond(one, query, start)]
            page += self._filtered(query, beyond)
            size = min(2 * size, KEYS_AT_ONCE)
        return page[:limit]

    def _walk_of_value(self, query: Query[R], down: bool, start: str | None) -> EntryWalk | None:
        """Along the entries of the one value that a filter names; None if none does."""
        table, named = query.record.shape.table, single_values(query)
        if not named or any(values_of(one, "id") is not None for one in query.where):
            return None
        if start and shortened(start, LONGEST_WORD) != start:
            return None
        field, value = named[0]
        words = self._words(table, field, [value])
        if is_gettable(table, field) or len(words) != 1 or (table, field, value) in self._found:
            return None
        low, high = (words[0] + start, words[0] + LAST) if start else (words[0], words[0] + LAST)
        if start and down:
            low, high = words[0], words[0] + start
        return self._entry_walk(query, Span(field, low, high), self.keys.indexes(table, field, words[0]), down)

    def _entry_walk(self, query: Query[R], span: Span, partitions: list[str], down: bool) -> EntryWalk:
        table = query.record.shape.table
        path = (table, *span, down)
        if path not in self._walks:
            condition, values = "s <= :b", {":b": span.high}
            if span.low:
                condition, values = "s BETWEEN :a AND :b", {":a": span.low, ":b": span.high}
            if span.low > span.high:
                pages: Iterator[list[Item]] = iter(())
            else:
                first = (query.limit or 0) + 1
                pages = self._tenant.dynamo.merged_pages(partitions, condition, values, forward=not down, first=first)
            self._walks[path] = EntryWalk(pages, partial(self._ids_of, table))
        return self._walks[path]

    # -- in another order --------------------------------------------------------------------------------------------

    def _in_other_order(self, query: Query[R]) -> list[R] | None:
        """None if all candidates have to be read."""
        walk, named = self._walk_in_order(query), self._walk_of_value(query, False, None)
        if walk is not None and named is not None:
            return self._by_turns(query, walk, named)
        if walk is not None and not self._is_narrowed(query):
            return self._page_along(query, walk)
        if self._is_by_rare(query) and not self._is_narrowed(query):
            return self._around_the_usual(query)
        ids = self._named(query.record, query.where, query.deleted)
        if ids is None:
            ids = self.covered(query, *(one.field for one in query.ordering()))
        return None if ids is None else self._put_in_order(query, ids)

    def _is_narrowed(self, query: Query[R]) -> bool:
        """Whether a filter leads to a few, other than by bounding what the page is ordered by."""
        field = query.ordering()[0].field
        rest = [one for one in query.where if getattr(one, "field", None) != field]
        return self._way(query.record, rest, query.deleted) is not None

    def _walk_in_order(self, query: Query[R]) -> EntryWalk | None:
        """Along the entries of what the page is ordered by; None if not all that may pass have one."""
        order, table = query.ordering(), query.record.shape.table
        field, down = order[0].field, order[0].descending
        if [one.field for one in order[1:]] != ["id"] or order[1].descending != down:
            return None
        has_own = field in entry_fields(query.record) and has_entries(query.record, field)
        if not has_own or is_gathered(query.record, field):
            return None
        bounded = span_of(query.record, field, query.where)
        is_filled = not column_of(query.record, field).nullable or bounded is not None
        is_rare = (table, field) in RARE and RARE[(table, field)] is not None
        if is_rare or not is_filled:
            return None
        span = self._from_the_start(query, bounded or Span(field, "", LAST))
        return None if span is None else self._entry_walk(query, span, self.keys.indexes(table, field), down)

    def _from_the_start(self, query: Query[R], span: Span) -> Span | None:
        """What of it comes after the page before; None if its cursor does not tell."""
        start = query.start()
        if start is None:
            return span
        if start[0] is None or shortened(start[1], LONGEST_WORD) != start[1]:
            return None
        mark = ordered_word(query.record, span.field, start[0]) + start[1]
        if query.ordering()[0].descending:
            return span._replace(high=min(span.high, mark))
        return span._replace(low=max(span.low, mark))

    def _page_along(self, query: Query[R], walk: EntryWalk) -> list[R] | None:
        newer = {*self._moved.get(query.record.shape.table, ()), *self.written(query.record.shape.table)}
        ids = (id for id in walk.ids() if id not in newer and self._may_pass(query, id))
        page = self._page_of(query, ids)
        return None if walk.has_shortened else self._with_newer(query, page)

    def _with_newer(self, query: Query[R], page: list[R]) -> list[R]:
        """The page, with what changed since its candidates were found."""
        table = query.record.shape.table
        newer = self._records(query.record, dict.fromkeys([*self._moved.get(table, ()), *self.written(table)]))
        return in_order([*page, *self._filtered(query, newer)], query) if newer else page

    def _by_turns(self, query: Query[R], walk: EntryWalk, named: EntryWalk) -> list[R] | None:
        """Until the entries of the value are all read, or a page's worth of those in order may pass."""
        looked_at = hopeful = 0
        while True:
            if not named.go_on():
                return self._put_in_order(query, named.read)
            hopeful += sum(self._may_pass(query, id) for id in walk.read[looked_at:])
            looked_at = len(walk.read)
            if hopeful >= (query.limit or 0) or not walk.go_on():
                return self._page_along(query, walk)

    def _put_in_order(self, query: Query[R], ids: Iterable[str]) -> list[R] | None:
        """The page of candidates that are put in order by their facts; None if facts do not tell the order."""
        fields = {one.field for one in query.ordering()} - {"id"}
        table = query.record.shape.table
        newer = {*self._moved.get(table, ()), *self.written(table)}
        known: list[R] = []
        unknown: list[str] = []
        for id in dict.fromkeys(ids):
            facts = self._known(query.record, id)
            if id in newer or (facts is not None and not self._may_pass(query, id)):
                continue
            if facts is None or not fields <= facts.names:
                unknown.append(id)
            else:
                known.append(partial_record(query.record, {**facts.known.__dict__, "id": id}))
        if self._are_most(query.record, len(unknown)):
            return None
        ordered = in_order([*known, *self._records(query.record, unknown)], replace(query, limit=None))
        return self._with_newer(query, self._page_of(query, iter([one.id for one in ordered])))

    # -- around what nearly all have ---------------------------------------------------------------------------------

    def _is_by_rare(self, query: Query[R]) -> bool:
        order, table = query.ordering(), query.record.shape.table
        field = order[0].field
        return (
            RARE.get((table, field)) is not None
            and [one.field for one in order[1:]] == ["id"]
            and order[1].descending == order[0].descending
        )

    def _around_the_usual(self, query: Query[R]) -> list[R] | None:
        """Those before the usual value by their entries, then those that have it in order of id, then the others."""
        (order, _), table = query.ordering(), query.record.shape.table
        usual: Any = RARE[(table, order.field)]
        word = ordered_word(query.record, order.field, usual)
        parts: list[tuple[Span | None, Compare]] = [
            (Span(order.field, word + LAST, LAST), Compare(order.field, ">", usual)),
            (None, Compare(order.field, "=", usual)),
            (Span(order.field, "", word), Compare(order.field, "<", usual)),
        ]
        page: list[R] = []
        for span, only in parts if order.descending else reversed(parts):
            left = replace(query, limit=(query.limit or 0) - len(page), where=(*query.where, only))
            found = self._usual(left, usual) if span is None else self._unusual(left, span)
            if found is None:
                return None
            page += found
            if len(page) == query.limit:
                break
        return page

    def _unusual(self, query: Query[R], span: Span) -> list[R] | None:
        bounded = self._from_the_start(query, span)
        if bounded is None:
            return None
        partitions = self.keys.indexes(query.record.shape.table, span.field)
        return self._page_along(query, self._entry_walk(query, bounded, partitions, query.ordering()[0].descending))

    def _usual(self, query: Query[R], usual: Any) -> list[R] | None:
        order, start, after = query.ordering()[0], query.start(), None
        if start is not None:
            if start[0] == usual:
                after = encode_cursor([start[1]])
            elif (start[0] < usual) == order.descending:
                return []  # the page before went beyond
        return self._in_order_of_id(replace(query, order=(Order("id", order.descending),), after=after))
