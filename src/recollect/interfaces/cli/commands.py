"""Which commands there are: one per operation of the catalogue, and those that are no operation of one open store."""

from __future__ import annotations

from recollect.catalogue import GROUPS as OPERATION_GROUPS
from recollect.catalogue import OPERATIONS, Operation

HEADINGS = {
    "Memories": "remember recall context show list why-not history",
    "Changing them": "revise cite uncite relate",
    "Trust": "citation check confirm promote demote archive merge unmerge roll-back",
    "Forgetting": "forget restore erase sweep prune",
    "Whose they are": "user agent session project",
    "Agents at work": "block tool state workspace message",
    "Runs of agents": "run",
    "Learning": "episode pattern summary",
    "Frameworks": "checkpoint item",
    "The service": "serve mcp key audit",
    "The store": "stats activity sql log verify doctor reindex config",
    "Moving": "export import backup restore-backup copy partitions migrate",
}
# What may be the first thing done with a store. All others ask about what is there, and in the wrong folder nothing is.
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
    Program("copy", "cli.store_commands:copy", "admin", "", _BETWEEN, "Copy a store into another of any kind.", True),
    Program(
        "restore_backup", "cli.store_commands:restore_backup", "admin", "", _BETWEEN, "Make a store from a backup."
    ),
    Program("serve", "serve:serve", "operate", "", ("settings",), "Serve the API, the console and MCP."),
    Program("mcp", "mcp.stdio:serve", "operate", "", (), "Serve MCP over standard input and output, for one host."),
    Program(
        "config.check", "cli.store_commands:config_check", "admin", "", ("settings",), "Try all that the settings name."
    ),
)
GROUPS = {**OPERATION_GROUPS, "config": "The settings: what is wrong with them, and how to fix it."}
COMMANDS = {one.command: one for one in (*OPERATIONS.values(), *PROGRAMS) if one.name not in HIDDEN}
