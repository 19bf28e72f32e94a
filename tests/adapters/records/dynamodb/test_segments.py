"""What a process made for searching is stored for those that come later, and deleted when something is erased."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import recollect
from dynamodb_meter import Meter
from dynamodb_server import dynamodb
from recollect.adapters.objects.folder import FolderObjects
from recollect.adapters.records.dynamodb.store import DynamoStore
from recollect.domain.memory import Embedding, Memory
from recollect.errors import InvalidSettings, Unavailable
from recollect.ports.query import Beside, Query
from recollect.ports.records import Scope
from recollect.ports.steps import Delete, Insert, Update
from recollect.testing.conformance.makers import NOON, embedding, found, memory, search, session, stored

SPACE = "long_term/m"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "objects"


class Processes:
    """Stores that open one table and share one storage, each as a process of its own would."""

    def __init__(self, folder: Path) -> None:
        self.address = dynamodb().new_store()
        self._folder = folder
        self._open: list[DynamoStore] = []

    def new(self, *, seal_rows: int = 20) -> DynamoStore:
        store = DynamoStore(self.address)
        store.keep_segments(FolderObjects(self._folder), seal_rows)
        self._open.append(store)
        return store

    def close(self) -> None:
        for store in self._open:
            store.close()


@pytest.fixture
def processes(folder: Path) -> Iterator[Processes]:
    with closing(Processes(folder)) as made:
        yield made


@pytest.fixture
def acme(processes: Processes) -> Scope:
    store = processes.new()
    scope = found(store, "acme")
    stored(store, scope, session(scope))
    texts = [memory(scope, f"m{n:03}", f"anchor word{n} zqmarker", session_id="talk") for n in range(150)]
    vectors = [embedding(scope, f"m{n:03}", os.urandom(2), id=f"v{n}") for n in range(150)]
    store.transact(scope, [Insert(one) for one in (*texts, *vectors)])
    return scope


def searched(store: DynamoStore, scope: Scope) -> tuple[Any, ...]:
    """All that a search asks of a store."""
    place = ("talk", NOON, "m005")
    with store.vectors_of(scope.organization_id).vector_snapshot() as moment:
        vectors = [(row.memory_id, row.vector) for row in moment.rows_after(0, 1000)]
    near = store.beside(scope, Beside(Memory, "session_id", "occurred_at", (place,), 2))
    return sorted(search(store, scope, "anchor", limit=1000)), sorted(vectors), near


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_process_that_comes_later_fetches_what_another_made(processes: Processes, acme: Scope, folder: Path) -> None:
    with closing(DynamoStore(processes.address)) as alone:
        meter = Meter(alone)
        with meter.cost() as reading:
            wanted = searched(alone, acme)
    assert len(wanted[0]) == 150
    assert searched(processes.new(), acme) == wanted
    assert len(files(folder)) == 1
    later = processes.new()
    meter = Meter(later)
    with meter.cost() as fetching:
        assert searched(later, acme) == wanted
    assert fetching.read_units <= 8 < reading.read_units
    assert fetching.write_units == 0


def test_what_changed_since_a_segment_was_made_is_followed(processes: Processes, acme: Scope) -> None:
    first = processes.new()
    searched(first, acme)
    kept = first.get(acme, Memory, "m001")
    assert kept is not None
    first.transact(acme, [Update(kept.changed(text="a lantern")), Delete(Memory, "m002"), Delete(Embedding, "v3")])
    stored(
        first, acme, memory(acme, "new", "an anchor", session_id="talk"), embedding(acme, "new", b"\x00\x3c", id="n")
    )
    later = processes.new()
    words, vectors, _ = searched(later, acme)
    assert words == sorted([*(f"m{n:03}" for n in range(150) if n not in (1, 2)), "new"])
    assert {id for id, _ in vectors} == {*(f"m{n:03}" for n in range(150) if n not in (2, 3)), "new"}
    assert search(later, acme, "lantern") == ["m001"]
    with closing(DynamoStore(processes.address)) as alone:
        assert searched(alone, acme) == searched(later, acme)


def test_a_new_segment_takes_the_place_of_the_old(processes: Processes, acme: Scope, folder: Path) -> None:
    first = processes.new()
    searched(first, acme)
    before = files(folder)
    more = [memory(acme, f"n{n:03}", f"anchor other{n}", session_id="talk") for n in range(150)]
    first.transact(acme, [Insert(one) for one in more])
    searched(first, acme)
    assert len(files(folder)) == 1
    assert files(folder) != before
    assert len(searched(processes.new(), acme)[0]) == 300


@pytest.mark.parametrize("harm", ["deleted", "damaged", "another format"])
def test_a_segment_that_cannot_be_used_only_costs_reading(
    processes: Processes, acme: Scope, folder: Path, harm: str
) -> None:
    first = processes.new()
    wanted = searched(first, acme)
    (path,) = files(folder)
    if harm == "deleted":
        path.unlink()
    elif harm == "damaged":
        path.write_bytes(path.read_bytes()[:-100] + os.urandom(100))
    else:
        key = (first.tenant("acme").keys.segments, "segment")
        first.dynamo.put_all([{**first.dynamo.get([key])[key], "f": "0"}])
    assert searched(processes.new(), acme) == wanted
    assert searched(processes.new(), acme) == wanted


def test_storage_that_is_away_keeps_nobody_from_searching(processes: Processes, acme: Scope, folder: Path) -> None:
    class Away(FolderObjects):
        def put(self, tenant: str, source: Any) -> Any:
            raise Unavailable("the storage is away", remedy="wait")

        def read(self, tenant: str, digest: str) -> Any:
            raise Unavailable("the storage is away", remedy="wait")

    searched(processes.new(), acme)
    with closing(DynamoStore(processes.address)) as store:
        store.keep_segments(Away(folder), 20)
        assert len(searched(store, acme)[0]) == 150


def test_a_segment_goes_when_something_was_erased(processes: Processes, acme: Scope, folder: Path) -> None:
    first = processes.new()
    searched(first, acme)
    assert b"zqmarker" in files(folder)[0].read_bytes()
    other = processes.new()
    other.erase_traces()  # nothing was erased
    first.transact(acme, [Delete(Memory, f"m{n:03}") for n in range(150)])
    first.erase_traces()
    assert files(folder) == []
    assert searched(other, acme) == ([], [], [[]])
    assert [path for path in files(folder) if b"zqmarker" in path.read_bytes()] == []


def test_who_erases_without_the_storage_of_a_segment_is_told(processes: Processes, acme: Scope) -> None:
    searched(processes.new(), acme)
    with closing(DynamoStore(processes.address)) as store:
        store.count(acme, Query(Memory))
        store.erase_traces()  # nothing was erased
        store.transact(acme, [Delete(Memory, "m001")])
        with pytest.raises(InvalidSettings, match="object storage"):
            store.erase_traces()


def test_a_segment_made_before_an_erasure_is_not_put_in_force_after_it(
    processes: Processes, acme: Scope, folder: Path
) -> None:
    slow, other = processes.new(), processes.new()

    class Slow(FolderObjects):
        """While it puts, somebody else erases."""

        def put(self, tenant: str, source: Any) -> Any:
            done = super().put(tenant, source)
            other.transact(acme, [Delete(Memory, "m001")])
            other.erase_traces()
            return done

    slow.keep_segments(Slow(folder), 20)
    assert len(searched(slow, acme)[0]) >= 149
    assert files(folder) == []
    assert slow.dynamo.query(slow.tenant("acme").keys.segments) == []


def test_through_the_client_content_is_swept_and_the_segment_stays(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("recollect.adapters.records.dynamodb.segments.SEAL_ROWS", 50)
    given: dict[str, Any] = {"embedder": "hash", "objects": str(tmp_path / "objects")}
    address = dynamodb().new_store()
    with recollect.open(address, **given) as mem:
        mem.remember_many([f"note {n} on the anchor" for n in range(300)])
        first = mem.recall("the anchor of note 7").hits[0].id
        assert len(files(tmp_path / "objects")) == 1
        mem.sweep()
        assert len(files(tmp_path / "objects")) == 1
    with recollect.open(address, **given) as mem:
        store: Any = mem._core.store
        meter = Meter(store)
        with meter.cost() as cost:
            assert mem.recall("the anchor of note 7").hits[0].id == first
        assert cost.by_operation["Query"] > 0
        assert mem.verify().sound
        mem.erase(first)
        assert files(tmp_path / "objects") == []
        assert first not in [hit.id for hit in mem.recall("the anchor of note 7").hits]


def test_where_the_store_is_encrypted_so_is_the_segment(tmp_path: Path) -> None:
    key = "ab" * 32
    given: dict[str, Any] = {"embedder": "hash", "objects": str(tmp_path / "objects"), "key": key}
    address = dynamodb().new_store()
    with recollect.open(address, **given) as mem:
        mem.remember_many([f"note {n} on the zqmarker" for n in range(300)])
        assert mem.recall("zqmarker 7").hits
        (path,) = files(tmp_path / "objects")
        assert b"zqmarker" not in path.read_bytes()
        assert b"SQLite" not in path.read_bytes()
    with recollect.open(address, **given) as mem:
        assert mem.recall("zqmarker 7").hits
