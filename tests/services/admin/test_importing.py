"""An import of any size: checked first, in batches that each leave whole memories, finished by running it again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EMPTY_STORE, EVERY_STORE
from recollect.domain.agents import Result
from recollect.domain.memory import Embedding, Memory, Relationship, Revision, Tag
from recollect.domain.provenance import Citation
from recollect.errors import Conflict, DamagedData, DuplicateKey, InvalidInput, StoreFull
from recollect.ports.query import Query
from recollect.ports.steps import Delete
from recollect.services.admin import import_

BATCH = 12


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_, "BATCH", BATCH)


def filled(mem: Any, count: int = 20) -> None:
    mem.user.add("Ann", id="ann", email="ann@example.com")
    cites = [recollect.cite.user("ann", "said")]
    made = [mem.remember(f"note {n}", tags=["a", f"t{n}"], cites=cites, user="ann").id for n in range(count)]
    for before, after in zip(made[1:], made, strict=False):  # also to memories that come later in the file
        mem.relate(after, before, "follows")
    mem.revise(made[0], "note zero", why="in words")
    mem.forget(made[1])


def exported(mem: Any, path: Path) -> bytes:
    mem.export(str(path))
    return path.read_bytes()


def stopping(mem: Any, after: int, monkeypatch: pytest.MonkeyPatch, sizes: list[int]) -> None:
    """The store takes so many transactions, then is full."""
    whole: Callable[..., Any] = mem._core.store.transact

    def transact(scope: Any, steps: Any) -> Any:
        if len(sizes) == after:
            raise StoreFull("no space left")
        sizes.append(len(steps))
        return whole(scope, steps)

    monkeypatch.setattr(mem._core.store, "transact", transact)


def whole(mem: Any, ids: dict[type, set[str]]) -> bool:
    """Each memory that is there has every part that the file gives it."""
    store, scope = mem._core.store, mem._scope
    here = {id for (id,) in store.select(scope, Query(Memory, deleted="yes"), ("id",))}
    for part, owners in ids.items():
        found = {owner for (owner,) in store.select(scope, Query(part, deleted="yes"), ("memory_id",))}
        if found != owners & here:
            return False
    return True


@pytest.mark.parametrize("kind", EVERY_STORE)
def test_an_import_that_was_stopped_is_finished_by_running_it_again(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "all.jsonl"
    with recollect.open("memory://", embedder="hash") as source:
        filled(source)
        wanted = exported(source, file)
        store, scope = source._core.store, source._scope
        owners: dict[type, set[str]] = {
            part: {id for (id,) in store.select(scope, Query(part, deleted="yes"), ("memory_id",))}
            for part in (Tag, Citation, Embedding, Revision)
        }
    with recollect.open(EMPTY_STORE[kind](tmp_path), embedder="hash") as mem:
        sizes: list[int] = []
        for stop in (1, 4, 8):
            with monkeypatch.context() as patch:
                stopping(mem, stop, patch, sizes)
                with pytest.raises(StoreFull):
                    mem.import_(str(file))
            assert whole(mem, owners)
        mem.import_(str(file))
        assert max(sizes) <= BATCH + 1
        assert mem.verify().sound
        assert exported(mem, tmp_path / "again.jsonl") == wanted
        assert mem.import_(str(file)).records == 0
        assert mem.import_(str(file), existing="replace").skipped == 0
        assert exported(mem, tmp_path / "again.jsonl") == wanted


def test_nothing_is_written_of_a_file_with_one_bad_line_at_its_end(tmp_path: Path) -> None:
    with recollect.open("memory://", embedder="hash") as source:
        filled(source)
        lines = exported(source, tmp_path / "all.jsonl").splitlines(keepends=True)
    for wrong in (b'{"record":{"id":"x"},"table":"tag"}\n', b'{"record":{},"table":"nothing"}\n', b"{nonsense\n"):
        body = b"".join([*lines[:-1], wrong])
        end = {"end": "recollect-export-1", "records": len(lines) - 1, "hash": hashlib.sha256(body).hexdigest()}
        (tmp_path / "bad.jsonl").write_bytes(body + json.dumps(end).encode() + b"\n")
        with recollect.open("memory://", embedder="hash") as mem:
            with pytest.raises(InvalidInput):
                mem.import_(str(tmp_path / "bad.jsonl"))
            assert mem.stats().memories == 0


@pytest.mark.parametrize("table", ["memory", "revision"])
def test_a_memory_that_is_not_what_its_hash_says_is_refused_by_line_and_id(tmp_path: Path, table: str) -> None:
    with recollect.open("memory://", embedder="hash") as source:
        paid = source.remember("Pay 1000 euros").id
        source.revise(paid, "Pay 1000 pounds", why="abroad")
        lines = exported(source, tmp_path / "all.jsonl").splitlines(keepends=True)
    number = next(at for at, line in enumerate(lines) if f'"table":"{table}"'.encode() in line)
    lines[number] = lines[number].replace(b"Pay 1000", b"Pay 9000")
    id = json.loads(lines[number])["record"]["id"]
    body = b"".join(lines[:-1])
    end = {"end": "recollect-export-1", "records": len(lines) - 2, "hash": hashlib.sha256(body).hexdigest()}
    (tmp_path / "bad.jsonl").write_bytes(body + json.dumps(end).encode() + b"\n")
    with recollect.open("memory://", embedder="hash") as mem:
        with pytest.raises(DamagedData, match=f"line {number + 1} .*{table} '{id}'") as refused:
            mem.import_(str(tmp_path / "bad.jsonl"))
        assert (refused.value.details["line"], refused.value.details["id"]) == (number + 1, id)
        assert mem.stats().memories == 0


def test_parts_of_memories_that_are_not_in_the_file_are_refused(tmp_path: Path) -> None:
    with recollect.open("memory://", embedder="hash") as source:
        filled(source, 3)
        lines = exported(source, tmp_path / "all.jsonl").splitlines(keepends=True)
    body = b"".join(line for line in lines[:-1] if b'"table":"memory"' not in line)
    end = {"end": "recollect-export-1", "records": body.count(b"\n") - 1, "hash": hashlib.sha256(body).hexdigest()}
    (tmp_path / "bad.jsonl").write_bytes(body + json.dumps(end).encode() + b"\n")
    with recollect.open("memory://", embedder="hash") as mem, pytest.raises(InvalidInput, match="parts of memories"):
        mem.import_(str(tmp_path / "bad.jsonl"))


def test_a_link_that_was_made_on_both_sides_is_there_once(tmp_path: Path) -> None:
    file = str(tmp_path / "all.jsonl")
    with recollect.open("memory://", embedder="hash") as one, recollect.open("memory://", embedder="hash") as two:
        first, second = one.remember("first").id, one.remember("second").id
        one.export(file)
        two.import_(file)
        for mem in (one, two):
            mem.relate(first, second, "follows")
        one.export(file)
        assert two.import_(file).records == 0
        assert two._core.store.count(two._scope, Query(Relationship)) == 1


def test_the_result_of_a_step_comes_along_though_its_memory_is_here(tmp_path: Path) -> None:
    file = str(tmp_path / "all.jsonl")
    with recollect.open("memory://", embedder="hash") as one, recollect.open("memory://", embedder="hash") as two:
        one.agent.add("Baker", id="baker")
        one.run.start(goal="bake", agent="baker")
        held = one.run.claim(worker="w")
        one.run.propose(id=held.run.id, fence=held.fence, tool="knead")
        one.run.record(id=held.run.id, fence=held.fence, summary="kneaded", output={"a": 1})
        one.export(file)
        two.import_(file)
        (result,) = two._core.store.find(two._scope, Query(Result)).records
        assert result.memory_id is not None
        two._core.store.transact(two._scope, [Delete(Result, result.id)])
        assert two.import_(file).records == 1
        assert two._core.store.find(two._scope, Query(Result)).records == [result]


def test_a_key_that_is_taken_stops_the_import_and_says_how_to_go_on(tmp_path: Path) -> None:
    file = str(tmp_path / "all.jsonl")
    with recollect.open("memory://", embedder="hash") as one, recollect.open("memory://", embedder="hash") as two:
        filled(one)
        for number in range(2 * BATCH):
            one.user.add("Someone", id=f"zz{number}")
        one.user.add("Zoe", id="zzz", email="zoe@example.com")
        one.export(file)
        two.user.add("Zoe", id="other", email="zoe@example.com")
        with pytest.raises(DuplicateKey, match="records before it were imported") as stopped:
            two.import_(file)
        assert "import the file again" in stopped.value.remedy
        two.user.remove("other", for_good=True)
        two.import_(file)
        assert two.stats().memories == one.stats().memories


def test_seals_come_along_only_with_the_log_that_they_seal(tmp_path: Path) -> None:
    file = str(tmp_path / "all.jsonl")
    with recollect.open("memory://", embedder="hash") as one:
        filled(one, 3)
        one.audit.seal()
        for audit in (False, True):
            one.export(file, audit=audit)
            with recollect.open("memory://", embedder="hash") as two:
                two.import_(file)
                assert two.audit.verify().sound
                assert two.audit.verify().seals == (1 if audit else 0)
                two.import_(file)
        with recollect.open("memory://", embedder="hash") as three:
            three.remember("something")
            three.audit.seal()
            with pytest.raises(Conflict, match="sealed access log"):
                three.import_(file)
            assert three.audit.verify().sound
