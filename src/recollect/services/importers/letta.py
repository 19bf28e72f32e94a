"""Letta agent files (.af): agents with their blocks, tools and messages, in the form of today and the one before.

The ids in a file (`agent-0`, `block-1`) mean something only within it, so ids are derived from the names of the agents,
and a file that is exported again finds what it became here. Variables for tools may hold secrets, and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from recollect.domain.agents import Agent, Block, BlockLink, Tool, ToolLink
from recollect.domain.record import JsonObject, clipped, derived_id
from recollect.errors import InvalidInput
from recollect.services.importers.conversation import Turn, role_of, turn_entries
from recollect.services.importers.entries import Entry, Reading, Source
from recollect.services.importers.field_map import NOT_MAPPED, FieldMap, decoded, words
from recollect.services.importers.json_stream import values
from recollect.services.importers.objects import fields_at_first
from recollect.services.importers.origin import Origin

AGENTS = FieldMap(
    "agent",
    {
        "id": "agent.id: derived from the name, since ids of a file mean something only in it",
        "name": "agent.name",
        "agent_type": "agent.type",
        "system": "agent.system",
        "description": "agent.description",
        "metadata": "agent.metadata",
        "metadata_": "agent.metadata",
        "llm_config": "agent.llm_config",
        "embedding_config": "agent.embedding_config",
        "tool_rules": "agent.tool_rules",
        "messages": "parts.messages: a message each, and a memory (conversation) of what was said",
        "in_context_message_ids": "parts.in_context: the messages in the agent's context",
        "in_context_message_indices": "parts.in_context: the same",
        "block_ids": "parts.blocks: a link to each block",
        "tool_ids": "parts.tools: a link to each tool",
        "created_at": "agent.created_at",
        "updated_at": "agent.updated_at",
        "core_memory": NOT_MAPPED,
        "tools": NOT_MAPPED,
        "version": NOT_MAPPED,
    },
)
BLOCKS = FieldMap(
    "block",
    {
        "id": "block.id: derived from the names of the agents",
        "label": "block.label",
        "value": "block.value",
        "limit": "block.limit",
        "description": "block.description",
        "template_name": "block.template_name",
        "is_template": "block.is_template",
        "metadata": "block.metadata",
        "metadata_": "block.metadata",
        "created_at": "block.created_at",
        "updated_at": "block.updated_at",
    },
)
TOOLS = FieldMap(
    "tool",
    {
        "id": "tool.id: derived from the name",
        "name": "tool.name",
        "description": "tool.description",
        "json_schema": "tool.json_schema",
        "source_type": "tool.source_type",
        "source_code": "tool.source_code",
        "tags": "tool.tags",
        "metadata_": "tool.metadata",
        "created_at": "tool.created_at",
        "updated_at": "tool.updated_at",
    },
)
MESSAGES = FieldMap(
    "message",
    {
        "id": "message.key: names it in the agent's context",
        "role": "message.role",
        "content": "message.content: text, and other parts as content of the message",
        "text": "message.content",
        "name": "message.name",
        "model": "message.model",
        "tool_calls": "message.tool_calls",
        "tool_call_id": "message.tool_call_id",
        "tool_returns": "message.tool_returns",
        "group_id": "message.group_id",
        "sender_id": "message.sender_id",
        "created_at": "message.created_at",
        "agent_id": NOT_MAPPED,
        "type": NOT_MAPPED,
        "otid": NOT_MAPPED,
    },
)
SECRETS = "tool_exec_environment_variables"
_LISTS = ("tool_rules",)
_OBJECTS = ("llm_config", "embedding_config", "json_schema")


@dataclass(slots=True)
class _AgentFile:
    agents: list[JsonObject]
    blocks: list[JsonObject]
    tools: list[JsonObject]
    others: JsonObject

    @property
    def name(self) -> str:
        return "\x1f".join(sorted(words(one.get("name", "")) for one in self.agents))


def recognises(origin: Origin) -> bool:
    if origin.is_folder or origin.is_zip:
        return False
    found = fields_at_first(origin)
    return {"agents", "blocks", "tools"} <= found or {"agent_type", "core_memory"} <= found


def read(reading: Reading) -> Iterator[Entry]:
    file = _opened(reading.origin)
    for name, value in file.others.items():
        if value:
            reading.findings.left_out(name, "", "it is not imported")
    blocks = {
        words(one.get("id")): derived_id("letta", "block", file.name, words(one.get("id"))) for one in file.blocks
    }
    tools = {words(one.get("id", number)): words(one.get("name")) for number, one in enumerate(file.tools)}
    for one in file.blocks:
        yield from _block(reading, one, blocks)
    for one in file.tools:
        yield from _tool(reading, one)
    for one in file.agents:
        yield from _agent(reading, one, blocks, tools, {words(b.get("id")): b for b in file.blocks})


def _opened(origin: Origin) -> _AgentFile:
    with origin.open() as file:
        found = next((value for _, value in values(file, origin.name)), None)
    if not isinstance(found, dict) or not ("agents" in found or "core_memory" in found):
        raise InvalidInput(f"'{origin.name}' is not a Letta agent file", remedy="export the agent as .af again")
    if "agents" in found:
        others = {name: value for name, value in found.items() if name not in ("agents", "blocks", "tools")}
        others = {name: value for name, value in others.items() if name not in ("metadata", "created_at")}
        return _AgentFile(_objects(found, "agents"), _objects(found, "blocks"), _objects(found, "tools"), others)
    blocks = [{"id": f"block-{n}", **one} for n, one in enumerate(_objects(found, "core_memory"))]
    tools = [{"id": f"tool-{n}", **one} for n, one in enumerate(_objects(found, "tools"))]
    ids = {"block_ids": [one["id"] for one in blocks], "tool_ids": [one["id"] for one in tools]}
    return _AgentFile([{"id": "agent-0", **found, **ids}], blocks, tools, {})


def _objects(found: JsonObject, name: str) -> list[JsonObject]:
    listed = found.get(name)
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _block(reading: Reading, item: JsonObject, ids: dict[str, str]) -> Iterator[Entry]:
    of, rest = BLOCKS.read(item, reading.findings)
    block = of.get("block", {})
    value = words(block.get("value", ""))
    limit = block.get("limit") if isinstance(block.get("limit"), int) else 0
    block |= {"id": ids[words(item.get("id"))], "value": value, "limit": max(limit or 2000, len(value), 1)}
    block["metadata"] = reading.kept(block.get("metadata"), rest)
    block["label"] = clipped(words(block.get("label") or "block"), 255)
    yield Entry(Block, block)


def _tool(reading: Reading, item: JsonObject) -> Iterator[Entry]:
    of, rest = TOOLS.read(item, reading.findings)
    tool = of.get("tool", {})
    name = clipped(words(tool.get("name") or ""), 255)
    fields = {**tool, "id": derived_id("letta", "tool", name), "name": name}
    yield from reading.once(Tool, **_typed(fields), metadata=reading.kept(fields.pop("metadata", {}), rest))


def _typed(fields: JsonObject) -> JsonObject:
    """Without values that are not of the type a record has, and without metadata, which is added after."""
    kept = {name: value for name, value in fields.items() if name not in _OBJECTS or isinstance(value, dict)}
    return {name: value for name, value in kept.items() if name != "metadata"}


def _agent(
    reading: Reading, item: JsonObject, blocks: dict[str, str], tools: dict[str, str], known: dict[str, JsonObject]
) -> Iterator[Entry]:
    if item.get(SECRETS):
        reading.findings.unmapped(AGENTS.what, SECRETS, "it may hold secrets, and is left out", item.get("name"))
    of, rest = AGENTS.read({name: value for name, value in item.items() if name != SECRETS}, reading.findings)
    agent, parts = of.get("agent", {}), of.get("parts", {})
    name = clipped(words(agent.get("name") or "agent"), 255)
    id = derived_id("letta", "agent", name)
    messages = [one for one in parts.get("messages") or [] if isinstance(one, dict)]
    turns = [_turn(reading, one, id) for one in messages]
    entries = list(turn_entries(reading, turns, None, agent.get("created_at"), agent=id))
    fields = _typed({**agent, "id": id, "name": name, "type": words(agent.get("type") or "") or None})
    fields["metadata"] = reading.kept(agent.get("metadata"), rest)
    fields["message_ids"] = _in_context(parts.get("in_context") or [], messages, turns, entries)
    yield Entry(Agent, {field: value for field, value in fields.items() if value is not None})
    yield from (one for one in entries if one.record is not Agent)
    for block in parts.get("blocks") or []:
        if words(block) in blocks:
            label = clipped(words(known[words(block)].get("label") or "block"), 255)
            link = {"block_id": blocks[words(block)], "block_label": label, "agent_id": id}
            yield Entry(BlockLink, {"id": derived_id("letta block link", id, blocks[words(block)]), **link})
    for tool in parts.get("tools") or []:
        if words(tool) in tools:
            link = {"tool_id": derived_id("letta", "tool", clipped(tools[words(tool)], 255)), "agent_id": id}
            yield Entry(ToolLink, {"id": derived_id("letta tool link", id, link["tool_id"]), **link})


def _in_context(wanted: list[object], messages: list[JsonObject], turns: list[Turn], entries: list[Entry]) -> list[str]:
    """The messages in the context of an agent, which a file names by their ids or by their places."""
    places = {words(one.get("id")): place for place, one in enumerate(messages)}
    stored = {one.fields["otid"]: one.fields["id"] for one in entries if "otid" in one.fields}
    chosen = [one if isinstance(one, int) else places.get(words(one), -1) for one in wanted]
    ids = [turns[one].id for one in chosen if 0 <= one < len(turns)]
    return [stored[one] for one in ids if one in stored]


def _turn(reading: Reading, item: JsonObject, agent: str) -> Turn:
    of, rest = MESSAGES.read(item, reading.findings)
    turn = of.get("message", {})
    content = turn.get("content")
    parts = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    texts = [words(one.get("text", "")) for one in parts if one.get("type") == "text"]
    text, is_said = _said(content if isinstance(content, str) else "\n".join(texts))
    calls = [one for one in turn.get("tool_calls") or [] if isinstance(one, dict)]
    role = role_of(turn.get("role"), "system")
    message: JsonObject = {
        "content": [one for one in parts if one.get("type") != "text"],
        "tool_calls": calls,
        "tool_returns": turn.get("tool_returns") if isinstance(turn.get("tool_returns"), list) else [],
    }
    for name in ("name", "model", "tool_call_id", "group_id", "sender_id"):
        if turn.get(name) is not None:
            message[name] = words(turn[name])
    text = (_sent(calls) if role == "assistant" else "") or text
    id = derived_id("letta message", agent, role, str(turn.get("created_at")), text, words(message["tool_calls"]))
    return Turn(role, text, turn.get("created_at"), id, message, rest, is_said)


def _said(text: str) -> tuple[str, bool]:
    """Letta wraps what users say: {"type": "user_message", "message": "…"}; other types are events."""
    found = decoded(text)
    if not isinstance(found, dict) or "type" not in found:
        return text, True
    if found["type"] == "user_message" and isinstance(found.get("message"), str):
        return str(found["message"]), True
    return text, False


def _sent(calls: list[JsonObject]) -> str:
    """What an agent says by calling the tool send_message."""
    said: list[str] = []
    for one in calls:
        called = one.get("function")
        if isinstance(called, dict) and called.get("name") == "send_message":
            given = decoded(words(called.get("arguments", "")))
            said += [words(given["message"])] if isinstance(given, dict) and given.get("message") else []
    return "\n".join(said)


SOURCE = Source(
    "letta",
    "Letta",
    "an agent file (.af)",
    (AGENTS, BLOCKS, TOOLS, MESSAGES),
    recognises,
    read,
)
