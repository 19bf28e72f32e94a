"""Of a damaged store, an export writes what can be read and names what cannot; `verify` gets to its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EVERY_STORE
from recollect import cite
from recollect.domain.memory import Memory
from recollect.errors import DamagedData
from recollect.interfaces.cli.main import run
from recollect.ports.steps import Put
from serving import served

MANY = 40
TEXT = "the harbour master keeps a very long book about every ship "


def filled(address: str, many: int = MANY) -> Any:
    mem = recollect.open(address, embedder={"provider": "hash"})
    for number in range(many):
        said = [cite.user("ann", f"said {number}")]
        mem.remember(f"{TEXT * 30}marker{number:03}x", id=f"m{number:03}", cites=said, tags=["ship"])
    mem.relate("m001", "m002", "supports")
    return mem


def falsified(mem: Any, id: str) -> None:
    """Another content under the old hash."""
    found = mem._core.store.get(mem._scope, Memory, id)
    wrong = found.model_copy(update={"content": {"text": "the harbour master is a liar"}})
    mem._core.store.transact(mem._scope, [Put(wrong, restoring=True)])


def spoiled(path: Path, mark: bytes) -> None:
    """A byte of the page that holds this, on disk alone: its checksum is wrong now."""
    raw = bytearray(path.read_bytes())
    raw[raw.index(mark)] ^= 0x55
    path.write_bytes(raw)


def kept(file: Path, folder: Path) -> tuple[Any, set[str]]:
    """What a new store has of the file."""
    with recollect.open(folder / "anew.db", embedder={"provider": "hash"}) as anew:
        reply = anew.import_(str(file))
        anew.reindex()
        assert anew.verify().problems == []
        return reply, {one.id for one in anew.list(limit=500).memories}


@pytest.mark.parametrize("kind", [*EVERY_STORE, "memory"])
def test_a_memory_that_is_not_what_its_hash_says_is_left_out_with_its_parts(kind: str, tmp_path: Path) -> None:
    address = "memory://" if kind == "memory" else EVERY_STORE[kind](tmp_path)
    file = tmp_path / "saved.jsonl"
    with filled(address, 6) as mem:
        falsified(mem, "m001")
        with pytest.raises(DamagedData, match=r"memory 'm001' is damaged.*--damaged skip"):
            mem.export(str(file))
        assert not file.exists()
        saved = mem.export(str(file), damaged="skip")
    assert [(one.table, one.id, one.count) for one in saved.left_out if one.table == "memory"] == [
        ("memory", "m001", 1)
    ]
    parts = {one.table for one in saved.left_out} - {"memory"}
    assert {"citation", "tag", "relationship"} <= parts
    told, ids = kept(file, tmp_path)
    assert ids == {"m000", "m002", "m003", "m004", "m005"}
    assert (told.hash, told.left_out) == (saved.hash, saved.left_out)


def test_a_page_with_a_wrong_checksum_costs_what_lies_on_it_and_no_more(tmp_path: Path) -> None:
    path, file = tmp_path / "store.db", tmp_path / "saved.jsonl"
    filled(str(path)).close()
    spoiled(path, b"marker017x")
    with recollect.open(path, embedder={"provider": "hash"}) as mem:
        with pytest.raises(DamagedData, match="--damaged skip"):
            mem.export(str(file))
        saved = mem.export(str(file), damaged="skip")
        problems = mem.verify().problems
    lost = {one.id for one in saved.left_out if one.table == "memory"}
    assert lost
    assert lost <= {one.id for one in problems if one.table == "memory"}
    _, ids = kept(file, tmp_path)
    assert ids
    assert len(ids) + sum(one.count or 0 for one in saved.left_out if one.table == "memory") == MANY


def test_verify_names_what_comes_after_the_first_damage_too(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with filled(str(path)) as mem:
        falsified(mem, "m030")
        _break_text(mem, "m002")
        found = mem.verify()
    said = [(one.table, one.id, one.what.partition(":")[0]) for one in found.problems]
    assert said.count(("memory", "m002", "cannot be read")) == 1
    assert ("memory", "m030", "its content does not match its hash") in said
    assert found.memories == MANY


def _break_text(mem: Any, id: str) -> None:
    """What is no JSON, as a program would write it that knows how to make checksums."""
    store = mem._core.store
    store._writer.run(lambda: store._tables.run("UPDATE memory SET metadata = '{broken' WHERE id = ?", (id,)))


def test_a_row_that_is_no_json_is_a_typed_error_and_can_be_left_out(tmp_path: Path) -> None:
    path, file = tmp_path / "store.db", tmp_path / "saved.jsonl"
    with filled(str(path), 5) as mem:
        _break_text(mem, "m002")
        with pytest.raises(DamagedData):
            mem.show("m002")
        saved = mem.export(str(file), damaged="skip")
    assert [one.id for one in saved.left_out if one.table == "memory"] == ["m002"]
    assert kept(file, tmp_path)[1] == {"m000", "m001", "m003", "m004"}


def test_an_item_with_a_wrong_checksum_is_left_out_of_a_dynamodb_export(tmp_path: Path) -> None:
    file = tmp_path / "saved.jsonl"
    with filled(EVERY_STORE["dynamodb"](tmp_path), 5) as mem:
        store = mem._core.store
        tenant = store.tenant(mem.organization)
        partitions = tenant.keys_at(tenant.head()).records("memory")
        items = [item for partition in partitions for item in store.dynamo.query(partition)]
        spoilt = next(item for item in items if (item.get("d") or item["s"]) == "m002")
        spoilt["b"] = bytes(spoilt["b"])[:-1] + b"?"
        store.dynamo.put_all([spoilt])
    with recollect.open(store.address, embedder={"provider": "hash"}) as mem:
        with pytest.raises(DamagedData, match="--damaged skip"):
            mem.export(str(file))
        saved = mem.export(str(file), damaged="skip")
        assert ("memory", "m002") in {(one.table, one.id) for one in mem.verify().problems}
    assert [one.id for one in saved.left_out if one.table == "memory"] == ["m002"]
    assert kept(file, tmp_path)[1] == {"m000", "m001", "m003", "m004"}


def test_a_damaged_index_of_ids_costs_a_range_that_is_named(tmp_path: Path) -> None:
    path, file = tmp_path / "store.db", tmp_path / "saved.jsonl"
    mem = recollect.open(path, embedder={"provider": "hash"})
    ids = [f"{number:04}-{'i' * 200}" for number in range(100)]
    for number, id in enumerate(ids):
        mem.agent.add(f"agent {number}", id=id)
    mem.close()
    _spoil_index(path, ids[50].encode())
    with recollect.open(path, embedder={"provider": "hash"}) as mem:
        saved = mem.export(str(file), damaged="skip")
        assert not mem.verify().sound
    gap = next(one for one in saved.left_out if one.table == "agent")
    assert gap.count is None
    assert gap.id < ids[50] < gap.to
    written = [json.loads(line).get("record", {}).get("id") for line in file.read_bytes().splitlines()]
    assert {ids[0], ids[-1]} <= set(written)


def _spoil_index(path: Path, mark: bytes) -> None:
    """Every leaf of an index that holds this: its pages begin with a 10."""
    raw, spoiled = bytearray(path.read_bytes()), 0
    for start in range(0, len(raw), 4096):
        if raw[start] == 10 and mark in raw[start : start + 4096]:
            raw[start + 4000] ^= 0x55
            spoiled += 1
    assert spoiled
    path.write_bytes(raw)


def test_a_service_says_no_before_it_sends_anything_and_saves_what_is_left_when_told(tmp_path: Path) -> None:
    file = tmp_path / "saved.jsonl"
    with filled(str(tmp_path / "s.db"), 4) as mem:
        falsified(mem, "m001")
    with served(tmp_path) as found, recollect.connect(*found) as mem:
        with pytest.raises(DamagedData, match="--damaged skip"):
            mem.export(str(file))
        assert list(tmp_path.glob("saved*")) == []
        saved = mem.export(str(file), damaged="skip")
    assert "m001" in {one.id for one in saved.left_out}
    assert kept(file, tmp_path)[1] == {"m000", "m002", "m003"}


def test_the_command_line_saves_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOLLECT_EMBEDDER__PROVIDER", "hash")
    with filled("store.db", 4) as mem:
        falsified(mem, "m001")
    assert run(["--store", "store.db", "export", "saved.jsonl"]) != 0
    assert "--damaged skip" in capsys.readouterr().err
    assert run(["--store", "store.db", "export", "saved.jsonl", "--damaged", "skip"]) == 0
    assert "m001" in capsys.readouterr().out
    assert run(["--store", "store.db", "verify"]) != 0
    assert "m001" in capsys.readouterr().out
