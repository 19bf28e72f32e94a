"""An export and a copy are of one moment, whatever is changed at any point during them; and on disk when told."""

from __future__ import annotations

import dataclasses
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import recollect
from every_store import EMPTY_STORE, EVERY_STORE
from recollect import app, cite
from recollect.adapters.local_folders import LocalFolders
from recollect.adapters.records.sqlite import store as sqlite
from recollect.domain.memory import Embedding, Memory
from recollect.errors import InvalidInput, StoreBusy
from recollect.ports.query import Query
from recollect.ports.steps import Delete
from recollect.services.admin import copy, export
from seeds import some

WORDS = ("harbour", "vineyard", "lighthouse", "orchard")


def remembered(mem: Any, word: str, number: int = 0) -> Any:
    """A memory with all that hangs on one."""
    made = mem.remember(
        f"The {word} opens at {number}", cites=[cite.user("ann", f"said of {word}")], tags=[word], id=f"{word}-{number}"
    )
    mem.revise(made.id, f"The {word} opens after {number}", why="it moved")
    return made


class Meddler:
    """Changes everything there is, a little more each time."""

    def __init__(self, mem: Any) -> None:
        self.mem = mem
        self.turns = 0

    def __call__(self) -> None:
        self.turns += 1
        word = WORDS[self.turns % len(WORDS)]
        self.mem.revise(f"{word}-0", f"The {word} is open all day, {self.turns}")
        remembered(self.mem, word, self.turns)
        if self.turns == 1:
            self.mem.cite("orchard-0", [cite.user("bob", "said so too")])
            self.mem._core.store.transact(self.mem._scope, [Delete(Memory, "quarry-0")])
            self.mem.forget("meadow-0")


class MeddledWith:
    """A store in which something happens after the n-th reading of a snapshot."""

    def __init__(self, store: Any, after: int, happens: Callable[[], None]) -> None:
        self._store, self._left, self._happens = store, after, happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def snapshot(self, scope: Any) -> Iterator[Any]:
        with self._store.snapshot(scope) as reading:
            yield _Counting(self, reading)

    def note(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._happens()


class _Counting:
    def __init__(self, within: MeddledWith, reading: Any) -> None:
        self._within, self._reading = within, reading

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._reading, name)

        def counted(*args: Any, **options: Any) -> Any:
            answer = verb(*args, **options)
            self._within.note()
            return answer

        return counted


def filled(address: str) -> Any:
    mem = recollect.open(address, embedder="hash")
    mem.user.add("Ann", id="ann")
    mem.user.add("Bob", id="bob")
    for word in (*WORDS, "quarry", "meadow"):
        remembered(mem, word)
    return mem


def exported(mem: Any, path: Path) -> bytes:
    mem.export(str(path))
    return path.read_bytes()


def meddled_export(mem: Any, after: int, path: Path) -> bytes:
    """An export in which everything is changed after so many readings."""
    happens = Meddler(mem)
    meddled = dataclasses.replace(mem._core, store=MeddledWith(mem._core.store, after, happens))
    export.export(meddled.for_scope(mem._scope), export.ExportRequest(path=str(path)))
    assert happens.turns == 1, "nothing was changed meanwhile"
    return path.read_bytes()


@pytest.mark.parametrize("after", some(9, range(1, 82, 4), "points of an export"))
def test_an_export_is_of_one_moment_whatever_happens_at_any_point_of_it(after: int, tmp_path: Path) -> None:
    with filled(str(tmp_path / "a.db")) as mem:
        before = exported(mem, tmp_path / "before.jsonl")
        assert meddled_export(mem, after, tmp_path / "during.jsonl") == before
        assert exported(mem, tmp_path / "after.jsonl") != before
    stands_alone(tmp_path / "during.jsonl", tmp_path / "b.db")


@pytest.mark.parametrize("after", [1, 50, 75])
@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_an_export_of_any_store_is_of_one_moment(kind: str, after: int, tmp_path: Path) -> None:
    with filled(EMPTY_STORE[kind](tmp_path)) as mem:
        before = exported(mem, tmp_path / "before.jsonl")
        assert meddled_export(mem, after, tmp_path / "during.jsonl") == before
    stands_alone(tmp_path / "during.jsonl", tmp_path / "b.db")


@pytest.mark.parametrize("after", range(1, 46, 9))
def test_an_export_of_dynamodb_is_of_the_moment_at_which_all_was_read(after: int, tmp_path: Path) -> None:
    """It has no snapshots: what changes while it is read is read again, all of it."""
    with filled(EMPTY_STORE["dynamodb"](tmp_path)) as mem:
        link, happens, left = mem._core.store.dynamo, Meddler(mem), [after]
        pages = link.pages

        def meddled(*args: Any, **options: Any) -> Any:
            for page in pages(*args, **options):
                left[0] -= 1
                if left[0] == 0:
                    happens()
                yield page

        link.pages = meddled
        during = exported(mem, tmp_path / "during.jsonl")
        link.pages = pages
        assert happens.turns == 1
        assert exported(mem, tmp_path / "after.jsonl") == during
    stands_alone(tmp_path / "during.jsonl", tmp_path / "b.db")


def test_exports_beside_writers_are_whole(tmp_path: Path) -> None:
    with filled(str(tmp_path / "a.db")) as mem:
        done, meddler = threading.Event(), Meddler(mem)

        def write() -> None:
            while not done.is_set():
                meddler()
                with suppress(StoreBusy):  # deleted, but the log may have to wait for the export
                    mem.erase(f"{WORDS[meddler.turns % len(WORDS)]}-{meddler.turns}")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            made = 0
            while made < 4 or (meddler.turns < 4 and made < 200):
                exported(mem, tmp_path / f"{made}.jsonl")
                made += 1
        finally:
            done.set()
            writer.join(60)
        for number in range(made - 4, made):
            stands_alone(tmp_path / f"{number}.jsonl", tmp_path / f"{number}.db")
        assert meddler.turns > 3


def stands_alone(path: Path, target: Path) -> None:
    """Imported elsewhere, every memory has its citations, its tags, its whole history and its vector."""
    with recollect.open(target, embedder="hash") as mem:
        mem.import_(str(path))
        assert mem.verify().problems == []
        memories = mem._core.store.find(mem._scope, Query(Memory, deleted="yes")).records
        assert len(memories) >= len(WORDS)
        vectors = {id for (id,) in mem._core.store.select(mem._scope, Query(Embedding), ("memory_id",))}
        for one in memories:
            if not one.is_deleted:
                shown = mem.show(one.id)
                assert len(shown.citations) >= 1
                assert len(shown.tags) == 1
                assert one.id in vectors
                entries = mem.history(one.id).entries
                assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
                assert entries[-1].text == one.text


@pytest.mark.parametrize("after", range(1, 130, 25))
def test_a_copy_is_of_one_moment_whatever_happens_at_any_point_of_it(after: int, tmp_path: Path) -> None:
    with filled(str(tmp_path / "a.db")) as mem, filled_target(tmp_path / "b.db") as target:
        happens = Meddler(mem)
        before = copy.content_hash(mem._core.store, mem._scope)
        copied = copy.copy(MeddledWith(mem._core.store, after, happens), target, ["default"])
        assert happens.turns == 1
        assert copied.organizations[0].hash == copy.content_hash(target, mem._scope) == before
        assert copy.content_hash(mem._core.store, mem._scope) != before


@contextmanager
def filled_target(path: Path) -> Iterator[Any]:
    store = app.stores.record_store(str(path))[0]
    try:
        yield store
    finally:
        store.close()


def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is synced from now on: the files and folders behind the handles, in order."""
    paths: list[str] = []
    fsync = os.fsync

    def noted(handle: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    return paths


def test_an_export_is_on_disk_with_its_name_when_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    with filled(str(tmp_path / "a.db")) as mem:
        paths = synced(monkeypatch)
        mem.export(str(tmp_path / "out" / "all.jsonl"))
    out = [path for path in paths if path.startswith(str(tmp_path / "out"))]
    assert [re.sub(r"recollect-\w+", "…", path) for path in out] == [
        str(tmp_path / "out" / "all.jsonl.….part"),
        str(tmp_path / "out"),
    ]


def test_an_export_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    with filled(str(tmp_path / "a.db")) as mem:
        target = tmp_path / "all.jsonl"
        target.write_text("mine")

        def fail() -> None:
            raise InvalidInput("something else failed")

        failing = dataclasses.replace(mem._core, store=MeddledWith(mem._core.store, 60, fail))
        with pytest.raises(InvalidInput, match="something else"):
            export.export(failing.for_scope(mem._scope), export.ExportRequest(path=str(target)))
        assert target.read_text() == "mine"
        assert not list(tmp_path.glob("*.part"))
        with pytest.raises(InvalidInput, match="cannot write"):
            mem.export(str(tmp_path / "missing" / "all.jsonl"))


class FullDisk(LocalFolders):
    def keep(self, path: Path, write: Callable[[BinaryIO], Any]) -> Any:
        with open("/dev/full", "wb", buffering=0) as file:
            return write(file)


def test_a_full_disk_under_an_export_is_told_of_the_file(tmp_path: Path) -> None:
    with filled(str(tmp_path / "a.db")) as mem:
        core = dataclasses.replace(mem._core, folders=FullDisk())
        with pytest.raises(InvalidInput, match=r"cannot write .*all.jsonl.*No space left"):
            export.export(core.for_scope(mem._scope), export.ExportRequest(path=str(tmp_path / "all.jsonl")))


def test_pushed_files_are_on_disk_with_their_names_when_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recollect.open(tmp_path / "a.db", embedder="hash") as mem:
        mem.agent.add("Bee", id="bee")
        place = mem.workspace.add("bee", "desk").id
        for path in ("a.txt", "notes/plan.md", "notes/deep/er.md"):
            mem.workspace.write(place, path, "text")
        paths = synced(monkeypatch)
        mem.workspace.push(place, str(tmp_path / "new" / "out"))
    out = tmp_path / "new" / "out"
    folders = {str(path) for path in (out, out / "notes", out / "notes" / "deep", out.parent, tmp_path)}
    assert folders <= set(paths)
    assert sum("/.recollect-" in path for path in paths) == 3


def test_a_log_that_grows_behind_an_export_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite, "LARGE_LOG_BYTES", 1)
    with filled(str(tmp_path / "a.db")) as mem, mem._core.store.snapshot(mem._scope) as reading:
        for _ in range(3):
            reading.count(mem._scope, Query(Memory))
    told = [record.message for record in caplog.records if record.name == "recollect.sqlite"]
    assert told == ["the log of 'a.db' grows while a snapshot of it is read; then it is emptied"]


def test_a_duckdb_file_is_written_anew_when_nobody_reads_a_snapshot_of_it(tmp_path: Path) -> None:
    with filled(EMPTY_STORE["duckdb"](tmp_path)) as mem:
        store, scope = mem._core.store, mem._scope
        done = threading.Event()

        def erase() -> None:
            store.erase_traces()
            done.set()

        with store.snapshot(scope) as reading:
            eraser = threading.Thread(target=erase)
            eraser.start()
            before = reading.count(scope, Query(Memory))
            with pytest.raises(StoreBusy, match="while this thread reads it"):
                store.erase_traces()
            assert not done.is_set()  # it waits
            assert reading.count(scope, Query(Memory)) == before
        eraser.join(60)
        assert done.is_set()
        assert store.count(scope, Query(Memory)) == before


@pytest.mark.parametrize("kind", EVERY_STORE)
def test_what_is_encrypted_can_be_written_after_the_first_export(kind: str, tmp_path: Path) -> None:
    with recollect.open(EMPTY_STORE[kind](tmp_path), embedder="hash") as mem:
        mem.export(str(tmp_path / "first.jsonl"))  # the first to read some records is the moment of the export
        agent = mem.agent.add("Sam", system="You are Sam.").id
        assert mem.agent.show(agent).system == "You are Sam."
