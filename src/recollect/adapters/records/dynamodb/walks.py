"""Records of one type and index entries of one value in order of their keys, read as far as somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from recollect.adapters.records.dynamodb import codec as items_of
from recollect.adapters.records.dynamodb.client import DynamoClient
from recollect.adapters.records.dynamodb.codec import Item, StoredRecord
from recollect.adapters.records.dynamodb.keys import SEPARATOR
from recollect.adapters.records.dynamodb.spans import PLAIN_BYTES, has_controls

if TYPE_CHECKING:
    from recollect.adapters.records.dynamodb.tenant_view import TenantView

Name = tuple[str, str]  # table, id


class RecordWalk:
    """The records of one type as they come, page by page; what was read is kept for the next time."""

    def __init__(
        self, view: TenantView, dynamo: DynamoClient, table: str, forward: bool, start: str | None, limit: int | None
    ) -> None:
        self._view = view
        self._table = table
        self._read: list[StoredRecord] = []
        self.has_shortened = False
        condition, values = "", {}
        if start is not None and len(start.encode()) < items_of.PART:
            key = view.keys.record(table, start)[1]
            condition, values = ("s >= :s" if forward else "s <= :s"), {":s": key}
        self._pages: Iterator[list[Item]] = dynamo.merged_pages(
            view.keys.records(table), condition, values, forward=forward, first=limit and limit + 1
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


class EntryWalk:
    """The ids that index entries lead to, page by page; what was read is kept for the next time."""

    def __init__(self, pages: Iterator[list[Item]], ids_of: Callable[[list[Item]], list[str]]) -> None:
        self._pages = pages
        self._ids_of = ids_of
        self.read: list[str] = []
        self.has_shortened = False
        """Whether the sort keys are not in the order of ids, or of texts."""

    def ids(self) -> Iterator[str]:
        place = 0
        while True:
            while place < len(self.read):
                yield self.read[place]
                place += 1
            if not self.go_on():
                return

    def go_on(self) -> bool:
        """Read one page more, if there is one."""
        page = next(self._pages, None)
        if page is None:
            return False
        self.read += self._ids_of(page)
        self.has_shortened |= any(_is_unsure(entry) for entry in page)
        return True


def _is_unsure(entry: Item) -> bool:
    word, _, id = entry["s"].rpartition(SEPARATOR)
    return bool(id != entry["d"] or len(word.encode()) > PLAIN_BYTES or has_controls(word))
