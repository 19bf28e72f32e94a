"""A memory is forgotten: softly and restorably, for good, by its expiry, or because space is limited."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from recollect.domain.agents import Agent
from recollect.domain.memory import UTTERANCES, Embedding, IndexTask, Memory, Revision
from recollect.domain.record import Id, Text, now
from recollect.domain.tenancy import User
from recollect.errors import Conflict, InvalidInput, NotFound, VersionConflict
from recollect.ports.query import AnyOf, Compare, Filter, IsNull, OneOf, Order, Query, equal
from recollect.ports.steps import Delete, DeleteWhere, Step
from recollect.retry import retry
from recollect.services.erasure import erase_traces, is_owed, owing
from recollect.services.legal_holds import refuse_held, without_held
from recollect.services.memories.content_hashes import check_revision, intact
from recollect.services.memories.derived import erasing_steps, forgetting_steps
from recollect.services.memories.revise import change_steps, fallen_steps, kept_steps
from recollect.services.memories.supersession import reinstated_steps
from recollect.services.requests import ListReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged

PAGE = 200  # forgotten in one transaction, for which others who write wait: of 1,000, a second on PostgreSQL


TRUST_WORTH = {"hypothesis": 0.0, "verified": 2.0, "published": 3.0, "archived": -2.0}


class ForgetRequest(Request):
    """Forget a memory."""

    id: Id = Field(description="The memory")
    why: Text = Field("", max_length=10_000, description="Why; kept in its history")
    version: int | None = Field(None, ge=1, description="Only if it still has this version")


class ForgetReply(Reply):
    id: str
    restorable: bool
    notes: list[str] = Field(default_factory=list)


def forget(tenant: Tenant, request: ForgetRequest) -> ForgetReply:
    """Soft deletion: nothing finds the memory any more, `restore` brings it back."""
    memory = load(tenant, Memory, request.id, version=request.version)
    refuse_held(tenant, {"memory": [memory.id]})
    steps = change_steps(tenant, memory, "forgotten", request.why, is_deleted=True)
    steps += forgetting_steps(tenant, [memory.id])
    steps += fallen_steps(tenant, [memory], "was forgotten")
    commit(tenant, [*steps, *reinstated_steps(tenant, [memory])])
    return ForgetReply(id=memory.id, restorable=True)


def restore(tenant: Tenant, request: ForgetRequest) -> ForgetReply:
    """Bring a forgotten memory back as it was."""
    memory = load(tenant, Memory, request.id, deleted=True, version=request.version)
    if not memory.is_deleted:
        raise InvalidInput("that memory is not forgotten", remedy="nothing needs to be done")
    same = (equal("identity", memory.identity), Compare("created_at", ">", memory.updated_at))
    again = tenant.find(Query(Memory, same, limit=1)).records
    if again and memory.kind not in UTTERANCES:
        raise Conflict(
            "the same has been remembered anew since", remedy=f"use that one, or forget it first: {again[0].id}"
        )
    _refuse_owner_removed(tenant, memory)
    commit(tenant, change_steps(tenant, memory, "restored", request.why, is_deleted=False))
    return ForgetReply(id=memory.id, restorable=False)


def _refuse_owner_removed(tenant: Tenant, memory: Memory) -> None:
    for type, record in (("user", User), ("agent", Agent)):
        id = getattr(memory, f"{type}_id")
        if id is not None and tenant.get(record, id) is None:
            raise Conflict(
                f"its {type} was removed", remedy=f"bring that back first: {type}.restore {id}", id=memory.id
            )


def erase_all(tenant: Tenant, ids: Sequence[str], *more: Step) -> int:
    """Delete these for good, in one transaction with `more`; their traces are owed. How many were still there."""
    memories = tenant.find(Query(Memory, (OneOf("id", tuple(ids)),), deleted="yes")).records
    gone = [memory.id for memory in memories]
    if gone:
        steps = [*reinstated_steps(tenant, memories), *erasing_steps(tenant, gone)]
        commit(tenant, [*steps, *(Delete(Memory, id) for id in gone), owing(tenant, gone[0]), *more])
    return len(gone)


def erase(tenant: Tenant, request: ForgetRequest) -> ForgetReply:
    """Delete for good: the memory, its history, citations, tags, links and vectors, and their traces on disk."""
    try:
        memory = load(tenant, Memory, request.id, deleted=True, version=request.version)
    except NotFound:
        if not is_owed(tenant, request.id):
            raise
        return ForgetReply(id=request.id, restorable=False, notes=erase_traces(tenant))
    refuse_held(tenant, {"memory": [memory.id]})
    reinstated = reinstated_steps(tenant, [memory])
    entry = logged(tenant, "delete", "erase", None, id=memory.id)
    copies = erasing_steps(tenant, [memory.id])
    commit(tenant, [*reinstated, *copies, Delete(Memory, memory.id), owing(tenant, memory.id), entry])
    return ForgetReply(id=memory.id, restorable=False, notes=erase_traces(tenant))


class PruneRequest(Request):
    """Make room: forget what is old and unread, or the least worth keeping above a number."""

    keep: int | None = Field(None, ge=0, description="Keep so many of each tenant's memories, the most worth keeping")
    older_than_days: float | None = Field(None, gt=0, le=365_000, description="Forget what is older …")
    unread_for_days: float | None = Field(None, gt=0, le=365_000, description="… and was not recalled for so long")
    max_priority: int = Field(9, ge=1, le=10, description="Never forget a memory of a higher priority")
    user: Id | None = Field(None, description="Only this user's")
    agent: Id | None = Field(None, description="Only this agent's")
    keep_trusted: bool = Field(True, description="Never forget what is verified or published")
    dry_run: bool = Field(False, description="Only say what would be forgotten")


class PruneReply(Reply):
    forgotten: list[str]
    kept: int


def prune(tenant: Tenant, request: PruneRequest) -> PruneReply:
    """Forget, restorably, what matters least by priority, trust, importance, use and age."""
    if request.keep is None and request.older_than_days is None and request.unread_for_days is None:
        raise InvalidInput("nothing says what to prune", remedy="give keep, older_than_days or unread_for_days")
    moment = now()
    owners = tuple(equal(f"{name}_id", value) for name in ("user", "agent") if (value := getattr(request, name)))
    total = tenant.count(Query(Memory, owners))
    rows = tenant.select(Query(Memory, (*owners, *_prunable(request, moment))), _WORTH_FIELDS)
    free = set(without_held(tenant, Memory, [row[0] for row in rows]))
    by_worth = sorted((row for row in rows if row[0] in free), key=lambda row: (_worth(row, moment), row[0]))
    if request.keep is not None:
        by_worth = by_worth[: max(0, total - request.keep)]
    ids = [row[0] for row in by_worth]
    if not request.dry_run:
        ids = [id for start in range(0, len(ids), PAGE) for id in _pruned(tenant, ids[start : start + PAGE])]
    return PruneReply(forgotten=ids, kept=total - len(ids))


def _pruned(tenant: Tenant, ids: Sequence[str]) -> Sequence[str]:
    """Those that are not on legal hold by now: one may have been placed since."""

    def attempt() -> Sequence[str]:
        free = without_held(tenant, Memory, ids)
        forget_all(tenant, free, "pruned", "was pruned")
        return free

    return retry(attempt, VersionConflict)  # others change or prune them, too


_WORTH_FIELDS = ("id", "priority", "status", "importance", "access_count", "last_accessed", "occurred_at")


def _prunable(request: PruneRequest, moment: datetime) -> list[Filter]:
    filters: list[Filter] = [Compare("priority", "<=", request.max_priority)]
    if request.keep_trusted:
        filters.append(OneOf("status", ("hypothesis", "archived")))
    if request.older_than_days is not None:
        filters.append(Compare("occurred_at", "<", moment - timedelta(days=request.older_than_days)))
    if request.unread_for_days is not None:
        unread = Compare("last_accessed", "<", moment - timedelta(days=request.unread_for_days))
        filters.append(AnyOf((IsNull("last_accessed"), unread)))
    return filters


def _worth(row: tuple[Any, ...], moment: datetime) -> float:
    """What a memory is worth keeping: priority counts most, then trust, then importance, use and youth."""
    _, priority, status, importance, count, last_accessed, occurred_at = row
    age_days = max((moment - (last_accessed or occurred_at)).total_seconds() / 86400, 0.0)
    use, youth = min(count, 100) / 50, 2 * 0.5 ** (age_days / 30)
    return float(priority + TRUST_WORTH[status] + min(importance, 10) / 5 + use + youth)


def forget_all(tenant: Tenant, ids: Sequence[str], why: str, what_happened: str, *more: Step) -> None:
    """Forget these, as far as they are still there, in one transaction with `more`."""
    memories = tenant.find(Query(Memory, (OneOf("id", tuple(ids)),))).records
    kept = [kept_steps(tenant, memory, "forgotten", why, is_deleted=True)[1] for memory in memories]
    # Those of a kind together: a store does many of them at once.
    steps: list[Step] = [step for some in zip(*kept, strict=True) for step in some]
    of_these = OneOf("memory_id", tuple(memory.id for memory in memories))
    steps += [DeleteWhere(part, (of_these,)) for part in (Embedding, IndexTask)] if memories else []
    steps += forgetting_steps(tenant, ids)
    steps += fallen_steps(tenant, memories, what_happened)
    if memories:
        commit(tenant, [*steps, *more])


class HistoryRequest(Request):
    """Ask what a memory was before."""

    id: Id = Field(description="The memory")


class HistoryEntry(Reply):
    """One state a memory was in, and the change that ended it."""

    number: int
    text: str
    status: str
    held_from: datetime
    held_to: datetime | None = None
    change: str = ""
    why: str = ""
    because_of: str | None = Field(None, description="The memory that caused it, such as its replacement")
    by: str | None = None


class History(ListReply[HistoryEntry]):
    """The states of a memory, the oldest first; the last is how it is now."""

    id: str
    entries: list[HistoryEntry]


def history(tenant: Tenant, request: HistoryRequest) -> History:
    """Every state of a memory, oldest first; the last is how it stands now."""
    memory = intact(load(tenant, Memory, request.id, deleted=True))
    query = Query(Revision, (equal("memory_id", memory.id),), (Order("number"),))
    entries = [
        HistoryEntry(
            number=revision.number,
            text=revision.text,
            status=revision.state["status"],
            held_from=revision.held_from,
            held_to=revision.held_to,
            change=revision.change,
            why=revision.why,
            because_of=revision.because_of,
            by=revision.created_by,
        )
        for revision in map(check_revision, tenant.find(query).records)
    ]
    current = HistoryEntry(
        number=memory.version, text=memory.text, status=memory.status, held_from=memory.updated_at,
        change="forgotten" if memory.is_deleted else "",
    )  # fmt: skip
    return History(id=memory.id, entries=[*entries, current])
