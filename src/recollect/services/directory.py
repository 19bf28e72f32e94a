"""Those whom memories belong to: users, agents, sessions and projects; and looking single records up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, ValidationError

from recollect.domain.agents import Agent
from recollect.domain.conversations import Message, Session
from recollect.domain.kinds import describe
from recollect.domain.memory import Memory, Relationship
from recollect.domain.record import Id, Json, JsonList, Name, Record, Text, now
from recollect.domain.tenancy import Project, User
from recollect.errors import DuplicateKey, InvalidInput
from recollect.ports.records import (
    AnyOf,
    Compare,
    Delete,
    Filter,
    Insert,
    OneOf,
    Order,
    Query,
    Scope,
    Step,
    equal,
)
from recollect.services.access import refuse_higher
from recollect.services.agents import at_work
from recollect.services.blobs import collect
from recollect.services.core import Core, Reply, Request, citations_of, commit, load, logged, tags_of
from recollect.services.derivation import erasing_steps
from recollect.services.lifecycle import erase_traces
from recollect.services.narrowing import Wanted, narrow
from recollect.services.recall import CitationView
from recollect.services.revise import change_steps

Party = Literal["user", "agent", "session", "project"]
LINK_TEXT = 200
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
    created_at: str
    fields: dict[str, Any] = Field(default_factory=dict)


def add_user(core: Core, scope: Scope, request: AddUserRequest) -> PartyView:
    """Add a user."""
    return _added(core, scope, User, request)


def add_agent(core: Core, scope: Scope, request: AddAgentRequest) -> PartyView:
    """Add an agent."""
    return _added(core, scope, Agent, request)


def add_session(core: Core, scope: Scope, request: AddSessionRequest) -> PartyView:
    """Start a session."""
    return _added(core, scope, Session, request, at_work(core, scope, request.agent) if request.agent else [])


def add_project(core: Core, scope: Scope, request: AddProjectRequest) -> PartyView:
    """Add a project."""
    return _added(core, scope, Project, request)


def _added(
    core: Core, scope: Scope, record: type[Record], request: AddRequest, guards: Sequence[Step] = ()
) -> PartyView:
    existing = core.store.get(scope, record, request.id) if request.id else None
    if existing is not None and request.on_existing == "return":
        return view(existing)
    links = {"user", "agent", "project", "owner"}
    asked = request.model_dump(exclude={"on_existing"})
    given = {f"{name}_id" if name in links else name: value for name, value in asked.items()}
    fields = {name: value for name, value in given.items() if value is not None}
    try:
        made = record(organization_id=scope.organization_id, created_by=scope.actor, updated_by=scope.actor, **fields)
    except ValidationError as error:
        raise InvalidInput(f"that {record.shape.table} is not valid: {describe(error)}") from None
    entry = logged(scope, "create", f"add {record.shape.table}", None, id=made.id)
    try:
        commit(core, scope, [*guards, Insert(made), entry])
    except DuplicateKey as error:
        raced = core.store.get(scope, record, made.id) if request.on_existing == "return" else None
        if raced is not None:
            return view(raced)
        raise DuplicateKey(
            f"there is such a {record.shape.table} already",
            remedy="choose another id or email, or say on_existing='return'",
            **error.details,
        ) from None
    return view(made)


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
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: str | None = Field(None, description="The `next` of the page before")


class PartyPage(Reply):
    parties: list[PartyView]
    next: str | None = None


def list_parties(core: Core, scope: Scope, request: ListPartiesRequest) -> PartyPage:
    """List users, agents, sessions or projects, the newest first."""
    owner = {"session": "user_id", "project": "owner_id"}.get(request.type)
    where: list[Filter] = [equal(owner, request.user)] if request.user and owner else []
    where += [OneOf("id", tuple(dict.fromkeys(request.ids)))] if request.ids else []
    query = Query(
        PARTIES[request.type], tuple(where), (Order("id", descending=True),), limit=request.limit, after=request.after
    )
    page = core.store.find(scope, query)
    return PartyPage(parties=[view(record) for record in page.records], next=page.next)


class RemovePartyRequest(Request):
    """Delete a user, agent, session or project for good."""

    type: Party = Field(description="user, agent, session or project")
    id: Id = Field(description="Which one")


class Removed(Reply):
    id: str
    deleted: int
    notes: list[str] = Field(default_factory=list)


def remove_party(core: Core, scope: Scope, request: RemovePartyRequest) -> Removed:
    """Delete for good. Users and agents take their memories along; sessions and projects leave them behind."""
    record = load(core, scope, PARTIES[request.type], request.id, deleted=True)
    if isinstance(record, User):
        refuse_higher(scope, record)
    copies = _copies(core, scope, request.type, record.id)
    gone = {step.id for step in copies if isinstance(step, Delete)}
    steps = [*copies, *_unlinked(core, scope, request.type, [record.id], gone)]
    entry = logged(scope, "delete", f"remove {request.type}", None, id=record.id)
    done = core.store.transact(scope, [*steps, Delete(type(record), record.id), entry])
    collect(core, scope)  # the content of workspaces that went along
    return Removed(id=record.id, deleted=done.deleted, notes=erase_traces(core))


def _copies(core: Core, scope: Scope, type: str, id: str) -> list[Step]:
    """What patterns and summaries repeat of the memories and messages that go along."""
    said: list[Filter] = [OneOf("session_id", tuple(_sessions_along(core, scope, type, [id])))]
    if type in ("user", "agent"):
        said.append(equal(f"{type}_id", id))
    messages = core.store.select(scope, Query(Message, (AnyOf(tuple(said)),), deleted="yes"), ("id",))
    going = []
    if type in ("user", "agent"):
        going = core.store.select(scope, Query(Memory, (equal(f"{type}_id", id),), deleted="yes"), ("id",))
    return erasing_steps(core, scope, [memory for (memory,) in going], [message for (message,) in messages])


def _sessions_along(core: Core, scope: Scope, type: str, ids: Sequence[str]) -> list[str]:
    """The sessions that go when these parties go, with all that was said in them by whomever."""
    if type == "session":
        return list(ids)
    found: list[str] = []
    for other, field in _GOES_ALONG[type]:
        along = core.store.select(scope, Query(PARTIES[other], (OneOf(field, tuple(ids)),), deleted="yes"), ("id",))
        found += _sessions_along(core, scope, other, [id for (id,) in along]) if along else []
    return found


# What else goes when a party is deleted, and by which of its fields.
_GOES_ALONG = {
    "user": (("session", "user_id"), ("project", "owner_id")),
    "agent": (("session", "agent_id"),),
    "project": (("session", "project_id"),),
}


def _unlinked(core: Core, scope: Scope, type: str, ids: list[str], gone: set[str]) -> list[Step]:
    """Memories that stay let go of the link first, so that their history and vectors follow in the same write."""
    changes = _links_to_clear(core, scope, type, ids)
    steps: list[Step] = []
    for id, fields in changes.items():
        memory = core.store.get(scope, Memory, id, deleted=True) if id not in gone else None
        if memory is not None:
            what = " and ".join(sorted(name.removesuffix("_id") for name in fields))
            steps += change_steps(core, scope, memory, "moved", f"its {what} was removed", **fields)
    return steps


def _links_to_clear(core: Core, scope: Scope, type: str, ids: list[str]) -> dict[str, dict[str, None]]:
    """Which memories lose which links when these parties and all that goes along with them are deleted."""
    found: dict[str, dict[str, None]] = {}
    for other, field in _GOES_ALONG.get(type, ()):
        along = core.store.select(scope, Query(PARTIES[other], (OneOf(field, tuple(ids)),), deleted="yes"), ("id",))
        if along:
            for id, fields in _links_to_clear(core, scope, other, [id for (id,) in along]).items():
                found.setdefault(id, {}).update(fields)
    if type in ("session", "project"):
        linked = Query(Memory, (OneOf(f"{type}_id", tuple(ids)),), deleted="yes")
        for (id,) in core.store.select(scope, linked, ("id",)):
            found.setdefault(id, {})[f"{type}_id"] = None
    return found


class ShowRequest(Request):
    """Ask for one memory."""

    id: Id = Field(description="The memory")


class LinkView(Reply):
    type: str
    direction: Literal["to", "from"]
    id: str
    text: str = Field("", description="The beginning of what the other one says; empty if it was forgotten")
    status: str = ""


class MemoryView(Reply):
    """A memory with everything that hangs on it."""

    id: str
    text: str
    kind: str
    status: str
    version: int
    fields: dict[str, Any]
    tags: list[str]
    citations: list[CitationView]
    links: list[LinkView]


def show(core: Core, scope: Scope, request: ShowRequest) -> MemoryView:
    """One memory with its citations, tags and links."""
    memory = load(core, scope, Memory, request.id)
    core.journal.note(scope, "read", "show", [memory.id])
    return memory_view(core, scope, memory)


def memory_view(core: Core, scope: Scope, memory: Memory) -> MemoryView:
    fields = memory.model_dump(mode="json", exclude={"organization_id", "id", "text", "kind", "status", "version"})
    citations = [
        CitationView(id=c.id, type=c.type, source=c.source, state=c.state, note=c.note, evidence=c.evidence)
        for c in citations_of(core, scope, memory.id)
    ]
    return MemoryView(
        id=memory.id,
        text=memory.text,
        kind=memory.kind,
        status=memory.status,
        version=memory.version,
        fields={name: value for name, value in fields.items() if value not in (None, "", [], {})},
        tags=tags_of(core, scope, memory.id),
        citations=citations,
        links=_links(core, scope, memory.id),
    )


def _links(core: Core, scope: Scope, id: str) -> list[LinkView]:
    either: Filter = AnyOf((Compare("source_id", "=", id), Compare("target_id", "=", id)))
    rows = core.store.select(scope, Query(Relationship, (either,)), ("type", "source_id", "target_id"))
    others = tuple({target if source == id else source for _, source, target in rows})
    said = core.store.select(scope, Query(Memory, (OneOf("id", others),)), ("id", "text", "status")) if others else []
    known = {other: (text[:LINK_TEXT], status) for other, text, status in said}
    links = []
    for type, source, target in rows:
        direction, other = ("to", target) if source == id else ("from", source)
        text, status = known.get(other, ("", ""))
        links.append(LinkView(type=type, direction=direction, id=other, text=text, status=status))
    return links


class ListRequest(Wanted):
    """Which memories to list."""

    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: str | None = Field(None, description="The `next` of the page before")
    forgotten: bool = Field(False, description="List what was forgotten instead")
    rolled_up: bool = Field(True, description="Also summaries of others; if not, only when asked for by kind or level")


class MemoryLine(Reply):
    id: str
    text: str
    kind: str
    status: str
    author: str | None
    occurred_at: str
    priority: int


class MemoryPage(Reply):
    memories: list[MemoryLine]
    next: str | None = None
    total: int


def list_memories(core: Core, scope: Scope, request: ListRequest) -> MemoryPage:
    """List memories, the newest first, with the filters of recall."""
    narrowed = narrow(request, now(), evidence_only=not request.rolled_up)
    filters = (replace(narrowed, alive=()) if request.forgotten else narrowed).filters()
    deleted: Literal["only", "no"] = "only" if request.forgotten else "no"
    query = Query(Memory, filters, (Order("id", descending=True),), request.limit, request.after, deleted)
    page = core.store.find(scope, query)
    lines = [
        MemoryLine(
            id=m.id, text=m.text, kind=m.kind, status=m.status, author=m.author,
            occurred_at=m.occurred_at.isoformat(), priority=m.priority,
        )
        for m in page.records
    ]  # fmt: skip
    return MemoryPage(memories=lines, next=page.next, total=core.store.count(scope, query))
