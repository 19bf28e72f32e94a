"""The prompt of an agent: system, directives, core-memory blocks and the messages in mind, as data and as text.

Blocks and messages are data: each stands between markers that its text cannot forge.
"""

from __future__ import annotations

import json

from pydantic import Field

from recollect.domain.agents import Agent, Block, BlockLink, Tool, ToolLink
from recollect.domain.conversations import Message
from recollect.domain.record import JsonArray, JsonObject
from recollect.ports.query import OneOf, Query
from recollect.services.agents.agents import AgentRequest, attached
from recollect.services.conversations.messages import MessageView, view
from recollect.services.recall.context import as_label, harmless, tokens_in
from recollect.services.requests import Reply
from recollect.services.tenant import Tenant
from recollect.services.transaction import load


class PromptBlock(Reply):
    """A block as it stands in the prompt."""

    id: str
    label: str
    value: str
    characters: int
    limit: int
    description: str = ""


class PromptTool(Reply):
    """A tool as it is told to a model."""

    name: str
    description: str
    json_schema: JsonObject


class Prompt(Reply):
    """The pieces of a prompt, and `text`: all of them in one."""

    agent: str
    status: str
    system: str | None
    directives: JsonArray
    blocks: list[PromptBlock]
    tools: list[PromptTool]
    messages: list[MessageView]
    text: str
    tokens: int
    missing: list[str] = Field(default_factory=list, description="Messages in mind that are gone")

    def __str__(self) -> str:
        return self.text


def prompt(tenant: Tenant, request: AgentRequest) -> Prompt:
    """Everything an agent begins its next step with."""
    agent = load(tenant, Agent, request.id)
    blocks = [_block(block) for block in attached(tenant, [agent.id], Block, BlockLink)[agent.id]]
    tools = [
        PromptTool(name=tool.name, description=tool.description, json_schema=tool.json_schema)
        for tool in attached(tenant, [agent.id], Tool, ToolLink)[agent.id]
    ]
    messages = _messages(tenant, agent)
    text = _text(agent, blocks, messages)
    return Prompt(
        agent=agent.id,
        status=agent.status,
        system=agent.system,
        directives=agent.directives,
        blocks=blocks,
        tools=tools,
        messages=messages,
        text=text,
        tokens=tokens_in(text),
        missing=sorted(set(agent.message_ids) - {message.id for message in messages}),
    )


def _block(block: Block) -> PromptBlock:
    fields = block.model_dump(include={"id", "label", "value", "limit", "description"})
    return PromptBlock(**fields, characters=len(block.value))


def _messages(tenant: Tenant, agent: Agent) -> list[MessageView]:
    if not agent.message_ids:
        return []
    wanted = Query(Message, (OneOf("id", tuple(agent.message_ids)),))
    found = {message.id: message for message in tenant.find(wanted).records}
    return [view(found[id]) for id in agent.message_ids if id in found]


def _text(agent: Agent, blocks: list[PromptBlock], messages: list[MessageView]) -> str:
    parts = [agent.system] if agent.system else []
    if agent.directives:
        rules = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in agent.directives]
        parts.append("<directives>\n" + "".join(f"- {rule}\n" for rule in rules) + "</directives>")
    if blocks:
        parts.append("<core_memory>\n" + "".join(map(_rendered, blocks)) + "</core_memory>")
    if messages:
        parts.append("<messages>\n" + "".join(map(_said, messages)) + "</messages>")
    return "\n".join(parts)


def _rendered(block: PromptBlock) -> str:
    about = f' description="{as_label(block.description)}"' if block.description else ""
    head = f'<block label="{as_label(block.label)}" characters={block.characters} limit={block.limit}{about}>'
    return f"{head}\n  {harmless(block.value)}\n</block>\n"


def _said(message: MessageView) -> str:
    by = f' name="{as_label(message.name)}"' if message.name else ""
    parts = [one for one in (message.content, message.tool_calls, message.tool_returns) if one]
    said = message.text if message.text is not None else json.dumps(parts, ensure_ascii=False)
    return f"<message role={message.role}{by}>\n  {harmless(said)}\n</message>\n"
