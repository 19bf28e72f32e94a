"""The sources that can be imported, by name; the module of each is loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module

from recollect.errors import InvalidInput
from recollect.services.importers.entries import Source
from recollect.services.importers.origin import Origin

AUTO = "auto"
NAMES = (
    "session-memory-agent",
    "contextual-memory-pc2",
    "jarvis-memory-pc2",
    "mem0",
    "mcp-memory",
    "chatgpt",
    "claude",
    "letta",
    "langgraph",
    "markdown",
)
"""In the order in which `auto` tries them: those that are sure of their files first."""


def source_named(name: str) -> Source:
    if name not in NAMES:
        raise InvalidInput(
            f"'{name[:50]}' is not a source that can be imported", remedy=f"use one of {', '.join((AUTO, *NAMES))}"
        )
    found: Source = import_module(f"recollect.services.importers.{name.replace('-', '_')}").SOURCE
    return found


def recognised(origin: Origin) -> Source:
    """The source that a file, folder or zip comes from, by its contents."""
    for name in NAMES:
        source = source_named(name)
        if source.recognises(origin):
            return source
    raise InvalidInput(
        f"'{origin.name}' is not from a source that is known here",
        remedy=f"say where it comes from with --from: {', '.join(NAMES)}",
    )
