"""`recollect install HOST`: its settings name this memory, and nothing else in them changes.

What would change is shown as a diff first. A file is written whole or not at all, keeps its mode, and is not written if
somebody changed it meanwhile; a file that cannot be read as what it should be is left alone. `recollect uninstall`
takes back what stands there of ours.
"""

from __future__ import annotations

import difflib
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from recollect.errors import InvalidInput
from recollect.interfaces.hosts import json_text, toml_text
from recollect.interfaces.hosts.hosts import HOSTS, NAME, Entry, Host, Programs, is_ours
from recollect.services.memories.indexing import Progress
from recollect.services.requests import Reply, Request

HostName = Literal["claude-code", "codex", "gemini", "cursor", "vscode"]
CURSOR_VERSION = 1


class UninstallRequest(Request):
    """Take back what was installed."""

    host: HostName = Field(description="claude-code, codex, gemini, cursor or vscode")
    project: bool = Field(False, description="In the project of this folder, not in your own settings")
    yes: bool = Field(False, description="Do not ask")
    dry_run: bool = Field(False, description="Only show what would change")


class InstallRequest(UninstallRequest):
    """Which host to install to; none: list them."""

    host: HostName | None = Field(None, description="claude-code, codex, gemini, cursor or vscode; none: list them")  # type: ignore[assignment]
    no_hooks: bool = Field(False, description="Only the MCP server, no hooks")
    store: str | None = Field(None, description="The store to use; by default one for all your projects")
    undo: bool = Field(False, description="Take it back, as uninstall does")


class HostState(Reply):
    """What a host has of ours."""

    host: str
    title: str
    yours: str = Field(description="In your own settings: installed, in part, not installed, or unreadable")
    project: str = Field(description="In the project of this folder")


class InstallReply(Reply):
    """The hosts, or the files that were changed."""

    hosts: list[HostState] = Field(default_factory=list)
    changed: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


@dataclass(frozen=True)
class Change:
    """A file, as it is and as it would be; None: it is not there, or would go."""

    file: Path
    before: str | None
    after: str | None

    def diff(self) -> str:
        old, new = ((text or "").splitlines(keepends=True) for text in (self.before, self.after))
        name = str(self.file)
        lines = difflib.unified_diff(old, new, name if self.before is not None else "(new file)", name, n=2)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def install(request: InstallRequest, progress: Progress | None = None) -> InstallReply:
    """Write the entries of a host, after showing what changes; without a host, list what is installed where."""
    if request.host is None:
        return InstallReply(hosts=[_state(host) for host in HOSTS.values()])
    if request.undo:
        return uninstall(UninstallRequest(**request.model_dump(include=set(UninstallRequest.model_fields))))
    host = HOSTS[request.host]
    options = ("--store", _absolute(request.store)) if request.store else ()
    programs = Programs(("recollect",) if request.project else own_command(), options)
    entries = host.entries(Path.home(), _project(request.project), programs, not request.no_hooks)
    reply = _carried_out(_changes(entries, []), request)
    return reply.model_copy(update={"notes": [host.also]}) if reply.changed else reply


def uninstall(request: UninstallRequest, progress: Progress | None = None) -> InstallReply:
    """Take back what was installed to a host, and nothing else."""
    entries = HOSTS[request.host].entries(Path.home(), _project(request.project), Programs(own_command()), True)
    return _carried_out(_changes([], entries), request)


def own_command() -> tuple[str, ...]:
    """This very program by its whole path: a host may start it with another PATH."""
    started = Path(sys.argv[0])
    if started.stem == "recollect" and started.suffix in ("", ".exe") and started.is_file():
        return (str(started.resolve().parent / started.name) if not started.is_absolute() else str(started),)
    found = shutil.which("recollect", path=str(Path(sys.executable).parent))
    return (found,) if found else (sys.executable, "-m", "recollect")


def _absolute(store: str) -> str:
    return store if "://" in store else str(Path(store).expanduser().absolute())


def _project(wanted: bool) -> Path | None:
    if not wanted:
        return None
    from recollect.app.repositories import checkout_of

    return checkout_of(Path.cwd()).root


def _state(host: Host) -> HostState:
    states = []
    for project in (None, _project(True)):
        entries = host.entries(Path.home(), project, Programs(own_command()), True)
        try:
            there = [_has(entry) for entry in entries]
        except InvalidInput:
            states.append("unreadable")
            continue
        states.append("installed" if all(there) else "in part" if any(there) else "not installed")
    return HostState(host=host.name, title=host.title, yours=states[0], project=states[1])


def _has(entry: Entry) -> bool:
    text = _text_of(entry.file)
    return text is not None and _taken(text, entry) != text


def _changes(wanted: list[Entry], unwanted: list[Entry]) -> list[Change]:
    """Entry by entry; a file that is read with the new text and differs in anything else is a fault of ours."""
    files: dict[Path, str | None] = {}
    for entry in [*wanted, *unwanted]:
        files.setdefault(entry.file, _text_of(entry.file))
    after = dict(files)
    for entry in wanted:
        after[entry.file] = _put(after[entry.file] or "", entry)
    for entry in unwanted:
        text = after[entry.file]
        if text is not None:
            left = _taken(text, entry)
            after[entry.file] = None if left != text and _is_empty(left, entry) else left
    return [Change(file, text, after[file]) for file, text in files.items() if after[file] != text]


def _put(text: str, entry: Entry) -> str:
    found = _at(_parsed(text, entry.file), entry)
    if found == entry.value:
        return text
    if found is not None and not is_ours(found):
        raise InvalidInput(
            f"'{entry.file}' has another server called {NAME}", remedy="rename or remove it there, then install again"
        )
    if entry.is_toml:
        return _nothing_else(text, toml_text.with_table(text, entry.path, entry.value), entry)
    if entry.file.name == "hooks.json" and ".cursor" in entry.file.parts and "version" not in _parsed(text, entry.file):
        text = json_text.with_item(text, ("version",), CURSOR_VERSION, lambda value: False)
    return json_text.with_item(text, entry.path, entry.value, is_ours)


def _at(parsed: Any, entry: Entry) -> Any:
    """What stands at the place of an entry; in a list, what is ours."""
    for key in entry.path:
        if key == "[]":
            ours = [one for one in parsed if is_ours(one)] if isinstance(parsed, list) else []
            return entry.value if ours == [entry.value] else None
        if not isinstance(parsed, dict):
            raise InvalidInput(
                f"'{entry.file}' is not laid out as expected at {key}", remedy="repair it, then try again"
            )
        if key not in parsed:
            return None
        parsed = parsed[key]
    return parsed


def _taken(text: str, entry: Entry) -> str:
    parsed = _parsed(text, entry.file)
    if entry.is_toml:
        ours = is_ours(_at(parsed, entry))
        return _nothing_else(text, toml_text.without_table(text, entry.path), entry) if ours else text
    return json_text.without_item(text, entry.path, is_ours)


def _nothing_else(before: str, after: str, entry: Entry) -> str:
    """The new text, if it says the same of everything that is not ours: tables can be written in many ways."""
    rest = []
    for text in (before, after):
        tables = dict(_parsed(text, entry.file))
        servers = {name: one for name, one in tables.pop(entry.path[0], {}).items() if name != entry.path[1]}
        rest.append((tables, servers))
    if rest[0] != rest[1]:
        raise InvalidInput(
            f"cannot change '{entry.file}' without touching the rest", remedy=f"edit [{'.'.join(entry.path)}] by hand"
        )
    return after


def _is_empty(text: str, entry: Entry) -> bool:
    if entry.is_toml:
        return not text.strip()
    return "//" not in text and "/*" not in text and json_text.read(text).value in ({}, {"version": CURSOR_VERSION})


def _parsed(text: str, file: Path) -> Any:
    try:
        found = toml_text.read(text) if file.suffix == ".toml" else json_text.read(text).value
    except ValueError as error:
        raise InvalidInput(
            f"'{file}' cannot be read ({error}); nothing was changed", remedy="repair the file, then try again"
        ) from None
    if not isinstance(found, dict):
        raise InvalidInput(f"'{file}' is not an object; nothing was changed", remedy="repair the file, then try again")
    return found


def _text_of(file: Path) -> str | None:
    try:
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput(
            f"cannot read '{file}': {why}; nothing was changed", remedy="repair the file first"
        ) from None


def _carried_out(changes: list[Change], request: UninstallRequest) -> InstallReply:
    if not changes:
        return InstallReply(notes=["nothing to change"])
    for change in changes:
        print(change.diff(), end="", file=sys.stderr)
    if request.dry_run:
        return InstallReply(notes=["nothing was changed: a dry run"])
    if not request.yes:
        _ask()
    for change in changes:
        if _text_of(change.file) != change.before:
            raise InvalidInput(f"'{change.file}' was changed meanwhile", remedy="run the command again")
    from recollect.app.rewritten_files import rewrite

    for change in changes:
        rewrite(change.file, None if change.after is None else change.after.encode())
    return InstallReply(changed=[str(change.file) for change in changes])


def _ask() -> None:
    if not sys.stdin.isatty():
        raise InvalidInput("this needs a confirmation", remedy="look at the diff, then repeat it with --yes")
    print("Write this? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise KeyboardInterrupt
