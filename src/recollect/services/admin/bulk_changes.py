"""Changing many memories at once: forget, erase, archive, demote, promote all that pass a filter.

The filters are those of `list`, and what `list` shows for them is what is changed. Nothing is changed by a request that
names no filter, or where more match than its limit. Changes are committed in batches, or one by one where each is
checked: what was done stays done, and the same request again does the rest, since what is changed no longer matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from pydantic import Field

from recollect.domain.memory import Memory
from recollect.domain.record import Text, clipped, now
from recollect.errors import (
    Conflict,
    Denied,
    IllegalTransition,
    InvalidInput,
    NotFound,
    RecollectError,
    TooLarge,
    VersionConflict,
)
from recollect.ports.query import Compare, Filter, OneOf, Order, Query
from recollect.retry import retry
from recollect.services.erasure import erase_traces
from recollect.services.legal_holds import without_held
from recollect.services.memories.indexing import Progress
from recollect.services.memories.lifecycle import erase_all, forget_all
from recollect.services.memories.supersession import reinstated_steps
from recollect.services.recall.filters import MemoryFilter, is_filtered, search_conditions
from recollect.services.requests import Reply
from recollect.services.tenant import Tenant
from recollect.services.transaction import logged
from recollect.services.trust import governance

BATCH = 100
EXAMPLES = 5
MOST_TOLD = 100
DEFAULT_LIMIT = 1000


class BulkRequest(MemoryFilter):
    """Which memories to change: those that `list` shows for the same filters."""

    all: bool = Field(False, description="Every memory: without it, a request that names no filter is refused")
    limit: int = Field(DEFAULT_LIMIT, ge=1, le=1_000_000, description="Where more than this match, nothing is changed")
    expect: int | None = Field(None, ge=0, description="Only if exactly so many match, such as a dry run has counted")
    why: Text = Field("", max_length=10_000, description="The reason; stored in their histories")
    dry_run: bool = Field(False, description="Only count them, and show some")


class BulkEraseRequest(BulkRequest):
    """Which memories to delete for good."""

    forgotten: bool = Field(False, description="Those that were forgotten instead")


class BulkPromoteRequest(BulkRequest):
    """Which memories to promote; each is checked as by `promote`."""

    to: Literal["verified", "published"] = Field("verified", description="The status to promote them to")


class BulkDemoteRequest(BulkRequest):
    """Which memories to demote."""

    to: Literal["hypothesis", "verified"] = Field("hypothesis", description="The status to demote them to")


class SkippedMemory(Reply):
    id: str
    why: str


class BulkReply(Reply):
    """How many memories matched, and what became of them."""

    matched: int
    changed: int = 0
    held: int = Field(0, description="How many were left alone because they are on legal hold")
    skipped: int = Field(0, description="How many were left alone for another reason")
    reasons: list[SkippedMemory] = Field(default_factory=list, description="Why, for the first of those")
    examples: list[str] = Field(default_factory=list, description="Some of those that match, with how they begin")
    dry_run: bool = False
    notes: list[str] = Field(default_factory=list)


def forget_many(tenant: Tenant, request: BulkRequest, progress: Progress = lambda d, t: None) -> BulkReply:
    """Forget every memory that passes the filters; each can be restored."""

    def forget(ids: Sequence[str]) -> int:
        memories = tenant.find(Query(Memory, (OneOf("id", tuple(ids)),))).records
        there = [memory.id for memory in memories]
        forget_all(tenant, there, request.why, "was forgotten", *reinstated_steps(tenant, memories))
        return len(there)

    return _BulkChange(tenant, request, progress).in_batches(forget)


def erase_many(tenant: Tenant, request: BulkEraseRequest, progress: Progress = lambda d, t: None) -> BulkReply:
    """Delete every memory that passes the filters for good, traces included."""

    def erase(ids: Sequence[str]) -> int:
        return erase_all(tenant, ids, logged(tenant, "delete", "erase", None, ids=list(ids), why=request.why))

    reply = _BulkChange(tenant, request, progress, "only" if request.forgotten else "no").in_batches(erase)
    if reply.changed:
        reply.notes.extend(erase_traces(tenant))
    return reply


def archive_many(tenant: Tenant, request: BulkRequest, progress: Progress = lambda d, t: None) -> BulkReply:
    """Archive every memory that passes the filters."""

    def archive(id: str) -> object:
        return governance.archive(tenant, governance.MoveRequest(id=id, why=request.why))

    return _BulkChange(tenant, request, progress).one_by_one(archive, Compare("status", "!=", "archived"))


def promote_many(tenant: Tenant, request: BulkPromoteRequest, progress: Progress = lambda d, t: None) -> BulkReply:
    """Promote every memory that passes the filters and whose citations hold; the reply says why others were not."""

    def promote(id: str) -> object:
        return governance.promote(tenant, governance.PromoteRequest(id=id, to=request.to, why=request.why))

    lower = ("hypothesis",) if request.to == "verified" else ("hypothesis", "verified")
    return _BulkChange(tenant, request, progress).one_by_one(promote, OneOf("status", lower))


def demote_many(tenant: Tenant, request: BulkDemoteRequest, progress: Progress = lambda d, t: None) -> BulkReply:
    """Demote every memory that passes the filters."""

    def demote(id: str) -> object:
        return governance.demote(tenant, governance.DemoteRequest(id=id, to=request.to, why=request.why))

    higher = ("published",) if request.to == "verified" else ("verified", "published")
    return _BulkChange(tenant, request, progress).one_by_one(demote, OneOf("status", higher))


def _skip(reply: BulkReply, id: str, refused: RecollectError) -> None:
    reply.skipped += 1
    if len(reply.reasons) < MOST_TOLD:
        reply.reasons.append(SkippedMemory(id=id, why=refused.message))


@dataclass(slots=True)
class _BulkChange:
    """One request: who is meant, and the way through them."""

    tenant: Tenant
    request: BulkRequest
    progress: Progress
    deleted: Literal["no", "only"] = "no"

    def in_batches(self, change: Callable[[Sequence[str]], int]) -> BulkReply:
        """Many in one transaction; what is on legal hold is left alone."""
        query, reply = self._begun()
        for ids in [] if reply.dry_run else self._batches(query, reply):
            free = without_held(self.tenant, Memory, ids)
            reply.held += len(ids) - len(free)
            if free:
                self._change(change, free, reply)
        return reply

    def _change(self, change: Callable[[Sequence[str]], int], ids: Sequence[str], reply: BulkReply) -> None:
        """Together; where a caller with a restricted key may not change some of them, one by one."""
        try:
            reply.changed += retry(partial(change, ids), VersionConflict)  # others change them, too
        except Denied as refused:
            if len(ids) == 1:
                _skip(reply, ids[0], refused)
                return
            for id in ids:
                self._change(change, [id], reply)

    def one_by_one(self, change: Callable[[str], object], changeable: Filter) -> BulkReply:
        """Each in a transaction of its own, by the rules for one: what may not be changed is skipped, and told."""
        query, reply = self._begun(changeable)
        for ids in [] if reply.dry_run else self._batches(query, reply):
            for id in ids:
                try:
                    retry(partial(change, id), VersionConflict)
                    reply.changed += 1
                except (Denied, IllegalTransition, NotFound) as refused:
                    _skip(reply, id, refused)
        return reply

    def _begun(self, *more: Filter) -> tuple[Query[Memory], BulkReply]:
        """Refuses what nobody can have meant; else how many match, with examples."""
        request = self.request
        if not is_filtered(request) and not request.all:
            raise InvalidInput(
                "no filter says which memories are meant", remedy="give a filter, or all=True for every one"
            )
        conditions = search_conditions(request, now())
        conditions = replace(conditions, alive=()) if self.deleted == "only" else conditions
        query = Query(Memory, (*conditions.filters(), *more), (Order("id"),), deleted=self.deleted)
        matched = self.tenant.count(query)
        some = self.tenant.select(replace(query, limit=EXAMPLES), ("id", "text"))
        examples = [f"{id} {clipped(text, 80)}" for id, text in some]
        reply = BulkReply(matched=matched, examples=examples, dry_run=request.dry_run)
        if not request.dry_run and request.expect is not None and matched != request.expect:
            raise Conflict(
                f"{matched} memories match, not {request.expect}", remedy="look again: dry_run=True", matched=matched
            )
        if not request.dry_run and matched > request.limit:
            raise TooLarge(
                f"{matched} memories match, more than the limit of {request.limit}; nothing was changed",
                remedy=f"narrow the filter, or give limit={matched}",
                matched=matched,
            )
        return query, reply

    def _batches(self, query: Query[Memory], reply: BulkReply) -> Iterator[list[str]]:
        """The ids in order, each batch after the last id: what is left alone is not met again."""
        last, done = "", 0
        while done < reply.matched:  # what is stored meanwhile is not meant
            after: tuple[Filter, ...] = (Compare("id", ">", last),) if last else ()
            size = min(BATCH, reply.matched - done)
            page = replace(query, where=(*query.where, *after), limit=size)
            ids = [id for (id,) in self.tenant.select(page, ("id",))]
            if not ids:
                return
            yield ids
            last, done = ids[-1], done + len(ids)
            self.progress(done, reply.matched)
