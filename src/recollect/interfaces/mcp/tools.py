"""Which tools a profile offers, and what else can be called under it.

What reads or writes files of the machine is never a tool: a model may be told by what it reads, and what it reads may
come from anybody. How a tool is described: `daily` for those of every day, `operation_tools` for all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from recollect.catalogue import OPERATIONS, Operation
from recollect.errors import InvalidInput
from recollect.interfaces.mcp.daily import DAILY_TOOLS
from recollect.interfaces.mcp.operation_tools import LeanTool, Tool

PROFILES: dict[str, str] = {
    "default": "Few tools for every day: remember, recall, correct, forget; all others on demand.",
    "data": "The default tools, and those to ask questions of files and databases.",
    "agent": "All of these, and those to build agents with: sessions, messages, blocks, runs, summaries, trust.",
    "all": "Every operation except those on local files and on organizations, with the whole of each reply.",
    "memory-server": "The tools of the official MCP memory server, over this memory.",
}
DAILY = tuple(tool.operation.name for tool in DAILY_TOOLS)
"""The default profile. None of them lets a model say of its own memories that they are verified."""
DATA = "source.list source.find source.show ask query.run query.remember".split()
"""What the profile `data` has beside those. Files are added by people: a model may be told to add any."""
LEARNING = "relate restore history episode.record pattern.suggest pattern.apply pattern.report".split()
"""Tools of every day until version 2: no longer listed by default, but still called by hosts that know them."""
BUILT_ON = (
    "remember_many why_not check promote stats session.add session.show session.end session.extract message.add"
    " message.list message.search message.remember block.list block.show block.append block.replace run.start run.show"
    " run.list summary.make"
).split()
"""What the profile `agent` has beside all of those."""
ON_DEMAND = tuple(
    OPERATIONS[name]
    for name in (
        *DAILY, *LEARNING, *DATA, *BUILT_ON,
        *"unrelate relations tag.add tag.remove tag.list citation.list review.list kind.list project.list".split(),
        *"pattern.show episode.from_run session.list summary.show summary.tree message.show".split(),
    )
    if OPERATIONS[name].permission in ("read", "write") or name in ("forget", "restore")
)  # fmt: skip
"""What a model reaches with `call`, listed or not. As in every profile but `agent` and `all`, nothing that promotes,
and nothing that cannot be undone."""
LEAN = frozenset({"default", "data", "agent"})
"""The profiles for models: short replies. The others are for programs, and answer with all there is."""
WITH_CALL = frozenset({"default", "data"})
"""The profiles that offer all others on demand."""
GRAPH = tuple(
    Operation(name, f"frameworks.graph:{name}", permission, route, (), summary)  # type: ignore[arg-type]
    for name, permission, route, summary in (
        ("create_entities", "write", "POST /graph/entities", "Create multiple new entities in the knowledge graph."),
        (
            "create_relations",
            "write",
            "POST /graph/relations",
            "Create multiple new relations between entities. Relations should be in active voice.",
        ),
        ("add_observations", "write", "POST /graph/observations", "Add new observations to existing entities."),
        ("delete_entities", "delete", "DELETE /graph/entities", "Delete entities and their relations."),
        ("delete_observations", "delete", "DELETE /graph/observations", "Delete specific observations from entities."),
        ("delete_relations", "delete", "DELETE /graph/relations", "Delete relations from the knowledge graph."),
        ("read_graph", "read", "GET /graph", "Read the entire knowledge graph."),
        ("search_nodes", "read", "GET /graph/search", "Search for entities by name, type and observations."),
        ("open_nodes", "read", "GET /graph/nodes", "Open specific entities by their names."),
    )
)


@cache
def offered(profile: str) -> dict[str, Tool]:
    """The tools of a profile that are an operation each, by name."""
    if profile not in PROFILES:
        raise InvalidInput(f"there is no profile '{profile[:40]}'", remedy=f"use one of {', '.join(PROFILES)}")
    daily = {tool.operation.name: tool for tool in DAILY_TOOLS}
    if profile not in LEAN:
        return {tool.name: tool for tool in map(Tool, _operations(profile))}
    return {tool.name: tool for tool in (daily.get(one.name) or LeanTool(one) for one in _operations(profile))}


@cache
def callable_in(profile: str) -> dict[str, Tool]:
    """What is answered under a profile: the tools it lists, and those that it lists no more or on demand."""
    unlisted = {tool.name: tool for tool in map(LeanTool, ON_DEMAND)} if profile in WITH_CALL else {}
    return unlisted | offered(profile)


def _operations(profile: str) -> Iterator[Operation]:
    if profile == "memory-server":
        yield from GRAPH
        return
    own = {"all": OPERATIONS, "agent": [*DAILY, *LEARNING, *DATA, *BUILT_ON], "data": [*DAILY, *DATA]}
    names: Iterable[str] = own.get(profile, DAILY)
    chosen = (OPERATIONS[name] for name in names)
    yield from (one for one in chosen if not one.local and one.group != "organization")
