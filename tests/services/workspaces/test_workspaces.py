"""Workspaces: content once, snapshots at the cost of the change, restored whole, pruned without losing anything."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest

import recollect
from clocks import as_another_machine
from recollect.domain.agents import Cycle
from recollect.domain.workspaces import Blob, BlobChunk, ChangedBucket, Snapshot, TreeNode, WorkspaceFile
from recollect.errors import Conflict, DamagedData, InvalidInput, NotFound, TooLarge, VersionConflict
from recollect.ports.query import Query, equal
from recollect.ports.steps import Insert, Update
from recollect.services.workspaces.blobs import BATCH_BYTES, collect

CYCLE = Cycle(organization_id="default", id="cycle", agent_id="ada", index=0)


@pytest.fixture
def desk(each: Any) -> Any:
    return furnished(each)


def furnished(mem: Any) -> Any:
    mem.agent.add("Ada", id="ada")
    mem.workspace.add("ada", "desk", id="w")
    return mem


def count(mem: Any, record: Any) -> int:
    found: int = mem._core.store.count(mem._scope, Query(record))
    return found


def files(mem: Any) -> dict[str, str]:
    return {file.path: mem.workspace.read("w", file.path).text for file in mem.workspace.files("w").files}


def test_files_are_written_read_moved_and_removed(every: Any) -> None:
    mem = furnished(every)
    first = mem.workspace.write("w", "notes/plan.md", "tea\n")
    assert (first.bytes, first.version, first.media_type) == (4, 1, "text/markdown")
    assert mem.workspace.write("w", "notes/plan.md", "coffee\n", version=1).version == 2
    mem.workspace.write("w", "blob.bin", base64="/wA=")
    assert mem.workspace.read("w", "blob.bin").data == b"\xff\x00"
    assert mem.workspace.read("w", "notes/plan.md").text == "coffee\n"
    assert [file.path for file in mem.workspace.files("w", folder="notes").files] == ["notes/plan.md"]
    mem.workspace.move("w", "notes/plan.md", "old/plan.md")
    assert mem.workspace.move("w", "old", "older", folder=True).files == ["older/plan.md"]
    shown = mem.workspace.show("w")
    assert (shown.files, shown.bytes) == (2, 9)
    mem.workspace.remove("w", "older", folder=True)
    mem.workspace.remove("w", "blob.bin")
    assert mem.workspace.show("w").files == mem.workspace.show("w").bytes == 0
    with pytest.raises(NotFound):
        mem.workspace.read("w", "blob.bin")
    assert mem.verify().sound


def test_a_stale_version_is_refused(desk: Any) -> None:
    desk.workspace.write("w", "a", "1", version=0)
    for stale in (0, 2):
        with pytest.raises(VersionConflict):
            desk.workspace.write("w", "a", "2", version=stale)
    assert files(desk) == {"a": "1"}


def test_a_name_is_a_file_or_a_folder_and_nothing_is_overwritten_by_moving(desk: Any) -> None:
    desk.workspace.write("w", "a/b", "1")
    desk.workspace.write("w", "c", "2")
    for attempt in (
        lambda: desk.workspace.write("w", "a", "x"),
        lambda: desk.workspace.write("w", "a/b/c", "x"),
        lambda: desk.workspace.move("w", "c", "a/b"),
        lambda: desk.workspace.move("w", "c", "a"),
        lambda: desk.workspace.move("w", "c", "a/b/c"),
    ):
        with pytest.raises(Conflict):
            attempt()
    assert files(desk) == {"a/b": "1", "c": "2"}


def test_the_same_content_is_kept_once(desk: Any) -> None:
    desk.workspace.add("ada", id="other")
    for path in ("a", "b", "c"):
        desk.workspace.write("w", path, "the same")
        desk.workspace.write("other", path, "the same")
    assert count(desk, Blob) == count(desk, BlobChunk) == 1
    assert count(desk, WorkspaceFile) == 6


def test_large_content_is_cut_and_whole_again(every: Any) -> None:
    mem = furnished(every)
    data = random.Random(7).randbytes(BATCH_BYTES + 123_456)
    (folder := Path(mem._core.citation_lookup(mem._scope, None)._root) / "large").mkdir()
    (folder / "big.bin").write_bytes(data)
    mem.workspace.pull("w", str(folder))
    assert mem.workspace.read("w", "big.bin").data == data
    assert count(mem, BlobChunk) == -(-len(data) // 200_000)
    assert mem.verify().sound


def test_limits_are_typed_errors(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"workspace_file_bytes": 10, "workspace_files": 2, "workspace_bytes": 15}
    with recollect.open(tmp_path / "m.db", embedder="hash", **limits) as mem:
        furnished(mem)
        with pytest.raises(TooLarge):
            mem.workspace.write("w", "a", "12345678901")
        mem.workspace.write("w", "a", "1234567890")
        with pytest.raises(TooLarge):
            mem.workspace.write("w", "b", "123456")
        mem.workspace.write("w", "b", "12345")
        with pytest.raises(TooLarge):
            mem.workspace.write("w", "c", "")
        assert mem.workspace.write("w", "a", "").bytes == 0


def test_a_snapshot_is_compared_and_restored(every: Any) -> None:
    mem = furnished(every)
    mem._core.store.transact(mem._scope, [Insert(CYCLE)])
    for path, text in {"keep": "same", "change": "one\ntwo\nthree\n", "drop": "bye"}.items():
        mem.workspace.write("w", path, text)
    before = files(mem)
    first = mem.workspace.snapshot("w", "first", cycle="cycle")
    mem.workspace.write("w", "change", "one\n2\nthree\n")
    mem.workspace.remove("w", "drop")
    mem.workspace.write("w", "new", "hello")
    since = {one.path: one for one in mem.workspace.diff("w", first.id).files}
    assert {path: one.change for path, one in since.items()} == {"change": "changed", "drop": "removed", "new": "added"}
    assert "-two\n+2\n" in since["change"].diff
    second = mem.workspace.snapshot("w")
    assert mem.workspace.diff("w", first.id, second.id).files == mem.workspace.diff("w", first.id).files
    assert mem.workspace.read("w", "drop", snapshot=first.id).text == "bye"
    with pytest.raises(NotFound):
        mem.workspace.read("w", "new", snapshot=first.id)
    told = mem.workspace.restore("w", first.id, dry_run=True)
    assert {one.path: one.change for one in told.files} == {"change": "changed", "drop": "added", "new": "removed"}
    assert files(mem) != before
    assert mem.workspace.restore("w", first.id) == told
    assert files(mem) == before
    assert mem.workspace.restore("w", first.id).files == []
    assert mem.workspace.snapshot("w").hash == first.hash
    assert [one.id for one in mem.workspace.snapshots("w", cycle="cycle").snapshots] == [first.id]
    assert mem.verify().sound


def test_the_same_files_make_the_same_hash_whatever_the_way(desk: Any) -> None:
    desk.workspace.add("ada", id="other")
    paths = [f"d{n % 7}/f{n}" for n in range(40)]
    for path in paths:
        desk.workspace.write("w", path, path)
    desk.workspace.snapshot("w")
    desk.workspace.write("w", "gone", "x")
    desk.workspace.remove("w", "gone")
    for path in reversed(paths):
        desk.workspace.write("other", path, path)
    assert desk.workspace.snapshot("w").hash == desk.workspace.snapshot("other").hash
    desk.workspace.remove("w", "d0", folder=True)
    assert desk.workspace.snapshot("w").hash != desk.workspace.snapshot("other").hash


def test_an_empty_workspace_has_a_snapshot_too(desk: Any) -> None:
    empty = desk.workspace.snapshot("w")
    desk.workspace.write("w", "a", "x")
    desk.workspace.snapshot("w")
    assert [one.path for one in desk.workspace.restore("w", empty.id).files] == ["a"]
    assert desk.workspace.snapshot("w").hash == empty.hash == ""


def test_a_snapshot_costs_the_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: nodes and rows read and written for ten changes among two thousand files."""
    source = tmp_path / "source"
    for number in range(2000):
        (source / f"d{number % 50}").mkdir(parents=True, exist_ok=True)
        (source / f"d{number % 50}" / f"f{number}").write_text(f"file {number}")
    with recollect.open(tmp_path / "m.db", embedder="hash") as mem:
        furnished(mem)
        assert mem.workspace.pull("w", str(source)).added == 2000
        whole = mem.workspace.snapshot("w").written
        for number in range(10):
            mem.workspace.write("w", f"d{number}/f{number}", "changed")
        nodes, bytes_before, read = count(mem, TreeNode), _node_bytes(mem), 0
        select = mem._core.store.select

        def counted(*given: Any) -> Any:
            nonlocal read
            rows = select(*given)
            read += len(rows)
            return rows

        monkeypatch.setattr(mem._core.store, "select", counted)
        taken = mem.workspace.snapshot("w")
        assert taken.written == count(mem, TreeNode) - nodes
        assert taken.written <= 10 * 4
        assert whole > 1500
        assert read < 150
        assert _node_bytes(mem) - bytes_before < 0.1 * bytes_before
        assert mem.workspace.snapshot("w").written == 0


def _node_bytes(mem: Any) -> int:
    nodes = mem._core.store.find(mem._scope, Query(TreeNode)).records
    return sum(len(node.model_dump_json()) for node in nodes)


def test_the_newest_snapshot_stays_where_clocks_disagree(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    as_another_machine(monkeypatch, 1)
    desk.workspace.snapshot("w")
    as_another_machine(monkeypatch, 0)
    newest = desk.workspace.snapshot("w").id
    desk.workspace.prune("w", keep=1)
    assert [one.id for one in desk.workspace.snapshots("w").snapshots] == [newest]


def test_pruning_keeps_what_is_used_and_nothing_else(desk: Any) -> None:
    desk.workspace.write("w", "stays", "used by a file")
    desk.workspace.write("w", "goes", "only in the first")
    first = desk.workspace.snapshot("w").id
    desk.workspace.write("w", "goes", "only in the second")
    second = desk.workspace.snapshot("w").id
    desk.workspace.remove("w", "goes")
    with pytest.raises(InvalidInput):
        desk.workspace.prune("w")
    assert desk.workspace.prune("w", older_than_days=1).snapshots == []
    assert desk.workspace.prune("w", keep=1, dry_run=True).snapshots == [first]
    pruned = desk.workspace.prune("w", keep=1)
    assert (pruned.snapshots, pruned.blobs) == ([first], 1)
    assert desk.workspace.read("w", "goes", snapshot=second).text == "only in the second"
    assert desk.workspace.prune("w", keep=0).blobs == 1
    assert files(desk) == {"stays": "used by a file"}
    desk.workspace.remove("w", "stays")
    desk.workspace.snapshot("w")
    desk.workspace.prune("w", keep=0)
    assert count(desk, Blob) == count(desk, BlobChunk) == count(desk, TreeNode) == count(desk, ChangedBucket) == 0
    assert desk.verify().sound


def test_pruning_beside_writers_loses_nothing(tmp_path: Path) -> None:
    """Few contents, so that they go out of use and come back all the time."""
    with recollect.open(tmp_path / "m.db", embedder="hash") as mem:
        furnished(mem)
        stop = threading.Event()
        troubles: list[BaseException] = []

        def guarded(work: Any) -> None:
            try:
                work()
            except BaseException as trouble:
                troubles.append(trouble)
                raise
            finally:
                stop.set()

        def write(who: int) -> None:
            chance = random.Random(who)
            for _ in range(60):
                path, text = f"{who}/{chance.randrange(3)}", f"content {chance.randrange(4)}"
                mem.workspace.write("w", path, text)
                if chance.random() < 0.3:
                    mem.workspace.remove("w", path)
                if chance.random() < 0.2:
                    mem.workspace.snapshot("w")

        def prune() -> None:
            while not stop.is_set():
                mem.workspace.prune("w", keep=2)
                collect(mem._tenant)

        threads = [threading.Thread(target=guarded, args=(lambda who=who: write(who),)) for who in range(3)]
        threads.append(threading.Thread(target=guarded, args=(prune,)))
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert troubles == []
        report = mem.verify()
        assert report.sound, report.problems
        for taken in mem.workspace.snapshots("w").snapshots:
            mem.workspace.restore("w", taken.id)
            assert mem.workspace.snapshot("w").hash == taken.hash


@pytest.mark.parametrize("look", [1, 2, 3])
def test_content_used_again_at_the_last_moment_is_kept(desk: Any, monkeypatch: pytest.MonkeyPatch, look: int) -> None:
    """Blobs are looked at before they are marked, once more after that, and right before they are deleted."""
    desk.workspace.write("w", "a", "content")
    desk.workspace.remove("w", "a")
    select, looks = desk._core.store.select, 0

    def interrupted(scope: Any, query: Any, fields: Any) -> Any:
        nonlocal looks
        rows = select(scope, query, fields)
        if query.record is Blob and rows:
            looks += 1
            if looks == look:
                desk.workspace.write("w", "b", "content")
        return rows

    monkeypatch.setattr(desk._core.store, "select", interrupted)
    assert collect(desk._tenant) == (0, 0)
    assert looks >= look
    assert files(desk) == {"b": "content"}
    assert desk.verify().sound


def test_a_snapshot_waits_for_a_writer_that_is_quicker_eighty_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recollect.open(tmp_path / "m.db", embedder="hash") as mem:
        furnished(mem)
        mem.workspace.write("w", "file", "0")
        pauses: list[float] = []
        monkeypatch.setattr("recollect.retry.time.sleep", pauses.append)
        transact, times = mem._core.store.transact, iter(range(1, 81))

        def overtaken(scope: Any, steps: Any) -> Any:
            is_snapshot = any(isinstance(step, Insert) and isinstance(step.record, Snapshot) for step in steps)
            if is_snapshot and (number := next(times, None)):
                mem.workspace.write("w", "file", str(number))
            return transact(scope, steps)

        monkeypatch.setattr(mem._core.store, "transact", overtaken)
        taken = mem.workspace.snapshot("w")
        assert len(pauses) == 80
        assert mem.workspace.read("w", "file", snapshot=taken.id).text == "80"


def test_a_snapshot_beside_a_writer_is_one_moment(tmp_path: Path) -> None:
    """Both files always change together in the writer's order: a snapshot never has the later without the earlier."""
    with recollect.open(tmp_path / "m.db", embedder="hash") as mem:
        furnished(mem)
        mem.workspace.write("w", "first", "0")
        mem.workspace.write("w", "second", "0")

        def write() -> None:
            for number in range(1, 40):
                mem.workspace.write("w", "first", str(number))
                mem.workspace.write("w", "second", str(number))

        writer = threading.Thread(target=write)
        writer.start()
        taken = []
        while writer.is_alive():
            taken.append(mem.workspace.snapshot("w").id)
        writer.join()
        for one in taken:
            first, second = (
                int(mem.workspace.read("w", name, snapshot=one).text or "") for name in ("first", "second")
            )
            assert first - second in (0, 1)


def test_damaged_content_is_never_served(desk: Any) -> None:
    desk.workspace.write("w", "a", "precious")
    taken = desk.workspace.snapshot("w").id
    store, scope = desk._core.store, desk._scope
    (chunk,) = store.find(scope, Query(BlobChunk)).records
    store.transact(scope, [Update(chunk.changed(data=b"precocious"))])
    with pytest.raises(DamagedData):
        desk.workspace.read("w", "a")
    with pytest.raises(DamagedData):
        desk.workspace.read("w", "a", snapshot=taken)
    assert {problem.table for problem in desk.verify().problems} == {"blob", "workspace_file", "snapshot"}
    store.transact(scope, [Update(store.get(scope, BlobChunk, chunk.id).changed(data=b"precious"))])
    assert desk.verify().sound
    (node,) = [
        one
        for one in store.find(scope, Query(TreeNode)).records
        if one.entries[0][0] == "a" and len(one.entries[0]) > 2
    ]
    store.transact(scope, [Update(node.changed(entries=[["b", *node.entries[0][1:]]]))])
    desk.workspace.write("w", "a", "other")
    with pytest.raises(DamagedData):
        desk.workspace.restore("w", taken)
    assert "snapshot" in {problem.table for problem in desk.verify().problems}


def test_a_file_citation_may_point_into_a_workspace(desk: Any) -> None:
    desk.workspace.write("w", "notes.md", "one\ntea at five\nthree\n")
    cited = recollect.cite.file("notes.md", lines=2, workspace="w")
    memory = desk.remember("tea is at five", cites=[cited]).id
    assert desk.promote(memory).status == "verified"
    desk.workspace.write("w", "notes.md", "zero\none\ntea at five\nthree\n")
    assert desk.check().holds == 1
    desk.workspace.write("w", "notes.md", "one\ntea at six\nthree\n")
    report = desk.check(source="workspace:w/notes.md")
    assert (report.broken, report.demoted) == (1, [memory])
    with pytest.raises(InvalidInput):
        desk.remember("x", cites=["file:workspace:w/absent.md"])
    short = recollect.cite.parse("file:workspace:w/notes.md:1-2")
    assert (short.workspace, short.path, short.first_line, short.last_line) == ("w", "notes.md", 1, 2)
    with pytest.raises(InvalidInput):
        desk.within("other").remember("x", cites=[cited])


def test_another_tenant_sees_no_file_and_shares_no_content(desk: Any) -> None:
    desk.workspace.write("w", "a", "secret")
    taken = desk.workspace.snapshot("w").id
    other = desk.within("other")
    other.agent.add("Eve", id="eve")
    other.workspace.add("eve", id="w2")
    for attempt in (
        lambda: other.workspace.show("w"),
        lambda: other.workspace.read("w", "a"),
        lambda: other.workspace.files("w"),
        lambda: other.workspace.write("w", "a", "mine"),
        lambda: other.workspace.snapshot("w"),
        lambda: other.workspace.restore("w2", taken),
        lambda: other.workspace.diff("w2", taken),
        lambda: other.workspace.read("w2", "a", snapshot=taken),
        lambda: other.workspace.erase("w"),
    ):
        with pytest.raises(NotFound):
            attempt()
    assert count(other, Blob) == 0
    other.workspace.write("w2", "a", "secret")
    other.workspace.erase("w2")
    assert files(desk) == {"a": "secret"}


def test_a_snapshot_of_another_workspace_is_refused(desk: Any) -> None:
    desk.workspace.add("ada", id="other")
    taken = desk.workspace.snapshot("w").id
    with pytest.raises(NotFound):
        desk.workspace.restore("other", taken)


@pytest.mark.parametrize("way", ["agent", "workspace", "prune", "sweep"])
def test_removed_files_leave_no_byte(tmp_path: Path, way: str) -> None:
    marker = "zanzibarmarker"
    with recollect.open(tmp_path / "m.db", embedder="hash") as mem:
        furnished(mem)
        mem.workspace.write("w", f"{marker}.txt", f"content {marker}")
        mem.workspace.snapshot("w")
        assert _holding(tmp_path, marker)
        if way == "agent":
            mem.agent.remove("ada", for_good=True)
        elif way == "workspace":
            mem.workspace.erase("w")
        else:
            mem.workspace.remove("w", f"{marker}.txt")
            last = mem.workspace.snapshot("w").id
            mem._core.store.transact(mem._scope, [_delete(one) for one in _snapshots(mem) if one != last])
            mem.workspace.prune("w", keep=1) if way == "prune" else mem.sweep()
        assert count(mem, Blob) == count(mem, TreeNode) == 0
        assert _holding(tmp_path, marker) == []


def _snapshots(mem: Any) -> list[str]:
    return [one.id for one in mem.workspace.snapshots("w").snapshots]


def _delete(id: str) -> Any:
    from recollect.ports.steps import Delete

    return Delete(Snapshot, id)


def _holding(folder: Path, marker: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and marker.encode() in path.read_bytes()]


def test_a_workspace_moves_house_with_all_in_it(desk: Any, tmp_path: Path) -> None:
    desk.workspace.write("w", "a", "one")
    taken = desk.workspace.snapshot("w").id
    desk.workspace.write("w", "a", "two")
    desk.workspace.write("w", "b.bin", base64="AP8=")
    desk.export(str(tmp_path / "one.jsonl"))
    with recollect.open("memory://", embedder="hash") as other:
        other.import_(str(tmp_path / "one.jsonl"))
        assert other.verify().sound
        assert other.workspace.read("w", "b.bin").data == b"\x00\xff"
        other.workspace.restore("w", taken)
        assert files(other) == {"a": "one"}


def test_pull_and_push_go_there_and_back(desk: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "deep" / "er").mkdir(parents=True)
    (source / ".git").mkdir()
    (source / ".git" / "config").write_text("x")
    (source / "a.txt").write_text("one")
    (source / "deep" / "er" / "b.bin").write_bytes(b"\x00\xff")
    assert desk.workspace.pull("w", str(source)).added == 2
    assert desk.workspace.pull("w", str(source)).unchanged == 2
    taken = desk.workspace.snapshot("w").id
    (source / "a.txt").write_text("two")
    (source / "deep" / "er" / "b.bin").unlink()
    report = desk.workspace.pull("w", str(source), mirror=True)
    assert (report.changed, report.removed) == (1, 1)
    assert desk.workspace.push("w", str(target)).files == 1
    assert (target / "a.txt").read_text() == "two"
    desk.workspace.push("w", str(target), snapshot=taken)
    assert (target / "a.txt").read_text() == "one"
    assert (target / "deep" / "er" / "b.bin").read_bytes() == b"\x00\xff"
    assert list(target.rglob(".recollect*")) == []
    with pytest.raises(InvalidInput):
        desk.workspace.pull("w", str(tmp_path / "absent"))
    assert desk._core.store.count(desk._scope, Query(WorkspaceFile, (equal("workspace_id", "w"),))) == 1


def test_a_file_replaced_and_collected_while_it_is_read_is_read_anew(desk: Any, meanwhile: Any) -> None:
    desk.workspace.write("w", "a.txt", "old")

    def replaced() -> None:
        desk.workspace.write("w", "a.txt", "new")
        desk.workspace.prune("w", keep=0)

    meanwhile(desk, "select", BlobChunk, replaced)
    assert desk.workspace.read("w", "a.txt").text == "new"


def test_a_file_removed_while_it_is_written_is_there_afterwards(desk: Any, meanwhile: Any) -> None:
    desk.workspace.write("w", "a.txt", "old")
    meanwhile(desk, "transact", WorkspaceFile, lambda: desk.workspace.remove("w", "a.txt"))
    assert desk.workspace.write("w", "a.txt", "new").version == 1
    assert desk.workspace.read("w", "a.txt").text == "new"


@pytest.mark.parametrize("verb", ["diff", "restore"])
def test_a_snapshot_pruned_while_it_is_used_is_not_found(desk: Any, meanwhile: Any, verb: str) -> None:
    desk.workspace.write("w", "a.txt", "old")
    taken = desk.workspace.snapshot("w").id
    desk.workspace.write("w", "a.txt", "new")
    desk.workspace.snapshot("w")
    meanwhile(desk, "select", TreeNode, lambda: desk.workspace.prune("w", keep=1))
    with pytest.raises(NotFound, match="snapshot"):
        getattr(desk.workspace, verb)("w", taken)


def test_a_snapshot_taken_while_others_take_and_prune_is_taken(desk: Any, meanwhile: Any) -> None:
    desk.workspace.write("w", "a.txt", "old")
    desk.workspace.snapshot("w")
    desk.workspace.write("w", "a.txt", "new")

    def others() -> None:
        desk.workspace.snapshot("w")
        desk.workspace.prune("w", keep=1)

    meanwhile(desk, "select", TreeNode, others)
    assert desk.workspace.snapshot("w").hash == desk.workspace.snapshots("w").snapshots[-1].hash
    assert desk.verify().sound


def test_a_folder_is_written_out_while_its_files_change(desk: Any, meanwhile: Any, tmp_path: Path) -> None:
    desk.workspace.write("w", "a.txt", "old")
    desk.workspace.write("w", "b.txt", "gone")

    def changed() -> None:
        desk.workspace.write("w", "a.txt", "new")
        desk.workspace.remove("w", "b.txt")
        desk.workspace.prune("w", keep=0)

    meanwhile(desk, "select", BlobChunk, changed)
    desk.workspace.push("w", str(tmp_path / "out"))
    assert {one.name: one.read_text() for one in (tmp_path / "out").iterdir()} == {"a.txt": "new"}
