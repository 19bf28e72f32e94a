"""No path leaves its workspace, and no link leads a pull or a push out of its folder."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.adapters.local_folders import LocalFolders
from recollect.domain.workspaces import WorkspaceFile
from recollect.errors import InvalidInput
from recollect.ports.query import Query

ESCAPES = [
    "..", "../x", "a/../../x", "a/..", "/etc/passwd", "//server/x", "./x", "a/./b", "a//b", "a/", "", ".",
    "..\\x", "a\\..\\..\\x", "C:\\x", "C:x", "C:/x", "a:stream", "\\\\server\\share",
    "x\x00.txt", "a\nb", "a\tb", "\x7f", "a\u2028b",
    "\uff0e\uff0e/x", "\u2025/x", "a\uff0f..\uff0fx", "\uff3cx", "a/\u2024\u2024", "\uff0fetc",
    "con", "CON.txt", "a/nul", "Aux.tar.gz", "com1", "LPT9.log", "COM\u00b9", "prn .txt",
    "a.", "a ", "a./b", " /..", "a/... ",
    "x" * 256, "a/" * 600 + "b", "\ud800",
]  # fmt: skip
HARMLESS = ["a", "a/b.txt", ".hidden", "..a", "a..b/c", "...a", "%2e%2e/x", "%2e%2e%2fx", "~/x", "$HOME", "ä/漢字.md",
            "-rf", "a b/c d", "console.log", "x" * 255]  # fmt: skip


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Any]:
    with recollect.open(tmp_path / "m.db", embedder="hash") as mem:
        mem.agent.add("Ada", id="ada")
        mem.workspace.add("ada", id="w")
        mem.workspace.write("w", "inside", "fine")
        yield mem


@pytest.mark.parametrize("path", ESCAPES, ids=ascii)
def test_a_path_that_leaves_is_refused_by_every_operation(desk: Any, path: str) -> None:
    for call in (
        lambda: desk.workspace.write("w", path, "x"),
        lambda: desk.workspace.read("w", path),
        lambda: desk.workspace.move("w", "inside", path),
        lambda: desk.workspace.move("w", path, "elsewhere"),
        lambda: desk.workspace.remove("w", path),
        lambda: desk.workspace.remove("w", path, folder=True),
        lambda: desk.workspace.files("w", folder=path),
    ):
        with pytest.raises(InvalidInput):
            call()
    assert [file.path for file in desk.workspace.files("w").files] == ["inside"]


@pytest.mark.parametrize("path", HARMLESS, ids=ascii)
def test_odd_names_are_only_names(desk: Any, tmp_path: Path, path: str) -> None:
    desk.workspace.write("w", path, "x")
    desk.workspace.push("w", str(tmp_path / "out"))
    assert (tmp_path / "out" / path).read_text() == "x"
    assert sorted(one.name for one in tmp_path.iterdir() if not one.name.startswith("m.db")) == ["out"]


def test_a_pull_follows_no_link_and_opens_no_device(desk: Any, tmp_path: Path) -> None:
    secret, source = tmp_path / "secret", tmp_path / "source"
    secret.mkdir()
    (secret / "key").write_text("secret")
    source.mkdir()
    (source / "fine").write_text("fine")
    (source / "file-link").symlink_to(secret / "key")
    (source / "folder-link").symlink_to(secret)
    (source / "up").symlink_to("..")
    (source / "loop").symlink_to("loop")
    os.mkfifo(source / "pipe")
    (source / "bad:name").write_text("x")
    report = desk.workspace.pull("w", str(source))
    assert report.added == 1
    assert sorted(one.path for one in report.left_out) == ["bad:name", "file-link", "folder-link", "loop", "pipe", "up"]
    assert "secret" not in [desk.workspace.read("w", file.path).text for file in desk.workspace.files("w").files]


def test_a_file_whose_name_is_no_unicode_is_left_out(desk: Any, tmp_path: Path) -> None:
    source = os.fsencode(tmp_path) + b"/source"
    os.mkdir(source)
    with open(source + b"/\xff\xfe", "w") as file:
        file.write("x")
    assert len(desk.workspace.pull("w", os.fsdecode(source)).left_out) == 1


def test_a_large_file_is_left_out_before_it_fills_the_memory(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    with open(tmp_path / "source" / "huge", "wb") as file:
        file.truncate(1 << 40)  # sparse: a terabyte of nothing
    found = list(LocalFolders().read(tmp_path / "source", 1000))
    assert [(one.path, one.data) for one in found] == [("huge", None)]


def test_a_push_never_writes_through_a_link(desk: Any, tmp_path: Path) -> None:
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    target.mkdir()
    (outside / "victim").write_text("untouched")
    desk.workspace.write("w", "folder/x", "payload")
    desk.workspace.write("w", "victim", "payload")
    (target / "victim").symlink_to(outside / "victim")
    (target / "folder").symlink_to(outside)
    with pytest.raises(InvalidInput):
        desk.workspace.push("w", str(target))
    (target / "folder").unlink()
    desk.workspace.push("w", str(target))
    assert (target / "victim").read_text() == "payload"
    assert not (target / "victim").is_symlink()
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"victim": "untouched"}


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/x", "a//x", "x\x00", ""])
def test_the_writer_itself_refuses_what_leaves(tmp_path: Path, path: str) -> None:
    """Even if a record were forged: the folder is the last wall."""
    with pytest.raises(InvalidInput):
        LocalFolders().write(tmp_path / "target", [(path, b"payload")])
    assert [one.name for one in tmp_path.iterdir()] == ["target"]
    assert list((tmp_path / "target").iterdir()) == []


def test_a_forged_record_is_not_pushed_outside(desk: Any, tmp_path: Path) -> None:
    store, scope = desk._core.store, desk._scope
    (file,) = store.find(scope, Query(WorkspaceFile)).records
    store._writer.run(lambda: store._tables.run("UPDATE workspace_file SET path = ? WHERE id = ?", ("../out", file.id)))
    with pytest.raises(InvalidInput):
        desk.workspace.push("w", str(tmp_path / "target"))
    assert not (tmp_path / "out").exists()


def test_folders_swapped_for_links_meanwhile_lead_nowhere(desk: Any, tmp_path: Path) -> None:
    """Somebody swaps a folder for a link and back as fast as they can, while we push and pull."""
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (target / "d").mkdir(parents=True)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            shutil.rmtree(target / "d", ignore_errors=True)
            with suppress(FileExistsError):  # the push was quicker to make its folder
                (target / "d").symlink_to(outside)
                (target / "d").unlink()
            (target / "d").mkdir(exist_ok=True)

    swapper = threading.Thread(target=swap)
    swapper.start()
    refused = 0
    try:
        for _ in range(300):
            try:
                desk._core.folders.write(target, [("d/payload", b"payload")])
            except InvalidInput:
                refused += 1
            assert b"secret" not in [found.data for found in desk._core.folders.read(target, 1000)]
    finally:
        stop.set()
        swapper.join()
    assert refused
    assert [path.name for path in outside.iterdir()] == ["secret"]
