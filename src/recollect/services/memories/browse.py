"""Those whom memories belong to: users, agents, sessions and projects; and looking single records up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field, ValidationError

from recollect.domain.agents import Agent
from recollect.domain.conversations import Session
from recollect.domain.kinds import describe
from recollect.domain.memory import Memory, Relationship
from recollect.domain.record import Id, Json, JsonList, Name, QueryText, Record, Text, now
from recollect.domain.tenancy import Project, User
from recollect.errors import DuplicateKey, InvalidInput, VersionConflict
from recollect.ports.records import (
    AnyOf,
    Compare,
    Filter,
    Insert,
    OneOf,
    Order,
    Query,
    Scope,
    Step,
    equal,
)
from recollect.services.admin.access import refuse_higher
from recollect.services.agents.agents import at_work
from recollect.services.agents.removal import PARTIES, Plan, Taken, counted, planned, removing_steps, returning_steps
from recollect.services.context import (
    Core,
    Reply,
    Request,
    citations_of,
    commit,
    counted_page,
    insistently,
    load,
    logged,
    tags_of,
)
from recollect.services.erasure import erase_traces, owing
from recollect.services.memories.content_hashes import intact, left_out_note
from recollect.services.memories.filters import Wanted, narrow
from recollect.services.times import MomentText, RecordFields
from recollect.services.trust.citations import CitationView, citation_view
from recollect.services.workspaces.blobs import collect

Party = Literal["user", "agent", "session", "project"]
LINK_TEXT = 200


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


def add_user(core: Core, scope: Scope, request: AddUserRequest) -> PartyView:
    """Add a user."""
    added = _added(core, scope, User, request)
    core.zones.clear()
    return added


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
        raise _taken(core, scope, made, error) from None
    return view(made)


def _taken(core: Core, scope: Scope, made: Record, error: DuplicateKey) -> DuplicateKey:
    """Ids and emails of what was removed stay taken for as long as it can be restored."""
    table, remedy = made.shape.table, "choose another id or email, or say on_existing='return'"
    email = getattr(made, "email", None)
    same = AnyOf((equal("id", made.id), *([equal("email", email)] if email else [])))
    removed = core.store.find(scope, Query(type(made), (same,), limit=1, deleted="only")).records
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


def list_parties(core: Core, scope: Scope, request: ListPartiesRequest) -> PartyPage:
    """List users, agents, sessions or projects, the newest first."""
    owner = {"session": "user_id", "project": "owner_id"}.get(request.type)
    where: list[Filter] = [equal(owner, request.user)] if request.user and owner else []
    where += [OneOf("id", tuple(dict.fromkeys(request.ids)))] if request.ids else []
    newest, deleted = (Order("id", descending=True),), _REMOVED[request.removed]
    query = Query(PARTIES[request.type], tuple(where), newest, request.limit, request.after, deleted)
    page = core.store.find(scope, query)
    return PartyPage(parties=[_listed(core, record) for record in page.records], next=page.next)


_REMOVED: dict[bool, Literal["no", "only"]] = {False: "no", True: "only"}


def _listed(core: Core, record: Record) -> PartyView:
    if not record.is_deleted:
        return view(record)
    until = record.updated_at + timedelta(days=core.restore_days)
    return view(record).model_copy(update={"restorable_until": until})


class RemovePartyRequest(Request):
    """Remove a user, agent, session or project: softly, or for good."""

    type: Party = Field(description="user, agent, session or project")
    id: Id = Field(description="Which one")
    dry_run: bool = Field(False, description="Only say what it would take, and whose that is")
    hand_over_to: Id | None = Field(
        None, description="Another of the same type that gets what others use; the rest goes"
    )
    with_others: bool = Field(False, description="Take also what belongs to other users")
    for_good: bool = Field(False, description="Delete at once and for good: nothing can be restored")


class Removed(Reply):
    """What was removed, or would be: how much of what, and whose."""

    type: str
    id: str
    name: str = ""
    dry_run: bool = False
    takes: list[Taken] = Field(default_factory=list)
    hands_over: list[Taken] = Field(default_factory=list, description="What passes on to `hand_over_to`")
    others: int = Field(0, description="How many of the records it hangs together with belong to other users")
    refused: str = Field("", description="Why it would be refused like this, when only asked")
    restorable_until: datetime | None = Field(None, description="Until when `unremove` brings it back")
    deleted: int = Field(0, description="How many records were deleted for good")
    notes: list[str] = Field(default_factory=list)


def remove_party(core: Core, scope: Scope, request: RemovePartyRequest) -> Removed:
    """Hide a party with all that is its own, restorably; or delete it for good. Says what that takes, and whose it is.

    Users and agents take their memories along; sessions and projects leave them behind. What belongs to other users is
    never taken unless that was said.
    """
    return insistently(lambda: _remove(core, scope, request), VersionConflict)


def _remove(core: Core, scope: Scope, request: RemovePartyRequest) -> Removed:
    root = load(core, scope, PARTIES[request.type], request.id, deleted=request.for_good)
    if isinstance(root, User):
        refuse_higher(scope, root)
    plan = planned(core, scope, root, request.hand_over_to, request.with_others)
    told = _told(core, scope, plan, request)
    if request.dry_run:
        return told
    if plan.refusal is not None:
        raise plan.refusal
    moment = now()
    steps = removing_steps(core, scope, plan, for_good=request.for_good, moment=moment)
    entry = logged(
        scope, "delete", "remove", None, id=root.id, type=request.type, for_good=request.for_good,
        hand_over_to=request.hand_over_to, with_others=request.with_others,
    )  # fmt: skip
    if not request.for_good:
        commit(core, scope, [*steps, entry])
        return told.model_copy(update={"restorable_until": moment + timedelta(days=core.restore_days)})
    done = core.store.transact(scope, [*steps, owing(scope, root.id), entry])
    core.vectors.hint(done.seq)
    collect(core, scope)  # the content of workspaces that went along
    return told.model_copy(update={"deleted": done.deleted, "notes": erase_traces(core, scope)})


def _told(core: Core, scope: Scope, plan: Plan, request: RemovePartyRequest) -> Removed:
    kept: dict[str, list[str]] = {}
    for table, id in sorted(plan.kept):
        kept.setdefault(table, []).append(id)
    return Removed(
        type=request.type,
        id=plan.reach.root.id,
        name=view(plan.reach.root).name,
        dry_run=request.dry_run,
        takes=counted(core, scope, plan, plan.going),
        hands_over=counted(core, scope, plan, kept),
        others=len(plan.others),
        refused=str(plan.refusal) if request.dry_run and plan.refusal is not None else "",
    )


class UnremovePartyRequest(Request):
    """Bring back what was removed."""

    type: Party = Field(description="user, agent, session or project")
    id: Id = Field(description="Which one")


def unremove_party(core: Core, scope: Scope, request: UnremovePartyRequest) -> PartyView:
    """Bring a removed party back with all that was hidden with it; what was handed over stays where it is."""
    return insistently(lambda: _unremove(core, scope, request), VersionConflict)


def _unremove(core: Core, scope: Scope, request: UnremovePartyRequest) -> PartyView:
    root = load(core, scope, PARTIES[request.type], request.id, deleted=True)
    if not root.is_deleted:
        raise InvalidInput(f"that {request.type} is not removed", remedy="nothing needs to be done")
    if isinstance(root, User):
        refuse_higher(scope, root)
    commit(core, scope, returning_steps(core, scope, root))
    return view(load(core, scope, PARTIES[request.type], request.id))


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
    fields: RecordFields
    tags: list[str]
    citations: list[CitationView]
    links: list[LinkView]


def show(core: Core, scope: Scope, request: ShowRequest) -> MemoryView:
    """One memory with its citations, tags and links."""
    memory = intact(load(core, scope, Memory, request.id))
    core.journal.note(scope, "read", "show", [memory.id], session=memory.session_id, agent=memory.agent_id)
    return memory_view(core, scope, memory)


def memory_view(core: Core, scope: Scope, memory: Memory) -> MemoryView:
    fields = memory.model_dump(mode="json", exclude={"organization_id", "id", "text", "kind", "status", "version"})
    citations = [citation_view(core, scope, citation) for citation in citations_of(core, scope, memory.id)]
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
    after: QueryText | None = Field(None, description="The `next` of the page before")
    forgotten: bool = Field(False, description="List what was forgotten instead")
    rolled_up: bool = Field(True, description="Also summaries of others; if not, only when asked for by kind or level")


class MemoryLine(Reply):
    id: str
    text: str
    kind: str
    status: str
    author: str | None
    occurred_at: MomentText
    priority: int


class MemoryPage(Reply):
    memories: list[MemoryLine]
    next: str | None = None
    total: int
    notes: list[str] = Field(default_factory=list)


def list_memories(core: Core, scope: Scope, request: ListRequest) -> MemoryPage:
    """List memories, the newest first, with the filters of recall."""
    narrowed = narrow(request, now(), evidence_only=not request.rolled_up)
    filters = (replace(narrowed, alive=()) if request.forgotten else narrowed).filters()
    deleted: Literal["only", "no"] = "only" if request.forgotten else "no"
    query = Query(Memory, filters, (Order("id", descending=True),), request.limit, request.after, deleted)
    page, total = counted_page(core, scope, query)
    lines = [
        MemoryLine(
            id=m.id, text=m.text, kind=m.kind, status=m.status, author=m.author,
            occurred_at=m.occurred_at.isoformat(), priority=m.priority,
        )
        for m in page.records
        if left_out_note(m.__dict__) is None
    ]  # fmt: skip
    notes = [note for m in page.records if (note := left_out_note(m.__dict__)) is not None]
    return MemoryPage(memories=lines, next=page.next, total=total, notes=notes)
