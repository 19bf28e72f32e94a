"""Sessions: shown, listed, changed, ended with a summary, put aside and taken out again.

A session that ended still takes messages (people come back); an archived one takes none until it is unarchived. Its
memories stay when it goes, its messages go along (see `remove`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from recollect.domain.conversations import Message, Session
from recollect.domain.record import Id, Json, Name, QueryText, Text, now
from recollect.errors import InvalidInput
from recollect.ports.query import Filter, IsNull, Order, Query, equal
from recollect.ports.steps import Update
from recollect.retry import retry_unless_pinned
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import as_of_version, commit, load, logged, rewritten


class SessionView(Reply):
    """A session as it stands."""

    id: str
    title: str
    type: str
    user: str | None = None
    agent: str | None = None
    project: str | None = None
    summary: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    started_at: datetime
    ended_at: datetime | None = None
    archived: bool = False
    messages: int = 0
    version: int


class SessionRequest(Request):
    """One session."""

    id: Id = Field(description="The session")


def show_session(tenant: Tenant, request: SessionRequest) -> SessionView:
    """A session with how many messages it holds."""
    return _view(tenant, load(tenant, Session, request.id))


class ListSessionsRequest(Request):
    """Which sessions to list."""

    user: Id | None = Field(None, description="Only this user's")
    agent: Id | None = Field(None, description="Only with this agent")
    project: Id | None = Field(None, description="Only in this project")
    type: Name | None = Field(None, description="Only of this type, such as conversation or task")
    archived: Literal["no", "yes", "only"] = Field("no", description="Whether to list those that were put aside")
    open: bool = Field(False, description="Only those that have not ended")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class SessionPage(Reply):
    sessions: list[SessionView]
    next: str | None = None


def list_sessions(tenant: Tenant, request: ListSessionsRequest) -> SessionPage:
    """Sessions, the newest first."""
    links = (("user_id", request.user), ("agent_id", request.agent), ("project_id", request.project))
    where: list[Filter] = [equal(name, value) for name, value in (*links, ("type", request.type)) if value is not None]
    if request.archived != "yes":
        where.append(equal("is_archived", request.archived == "only"))
    if request.open:
        where.append(IsNull("ended_at"))
    newest = (Order("id", descending=True),)
    page = tenant.find(Query(Session, tuple(where), newest, request.limit, request.after))
    return SessionPage(sessions=[_view(tenant, one) for one in page.records], next=page.next)


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
        return _view(tenant, session)
    action = "archive session" if archived else "unarchive session"
    return _changed(tenant, id, action, {"is_archived": archived})


def _changed(tenant: Tenant, id: str, action: str, fields: dict[str, Any], version: int | None = None) -> SessionView:
    def attempt() -> SessionView:
        session = as_of_version(load(tenant, Session, id), version)
        after = rewritten(session, tenant, **fields)
        commit(tenant, [Update(after), logged(tenant, "update", action, None, id=id, fields=sorted(fields))])
        return _view(tenant, after.changed(version=session.version + 1))

    return retry_unless_pinned(version, attempt)


def _view(tenant: Tenant, session: Session) -> SessionView:
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
        messages=tenant.count(Query(Message, (equal("session_id", session.id),))),
        version=session.version,
    )
