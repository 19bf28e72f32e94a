"""The commands: one per operation of the catalogue, and those that do not work on one open store."""

from __future__ import annotations

from recollect.catalogue import GROUPS as OPERATION_GROUPS
from recollect.catalogue import OPERATIONS, Operation

HEADINGS = {
    "Memories": "remember recall context show list why-not history",
    "Changing memories": "revise cite uncite tag relate unrelate relations kind embedding",
    "Trust": "review citation check confirm promote demote archive merge unmerge roll-back",
    "Forgetting": "forget restore erase sweep prune privacy",
    "Many at once": "forget-many erase-many archive-many promote-many demote-many",
    "Keeping": "retention hold cold",
    "Data": "source ask query connection",
    "Owners": "user agent session project organization",
    "Agent data": "block tool state workspace message",
    "Agent runs": "run cycle",
    "Learning": "episode pattern summary",
    "Frameworks": "checkpoint item",
    "Service": "serve mcp key audit encryption",
    "Coding agents": "install uninstall hook ci",
    "Store": "stats activity sql log verify doctor reindex leak-test bench config completion",
    "Export, backup, copy": "export import backup restore-backup copy partitions migrate",
}
# The commands that create a store where there is none. The others fail: most likely it is the wrong folder.
BEGINNING = frozenset(
    "remember user.add agent.add session.add project.add message.add episode.record block.add tool.add item.put key.add"
    " source.add connection.add import_ migrate".split()
)
REPEATED = {"source.add": ("path", "source.show")}
"""Commands that take several of an argument: the operation is carried out once for each, and what came of all of them
is shown at the end by another."""
RENAMED = {("import_", "source"): "from"}
"""Options that are not called as their field, where that is a word Python keeps for itself."""
RESULTS = frozenset({"ask", "query.run"})
"""Commands whose result can also be saved to a file and drawn as a chart, by `query.export` and `query.chart`."""
ALSO = {
    "restore": "To make a store of a backup: recollect restore PLACE --to STORE (see recollect backup restore --help)"
}
"""What the help of a command says besides, where the same word does something else, too."""
PASSWORDS = ("password", "new_password")
"""Fields that are asked for without echo, or read from standard input: see passwords.py."""
IDS = frozenset({"id", "to", "others", "of", "run", "agent", "user", "session"})
"""Arguments with a place that may be the beginning of an id: see short_ids.py."""
HIDDEN = frozenset({"remember_many", "message.add_many", "checkpoint.put", "checkpoint.write", "item.put_many"})


class Program(Operation):
    """A command that is not an operation of one open store: its function opens what it needs."""

    package = "recollect.interfaces"


_BETWEEN = ("source", "target")
PROGRAMS = (
    Program("copy", "cli.store_commands:copy", "admin", "", _BETWEEN, "Copy a store into another, of any kind.", True),
    Program(
        "backup.restore", "cli.store_commands:restore", "admin", "", ("source",), "Create a store from a backup.", True
    ),
    Program(
        "restore_backup", "cli.store_commands:restore_backup", "admin", "", _BETWEEN, "The same as `backup restore`."
    ),
    Program("encryption.new_key", "cli.store_commands:new_key", "admin", "", (), "Make a key to encrypt a store with."),
    Program(
        "encryption.set",
        "cli.store_commands:set_key",
        "admin",
        "",
        ("settings",),
        "Encrypt a store, or change its key.",
        True,
    ),
    Program(
        "encryption.check",
        "cli.store_commands:check_key",
        "admin",
        "",
        ("settings",),
        "Check whether a store is encrypted, and with which key.",
    ),
    Program("encryption.remove", "cli.store_commands:remove_key", "admin", "", ("settings",), "Decrypt a store.", True),
    Program(
        "leak_test",
        "measurements:run_leak_test",
        "admin",
        "",
        ("settings",),
        "Try every operation with the ids of others, on a copy of the store.",
        True,
    ),
    Program(
        "bench.recall",
        "measurements:bench_recall",
        "admin",
        "",
        ("file", "settings"),
        "Measure how well recall answers your own questions.",
        True,
    ),
    Program(
        "bench.speed",
        "measurements:bench_speed",
        "admin",
        "",
        ("settings",),
        "Measure how long remember and recall take, on a copy of the store.",
        True,
    ),
    Program(
        "completion",
        "cli.completion:completion",
        "read",
        "",
        ("shell",),
        "Print the completion script of a shell: bash, zsh or fish.",
    ),
    Program("serve", "serve:serve", "operate", "", ("settings",), "Start the service: HTTP API, console and MCP."),
    Program("mcp", "mcp.stdio:serve", "operate", "", (), "Start an MCP server on standard input and output."),
    Program("install", "hosts.install:install", "admin", "", ("host",), "Use this memory in a coding agent."),
    Program("uninstall", "hosts.install:uninstall", "admin", "", ("host",), "Take back what install wrote."),
    Program("ci", "hosts.ci:ci", "read", "", (), "Check the facts that cite what a pull request changes."),
    Program("hook", "hosts.hook:hook", "read", "", ("event",), "Answer an event of a coding agent, read from stdin."),
    Program(
        "config.check",
        "cli.store_commands:config_check",
        "admin",
        "",
        ("settings",),
        "Check the settings: try all they name.",
    ),
    Program(
        "config.show",
        "cli.store_commands:config_show",
        "admin",
        "",
        ("settings",),
        "Show which settings hold here, and where each is from.",
    ),
)
GROUPS = {
    **OPERATION_GROUPS,
    "config": "Settings: show and check them.",
    "bench": "Measurements on your own store: how well recall finds, and how fast.",
}
COMMANDS = {one.command: one for one in (*OPERATIONS.values(), *PROGRAMS) if one.name not in HIDDEN}
