"""Items: JSON values that agents store under a namespace and a key, found by key, by filter and by meaning.

A put replaces the value. A put and its vectors are one transaction, and so are many puts and deletes. Each passage of
each text has a vector, and the most similar one counts; the texts are not stored, so vectors can only be made again by
putting the item again. An expired item is never returned, whether it was swept or not; reading an item with a time to
live can restart that time.

Search by meaning compares the question with every vector below the prefix, so it is exact. An item is not a memory:
memories are merged with their duplicates, versioned, cited and ranked by much more than meaning, items are replaced.
Measured at 5,000 of each on one file: put 2.0 ms against 2.7, overwrite 2.1 against 4.7, search in a namespace of a
hundred 1.5 against 5.4, and 8.2 against 18.3 MB. The price: search over all grows with the number of items.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from recollect.domain.key_value import (
    Item,
    ItemVector,
    after_all_below,
    item_id,
    item_vector_id,
    matches,
    names_match,
    path_of,
)
from recollect.domain.record import LONGEST_SECONDS, Json, JsonObject, QueryText, Text, now
from recollect.domain.text.passages import MOST_PASSAGES
from recollect.errors import TooLarge
from recollect.ports.keys import EncryptsFields
from recollect.ports.models import Embedder
from recollect.ports.query import AnyOf, Compare, Filter, IsNull, OneOf, Order, Query, equal
from recollect.ports.steps import Delete, DeleteWhere, Put, Step, Touch
from recollect.services.erasure import erase_traces, owing
from recollect.services.memories.embedded_records import read_whole
from recollect.services.memories.embeddings import (
    PassageVector,
    cost_of,
    left_out,
    passage_vectors,
    question_vector,
)
from recollect.services.request_limits import MOST_CONDITIONS
from recollect.services.requests import ListReply, PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, logged, made

MOST_AT_ONCE = 5000
LEAST_GAIN = 0.01  # of its time to live: a read that would extend it by less writes nothing
MORE = 50  # are read beyond the limit, since some may have expired
NEWEST = (Order("updated_at", True), Order("id", True))
Labels = list[QueryText]


class PutItemRequest(Request):
    """One item; without a value it is deleted."""

    namespace: Labels = Field(description="Its namespace: a path of labels")
    key: QueryText = Field(description="Its key in the namespace")
    value: Json | None = Field(description="Its value, as JSON; null deletes the item")
    texts: dict[Text, Text] = Field(default_factory=dict, description="The texts to find it by, by name")
    ttl_minutes: float | None = Field(
        None, gt=0, le=LONGEST_SECONDS / 60, description="Delete it after this many minutes"
    )


class PutItemsReply(Reply):
    put: int
    deleted: int
    vectors: int = Field(0, description="How many vectors were made: one for each passage of each text")
    notes: list[str] = Field(default_factory=list)


def put(tenant: Tenant, request: PutItemRequest) -> PutItemsReply:
    """Store a value under a key, in place of the previous one."""
    return put_many(tenant, PutItemsRequest(items=[request]))


class PutItemsRequest(Request):
    """Several items; if a key occurs more than once, the last one counts."""

    items: list[PutItemRequest] = Field(
        max_length=MOST_AT_ONCE, description="The items to put, or to delete where the value is null"
    )


def put_many(tenant: Tenant, request: PutItemsRequest) -> PutItemsReply:
    """Put and delete several items: all, or none."""
    last = {item_id(path_of(one.namespace), one.key): one for one in request.items}
    before = {one.id: one for one in tenant.find(Query(Item, (OneOf("id", tuple(last)),))).records}
    kept = {id: one for id, one in last.items() if one.value is not None}
    gone = [id for id in last if id not in kept and id in before]
    vectors, notes = item_vectors(tenant, kept)
    steps: list[Step] = [Delete(Item, id) for id in gone]
    steps += [Put(_item(tenant, id, one, before.get(id))) for id, one in kept.items()]
    if kept:  # also of items that did not exist when read: another writer may have put them since
        steps.append(DeleteWhere(ItemVector, (OneOf("item_id", tuple(kept)),)))
    steps += [Put(one) for one in vectors]
    if steps:
        entry = logged(tenant, "update", "item.put", None, put=len(kept), deleted=len(gone))
        commit(tenant, [*steps, entry])
    return PutItemsReply(put=len(kept), deleted=len(gone), vectors=len(vectors), notes=notes)


def _item(tenant: Tenant, id: str, given: PutItemRequest, before: Item | None) -> Item:
    moment = now()
    replaced = before is not None and _is_living(before, moment)
    item: Item = made(
        Item,
        tenant,
        id=id,
        path=path_of(given.namespace),
        namespace=given.namespace,
        key=given.key,
        value=given.value,
        ttl_minutes=given.ttl_minutes,
        expires_at=_expiry(given.ttl_minutes, moment),
        created_at=before.created_at if before and replaced else moment,
        updated_at=moment,
    )
    return item


def _expiry(ttl_minutes: float | None, moment: datetime) -> datetime | None:
    try:
        return None if ttl_minutes is None else moment + timedelta(minutes=ttl_minutes)
    except OverflowError:
        return None  # beyond the calendar: never


def _is_living(item: Item, moment: datetime) -> bool:
    return item.expires_at is None or item.expires_at > moment


def item_vectors(tenant: Tenant, kept: dict[str, PutItemRequest]) -> tuple[list[ItemVector], list[str]]:
    """The vectors of all passages of all texts, and notes about texts too long to embed whole."""
    texts = [(id, one, place, text) for id, one in kept.items() for place, text in one.texts.items() if text]
    if not texts or tenant.embedder is None:
        return [], []
    most = _share(tenant.embedder, tenant.passages_at_once, [text for *_, text in texts])
    found = passage_vectors(tenant.embedder, [text for *_, text in texts], most=most)
    notes = [
        f"{one.key[:80]}, {place[:80]}: {note}"
        for _, one, place, text in texts
        for note in left_out(read_whole(text, tenant.embedder, most))
    ]
    vectors = [
        _vector(tenant, (id, path_of(one.namespace), place), tenant.embedder.model, part, passage)
        for (id, one, place, _), passages in zip(texts, found, strict=True)
        for part, passage in enumerate(passages)
    ]
    return vectors, notes


def _share(embedder: Embedder, bound: int | None, texts: Sequence[str]) -> int:
    """How many passages of each text get a vector while the caller waits.

    The vectors of items are never made later, since items are mostly looked up by key. So where a call is limited, a
    long text gets fewer vectors, evenly spread, and the reply says so; too many texts in one call are refused.
    """
    if bound is None:
        return MOST_PASSAGES
    most = min(MOST_PASSAGES, max(2, bound // len(texts)))
    needed = sum(cost_of(text, embedder, most) for text in texts)
    if needed > bound:
        remedy = "put fewer items at once, or give fewer texts for each"
        raise TooLarge(f"{len(texts)} texts to embed are too many for one call", remedy=remedy)
    return most


def _vector(tenant: Tenant, text: tuple[str, str, str], model: str, part: int, found: PassageVector) -> ItemVector:
    item_id, path, place = text
    vector: ItemVector = made(
        ItemVector,
        tenant,
        id=item_vector_id(item_id, place, part),
        item_id=item_id,
        path=path,
        place=place,
        part=part,
        start=found.passage.start if found.passage else None,
        end=found.passage.end if found.passage else None,
        model=model,
        vector=np.asarray(found.vector, np.float16).tobytes(),
    )
    return vector


class ItemView(Reply):
    namespace: list[str]
    key: str
    value: JsonObject
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    score: float | None = None


class GetItemRequest(Request):
    """One item."""

    namespace: Labels = Field(description="Its namespace")
    key: QueryText = Field(description="Its key in the namespace")
    refresh: bool = Field(False, description="Restart its time to live")


class GetItemReply(Reply):
    item: ItemView | None


def get(tenant: Tenant, request: GetItemRequest) -> GetItemReply:
    """The item, if it exists."""
    found = tenant.get(Item, item_id(path_of(request.namespace), request.key))
    if found is None or not _is_living(found, now()):
        return GetItemReply(item=None)
    if request.refresh:
        _refresh(tenant, [found])
    return GetItemReply(item=_view(found))


def _refresh(tenant: Tenant, items: Sequence[Item]) -> None:
    moment = now()
    steps: list[Step] = []
    for item in items:
        expires_at = _expiry(item.ttl_minutes, moment)
        if item.ttl_minutes is not None and item.expires_at is not None and expires_at is not None:
            gained = (expires_at - item.expires_at).total_seconds() / 60
            if gained > LEAST_GAIN * item.ttl_minutes:
                steps.append(Touch(Item, item.id, put={"expires_at": expires_at}))
    if steps:
        tenant.transact(steps)


def _view(item: Item, score: float | None = None) -> ItemView:
    shared = {name: getattr(item, name) for name in "namespace key value created_at updated_at expires_at".split()}
    return ItemView(**shared, score=score)


class SearchItemsRequest(Request):
    """Which items of a namespace prefix, by filter, by meaning, or both."""

    prefix: Labels = Field(default_factory=list, description="Only in this namespace and those below it")
    filter: Json = Field(
        default_factory=dict,
        max_length=MOST_CONDITIONS,
        description='Conditions on fields of the value: a value to equal, or an operator such as {"$gt": 3}',
    )
    query: QueryText | None = Field(None, description="Rank by similarity to this text; the newest first if omitted")
    limit: int = Field(10, ge=0, le=10_000, description="The most to return")
    offset: int = Field(0, ge=0, le=10**9, description="How many to skip")
    refresh: bool = Field(False, description="Restart the time to live of the items found")


class SearchItemsReply(ListReply[ItemView]):
    """The items found, the most similar or the newest first."""

    items: list[ItemView]


def search(tenant: Tenant, request: SearchItemsRequest) -> SearchItemsReply:
    """Items of a namespace prefix that match a filter, the most similar or the newest first."""
    where = (*_below(request.prefix), *_living(), *_asked(tenant, request.filter))
    ranked: list[tuple[Item, float | None]]
    if request.query and tenant.embedder is not None:
        ranked = _most_similar(tenant, request, where)
    elif request.filter:
        ranked = [(one, None) for one in _passing(tenant, request.filter, where).values()]
    else:
        page = tenant.find(Query(Item, where, NEWEST, request.offset + request.limit))
        ranked = [(one, None) for one in page.records]
    shown = ranked[request.offset : request.offset + request.limit]
    if request.refresh:
        _refresh(tenant, [one for one, _ in shown])
    return SearchItemsReply(items=[_view(one, score) for one, score in shown])


def _most_similar(
    tenant: Tenant, request: SearchItemsRequest, where: tuple[Filter, ...]
) -> list[tuple[Item, float | None]]:
    """By the most similar passage of each item's texts; items without a vector come last."""
    wanted = request.offset + request.limit
    allowed = _passing(tenant, request.filter, where) if request.filter else None
    ranked: list[tuple[Item, float | None]] = []
    compared: set[str] = set()
    ordered = _by_similarity(tenant, request, allowed)
    while some := list(islice(ordered, wanted + MORE)):
        compared.update(id for id, _ in some)
        living = allowed if allowed is not None else _hydrated(tenant, where, [id for id, _ in some])
        ranked += [(living[id], score) for id, score in some if id in living]
        if len(ranked) >= wanted:
            return ranked
    rest = allowed.values() if allowed is not None else tenant.find(Query(Item, where, NEWEST)).records
    return ranked + [(one, None) for one in rest if one.id not in compared]


def _passing(tenant: Tenant, filter: JsonObject, where: tuple[Filter, ...]) -> dict[str, Item]:
    found = tenant.find(Query(Item, where, NEWEST)).records
    return {one.id: one for one in found if matches(one.value, filter)}


def _hydrated(tenant: Tenant, where: tuple[Filter, ...], ids: Sequence[str]) -> dict[str, Item]:
    found = tenant.find(Query(Item, (*where, OneOf("id", tuple(ids))))).records
    return {one.id: one for one in found}


def _by_similarity(
    tenant: Tenant, request: SearchItemsRequest, allowed: dict[str, Item] | None
) -> Iterator[tuple[str, float]]:
    """The items that have a vector, each once, the most similar first."""
    assert tenant.embedder is not None
    where: tuple[Filter, ...] = (*_below(request.prefix), equal("model", tenant.embedder.model))
    if allowed is not None:
        where = (*where, OneOf("item_id", tuple(allowed)))
    rows = tenant.select(Query(ItemVector, where), ("item_id", "vector"))
    if not rows:
        return
    matrix = np.frombuffer(b"".join([vector for _, vector in rows]), np.float16).reshape(len(rows), -1)
    likeness = matrix.astype(np.float32) @ question_vector(tenant.embedder, request.query or "")[0]
    seen: set[str] = set()
    for place in np.argsort(-likeness, kind="stable"):
        id = rows[place][0]
        if id not in seen:
            seen.add(id)
            yield id, float(likeness[place])


def _below(prefix: Sequence[str]) -> tuple[Filter, ...]:
    if not prefix:
        return ()
    path = path_of(prefix)
    return (Compare("path", ">=", path), Compare("path", "<", after_all_below(path)))


def _living() -> tuple[Filter, ...]:
    return (AnyOf((IsNull("expires_at"), Compare("expires_at", ">", now()))),)


def _asked(tenant: Tenant, filter: JsonObject) -> Iterator[Filter]:
    """The conditions that the store can apply; all of them are checked again on what it returns."""
    if isinstance(tenant.store, EncryptsFields) and tenant.store.data_keys.seals_texts(tenant.scope.organization_id):
        return
    for name, wanted in filter.items():
        if isinstance(wanted, dict) and set(wanted) == {"$eq"}:
            wanted = wanted["$eq"]
        if isinstance(wanted, str | bool | int | float):
            yield Compare("value", "=", wanted, name)


class NamespacesRequest(Request):
    """Which namespaces."""

    begins: list[Labels] = Field(
        default_factory=list, description="Only those that begin with these labels; * is any label"
    )
    ends: list[Labels] = Field(
        default_factory=list, description="Only those that end with these labels; * is any label"
    )
    max_depth: int | None = Field(None, ge=1, description="Shorten to this many labels")
    limit: int = Field(100, ge=0, le=10_000, description="The most to return")
    offset: int = Field(0, ge=0, le=10**9, description="How many to skip")

    @field_validator("begins", "ends", mode="before")
    @classmethod
    def _one_is_enough(cls, given: Any) -> Any:
        flat = isinstance(given, list | tuple) and given and all(isinstance(one, str) for one in given)
        return [list(given)] if flat else given


class NamespacePage(PageReply[list[str]]):
    """Namespaces, by name."""

    namespaces: list[list[str]]


def namespaces(tenant: Tenant, request: NamespacesRequest) -> NamespacePage:
    """The namespaces that contain items, in order of their labels."""
    first = request.begins[0] if request.begins else []
    found = {
        tuple(labels[: request.max_depth])
        for labels in _namespaces(tenant, list(takewhile(lambda label: label != "*", first)))
        if all(names_match(labels, pattern, at_end=False) for pattern in request.begins)
        and all(names_match(labels, pattern, at_end=True) for pattern in request.ends)
    }
    shown = sorted(found)[request.offset : request.offset + request.limit]
    return NamespacePage(namespaces=[list(labels) for labels in shown])


def _namespaces(tenant: Tenant, prefix: Sequence[str]) -> Iterator[list[str]]:
    """One query for each namespace, however many items it contains."""
    where = (*_below(prefix), *_living())
    after: tuple[Filter, ...] = ()
    while True:
        query = Query(Item, (*where, *after), (Order("path"),), 1)
        rows = tenant.select(query, ("path", "namespace"))
        if not rows:
            return
        yield rows[0][1]
        after = (Compare("path", ">", rows[0][0]),)


class SweepItemsRequest(Request):
    """Delete expired items."""


class SweepItemsReply(Reply):
    expired: int
    notes: list[str] = Field(default_factory=list)


def sweep(tenant: Tenant, request: SweepItemsRequest) -> SweepItemsReply:
    """Delete every expired item for good, traces included; it is not returned before that, either."""
    expired = (Compare("expires_at", "<=", now()),)
    count = tenant.count(Query(Item, expired))
    if not count:
        return SweepItemsReply(expired=0)
    entry = logged(tenant, "delete", "item.sweep", None, count=count)
    commit(tenant, [DeleteWhere(Item, expired), owing(tenant, "item.sweep"), entry])
    return SweepItemsReply(expired=count, notes=erase_traces(tenant))
