"""Erased means that no byte is left of a person: markers are planted in everything that there is, on every store."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EVERY_STORE
from filling import fill
from recollect.domain.record import RECORDS, Record
from recollect.ports.query import Query
from recollect.services.admin.export import record_line

WORD = "zqmarker4711"
MARK = "qzid8086"
# They belong to the organization: who made them is erased, not they.
STRUCTURE = {"bee", "source", "source-version", "object", "table", "field", "connection", "query", "owed", "held"}
STRUCTURE |= {
    "erasure",
    "cold",
    "moved",
    "cold memory",
    "cold link",
    "rule",
    "clock",
    "hold",
    "certificate",
    "backup",
    "own secret",
    "kind",
}


def marked(name: str) -> str:
    return name if name in STRUCTURE else f"{name}-{MARK}"


def records(mem: Any) -> Iterator[Record]:
    for record in RECORDS.values():
        yield from mem._core.store.find(mem._scope, Query(record, deleted="yes")).records


def has_mark(raw: bytes) -> list[str]:
    """Which of the markers are in some bytes, as they are or in hexadecimal or compressed."""
    forms = [raw]
    for start in (0, 1):
        try:
            forms.append(zlib.decompressobj().decompress(raw[start:]))
        except zlib.error:
            continue
    marks = (WORD, MARK)
    return [one for one in marks for form in forms if one.encode() in form or one.encode().hex().encode() in form]


def left_in_files(folder: Path) -> dict[str, list[str]]:
    every = [path for path in folder.rglob("*") if path.is_file()]
    return {path.name: found for path in every if (found := has_mark(path.read_bytes()))}


def left_in_tables(store: Any) -> dict[str, list[str]]:
    """Every row of every table that the server has of this store, read as its owner."""
    left: dict[str, list[str]] = {}
    with store.as_owner() as connection:
        named = "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"
        for (table,) in connection.execute(named).fetchall():
            for (row,) in connection.execute(f'SELECT t::text FROM "{table}" t').fetchall():
                if found := has_mark(row.encode()):
                    left.setdefault(table, []).extend(found)
    return left


def left_in_items(store: Any) -> dict[str, list[str]]:
    """Every attribute of every item; but ids of what was deleted stay in the log, and where it tells of a deletion."""
    left: dict[str, list[str]] = {}
    for item in store.dynamo.everything():
        is_log = "\x1fl" in item["p"] or item.get("z")
        for value in item.values():
            found = has_mark(value if isinstance(value, bytes) else str(value).encode())
            if found := [one for one in found if not (is_log and one == MARK)]:
                left.setdefault(item["p"], []).extend(found)
    return left


def planted(mem: Any, folder: Path) -> None:
    """Something of every record by and about Ann, and a little of Bob's that names her."""
    ann = mem.within(actor=marked("ann"))
    fill(ann, WORD, folder, marked)
    mem.user.add("Bob", id="bob")
    mem.session.add("Bob's", id="his", user="bob")
    mem.message.add("user", f"Nice weather, says Ann {WORD}", session="his", user="bob")
    mem.remember(f"Ann {WORD} has a boat", user="bob", id="boat", tags=[WORD], metadata={"who": WORD})
    mem.revise("boat", f"Ann {WORD} sold her boat", why=f"{WORD} said so")
    mem.remember("Bob sails on Sundays", user="bob", id="sails")
    mem.reindex()


@pytest.mark.parametrize("kind", EVERY_STORE)
def test_a_marker_in_everything_is_in_nothing_after_the_erasure(kind: str, tmp_path: Path) -> None:
    store, beside = tmp_path / "store", tmp_path / "beside"
    store.mkdir(), beside.mkdir()
    address = EVERY_STORE[kind](store)
    with recollect.open(address, embedder="hash", citation_root=beside) as mem:
        planted(mem, beside)
        assert {one.shape.table for one in records(mem) if has_mark(record_line(one))} >= {
            "memory",
            "execution",
            "cycle",
        }
        reply = mem.privacy.erase(user=marked("ann"), also=[WORD], requested_by=f"Ann {WORD}", reason=f"{WORD} asked")
        assert reply.clean, [place for place in reply.certificate["scan"]["places"] if place["found"]]
        assert [record_line(one)[:300] for one in records(mem) if has_mark(record_line(one))] == []
        assert left_in_files(store) == {}
        if kind == "postgres":
            assert left_in_tables(mem._core.store) == {}
        if kind == "dynamodb":
            assert left_in_items(mem._core.store) == {}
        assert [hit.id for hit in mem.recall(WORD, by="words").hits] == []
        assert WORD not in mem.recall("boat").model_dump_json()
        assert mem.show("sails").text == "Bob sails on Sundays"
        assert [one.what for one in mem.verify().problems] == []
        assert mem.audit.verify().sound
        assert mem.privacy.verify(reply.certificate["id"]).sound
        if kind in ("sqlite", "duckdb"):
            mem.backup(str(tmp_path / "backup"))
    assert left_in_files(store) == {}
    if kind in ("sqlite", "duckdb"):
        assert has_mark((tmp_path / "backup").read_bytes()) == []


def test_the_check_finds_what_is_left(tmp_path: Path) -> None:
    """A scan that always says clean would prove nothing."""
    with recollect.open(tmp_path / "a.db", embedder="hash") as mem:
        mem.user.add("Ann", id=marked("ann"))
        mem.user.add("Bob", id="bob")
        mem.remember(f"the harbour of {WORD}", user=marked("ann"))
        (tmp_path / "a.db-note").write_text(f"the harbour of {WORD}")
        reply = mem.privacy.erase(user=marked("ann"))
        found = {place["name"] for place in reply.certificate["scan"]["places"] if place["found"]}
        assert (reply.clean, found) == (False, {"a.db-note"})


@pytest.mark.parametrize("kind", EVERY_STORE)
def test_what_had_their_id_and_was_deleted_before_leaves_none_of_it(kind: str, tmp_path: Path) -> None:
    """A store remembers the ids of what was deleted, so that other processes learn of it."""
    id = f"ann-{MARK}"
    with recollect.open(EVERY_STORE[kind](tmp_path), embedder="hash") as mem:
        mem.agent.add("Bee", id=id)
        mem.agent.erase(id)
        mem.remember("Ann likes tea", user=id)
        reply = mem.privacy.erase(user=id)
        assert reply.clean, reply.certificate["scan"]
