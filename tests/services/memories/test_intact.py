"""What is shown is compared with its hash, on every store and by every way to see it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EMPTY_STORE
from recollect.domain.kinds import KINDS, Content
from recollect.domain.memory import Memory, Revision
from recollect.errors import DamagedData
from recollect.ports.query import Query
from recollect.ports.steps import Put

WAYS: dict[str, Callable[[Any, str], object]] = {
    "show": lambda mem, id: mem.show(id),
    "history": lambda mem, id: mem.history(id),
    "revise": lambda mem, id: mem.revise(id, content="Pay 2000 euros"),
    "promote": lambda mem, id: mem.promote(id),
}


AMONG_OTHERS: dict[str, Callable[[Any], tuple[Any, str]]] = {
    "recall": lambda mem: (mem.recall("how many euros"), "hits"),
    "by words": lambda mem: (mem.recall("euros", by="words"), "hits"),
    "by meaning": lambda mem: (mem.recall("how many euros", by="meaning"), "hits"),
    "list": lambda mem: (mem.list(), "memories"),
}


def damage(mem: Any, id: str, **fields: Any) -> None:
    """Change what is stored behind the back of the services."""
    stored = mem._core.store.get(mem._scope, Memory, id)
    mem._core.store.transact(mem._scope, [Put(stored.changed(**fields))])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "fields",
    [
        {"content": {"text": "Pay 9000 euros"}, "text": "Pay 9000 euros"},
        {"content": {"text": "Pay 9000 euros"}},
        {"text": "Pay 9000 euros"},
    ],
    ids=["both", "content", "text"],
)
def test_a_changed_memory_is_an_error_that_names_it(each: Any, way: str, fields: dict[str, Any]) -> None:
    id = each.remember("Pay 1000 euros", cites=["user:ann:said so"]).id
    WAYS["show"](each, id)
    damage(each, id, **fields)
    with pytest.raises(DamagedData) as caught:
        WAYS[way](each, id)
    assert caught.value.details["id"] == id


@pytest.mark.parametrize("way", AMONG_OTHERS)
def test_among_others_a_changed_memory_is_left_out_and_named(each: Any, way: str) -> None:
    id = each.remember("Pay 1000 euros").id
    other = each.remember("Pay 20 euros for the harbour").id
    damage(each, id, content={"text": "Pay 9000 euros"}, text="Pay 9000 euros")
    shown, field = AMONG_OTHERS[way](each)
    assert [one.id for one in getattr(shown, field)] == [other]
    assert any(id in note and "damaged" in note for note in shown.notes)


def test_a_changed_memory_is_not_packed_into_a_prompt(each: Any) -> None:
    id = each.remember("Pay 1000 euros").id
    damage(each, id, content={"text": "Pay 9000 euros"}, text="Pay 9000 euros")
    packed = each.context("how many euros")
    assert "9000" not in packed.text
    assert any(id in note for note in packed.notes)


@pytest.mark.parametrize("kind", ["duckdb", "dynamodb", "postgres"])
def test_every_store_is_looked_at_alike(kind: str, tmp_path: Path) -> None:
    with recollect.open(EMPTY_STORE[kind](tmp_path), embedder="hash") as mem:
        id = mem.remember("Pay 1000 euros").id
        other = mem.remember("The harbour opens at nine").id
        damage(mem, id, content={"text": "Pay 9000 euros"}, text="Pay 9000 euros")
        with pytest.raises(DamagedData):
            mem.show(id)
        assert id not in [hit.id for hit in mem.recall("euros")]
        assert [one.id for one in mem.list().memories] == [other]
        assert mem.show(other).text == "The harbour opens at nine"
        mem.erase(id)
        assert [one.id for one in mem.list().memories] == [other]


def test_a_changed_former_state_is_an_error(each: Any) -> None:
    id = each.remember("Pay 1000 euros").id
    before = datetime.now(UTC)
    each.revise(id, content="Pay 2000 euros")
    (revision,) = each._core.store.find(each._scope, Query(Revision)).records
    state = {**revision.state, "content": {"text": "Pay 9000 euros"}, "text": "Pay 9000 euros"}
    each._core.store.transact(each._scope, [Put(revision.changed(state=state, text="Pay 9000 euros"))])
    with pytest.raises(DamagedData):
        each.history(id)
    with pytest.raises(DamagedData):
        each.recall("Pay euros", as_of=before)


def test_a_kind_of_a_user_may_learn_to_read_differently(each: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "ticket", KINDS["fact"])  # so that it is gone after the test
    del KINDS["ticket"]
    recollect.define_kind("ticket")
    id = each.remember({"text": "T-1", "state": "open"}, kind="ticket").id

    class Ticket(Content):
        kind = "ticket"
        state: str = ""

        def as_text(self) -> str:
            return f"ticket {self.text} is {self.state}"

    recollect.define_kind("ticket", Ticket)
    assert each.show(id).kind == "ticket"


def test_a_damaged_memory_can_be_let_go_of(each: Any) -> None:
    first, second = each.remember("Pay 1000 euros").id, each.remember("Pay 3000 euros").id
    for id in (first, second):
        damage(each, id, text="Pay 9000 euros")
    each.forget(first)
    each.erase(second)
    assert each.list().memories == []


def test_a_byte_that_changed_in_the_log_is_not_served(tmp_path: Path) -> None:
    path = tmp_path / "team.db"
    with recollect.open(path, embedder="hash") as mem:
        id = mem.remember("Pay 1000 euros").id
        log = path.with_name("team.db-wal")
        raw = log.read_bytes()
        with log.open("r+b") as file:
            file.write(raw.replace(b"Pay 1000 euros", b"Pay 9000 euros"))
        with recollect.open(path, embedder="hash") as other:
            with pytest.raises(DamagedData):
                other.show(id)
            assert (other.recall("euros").hits, other.list().memories) == ([], [])


@pytest.mark.parametrize("by", ["all", "words", "meaning"])
def test_a_memory_that_cannot_be_read_does_not_keep_others_from_being_found(by: str, tmp_path: Path) -> None:
    opened: Any = recollect.open(tmp_path / "a.db", embedder="hash")
    with opened as mem:
        ids = [mem.remember(f"Pay {number} euros").id for number in range(9)]
        mem._core.store._tables._connection.execute("UPDATE memory SET content = '{' WHERE id = ?", (ids[4],))
        found = mem.recall("how many euros", **({} if by == "all" else {"by": by}))
        assert sorted(hit.id for hit in found.hits) == sorted(set(ids) - {ids[4]})
        assert [note for note in found.notes if ids[4] in note and "cannot be read" in note]


def test_a_memory_that_cannot_be_read_does_not_keep_others_from_being_listed(tmp_path: Path) -> None:
    opened: Any = recollect.open(tmp_path / "a.db", embedder="hash")
    with opened as mem:
        ids = [mem.remember(f"Pay {number} euros").id for number in range(9)]
        mem._core.store._tables._connection.execute("UPDATE memory SET content = '{' WHERE id = ?", (ids[4],))
        listed: list[str] = []
        notes: list[str] = []
        after = None
        while not listed or after:
            page = mem.list(limit=3, after=after)
            listed += [memory.id for memory in page.memories]
            notes += page.notes
            after = page.next
            assert page.total == 9
        assert listed == [id for id in reversed(ids) if id != ids[4]]
        (note,) = notes
        assert ids[4] in note
        assert "cannot be read" in note
