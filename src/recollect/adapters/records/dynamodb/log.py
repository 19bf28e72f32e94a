"""One tenant in the table: its head, its log, and finishing what a dead process left half applied.

The head is one small item: `q` the seq of the last transaction, `i` the tenant's incarnation, `v` the layout of its
keys, `n` how many records it has (counts.py), `t` how many touches moved something in an order or a tally, and while a
large transaction is being applied `x` its name (or, while the tenant is being deleted, its name with a mark). A
transaction commits by moving the head from the seq it was planned on, so the transactions of one tenant happen one
after another whichever process makes them. Whoever reads a head with something under way finishes it first: its writes
are staged beside it, and each piece of them is applied only as long as the head still names them, so a process that
wakes up late can neither undo nor repeat anything.

`m` is the number of shards over which types are spread, if it is more than one (keys.py). It is of one incarnation and
never changes: who holds the incarnation knows the keys. A tenant of an older layout is brought to this one by whoever
comes first: `b` says that this is under way, `o` that entries of the first layout are still to be deleted.

`y` and `w` are a courtesy: a large transaction that stages its writes asks the small ones to wait until a moment.
Nothing depends on the clock but who waits. In the first layout they were called `c` and `u`; they now keep out those
programs that know no other layout and were running when the tenant was moved: to them it is taken until the year 9999.
"""

from __future__ import annotations

import base64
import json
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recollect.adapters.records.common.dialect import json_text
from recollect.adapters.records.dynamodb.client import DynamoClient, TransactionCancelled, TransactionContended, pauses
from recollect.adapters.records.dynamodb.codec import Item, logged
from recollect.adapters.records.dynamodb.counts import Counts
from recollect.adapters.records.dynamodb.keys import SEPARATOR, TENANTS, Key, Keys, TenantPlaces
from recollect.domain.record import RECORDS, new_id
from recollect.errors import NewerStore, StoreBusy

if TYPE_CHECKING:
    from recollect.adapters.records.dynamodb.turns import WaitingWrite

MOST_WRITES = 99  # of the 100 that a transaction may have, one is the head
MOST_BYTES = 3_000_000  # of 4 MB
STAGE = 300_000
LAYOUT = 4
TAKEN: Item = {"c": "layout 2", "u": 253_370_764_800}
"""What keeps programs of the first layout from writing."""
ENDING = "!"
CLAIM_SECONDS = 2  # and a second for each thousand writes: what a dead process keeps others waiting
Change = tuple[str, str, int, bool]  # table, id, seq, gone
Write = tuple[Key, Item | None]  # what to put there, or that it goes


@dataclass(frozen=True, slots=True)
class LogHead:
    shards: int
    """Those that a new tenant gets, where there is none."""
    seq: int = 0
    incarnation: str = ""
    under_way: str = ""
    layout: int = LAYOUT
    is_in_place: bool = True
    """Whether entries and counts are those of the layout, and none of another are left."""
    raw_counts: bytes | None = None
    touches: int = 0

    @staticmethod
    def of(item: Item | None, new_shards: int) -> LogHead:
        if item is None:
            return LogHead(new_shards, raw_counts=Counts().encoded())
        layout = item.get("v", 1)
        is_in_place = layout == LAYOUT and not item.keys() & {"b", "o"}
        counts, touches = item.get("n"), item.get("t", 0)
        return LogHead(item.get("m", 1), item["q"], item["i"], item.get("x", ""), layout, is_in_place, counts, touches)

    def counts(self) -> Counts | None:
        """None if they are not known."""
        return Counts.decoded(self.raw_counts)

    def is_at(self, other: LogHead) -> bool:
        return (self.seq, self.incarnation) == (other.seq, other.incarnation)


class TenantLog:
    def __init__(
        self,
        dynamo: DynamoClient,
        organization_id: str,
        new_shards: int,
        modernize: Callable[[TenantLog, LogHead], None],
    ) -> None:
        """`modernize` brings a tenant of an older layout to this one, or does the rest of that."""
        self.dynamo = dynamo
        self._modernize = modernize
        self._new_shards = new_shards
        self.id = organization_id
        self.keys = TenantPlaces(organization_id)
        self.writing = threading.Lock()
        self.waiting: deque[WaitingWrite] = deque()
        self._known: LogHead | None = None

    def keys_at(self, head: LogHead) -> Keys:
        """Where everything is, in the incarnation of this head."""
        return Keys(self.id, head.shards)

    # -- the head ----------------------------------------------------------------------------------------------------

    def start(self) -> LogHead:
        """A moment that lies in the past and is whole: all that came later is in the log after it."""
        return self._known or self.head()

    def head(self) -> LogHead:
        """The head as it is now, with nothing under way."""
        for pause in pauses(20):
            head = self.raw_head()
            if head.layout > LAYOUT:
                raise NewerStore(
                    f"organization '{self.id}' was made by a newer program",
                    remedy="upgrade Recollect",
                )
            if not head.under_way and head.is_in_place:
                self.learn(head)
                return head
            try:
                if head.under_way:
                    self.finish(head)
                else:
                    self._modernize(self, head)
            except (TransactionCancelled, TransactionContended):
                pause()
        raise StoreBusy("a large transaction is still being applied", remedy="try again in a moment")

    def raw_head(self) -> LogHead:
        return self.as_head(self.dynamo.get([self.keys.head]).get(self.keys.head))

    def as_head(self, item: Item | None) -> LogHead:
        return LogHead.of(item, self._new_shards)

    def learn(self, head: LogHead | None) -> None:
        self._known = head

    def log_after(self, seq: int) -> Iterator[Change]:
        after = self.keys.moment_of_log(seq)[1]
        for page in self.dynamo.pages(self.keys.log, "s > :s", {":s": after}):
            for item in page:
                yield from (change for change in logged(item) if change[2] > seq)

    def was_committed(self, seq: int, token: str) -> bool:
        """Whether a transaction whose answer was lost is in the log."""
        key = self.keys.moment_of_log(seq)
        return self.dynamo.get([key]).get(key, {}).get("t") == token

    def moved(self, head: LogHead, seq: int, counts: bytes | None, *, under_way: str = "", claim: str = "") -> Item:
        """The write that moves the head, only if it is still as it was: a transaction was planned on that.

        A claim only ever keeps others back; its owner names itself.
        """
        marks: Item = {"x": under_way} if under_way else {}
        if counts is not None:
            marks["n"] = counts
        if not head.incarnation:
            item = {"p": self.keys.head[0], "s": self.keys.head[1], "q": seq, "i": new_id(), "v": head.layout, **TAKEN}
            spread = {"m": head.shards} if head.shards > 1 else {}
            return self.dynamo.put({**item, **spread, **marks}, "attribute_not_exists(p)")
        gone = "y, w" if counts is not None else "y, w, n"
        change = "".join(f", {name} = :{name}" for name in marks)
        condition, given = self.unchanged(head, claim)
        return self.dynamo.update(
            self.keys.head, f"SET q = :q{change} REMOVE {gone}", condition, q=seq, **marks, **given
        )

    def recounted(self, head: LogHead, counts: bytes | None) -> Item:
        """The write that changes what the head counts and moves nothing; one more touch is counted anyhow."""
        condition, given = self.unchanged(head)
        given["t"] = head.touches + 1
        if counts is None:
            return self.dynamo.update(self.keys.head, "SET t = :t REMOVE n", condition, **given)
        return self.dynamo.update(self.keys.head, "SET t = :t, n = :n", condition, n=counts, **given)

    def unchanged(self, head: LogHead, claim: str = "") -> tuple[str, Item]:
        """The counts and the touches are compared, too: these change without moving the head."""
        given = {"was": head.seq, "inc": head.incarnation, "now": int(time.time()), "y": claim, "v": head.layout}
        conditions = [FREE]
        for name, mark, was in (("n", "counted", head.raw_counts), ("t", "touched", head.touches or None)):
            conditions.append(f"attribute_not_exists({name})" if was is None else f"{name} = :{mark}")
            given |= {} if was is None else {mark: was}
        return " AND ".join(conditions), given

    # -- large transactions ------------------------------------------------------------------------------------------

    def claim(self, head: LogHead, name: str, writes: int) -> None:
        """Ask others to wait while this transaction is staged."""
        if head.incarnation:
            condition, given = self.unchanged(head, name)
            until = int(time.time()) + CLAIM_SECONDS + writes // 1000
            claimed = self.dynamo.update(self.keys.head, "SET y = :y, w = :w", condition, w=until, **given)
            self.dynamo.transact([claimed], new_id())

    def stage(self, head: LogHead, name: str, writes: Iterable[Write]) -> None:
        """Note what is to be written, beside the tenant's data, where no reader looks."""
        keys, items = self.keys_at(head), []
        for number, piece in enumerate(_pieces(writes)):
            raw = zlib.compress(json_text(piece).encode(), 1)
            items.append({"p": keys.staging(number), "s": f"{name}{SEPARATOR}{number:06d}", "e": raw})
        self.dynamo.put_all(items)

    def finish(self, head: LogHead) -> None:
        """Apply what is staged and let the head go; done by whoever comes by, as often as need be."""
        name = head.under_way
        if name.startswith(ENDING):
            self._end(self.keys_at(head), name)
            return
        staged = self._staged(head, name)
        for item in staged:
            for some in grouped(_unstaged(item)):
                self._apply(name, some)
        self.dynamo.delete_all([(item["p"], item["s"]) for item in staged])
        self.dynamo.transact([self.dynamo.update(self.keys.head, "REMOVE x", "x = :x", x=name)], new_id())

    def _staged(self, head: LogHead, name: str) -> list[Item]:
        def of_shard(partition: str) -> list[Item]:
            return self.dynamo.query(partition, "begins_with(s, :s)", {":s": name + SEPARATOR})

        found = self.dynamo.at_once(of_shard, self.keys_at(head).staged)
        return sorted((item for some in found for item in some), key=lambda item: str(item["s"]))

    def discard(self, head: LogHead, name: str) -> None:
        """Staged writes that were never committed."""
        self.dynamo.delete_all([(item["p"], item["s"]) for item in self._staged(head, name)])

    def _apply(self, name: str, writes: Sequence[Write]) -> None:
        """One piece, fenced: only while the head still names this transaction."""
        fence = self.dynamo.check(self.keys.head, "x = :x", x=name)
        made = [self.dynamo.delete(key) if item is None else self.dynamo.put(item) for key, item in writes]
        self.dynamo.transact_patiently([fence, *made])

    def _end(self, held: Keys, name: str) -> None:
        """Delete every item of the tenant, the head last."""
        partitions = [partition for table in RECORDS for partition in held.records(table)]
        rest = [*held.derived_partitions(), *held.first_layout, *held.parts, held.log, *held.staged, held.segments]
        for partition in (*partitions, *rest):
            for page in self.dynamo.pages(partition, keys_only=True):
                keys: list[Write] = [((item["p"], item["s"]), None) for item in page]
                for some in grouped(keys):
                    self._apply(name, some)
        last = {"Delete": {**self.dynamo.check(self.keys.head, "x = :x", x=name)["ConditionCheck"]}}
        self.dynamo.transact([last, self.dynamo.delete((TENANTS, self.id))], new_id())


FREE = (
    "q = :was AND i = :inc AND v = :v AND attribute_not_exists(x) AND (attribute_not_exists(w) OR w < :now OR y = :y)"
)


def grouped(writes: Iterable[Write]) -> Iterator[list[Write]]:
    """As many at a time as one transaction takes."""
    some: list[Write] = []
    size = 0
    for write in writes:
        more = size_of(write)
        if some and (len(some) == MOST_WRITES or size + more > MOST_BYTES):
            yield some
            some, size = [], 0
        some.append(write)
        size += more
    if some:
        yield some


def size_of(write: Write) -> int:
    key, item = write
    held = sum(len(value) for value in (item or {}).values() if isinstance(value, bytes | str))
    return 200 + 4 * len(key[1]) + held


def _pieces(writes: Iterable[Write]) -> Iterator[list[list[object]]]:
    piece: list[list[object]] = []
    size = 0
    for key, item in writes:
        plain = None if item is None else {name: _text(value) for name, value in item.items()}
        more = size_of((key, item)) * 4 // 3
        if piece and size + more > STAGE:
            yield piece
            piece, size = [], 0
        piece.append([*key, plain])
        size += more
    if piece:
        yield piece


def _text(value: object) -> object:
    return [base64.b64encode(value).decode()] if isinstance(value, bytes) else value


def _unstaged(item: Item) -> Iterator[Write]:
    for partition, sort, held in json.loads(zlib.decompress(item["e"])):
        made = held and {
            name: base64.b64decode(value[0]) if isinstance(value, list) else value for name, value in held.items()
        }
        yield (partition, sort), made
