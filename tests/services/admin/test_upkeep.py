"""The store's health, moving house, and several models."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.adapters.vectors.embedded import kernels
from recollect.domain.kinds import KINDS
from recollect.domain.memory import Embedding
from recollect.errors import DamagedData, InvalidInput
from recollect.ports.query import Query, equal
from recollect.ports.records import Problem
from recollect.ports.steps import DeleteWhere
from recollect.testing.fakes import HashEmbedder


def filled(mem: Any) -> Any:
    mem.user.add("Ann", id="ann")
    mem.session.add("chat", id="s", user="ann")
    first = mem.remember(
        "the sky is blue", user="ann", session="s", tags=["sky"], cites=[recollect.cite.user("ann", "look")]
    )
    mem.promote(first.id)
    mem.revise(first.id, "the sky is often blue")
    mem.remember("grass is green", derived_from=[first.id], metadata={"a": [1, {"b": None}]}, ttl_seconds=9999)
    mem.forget(mem.remember("roses are red").id)
    return mem


def test_a_healthy_store_is_sound_and_well(mem: Any) -> None:
    filled(mem)
    assert mem.verify().sound
    assert mem.doctor().well


def test_missing_vectors_are_found_and_mended(mem: Any) -> None:
    filled(mem)
    mem._core.store.transact(mem._scope, [DeleteWhere(Embedding, (equal("namespace", "long_term"),))])
    assert not mem.verify().sound
    assert not mem.doctor().well
    assert mem.doctor(fix=True).well
    assert mem.recall("sky")


def test_export_import_export_gives_the_same_bytes(mem: Any, tmp_path: Path) -> None:
    filled(mem)
    mem.export(str(tmp_path / "one.jsonl"))
    with recollect.open(tmp_path / "other.db", embedder="hash") as other:
        done = other.import_(str(tmp_path / "one.jsonl"))
        assert done.skipped == 0
        assert other.verify().sound
        other.export(str(tmp_path / "two.jsonl"))
        assert other.recall("sky")[0].text == "the sky is often blue"
        assert other.import_(str(tmp_path / "one.jsonl")).records == 0
    with recollect.open("memory://", embedder="hash") as third:
        third.import_(str(tmp_path / "two.jsonl"))
        third.export(str(tmp_path / "three.jsonl"))
    one = (tmp_path / "one.jsonl").read_bytes()
    assert one == (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "three.jsonl").read_bytes()


def test_a_cut_or_foreign_file_is_not_imported(mem: Any, tmp_path: Path) -> None:
    filled(mem)
    mem.export(str(tmp_path / "e.jsonl"))
    lines = (tmp_path / "e.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_bytes(b"".join(lines[:-2]))
    (tmp_path / "foreign.jsonl").write_text('{"hello": 1}\n')
    with recollect.open(tmp_path / "n.db", embedder="hash") as fresh:
        with pytest.raises(DamagedData):
            fresh.import_(str(tmp_path / "cut.jsonl"))
        with pytest.raises(InvalidInput):
            fresh.import_(str(tmp_path / "foreign.jsonl"))
        with pytest.raises(InvalidInput):
            fresh.import_(str(tmp_path / "absent.jsonl"))
        assert fresh.stats().memories == 0


def test_a_backup_opens_and_answers(mem: Any, tmp_path: Path) -> None:
    filled(mem)
    mem.backup(str(tmp_path / "copy.db"))
    mem.remember("after the backup")
    with recollect.open(tmp_path / "copy.db", embedder="hash") as copy:
        assert copy.verify().sound
        assert copy.stats().memories == 2
        assert copy.recall("sky")[0].text == "the sky is often blue"
    with pytest.raises(InvalidInput):
        mem.backup(str(tmp_path / "copy.db"))


def test_moving_to_a_new_model_while_the_old_one_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.db"
    with recollect.open(path, embedder=HashEmbedder(32)) as mem:
        mem.remember_many([f"note {n}" for n in range(50)])
    both: dict[str, Any] = {"embedder": HashEmbedder(32), "incoming_embedder": {"provider": "hash", "dimensions": 64}}
    with recollect.open(path, **both) as mem:
        mem.remember("written by both")
        assert mem.recall("note 7")[0].text == "note 7"
        assert mem.reindex().made == 50
        assert mem.recall("note 7")[0].text == "note 7"
    with recollect.open(path, embedder=HashEmbedder(64)) as mem:
        assert mem.recall("note 7")[0].text == "note 7"
        assert mem.verify().sound
        assert mem.reindex(retire=True).dropped == 51
        assert mem._core.store.count(mem._scope, Query(Embedding)) == 51
        assert mem.verify().sound


def test_doctor_says_which_kernel_runs(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(mem)
    assert [one.says for one in mem.doctor().findings if one.name == "kernel"] == [kernels.described()]
    monkeypatch.setattr(kernels, "compiled", None)
    (finding,) = [one for one in mem.doctor().findings if one.name == "kernel"]
    assert finding.well
    assert finding.says.startswith("numpy, with the same results")


def test_many_threads_share_one_memory(mem: Any) -> None:
    def work(number: int) -> None:
        for step in range(10):
            receipt = mem.remember(f"thread {number} step {step}")
            assert receipt.id in {hit.id for hit in mem.recall(f"thread {number} step {step}", limit=5)}

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mem.stats().memories == 80


@pytest.mark.parametrize("existing", ["skip", "replace"])
def test_importing_again_after_a_change_is_safe(mem: Any, tmp_path: Path, existing: Any) -> None:
    filled(mem)
    first = mem.recall("sky")[0].id
    mem.export(str(tmp_path / "one.jsonl"))
    with recollect.open(tmp_path / "other.db", embedder="hash") as other:
        other.import_(str(tmp_path / "one.jsonl"))
        mem.revise(first, "the sky is sometimes blue")
        mem.export(str(tmp_path / "two.jsonl"))
        other.import_(str(tmp_path / "two.jsonl"), existing=existing)
        expected = "the sky is sometimes blue" if existing == "replace" else "the sky is often blue"
        assert other.show(first).text == expected
        assert other.verify().sound
        other.revise(first, "and on it goes")
        assert len(other.history(first).entries) == len({entry.number for entry in other.history(first).entries})


def test_replacing_by_import_gives_the_same_bytes(mem: Any, tmp_path: Path) -> None:
    filled(mem)
    mem.export(str(tmp_path / "one.jsonl"))
    with recollect.open(tmp_path / "other.db", embedder="hash") as other:
        other.import_(str(tmp_path / "one.jsonl"))
        other.revise(other.list().memories[0].id, priority=9)
        other.import_(str(tmp_path / "one.jsonl"), existing="replace")
        other.export(str(tmp_path / "two.jsonl"))
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()


def test_an_export_during_writes_stands_alone(mem: Any, tmp_path: Path) -> None:
    mem.remember_many([f"note {n}" for n in range(20)])
    meddled: list[int] = []

    def meddle(done: int, total: int) -> None:
        if len(meddled) < 3:
            meddled.append(done)
            mem.remember(f"while exporting {done}", tags=["late"])

    mem.call("export", path=str(tmp_path / "e.jsonl"), progress=meddle)
    with recollect.open(tmp_path / "other.db", embedder="hash") as other:
        other.import_(str(tmp_path / "e.jsonl"))
        assert other.verify().sound


@pytest.mark.parametrize(
    "line", ['{"table":"memory","record":5}', '{"table":[1],"record":{}}', "7", '{"table":"user","record":{}}']
)
def test_a_wrong_line_imports_nothing(mem: Any, tmp_path: Path, line: str) -> None:
    import hashlib

    head = b'{"format":"recollect-export-1","organization":"default"}\n'
    user = b'{"record":{"id":"u","name":"U","organization_id":"default"},"table":"user"}\n'
    body = head + user + line.encode() + b"\n"
    end = f'{{"end":"recollect-export-1","hash":"{hashlib.sha256(body).hexdigest()}","records":2}}\n'
    (tmp_path / "bad.jsonl").write_bytes(body + end.encode())
    with pytest.raises(InvalidInput):
        mem.import_(str(tmp_path / "bad.jsonl"))
    assert list(mem.user.list()) == []


def test_with_another_embedder_verify_says_once_what_all_memories_lack(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "test.db", embedder="hash") as mem:
        first = min(mem.remember(f"fact {number}").id for number in range(30))
    other = {"provider": "hash", "dimensions": 32}
    with recollect.open(tmp_path / "test.db", embedder=other) as mem:
        problems = mem.verify().problems
        assert [(one.count, one.id, one.table) for one in problems] == [(30, first, "memory")]
        assert "has no vector by" in problems[0].what
        said = next(one.says for one in mem.doctor().findings if one.name == "indexes")
        assert "30 problems" in said


def test_a_disagreeing_index_names_no_memory_of_anybody(mem: Any) -> None:
    """It is made of all tenants' vectors."""
    foreign = mem.within("globex")
    hidden = [foreign.remember(f"secret {number}").id for number in range(3)]
    assert mem.verify().sound
    mem._core.vectors._state.unsealed._parts.clear()
    said = mem.verify()
    assert [one.count for one in said.problems] == [3]
    assert not any(id in said.model_dump_json() for id in hidden)


def test_kinds_that_this_program_does_not_know_are_counted(each: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    each.remember("a plain fact")
    recollect.define_kind("incident")
    try:
        each.remember("the pump broke", kind="incident")
        each.remember("the roof leaks", kind="incident")
    finally:
        KINDS.pop("incident")
    assert each.stats().kinds == {"fact": 1, "incident": 2}


def test_doctor_goes_by_what_is_wrong_and_not_by_how_it_is_worded(each: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    each.remember("the vector of the text index")
    store = each._core.store
    found = [Problem("its vector points at nothing in the text index", "memory", "m")]
    monkeypatch.setattr(store, "verify", lambda: found)
    assert {one.name: one.well for one in each.doctor().findings if one.name in ("records", "indexes")} == {
        "records": False, "indexes": True,
    }  # fmt: skip
    found[:] = [Problem("something else", "memory", "m", part="index")]
    assert {one.name: one.well for one in each.doctor().findings if one.name in ("records", "indexes")} == {
        "records": True, "indexes": False,
    }  # fmt: skip
    assert each.verify().problems[0].part == "index"
