"""Anthropic's memory tool on Recollect: the files that Claude keeps under /memories, in a workspace of an agent.

    tool = RecollectMemoryTool(mem, agent="helper")
    client.beta.messages.run_tools(model=…, messages=…, tools=[tool])

No file of the machine is touched. Since the files lie in a workspace, they can be read, snapshotted, compared and
restored with `mem.workspace`. Answers and errors read as the tool's contract and the package's own tool have them.
"""

from __future__ import annotations

import asyncio
import base64
import posixpath
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from recollect.errors import Conflict, DuplicateKey, InvalidInput, MissingExtra, NotFound, VersionConflict
from recollect.retry import retry

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )
except ImportError:
    raise MissingExtra("the Anthropic SDK is not installed", remedy="pip install 'recollect[anthropic]'") from None

if TYPE_CHECKING:
    from recollect.interfaces.client import Recollect, Workspace

ROOT = "/memories"
LEVELS_SHOWN = 2
MOST_LINES = 999_999
WIDTH = len(str(MOST_LINES))
TRIES = 100
AROUND = 2  # lines shown before and after a change
EDITED = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"


class MemoryFiles:
    """The commands of the tool, on the files of one workspace."""

    def __init__(self, mem: Recollect, agent: str, workspace: str | None = None) -> None:
        self._mem = mem
        self._workspaces = mem.workspace
        self._agent = agent
        self.workspace = workspace or f"memories-of-{agent}"
        self._is_made = False

    # -- commands ----------------------------------------------------------------------------------------------------

    def view(self, path: str, lines: list[int] | None) -> str:
        inner = self._inner(path)
        files = self._below(inner)
        if not inner or files:
            return _listing(path, inner, files)
        shown = self._read(inner, path)[0].split("\n")
        if len(shown) > MOST_LINES:
            raise ToolError(f"File {path} exceeds maximum line limit of 999,999 lines.")
        first = 1
        if lines and len(lines) == 2:
            first = max(1, lines[0])
            shown = shown[first - 1 : len(shown) if lines[1] == -1 else lines[1]]
        return f"Here's the content of {path} with line numbers:\n" + _numbered(shown, first)

    def create(self, path: str, text: str) -> str:
        inner = self._inner(path)
        if not inner or self._below(inner):
            raise ToolError(f"File {path} already exists")
        try:
            self._write(inner, text, 0)
        except VersionConflict:
            raise ToolError(f"File {path} already exists") from None
        return f"File created successfully at: {path}"

    def str_replace(self, path: str, old: str, new: str) -> str:
        inner = self._file(path)

        def attempt() -> str:
            text, version = self._read(inner, path)
            self._refuse_unclear(path, text, old)
            changed = text.replace(old, new, 1)
            self._write(inner, changed, version)
            at = text[: text.find(old)].count("\n")
            lines, first = changed.split("\n"), max(0, at - AROUND)
            snippet = _numbered(lines[first : at + AROUND + 1], first + 1)
            return f"{EDITED}\n{snippet}"

        return _unless_changed(attempt)

    def insert(self, path: str, line: int, text: str) -> str:
        inner = self._file(path)

        def attempt() -> str:
            before, version = self._read(inner, path)
            lines = before.split("\n")
            if not lines[-1]:
                lines.pop()
            if not 0 <= line <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}]."
                )
            lines.insert(line, text.rstrip("\n"))
            after = "\n".join(lines)
            self._write(inner, after if after.endswith("\n") else after + "\n", version)
            return f"The file {path} has been edited."

        return _unless_changed(attempt)

    def delete(self, path: str) -> str:
        inner = self._inner(path)
        if not inner:
            raise ToolError("Cannot delete the /memories directory itself")
        try:
            self._made().remove(self.workspace, inner, folder=bool(self._below(inner)))
        except NotFound:
            raise ToolError(f"The path {path} does not exist") from None
        return f"Successfully deleted {path}"

    def rename(self, path: str, to: str) -> str:
        inner, target = self._inner(path), self._inner(to)
        if not inner:
            raise ToolError("Cannot rename the /memories directory itself")
        if not target or self._exists(target):
            raise ToolError(f"The destination {to} already exists")
        try:
            self._made().move(self.workspace, inner, target, folder=bool(self._below(inner)))
        except NotFound:
            raise ToolError(f"The path {path} does not exist") from None
        except Conflict as conflict:
            raise ToolError(f"Cannot rename {path} to {to}: {conflict.message}") from None
        return f"Successfully renamed {path} to {to}"

    def clear(self) -> str:
        for name in sorted({path.partition("/")[0] for path, _ in self._below("")}):
            self._made().remove(self.workspace, name, folder=bool(self._below(name)))
        return "All memory cleared"

    # -- files -------------------------------------------------------------------------------------------------------

    def _made(self) -> Workspace:
        """The operations on workspaces, once ours is there."""
        if not self._is_made:
            try:
                self._workspaces.show(self.workspace)
            except NotFound:
                self._make()
            self._is_made = True
        return self._workspaces

    def _make(self) -> None:
        self._mem.agent.add(self._agent, id=self._agent, on_existing="return")
        try:
            self._workspaces.add(self._agent, "memories", id=self.workspace)
        except DuplicateKey:
            return  # another process made it a moment ago

    def _inner(self, path: str) -> str:
        """The path inside the workspace, "" for /memories itself; nothing outside can be named."""
        if path != ROOT and not path.startswith(ROOT + "/"):
            raise ToolError(f"Path must start with /memories, got: {path}")
        inner = posixpath.normpath("./" + path.removeprefix(ROOT).lstrip("/"))
        if inner == ".." or inner.startswith("../"):
            raise ToolError(f"Path {path} would escape /memories directory")
        return "" if inner == "." else inner

    def _file(self, path: str) -> str:
        inner = self._inner(path)
        if not inner or self._below(inner):
            raise ToolError(f"The path {path} is not a file.")
        return inner

    def _below(self, folder: str) -> list[tuple[str, int]]:
        """Paths, from the folder on, and sizes of the files in it."""
        found: list[tuple[str, int]] = []
        after = None
        while True:
            with _spoken():
                page = self._made().files(self.workspace, folder=folder or None, after=after)
            found += [(file.path[len(folder) :].lstrip("/"), file.bytes) for file in page.files]
            after = page.next
            if after is None:
                return found

    def _exists(self, inner: str) -> bool:
        try:
            return bool(self._below(inner)) or bool(self._made().read(self.workspace, inner))
        except NotFound:
            return False

    def _read(self, inner: str, path: str) -> tuple[str, int]:
        try:
            file = self._made().read(self.workspace, inner)
        except NotFound:
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.") from None
        if file.text is None:
            raise ToolError(f"Unsupported file type for {path}")
        assert file.version is not None  # only a file of a snapshot has none
        return file.text, file.version

    def _write(self, inner: str, text: str, version: int) -> None:
        try:
            content = base64.b64encode(text.encode()).decode()  # a text may hold characters that no column takes
        except UnicodeEncodeError:
            raise ToolError("The text is not valid Unicode") from None
        try:
            with _spoken():
                self._made().write(self.workspace, inner, base64=content, version=version)
        except VersionConflict:
            raise
        except Conflict as conflict:
            raise ToolError(conflict.message) from None

    def _refuse_unclear(self, path: str, text: str, old: str) -> None:
        if old not in text:
            raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
        if text.count(old) > 1:
            lines, at = [], text.find(old)
            while at != -1:
                lines.append(str(text[:at].count("\n") + 1))
                at = text.find(old, at + 1)
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
                f"{', '.join(lines)}. Please ensure it is unique"
            )


@contextmanager
def _spoken() -> Iterator[None]:
    """What is wrong with a request is told to the model, which can mend it."""
    try:
        yield
    except InvalidInput as error:
        raise ToolError(str(error)) from None


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(f"{number:>{WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def _listing(path: str, inner: str, files: list[tuple[str, int]]) -> str:
    """A folder's own line, then what is in it, two levels deep; the size of a folder is that of its files."""
    sizes: dict[tuple[str, ...], int] = {}
    for name, size in files:
        parts = name.split("/")
        if any(part.startswith(".") for part in parts):
            continue
        for depth in range(1, min(len(parts), LEVELS_SHOWN) + 1):
            mark = "" if depth == len(parts) else "/"
            key = (*parts[: depth - 1], parts[depth - 1] + mark)
            sizes[key] = sizes.get(key, 0) + size
    lines = [f"{_size(sum(size for _, size in files))}\t{path}"]
    ordered = sorted(sizes, key=lambda key: tuple(part.rstrip("/") for part in key))
    lines += [f"{_size(sizes[key])}\t{path}/{'/'.join(key)}" for key in ordered]
    header = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    return "\n".join([header, *lines])


def _size(count: int) -> str:
    size, unit = float(count), "B"
    for larger in "KMG":
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{int(size)}{unit}" if size == int(size) else f"{size:.1f}{unit}"


class RecollectMemoryTool(BetaAbstractMemoryTool):
    """Claude's memory in a workspace of this agent; agent and workspace are made when they are first needed."""

    def __init__(
        self,
        mem: Recollect,
        *,
        agent: str = "claude",
        workspace: str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._files = MemoryFiles(mem, agent, workspace)

    @property
    def workspace(self) -> str:
        return self._files.workspace

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return self._files.view(command.path, command.view_range)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return self._files.create(command.path, command.file_text)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return self._files.str_replace(command.path, command.old_str, command.new_str)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return self._files.insert(command.path, command.insert_line, command.insert_text)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return self._files.delete(command.path)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return self._files.rename(command.old_path, command.new_path)

    def clear_all_memory(self) -> str:
        return self._files.clear()


class AsyncRecollectMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for the asynchronous client."""

    def __init__(
        self,
        mem: Recollect,
        *,
        agent: str = "claude",
        workspace: str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._tool = RecollectMemoryTool(mem, agent=agent, workspace=workspace)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return await asyncio.to_thread(self._tool.view, command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return await asyncio.to_thread(self._tool.create, command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return await asyncio.to_thread(self._tool.str_replace, command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return await asyncio.to_thread(self._tool.insert, command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return await asyncio.to_thread(self._tool.delete, command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return await asyncio.to_thread(self._tool.rename, command)

    async def clear_all_memory(self) -> str:
        return await asyncio.to_thread(self._tool.clear_all_memory)


def _unless_changed(attempt: Callable[[], str]) -> str:
    """Read, change and write; repeated if the file was written to in between."""
    try:
        return retry(attempt, VersionConflict, tries=TRIES - 1)
    except VersionConflict:
        raise ToolError("Others keep changing that file; nothing was changed. Try again later.") from None
