"""Rolling up summaries: messages into stretches, stretches into sessions, sessions into days, days into projects.

Each run writes what is due and nothing else. A stretch is due when it is full or its session is over, a session when it
is over, a day when it has passed, a project when one of its days is new or has changed. A summary whose parts changed
is deleted with those above it and written again. Every summary is a transaction of its own, so an interrupted run can
be repeated. The owners are those that all parts share: a summary of the words of two users belongs to neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from pydantic import Field

from recollect.domain.conversations import Message, Session
from recollect.domain.memory import LONG_TERM, Memory, standing_for
from recollect.domain.record import Id, clipped, now
from recollect.errors import Conflict, InvalidInput
from recollect.ports.query import AnyOf, Compare, Filter, Holds, IsNull, Order, Query, equal
from recollect.ports.steps import Delete, Touch
from recollect.services.learning.summaries import (
    SummaryItem,
    SummaryTask,
    covered_ids,
    digest_of,
    dropping,
    is_stale,
    load_summary,
    memory_item,
    message_item,
    of_key,
    parts_of,
    write,
)
from recollect.services.memories.indexing import Progress
from recollect.services.memories.revise import MADE_FROM_OTHERS
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.times import From, Through, zone_of
from recollect.services.transaction import commit, load, refuse_cold

STRETCH = 20  # turns in a full stretch
OVER_AFTER = timedelta(hours=24)  # a session that was not ended is over after this long without a message
PAGE = 200
SHOWN_TEXT = 200


class MakeSummaryRequest(Request):
    """What to summarise: a session, a part of it by time, or memories by their ids."""

    session: Id | None = Field(None, description="The messages of this session")
    since: From | None = Field(None, description="Only from this time on")
    until: Through | None = Field(None, description="Only before this time; a date includes the whole day")
    ids: list[Id] = Field(default_factory=list, description="These memories, instead of a session")


class MakeSummaryReply(Reply):
    """A summary that was written, or that already existed."""

    id: str
    text: str
    covers: list[str]
    existing: bool = False
    notes: list[str] = Field(default_factory=list)


def make(tenant: Tenant, request: MakeSummaryRequest) -> MakeSummaryReply:
    """Summarise a part of a session, or some memories; the same again returns the existing summary."""
    items = _asked_for(tenant, request)
    if not items:
        refuse_cold(tenant, tenant.get(Session, request.session) if request.session else None)
        raise InvalidInput("there is nothing to summarise", remedy="give a session with messages, or ids")
    key = f"stretch:{digest_of(items)}"
    session = load(tenant, Session, request.session) if request.session else None
    unit = SummaryTask("stretch", key, tuple(items), _owners(items, session))
    found = _summaries(tenant, "stretch", *of_key(key))
    if found:
        return MakeSummaryReply(id=found[0].id, text=found[0].text, covers=covered_ids(found[0]), existing=True)
    memory, notes = write(tenant, unit)
    return MakeSummaryReply(id=memory.id, text=memory.text, covers=covered_ids(memory), notes=list(notes))


def _asked_for(tenant: Tenant, request: MakeSummaryRequest) -> list[SummaryItem]:
    if bool(request.ids) == bool(request.session):
        raise InvalidInput("give either a session or ids", remedy="summary.make(session=…) or summary.make(ids=[…])")
    if request.session:
        load(tenant, Session, request.session)
        items = _said(tenant, request.session)
    else:
        items = [memory_item(load(tenant, Memory, id)) for id in dict.fromkeys(request.ids)]
        items.sort(key=lambda item: (item.at, item.id))
    since, until = request.since, request.until
    return [item for item in items if (not since or item.at >= since) and (not until or item.at < until)]


class RollUpRequest(Request):
    """What to roll up."""

    session: Id | None = Field(None, description="Only this session")
    project: Id | None = Field(None, description="Only the sessions and days of this project")
    include_open: bool = Field(False, description="Also open sessions and today")


class RollUpReply(Reply):
    """How many summaries were written on each level, and how many were deleted because what they cover has changed."""

    written: dict[str, int] = Field(default_factory=dict)
    dropped: int = 0
    notes: list[str] = Field(default_factory=list)


@dataclass(slots=True)
class _RollUp:
    tenant: Tenant
    request: RollUpRequest
    progress: Progress
    moment: datetime = field(default_factory=now)
    report: RollUpReply = field(default_factory=RollUpReply)
    done: int = 0
    total: int = 0
    alone: dict[str, list[Memory]] = field(default_factory=dict)
    """By level: the summaries of a lower level that serve for it, because they are its only part."""

    def write(self, unit: SummaryTask) -> None:
        try:
            _, notes = write(self.tenant, unit)
        except Conflict as conflict:
            notes = (_changed_meanwhile(conflict),)
        else:
            self.report.written[unit.level] = self.report.written.get(unit.level, 0) + 1
        self.note(*notes)

    def mark(self, summary: Memory, level: str, *, is_alone: bool) -> Memory:
        """Mark whether a summary also serves for a higher level, so that it is found there, too."""
        key = standing_for(level)
        if bool(summary.metadata.get(key)) == is_alone:
            return summary
        told = {name: value for name, value in summary.metadata.items() if name != key}
        told |= {key: True} if is_alone else {}
        # Its text is unchanged: no new version, and nothing to index again.
        commit(self.tenant, [Touch(Memory, summary.id, put={"metadata": told})])
        marked: Memory = summary.changed(metadata=told)
        return marked

    def note(self, *notes: str) -> None:
        self.report.notes += [note for note in notes if note not in self.report.notes]

    def drop(self, ids: Sequence[str]) -> None:
        if not ids:
            return
        steps = dropping(self.tenant, ids)
        try:
            commit(self.tenant, steps)
        except Conflict as conflict:
            self.note(_changed_meanwhile(conflict))
        else:
            self.report.dropped += sum(isinstance(step, Delete) for step in steps)

    def step(self) -> None:
        self.done += 1
        self.progress(self.done, max(self.total, self.done))


def _changed_meanwhile(conflict: Conflict) -> str:
    return f"changed meanwhile, roll up again: {conflict.message}"


def roll_up(tenant: Tenant, request: RollUpRequest, progress: Progress = lambda done, of: None) -> RollUpReply:
    """Write every summary that is due, from the bottom up."""
    run = _RollUp(tenant, request, progress)
    where = _sessions_asked(tenant, request)
    run.total = tenant.count(Query(Session, where)) + 2
    for session in _pages(tenant, Query(Session, where, (Order("id"),))):
        _roll_session(run, session)
        run.step()
    _roll_above(run, "day", "session", _day_of(run), lambda key: run.request.include_open or not _is_today(run, key))
    run.step()
    _roll_above(run, "project", "day", _project_of, lambda key: True)
    run.step()
    return run.report


def _sessions_asked(tenant: Tenant, request: RollUpRequest) -> tuple[Filter, ...]:
    """Those in cold storage have their summaries: what they were made from is not here."""
    if request.session:
        refuse_cold(tenant, load(tenant, Session, request.session))
        return (equal("id", request.session),)
    warm = IsNull("cold_at")
    return (equal("project_id", request.project), warm) if request.project else (warm,)


def _pages(tenant: Tenant, query: Query[Session]) -> Iterator[Session]:
    after: str | None = None
    while True:
        page = tenant.find(Query(Session, query.where, query.order, limit=PAGE, after=after))
        yield from page.records
        after = page.next
        if after is None:
            return


def _said(tenant: Tenant, session: str) -> list[SummaryItem]:
    """The messages of a session and its memories that do not expire, in order."""
    moment = now()
    lasting: tuple[Filter, ...] = (
        equal("session_id", session),
        Compare("status", "!=", "archived"),
        IsNull("expires_at"),
        AnyOf((IsNull("valid_to"), Compare("valid_to", ">", moment))),
        Holds("namespaces", LONG_TERM),
        *(Compare("kind", "!=", kind) for kind in sorted(MADE_FROM_OTHERS)),
    )
    items = [memory_item(one) for one in tenant.find(Query(Memory, lasting)).records]
    messages = tenant.find(Query(Message, (equal("session_id", session),))).records
    items += [message_item(one) for one in messages if one.text and one.text.strip()]
    return sorted(items, key=lambda item: (item.at, item.id))


def _summaries(tenant: Tenant, level: str, *where: Filter) -> list[Memory]:
    living = (equal("kind", "summary"), equal("level", level), Compare("status", "!=", "archived"))
    return tenant.find(Query(Memory, (*living, *where), (Order("occurred_at"),))).records


def _roll_session(run: _RollUp, session: Session) -> None:
    items = _said(run.tenant, session.id)
    is_over = run.request.include_open or _is_over(session, items, run.moment)
    stretches = _stretches(run, session)
    current = {item.id: item for item in items}
    stale = [one for one in stretches if not _holds(one, current)]
    run.drop([one.id for one in stale])
    covered = {id for one in stretches if one not in stale for id in covered_ids(one)}
    for stretch in _runs(items, covered, is_over):
        # Named after its first item: a concurrent roll-up that has seen more items starts there, too.
        run.write(
            SummaryTask("stretch", f"stretch:{session.id}/{stretch[0].id}", tuple(stretch), _owners(stretch, session))
        )
    if is_over and items:
        parts = [memory_item(one) for one in _stretches(run, session)]
        _keep_one(run, "session", f"session:{session.id}", parts, _owners(parts, session))


def _stretches(run: _RollUp, session: Session) -> list[Memory]:
    return _summaries(run.tenant, "stretch", equal("session_id", session.id))


def _is_over(session: Session, items: Sequence[SummaryItem], moment: datetime) -> bool:
    return session.ended_at is not None or bool(items and items[-1].at < moment - OVER_AFTER)


def _holds(stretch: Memory, current: dict[str, SummaryItem]) -> bool:
    """Whether everything that a summary covers still exists unchanged."""
    ids = covered_ids(stretch)
    parts = sorted((current[id] for id in ids if id in current), key=lambda item: (item.at, item.id))
    return len(parts) == len(ids) and not is_stale(stretch, parts)


def _runs(items: Sequence[SummaryItem], covered: set[str], is_over: bool) -> Iterator[list[SummaryItem]]:
    """Stretches of items not covered yet; a short one only before a covered item or at the end of a session."""
    stretch: list[SummaryItem] = []
    for item in items:
        if item.id not in covered:
            stretch.append(item)
        if stretch and (len(stretch) == STRETCH or item.id in covered):
            yield stretch
            stretch = []
    if stretch and is_over:
        yield stretch


def _keep_one(run: _RollUp, level: str, key: str, parts: Sequence[SummaryItem], owners: dict[str, str | None]) -> None:
    """The one summary with this key: left alone if it covers these parts unchanged, else written again.

    A single part serves for its level, so that no second summary says the same.
    """
    standing = _summaries(run.tenant, level, *of_key(key))
    below = [part.memory for part in parts if part.memory is not None]
    marked = [run.mark(one, level, is_alone=len(parts) == 1) for one in below]
    if len(parts) == 1:
        run.alone.setdefault(level, []).extend(marked)
        parts = ()
    if parts and standing and standing[0].metadata.get("digest") == digest_of(parts):
        return
    run.drop([one.id for one in standing])
    if parts:
        run.write(SummaryTask(level, key, tuple(parts), owners))


Group = tuple[str, ...]


def _roll_above(
    run: _RollUp, level: str, below: str, key_of: Callable[[Memory], Group | None], is_due: Callable[[Group], bool]
) -> None:
    """One summary for each group of those below."""
    if run.request.session:
        return  # the other sessions of its day were not read
    where = (equal("project_id", run.request.project),) if run.request.project else ()
    groups: dict[Group, list[Memory]] = {}
    for summary in (*_summaries(run.tenant, below, *where), *run.alone.get(below, ())):
        key = key_of(summary)
        if key is not None and is_due(key):
            groups.setdefault(key, []).append(summary)
    for key, members in sorted(groups.items()):
        parts = sorted((memory_item(one) for one in members), key=lambda item: (item.at, item.id))
        _keep_one(run, level, f"{level}:{'/'.join(key)}", parts, _owners(parts) | {"session": None})


def _day_of(run: _RollUp) -> Callable[[Memory], Group | None]:
    def key(summary: Memory) -> Group:
        day = _day(run, summary.occurred_at, summary.user_id)
        return day, summary.project_id or "", summary.user_id or "", summary.agent_id or ""

    return key


def _day(run: _RollUp, moment: datetime, user: str | None) -> str:
    """The day in the time zone of its user, else of the store."""
    zone = zone_of(run.tenant, user) if user else None
    return moment.astimezone(ZoneInfo(zone or run.tenant.timezone)).date().isoformat()


def _is_today(run: _RollUp, key: Group) -> bool:
    return key[0] >= _day(run, run.moment, key[2])


def _project_of(summary: Memory) -> Group | None:
    return (summary.project_id,) if summary.project_id else None


def _owners(items: Sequence[SummaryItem], session: Session | None = None) -> dict[str, str | None]:
    """The owners of all the items. Messages and memories without an owner belong to the owner of their session."""
    owners: dict[str, str | None] = {"session": session.id if session else None}
    for name in ("user", "agent", "project"):
        found = {_owner(item, f"{name}_id", session) for item in items}
        owners[name] = found.pop() if len(found) == 1 else None
    if session is None:
        sessions = {item.memory.session_id if item.memory else None for item in items}
        owners["session"] = sessions.pop() if len(sessions) == 1 else None
    return owners


def _owner(item: SummaryItem, field: str, session: Session | None) -> str | None:
    own = getattr(item.memory, field) if item.memory else None
    if own is not None or session is None or (item.memory and item.memory.kind == "summary"):
        return own  # a summary without an owner has several: the owner of the session must not become the only one
    of_session: str | None = getattr(session, field)
    return of_session


class SummaryTreeRequest(Request):
    """Where to start: one summary, or the highest ones of a session, of a project or of all."""

    id: Id | None = Field(None, description="This summary and all below it")
    session: Id | None = Field(None, description="The summaries of this session")
    project: Id | None = Field(None, description="The summaries of this project")
    depth: int = Field(2, ge=1, le=10, description="How many levels to show")
    limit: int = Field(100, ge=1, le=1000, description="How many lines at most")


class TreeLine(Reply):
    """One line of the tree; `depth` says how far it is indented."""

    depth: int
    id: str
    level: str
    kind: str
    text: str
    stale: bool = False
    at: datetime


class SummaryTree(Reply):
    lines: list[TreeLine]
    more: bool = False


def tree(tenant: Tenant, request: SummaryTreeRequest) -> SummaryTree:
    """Summaries from the top down, newest first."""
    lines: list[TreeLine] = []
    for top in _tops(tenant, request):
        for line in _branch(tenant, memory_item(top), 0, request.depth):
            if len(lines) == request.limit:
                return SummaryTree(lines=lines, more=True)
            lines.append(line)
    return SummaryTree(lines=lines)


def _tops(tenant: Tenant, request: SummaryTreeRequest) -> list[Memory]:
    if request.id:
        return [load_summary(tenant, request.id)]
    where: list[Filter] = [
        equal(f"{name}_id", value) for name in ("session", "project") if (value := getattr(request, name))
    ]
    found = [one for level in ("project", "day", "session", "stretch") for one in _summaries(tenant, level, *where)]
    below = {id for one in found for id in covered_ids(one)}
    tops = [one for one in found if one.id not in below]
    return sorted(tops, key=lambda one: (one.occurred_at, one.id), reverse=True)


def level_of(memory: Memory) -> str:
    """The highest level that a summary serves for."""
    higher = [level for level in ("project", "day", "session") if memory.metadata.get(standing_for(level))]
    return higher[0] if higher and memory.kind == "summary" else memory.level


def _branch(tenant: Tenant, item: SummaryItem, depth: int, levels: int) -> Iterator[TreeLine]:
    summary = item.memory if item.memory and item.memory.kind == "summary" else None
    parts = parts_of(tenant, summary) if summary else []
    text = " ".join(item.text.split())
    yield TreeLine(
        depth=depth,
        id=item.id,
        level=level_of(item.memory) if item.memory else "item",
        kind=item.memory.kind if item.memory else "message",
        text=clipped(text, SHOWN_TEXT),
        stale=bool(summary and is_stale(summary, parts)),
        at=item.at,
    )
    if depth + 1 < levels:
        for part in parts:
            yield from _branch(tenant, part, depth + 1, levels)
