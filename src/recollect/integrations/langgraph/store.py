"""LangGraph's store on Recollect: items under namespaces, filters, time to live, search by meaning.

Reads of a batch see what was there before it; its puts are one transaction, the last of a key counting. Texts are
embedded by the memory's own embedder: `fields` are the paths of a value to find it by, `"$"` being all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
)

from recollect.errors import InvalidInput
from recollect.integrations.langgraph.memory_items import MemoryItems, Owner

if TYPE_CHECKING:
    from recollect.domain.record import Json
    from recollect.interfaces.client import Recollect
    from recollect.services.frameworks.key_value import ItemView


class RecollectStore(BaseStore):
    """Keeps the items of graphs in an open memory. Without `fields`, nothing is found by meaning."""

    supports_ttl = True

    def __init__(
        self,
        mem: Recollect,
        *,
        fields: Sequence[str] = ("$",),
        ttl: TTLConfig | None = None,
        as_memories: bool = False,
        user: Owner = None,
    ) -> None:
        """With `as_memories`, items are memories: recalled, cited and trusted like the rest, and memories are found
        here. `user` is who they belong to: an id, or a function that tells it from a namespace.
        """
        if user is not None and not as_memories:
            raise InvalidInput("only memories belong to a user", remedy="give as_memories=True")
        self._mem = mem
        self._items = mem.item
        self._memories = MemoryItems(mem, user) if as_memories else None
        self._fields = tuple(fields)
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        if self._memories is not None:
            return self._on_memories(self._memories, list(ops))
        puts: list[Json] = []
        results: list[Result] = []
        for op in ops:
            if isinstance(op, PutOp):
                puts.append(self._put(op))
                results.append(None)
            else:
                results.append(self._read(op))
        if puts:
            self._items.put_many([*puts])
        return results

    def _on_memories(self, memories: MemoryItems, ops: list[Op]) -> list[Result]:
        results: list[Result] = []
        for op in ops:
            if isinstance(op, PutOp):
                results.append(None)
            elif isinstance(op, GetOp):
                results.append(memories.get(op))
            elif isinstance(op, SearchOp):
                results.append(memories.search(op, by_meaning=bool(self._fields)))
            elif isinstance(op, ListNamespacesOp):
                results.append(memories.namespaces(op))
            else:
                raise _unknown(op)
        puts = [(op, self._texts(op) if op.value is not None else {}) for op in ops if isinstance(op, PutOp)]
        memories.put(puts)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Delete the items whose time is up; they are not shown even before."""
        if self._memories is not None:
            return self._mem.sweep().expired
        return self._items.sweep().expired

    def _put(self, op: PutOp) -> Json:
        return {
            "namespace": list(op.namespace),
            "key": str(op.key),
            "value": op.value,
            "texts": self._texts(op) if op.value is not None else {},
            "ttl_minutes": op.ttl,
        }

    def _texts(self, op: PutOp) -> dict[str, str]:
        if op.index is False:
            return {}
        found = {path: get_text_at_path(op.value, path) for path in (self._fields if op.index is None else op.index)}
        return {
            path if len(texts) == 1 else f"{path}.{place}": text
            for path, texts in found.items()
            for place, text in enumerate(texts)
        }

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            found = self._items.get(list(op.namespace), str(op.key), refresh=op.refresh_ttl).item
            return _item(found) if found else None
        if isinstance(op, SearchOp):
            hits = self._items.search(
                list(op.namespace_prefix),
                filter=op.filter or {},
                query=op.query if self._fields else None,
                limit=op.limit,
                offset=op.offset,
                refresh=op.refresh_ttl,
            )
            return [_search_item(one) for one in hits.items]
        if isinstance(op, ListNamespacesOp):
            given = op.match_conditions or ()
            page = self._items.namespaces(
                begins=[list(one.path) for one in given if one.match_type == "prefix"],
                ends=[list(one.path) for one in given if one.match_type == "suffix"],
                max_depth=op.max_depth,
                limit=op.limit,
                offset=op.offset,
            )
            return [tuple(labels) for labels in page.namespaces]
        raise _unknown(op)


def _unknown(op: Op) -> InvalidInput:
    return InvalidInput(
        f"this store does not support {type(op).__name__}", remedy="use get, put, search, list_namespaces"
    )


def _item(found: ItemView) -> Item:
    return Item(
        value=found.value,
        key=found.key,
        namespace=tuple(found.namespace),
        created_at=found.created_at,
        updated_at=found.updated_at,
    )


def _search_item(found: ItemView) -> SearchItem:
    return SearchItem(
        namespace=tuple(found.namespace),
        key=found.key,
        value=found.value,
        created_at=found.created_at,
        updated_at=found.updated_at,
        score=found.score,
    )
