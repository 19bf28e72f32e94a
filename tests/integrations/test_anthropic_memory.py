"""Anthropic's memory tool on Recollect: as the package's own tool, with the package's own runner, and nowhere else."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.lib.tools import ToolError
from anthropic.tools import BetaLocalFilesystemMemoryTool
from hypothesis import given, settings
from hypothesis import strategies as st

import recollect
from recollect.integrations.anthropic_memory import TRIES, AsyncRecollectMemoryTool, RecollectMemoryTool


def say(tool: Any, command: str, **fields: Any) -> str:
    try:
        return str(tool.call({"command": command, **fields}))
    except ToolError as error:
        return f"error: {error}"


@pytest.fixture
def tool(mem: Any) -> RecollectMemoryTool:
    return RecollectMemoryTool(mem, agent="helper")


def test_every_command_does_its_work(tool: RecollectMemoryTool) -> None:
    assert say(tool, "create", path="/memories/notes/a.md", file_text="one\ntwo\n") == (
        "File created successfully at: /memories/notes/a.md"
    )
    assert say(tool, "insert", path="/memories/notes/a.md", insert_line=1, insert_text="between\n") == (
        "The file /memories/notes/a.md has been edited."
    )
    assert "     2\tsecond" in say(
        tool, "str_replace", path="/memories/notes/a.md", old_str="between", new_str="second"
    )
    assert say(tool, "view", path="/memories/notes/a.md", view_range=[2, 3]) == (
        "Here's the content of /memories/notes/a.md with line numbers:\n     2\tsecond\n     3\ttwo"
    )
    assert say(tool, "rename", old_path="/memories/notes", new_path="/memories/kept") == (
        "Successfully renamed /memories/notes to /memories/kept"
    )
    assert say(tool, "view", path="/memories").splitlines()[1:] == [
        "15B\t/memories",
        "15B\t/memories/kept/",
        "15B\t/memories/kept/a.md",
    ]
    assert say(tool, "delete", path="/memories/kept") == "Successfully deleted /memories/kept"
    assert say(tool, "view", path="/memories").endswith("0B\t/memories")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "memories/a",
        "/memoriesfoo",
        "/memories/../etc/passwd",
        "/memories/a/../../b",
        "/memories/..",
        "/memories/a\x00b",
        "/memories/a\\..\\b",
        "/memories/" + "x" * 300,
        "/memories/‥/x",
        "/memories/nul",
        "",
    ],
)
def test_no_path_leaves_the_memory(tool: RecollectMemoryTool, mem: Any, path: str) -> None:
    for command, fields in (
        ("view", {"path": path}),
        ("create", {"path": path, "file_text": "x"}),
        ("str_replace", {"path": path, "old_str": "x", "new_str": "y"}),
        ("insert", {"path": path, "insert_line": 0, "insert_text": "x"}),
        ("delete", {"path": path}),
        ("rename", {"old_path": path, "new_path": "/memories/new"}),
        ("rename", {"old_path": "/memories/there", "new_path": path}),
    ):
        assert say(tool, command, **fields).startswith("error: "), command
    assert say(tool, "view", path="/memories").endswith("0B\t/memories")


names = st.sampled_from(["a", "b.md", "dir", "dir/a", "dir/sub/c.txt", "dir/sub/deep/d", ".hidden", "a/x", "../up"])
paths = names.map(lambda name: f"/memories/{name}") | st.just("/memories") | st.just("/other")
texts = st.sampled_from(
    ["", "one", "one\n", "one\ntwo\nthree\nfour\nfive\nsix\n", "two two\n", "é\r\nü", "\n\n", "x" * 1500]
)
commands = st.one_of(
    st.fixed_dictionaries({"command": st.just("create"), "path": paths, "file_text": texts}),
    st.fixed_dictionaries({"command": st.just("create"), "path": paths, "file_text": texts}),
    st.fixed_dictionaries(
        {"command": st.just("view"), "path": paths},
        optional={"view_range": st.sampled_from([[1, 2], [2, -1], [0, 1], [3, 100]])},
    ),
    st.fixed_dictionaries(
        {"command": st.just("str_replace"), "path": paths, "old_str": st.sampled_from(["two", "one\n", "é", "z"]),
         "new_str": texts}
    ),
    st.fixed_dictionaries(
        {"command": st.just("insert"), "path": paths, "insert_line": st.integers(-1, 4), "insert_text": texts}
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": paths}),
    st.fixed_dictionaries({"command": st.just("rename"), "old_path": paths, "new_path": paths}),
)  # fmt: skip


def comparable(answer: str) -> str:
    """Folders: theirs are as large as the file system says, and stay when empty; ours are what is in them."""
    if not answer.startswith("Here're the files"):
        return answer
    files = [line for line in answer.splitlines()[2:] if not line.endswith("/")]
    return "\n".join(files)


@settings(max_examples=60, deadline=None)
@given(st.lists(commands, max_size=12))
def test_any_conversation_is_as_with_the_packages_own_tool(commands: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder, recollect.open("memory://", embedder="none") as mem:
        ours, theirs = RecollectMemoryTool(mem), BetaLocalFilesystemMemoryTool(folder)
        root = Path(folder) / "memories"
        for command in commands:
            if crosses_kinds(command, root):
                continue  # theirs fails with an error of the operating system
            expected, answer = say(theirs, **command), say(ours, **command)
            for empty in sorted((one for one in root.rglob("*") if one.is_dir()), reverse=True):
                if not any(empty.iterdir()):
                    empty.rmdir()
            assert comparable(answer) == comparable(expected), command
        assert mem.verify().sound


def crosses_kinds(command: dict[str, Any], root: Path) -> bool:
    """Whether a path goes through a file as if it were a folder, names a folder to create, or moves into itself."""
    named = [str(command.get(name, "")) for name in ("path", "old_path", "new_path")]
    inside = [root / name.removeprefix("/memories").lstrip("/") for name in named if name.startswith("/memories")]
    through_file = any(parent.is_file() for path in inside for parent in path.parents)
    onto_folder = command["command"] == "create" and any(path.is_dir() for path in inside)
    moves = command["command"] == "rename"
    odd = moves and (inside[:1] == inside[1:] or any(inside[0] in path.parents for path in inside[1:]))
    missing = moves and len(inside) == 2 and not inside[0].exists()
    return through_file or onto_folder or odd or missing


def test_a_file_is_not_a_folder(tool: RecollectMemoryTool) -> None:
    say(tool, "create", path="/memories/a", file_text="x")
    assert "is in the way" in say(tool, "create", path="/memories/a/b", file_text="x")
    say(tool, "create", path="/memories/d/e", file_text="x")
    assert say(tool, "create", path="/memories/d", file_text="x") == "error: File /memories/d already exists"
    assert say(tool, "insert", path="/memories/d", insert_line=0, insert_text="x") == (
        "error: The path /memories/d is not a file."
    )
    assert say(tool, "rename", old_path="/memories/none", new_path="/memories/x") == (
        "error: The path /memories/none does not exist"
    )


def test_what_claude_keeps_can_be_snapshotted_and_restored(tool: RecollectMemoryTool, mem: Any) -> None:
    say(tool, "create", path="/memories/a.md", file_text="good\n")
    kept = mem.workspace.snapshot(tool.workspace, "before").id
    say(tool, "str_replace", path="/memories/a.md", old_str="good", new_str="poisoned")
    mem.workspace.restore(tool.workspace, kept)
    assert "good" in say(tool, "view", path="/memories/a.md")


def test_concurrent_edits_are_all_kept(tool: RecollectMemoryTool, mem: Any) -> None:
    say(tool, "create", path="/memories/log", file_text="")
    tools = [RecollectMemoryTool(mem, agent="helper") for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        jobs = [
            pool.submit(say, tools[n % 4], "insert", path="/memories/log", insert_line=0, insert_text=f"line {n}")
            for n in range(20)
        ]
    assert {job.result() for job in jobs} == {"The file /memories/log has been edited."}
    assert sum("line" in line for line in say(tool, "view", path="/memories/log").splitlines()[1:]) == 20


def test_a_file_that_others_keep_changing_is_not_waited_for_for_ever(
    tool: RecollectMemoryTool, mem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(tool, "create", path="/memories/log", file_text="old")
    room, pauses, writes = tool._files._workspaces, list[float](), list[int]()
    write = room.write

    def meddle(*given: Any, **fields: Any) -> Any:
        writes.append(1)
        write(tool.workspace, "log", text=f"old {len(writes)}")
        return write(*given, **fields)

    monkeypatch.setattr(room, "write", meddle)
    monkeypatch.setattr("recollect.retry.time.sleep", pauses.append)
    said = say(tool, "str_replace", path="/memories/log", old_str="old", new_str="new")
    assert "nothing was changed" in said
    assert len(pauses) + 1 == len(writes) == TRIES
    assert "new" not in say(tool, "view", path="/memories/log")


def test_agents_and_tenants_have_their_own(mem: Any) -> None:
    one, two = RecollectMemoryTool(mem, agent="one"), RecollectMemoryTool(mem, agent="two")
    stranger = RecollectMemoryTool(mem.within("other"), agent="one")
    say(one, "create", path="/memories/a", file_text="secret")
    assert say(two, "view", path="/memories/a") == say(stranger, "view", path="/memories/a")
    assert "does not exist" in say(two, "view", path="/memories/a")
    assert stranger.clear_all_memory() == "All memory cleared"
    assert "secret" in say(one, "view", path="/memories/a")
    assert one.clear_all_memory() == "All memory cleared"
    assert "does not exist" in say(one, "view", path="/memories/a")


def answers(*contents: Any) -> Any:
    """A transport that answers as the service would, one content after the other, and keeps what it was asked."""
    waiting: Iterator[Any] = iter(contents)
    asked: list[Any] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        content = next(waiting)
        reason = "tool_use" if content[-1]["type"] == "tool_use" else "end_turn"
        usage = {"input_tokens": 1, "output_tokens": 1}
        fixed = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "stop_sequence": None}
        return httpx.Response(200, json={**fixed, "content": content, "stop_reason": reason, "usage": usage})

    return httpx.MockTransport(handle), asked


def use(number: int, **given: Any) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": f"t{number}", "name": "memory", "input": given}]


SCRIPT = (
    use(1, command="create", path="/memories/alice.md", file_text="Alice likes pytest\n"),
    use(2, command="view", path="/memories/../secret"),
    use(3, command="view", path="/memories/alice.md"),
    [{"type": "text", "text": "Noted."}],
)


def results(asked: list[Any]) -> list[tuple[Any, str]]:
    """Whether each command failed, and what the tool answered, as the service was told."""
    blocks = [block for one in asked[1:] for block in one["messages"][-1]["content"]]
    return [(block.get("is_error", False), str(block["content"])) for block in blocks]


def check(asked: list[Any]) -> None:
    assert asked[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    created, escaped, viewed = results(asked)
    assert "File created successfully" in created[1]
    assert escaped[0] is True
    assert "escape" in escaped[1]
    assert "Alice likes pytest" in viewed[1]


def test_the_packages_own_runner_drives_it(mem: Any) -> None:
    transport, asked = answers(*SCRIPT)
    with httpx.Client(transport=transport) as line:
        client = Anthropic(api_key="none", http_client=line)
        runner = client.beta.messages.tool_runner(
            model="a-model",
            max_tokens=100,
            messages=[{"role": "user", "content": "Remember Alice"}],
            tools=[RecollectMemoryTool(mem)],
        )
        assert runner.until_done().content[0].text == "Noted."
    check(asked)


def test_the_asynchronous_runner_drives_it(mem: Any) -> None:
    transport, asked = answers(*SCRIPT)

    async def run() -> None:
        async with httpx.AsyncClient(transport=transport) as line:
            client = AsyncAnthropic(api_key="none", http_client=line)
            runner = client.beta.messages.tool_runner(
                model="a-model",
                max_tokens=100,
                messages=[{"role": "user", "content": "Remember Alice"}],
                tools=[AsyncRecollectMemoryTool(mem)],
            )
            await runner.until_done()

    asyncio.run(run())
    check(asked)
