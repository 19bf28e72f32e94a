"""The hosts that `recollect install` knows: which files they read, and what of ours stands in them.

Looked up in November 2026 in the documentation of each: Claude Code (~/.claude.json, .mcp.json, .claude/settings.json),
Codex (config.toml and hooks.json in ~/.codex), Gemini CLI (~/.gemini/settings.json), Cursor (mcp.json and hooks.json in
~/.cursor), VS Code (mcp.json of the workspace or the user profile).
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

NAME = "recollect"
Scope = Literal["user", "project"]
Event = Literal["session-start", "prompt", "stop"]


@dataclass(frozen=True)
class Entry:
    """One place of ours in a file: a member of an object, or an element of a list (`[]`)."""

    file: Path
    path: tuple[str, ...]
    value: dict[str, Any]

    @property
    def is_toml(self) -> bool:
        return self.file.suffix == ".toml"


@dataclass(frozen=True)
class Programs:
    """How a host starts us: the words of the command, and the options that go with it."""

    command: tuple[str, ...]
    options: tuple[str, ...] = ()

    def server(self) -> dict[str, Any]:
        arguments = [*self.command[1:], "mcp", "--project", ".", *self.options]
        return {"command": self.command[0], "args": arguments}

    def hook(self, event: Event, host: str) -> str:
        words = [*self.command, "hook", event, "--host", host, *self.options]
        return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


@dataclass(frozen=True)
class Host:
    name: str
    title: str
    entries: Callable[[Path, Path | None, Programs, bool], list[Entry]]
    """From the home folder, the project's folder or None for the user's own settings, our programs, and whether with
    hooks."""
    also: str = ""
    """What is to be known after installing."""


def is_ours(value: Any) -> bool:
    """An entry of the MCP server, or a hook, that starts this program."""
    if not isinstance(value, Mapping):
        return False
    if "hooks" in value and isinstance(value["hooks"], Sequence):
        return any(is_ours(one) for one in value["hooks"])
    command = value.get("command")
    words = [str(command), *(str(one) for one in value.get("args") or ())]
    told = " ".join(words)
    is_server = "args" in value and "mcp" in words
    return "recollect" in told and (is_server or " hook " in f" {told} ")


def _json_server(file: Path, key: str, programs: Programs, **more: str) -> Entry:
    return Entry(file, (key, NAME), {**more, **programs.server()})


def _nested_hooks(file: Path, host: str, programs: Programs, events: Mapping[Event, str], unit: int) -> list[Entry]:
    """As Claude Code has them, and those that took over its form; the time limit in seconds or thousandths."""
    return [
        Entry(
            file,
            ("hooks", theirs, "[]"),
            {"hooks": [{"type": "command", "command": programs.hook(event, host), "timeout": LIMITS[event] * unit}]},
        )
        for event, theirs in events.items()
    ]


LIMITS: dict[Event, int] = {"session-start": 15, "prompt": 10, "stop": 30}
"""Seconds that a host waits for a hook; a hook gives up earlier by itself."""
_AS_CLAUDE: dict[Event, str] = {"session-start": "SessionStart", "prompt": "UserPromptSubmit", "stop": "Stop"}
_AS_GEMINI: dict[Event, str] = {"session-start": "SessionStart", "prompt": "BeforeAgent", "stop": "AfterAgent"}


def _claude_code(home: Path, project: Path | None, programs: Programs, hooks: bool) -> list[Entry]:
    server = home / ".claude.json" if project is None else project / ".mcp.json"
    made = [_json_server(server, "mcpServers", programs, type="stdio")]
    settings = (home if project is None else project) / ".claude" / "settings.json"
    return made + (_nested_hooks(settings, "claude-code", programs, _AS_CLAUDE, 1) if hooks else [])


def _codex(home: Path, project: Path | None, programs: Programs, hooks: bool) -> list[Entry]:
    folder = Path(os.environ.get("CODEX_HOME") or home / ".codex") if project is None else project / ".codex"
    made = [Entry(folder / "config.toml", ("mcp_servers", NAME), programs.server())]
    return made + (_nested_hooks(folder / "hooks.json", "codex", programs, _AS_CLAUDE, 1) if hooks else [])


def _gemini(home: Path, project: Path | None, programs: Programs, hooks: bool) -> list[Entry]:
    settings = (home if project is None else project) / ".gemini" / "settings.json"
    made = [_json_server(settings, "mcpServers", programs)]
    return made + (_nested_hooks(settings, "gemini", programs, _AS_GEMINI, 1000) if hooks else [])


def _cursor(home: Path, project: Path | None, programs: Programs, hooks: bool) -> list[Entry]:
    """Its hook before a prompt cannot add to it, so there is none."""
    folder = (home if project is None else project) / ".cursor"
    made = [_json_server(folder / "mcp.json", "mcpServers", programs)]
    events: dict[Event, str] = {"session-start": "sessionStart", "stop": "stop"} if hooks else {}
    return made + [
        Entry(folder / "hooks.json", ("hooks", theirs, "[]"), {"command": programs.hook(event, "cursor")})
        for event, theirs in events.items()
    ]


def _vscode(home: Path, project: Path | None, programs: Programs, hooks: bool) -> list[Entry]:
    file = project / ".vscode" / "mcp.json" if project is not None else vscode_folder(home) / "mcp.json"
    return [_json_server(file, "servers", programs, type="stdio")]


def vscode_folder(home: Path) -> Path:
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "Code" / "User"
    if os.name == "nt":
        return Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming") / "Code" / "User"
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "Code" / "User"


HOSTS = {
    host.name: host
    for host in (
        Host("claude-code", "Claude Code", _claude_code, "restart Claude Code; /mcp and /hooks show them"),
        Host("codex", "Codex", _codex, "Codex asks whether to trust new hooks: /hooks shows them"),
        Host("gemini", "Gemini CLI", _gemini, "restart Gemini CLI; /mcp and /hooks show them"),
        Host("cursor", "Cursor", _cursor, "restart Cursor; Settings > MCP and Hooks show them"),
        Host("vscode", "VS Code", _vscode, "VS Code asks whether to trust the server; it has no hooks of ours"),
    )
}
