"""Recollect, the memory of AI agents: stored for good, cited, found again in milliseconds.

import recollect

mem = recollect.open("team.db")
mem.remember("Alice prefers pytest", cites=[recollect.cite.user("alice", "said so in review")])
for hit in mem.recall("which test framework?"):
    print(hit.text, hit.why)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect import errors as errors
    from recollect.app import open as open
    from recollect.domain.kinds import define_kind as define_kind
    from recollect.domain.provenance import cite as cite
    from recollect.errors import RecollectError as RecollectError
    from recollect.integrations.wrapping import wrap as wrap
    from recollect.interfaces.async_client import AsyncRecollect as AsyncRecollect
    from recollect.interfaces.async_opening import aconnect as aconnect
    from recollect.interfaces.async_opening import aopen as aopen
    from recollect.interfaces.client import Recollect as Recollect
    from recollect.interfaces.remote import connect as connect
    from recollect.interfaces.runner import Act as Act
    from recollect.interfaces.runner import Done as Done
    from recollect.interfaces.runner import GiveUp as GiveUp
    from recollect.interfaces.runner import Runner as Runner
    from recollect.interfaces.runner import Task as Task
    from recollect.interfaces.tool_runner import tool as tool
    from recollect.settings import Settings as Settings

__version__ = "0.5.0"

# Imported on first use: `import recollect` takes milliseconds, whatever it can do.
_HOMES = {
    "open": "recollect.app",
    "connect": "recollect.interfaces.remote",
    "aopen": "recollect.interfaces.async_opening",
    "aconnect": "recollect.interfaces.async_opening",
    "AsyncRecollect": "recollect.interfaces.async_client",
    "cite": "recollect.domain.provenance",
    "define_kind": "recollect.domain.kinds",
    "Act": "recollect.interfaces.runner",
    "Done": "recollect.interfaces.runner",
    "GiveUp": "recollect.interfaces.runner",
    "Recollect": "recollect.interfaces.client",
    "Runner": "recollect.interfaces.runner",
    "Task": "recollect.interfaces.runner",
    "tool": "recollect.interfaces.tool_runner",
    "RecollectError": "recollect.errors",
    "Settings": "recollect.settings",
    "wrap": "recollect.integrations.wrapping",
}
__all__ = [
    "Act",
    "AsyncRecollect",
    "Done",
    "GiveUp",
    "Recollect",
    "RecollectError",
    "Runner",
    "Settings",
    "Task",
    "aconnect",
    "aopen",
    "cite",
    "connect",
    "define_kind",
    "errors",
    "open",
    "tool",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("recollect.errors")
    if name not in _HOMES:
        raise AttributeError(f"module 'recollect' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
