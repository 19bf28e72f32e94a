"""Writing: the steps are planned on a view in our own code, then committed at once.

A transaction of up to 99 items and 3 MB is one TransactWriteItems: the head moves from the seq that the plan was made
on, the log tells what changed, and records, index entries and guards follow. If the head has moved meanwhile, what
changed is read again and the plan made anew. What the head counts is changed in the same write. A larger one is staged
first, invisible to all; then the head names it, and in that moment it has happened; then it is applied in pieces by
this process, or by whoever reads the head next.
A touch leaves the head alone: it asks only that the records it counts on are as they were.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from recollect.adapters.records.common.checks import check_filters
from recollect.adapters.records.common.record_tables import RecordTables
from recollect.adapters.records.common.transaction import Transaction, referrers
from recollect.adapters.records.dynamodb import codec as items_of
from recollect.adapters.records.dynamodb import tallies
from recollect.adapters.records.dynamodb.client import TransactionCancelled, TransactionContended
from recollect.adapters.records.dynamodb.codec import Item, StoredRecord
from recollect.adapters.records.dynamodb.facts import facts_of, group_of
from recollect.adapters.records.dynamodb.keys import SEPARATOR, TENANTS, Key, Keys, in_orders, indexed_fields
from recollect.adapters.records.dynamodb.log import ENDING, MOST_BYTES, MOST_WRITES, Change, size_of
from recollect.adapters.records.dynamodb.lookups import lookups_of
from recollect.adapters.records.dynamodb.paging import PagingView
from recollect.adapters.records.dynamodb.tenant_view import Path
from recollect.adapters.records.dynamodb.walks import Name
from recollect.domain.record import RECORDS, Record, Unique, new_id
from recollect.domain.tenancy import Organization
from recollect.errors import Closed, InvalidInput, Unavailable
from recollect.ports.query import OneOf, Query
from recollect.ports.records import Scope
from recollect.ports.steps import Absent, Committed, Delete, DeleteWhere, Insert, Put, Require, Step, Touch, Update

R = TypeVar("R", bound=Record)
FEW = 4
ORGANIZATION = Organization.shape.table
log = logging.getLogger("recollect.records")


class TooMuchTogether(Exception):
    """What several want does not fit into one transaction; `share` is the part of it that would."""

    def __init__(self, share: float) -> None:
        self.share = share


class TransactionPlan(PagingView, RecordTables):
    """A view on which the steps leave what they do: the tables of one transaction, or of several that go together."""

    def begin(self, steps: Sequence[Step]) -> None:
        self.seq = self.head.seq
        self._new: dict[Name, Record | None] = {}
        self._seqs: dict[Name, int] = {}
        self._holders: dict[Key, str | None] = {}
        self._counts: bytes | None = None
        self._prefetch(steps)

    def apply(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        """What one caller wants, after what those before it want; if it is refused, nothing of it is left."""
        before = self.seq, dict(self._new), dict(self._seqs), dict(self._holders)
        try:
            return Transaction(self, scope).apply(steps)
        except Exception:
            self.seq, self._new, self._seqs, self._holders = before
            raise

    # -- the tables of the steps -------------------------------------------------------------------------------------

    def record(self, table: str, id: str) -> Record | None:
        return self._new[(table, id)] if (table, id) in self._new else super().record(table, id)

    def written(self, table: str) -> Collection[str]:
        return [id for name, id in self._new if name == table]

    read = record

    def present(self, record: type[Record], ids: Sequence[str]) -> list[tuple[Record, str]]:
        found = super().present(record, ids)
        if len(found) <= FEW:  # what hangs on them is looked for together
            hanging = [(one, field) for one, field, _ in referrers(record.shape.table) if field in indexed_fields(one)]
            self.look_up([(one.shape.table, field, id) for one, field in hanging for _, id in found])
        return found

    def hanging(self, record: type[R], field: str, ids: Sequence[str]) -> list[R]:
        return self.passing(Query(record, (OneOf(field, tuple(ids)),), deleted="yes"))

    def is_taken(self, record: Record, key: Unique, values: tuple[object, ...]) -> bool:
        guard = self.keys.guard(record.shape.table, key, values)
        if guard not in self._holders:
            self._holders[guard] = self.holder(guard)
        return self._holders[guard] not in (None, record.id)

    def write(self, record: Record) -> None:
        self._hold(record)
        self._put(record.shape.table, record.id, record)

    def erase(self, record: Record) -> None:
        self._hold(None, self.record(record.shape.table, record.id))
        self._put(record.shape.table, record.id, None)

    def rewrite(self, record: Record) -> None:
        self._new[(record.shape.table, record.id)] = record

    def _put(self, table: str, id: str, record: Record | None) -> None:
        self.seq += 1
        self._new[(table, id)] = record
        self._seqs[(table, id)] = self.seq

    def _hold(self, record: Record | None, before: Record | None = None) -> None:
        """Guards given back and guards taken, for the steps that come."""
        before = before or (self.record(record.shape.table, record.id) if record else None)
        if before is not None:
            self._holders.update(dict.fromkeys(self.keys.unique(before)))
        if record is not None:
            self._holders.update(self.keys.unique(record))

    def _prefetch(self, steps: Sequence[Step]) -> None:
        """All that the steps name, in one request where it can be: who writes next waits for it."""
        names: list[Name] = []
        guards: list[Key] = []
        counted: list[Key] = []
        for step in steps:
            if isinstance(step, Insert | Update | Put):
                record = step.record
                names.append((record.shape.table, record.id))
                refers = record.shape.references.items()
                names += [(one.to, id) for field, one in refers if (id := record.refers(field)) is not None]
                if record.organization_id == self._tenant.id:
                    guards += self.keys.unique(record)
                    counted += [key for key, _ in tallies.counted_in(self.keys, record) if isinstance(step, Insert)]
            elif isinstance(step, Delete | Touch | Require):
                names.append((step.record.shape.table, step.id))
        paths = list(dict.fromkeys(_paths(steps)))
        self.fetch_together(names, [*guards, *self.holder_keys(paths), *counted])
        self.look_up(paths)
        self.fetch(names)
        self._holders.update({guard: self.holder(guard) for guard in guards})

    # -- committing --------------------------------------------------------------------------------------------------

    def prepare(self, *, is_shared: bool) -> None:
        """Make the writes, without sending any. Raises TooMuchTogether if they are of several and would be staged."""
        self._token = new_id()
        self._made = [] if self._is_end() else self._writes(self._token)
        self._counts = self._counted()
        size = sum(size_of((key, item)) for key, item, *_ in self._made)
        self._is_large = len(self._made) > MOST_WRITES or size > MOST_BYTES
        if self._is_large and is_shared:
            raise TooMuchTogether(min(MOST_WRITES / len(self._made), MOST_BYTES / size))

    def commit(self) -> int | None:
        """The seq of the last change, 0 if there was none; None if the plan has to be made again."""
        if not self._new:
            return 0 if self.is_still() else None
        if self._is_end():
            return self._commit_end()
        if self._is_large:
            return self._commit_staged(self._made, self._token)
        return self._commit_at_once(self._made, self._token)

    def _is_end(self) -> bool:
        """Whether the tenant itself is deleted."""
        name = (ORGANIZATION, self._tenant.id)
        return name in self._seqs and self._new[name] is None

    def _commit_at_once(self, writes: list[_Write], token: str) -> int | None:
        dynamo = self._tenant.dynamo
        made = [
            dynamo.delete(key, condition, **values) if item is None else dynamo.put(item, condition, **values)
            for key, item, condition, values in writes
        ]
        head = self._head_write()
        try:
            dynamo.transact([*head, *made], token)
        except TransactionCancelled as failed:
            if self._seqs and 0 in failed.places and self._tenant.was_committed(self.seq, token):
                return self._done(head)
            touched = {self.keys.record(*name): name for name in self._new}
            places = [place - len(head) for place in failed.places if place >= len(head)]
            self.refresh([touched[writes[place][0]] for place in places if writes[place][0] in touched])
            self.forget_shared()
            self.is_still()
            return None
        except TransactionContended:
            self.is_still()
            return None
        except Unavailable:
            if self._seqs and self._tenant.was_committed(self.seq, token):
                return self._done(head)
            raise
        return self._done(head)

    def _commit_staged(self, writes: list[_Write], token: str) -> int | None:
        tenant = self._tenant
        try:
            tenant.claim(self.head, token, len(writes))
            tenant.stage(self.head, token, ((key, item) for key, item, *_ in writes))
            moved = tenant.moved(self.head, self.seq, self._counts, under_way=token, claim=token)
            tenant.dynamo.transact([moved], token)
        except (TransactionCancelled, TransactionContended):
            if not self._has_happened(token):
                tenant.discard(self.head, token)
                self.is_still()
                return None
        except Unavailable:
            if not self._has_happened(token):
                raise
        return self._applied()

    def _commit_end(self) -> int | None:
        """Deleting the tenant itself: nothing is left of it, not even what was deleted before."""
        tenant, token = self._tenant, ENDING + new_id()
        mark = {"p": TENANTS, "s": tenant.id, "x": 1}
        try:
            moved = tenant.moved(self.head, self.seq, None, under_way=token)
            tenant.dynamo.transact([moved, tenant.dynamo.put(mark)], new_id())
        except (TransactionCancelled, TransactionContended):
            if not self._has_happened(token):
                self.is_still()
                return None
        except Unavailable:
            if not self._has_happened(token):
                raise
        return self._applied()

    def _has_happened(self, token: str) -> bool:
        """Whether a large transaction whose answer was lost is under way, or done."""
        key = self._tenant.keys.head
        head = self._tenant.as_head(self._tenant.dynamo.get([key]).get(key))
        is_gone = token.startswith(ENDING) and head.incarnation != self.head.incarnation
        return head.under_way == token or is_gone or self._tenant.was_committed(self.seq, token)

    def _applied(self) -> int:
        """What the head names has happened, whatever befalls us now: the next who comes applies the rest of it."""
        try:
            self._tenant.head()
        except (Unavailable, Closed) as failure:
            log.warning("a transaction that was committed is left to others to apply: %s", failure.code)
            self._tenant.learn(None)
        return self.seq

    def _done(self, head: list[Item]) -> int:
        if self._seqs:
            known = replace(self.head, seq=self.seq, raw_counts=self._counts)
            self._tenant.learn(known if self.head.incarnation else None)
        elif head:
            self._tenant.learn(None)
        return self.seq if self._seqs else 0

    def _head_write(self) -> list[Item]:
        """A touch leaves the head alone, unless it changes what is counted, or an order that others read along."""
        if self._seqs:
            return [self._tenant.moved(self.head, self.seq, self._counts)]
        if self._counts != self.head.raw_counts or self._moves_in_order():
            return [self._tenant.recounted(self.head, self._counts)]
        return []

    def _moves_in_order(self) -> bool:
        """Whether an entry comes or goes that lists are read along, or a tally changes."""
        pairs = [(old.record if (old := self.stored(*name)) else None, new) for name, new in self._new.items()]
        if tallies.changes(self.keys, pairs):
            return True
        return any(old and new and in_orders(old) != in_orders(new) for old, new in pairs)

    def _counted(self) -> bytes | None:
        """What the head counts after this; None if that is not known."""
        counts = self.head.counts()
        if counts is None:
            return None
        before = {name: old.record if (old := self.stored(*name)) else None for name in self._new}
        moves = [(before[name], record) for name, record in self._new.items()]
        groups = [tuple(one and group_of(one) for one in move) for move in moves]
        if all(old and old == new for old, new in groups):
            return self.head.raw_counts
        return counts.changed(moves).encoded()

    def _writes(self, token: str) -> list[_Write]:
        """Every item that this plan changes, once, and what must still be true of it."""
        writes: list[_Write] = []
        before: dict[Key, Item] = {}
        after: dict[Key, Item] = {}
        left: list[tuple[Key, str]] = []
        joined: list[tuple[Key, str]] = []
        for name, record in self._new.items():
            old = self.stored(*name)
            writes += self._record_writes(name, old, record)
            if old is not None and old.record is not None:
                before |= derived(self.keys, old.record, old.hashes)
                left += [(key, name[1]) for key in self.keys.gathered(old.record, old.hashes)]
        for record in self._new.values():
            if record is not None:
                hashes = self._hashes(record)
                after |= derived(self.keys, record, hashes)
                joined += [(key, record.id) for key in self.keys.gathered(record, hashes)]
        writes += [(key, None, None, {}) for key in before if key not in after]
        for key, made in after.items():
            if before.get(key) != made:
                free = "attribute_not_exists(p)" if key not in before else None
                writes.append((key, {"p": key[0], "s": key[1], **made}, free, {}))
        writes += self._gathered_writes(set(left), set(joined))
        writes += self._tally_writes()
        for item in items_of.log_items(self.keys, self._changes(), token):
            writes.append(((item["p"], item["s"]), item, None, {}))
        return writes

    def _hashes(self, record: Record) -> Mapping[str, object]:
        """As they are about to be stored."""
        stored = self._codec(type(record)).stored
        names = record.shape.encrypted_hashes
        return {name: stored(record.organization_id, record.id, name, getattr(record, name)) for name in names}

    def _gathered_writes(self, left: set[tuple[Key, str]], joined: set[tuple[Key, str]]) -> list[_Write]:
        """The entries that several share, read as they are now: the head has not moved if this is committed."""
        holders = self.holders_of({key for key, _ in left ^ joined})
        for key, id in left - joined:
            holders[key].discard(id)
        for key, id in joined - left:
            holders[key].add(id)
        return [
            (key, {"p": key[0], "s": key[1], "d": SEPARATOR.join(sorted(ids))} if ids else None, None, {})
            for key, ids in holders.items()
        ]

    def _tally_writes(self) -> list[_Write]:
        """Each only if it still is what was read: a touch may change one and leave the head alone."""
        before = {name: old.record if (old := self.stored(*name)) else None for name in self._new}
        changed = tallies.changes(self.keys, ((before[name], record) for name, record in self._new.items()))
        writes: list[_Write] = []
        for key, text in self.texts_at(changed).items():
            made = tallies.changed_text(self.keys, key, text, changed[key])
            item = {"p": key[0], "s": key[1], "d": made} if made else None
            condition, values = ("d = :was", {"was": text}) if text else ("attribute_not_exists(p)", {})
            writes.append((key, item, condition, values))
        return writes

    def _record_writes(self, name: Name, old: StoredRecord | None, record: Record | None) -> list[_Write]:
        keys, (table, id) = self.keys, name
        if record is None:
            made = items_of.RecordItems(items_of.gone_item(keys, table, id, self._seqs[name]))
        else:
            same_write = old is not None and name not in self._seqs
            seq = old.seq if old is not None and same_write else self._seqs[name]
            tick = old.tick + 1 if old is not None and same_write else 0
            made = items_of.record_items(keys, self._codec(RECORDS[table]), record, seq, tick)
        condition, values = "attribute_not_exists(p)", {}
        if old is not None:
            condition, values = "q = :was AND k = :tick", {"was": old.seq, "tick": old.tick}
        writes: list[_Write] = [(keys.record(table, id), made.item, condition, values)]
        writes += [((part["p"], part["s"]), part, None, {}) for part in made.parts]
        if old is not None:
            parts = items_of.part_keys(keys, table, {"d": id, "g": old.generation, "n": old.parts})
            writes += [(key, None, None, {}) for key in parts]
        return writes

    def _changes(self) -> list[Change]:
        changed = [(*name, seq, self._new[name] is None) for name, seq in self._seqs.items()]
        return sorted(changed, key=lambda change: change[2])


def derived(keys: Keys, record: Record, hashes: Mapping[str, object]) -> dict[Key, Item]:
    """What is written beside a record for finding it, and for keeping its unique keys its own."""
    facts = facts_of(record)
    found: dict[Key, Item] = {
        key: {"d": record.id} if facts is None else {"d": record.id, "f": facts} for key in keys.entries(record, hashes)
    }
    guards: dict[Key, Item] = {key: {"d": id} for key, id in keys.unique(record).items()}
    listed: dict[Key, Item] = {(TENANTS, record.id): {"d": record.id}} if record.shape.table == ORGANIZATION else {}
    return found | guards | listed


def _paths(steps: Sequence[Step]) -> Iterator[Path]:
    """The index entries that filters of the steps name."""
    for step in steps:
        if isinstance(step, Absent | DeleteWhere):
            try:
                check_filters(step.record, step.where)
            except InvalidInput:
                continue  # it is refused when its turn comes: one of those before may fail for another reason
            named = dict(reversed(lookups_of(step.record, step.where)))
            field = next(
                (one for one in indexed_fields(step.record) if len(named.get(one, ())) in range(1, FEW + 1)), ""
            )
            yield from ((step.record.shape.table, field, value) for value in named.get(field, ()))


_Write = tuple[Key, Item | None, str | None, Item]
