"""The tools `operations` and `call`: everything that is not listed, read about and used on demand.

A model that needs more than the tools of every day asks what there is, reads the fields of one operation and calls it.
So the list that is read at every turn stays short, and hosts that cannot change their list still reach the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mcp import types

from recollect.catalogue import Operation
from recollect.errors import InvalidInput
from recollect.interfaces.mcp.operation_tools import HINTS, Tool

OPERATIONS_TOOL = types.Tool(
    name="operations",
    description="What else this memory can do: tags, links, history, restore, sessions, messages, tasks and what was"
    " learned from them, tables and SQL. Tells names; of one operation or group, its fields.",
    input_schema={
        "type": "object",
        "properties": {"about": {"type": "string", "description": "An operation, a group or a word; empty: all names"}},
    },
    annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
)
CALL_TOOL = types.Tool(
    name="call",
    description="Call one of the operations that `operations` names.",
    input_schema={
        "type": "object",
        "properties": {
            "operation": {"type": "string", "description": "Its name"},
            "fields": {"type": "object", "description": "Its fields"},
        },
        "required": ["operation"],
    },
    annotations=types.ToolAnnotations(destructive_hint=False, open_world_hint=False),
)
GATEWAYS = {tool.name: tool for tool in (OPERATIONS_TOOL, CALL_TOOL)}
MOST_FOUND = 12


def meant_by_call(arguments: Mapping[str, Any], reachable: Mapping[str, Tool]) -> tuple[Tool, dict[str, Any]]:
    """The operation that `call` is to run, and its fields; InvalidInput if it is not one to reach."""
    name, fields = arguments.get("operation"), arguments.get("fields") or {}
    strange = arguments.keys() - {"operation", "fields"}
    if not isinstance(name, str) or not isinstance(fields, dict) or strange:
        raise InvalidInput(
            "call takes an operation and its fields", remedy='as in {"operation": "tag.list", "fields": {}}'
        )
    tool = reachable.get(name.replace(".", "_"))
    if tool is None:
        raise InvalidInput(f"there is no operation '{name[:80]}' here", remedy="see `operations` for the names")
    return tool, fields


def told_about(about: str, known: Iterable[Operation]) -> str:
    """The names of all, or of what is asked for the summaries, or the fields if it is one."""
    known = list(known)
    if not about.strip():
        return _names(known)
    wanted = about.strip().lower().replace(" ", "_")
    exact = [one for one in known if wanted in (one.name, one.name.replace(".", "_"))]
    found = exact or [one for one in known if one.group == wanted] or _with_words(about, known)
    if not found:
        raise InvalidInput(f"no operation is about '{about[:80]}'", remedy="leave `about` empty to see all names")
    return _fields(found[0]) if len(found) == 1 else "\n".join(f"{one.name}: {one.summary}" for one in found)


def _names(known: Iterable[Operation]) -> str:
    groups: dict[str, list[str]] = {}
    for one in known:
        groups.setdefault(one.group, []).append(one.name)
    return "\n".join(" ".join(names) for names in groups.values())


def _with_words(about: str, known: Iterable[Operation]) -> list[Operation]:
    words = about.lower().split()
    scored = [(sum(word in f"{one.name} {one.summary}".lower() for word in words), one) for one in known]
    return [one for score, one in sorted(scored, key=lambda pair: -pair[0]) if score][:MOST_FOUND]


def _fields(operation: Operation) -> str:
    schema = Tool(operation).input_schema
    needed = schema.get("required", [])
    lines = [f"{operation.name}: {operation.summary} {HINTS.get(operation.name, '')}".rstrip()]
    for name, told in schema["properties"].items():
        must = ", required" if name in needed else ""
        lines.append(f"- {name} ({_type(told)}{must}): {told.get('description', '')}")
    return "\n".join(lines)


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(json.dumps(one, ensure_ascii=False) for one in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(one) for one in schema["anyOf"] if one.get("type") != "null"))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))
