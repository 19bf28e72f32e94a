"""All of a tenant as of one moment, though DynamoDB has no snapshots: set down beside, then put right.

Every record is read page by page into a file of SQLite's own, which vanishes with its connection; what was committed
meanwhile is in the tenant's log, and just these records are read again, until the head stands still. Then what was set
down is the tenant at the head's moment. Memory holds a page at a time; the disk, as much as the tenant has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import apsw

from recollect.adapters.records.common.checks import check_filters, check_groups, check_query
from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.in_python_queries import (
    LIVING,
    counted,
    fits,
    in_order,
    is_beyond,
    leading_to,
    once,
    paged,
)
from recollect.adapters.records.dynamodb.client import pauses
from recollect.adapters.records.dynamodb.codec import Item, field_of, opened, packed, unpacked
from recollect.adapters.records.dynamodb.log import LogHead, TenantLog
from recollect.adapters.records.dynamodb.lookups import values_of
from recollect.adapters.records.dynamodb.tenant_view import TenantView
from recollect.adapters.records.dynamodb.walks import Name
from recollect.domain.record import RECORDS, Record
from recollect.errors import Closed, DamagedData, InvalidInput, StoreBusy
from recollect.ports.query import Linked, Page, Query, Reading, Row, Spans
from recollect.ports.records import Scope

R = TypeVar("R", bound=Record)
AT_ONCE = 500


class Snapshot:
    """The reading verbs over what was set down."""

    def __init__(self, tenant: TenantLog, codec: Callable[[type[Record]], Codec]) -> None:
        self._tenant = tenant
        self._codec = codec
        self._kept: apsw.Connection | None = apsw.Connection("")  # a file of its own, without a name
        self._kept.execute("CREATE TABLE kept(name TEXT, id TEXT, body BLOB, PRIMARY KEY (name, id)) WITHOUT ROWID")

    # -- setting it down ---------------------------------------------------------------------------------------------

    def settle(self) -> None:
        head = self._set_down()
        for pause in pauses(60):
            now = self._tenant.head()
            if now.is_at(head):
                return
            if now.incarnation != head.incarnation:  # the tenant was deleted, and perhaps made anew
                self._file().execute("DELETE FROM kept")
                head = self._set_down()
            else:
                self._read_again(head, {(table, id) for table, id, _, _ in self._tenant.log_after(head.seq)})
                head = now
                continue  # what was read again may be newer than `now`: the log says so, if it is
            pause()
        raise StoreBusy("the table is written to faster than it can be read", remedy="try again when it is quieter")

    def _set_down(self) -> LogHead:
        head = self._tenant.head()
        for table in sorted(RECORDS):
            for page in self._tenant.dynamo.merged_pages(self._tenant.keys_at(head).records(table)):
                items = [item for item in page if not item.get("z")]
                try:
                    self._keep(head, table, items)
                except DamagedData:
                    for item in items:
                        self._keep_or_mark(head, table, item)
        return head

    def _keep(self, head: LogHead, table: str, items: list[Item]) -> None:
        view = TenantView(self._tenant, self._codec, head)  # of its own: it keeps in mind what it read
        found: dict[Name, Any] = {}
        torn = view.joined([((table, item.get("d") or item["s"]), item) for item in items], found)
        view.fetch(torn)
        self._put(one.record for one in found.values() if one is not None)
        self._put(view.record(*name) for name in torn)

    def _keep_or_mark(self, head: LogHead, table: str, item: Item) -> None:
        """A damaged record is set down as damaged: who reads it is told, who reads others is not kept from it."""
        try:
            self._keep(head, table, [item])
        except DamagedData:
            named = (table, item.get("d") or item["s"], b"")
            self._file().execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", named)

    def _read_again(self, head: LogHead, names: Iterable[Name]) -> None:
        listed = sorted(names)
        for start in range(0, len(listed), AT_ONCE):
            view, some = TenantView(self._tenant, self._codec, head), listed[start : start + AT_ONCE]
            view.fetch(some)
            self._file().executemany("DELETE FROM kept WHERE name = ? AND id = ?", some)
            self._put(view.record(*name) for name in some)

    def _put(self, records: Iterable[Record | None]) -> None:
        rows = ((one.shape.table, one.id, packed(self._codec(type(one)), one)) for one in records if one is not None)
        self._file().executemany("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", rows)

    # -- reading it --------------------------------------------------------------------------------------------------

    def get(self, scope: Scope, record: type[R], id: str, *, deleted: bool = False) -> R | None:
        one = self._one(scope, record, id)
        return opened([one])[0] if one is not None and (deleted or not one.is_deleted) else None

    def _one(self, scope: Scope, record: type[R], id: str) -> R | None:
        found = self._bodies(scope, "SELECT body FROM kept WHERE name = ? AND id = ?", (record.shape.table, id))
        return next((self._record(record, body) for body in found), None)

    def find(self, scope: Scope, query: Query[R]) -> Page[R]:
        return paged(opened(self._found(scope, query)), query)

    def _found(self, scope: Scope, query: Query[R]) -> list[R]:
        check_query(query)
        first = query.ordering()[0]
        if first.field != "id" or first.descending or query.limit is None:
            return in_order(self._passing(scope, query), query)
        start = query.start()
        page: list[R] = []
        for one in self._passing(scope, query, start[0] if start else ""):
            if len(page) == query.limit:
                break
            if start is None or is_beyond(one, query, start):
                page.append(one)
        return page

    def select(self, scope: Scope, query: Query[Record], fields: Sequence[str]) -> list[Row]:
        check_query(query, fields)
        if tuple(fields) == ("id",) and query.deleted == "yes" and not query.where and len(query.ordering()) == 1:
            return self._ids(scope, query)
        return [tuple(field_of(one, name) for name in fields) for one in self._found(scope, query)]

    def _ids(self, scope: Scope, query: Query[Record]) -> list[Row]:
        """Without the records, which may be damaged."""
        descending, start = query.ordering()[0].descending, query.start()
        beyond = "" if start is None else f"AND id {'<' if descending else '>'} ?"
        text = f"SELECT id FROM kept WHERE name = ? {beyond} ORDER BY id {'DESC' if descending else ''} LIMIT ?"
        most = -1 if query.limit is None else query.limit
        return [(id,) for id in self._bodies(scope, text, (query.record.shape.table, *(start or ()), most))]

    def select_each(self, scope: Scope, readings: Sequence[Reading]) -> list[list[Row]]:
        return [self.select(scope, query, fields) for query, fields in readings]

    def count(self, scope: Scope, query: Query[Record], most: int | None = None) -> int:
        check_filters(query.record, query.where)
        return sum(1 for _ in islice(self._passing(scope, query), most))

    def count_by(self, scope: Scope, query: Query[Record], by: Sequence[str | Spans]) -> dict[Row, int]:
        check_filters(query.record, query.where)
        check_groups(query.record, by)
        return counted(self._passing(scope, query), by)

    def close(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close(True)

    def _passing(self, scope: Scope, query: Query[R], start: str = "") -> Iterator[R]:
        """All that pass the filters, in order of id."""
        wanted, linked = LIVING[query.deleted], once(partial(self._linked, scope))
        for one in self._candidates(scope, query, start):
            if one.is_deleted in wanted and all(fits(one, given, linked) for given in query.where):
                yield one

    def _candidates(self, scope: Scope, query: Query[R], start: str) -> Iterator[R]:
        named = [values for one in query.where if (values := values_of(one, "id")) is not None]
        if named:
            found = (self._one(scope, query.record, id) for id in sorted(set(named[0])) if id >= start)
            yield from (one for one in found if one is not None)
            return
        text = "SELECT body FROM kept WHERE name = ? AND id >= ? ORDER BY id"
        for body in self._bodies(scope, text, (query.record.shape.table, start)):
            yield self._record(query.record, body)

    def _linked(self, scope: Scope, given: Linked) -> set[str]:
        return {getattr(link, given.field) for link in self._passing(scope, leading_to(given))}

    def _record(self, record: type[R], body: bytes) -> R:
        made: R = unpacked(self._codec(record), record, body)
        return made

    def _bodies(self, scope: Scope, statement: str, values: Row) -> Iterator[Any]:
        if scope.organization_id != self._tenant.id:
            raise InvalidInput("this snapshot is of another organization", remedy="take one of this organization")
        return (body for (body,) in self._file().execute(statement, values))

    def _file(self) -> apsw.Connection:
        if self._kept is None:
            raise Closed("this snapshot has ended", remedy="read inside of its block")
        return self._kept
