"""Which rows hold a term, remembered from one search to the next: a common word is not read out again each time.

Rows are only ever added at the end, so what is known of a term stays true, and later rows are asked for alone. Where a
text was changed or removed, nothing that is known counts any more: the writers count such changes in `text_epoch`. They
also note in `text_seq` up to which seq they counted; where that is not the seq of the store, a program that does not
count has written, and nothing is remembered until one that does has counted for it.

Of 100,000 memories in one scope, a question with six common words took 11 ms to read out its holders, now 0.2. Of the
millions of the only organization of a store, to read one out takes 20 ms; it took 77 to also look for the organization.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import apsw

from recollect.adapters.records.sqlite.text_tables import listed_table, text_table
from recollect.domain.record import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows: TypeAlias = NDArray[np.int64]
    SmallRows: TypeAlias = NDArray[np.int32]

# A term that more of the scope has than this tells little; its newest holders stand for the rest.
MOST_HOLDERS = 50_000
TERMS_AT_ONCE = 100
MOST_KNOWN_ROWS = 8_000_000  # four bytes each
LARGEST_SMALL_ROW = 2**31 - 1
MOST_SIZES = 10_000


class Size(NamedTuple):
    rows: int
    is_all: bool
    """Whether there are no others: then the scope need not be looked for in the index again with each term."""
    upto: int = 0
    """The last row that was counted."""


class _Holders(NamedTuple):
    rows: Rows | SmallRows
    """Going up; the newest MOST_HOLDERS of them."""
    upto: int


class _View(NamedTuple):
    """What one transaction sees of the text index of a record type."""

    record: type[Record]
    last: int
    epoch: int | None
    """Of the texts, if what is remembered holds for it."""


class TermHolders:
    """Of one store, for all threads. A search with an older moment than another's may be handed rows that it does not
    see yet: what is found is read from the records anyway.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epoch = -1
        self._known: OrderedDict[tuple[type[Record], str], _Holders] = OrderedDict()
        self._rows = 0
        self._sizes: dict[tuple[type[Record], str], Size] = {}

    def view(self, connection: apsw.Connection, record: type[Record], counters: Mapping[str, Any]) -> _View:
        """With the counters of the store as the transaction sees them."""
        seq, text_seq, epoch = (counters.get(key) for key in ("seq", "text_seq", "text_epoch"))
        last = connection.execute(f"SELECT max(id) FROM {listed_table(record)}").get or 0
        if epoch is None or text_seq != seq:
            return _View(record, last, None)
        with self._lock:
            if epoch > self._epoch:
                self._epoch, self._known, self._rows, self._sizes = epoch, OrderedDict(), 0, {}
            return _View(record, last, epoch if epoch == self._epoch else None)

    def size(self, connection: apsw.Connection, view: _View, facets: str, *, is_narrowed: bool = True) -> Size:
        """How many rows a scope has; of very many at least twice MOST_HOLDERS. One that is not narrowed is all that an
        organization has.
        """
        key = view.record, facets
        with self._lock:
            known = self._sizes.get(key) if view.epoch == self._epoch else None
        if known is not None and known.upto >= view.last:
            return known
        before = known or Size(0, is_all=False)
        rows = before.rows + _count(connection, view.record, facets, before.upto)
        are_all = not is_narrowed and _is_alone(connection)
        size = Size(rows, are_all or _are_all(connection, view, rows), view.last)
        with self._lock:
            if view.epoch == self._epoch:
                if len(self._sizes) >= MOST_SIZES:
                    self._sizes.clear()
                self._sizes[key] = size
        return size

    def of(
        self, connection: apsw.Connection, view: _View, matches: Sequence[str], *, newest: bool
    ) -> list[Rows | SmallRows]:
        """The rows of each match, going up; only the `newest` where there are more than MOST_HOLDERS."""
        import numpy as np

        with self._lock:
            # Not where another thread has learnt of a later epoch meanwhile: what is held by then is of that one.
            is_now = view.epoch == self._epoch
            known = [self._known.get((view.record, match)) if is_now else None for match in matches]
        fresh = _Holders(np.empty(0, np.int64), 0)
        held = [one or fresh for one in known]
        missing = [place for place, one in enumerate(held) if one.upto < view.last]
        asked = [(matches[place], held[place].upto) for place in missing]
        for place, rows in zip(missing, _read(connection, view.record, asked, newest), strict=True):
            both = np.concatenate([held[place].rows, rows])[-MOST_HOLDERS:] if len(held[place].rows) else rows
            held[place] = _Holders(both.astype(np.int32) if view.last <= LARGEST_SMALL_ROW else both, view.last)
        self._remember(view, dict(zip(matches, held, strict=True)))
        return [one.rows for one in held]

    def _remember(self, view: _View, held: dict[str, _Holders]) -> None:
        with self._lock:
            if view.epoch != self._epoch:  # a text was changed since it was read
                return
            for match, holders in held.items():
                key = view.record, match
                before = self._known.pop(key, None)
                self._rows += len(holders.rows) - (len(before.rows) if before else 0)
                self._known[key] = holders
            while self._rows > MOST_KNOWN_ROWS and self._known:
                self._rows -= len(self._known.popitem(last=False)[1].rows)


def _count(connection: apsw.Connection, record: type[Record], match: str, after: int) -> int:
    table = text_table(record)
    inner = f"SELECT 1 FROM {table} WHERE {table} MATCH ? AND rowid > ? LIMIT {2 * MOST_HOLDERS}"
    return int(connection.execute(f"SELECT count(*) FROM ({inner})", (match, after)).get)


def _is_alone(connection: apsw.Connection) -> bool:
    """Whether the store is of one organization."""
    return bool(connection.execute("SELECT count(*) FROM (SELECT 1 FROM organization LIMIT 2)").get == 1)


def _are_all(connection: apsw.Connection, view: _View, rows: int) -> bool:
    if (
        view.last > 2 * rows or rows >= 2 * MOST_HOLDERS
    ):  # others are likely, and many to count; or not all were counted
        return False
    return bool(connection.execute(f"SELECT count(*) FROM {listed_table(view.record)}").get == rows)


def _read(
    connection: apsw.Connection, record: type[Record], asked: Sequence[tuple[str, int]], newest: bool
) -> list[Rows]:
    """The rows of each match after a row, all in one statement, and those of a match in one piece: handing over row by
    row gave the interpreter to another thread and back for each of thousands.
    """
    import numpy as np

    table = text_table(record)
    # Walking backwards takes nearly twice as long, and is needed only where not all the holders may be looked at.
    order = "ORDER BY rowid DESC" if newest else ""
    inner = f"SELECT rowid FROM {table} WHERE {table} MATCH ? AND rowid > ? {order} LIMIT {MOST_HOLDERS}"
    found: list[Rows] = []
    for start in range(0, len(asked), TERMS_AT_ONCE):
        some = asked[start : start + TERMS_AT_ONCE]
        each = ", ".join([f"(SELECT group_concat(rowid, ' ') FROM ({inner}))"] * len(some))
        (listed,) = connection.execute(f"SELECT {each}", [part for one in some for part in one]).fetchall()
        found += [np.fromstring(str(rows or ""), np.int64, sep=" ") for rows in listed]
    return [rows[::-1] for rows in found] if newest else found
