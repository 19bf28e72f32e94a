"""Tools: what agents may call, each with a name of its own and a JSON Schema of its parameters."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from recollect.domain.agents import Agent, Tool, ToolLink
from recollect.domain.json_schema import schema_problems
from recollect.domain.record import Id, Json, JsonObject, Name, QueryText, Text, new_id
from recollect.errors import DuplicateKey, InvalidInput, NotFound
from recollect.ports.query import Filter, Holds, Linked, Order, Query, equal
from recollect.ports.steps import DeleteWhere, Insert, Update
from recollect.retry import retry_unless_pinned
from recollect.services.agents.agents import at_work
from recollect.services.parties import restorable_until, shown
from recollect.services.request_limits import MOST_TAGS
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import as_of_version, commit, load, load_named, logged, made, rewritten


class ToolView(Reply):
    """A tool and who has it."""

    id: str
    name: str
    description: str = ""
    json_schema: JsonObject = Field(default_factory=dict)
    source_type: str | None = None
    source_code: str | None = None
    tags: list[str] = Field(default_factory=list)
    metadata: JsonObject = Field(default_factory=dict)
    agents: list[str] = Field(default_factory=list)
    created_at: datetime
    updated_at: datetime
    created_by: str | None = None
    updated_by: str | None = None
    version: int
    restorable_until: datetime | None = Field(None, description="Set for a removed one: `tool.restore` until then")


class AddToolRequest(Request):
    """A new tool."""

    name: Name = Field(description="What agents call it by; unique")
    description: Text = Field("", description="What it does, as a model is told")
    json_schema: Json = Field(default_factory=dict, description="The JSON Schema of its parameters")
    source_type: Text | None = Field(None, description="Where it comes from: python, mcp, …")
    source_code: Text | None = Field(None, description="Its code; kept, never run by Recollect")
    tags: list[Text] = Field(default_factory=list, max_length=MOST_TAGS, description="Tags")
    metadata: Json = Field(default_factory=dict, description="Anything else")
    agents: list[Id] = Field(default_factory=list, description="The agents to attach it to")
    id: Id | None = Field(None, description="An id of your own; made for you if left out")


def add(tenant: Tenant, request: AddToolRequest) -> ToolView:
    """Make a tool and attach it to agents."""
    _refuse_no_schema(request.json_schema)
    fields = request.model_dump(exclude={"id", "agents"})
    tool: Tool = made(Tool, tenant, id=request.id or new_id(), **fields)
    agents = list(dict.fromkeys(request.agents))
    guards = [step for agent in agents for step in at_work(tenant, agent)]
    links = [Insert(made(ToolLink, tenant, tool_id=tool.id, agent_id=agent)) for agent in agents]
    entry = logged(tenant, "create", "add tool", None, id=tool.id, agents=agents)
    try:
        commit(tenant, [*guards, Insert(tool), *links, entry])
    except DuplicateKey as error:
        raise _taken(tool.name, error) from None
    return tool_view(tenant, tool)


def _refuse_no_schema(given: JsonObject) -> None:
    problem = next(schema_problems(given), None)
    if problem:
        raise InvalidInput(f"that is no JSON Schema: {problem}", remedy='write {"type": "object", "properties": {…}}')


def _taken(name: str, error: DuplicateKey) -> DuplicateKey:
    return DuplicateKey(
        f"there is a tool '{name[:80]}' or one with that id already",
        remedy="revise that one, or restore it if it was removed: tool.restore",
        **error.details,
    )


class ToolRequest(Request):
    """One tool."""

    id: Id = Field(description="The tool")


def show(tenant: Tenant, request: ToolRequest) -> ToolView:
    """A tool and the agents that have it."""
    return tool_view(tenant, load(tenant, Tool, request.id))


class ListToolsRequest(Request):
    """Which tools to list."""

    agent: Id | None = Field(None, description="Only of this agent")
    name: Name | None = Field(None, description="Only the one of this name")
    tag: QueryText | None = Field(None, description="Only with this tag")
    removed: bool = Field(False, description="List removed ones that can be restored instead")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class ToolPage(PageReply[ToolView]):
    """Tools, the newest first."""

    tools: list[ToolView]


def list_tools(tenant: Tenant, request: ListToolsRequest) -> ToolPage:
    """Tools, the newest first."""
    where: list[Filter] = []
    if request.agent is not None:
        where.append(Linked(ToolLink, "tool_id", (equal("agent_id", request.agent),)))
    if request.name is not None:
        where.append(equal("name", request.name))
    if request.tag is not None:
        where.append(Holds("tags", request.tag))
    newest = (Order("id", descending=True),)
    page = tenant.find(Query(Tool, tuple(where), newest, request.limit, request.after, shown(request.removed)))
    return ToolPage(tools=[tool_view(tenant, tool) for tool in page.records], next=page.next)


class ReviseToolRequest(ToolRequest):
    """Change a tool; what is left out stays."""

    name: Name | None = Field(None, description="What agents call it by; unique")
    description: Text | None = Field(None, description="What it does")
    json_schema: Json | None = Field(None, description="The JSON Schema of its parameters")
    source_type: Text | None = Field(None, description="Where it comes from")
    source_code: Text | None = Field(None, description="Its code")
    tags: list[Text] | None = Field(None, max_length=MOST_TAGS, description="Its tags from now on")
    metadata: Json | None = Field(None, description="Its metadata from now on")
    version: int | None = Field(None, ge=1, description="Only if it still has this version")


def revise(tenant: Tenant, request: ReviseToolRequest) -> ToolView:
    """Change a tool for all agents that have it."""
    given = request.model_dump(exclude={"id", "version"}, exclude_none=True)
    if not given:
        raise InvalidInput("nothing to change was given", remedy="give description, json_schema, tags, …")
    _refuse_no_schema(given.get("json_schema", {}))

    def attempt() -> ToolView:
        tool = as_of_version(load(tenant, Tool, request.id), request.version)
        after = rewritten(tool, tenant, **given)
        entry = logged(tenant, "update", "revise tool", None, id=tool.id, fields=sorted(given))
        try:
            commit(tenant, [Update(after), entry])
        except DuplicateKey as error:
            raise _taken(after.name, error) from None
        return tool_view(tenant, after.changed(version=tool.version + 1))

    return retry_unless_pinned(request.version, attempt)


class AttachToolRequest(ToolRequest):
    """A tool and an agent."""

    agent: Id = Field(description="The agent")

    def link(self) -> tuple[Filter, ...]:
        return (equal("tool_id", self.id), equal("agent_id", self.agent))


def attach(tenant: Tenant, request: AttachToolRequest) -> ToolView:
    """Give an agent a tool. Giving it twice is giving it once."""
    tool = load(tenant, Tool, request.id)
    load_named(tenant, Agent, request.agent)
    if not tenant.count(Query(ToolLink, request.link())):
        link = made(ToolLink, tenant, tool_id=tool.id, agent_id=request.agent)
        entry = logged(tenant, "update", "attach tool", None, id=tool.id, agent=request.agent)
        try:
            commit(tenant, [*at_work(tenant, request.agent), Insert(link), entry])
        except DuplicateKey:
            return tool_view(tenant, tool)  # somebody else gave it a moment ago
    return tool_view(tenant, tool)


def detach(tenant: Tenant, request: AttachToolRequest) -> ToolView:
    """Take a tool away from an agent; the tool stays."""
    tool = load(tenant, Tool, request.id)
    if not tenant.count(Query(ToolLink, request.link())):
        raise NotFound(f"agent '{request.agent[:80]}' does not have that tool", remedy="see the tools of the agent")
    entry = logged(tenant, "update", "detach tool", None, id=tool.id, agent=request.agent)
    commit(tenant, [DeleteWhere(ToolLink, request.link()), entry])
    return tool_view(tenant, tool)


def tool_view(tenant: Tenant, tool: Tool) -> ToolView:
    links = tenant.select(Query(ToolLink, (equal("tool_id", tool.id),)), ("agent_id",))
    fields = tool.model_dump(include=set(ToolView.model_fields))
    agents = [agent for (agent,) in links]
    return ToolView(**fields, agents=agents, restorable_until=restorable_until(tenant, tool))
