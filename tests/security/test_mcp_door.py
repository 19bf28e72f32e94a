"""The same walls before the MCP door: roles against tools, and another tenant's memories that are not there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from probing import MARKER
from recollect.catalogue import OPERATIONS
from recollect.domain.access import ROLES
from recollect.domain.record import new_id
from recollect.interfaces.mcp.gateway import GATEWAYS
from recollect.interfaces.mcp.operation_tools import Tool
from recollect.interfaces.mcp.tools import GRAPH, ON_DEMAND, PROFILES, WITH_CALL, offered
from recollect.ports.records import Scope
from recollect.services.admin.copy import content_hash

TOOLS = [(profile, tool) for profile in PROFILES for tool in offered(profile).values()]


def is_granted(tool: Tool, granted: frozenset[str]) -> bool:
    """What is the operator's is nobody's here: the operator of this world is a third organization."""
    return tool.operation.permission in granted and tool.operation.permission != "operate"


@pytest.mark.parametrize("profile", PROFILES)
def test_a_role_is_shown_exactly_the_tools_it_is_granted(profile: str, world: Any) -> None:
    for granted in ROLES.values():
        key, shown = world.key("mine", tuple(sorted(granted))), set[str]()
        cursor: dict[str, str] | None = {}
        while cursor is not None:
            told = world.rpc(key, "tools/list", cursor, profile).json()["result"]
            shown |= {tool["name"] for tool in told["tools"]}
            cursor = {"cursor": told["nextCursor"]} if told.get("nextCursor") else None
        listed = {name for name, tool in offered(profile).items() if is_granted(tool, granted)}
        assert shown == (listed | GATEWAYS.keys() if profile in WITH_CALL else listed)
    assert world.rpc(None, "tools/list", {}, profile).status_code == 401


@pytest.mark.parametrize("name", sorted({tool.name for _, tool in TOOLS}))
def test_a_tool_works_exactly_for_the_roles_it_is_granted(name: str, world: Any) -> None:
    profile, tool = next(pair for pair in TOOLS if pair[1].name == name and pair[0] != "default")
    for role, granted in ROLES.items():
        told = world.tool(world.key("mine", tuple(sorted(granted))), name, {"no_such_field": 1}, profile)
        assert told["code"] == ("invalid_input" if is_granted(tool, granted) else "denied"), (role, told)


@pytest.mark.parametrize("operation", [one.name for one in ON_DEMAND])
def test_what_is_called_on_demand_works_exactly_for_the_roles_it_is_granted(operation: str, world: Any) -> None:
    tool = Tool(OPERATIONS[operation])
    for role, granted in ROLES.items():
        fields = {"operation": operation, "fields": {"no_such_field": 1}}
        told = world.tool(world.key("mine", tuple(sorted(granted))), "call", fields, "default")
        assert told["code"] == ("invalid_input" if is_granted(tool, granted) else "denied"), (role, told)


def test_a_refused_tool_is_in_the_access_log(world: Any) -> None:
    key = world.key("mine", ("read",))
    world.tool(key, "sweep", {})
    entry = world.mine.log(action="sweep", success=False).entries[0]
    assert (entry.error, entry.actor, entry.address) == ("denied", key.split(".")[2], "127.0.0.1")


def test_without_reading_there_is_nothing_to_read(world: Any) -> None:
    key = world.key("mine", ("write",))
    assert world.rpc(key, "resources/list", {}).json()["result"]["resources"] == []
    for uri in ("recollect://recent", "recollect://stats", f"memory://{world.ids('mine')['memory'][0]}"):
        assert "needs the permission 'read'" in world.rpc(key, "resources/read", {"uri": uri}).text
    prompt = {"name": "begin_task", "arguments": {"task": "x"}}
    assert "needs the permission 'read'" in world.rpc(key, "prompts/get", prompt).text


def test_a_foreign_memory_as_a_resource_looks_like_an_absent_one(world: Any) -> None:
    key, absent = world.key(), new_id()
    for foreign in world.ids("theirs")["memory"]:
        told = [
            world.rpc(key, "resources/read", {"uri": f"memory://{id}"}).text.replace(id, "THE-ID")
            for id in (foreign, absent)
        ]
        assert told[0] == told[1]
    everything = (
        world.rpc(key, "resources/list", {}).text + world.rpc(key, "resources/read", {"uri": "recollect://recent"}).text
    )
    assert MARKER not in everything


def test_one_tenants_graph_is_no_part_of_anothers(world: Any) -> None:
    mine, theirs = world.key("mine"), world.key("theirs")

    def ask(key: str, name: str, fields: dict[str, Any]) -> Any:
        return world.tool(key, name, fields, "memory-server")

    secret = {"name": MARKER, "entityType": MARKER, "observations": [MARKER]}
    other = secret | {"name": "Other"}
    link = {"from": MARKER, "to": "Other", "relationType": MARKER}
    ask(theirs, "create_entities", {"entities": [secret, other]})
    ask(theirs, "create_relations", {"relations": [link]})
    before = content_hash(world.core.store, Scope("theirs"))
    for name, fields in (
        ("read_graph", {}),
        ("search_nodes", {"query": ""}),
        ("open_nodes", {"names": [MARKER, "Other"]}),
        ("delete_entities", {"entityNames": [MARKER]}),
        ("delete_observations", {"deletions": [{"entityName": MARKER, "observations": [MARKER]}]}),
        ("delete_relations", {"relations": [link]}),
    ):
        assert MARKER not in json.dumps(ask(mine, name, fields))
    facts = {"observations": [{"entityName": MARKER, "contents": ["x"]}]}
    assert ask(mine, "add_observations", facts)["code"] == "not_found"
    own = secret | {"observations": ["ours"]}
    assert ask(mine, "create_entities", {"entities": [own]})["entities"] == [own]
    ask(mine, "delete_entities", {"entityNames": [MARKER]})
    assert content_hash(world.core.store, Scope("theirs")) == before
    assert len(GRAPH) == 9
