"""A damaged SQLite file is noticed, never believed: every read is right or a typed error."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.domain.memory import Embedding, Memory
from recollect.errors import DamagedData, NotARecollectStore, StoreError
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.testing.conformance.makers import embedding, found, ids, memory, search, stored
from seeds import SEED, SOAK

ACME = Scope("acme")
MANY = 150


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a store with memories and vectors, all in the main file."""
    path = tmp_path_factory.mktemp("sound") / "records.db"
    store = SqliteStore(path)
    found(store, "acme")
    store_all(store)
    store.close()
    assert list(path.parent.iterdir()) == [path]
    return path.read_bytes()


def store_all(store: SqliteStore) -> None:
    for number in range(MANY):
        stored(store, ACME, truth(number), embedding(ACME, f"m{number}", bytes([number]) * 999, id=f"e{number}"))


def truth(number: int) -> Memory:
    text = f"marker{number}x anchor " + "word " * (number % 40) * (number % 7)
    return memory(ACME, f"m{number}", text, metadata={"n": number}, created_at=NOW, updated_at=NOW)


NOW = memory(ACME).occurred_at


def reads(store: SqliteStore) -> Iterator[tuple[Callable[[], Any], Any]]:
    """Questions and their right answers."""
    for number in range(0, MANY, 3):
        yield partial(store.get, ACME, Memory, f"m{number}"), truth(number)
        yield partial(search, store, ACME, f"marker{number}x"), [f"m{number}"]
    yield (lambda: store.count(ACME, Query(Memory))), MANY
    yield (lambda: sorted(store.select(ACME, Query(Memory), ("id",)))), sorted((f"m{n}",) for n in range(MANY))
    yield (lambda: sorted(search(store, ACME, "anchor", limit=999))), sorted(f"m{n}" for n in range(MANY))
    yield (
        lambda: dict(store.select(ACME, Query(Embedding), ("id", "vector"))),
        {f"e{n}": bytes([n]) * 999 for n in range(MANY)},
    )
    yield (lambda: len(store.changes(ACME, 0))), 1 + 2 * MANY
    yield store.tenants, ["acme"]


def look(path: Path) -> tuple[int, int]:
    """How many answers were right, and how many were refused; a wrong one fails the test."""
    right = refused = 0
    try:
        store = SqliteStore(path)
    except StoreError:
        return 0, 1
    try:
        for question, answer in reads(store):
            try:
                assert question() == answer
            except StoreError:
                refused += 1
            else:
                right += 1
        problems = store.verify()
        assert problems or not refused, "verify must find what a read stumbled over"
    finally:
        store.close()
    return right, refused


def damaged(path: Path, sound: bytes, position: int, flip: int) -> Path:
    path.unlink(missing_ok=True)
    broken = bytearray(sound)
    broken[position] ^= flip
    path.write_bytes(broken)
    return path


def test_a_sound_file_answers_everything(tmp_path: Path, sound: bytes) -> None:
    path = tmp_path / "records.db"
    path.write_bytes(sound)
    right, refused = look(path)
    assert (right > 100, refused) == (True, 0)


@pytest.mark.parametrize("seed", range(30 if SOAK else 3))
def test_a_flipped_byte_anywhere_is_noticed_or_harmless(tmp_path: Path, sound: bytes, seed: int) -> None:
    chance = random.Random(f"flips {SEED} {seed}")
    noticed = 0
    for _ in range(14):
        position, flip = chance.randrange(len(sound)), chance.randrange(1, 256)
        print("flipped", position, flip)
        noticed += look(damaged(tmp_path / "records.db", sound, position, flip))[1] > 0
    assert noticed > 0


def test_a_flipped_bit_in_the_header_is_noticed(tmp_path: Path, sound: bytes) -> None:
    for position in range(100):
        path = damaged(tmp_path / "records.db", sound, position, 1 << (position % 8))
        print("flipped", position)
        with pytest.raises((DamagedData, NotARecollectStore)):
            SqliteStore(path)


@pytest.mark.parametrize("flip", [0x08, 0x01, 0xFF])
def test_the_checksums_cannot_be_switched_off_by_damage(tmp_path: Path, sound: bytes, flip: int) -> None:
    assert sound[20] == 8
    with pytest.raises(DamagedData):
        SqliteStore(damaged(tmp_path / "records.db", sound, 20, flip))


def test_verify_names_the_record_whose_page_is_hit(tmp_path: Path, sound: bytes) -> None:
    position = sound.index(b"marker77x anchor")
    store = SqliteStore(damaged(tmp_path / "records.db", sound, position + 3, 0x20))
    with pytest.raises(DamagedData):
        store.get(ACME, Memory, "m77")
    problems = store.verify()
    assert ("memory", "m77", "acme") in {(one.table, one.id, one.organization_id) for one in problems}
    assert store.get(ACME, Memory, "m1") == truth(1)
    assert "m1" not in {one.id for one in problems}
    store.close()


def test_a_damaged_page_is_noticed_by_a_store_that_is_open(tmp_path: Path, sound: bytes) -> None:
    path = tmp_path / "records.db"
    path.write_bytes(sound)
    store = SqliteStore(path)
    with path.open("r+b") as file:
        file.seek(sound.index(b"marker77x anchor"))
        file.write(b"forged!!!")
    with pytest.raises(DamagedData):
        store.get(ACME, Memory, "m77")
    store.close()


def test_a_truncated_file_is_noticed(tmp_path: Path, sound: bytes) -> None:
    path = tmp_path / "records.db"
    for part in (2, 4, 8):
        path.unlink(missing_ok=True)
        path.write_bytes(sound[: len(sound) // part // 4096 * 4096])
        assert look(path)[1] > 0


def test_a_backup_is_guarded_by_checksums_too(tmp_path: Path, sound: bytes) -> None:
    path, copy = tmp_path / "records.db", tmp_path / "copy.db"
    path.write_bytes(sound)
    store = SqliteStore(path)
    store.backup(copy)
    store.close()
    raw = copy.read_bytes()
    damaged(copy, raw, raw.index(b"marker77x anchor") + 3, 0x20)
    broken = SqliteStore(copy)
    with pytest.raises(DamagedData):
        broken.get(ACME, Memory, "m77")
    assert ids(broken, ACME, Query(Memory, limit=0)) == []
    broken.close()


def test_a_damaged_store_cannot_be_backed_up_silently(tmp_path: Path, sound: bytes) -> None:
    path = damaged(tmp_path / "records.db", sound, sound.index(b"marker77x anchor") + 3, 0x20)
    store = SqliteStore(path)
    with pytest.raises(DamagedData):
        store.backup(tmp_path / "copy.db")
    store.close()
