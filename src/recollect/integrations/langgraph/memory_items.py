"""The items of LangGraph's store as memories: what a graph puts is recalled, cited, checked and promoted like the rest.

An item is a memory whose id is made of its namespace and key, whose text is what it is found by, and whose metadata
hold the value. It is in a namespace of memories for each prefix of its own, so that a search below a prefix asks an
index; what is indexed is in long-term memory, too, where `recall` looks. A put changes the memory, and its history
keeps what it was. Memories that no graph put are shown below ("memories", user), those of nobody below ("memories",).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from langgraph.store.base import GetOp, Item, ListNamespacesOp, PutOp, SearchItem, SearchOp

from recollect.domain.key_value import matches, names_match
from recollect.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from recollect.interfaces.client import Recollect
    from recollect.services.recall.browse import MemoryView

MARK = "langgraph"  # the member of metadata that makes a memory an item
OTHERS = "memories"  # the first label of memories that no graph put
LONG_TERM = "long_term"
PAGE = 1000
RENEWED_SHARE = 10  # a read renews the time to live when a tenth of it is over: each renewal is a version
Labels = tuple[str, ...]
Json = dict[str, Any]
Owner = str | Callable[[Labels], str | None] | None


class MemoryItems:
    """The operations of a store, on memories. `user` owns the items: one id, or what tells it from a namespace."""

    def __init__(self, mem: Recollect, user: Owner = None) -> None:
        self._mem = mem
        self._user = user

    # -- in ----------------------------------------------------------------------------------------------------------

    def put(self, puts: Sequence[tuple[PutOp, dict[str, str]]]) -> None:
        """Each with the texts it is found by; of several with the same key the last counts."""
        last = {(tuple(op.namespace), str(op.key)): (op, texts) for op, texts in puts}
        new: list[Json] = []
        for (labels, key), (op, texts) in last.items():
            if op.value is None:
                self._erase(labels, key)
            elif self._is_other(labels, key):
                self._mem.revise(key, _plain_text(op.value))
            else:
                made = self._fields(labels, key, op, texts)
                new += [] if self._replaced(made) else [made]
        if new:
            self._mem.remember_many([*new])

    def _fields(self, labels: Labels, key: str, op: PutOp, texts: dict[str, str]) -> Json:
        item = {"namespace": list(labels), "key": key, "value": op.value, "ttl": op.ttl, "found": bool(texts)}
        return {
            "id": id_of(labels, key),
            "content": _text(op.value or {}, texts),
            "metadata": {MARK: item},
            "namespaces": [*([LONG_TERM] if texts else []), *_below(labels), *(_below(labels, True) if texts else [])],
            "expires_at": datetime.now(UTC) + timedelta(minutes=op.ttl) if op.ttl is not None else None,
            "user": self._owner(labels),
            "on_duplicate": "keep",
        }

    def _owner(self, labels: Labels) -> str | None:
        return self._user(labels) if callable(self._user) else self._user

    def _replaced(self, made: Json) -> bool:
        """Whether there was one to change. What was forgotten, or whose time is up, makes room."""
        try:
            view = self._mem.show(made["id"])
        except NotFound:
            self._clear(made["id"])
            return False
        if _is_over(view):
            self._mem.erase(view.id)
            return False
        metadata = {**view.metadata, **made["metadata"]}
        changed = {name: made[name] for name in ("content", "namespaces", "expires_at")}
        self._mem.revise(view.id, metadata=metadata, **changed)
        return True

    def _clear(self, id: str) -> None:
        try:
            self._mem.restore(id)
        except NotFound:
            return
        self._mem.erase(id)

    def _erase(self, labels: Labels, key: str) -> None:
        view = self._view(labels, key)
        if view is not None:
            self._mem.erase(view.id)

    # -- out ---------------------------------------------------------------------------------------------------------

    def get(self, op: GetOp) -> Item | None:
        view = self._view(tuple(op.namespace), str(op.key))
        if view is None:
            return None
        if op.refresh_ttl:
            self._renew(view)
        labels, key = place_of(view)
        made = {"created_at": view.created_at, "updated_at": _updated(view)}
        return Item(value=_value(view), key=key, namespace=labels, **made)

    def _view(self, labels: Labels, key: str) -> MemoryView | None:
        for id in (id_of(labels, key), *([key] if self._may_be_other(labels) else [])):
            view = self._shown(id)
            if view is not None and place_of(view) == (labels, key):
                return view
        return None

    def _shown(self, id: str) -> MemoryView | None:
        try:
            view = self._mem.show(id)
        except (NotFound, InvalidInput):
            return None
        return None if _is_over(view) else view

    def _may_be_other(self, labels: Labels) -> bool:
        return labels[:1] == (OTHERS,) and len(labels) <= 2

    def _is_other(self, labels: Labels, key: str) -> bool:
        view = self._view(labels, key) if self._may_be_other(labels) else None
        return view is not None and MARK not in view.metadata

    def search(self, op: SearchOp, *, by_meaning: bool) -> list[SearchItem]:
        """The best first, then what is not found by meaning; without a query the newest first."""
        prefix, most = tuple(op.namespace_prefix), op.offset + op.limit
        chosen: list[tuple[MemoryView, float | None]] = []
        seen: set[str] = set()
        for id, score in self._candidates(prefix, op.query if by_meaning else None, most, bool(op.filter)):
            view = self._shown(id) if id not in seen else None
            seen.add(id)
            if view is not None and _passes(view, prefix, op.filter or {}):
                chosen.append((view, score))
            if len(chosen) == most:
                break
        found = chosen[op.offset :]
        for view, _ in found if op.refresh_ttl else ():
            self._renew(view)
        return [_search_item(view, score) for view, score in found]

    def _candidates(
        self, prefix: Labels, query: str | None, most: int, is_filtered: bool
    ) -> Iterator[tuple[str, float | None]]:
        if query:
            limit = PAGE if is_filtered else min(PAGE, most + 50)
            hits = [hit for places in self._places(prefix, True) for hit in self._recalled(query, places, limit)]
            yield from sorted(hits, key=lambda hit: -hit[1])
        for places in self._places(prefix, False):
            for id in self._listed(places):
                yield id, None

    def _places(self, prefix: Labels, found: bool) -> list[Json]:
        """Where what lies below a prefix is looked for."""
        ours: Json = {"namespaces": [_name(prefix, found), *([LONG_TERM] if not prefix else [])]}
        if not self._may_be_other(prefix):
            return [ours]
        return [ours, {"user": prefix[1]} if len(prefix) == 2 else {"namespaces": [LONG_TERM]}]

    def _recalled(self, query: str, places: Json, limit: int) -> list[tuple[str, float]]:
        found = self._mem.recall(query, limit=limit, include_messages=False, **places)
        return [(hit.id, hit.match) for hit in found.hits]

    def _listed(self, places: Json) -> Iterator[str]:
        after = None
        while True:
            page = self._mem.list(limit=PAGE, after=after, **places)
            yield from [line.id for line in page.memories]
            after = page.next
            if after is None:
                return

    def namespaces(self, op: ListNamespacesOp) -> list[Labels]:
        """Reads every item."""
        given = op.match_conditions or ()
        found: set[Labels] = set()
        for id in self._listed({"namespaces": [_name((), False), LONG_TERM]}):
            view = self._shown(id)
            labels = place_of(view)[0] if view is not None else ()
            if labels and all(names_match(labels, one.path, at_end=one.match_type == "suffix") for one in given):
                found.add(labels[: op.max_depth] if op.max_depth is not None else labels)
        return sorted(found)[op.offset : op.offset + op.limit]

    def _renew(self, view: MemoryView) -> None:
        minutes = (view.metadata.get(MARK) or {}).get("ttl")
        if minutes is None:
            return
        ends = datetime.now(UTC) + timedelta(minutes=minutes)
        if ends - _expires(view, ends) > timedelta(minutes=minutes) / RENEWED_SHARE:
            self._mem.revise(view.id, expires_at=ends)


def id_of(labels: Labels, key: str) -> str:
    return f"{MARK}:{_hash([*labels, None, key])}"


def place_of(view: MemoryView) -> tuple[Labels, str]:
    """The namespace and key of a memory."""
    item = view.metadata.get(MARK)
    if isinstance(item, dict) and "namespace" in item:
        return tuple(item["namespace"]), str(item["key"])
    return ((OTHERS, view.user) if view.user else (OTHERS,)), view.id


def _value(view: MemoryView) -> Json:
    item = view.metadata.get(MARK)
    if isinstance(item, dict) and "value" in item:
        return dict(item["value"])
    cited = [{"source": one.source, "state": one.state} for one in view.citations]
    return {"text": view.text, "kind": view.kind, "status": view.status, "citations": cited, "metadata": view.metadata}


def _search_item(view: MemoryView, score: float | None) -> SearchItem:
    labels, key = place_of(view)
    made = {"created_at": view.created_at, "updated_at": _updated(view)}
    is_found = (view.metadata.get(MARK) or {"found": True}).get("found")
    return SearchItem(namespace=labels, key=key, value=_value(view), score=score if is_found else None, **made)


def _passes(view: MemoryView, prefix: Labels, filter: Json) -> bool:
    return place_of(view)[0][: len(prefix)] == prefix and (not filter or matches(_value(view), filter))


def _updated(view: MemoryView) -> datetime:
    return datetime.fromisoformat(str(view.fields.get("updated_at") or view.created_at.isoformat()))


def _expires(view: MemoryView, otherwise: datetime) -> datetime:
    written = view.fields.get("expires_at")
    return datetime.fromisoformat(str(written)) if written else otherwise


def _is_over(view: MemoryView) -> bool:
    now = datetime.now(UTC)
    return _expires(view, now + timedelta(days=1)) <= now


def _below(labels: Labels, found: bool = False) -> list[str]:
    return [_name(labels[:depth], found) for depth in range(len(labels) + 1)]


def _name(prefix: Labels, found: bool) -> str:
    """The namespace of memories below a prefix; another one for those that are found by meaning."""
    return f"{MARK}{'-found' if found else ''}:{_hash(list(prefix))}"


def _hash(labels: Sequence[str | None]) -> str:
    return sha256(json.dumps(labels).encode()).hexdigest()[:32]


def _text(value: Mapping[str, Any], texts: dict[str, str]) -> str:
    """What a person would read: the texts it is found by; of a whole value, its members."""
    chosen = [_readable(value) if path == "$" else text for path, text in texts.items()]
    return "\n".join(text for text in chosen if text.strip()) or json.dumps(dict(value), ensure_ascii=False)


def _readable(value: Mapping[str, Any]) -> str:
    first = [value[name] for name in ("text", "content", "memory", "data") if isinstance(value.get(name), str)]
    rest = {name: one for name, one in value.items() if not (isinstance(one, str) and one in first)}
    told = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in rest.values()]
    return "\n".join([*first, *(f"{name}: {text}" for name, text in zip(rest, told, strict=True))])


def _plain_text(value: Mapping[str, Any]) -> str:
    text = value.get("text")
    if not isinstance(text, str):
        raise InvalidInput("a memory that no graph put has a text alone", remedy='put {"text": "…"}')
    return text
