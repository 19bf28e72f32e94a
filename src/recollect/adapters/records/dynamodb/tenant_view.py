"""Reading one tenant as it is at one moment, though DynamoDB reads item by item.

Every read is consistent, but two reads are of two moments. So a view remembers the head it started from and what it
read; when the work is done it looks at the head again. Had nothing been committed in between, all that was read is of
one moment. If something was, the log says which records changed: just these are read again, and the work is repeated
on what is known. Nothing rests on an index that could lag behind: index entries are written in the transaction of
their record, and only lead to candidates, which are then held against the filters themselves; an entry also carries
the facts that most filters ask for (facts.py), so that what does not pass is mostly not read.

How a query finds its candidates, the first that applies: the ids it names; index entries of the values it names; the
records that a Linked filter leads to; a range of moments; all records of the type, page by page in order of id. A page
in order of id reads only as far as it is long.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.in_python_queries import (
    LIVING,
    fits,
    leading_to,
    once,
)
from recollect.adapters.records.dynamodb import codec as items_of
from recollect.adapters.records.dynamodb.client import pauses
from recollect.adapters.records.dynamodb.codec import Item, StoredRecord
from recollect.adapters.records.dynamodb.facts import Known, fact_fields, known_by_facts, partial_record
from recollect.adapters.records.dynamodb.keys import (
    SEPARATOR,
    Key,
    Keys,
    entry_fields,
    guarding,
    index_word,
)
from recollect.adapters.records.dynamodb.log import LogHead, TenantLog
from recollect.adapters.records.dynamodb.lookups import fields_of, is_gettable, lookups_of, values_of
from recollect.adapters.records.dynamodb.spans import COVERING, LAST, spans_of
from recollect.adapters.records.dynamodb.walks import EntryWalk, Name, RecordWalk
from recollect.domain.record import RECORDS, Record
from recollect.errors import DamagedData, RecollectError, StoreBusy
from recollect.ports.query import Filter, Linked, OneOf, Query

R = TypeVar("R", bound=Record)
T = TypeVar("T")
MOST_PATCHES = 300
MOST_LOOKUPS = 64  # asked for side by side; more values than this are read as one range of entries
MOST_LINKED = 2000
MANY = 100
READ_TOGETHER = 6  # records of a few hundred bytes in a page, for the unit that one takes alone

Path = tuple[str, str, str]
"""A table, a field and a value: what an index entry is found by."""


class TenantView:
    def __init__(self, tenant: TenantLog, codec: Callable[[type[Record]], Codec], head: LogHead | None = None) -> None:
        """From this head on, for who reads without settling what was read."""
        self._tenant = tenant
        self._codec = codec
        self.head = head or tenant.start()
        self._forget()

    def _forget(self) -> None:
        """Also where things were: another incarnation may have them elsewhere."""
        self.keys = self._tenant.keys_at(self.head)
        self._items: dict[Name, StoredRecord | None] = {}
        self._found: dict[Hashable, list[str]] = {}
        self._scans: dict[Hashable, RecordWalk] = {}
        self._walks: dict[Hashable, EntryWalk] = {}
        self._moved: dict[str, set[str]] = {}
        self._facts: dict[Name, str] = {}
        self._sharing: dict[Key, str] = {}

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
        before, self.head = self.head, head
        if head.is_at(before):
            is_same = (head.raw_counts, head.touches) == (before.raw_counts, before.touches)
            if not is_same:
                self._forget()  # touches moved entries or counts, and no log tells which
            return is_same
        self._sharing.clear()
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
        self._walks.clear()
        return self.is_still()

    def refresh(self, names: Sequence[Name]) -> None:
        """Read these again: they changed, or were touched."""
        for table, id in names:
            self._items.pop((table, id), None)
            self._facts.pop((table, id), None)
            self._moved.setdefault(table, set()).add(id)

    def alone(self, table: str, id: str) -> Record | None:
        """One record: with luck in one request, the head beside it."""
        key, name = _key(self.keys, (table, id)), (table, id)
        head = self.keys.head
        found = self._tenant.dynamo.get([head, key] if key else [head])
        still = self._tenant.as_head(found.get(head))
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

    def fetch_together(self, names: Iterable[Name], holders: Iterable[Key]) -> None:
        """Read these records and who is named by these guards and entries; what is torn is left to `fetch`."""
        known = self._items
        missing = {name: key for name in names if name not in known and (key := _key(self.keys, name)) is not None}
        unread = [key for key in holders if key not in self._sharing]
        items = self._tenant.dynamo.get([*missing.values(), *unread])
        self._sharing |= {key: items[key]["d"] if key in items else "" for key in unread}
        read: dict[Name, StoredRecord | None] = dict.fromkeys(missing)
        torn = self.joined([(name, items[key]) for name, key in missing.items() if key in items], read)
        self._items |= {name: found for name, found in read.items() if name not in torn}

    def _read(self, names: Sequence[Name]) -> dict[Name, StoredRecord | None]:
        keys = {name: key for name in names if (key := _key(self.keys, name)) is not None}
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
        keys = self.keys
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
        return next(iter(self.holders_of([guard])[guard]), None)

    # -- queries -----------------------------------------------------------------------------------------------------

    def record(self, table: str, id: str) -> Record | None:
        found = self.stored(table, id)
        return found.record if found else None

    def written(self, table: str) -> Collection[str]:
        """The ids of records that the view's owner changed but did not commit; a view that only reads has none."""
        return ()

    def _known(self, record: type[Record], id: str) -> Known | None:
        return known_by_facts(record, self._facts.get((record.shape.table, id)))

    def passing(self, query: Query[R]) -> list[R]:
        """All that pass the filters, in no order."""
        candidates = self._candidates(query)
        return self._filtered(query, candidates, self._all(query.record))

    def _filtered(self, query: Query[R], few: list[R] | None, many: Iterable[R] = ()) -> list[R]:
        linked = once(partial(self._linked, few))
        wanted = LIVING[query.deleted]
        return [
            record
            for record in (many if few is None else few)
            if record.is_deleted in wanted and all(fits(record, one, linked) for one in query.where)
        ]

    def _linked(self, few: Sequence[Record] | None, given: Linked) -> set[str]:
        """The values that a Linked filter finds something for; only those that matter where only a few records do."""
        wanted = {getattr(one, given.by) for one in few} - {None} if few is not None else None
        more = () if wanted is None else (OneOf(given.field, tuple(sorted(wanted))),)
        query = leading_to(given, *more)
        ids = self._named(query.record, query.where, query.deleted)
        if ids is None:
            ids = self.covered(query, given.field)
        if ids is None:
            return {getattr(link, given.field) for link in self.passing(query)} - {None}  # a link may be empty
        by_facts, unclear = self._judged(query, ids)
        values = {getattr(one, given.field) for one in by_facts if hasattr(one, given.field)}
        unclear += [one.id for one in by_facts if not hasattr(one, given.field)]
        read = self._filtered(query, self._records(query.record, unclear))
        return (values | {getattr(link, given.field) for link in read}) - {None}

    def _judged(self, query: Query[R], ids: Collection[str]) -> tuple[list[R], list[str]]:
        """Of these candidates and what changed since they were found: those that pass, with their facts and id alone,
        and the ids of those that have to be read."""
        table = query.record.shape.table
        newer = {*self._moved.get(table, ()), *self.written(table)}
        linked = once(partial(self._linked, None))
        passing: list[R] = []
        unclear = list(newer)
        for id in dict.fromkeys(ids):
            if id in newer:
                continue
            known = self._known(query.record, id)
            verdict = self._verdict(query, id, known, linked) if known is not None else None
            if verdict is None:
                unclear.append(id)
            elif verdict and known is not None:
                passing.append(partial_record(query.record, {**known.known.__dict__, "id": id}))
        return passing, unclear

    def _verdict(
        self, query: Query[R], id: str, known: Known, linked: Callable[[Linked], Collection[str]]
    ) -> bool | None:
        """As `verdict_on`; Linked filters are asked for only where the others leave it open."""
        links = [one for one in query.where if isinstance(one, Linked) and (one.by == "id" or one.by in known.names)]
        rest = replace(query, where=tuple(one for one in query.where if one not in links)) if links else query
        verdict = verdict_on(known, rest)
        if verdict is False:
            return False
        for one in links:
            value = id if one.by == "id" else getattr(known.known, one.by)
            if (value in linked(one)) != one.wanted:
                return False
        return verdict

    def _candidates(self, query: Query[R]) -> list[R] | None:
        """A few records among which all that pass must be; None when only reading all will do."""
        ids = self._named(query.record, query.where, query.deleted)
        if ids is None:
            return None
        table = query.record.shape.table
        newer = {*self._moved.get(table, ()), *self.written(table)}
        hopeful = [id for id in ids if id in newer or self._may_pass(query, id)]
        is_by_id = any(values_of(one, "id") is not None for one in query.where)
        if not is_by_id and self._are_most(query.record, len(hopeful)):
            return None
        return self._records(query.record, dict.fromkeys([*hopeful, *newer]))

    def _are_most(self, record: type[Record], count: int) -> bool:
        """Whether reading all is cheaper than reading these: a page has some six for the price of one."""
        if count < MANY:
            return False
        counts = self.head.counts()
        return counts is not None and READ_TOGETHER * count > sum(counts.of(record).values())

    def _may_pass(self, query: Query[Record], id: str) -> bool:
        known = self._known(query.record, id)
        return known is None or verdict_on(known, query) is not False

    def _records(self, record: type[R], ids: Iterable[str]) -> list[R]:
        table = record.shape.table
        names = [(table, id) for id in ids]
        self.fetch(names)
        found = (self.record(*name) for name in names)
        return [one for one in found if isinstance(one, record)]

    def _named(self, record: type[Record], where: Sequence[Filter], deleted: str) -> Collection[str] | None:
        """The ids of all that may pass, where something leads to them."""
        way = self._way(record, where, deleted)
        return way() if way is not None else None

    def _way(
        self, record: type[Record], where: Sequence[Filter], deleted: str
    ) -> Callable[[], Collection[str] | None] | None:
        """What leads to those that may pass, not gone yet: the first that applies."""
        by_id = [values for one in where if (values := values_of(one, "id")) is not None]
        if by_id:
            return lambda: set.intersection(*map(set, by_id))
        table = record.shape.table
        lookups = lookups_of(record, where)
        if lookups:
            return partial(self._looked_up, table, *min(lookups, key=lambda pair: len(pair[1])))
        if deleted == "only" and "is_deleted" in entry_fields(record):
            return partial(self._in_span, table, "is_deleted", "", LAST)
        for one in where:
            if isinstance(one, Linked) and one.wanted and one.by == "id":
                return partial(self._linked_ids, one)
        found = next(spans_of(record, where), None)
        return partial(self._in_span, table, found.field, found.low, found.high) if found is not None else None

    def _linked_ids(self, given: Linked) -> Collection[str] | None:
        ids = self._linked(None, given)
        return ids if len(ids) <= MOST_LINKED else None

    def covered(self, query: Query[Record], *more: str) -> list[str] | None:
        """The ids of all records of a type with their facts, where there is an entry for each, and facts tell all that
        is asked of them: the filters, and these fields more."""
        field = COVERING.get(query.record.shape.table)
        told = {*fact_fields(query.record), "id"}
        if field is None or not {*fields_of(query.where), *more} <= told:
            return None
        return self._in_span(query.record.shape.table, field, "", LAST)

    def _looked_up(self, table: str, field: str, values: Collection[str]) -> list[str]:
        unknown = [(table, field, value) for value in values if (table, field, value) not in self._found]
        if len(unknown) > MOST_LOOKUPS and not is_gettable(table, field):
            return self._looked_up_together(table, field, values)
        self.look_up(unknown)
        return [id for value in values for id in self._found[(table, field, value)]]

    def look_up(self, paths: Sequence[Path]) -> None:
        """Who has these (table, field, value): those with a key of their own by the hundred, others side by side."""
        unknown = [path for path in paths if path not in self._found]
        self._get_holders(unknown)
        listed = [path for path in unknown if not is_gettable(*path[:2])]
        spans = [(path, *span) for path in listed for span in self._spans(path)]
        read = self._tenant.dynamo.at_once(self._listed, [(partition, word) for _, partition, word in spans])
        self._found |= {path: [] for path in listed}
        for (path, _, _), entries in zip(spans, read, strict=True):
            self._found[path] += self._ids_of(path[0], entries)

    def _spans(self, path: Path) -> Iterator[tuple[str, str]]:
        """Where the entries of a value are, and how they begin."""
        table, field, value = path
        for word in self._words(table, field, [value]):
            yield from ((partition, word) for partition in self.keys.indexes(table, field, word))

    def _listed(self, span: tuple[str, str]) -> list[Item]:
        partition, word = span
        return self._tenant.dynamo.query(partition, "begins_with(s, :s)", {":s": word})

    def holder_keys(self, paths: Iterable[Path]) -> list[Key]:
        """The items that say who has these values, of those that are read by their keys."""
        return [key for path in paths if is_gettable(*path[:2]) for key in self._holder_keys(*path)]

    def _get_holders(self, paths: Sequence[Path]) -> None:
        wanted = {path: self._holder_keys(*path) for path in paths if is_gettable(*path[:2])}
        held = self.holders_of({key for keys in wanted.values() for key in keys})
        for path, keys in wanted.items():
            self._found[path] = [id for key in keys for id in sorted(held[key])]

    def holders_of(self, keys: Collection[Key]) -> dict[Key, set[str]]:
        """Who is named by guards and by entries that several share, as they are now."""
        return {key: set(filter(None, text.split(SEPARATOR))) for key, text in self.texts_at(keys).items()}

    def texts_at(self, keys: Collection[Key]) -> dict[Key, str]:
        """What guards, tallies and entries that several share say, as they are now; nothing where there is none."""
        unread = [key for key in keys if key not in self._sharing]
        if unread:
            read = self._tenant.dynamo.get(unread)
            self._sharing |= {key: read[key]["d"] if key in read else "" for key in unread}
        return {key: self._sharing[key] for key in keys}

    def forget_shared(self) -> None:
        """What `texts_at` has read may have changed, though the head did not move."""
        self._sharing.clear()

    def _holder_keys(self, table: str, field: str, value: str) -> list[Key]:
        """The items that say who has a value, in whichever form it is stored."""
        unique = guarding(RECORDS[table], field)
        if unique is not None:
            return [self.keys.guard(table, unique, (value,))]
        return [self.keys.gathering(table, field, form) for form in self._forms(table, field, value)]

    def _forms(self, table: str, field: str, value: str) -> list[object]:
        return self._codec(RECORDS[table]).forms(self._tenant.id, field, value)

    def _words(self, table: str, field: str, values: Iterable[str]) -> list[str]:
        """How the index entries of these values begin, in whichever form they are stored."""
        return [index_word(form) for value in values for form in self._forms(table, field, value)]

    def _ids_of(self, table: str, entries: Iterable[Item]) -> list[str]:
        """Where some index entries lead; their facts are noted, as long as nothing changed since."""
        moved, ids = self._moved.get(table, ()), []
        for entry in entries:
            ids.append(entry["d"])
            if "f" in entry and entry["d"] not in moved:
                self._facts[(table, entry["d"])] = entry["f"]
        return ids

    def _looked_up_together(self, table: str, field: str, values: Collection[str]) -> list[str]:
        words = sorted(self._words(table, field, values))
        wanted = set(words)
        path = (table, field, words[0], words[-1])
        if path not in self._found:
            spans: dict[str, list[str]] = {}
            for word in words:
                for partition in self.keys.indexes(table, field, word):
                    spans.setdefault(partition, []).append(word)
            read = self._tenant.dynamo.at_once(self._spanned, list(spans.items()))
            entries = (entry for some in read for entry in some if _word(entry["s"]) in wanted)
            self._found[path] = self._ids_of(table, entries)
        return self._found[path]

    def _spanned(self, span: tuple[str, list[str]]) -> list[Item]:
        partition, words = span
        return self._entries_between(partition, words[0], words[-1] + LAST)

    def _entries_between(self, partition: str, low: str, high: str) -> list[Item]:
        if low > high:  # filters that leave nothing
            return []
        condition = "s BETWEEN :a AND :b" if low else "s <= :b"
        return self._tenant.dynamo.query(partition, condition, {":b": high, **({":a": low} if low else {})})

    def _in_span(self, table: str, field: str, low: str, high: str) -> list[str]:
        path = (table, field, low, high)
        if path not in self._found:
            spans = [(partition, low, high) for partition in self.keys.indexes(table, field)]
            read = self._tenant.dynamo.at_once(lambda span: self._entries_between(*span), spans)
            self._found[path] = [id for entries in read for id in self._ids_of(table, entries)]
        return self._found[path]

    # -- all records of a type ---------------------------------------------------------------------------------------

    def _all(self, record: type[R]) -> Iterator[R]:
        return self._walk(record, self._scan(record.shape.table, True, None))

    def everything(self, table: str) -> Iterator[StoredRecord]:
        """All that is stored of a type and not gone, each with its seq; of no one moment."""
        return iter(self._scan(table, True, None))

    def _scan(self, table: str, forward: bool, start: str | None, limit: int | None = None) -> RecordWalk:
        path = (table, forward, start)
        if path not in self._scans:
            self._scans[path] = RecordWalk(self, self._tenant.dynamo, table, forward, start, limit)
        return self._scans[path]

    def _walk(self, record: type[R], scan: RecordWalk, *, down: bool = False) -> Iterator[R]:
        """What was scanned, with the newer state of what changed since."""
        table = record.shape.table
        newer = {*self._moved.get(table, ()), *self.written(table)}
        changed = sorted(self._records(record, newer), key=lambda one: one.id, reverse=down)
        raw: Iterator[Any] = (one.record for one in scan if one.record is not None and one.record.id not in newer)
        yield from heapq.merge(raw, changed, key=lambda one: one.id, reverse=down)


def _key(keys: Keys, name: Name) -> Key | None:
    """None for an id that nothing can have."""
    table, id = name
    try:
        return keys.record(table, id) if id else None
    except UnicodeEncodeError:
        return None


def _word(sort: str) -> str:
    return sort.rpartition(SEPARATOR)[0] + SEPARATOR


def verdict_on(known: Known, query: Query[Record]) -> bool | None:
    """Whether a record passes, as far as is known of it; None if it has to be read."""
    return known.known.is_deleted in LIVING[query.deleted] and known.passes_all(query.where)
