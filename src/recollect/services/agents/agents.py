"""Agents: added, listed; what they are told, whether they work, and which messages they have in mind.

An agent is active, paused or retired. A paused one keeps what it has and takes messages; a retired one takes no new
work of any sort (sessions, messages, states, blocks, tools) until it is active again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from pydantic import Field

from recollect.domain.agents import TRANSITIONS, Agent, Block, BlockLink, Tool, ToolLink
from recollect.domain.conversations import Message
from recollect.domain.record import Id, Json, JsonArray, JsonList, JsonObject, Name, Record, Text
from recollect.errors import IllegalTransition, InvalidInput, RequirementFailed, TooLarge
from recollect.ports.query import OneOf, Query
from recollect.ports.steps import Require, Step, Update
from recollect.retry import retry_unless_pinned
from recollect.services.parties import AddRequest, ListRequest, PartyView, add, find_page, restorable_until
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import as_of_version, commit, load, logged, rewritten

MOST_IN_CONTEXT = 10_000
R = TypeVar("R", bound=Record)


def at_work(tenant: Tenant, id: str) -> list[Step]:
    """Refuse new work for a retired agent; the steps keep it so if it is retired this very moment."""
    agent = tenant.get(Agent, id)
    if agent is None:
        return []  # the store names a missing reference in one way for all
    if agent.status == "retired":
        raise IllegalTransition("that agent is retired and takes no new work", remedy="make it active again", id=id)
    return [Require(Agent, id, {"status": agent.status})]


class Attachment(Reply):
    """A block or a tool that an agent has."""

    id: str
    name: str


class AgentView(PartyView):
    """An agent with all it was told and given."""

    id: str
    name: str
    type: str | None = None
    description: str = ""
    status: str
    system: str | None = None
    topic: str | None = None
    directives: JsonArray = Field(default_factory=list)
    config_overrides: JsonObject = Field(default_factory=dict)
    llm_config: JsonObject = Field(default_factory=dict)
    embedding_config: JsonObject = Field(default_factory=dict)
    tool_rules: JsonArray = Field(default_factory=list)
    mcp_tools: JsonArray = Field(default_factory=list)
    metadata: JsonObject = Field(default_factory=dict)
    message_ids: list[str] = Field(default_factory=list)
    blocks: list[Attachment] = Field(default_factory=list)
    tools: list[Attachment] = Field(default_factory=list)
    created_at: datetime
    updated_at: datetime
    created_by: str | None = None
    updated_by: str | None = None
    version: int
    restorable_until: datetime | None = Field(None, description="Set for a removed one: `agent.restore` until then")


class AgentPage(PageReply[AgentView]):
    """Agents, the newest first."""

    agents: list[AgentView]


class AddAgentRequest(AddRequest):
    """An agent memories can belong to."""

    name: Name | None = Field(None, description="What to call it; its id by default")
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


def add_agent(tenant: Tenant, request: AddAgentRequest) -> AgentView:
    """Add an agent."""
    return agent_view(tenant, add(tenant, Agent, request))


class ListAgentsRequest(ListRequest):
    """Which agents to list."""


def list_agents(tenant: Tenant, request: ListAgentsRequest) -> AgentPage:
    """Agents with their blocks and tools, the newest first."""
    page = find_page(tenant, Agent, request)
    return AgentPage(agents=_views(tenant, page.records), next=page.next)


class AgentRequest(Request):
    """One agent."""

    id: Id = Field(description="The agent")


def show_agent(tenant: Tenant, request: AgentRequest) -> AgentView:
    """An agent with its settings, blocks and tools."""
    return agent_view(tenant, load(tenant, Agent, request.id))


class ReviseAgentRequest(AgentRequest):
    """Change what an agent is told; what is left out stays."""

    name: Name | None = Field(None, description="What to call it")
    type: Text | None = Field(None, description="What sort of agent")
    description: Text | None = Field(None, description="What it does")
    system: Text | None = Field(None, description="Its system prompt")
    topic: Text | None = Field(None, description="What it is busy with")
    directives: JsonList | None = Field(None, description="The rules it keeps to, each a text or an object")
    config_overrides: Json | None = Field(None, description="Runtime configuration that differs for it")
    llm_config: Json | None = Field(None, description="The language model it thinks with")
    embedding_config: Json | None = Field(None, description="The model that embeds for it")
    tool_rules: JsonList | None = Field(None, description="When it may use which tool")
    mcp_tools: JsonList | None = Field(None, description="The tools of MCP servers it may use")
    metadata: Json | None = Field(None, description="Its metadata from now on")
    version: int | None = Field(None, ge=1, description="Only if it still has this version")


def revise_agent(tenant: Tenant, request: ReviseAgentRequest) -> AgentView:
    """Change what an agent is told."""
    given = request.model_dump(exclude={"id", "version"}, exclude_none=True)
    if not given:
        raise InvalidInput("nothing to change was given", remedy="give system, directives, metadata, …")

    def attempt() -> AgentView:
        agent = as_of_version(load(tenant, Agent, request.id), request.version)
        return _changed(tenant, agent, "revise agent", [], **given)

    return retry_unless_pinned(request.version, attempt)


def pause_agent(tenant: Tenant, request: AgentRequest) -> AgentView:
    """Pause an agent: it keeps everything and goes on when it is active again."""
    return _moved(tenant, request.id, "paused")


def activate_agent(tenant: Tenant, request: AgentRequest) -> AgentView:
    """Put a paused or retired agent to work again."""
    return _moved(tenant, request.id, "active")


def retire_agent(tenant: Tenant, request: AgentRequest) -> AgentView:
    """Retire an agent: kept with all it did, but it takes no new work."""
    return _moved(tenant, request.id, "retired")


def _moved(tenant: Tenant, id: str, to: str) -> AgentView:
    def attempt() -> AgentView:
        agent = load(tenant, Agent, id)
        if to not in TRANSITIONS[agent.status]:
            raise IllegalTransition(
                f"an agent cannot go from {agent.status} to {to}",
                remedy=f"from {agent.status} it can become {' or '.join(sorted(TRANSITIONS[agent.status]))}",
                id=id,
            )
        return _changed(tenant, agent, f"{to} agent", [], status=to)

    return retry_unless_pinned(None, attempt)


class InContextRequest(AgentRequest):
    """Which messages an agent has in mind: set them, add to them, keep the last few."""

    messages: list[Id] | None = Field(None, description="These and no others, in this order")
    append: list[Id] = Field(default_factory=list, description="These as well, at the end")
    keep: int | None = Field(None, ge=0, description="Then only the last so many")
    version: int | None = Field(None, ge=1, description="Only if the agent still has this version")


class InContextReply(Reply):
    """The messages an agent has in mind, the oldest first."""

    agent: str
    messages: list[str]
    version: int


def in_context(tenant: Tenant, request: InContextRequest) -> InContextReply:
    """Set, append or trim the messages an agent has in mind; without any, show them."""
    if request.messages is None and not request.append and request.keep is None:
        agent = load(tenant, Agent, request.id)
        return InContextReply(agent=agent.id, messages=agent.message_ids, version=agent.version)

    def attempt() -> InContextReply:
        agent = as_of_version(load(tenant, Agent, request.id), request.version)
        ids = _in_mind(agent.message_ids if request.messages is None else request.messages, request)
        fresh = [id for id in ids if id not in set(agent.message_ids)]
        _refuse_strangers(tenant, agent, fresh)
        guards: list[Step] = [*at_work(tenant, agent.id), *(Require(Message, id) for id in fresh)]
        try:
            after = _changed(tenant, agent, "in context", guards, message_ids=ids)
        except RequirementFailed:
            _refuse_strangers(tenant, agent, fresh)
            raise
        return InContextReply(agent=agent.id, messages=ids, version=after.version)

    return retry_unless_pinned(request.version, attempt)


def _in_mind(base: Sequence[str], request: InContextRequest) -> list[str]:
    ids = list(dict.fromkeys([*base, *request.append]))
    if request.keep is not None:
        ids = ids[max(0, len(ids) - request.keep) :]
    if len(ids) > MOST_IN_CONTEXT:
        raise TooLarge(f"{len(ids)} messages in context", remedy=f"keep at most {MOST_IN_CONTEXT}")
    return ids


def _refuse_strangers(tenant: Tenant, agent: Agent, ids: Sequence[str]) -> None:
    rows = tenant.select(Query(Message, (OneOf("id", tuple(ids)),)), ("id", "agent_id")) if ids else []
    owners = dict(rows)
    for id in ids:
        if id not in owners:
            raise InvalidInput(f"there is no message '{id[:80]}'", remedy="give ids of messages that exist", id=id)
        if owners[id] not in (None, agent.id):
            raise InvalidInput(f"message '{id[:80]}' is another agent's", remedy="give this agent's messages", id=id)


def _changed(tenant: Tenant, agent: Agent, action: str, guards: Sequence[Step], **fields: Any) -> AgentView:
    after = rewritten(agent, tenant, **fields)
    entry = logged(tenant, "update", action, None, id=agent.id, fields=sorted(fields))
    commit(tenant, [*guards, Update(after), entry])
    return agent_view(tenant, after.changed(version=agent.version + 1))


def agent_view(tenant: Tenant, agent: Agent) -> AgentView:
    return _views(tenant, [agent])[0]


def _views(tenant: Tenant, agents: Sequence[Agent]) -> list[AgentView]:
    ids = [agent.id for agent in agents]
    blocks, tools = attached(tenant, ids, Block, BlockLink), attached(tenant, ids, Tool, ToolLink)
    return [
        AgentView(
            **agent.model_dump(include=set(AgentView.model_fields)),
            blocks=[Attachment(id=block.id, name=block.label) for block in blocks[agent.id]],
            tools=[Attachment(id=tool.id, name=tool.name) for tool in tools[agent.id]],
            restorable_until=restorable_until(tenant, agent),
        )
        for agent in agents
    ]


def attached(tenant: Tenant, agents: Sequence[str], record: type[R], link: type[Record]) -> defaultdict[str, list[R]]:
    """The blocks or tools of each agent, in the order it got them."""
    field, of_each = f"{record.shape.table}_id", defaultdict[str, list[R]](list)
    links = tenant.select(Query(link, (OneOf("agent_id", tuple(agents)),)), ("agent_id", field)) if agents else []
    if not links:
        return of_each
    ids = tuple(dict.fromkeys(id for _, id in links))
    found = {one.id: one for one in tenant.find(Query(record, (OneOf("id", ids),))).records}
    for agent, id in links:
        if id in found:
            of_each[agent].append(found[id])
    return of_each
