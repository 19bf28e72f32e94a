"""The commands: one per operation of the catalogue, and those that do not work on one open store."""

from __future__ import annotations

from recollect.catalogue import GROUPS as OPERATION_GROUPS
from recollect.catalogue import OPERATIONS, Operation

HEADINGS = {
    "Memories": "remember recall context show list why-not history",
    "Changing memories": "revise cite uncite relate",
    "Trust": "citation check confirm promote demote archive merge unmerge roll-back",
    "Forgetting": "forget restore erase sweep prune",
    "Owners": "user agent session project",
    "Agent data": "block tool state workspace message",
    "Agent runs": "run",
    "Learning": "episode pattern summary",
    "Frameworks": "checkpoint item",
    "Service": "serve mcp key audit",
    "Store": "stats activity sql log verify doctor reindex config",
    "Export, backup, copy": "export import backup restore-backup copy partitions migrate",
}
# The commands that create a store where there is none. The others fail: most likely it is the wrong folder.
BEGINNING = frozenset(
    "remember user.add agent.add session.add project.add message.add episode.record block.add tool.add item.put key.add"
    " import_ migrate".split()
)
HIDDEN = frozenset({"remember_many", "message.add_many", "checkpoint.put", "checkpoint.write", "item.put_many"})


class Program(Operation):
    """A command that is not an operation of one open store: its function opens what it needs."""

    package = "recollect.interfaces"


_BETWEEN = ("source", "target")
PROGRAMS = (
    Program("copy", "cli.store_commands:copy", "admin", "", _BETWEEN, "Copy a store into another, of any kind.", True),
    Program(
        "restore_backup", "cli.store_commands:restore_backup", "admin", "", _BETWEEN, "Create a store from a backup."
    ),
    Program("serve", "serve:serve", "operate", "", ("settings",), "Start the service: HTTP API, console and MCP."),
    Program("mcp", "mcp.stdio:serve", "operate", "", (), "Start an MCP server on standard input and output."),
    Program(
        "config.check",
        "cli.store_commands:config_check",
        "admin",
        "",
        ("settings",),
        "Check the settings: try all they name.",
    ),
)
GROUPS = {**OPERATION_GROUPS, "config": "Settings: check them."}
COMMANDS = {one.command: one for one in (*OPERATIONS.values(), *PROGRAMS) if one.name not in HIDDEN}
