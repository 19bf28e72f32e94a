"""Users, agents, sessions and projects: those whom memories belong to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field, ValidationError

from recollect.domain.agents import Agent
from recollect.domain.conversations import Session
from recollect.domain.kinds import describe
from recollect.domain.record import Id, Json, JsonList, Name, QueryText, Record, Text
from recollect.domain.tenancy import Project, User
from recollect.errors import DuplicateKey, InvalidInput
from recollect.ports.query import AnyOf, Filter, OneOf, Order, Query, equal
from recollect.ports.steps import Insert, Step
from recollect.services.agents.agents import at_work
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Core, Tenant
from recollect.services.times import MomentText, RecordFields
from recollect.services.transaction import commit, logged

Party = Literal["user", "agent", "session", "project"]
PARTIES: dict[str, type[Record]] = {"user": User, "agent": Agent, "session": Session, "project": Project}


class AddRequest(Request):
    """Somebody or something memories can belong to."""

    id: Id | None = Field(None, description="An id of your own; made for you if left out")
    on_existing: Literal["fail", "return"] = Field("fail", description="What to do when that id is there already")


class AddUserRequest(AddRequest):
    """Somebody memories can belong to."""

    name: Name = Field(description="What to call them")
    email: Text | None = Field(None, description="Unique within the organization")
    timezone: Text = Field("UTC", description="An IANA zone such as Asia/Bangkok")
    profile_data: Json = Field(default_factory=dict, description="What is known about them")
    preferences: Json = Field(default_factory=dict, description="What they like")


class AddAgentRequest(AddRequest):
    """An agent memories can belong to."""

    name: Name = Field(description="What to call it")
    type: Text | None = Field(None, description="What sort of agent")
    description: Text = Field("", description="What it does")
    system: Text | None = Field(None, description="Its system prompt")
    topic: Text | None = Field(None, description="What it is busy with")
    directives: JsonList = Field(default_factory=list, description="The rules it keeps to, each a text or an object")
    config_overrides: Json = Field(default_factory=dict, description="Runtime configuration that differs for it")
    llm_config: Json = Field(default_factory=dict, description="The language model it thinks with")
    embedding_config: Json = Field(default_factory=dict, description="The model that embeds for it")
    tool_rules: JsonList = Field(default_factory=list, description="When it may use which tool")
    mcp_tools: JsonList = Field(default_factory=list, description="The tools of MCP servers it may use")
    metadata: Json = Field(default_factory=dict, description="Anything else")


class AddSessionRequest(AddRequest):
    """A stretch of conversation or work; memories made in it know what stood around them."""

    title: Text = Field("", description="What it is about")
    type: Name = Field("conversation", description="conversation, task, …")
    user: Id | None = Field(None, description="Whose session")
    agent: Id | None = Field(None, description="With which agent")
    project: Id | None = Field(None, description="In which project")
    metadata: Json = Field(default_factory=dict, description="Device, place, …")


class AddProjectRequest(AddRequest):
    """Something that is worked on over many sessions."""

    name: Name = Field(description="What to call it")
    description: Text = Field("", description="What it is about")
    owner: Id | None = Field(None, description="The user it belongs to")


class PartyView(Reply):
    """A user, agent, session or project."""

    type: str
    id: str
    name: str
    created_at: MomentText
    fields: RecordFields = Field(default_factory=dict)
    restorable_until: datetime | None = Field(None, description="Set for what was removed: `unremove` until then")


def add_user(tenant: Tenant, request: AddUserRequest) -> PartyView:
    """Add a user."""
    added = _added(tenant, User, request)
    tenant.zones.clear()
    return added


def add_agent(tenant: Tenant, request: AddAgentRequest) -> PartyView:
    """Add an agent."""
    return _added(tenant, Agent, request)


def add_session(tenant: Tenant, request: AddSessionRequest) -> PartyView:
    """Start a session."""
    return _added(tenant, Session, request, at_work(tenant, request.agent) if request.agent else [])


def add_project(tenant: Tenant, request: AddProjectRequest) -> PartyView:
    """Add a project."""
    return _added(tenant, Project, request)


def _added(tenant: Tenant, record: type[Record], request: AddRequest, guards: Sequence[Step] = ()) -> PartyView:
    existing = tenant.get(record, request.id) if request.id else None
    if existing is not None and request.on_existing == "return":
        return view(existing)
    links = {"user", "agent", "project", "owner"}
    asked = request.model_dump(exclude={"on_existing"})
    given = {f"{name}_id" if name in links else name: value for name, value in asked.items()}
    fields = {name: value for name, value in given.items() if value is not None}
    try:
        made = record(
            organization_id=tenant.scope.organization_id,
            created_by=tenant.scope.actor,
            updated_by=tenant.scope.actor,
            **fields,
        )
    except ValidationError as error:
        raise InvalidInput(f"that {record.shape.table} is not valid: {describe(error)}") from None
    entry = logged(tenant, "create", f"add {record.shape.table}", None, id=made.id)
    try:
        commit(tenant, [*guards, Insert(made), entry])
    except DuplicateKey as error:
        raced = tenant.get(record, made.id) if request.on_existing == "return" else None
        if raced is not None:
            return view(raced)
        raise _taken(tenant, made, error) from None
    return view(made)


def _taken(tenant: Tenant, made: Record, error: DuplicateKey) -> DuplicateKey:
    """Ids and emails of what was removed stay taken for as long as it can be restored."""
    table, remedy = made.shape.table, "choose another id or email, or say on_existing='return'"
    email = getattr(made, "email", None)
    same = AnyOf((equal("id", made.id), *([equal("email", email)] if email else [])))
    removed = tenant.find(Query(type(made), (same,), limit=1, deleted="only")).records
    if removed:
        remedy = f"it was removed: bring it back with unremove, or remove it for_good ({removed[0].id[:80]})"
    return DuplicateKey(f"there is such a {table} already", remedy=remedy, **error.details)


def view(record: Record) -> PartyView:
    fields = record.model_dump(mode="json", exclude={"organization_id", "id", "created_at", "password_hash"})
    return PartyView(
        type=record.shape.table,
        id=record.id,
        name=str(fields.get("name") or fields.get("title") or ""),
        created_at=record.created_at.isoformat(),
        fields={name: value for name, value in fields.items() if value not in (None, "", [], {})},
    )


class ListPartiesRequest(Request):
    """Which sort of party to list."""

    type: Party = Field(description="user, agent, session or project")
    user: Id | None = Field(None, description="Only this user's sessions or projects")
    ids: list[Id] = Field(default_factory=list, max_length=1000, description="Only those with one of these ids")
    removed: bool = Field(False, description="List what was removed and can be restored instead")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class PartyPage(Reply):
    parties: list[PartyView]
    next: str | None = None


def list_parties(tenant: Tenant, request: ListPartiesRequest) -> PartyPage:
    """List users, agents, sessions or projects, the newest first."""
    owner = {"session": "user_id", "project": "owner_id"}.get(request.type)
    where: list[Filter] = [equal(owner, request.user)] if request.user and owner else []
    where += [OneOf("id", tuple(dict.fromkeys(request.ids)))] if request.ids else []
    newest, deleted = (Order("id", descending=True),), _REMOVED[request.removed]
    query = Query(PARTIES[request.type], tuple(where), newest, request.limit, request.after, deleted)
    page = tenant.find(query)
    return PartyPage(parties=[_listed(tenant, record) for record in page.records], next=page.next)


_REMOVED: dict[bool, Literal["no", "only"]] = {False: "no", True: "only"}


def _listed(core: Core, record: Record) -> PartyView:
    if not record.is_deleted:
        return view(record)
    until = record.updated_at + timedelta(days=core.restore_days)
    return view(record).model_copy(update={"restorable_until": until})
