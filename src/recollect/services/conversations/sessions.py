"""Sessions: added, shown, listed, changed, ended with a summary, put aside and taken out again.

A session that ended still takes messages (people come back); an archived one takes none until it is unarchived. Its
memories stay when it goes, its messages go along (see `session.remove`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import Field

from recollect.domain.conversations import Message, Session
from recollect.domain.record import Id, Json, JsonObject, Name, Text, now
from recollect.errors import InvalidInput
from recollect.ports.query import Filter, IsNull, OneOf, Query, between, equal
from recollect.ports.steps import Update
from recollect.retry import retry_unless_pinned
from recollect.services.agents.agents import at_work
from recollect.services.json_filters import member_conditions
from recollect.services.parties import AddRequest, ListRequest, PartyView, add, find_page, restorable_until, stamps
from recollect.services.request_limits import MOST_CONDITIONS
from recollect.services.requests import PageReply, Request
from recollect.services.tenant import Tenant
from recollect.services.times import From, Through
from recollect.services.transaction import as_of_version, commit, load, logged, rewritten


class SessionView(PartyView):
    """A session as it stands."""

    id: str
    title: str
    type: str
    user: str | None = None
    agent: str | None = None
    project: str | None = None
    summary: str | None = None
    metadata: JsonObject = Field(default_factory=dict)
    started_at: datetime
    ended_at: datetime | None = None
    archived: bool = False
    messages: int = 0
    cold_at: datetime | None = Field(
        None,
        description="Since when its messages, memories and runs are in cold storage; `cold.restore` returns them",
    )
    created_at: datetime
    updated_at: datetime
    created_by: str | None = None
    updated_by: str | None = None
    version: int
    restorable_until: datetime | None = Field(None, description="Set for a removed one: `session.restore` until then")


class SessionPage(PageReply[SessionView]):
    """Sessions, the newest first."""

    sessions: list[SessionView]


class AddSessionRequest(AddRequest):
    """A stretch of conversation or work; memories made in it know what was said around them."""

    title: Text = Field("", description="What it is about")
    type: Name = Field("conversation", description="conversation, task, …")
    user: Id | None = Field(None, description="Whose session")
    agent: Id | None = Field(None, description="With which agent")
    project: Id | None = Field(None, description="In which project")
    metadata: Json = Field(default_factory=dict, description="Device, place, …")


def add_session(tenant: Tenant, request: AddSessionRequest) -> SessionView:
    """Start a session."""
    guards = at_work(tenant, request.agent) if request.agent else []
    return session_view(tenant, add(tenant, Session, request, guards))


class SessionRequest(Request):
    """One session."""

    id: Id = Field(description="The session")


def show_session(tenant: Tenant, request: SessionRequest) -> SessionView:
    """A session with how many messages it holds."""
    return session_view(tenant, load(tenant, Session, request.id))


class ListSessionsRequest(ListRequest):
    """Which sessions to list."""

    user: Id | None = Field(None, description="Only this user's")
    agent: Id | None = Field(None, description="Only with this agent")
    project: Id | None = Field(None, description="Only in this project")
    type: Name | None = Field(None, description="Only of this type, such as conversation or task")
    ended_since: From | None = Field(None, description="Only those that ended at this time or later")
    ended_until: Through | None = Field(None, description="Only those that ended before this time")
    metadata: Json = Field(
        default_factory=dict,
        max_length=MOST_CONDITIONS,
        description='Only with these members in their metadata: a value, several, or operators such as {"gte": 3}',
    )
    archived: Literal["no", "yes", "only"] = Field("no", description="Whether to list archived ones")
    open: bool = Field(False, description="Only those that have not ended")
    cold: Literal["no", "yes", "only"] = Field("yes", description="Whether to list those in cold storage")


def list_sessions(tenant: Tenant, request: ListSessionsRequest) -> SessionPage:
    """Sessions, the newest first unless another order is asked for."""
    links = (("user_id", request.user), ("agent_id", request.agent), ("project_id", request.project))
    where: list[Filter] = [equal(name, value) for name, value in (*links, ("type", request.type)) if value is not None]
    where += between("ended_at", request.ended_since, request.ended_until)
    where += [condition.filter for condition in member_conditions("metadata", request.metadata)]
    if request.archived == "only" or (request.archived == "no" and not request.removed):
        where.append(equal("is_archived", request.archived == "only"))
    if request.cold != "yes":
        where.append(IsNull("cold_at", wanted=request.cold == "no"))
    if request.open:
        where.append(IsNull("ended_at"))
    page = find_page(tenant, Session, request, where)
    return SessionPage(sessions=_views(tenant, page.records), next=page.next)


class ReviseSessionRequest(SessionRequest):
    """Change what a session says of itself; what is left out stays."""

    title: Text | None = Field(None, description="What it is about")
    type: Name | None = Field(None, description="conversation, task, …")
    summary: Text | None = Field(None, description="What it came to")
    metadata: Json | None = Field(None, description="Its metadata from now on")
    version: int | None = Field(None, ge=1, description="Only if it still has this version")


def revise_session(tenant: Tenant, request: ReviseSessionRequest) -> SessionView:
    """Change title, type, summary or metadata."""
    names = ("title", "type", "summary", "metadata")
    fields = {name: value for name in names if (value := getattr(request, name)) is not None}
    if not fields:
        raise InvalidInput("nothing to change was given", remedy="give title, type, summary or metadata")
    return _changed(tenant, request.id, "revise session", fields, request.version)


class EndSessionRequest(SessionRequest):
    """A session that is over."""

    summary: Text | None = Field(None, description="What it came to")


def end(tenant: Tenant, request: EndSessionRequest) -> SessionView:
    """Mark a session as ended, with a summary if there is one."""
    fields = {"ended_at": now()} | ({"summary": request.summary} if request.summary else {})
    return _changed(tenant, request.id, "end session", fields)


def archive_session(tenant: Tenant, request: SessionRequest) -> SessionView:
    """Put a session aside: kept whole, not listed, and takes no messages until it is unarchived."""
    return _set_archived(tenant, request.id, True)


def unarchive_session(tenant: Tenant, request: SessionRequest) -> SessionView:
    """Take a session out again."""
    return _set_archived(tenant, request.id, False)


def _set_archived(tenant: Tenant, id: str, archived: bool) -> SessionView:
    session = load(tenant, Session, id)
    if session.is_archived == archived:
        return session_view(tenant, session)
    action = "archive session" if archived else "unarchive session"
    return _changed(tenant, id, action, {"is_archived": archived})


def _changed(tenant: Tenant, id: str, action: str, fields: Json, version: int | None = None) -> SessionView:
    def attempt() -> SessionView:
        session = as_of_version(load(tenant, Session, id), version)
        after = rewritten(session, tenant, **fields)
        commit(tenant, [Update(after), logged(tenant, "update", action, None, id=id, fields=sorted(fields))])
        return session_view(tenant, after.changed(version=session.version + 1))

    return retry_unless_pinned(version, attempt)


def session_view(tenant: Tenant, session: Session) -> SessionView:
    return _views(tenant, [session])[0]


def _views(tenant: Tenant, sessions: Sequence[Session]) -> list[SessionView]:
    """With how many messages each holds, counted once for all."""
    of_these = Query(Message, (OneOf("session_id", tuple(session.id for session in sessions)),))
    counts = tenant.count_by(of_these, ("session_id",)) if sessions else {}
    return [_view(tenant, session, counts.get((session.id,), 0)) for session in sessions]


def _view(tenant: Tenant, session: Session, messages: int) -> SessionView:
    return SessionView(
        id=session.id,
        title=session.title,
        type=session.type,
        user=session.user_id,
        agent=session.agent_id,
        project=session.project_id,
        summary=session.summary,
        metadata=session.metadata,
        started_at=session.created_at,
        ended_at=session.ended_at,
        archived=session.is_archived,
        messages=messages,
        cold_at=session.cold_at,
        **stamps(session),
        restorable_until=restorable_until(tenant, session),
    )
