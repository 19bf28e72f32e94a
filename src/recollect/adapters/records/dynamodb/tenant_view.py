"""Reading one tenant as it is at one moment, though DynamoDB reads item by item.

Every read is consistent, but two reads are of two moments. So a view remembers the head it started from and what it
read; when the work is done it looks at the head again. Had nothing been committed in between, all that was read is of
one moment. If something was, the log says which records changed: just these are read again, and the work is repeated
on what is known. Nothing rests on an index that could lag behind: index entries are written in the transaction of
their record, and only lead to candidates, which are then held against the filters themselves.

How a query finds its candidates, the first that applies: the ids it names; index entries of the values it names; the
records that a Linked filter leads to; a range of moments; all records of the type, page by page in order of id.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from recollect.adapters.records.common.checks import check_query
from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.in_python_queries import LIVING, fits, in_order, is_beyond, leading_to, once
from recollect.adapters.records.dynamodb import codec as items_of
from recollect.adapters.records.dynamodb.client import pauses
from recollect.adapters.records.dynamodb.codec import Item, StoredRecord
from recollect.adapters.records.dynamodb.keys import Key, field_word, index_word, indexed_fields
from recollect.adapters.records.dynamodb.log import LogHead, TenantLog
from recollect.domain.record import RECORDS, Record
from recollect.errors import DamagedData, RecollectError, StoreBusy
from recollect.ports.query import AnyOf, Compare, Filter, Linked, OneOf, Query

R = TypeVar("R", bound=Record)
T = TypeVar("T")
Name = tuple[str, str]  # table, id
MOST_PATCHES = 300
MOST_LOOKUPS = 64  # asked for side by side; more values than this are read as one range of entries
MOST_LINKED = 2000
LAST = "\U0010ffff"

Path = tuple[str, str, str]
"""A table, a field and a value: what an index entry is found by."""


class TenantView:
    def __init__(self, tenant: TenantLog, codec: Callable[[type[Record]], Codec]) -> None:
        self._tenant = tenant
        self._codec = codec
        self.head = tenant.start()
        self._forget()

    def _forget(self) -> None:
        self._items: dict[Name, StoredRecord | None] = {}
        self._found: dict[Hashable, list[str]] = {}
        self._scans: dict[Hashable, _Scan] = {}
        self._moved: dict[str, set[str]] = {}

    # -- one moment --------------------------------------------------------------------------------------------------

    def settled(self, work: Callable[[], T]) -> T:
        """The answer of some work that only reads, all of one moment."""
        for pause in pauses(60):
            try:
                answer = work()
            except RecollectError:
                if self.is_final():
                    raise
                continue
            if self.is_still():
                return answer
            pause()
        raise StoreBusy("the table is written to faster than it can be read", remedy="try again, or ask for less")

    def is_still(self) -> bool:
        """Whether all that was read is of the head's moment; if not, what changed since is read again."""
        head = self._tenant.head()
        if head.is_at(self.head):
            return True
        before, self.head = self.head, head
        changed = list(islice(self._tenant.log_after(before.seq), MOST_PATCHES + 1))
        if head.incarnation != before.incarnation or len(changed) > MOST_PATCHES:
            self._forget()
            return False
        names = [(table, id) for table, id, _, _ in changed]
        self.refresh(names)
        return False

    def is_final(self) -> bool:
        """After an error: whether it is about one moment, or came of reading two."""
        self._scans.clear()  # the error may have cut one short
        return self.is_still()

    def refresh(self, names: Sequence[Name]) -> None:
        """Read these again: they changed, or were touched."""
        for table, id in names:
            self._items.pop((table, id), None)
            self._moved.setdefault(table, set()).add(id)

    def alone(self, table: str, id: str) -> Record | None:
        """One record: with luck in one request, the head beside it."""
        key, name = _key(self._tenant, (table, id)), (table, id)
        head = self._tenant.keys.head
        found = self._tenant.dynamo.get([head, key] if key else [head])
        still = LogHead.of(found.get(head))
        if still.is_at(self.head) and not still.under_way:
            read: dict[Name, StoredRecord | None] = {}
            item = found.get(key) if key else None
            if not self.joined([(name, item)] if item else [], read):
                known = read.get(name)
                return known.record if known else None
        return self.settled(lambda: self.record(table, id))

    # -- single records ----------------------------------------------------------------------------------------------

    def stored(self, table: str, id: str) -> StoredRecord | None:
        self.fetch([(table, id)])
        return self._items[(table, id)]

    def fetch(self, names: Iterable[Name]) -> None:
        """Read these together, unless they are known."""
        missing = [name for name in dict.fromkeys(names) if name not in self._items]
        if missing:
            self._items.update(self._read(missing))

    def _read(self, names: Sequence[Name]) -> dict[Name, StoredRecord | None]:
        keys = {name: key for name in names if (key := _key(self._tenant, name)) is not None}
        read: dict[Name, StoredRecord | None] = dict.fromkeys(names)
        for pause in pauses():
            items = self._tenant.dynamo.get(keys.values())
            pairs = [(name, items[key]) for name, key in keys.items() if key in items]
            torn = self.joined(pairs, read)
            if not torn:
                return read
            keys = {name: keys[name] for name in torn}
            pause()
        raise DamagedData(f"a part of {torn[0][0]} '{torn[0][1]}' is missing", remedy="run `recollect verify`")

    def joined(self, pairs: Sequence[tuple[Name, Item]], into: dict[Name, StoredRecord | None]) -> list[Name]:
        """Items made records, parts and all; gives those that changed while their parts were read."""
        keys = self._tenant.keys
        wanted = {name: items_of.part_keys(keys, name[0], item) for name, item in pairs if item.get("n")}
        parts = self._tenant.dynamo.get([key for some in wanted.values() for key in some]) if wanted else {}
        torn = [name for name, some in wanted.items() if any(key not in parts for key in some)]
        for name, item in pairs:
            if name in torn:
                continue
            record = RECORDS[name[0]]
            pieces = [parts[key]["b"] for key in wanted.get(name, ())]
            into[name] = items_of.stored(self._codec(record), record, item, pieces)
        return torn

    def holder(self, guard: Key) -> str | None:
        """Whose a unique value is."""
        item = self._tenant.dynamo.get([guard]).get(guard)
        return item["d"] if item else None

    # -- queries -----------------------------------------------------------------------------------------------------

    def record(self, table: str, id: str) -> Record | None:
        found = self.stored(table, id)
        return found.record if found else None

    def written(self, table: str) -> Collection[str]:
        """The ids of records that the view's owner changed but did not commit; a view that only reads has none."""
        return ()

    def matching(self, query: Query[R]) -> list[R]:
        check_query(query)
        if _by_id_alone(query):
            page = self._in_order_of_id(query)
            if page is not None:
                return page
        return in_order(self.passing(query), query)

    def passing(self, query: Query[R]) -> list[R]:
        """All that pass the filters, in no order."""
        candidates = self._candidates(query.record, query.where)
        linked = once(partial(self._linked, candidates))
        wanted = LIVING[query.deleted]
        return [
            record
            for record in (self._all(query.record) if candidates is None else candidates)
            if record.is_deleted in wanted and all(fits(record, one, linked) for one in query.where)
        ]

    def _linked(self, few: Sequence[Record] | None, given: Linked) -> set[str]:
        """The values that a Linked filter finds something for; only those that matter where only a few records do."""
        wanted = {getattr(one, given.by) for one in few} - {None} if few is not None else None
        more = () if wanted is None else (OneOf(given.field, tuple(sorted(wanted))),)
        return {getattr(link, given.field) for link in self.passing(leading_to(given, *more))}

    def _candidates(self, record: type[R], where: Sequence[Filter]) -> list[R] | None:
        """A few records among which all that pass must be; None when only reading all will do."""
        ids = self._named(record, where)
        if ids is None:
            return None
        table = record.shape.table
        return self._records(record, dict.fromkeys([*ids, *self._moved.get(table, ()), *self.written(table)]))

    def _records(self, record: type[R], ids: Iterable[str]) -> list[R]:
        table = record.shape.table
        names = [(table, id) for id in ids]
        self.fetch(names)
        found = (self.record(*name) for name in names)
        return [one for one in found if isinstance(one, record)]

    def _named(self, record: type[Record], where: Sequence[Filter]) -> Collection[str] | None:
        by_id = [values for one in where if (values := values_of(one, "id")) is not None]
        if by_id:
            return set.intersection(*map(set, by_id))
        table, fields = record.shape.table, indexed_fields(record)
        lookups = [
            (field, values) for one in where for field in fields if (values := values_of(one, field)) is not None
        ]
        if lookups:
            return self._looked_up(table, *min(lookups, key=lambda pair: len(pair[1])))
        for one in where:
            if isinstance(one, Linked) and one.wanted and one.by == "id":
                ids = self._linked(None, one)
                return ids if len(ids) <= MOST_LINKED else None
        ranges = [one for one in where if isinstance(one, Compare) and one.field in fields and one.operator != "!="]
        return self._in_range(table, ranges[0]) if ranges and _is_moment(record, ranges[0].field) else None

    def _looked_up(self, table: str, field: str, values: Collection[str]) -> list[str]:
        unknown = [(table, field, value) for value in values if (table, field, value) not in self._found]
        if len(unknown) > MOST_LOOKUPS:
            return self._looked_up_together(table, field, values)
        self.look_up(unknown)
        return [id for value in values for id in self._found[(table, field, value)]]

    def look_up(self, paths: Sequence[Path]) -> None:
        """The index entries of several (table, field, value), asked for side by side."""
        unknown = [path for path in paths if path not in self._found]
        query, partition = self._tenant.dynamo.query, self._tenant.keys.index

        def one(path: Path) -> list[Item]:
            words = self._words(*path[:2], [path[2]])
            return [item for word in words for item in query(partition, "begins_with(s, :s)", {":s": word})]

        for path, entries in zip(unknown, self._tenant.dynamo.at_once(one, unknown), strict=True):
            self._found[path] = [entry["d"] for entry in entries]

    def _words(self, table: str, field: str, values: Iterable[str]) -> list[str]:
        """How the index entries of these values begin, in whichever form they are stored."""
        forms = self._codec(RECORDS[table]).forms
        return [index_word(table, field, form) for value in values for form in forms(self._tenant.id, field, value)]

    def _looked_up_together(self, table: str, field: str, values: Collection[str]) -> list[str]:
        words = sorted(self._words(table, field, values))
        wanted = set(words)
        path = (table, field, words[0], words[-1])
        if path not in self._found:
            entries = self._tenant.dynamo.query(
                self._tenant.keys.index, "s BETWEEN :a AND :b", {":a": words[0], ":b": words[-1] + LAST}
            )
            self._found[path] = [entry["d"] for entry in entries if _word(entry["s"]) in wanted]
        return self._found[path]

    def _in_range(self, table: str, given: Compare) -> list[str] | None:
        if given.value is None:
            return []
        field, mark = field_word(table, given.field), index_word(table, given.field, given.value)
        low, high = (mark, field + LAST) if given.operator in (">", ">=") else (field, mark + LAST)
        if given.operator == "=":
            low = mark
        path = (table, given.field, low, high)
        if path not in self._found:
            entries = self._tenant.dynamo.query(self._tenant.keys.index, "s BETWEEN :a AND :b", {":a": low, ":b": high})
            self._found[path] = [entry["d"] for entry in entries]
        return self._found[path]

    # -- all records of a type ---------------------------------------------------------------------------------------

    def _all(self, record: type[R]) -> Iterator[R]:
        return self._walk(record, self._scan(record.shape.table, True, None))

    def everything(self, table: str) -> Iterator[StoredRecord]:
        """All that is stored of a type and not gone, each with its seq; of no one moment."""
        return iter(self._scan(table, True, None))

    def _in_order_of_id(self, query: Query[R]) -> list[R] | None:
        """One page without reading the rest; None if ids are so long that their keys are not in order."""
        down, start = query.ordering()[0].descending, query.start()
        scan = self._scan(query.record.shape.table, not down, start[0] if start else None)
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

    def _scan(self, table: str, forward: bool, start: str | None) -> _Scan:
        path = (table, forward, start)
        if path not in self._scans:
            self._scans[path] = _Scan(self, self._tenant, table, forward, start)
        return self._scans[path]

    def _walk(self, record: type[R], scan: _Scan, *, down: bool = False) -> Iterator[R]:
        """What was scanned, with the newer state of what changed since."""
        table = record.shape.table
        newer = {*self._moved.get(table, ()), *self.written(table)}
        changed = sorted(self._records(record, newer), key=lambda one: one.id, reverse=down)
        raw: Iterator[Any] = (one.record for one in scan if one.record is not None and one.record.id not in newer)
        yield from heapq.merge(raw, changed, key=lambda one: one.id, reverse=down)


class _Scan:
    """The records of one type as they come, page by page; what was read is kept for the next time."""

    def __init__(self, view: TenantView, tenant: TenantLog, table: str, forward: bool, start: str | None) -> None:
        self._view = view
        self._table = table
        self._read: list[StoredRecord] = []
        self.has_shortened = False
        condition, values = "", {}
        if start is not None and len(start.encode()) < items_of.PART:
            key = tenant.keys.record(table, start)[1]
            condition, values = ("s >= :s" if forward else "s <= :s"), {":s": key}
        self._pages: Iterator[list[Item]] = tenant.dynamo.pages(
            tenant.keys.records(table), condition, values, forward=forward
        )

    def __iter__(self) -> Iterator[StoredRecord]:
        place = 0
        while True:
            while place < len(self._read):
                yield self._read[place]
                place += 1
            page = next(self._pages, None)
            if page is None:
                return
            self._take(page)

    def _take(self, page: list[Item]) -> None:
        pairs = [((self._table, item.get("d") or item["s"]), item) for item in page if not item.get("z")]
        read: dict[Name, StoredRecord | None] = {}
        torn = self._view.joined(pairs, read)
        self._view.fetch(torn)  # changed meanwhile: read anew, whole
        for (_, id), item in pairs:
            found = read.get((self._table, id)) or self._view.stored(self._table, id)
            if found is not None and found.record is not None:
                self._read.append(found)
                self.has_shortened |= item["s"] != found.record.id


def _key(tenant: TenantLog, name: Name) -> Key | None:
    """None for an id that nothing can have."""
    table, id = name
    try:
        return tenant.keys.record(table, id) if id else None
    except UnicodeEncodeError:
        return None


def values_of(given: Filter, field: str) -> Collection[str] | None:
    """The values that a filter leaves to a field, if it names them."""
    if isinstance(given, Compare) and given.field == field and given.operator == "=" and given.key is None:
        return () if given.value is None else (given.value,)
    if isinstance(given, OneOf) and given.wanted and given.field == field and None not in given.values:
        return tuple(dict.fromkeys(given.values))
    return None


def _is_moment(record: type[Record], field: str) -> bool:
    return any(column.name == field and column.type == "moment" for column in record.columns())


def _word(sort: str) -> str:
    return sort.rpartition("\x1f")[0] + "\x1f"


def _by_id_alone(query: Query[Record]) -> bool:
    ordering = query.ordering()
    ids_named = any(values_of(one, "id") is not None for one in query.where)
    return bool(query.limit) and ordering[0].field == "id" and not ids_named and not _narrows(query)


def _narrows(query: Query[Record]) -> bool:
    """Whether a filter leads to few candidates, so that reading page by page would be the longer way."""
    record: type[Record] = query.record
    fields = indexed_fields(record)
    named = any(values_of(one, field) is not None for one in query.where for field in fields)
    return named or any(isinstance(one, Linked | AnyOf) for one in query.where)
