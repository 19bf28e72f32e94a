"""From any store into any other: the same records, the same bytes, however often it was interrupted."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EVERY_STORE
from recollect import app
from recollect.adapters.records.in_memory import MemoryStore
from recollect.domain.memory import Memory, Tag
from recollect.domain.tenancy import Organization
from recollect.errors import Conflict, InvalidInput, NotFound, StoreBusy
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Insert, Update
from recollect.services.admin.copy import content_hash, copy
from recollect.testing.conformance import makers
from seeds import some

# From and to SQLite always; of the other pairs one, another with each seed, and all in a soak.
WITH_SQLITE = [pair for pair in product(EVERY_STORE, repeat=2) if "sqlite" in pair]
OTHERS = [pair for pair in product(EVERY_STORE, repeat=2) if "sqlite" not in pair]
COPIED, EXPORTED = ([*WITH_SQLITE, *some(1, OTHERS, purpose)] for purpose in ("copied", "exported"))


def filled(address: str) -> None:
    """A little of everything that hangs on memories, in two organizations."""
    with recollect.open(address, embedder="hash") as mem:
        for name in ("default", "acme ' \" % é"):
            one = mem.within(name, actor="ann")
            one.user.add("Ann", id="ann")
            first = one.remember(
                "Ann likes tea", cites=[recollect.cite.user("ann", "said")], tags=["drink"], user="ann"
            )
            one.remember("Ann likes coffee now", supersedes=first.id, metadata={"k": [1, -0.0, None, "é\u2028"]})
            gone = one.remember("a slip of the tongue")
            one.revise(gone.id, "a slip of the pen", why="better word")
            one.forget(gone.id)
            one.recall("tea")


@pytest.mark.parametrize(("here", "there"), COPIED)
def test_a_copy_holds_the_same_as_its_source(here: str, there: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    source, target = EVERY_STORE[here](tmp_path / "a"), EVERY_STORE[there](tmp_path / "b")
    filled(source)
    seen: list[tuple[int, int]] = []
    copied = app.copy(source, target, progress=lambda done, total: seen.append((done, total)))
    assert [one.organization for one in copied.organizations] == ["acme ' \" % é", "default"]
    assert copied.written == copied.records > 20
    assert seen[-1][0] == seen[-1][1]
    assert app.copy(source, target).written == 0
    for name in ("default", "acme ' \" % é"):
        files = [exported(address, name, tmp_path / f"{place}.jsonl") for place, address in enumerate((source, target))]
        assert files[0] == files[1]
    with recollect.open(target, embedder="hash") as mem:
        assert mem.recall("coffee").hits[0].text == "Ann likes coffee now"
        assert mem.verify().sound


@pytest.mark.parametrize(("here", "there"), EXPORTED)
def test_export_import_export_gives_the_same_bytes(here: str, there: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    source, target = EVERY_STORE[here](tmp_path / "a"), EVERY_STORE[there](tmp_path / "b")
    filled(source)
    first = exported(source, "default", tmp_path / "first.jsonl")
    with recollect.open(target, embedder="hash") as mem:
        mem.import_(str(tmp_path / "first.jsonl"))
    assert exported(target, "default", tmp_path / "second.jsonl") == first


def exported(address: str, organization: str, path: Path) -> bytes:
    with recollect.open(address, embedder="hash", organization=organization) as mem:
        mem.export(str(path))
    return path.read_bytes()


def stored(count: int, store: Any | None = None, organization: str = "acme") -> Any:
    store = store or MemoryStore()
    scope = Scope(organization)
    memories = [makers.memory(scope, f"m{number:05}") for number in range(count)]
    tags = [Tag(organization_id=organization, id=f"t{one.id}", memory_id=one.id, tag="x") for one in memories]
    store.transact(scope, [Insert(Organization(organization_id=organization, id=organization, name="A"))])
    store.transact(scope, [Insert(one) for one in (*memories, *tags)])
    return store


class Failing(MemoryStore):
    """Takes so many transactions, then is busy."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def transact(self, scope: Scope, steps: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise StoreBusy("busy")
        return super().transact(scope, steps)


@pytest.mark.parametrize("stops_after", range(7))
def test_a_copy_that_was_stopped_goes_on_where_it_was(stops_after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recollect.services.admin.copy.BATCH", 50)
    source, target = stored(120), Failing(stops_after)
    with pytest.raises(StoreBusy):
        copy(source, target)
    had = sum(target.count(Scope("acme"), Query(one, deleted="yes")) for one in (Organization, Memory, Tag))
    target.left = 100
    copied = copy(source, target)
    assert copied.written == 241 - had
    assert content_hash(source, Scope("acme")) == content_hash(target, Scope("acme")) == copied.organizations[0].hash


def test_what_changed_since_is_brought_over() -> None:
    source, target = stored(3), MemoryStore()
    copy(source, target)
    changed = source.get(Scope("acme"), Memory, "m00001").changed(text="new")
    source.transact(Scope("acme"), [Update(changed)])
    assert copy(source, target).written == 1
    assert target.get(Scope("acme"), Memory, "m00001") == source.get(Scope("acme"), Memory, "m00001")


def test_a_target_with_more_in_it_is_left_alone() -> None:
    source, target = stored(3), stored(5)
    source.transact(Scope("acme"), [Update(source.get(Scope("acme"), Memory, "m00001").changed(text="new"))])
    before = content_hash(target, Scope("acme"))
    with pytest.raises(Conflict, match="2 of memory, 2 of tag") as told:
        copy(source, target)
    assert "import" in told.value.remedy
    assert content_hash(target, Scope("acme")) == before


@pytest.mark.parametrize("kind", EVERY_STORE)
def test_what_was_deleted_and_replaced_since_is_followed(kind: str, tmp_path: Path) -> None:
    address, target = EVERY_STORE[kind](tmp_path), str(tmp_path / "target.db")
    filled(address)
    with recollect.open(address, embedder="hash") as mem:
        first, second = mem.remember("Bob likes tea", tags=["a"]).id, mem.remember("Bob likes water").id
    app.copy(address, target)
    with recollect.open(address, embedder="hash") as mem:
        mem.revise(first, "Bob likes milk", why="he said so", tags=["changed"])
        mem.erase(second)
        mem.within("acme ' \" % é").user.remove("ann", for_good=True)
    assert app.copy(address, target).written > 0
    for name in ("default", "acme ' \" % é"):
        files = [exported(place, name, tmp_path / "out.jsonl") for place in (address, target)]
        assert files[0] == files[1]
    with recollect.open(target, embedder="hash") as mem:
        assert mem.verify().sound


def test_a_target_that_was_used_on_its_own_keeps_what_it_has(tmp_path: Path) -> None:
    source, target = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    filled(source)
    app.copy(source, target)
    with recollect.open(target, embedder="hash") as mem:
        id = mem.list().memories[0].id
        mem.revise(id, "written in the copy", why="by mistake")
    with recollect.open(source, embedder="hash") as mem:
        mem.revise(id, "written in the source", why="first")
        mem.revise(id, "written in the source again", why="second")
    with pytest.raises(Conflict, match="never had"):
        app.copy(source, target)
    with recollect.open(target, embedder="hash") as mem:
        assert mem.show(id).text == "written in the copy"


def test_what_is_written_while_copying_is_brought_over_by_the_next_copy() -> None:
    source, target = stored(3), MemoryStore()
    more = iter(range(100, 102))

    def write(done: int, total: int) -> None:
        for number in more:
            one = makers.memory(Scope("acme"), f"m{number:05}")
            tag = Tag(organization_id="acme", id=f"t{one.id}", memory_id=one.id, tag="x")
            source.transact(Scope("acme"), [Insert(one), Insert(tag)])
            return

    assert copy(source, target, progress=write).written == 7
    assert target.count(Scope("acme"), Query(Tag)) == 3
    assert copy(source, target).written == 4
    assert target.count(Scope("acme"), Query(Tag)) == 5


def test_chosen_organizations_only() -> None:
    source, target = stored(2, stored(1), "globex"), MemoryStore()
    assert [one.organization for one in copy(source, target, ["globex"]).organizations] == ["globex"]
    assert target.tenants() == ["globex"]
    with pytest.raises(InvalidInput, match="no organization 'nobody'") as error:
        copy(source, target, ["nobody"])
    assert "acme, globex" in error.value.remedy
    with pytest.raises(InvalidInput, match="is empty"):
        copy(MemoryStore(), target)


def test_a_source_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no store '.*nowhere\.db'"):
        app.copy(tmp_path / "nowhere.db", tmp_path / "b.db")
    with pytest.raises(InvalidInput, match="the same store"):
        app.copy(tmp_path / "a.db", tmp_path / "a.db")
    assert list(tmp_path.iterdir()) == []
