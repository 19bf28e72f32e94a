"""Rolling up summaries: messages into stretches, stretches into sessions, sessions into days, days into projects.

Each run writes what is due and nothing else. A stretch is due when it is full or its session is over, a session when it
is over, a day when it has passed, a project when one of its days is new or has changed. A summary whose parts changed
is deleted with those above it and written again. Every summary is a transaction of its own, so an interrupted run can
be repeated. The owners are those that all parts share: a summary of the words of two users belongs to neither.

`roll_up` looks at every session; `changed_sessions.py` knows which of them have changed. Days are read a month at a
time, and projects one by one, so that a year of summaries is never in memory at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from pydantic import Field

from recollect.domain.conversations import Message, Session
from recollect.domain.memory import LONG_TERM, Memory, standing_for
from recollect.domain.record import Id, now
from recollect.errors import Conflict, InvalidInput
from recollect.ports.query import AnyOf, Compare, Filter, Holds, IsNull, OneOf, Order, Query, equal
from recollect.ports.steps import Delete, Touch
from recollect.services.learning.summaries import (
    SummaryItem,
    SummaryTask,
    covered_ids,
    digest_of,
    dropping,
    is_stale,
    memory_item,
    message_item,
    serving,
    summaries_of,
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
DAYS_AT_ONCE = timedelta(days=30)
ZONES = timedelta(days=1)  # no time zone is farther from UTC than this


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
    found = summaries_of(tenant, "stretch", *unit.is_this)
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
class RollUp:
    """One run: what was asked for, and what came of it."""

    tenant: Tenant
    request: RollUpRequest = field(default_factory=RollUpRequest)
    progress: Progress = lambda done, of: None
    moment: datetime = field(default_factory=now)
    report: RollUpReply = field(default_factory=RollUpReply)
    done: int = 0
    total: int = 0
    touched: set[tuple[datetime, str | None]] = field(default_factory=set)
    """When summaries were that were written, deleted or marked, and their projects: what is above them is due."""
    open: set[str] = field(default_factory=set)
    """The sessions that are not over yet: they will be when nothing more is said in them."""

    def write(self, unit: SummaryTask) -> None:
        try:
            summary, notes = write(self.tenant, unit)
        except Conflict as conflict:
            notes = (_changed_meanwhile(conflict),)
        else:
            self.report.written[unit.level] = self.report.written.get(unit.level, 0) + 1
            self._touch(summary)
        self.note(*notes)

    def _touch(self, summary: Memory) -> None:
        self.touched.add((summary.occurred_at, summary.project_id))

    def mark(self, summary: Memory, level: str, *, is_alone: bool) -> None:
        """Mark whether a summary also serves for a higher level, so that it is found there, too."""
        key = standing_for(level)
        if bool(summary.metadata.get(key)) == is_alone:
            return
        told = {name: value for name, value in summary.metadata.items() if name != key}
        told |= {key: True} if is_alone else {}
        # Its text is unchanged: no new version, and nothing to index again.
        commit(self.tenant, [Touch(Memory, summary.id, put={"metadata": told})])
        self._touch(summary)

    def note(self, *notes: str) -> None:
        self.report.notes += [note for note in notes if note not in self.report.notes]

    def drop(self, summaries: Sequence[Memory]) -> None:
        if not summaries:
            return
        steps = dropping(self.tenant, [one.id for one in summaries])
        try:
            commit(self.tenant, steps)
        except Conflict as conflict:
            self.note(_changed_meanwhile(conflict))
        else:
            self.report.dropped += sum(isinstance(step, Delete) for step in steps)
            for summary in summaries:
                self._touch(summary)

    def step(self) -> None:
        self.done += 1
        self.progress(self.done, max(self.total, self.done))


def _changed_meanwhile(conflict: Conflict) -> str:
    return f"changed meanwhile, roll up again: {conflict.message}"


def roll_up(tenant: Tenant, request: RollUpRequest, progress: Progress = lambda done, of: None) -> RollUpReply:
    """Write every summary that is due, from the bottom up."""
    return roll_all(RollUp(tenant, request, progress)).report


def roll_all(run: RollUp) -> RollUp:
    where = _sessions_asked(run.tenant, run.request)
    run.total = run.tenant.count(Query(Session, where)) + 2
    roll_sessions(run, _pages(run.tenant, Query(Session, where, (Order("id"),))))
    if not run.request.session:  # else the other sessions of its day were not read
        roll_above_all(run)
    return run


def roll_sessions(run: RollUp, sessions: Iterable[Session]) -> None:
    for session in sessions:
        _roll_session(run, session)
        run.step()


def roll_above_all(run: RollUp) -> None:
    """Every day and every project, the sessions being done."""
    where = (equal("project_id", run.request.project),) if run.request.project else ()
    first, last = (_edge(run.tenant, where, descending=descending) for descending in (False, True))
    if first is not None and last is not None:
        _roll_days(run, first, last, where)
    run.step()
    _roll_projects(run, [run.request.project] if run.request.project else _projects(run.tenant))
    run.step()


def roll_changed(run: RollUp, sessions: Collection[str], moments: Collection[datetime], since: datetime) -> RollUp:
    """The same, where since then only these sessions have changed, with what was said in them at these moments: what is
    above them, and the days that have ended."""
    run.total = len(sessions) + 2
    for start in range(0, len(sessions), PAGE):
        some = OneOf("id", tuple(sorted(sessions)[start : start + PAGE]))
        roll_sessions(run, run.tenant.find(Query(Session, (some, IsNull("cold_at")))).records)
    changed = {*moments, *(at for at, _ in run.touched)}
    for first, last in _spans([(since, run.moment), *((moment, moment) for moment in changed)]):
        _roll_days(run, first, last, ())
    run.step()
    _roll_projects(run, sorted({project for _, project in run.touched if project}))
    run.step()
    return run


def _spans(spans: Iterable[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    """The same, those that are near each other as one."""
    found: list[tuple[datetime, datetime]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 3 * ZONES:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


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


def _roll_session(run: RollUp, session: Session) -> None:
    items = _said(run.tenant, session.id)
    is_over = run.request.include_open or _is_over(session, items, run.moment)
    stretches = _stretches(run, session)
    current = {item.id: item for item in items}
    stale = [one for one in stretches if not _holds(one, current)]
    run.drop(stale)
    covered = {id for one in stretches if one not in stale for id in covered_ids(one)}
    for stretch in _runs(items, covered, is_over):
        # Named after its first item: a concurrent roll-up that has seen more items starts there, too.
        key, owners = f"stretch:{session.id}/{stretch[0].id}", _owners(stretch, session)
        run.write(SummaryTask("stretch", key, tuple(stretch), owners, {"session": session.id}))
    if items and not is_over:
        run.open.add(session.id)
    if is_over and items:
        parts = [memory_item(one) for one in _stretches(run, session)]
        owners, within = _owners(parts, session), {"session": session.id}
        unit = SummaryTask("session", f"session:{session.id}", tuple(parts), owners, within)
        _keep_one(run, unit, summaries_of(run.tenant, "session", *unit.is_this))


def _stretches(run: RollUp, session: Session) -> list[Memory]:
    return summaries_of(run.tenant, "stretch", equal("session_id", session.id))


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


def _keep_one(run: RollUp, unit: SummaryTask, standing: Sequence[Memory]) -> None:
    """The one summary of a unit: the one that stands is left alone if it covers these parts unchanged, else written
    again. A single part serves for its level, so that no second summary says the same.
    """
    is_alone = len(unit.items) == 1
    for part in unit.items:
        if part.memory is not None:
            run.mark(part.memory, unit.level, is_alone=is_alone)
    if not is_alone and standing and standing[0].metadata.get("digest") == unit.digest:
        return
    run.drop(standing)
    if not is_alone:
        run.write(unit)


Group = tuple[str, ...]


def _roll_days(run: RollUp, first: datetime, last: datetime, where: Sequence[Filter]) -> None:
    """The days from one moment to another, wherever it is that day."""
    start, beyond = datetime.combine(first - ZONES, time(), UTC), datetime.combine(last + 2 * ZONES, time(), UTC)
    while start < beyond:
        end = min(start + DAYS_AT_ONCE, beyond)
        within = (Compare("occurred_at", ">=", start - ZONES), Compare("occurred_at", "<", end + ZONES))
        is_due = partial(_is_due, run, start.date().isoformat(), end.date().isoformat())
        _roll_above(run, "day", "session", _day_of(run), is_due, (*where, *within))
        start = end


def _edge(tenant: Tenant, where: Sequence[Filter], *, descending: bool) -> datetime | None:
    """When the first or the last of the summaries was."""
    found = tenant.select(
        Query(Memory, (equal("kind", "summary"), *where), (Order("occurred_at", descending),), 1), ("occurred_at",)
    )
    return found[0][0] if found else None


def _is_due(run: RollUp, start: str, end: str, key: Group) -> bool:
    return start <= key[0] < end and (run.request.include_open or not _is_today(run, key))


def _roll_projects(run: RollUp, projects: Iterable[str]) -> None:
    for project in projects:
        _roll_above(run, "project", "day", _project_of, lambda key: True, (equal("project_id", project),))


def _projects(tenant: Tenant) -> list[str]:
    found = tenant.count_by(Query(Memory, (equal("kind", "summary"),)), ["project_id"])
    return sorted(str(project) for (project,) in found if project is not None)


def _roll_above(
    run: RollUp,
    level: str,
    below: str,
    key_of: Callable[[Memory], Group | None],
    is_due: Callable[[Group], bool],
    where: Sequence[Filter],
) -> None:
    """One summary for each group of those below."""
    groups: dict[Group, list[Memory]] = {}
    for summary in serving(run.tenant, below, *where):
        key = key_of(summary)
        if key is not None and is_due(key):
            groups.setdefault(key, []).append(summary)
    standing: dict[str, list[Memory]] = {}
    for one in summaries_of(run.tenant, level, *where) if groups else ():
        standing.setdefault(str(one.metadata.get("summary_of")), []).append(one)
    for key, members in sorted(groups.items()):
        parts = sorted((memory_item(one) for one in members), key=lambda item: (item.at, item.id))
        name = f"{level}:{'/'.join(key)}"
        owners = _owners(parts) | {"session": None}
        shared = ("project",) if level == "project" else ("project", "user", "agent")
        within = {owner: id for owner in shared if (id := owners[owner]) is not None}
        unit = SummaryTask(level, name, tuple(parts), owners, within)
        _keep_one(run, unit, standing.get(name, ()))


def _day_of(run: RollUp) -> Callable[[Memory], Group | None]:
    def key(summary: Memory) -> Group:
        day = _day(run, summary.occurred_at, summary.user_id)
        return day, summary.project_id or "", summary.user_id or "", summary.agent_id or ""

    return key


def _day(run: RollUp, moment: datetime, user: str | None) -> str:
    """The day in the time zone of its user, else of the store."""
    zone = zone_of(run.tenant, user) if user else None
    return moment.astimezone(ZoneInfo(zone or run.tenant.timezone)).date().isoformat()


def _is_today(run: RollUp, key: Group) -> bool:
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
