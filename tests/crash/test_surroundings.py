"""A full or read-only disk, no memory, damaged or vanished files: a typed error or the right answer, and work goes on.

Damage is reported by `verify` and `doctor`; what is derived is made again, what is lost is said to be lost.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest

import recollect
from recollect.adapters.records.sqlite.connection import connect
from recollect.domain.record import RECORDS
from recollect.errors import (
    EmbedderFailed,
    RecollectError,
    StoreError,
    StoreFull,
    StoreReadOnly,
    Unavailable,
)
from recollect.testing.fakes import HashEmbedder

MANY = 60


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What is set aside, or cannot be noted down, is logged as it should be."""
    caplog.set_level(logging.CRITICAL, "recollect")


# -- a store whose answers are known -----------------------------------------------------------------------------------


def text_of(number: int) -> str:
    return " ".join([f"anchor w{number}w", *(f"filler{number}x{word}" for word in range(number % 30))])


@dataclass
class Known:
    """A closed store, every memory of it, and a copy to break."""

    path: Path
    ids: dict[int, str]

    def copy(self, folder: Path) -> Path:
        target = folder / "copy.db"
        for old in folder.glob("copy.db*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        shutil.copy(self.path, target)
        shutil.copytree(f"{self.path}.index", f"{target}.index")
        return target


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Known:
    path = tmp_path_factory.mktemp("known") / "store.db"
    with recollect.open(path, embedder="hash") as mem:
        cites = [recollect.cite.user("alice", "said so")]
        texts: list[Any] = [{"content": text_of(n), "tags": ["t", f"t{n}"], "cites": cites} for n in range(MANY)]
        receipts = mem.remember_many(texts).receipts
        mem.remember("beside", namespaces=["long_term", "other"])
        mem.reindex()
    assert sorted(file.suffix for file in Path(f"{path}.index").iterdir()) == ["", ".seg"]
    return Known(path, {number: receipt.id for number, receipt in enumerate(receipts)})


def tagged(mem: Any, tag: str) -> list[str]:
    return [one.text for one in mem.list(tags=[tag]).memories]


def look(mem: Any, known: Known, chance: random.Random) -> int:
    """Asks for memories by id, words and tag, and for figures: each answer is right, or refused. How many were."""
    refused = 0
    for number in chance.sample(range(MANY), 8):
        refused += is_refused(lambda n=number: mem.show(known.ids[n]).text == text_of(n))  # type: ignore[misc]
        refused += is_refused(lambda n=number: mem.recall(f"what about w{n}w?")[0].text == text_of(n))  # type: ignore[misc]
        refused += is_refused(lambda n=number: tagged(mem, f"t{n}") == [text_of(n)])  # type: ignore[misc]
    refused += is_refused(lambda: mem.stats().memories == MANY + 1)
    refused += is_refused(lambda: mem.list().total == MANY + 1)
    return refused


def is_refused(answer_is_right: Callable[[], bool]) -> bool:
    try:
        assert answer_is_right()
    except RecollectError:
        return True
    return False


def flip(path: Path, position: int, bits: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ bits]))


# -- no room, no permission, no memory ---------------------------------------------------------------------------------


@pytest.fixture
def small_disk(new_disk: Callable[[str], Path]) -> Path:
    return new_disk("8m")


def write_until_refused(mem: Any, name: str) -> tuple[dict[str, str], RecollectError]:
    """What was acknowledged, and how it ended."""
    acknowledged: dict[str, str] = {}
    for number in range(5_000):
        text = f"anchor {name}n{number} " + "word " * 50
        try:
            acknowledged[mem.remember(text, tags=["t"]).id] = text.strip()
        except RecollectError as error:
            return acknowledged, error
    raise AssertionError("the disk never filled up")


def texts_of(mem: Any) -> dict[str, str]:
    return {line.id: line.text.strip() for line in mem.list(limit=1000).memories}


def test_a_full_disk_is_told_harms_nothing_and_is_over_when_there_is_room(
    small_disk: Path, fill: Any, opened: Any, compare: Any
) -> None:
    mem = opened(small_disk / "store.db")
    first = mem.remember("anchor the first").id
    ballast = fill(small_disk, leave=1_500_000)
    acknowledged, error = write_until_refused(mem, "full")
    assert isinstance(error, StoreFull), error
    assert len(acknowledged) > 3
    assert texts_of(mem) == {first: "anchor the first", **acknowledged}
    assert mem.recall("the first")[0].id == first
    compare.assert_indexes_equal_records(mem, {first, *acknowledged})
    with pytest.raises(StoreFull):
        mem.remember_many([f"anchor too much {n} " + "word " * 500 for n in range(200)])
    ballast.unlink()
    later = mem.remember("anchor there is room again").id
    compare.assert_indexes_equal_records(mem, {first, later, *acknowledged})
    mem.close()
    assert opened(small_disk / "store.db").doctor().well


def test_writers_that_share_a_commit_on_a_full_disk_are_each_told_the_truth(tmp_path: Path, opened: Any) -> None:
    mem = opened(tmp_path / "store.db")
    connection = mem._core.store._tables._connection
    connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').get + 60}")
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda name: write_until_refused(mem, name), ["a", "b", "c", "d"]))
    assert [error.code for _, error in outcomes] == ["store_full"] * 4
    assert texts_of(mem) == {id: text for acknowledged, _ in outcomes for id, text in acknowledged.items()}
    connection.execute("PRAGMA max_page_count = 1000000")
    mem.remember("anchor there is room again")
    assert mem.verify().sound


def test_a_backup_without_room_leaves_nothing_that_could_be_taken_for_one(
    small_disk: Path, fill: Any, known: Known
) -> None:
    ballast = fill(small_disk, leave=100_000)
    with recollect.open(known.path, embedder="hash") as mem:
        with pytest.raises(Unavailable):
            mem.backup(str(small_disk / "copy.db"))
        assert list(small_disk.iterdir()) == [ballast]
        ballast.unlink()
        mem.backup(str(small_disk / "copy.db"))
    with recollect.open(small_disk / "copy.db", embedder="hash") as copy:
        assert copy.verify().memories == MANY + 1


@contextmanager
def read_only(*paths: Path) -> Iterator[None]:
    """Nobody may write these, not even root, for whom permissions do not count."""
    if os.geteuid() == 0:
        locked = subprocess.run(["chattr", "+i", *map(str, paths)], capture_output=True)
        if locked.returncode:
            pytest.skip(f"cannot make files immutable here: {locked.stderr.decode().strip()}")
        try:
            yield
        finally:
            subprocess.run(["chattr", "-i", *map(str, paths)], check=True)
    else:
        before = {path: path.stat().st_mode for path in paths}
        for path in paths:
            path.chmod(0o500 if path.is_dir() else 0o400)
        try:
            yield
        finally:
            for path, mode in before.items():
                path.chmod(mode)


@pytest.mark.parametrize("what", ["file", "folder", "both"])
def test_a_read_only_store_is_told_and_not_changed(
    what: str, tmp_path: Path, known: Known, chance: random.Random
) -> None:
    path = known.copy(tmp_path)
    before = path.read_bytes()
    with read_only(*{"file": [path], "folder": [tmp_path], "both": [path, tmp_path]}[what]):
        with pytest.raises((StoreReadOnly, StoreError), match=r"written|write"):
            recollect.open(path, embedder="hash")
        assert path.read_bytes() == before
    with recollect.open(path, embedder="hash") as mem:
        assert look(mem, known, chance) == 0
        assert mem.verify().sound


def test_an_index_folder_that_cannot_be_written_costs_no_answer(
    tmp_path: Path, known: Known, opened: Any, chance: random.Random
) -> None:
    path = known.copy(tmp_path)
    with read_only(Path(f"{path}.index")):
        mem = opened(path)
        id = mem.remember("anchor written all the same").id
        assert mem.recall("written all the same")[0].id == id
        mem.forget(id)
        assert look(mem, known, chance) == 0
    assert mem.verify().sound


@contextmanager
def little_memory(more: int) -> Iterator[None]:
    """SQLite gets only so many bytes more than it has."""
    apsw.hard_heap_limit(max(1, apsw.memory_used() + more))
    try:
        yield
    finally:
        apsw.hard_heap_limit(0)


def test_without_memory_an_operation_fails_typed_and_works_later(
    tmp_path: Path, opened: Any, chance: random.Random, times: Any
) -> None:
    mem, acknowledged, refused = opened(tmp_path / "store.db"), set(), 0
    for turn in range(times(25)):
        text = f"anchor {turn} " + "word " * chance.randrange(20_000)
        with little_memory(chance.randrange(-200_000, 400_000)):
            try:
                acknowledged.add(mem.remember(text).id)
                mem.recall("anchor", limit=3)
            except StoreError:
                refused += 1
    assert refused > 0
    assert acknowledged <= set(texts_of(mem))
    mem.remember("anchor there is memory again")
    assert mem.verify().sound


# -- damage ------------------------------------------------------------------------------------------------------------


def test_a_flipped_byte_in_the_store_is_refused_or_harmless_and_verify_reports_it(
    tmp_path: Path, known: Known, chance: random.Random, times: Any
) -> None:
    noticed = 0
    for _ in range(times(15)):
        path = known.copy(tmp_path)
        position, bits = chance.randrange(path.stat().st_size), 1 << chance.randrange(8)
        flip(path, position, bits)
        try:
            mem = recollect.open(path, embedder="hash")
        except RecollectError:
            noticed += 1
            continue
        with mem:
            refused, report = look(mem, known, chance), mem.verify()
        assert not refused or not report.sound, f"byte {position}"
        noticed += not report.sound
    assert noticed > times(15) // 2


def test_verify_names_the_memory_whose_page_is_damaged(tmp_path: Path, known: Known, opened: Any) -> None:
    path = known.copy(tmp_path)
    flip(path, path.read_bytes().index(b"anchor w29w"), 0x20)
    mem = opened(path)
    with pytest.raises(StoreError):
        mem.show(known.ids[29])
    problems = mem.verify().problems
    assert known.ids[29] in {problem.id for problem in problems if problem.table == "memory"}
    finding = next(one for one in mem.doctor().findings if one.name == "records")
    assert not finding.well
    assert "backup" in finding.remedy
    assert mem.show(known.ids[0]).text == text_of(0)


def test_a_flipped_byte_in_the_index_is_reported_and_costs_no_answer(
    tmp_path: Path, known: Known, chance: random.Random, times: Any
) -> None:
    for _ in range(times(10)):
        path = known.copy(tmp_path)
        (segment,) = Path(f"{path}.index").glob("*.seg")
        position, bits = chance.randrange(segment.stat().st_size), 1 << chance.randrange(8)
        flip(segment, position, bits)
        with recollect.open(path, embedder="hash") as mem:
            report = mem.verify()
            assert any("segment" in problem.what for problem in report.problems), f"byte {position}, bits {bits}"
        path = known.copy(tmp_path)
        (segment,) = Path(f"{path}.index").glob("*.seg")
        flip(segment, position, bits)
        with recollect.open(path, embedder="hash") as mem:
            assert look(mem, known, chance) == 0, f"byte {position}, bits {bits}"
            mem.reindex()
            assert mem.verify().sound


def test_a_deleted_index_is_made_again_with_the_same_answers(
    tmp_path: Path, known: Known, opened: Any, chance: random.Random
) -> None:
    path = known.copy(tmp_path)
    with recollect.open(path, embedder="hash") as mem:
        before = [(hit.id, hit.score) for hit in mem.recall("anchor filler7x3 filler9x2", limit=20)]
    shutil.rmtree(f"{path}.index")
    mem = opened(path)
    assert [(hit.id, hit.score) for hit in mem.recall("anchor filler7x3 filler9x2", limit=20)] == before
    assert look(mem, known, chance) == 0
    mem.reindex()
    assert list(Path(f"{path}.index").glob("*.seg"))
    assert mem.doctor().well


def test_a_store_cut_short_is_noticed(tmp_path: Path, known: Known, chance: random.Random, times: Any) -> None:
    for _ in range(times(6)):
        path = known.copy(tmp_path)
        size = chance.randrange(1, path.stat().st_size - 1)
        os.truncate(path, size)
        try:
            mem = recollect.open(path, embedder="hash")
        except RecollectError:
            continue
        with mem:
            look(mem, known, chance)
            assert not mem.verify().sound, f"cut to {size}"


@pytest.fixture
def with_log(tmp_path: Path, opened: Any) -> tuple[Path, list[str]]:
    """The files of a store that was never closed: ten memories in its write-ahead log, in this order."""
    path, texts = tmp_path / "open.db", [f"anchor number {number}" for number in range(10)]
    mem = opened(path)
    mem._core.store._tables._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for text in texts:
        mem.remember(text, tags=["t"])
    left = tmp_path / "left"
    left.mkdir()
    for ending in ("", "-wal"):
        shutil.copy(f"{path}{ending}", left / f"store.db{ending}")
    return left / "store.db", texts


def found_in(path: Path, wal: bytes) -> list[str]:
    """What a sound store says it holds, with this write-ahead log."""
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    copy.with_name("copy.db-wal").write_bytes(wal)
    with recollect.open(copy, embedder="hash") as mem:
        assert mem.verify().sound
        texts = [line.text for line in mem.list().memories][::-1]
    shutil.rmtree(f"{copy}.index", ignore_errors=True)
    return texts


def test_a_damaged_write_ahead_log_is_read_up_to_the_damage_and_never_half_a_memory(
    with_log: tuple[Path, list[str]], chance: random.Random, times: Any
) -> None:
    """SQLite cannot tell a damaged log from one whose last writes were cut off: what stood behind is gone, silently."""
    path, texts = with_log
    wal = path.with_name("store.db-wal").read_bytes()
    assert found_in(path, wal) == texts
    for _ in range(times(6)):
        position = chance.randrange(len(wal))
        damaged = bytearray(wal)
        damaged[position] ^= 1 << chance.randrange(8)
        for broken in (bytes(damaged), wal[:position]):
            found = found_in(path, broken)
            assert found == texts[: len(found)], f"byte {position} of {len(wal)}"


# -- derived parts that drifted, and records that vanished -------------------------------------------------------------


def meddle(path: Path, *statements: str) -> None:
    """Behind our back, with correct checksums."""
    connection = connect(path, writable=True)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO memory_text(memory_text) VALUES ('delete-all')",
        "DELETE FROM memory_text WHERE rowid % 2 = 0",
        "INSERT INTO memory_text(rowid, facets, terms) VALUES (4711, '', 'anchor of nothing')",
        "DELETE FROM embedding",
        "DELETE FROM embedding WHERE _row % 3 = 0",
        "DELETE FROM embedding WHERE namespace = 'other'",
        'UPDATE embedding SET facets = \'[null,null,null,null,"fact","global","published"]\' WHERE _row % 5 = 0',
        "UPDATE embedding SET text_hash = 'of another text' WHERE _row = 7",
    ],
)
def test_an_index_that_drifted_makes_the_doctor_fail_and_is_mended(
    statement: str, tmp_path: Path, known: Known, opened: Any, chance: random.Random
) -> None:
    path = known.copy(tmp_path)
    meddle(path, statement)
    mem = opened(path)
    assert not mem.verify().sound
    diagnosis = mem.doctor()
    assert not diagnosis.well
    assert [finding.remedy for finding in diagnosis.findings if finding.name == "indexes"] == ["recollect doctor --fix"]
    mended = mem.doctor(fix=True)
    assert mended.well, mended.findings
    assert mem.verify().sound
    assert look(mem, known, chance) == 0


EVERYTHING = [
    *(f'DELETE FROM "{table}"' for table in RECORDS),
    "DELETE FROM recollect_gone",
    *(
        f"INSERT INTO {table}_text({table}_text) VALUES ('delete-all')"
        for table, record in RECORDS.items()
        if record.shape.text
    ),
]


@pytest.mark.parametrize(
    "statements",
    [
        ["DELETE FROM memory"],
        ["DELETE FROM tag"],
        ["DELETE FROM citation WHERE _row = 5"],
        ["DELETE FROM access_log"],
        [one for one in EVERYTHING if "organization" not in one],
        EVERYTHING,
    ],
    ids=["memories", "tags", "one citation", "audit", "all but the organization", "everything"],
)
def test_records_that_vanished_make_the_doctor_fail_and_ask_for_a_backup(
    statements: list[str], tmp_path: Path, known: Known, opened: Any
) -> None:
    path = known.copy(tmp_path)
    meddle(path, *statements)
    mem = opened(path)
    for fix in (False, True):
        diagnosis = mem.doctor(fix=fix)
        assert not diagnosis.well
        assert any("backup" in finding.remedy for finding in diagnosis.findings if not finding.well)


# -- receipts ----------------------------------------------------------------------------------------------------------


class Moody(HashEmbedder):
    """An embedder that is away when told so."""

    is_away = False

    def embed(self, texts: Any) -> Any:
        if self.is_away:
            raise EmbedderFailed("the model is away")
        return super().embed(texts)


def test_a_receipt_says_what_is_indexed_and_what_is_queued(tmp_path: Path, opened: Any) -> None:
    embedder = Moody()
    mem = opened(tmp_path / "store.db", embedder=embedder)
    kept = mem.remember("anchor with a vector")
    assert (kept.indexed, kept.queued) == (["text", "vector:hash-64"], [])
    embedder.is_away = True
    owed = mem.remember("anchor without a vector")
    assert (owed.indexed, owed.queued) == (["text"], ["vector:hash-64"])
    many = mem.remember_many(["anchor one more", "anchor two more"]).receipts
    assert [(one.indexed, one.queued) for one in many] == [(["text"], ["vector:hash-64"])] * 2
    revised = mem.revise(kept.id, "anchor whose vector is old")
    assert (revised.indexed, revised.queued) == (["text"], ["vector:hash-64"])
    assert mem.stats().queued == 4
    assert mem.recall("without a vector?")[0].id == owed.id


@pytest.mark.parametrize("mend", ["doctor", "reindex"])
def test_what_is_queued_is_made_up_for_when_the_model_is_back(tmp_path: Path, opened: Any, mend: str) -> None:
    embedder = Moody()
    mem = opened(tmp_path / "store.db", embedder=embedder)
    embedder.is_away = True
    ids = {receipt.id for receipt in mem.remember_many([f"anchor {n}" for n in range(5)]).receipts}
    gone = mem.remember("anchor soon forgotten").id
    mem.forget(gone)
    diagnosis = mem.doctor()
    assert [finding.name for finding in diagnosis.findings if not finding.well] == ["queue"]
    assert mem.verify().sound
    assert not mem.doctor(fix=True).well
    embedder.is_away = False
    assert mem.doctor(fix=True).well if mend == "doctor" else mem.reindex().remaining == 0
    assert mem.doctor().well
    assert mem.stats().queued == 0
    near = mem._core.vectors.search("default", "long_term/hash-64", embedder.embed_query("anchor"), 100)
    assert {hit.memory_id for hit in near} == ids


def test_vectors_made_anew_while_memories_change_are_of_their_latest_text(tmp_path: Path, opened: Any) -> None:
    slow = Slow()
    mem = opened(tmp_path / "store.db", embedder=slow)
    first, second, third = (mem.remember(f"anchor number {n}").id for n in range(3))
    slow.waits = True
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(mem.reindex, everything=True)
        assert slow.asked.wait(30)
        slow.waits = False
        mem.revise(first, "anchor with new words")
        mem.erase(second)
        mem.promote(mem.cite(third, [recollect.cite.user("alice", "said so")]).id)
        slow.go_on.set()
        assert made.result(30).remaining == 0
    assert mem.verify().sound
    assert mem.doctor().well


class Slow(HashEmbedder):
    """An embedder that lets others go first."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = False
        self.asked, self.go_on = threading.Event(), threading.Event()

    def embed(self, texts: Any) -> Any:
        vectors = super().embed(texts)
        if self.waits:
            self.asked.set()
            assert self.go_on.wait(30)
        return vectors


def test_a_place_of_backups_without_room_is_told_and_keeps_what_it_has(
    tmp_path: Path, small_disk: Path, fill: Any
) -> None:
    place = f"{small_disk}/backups/"
    with recollect.open(tmp_path / "store.db", embedder="hash") as mem:
        mem.remember("before the disk was full")
        kept = mem.backup(place)
        ballast = fill(small_disk, leave=50_000)
        mem.remember_many([f"{random.Random(number).randbytes(500).hex()} word" for number in range(500)])
        with pytest.raises(StoreFull):
            mem.backup(place)
        assert [one.id for one in mem.backup.list(place=place)] == [kept.id]
        assert mem.backup.list()[0].error.startswith("store_full")
        assert mem.backup.drill(kept.id).sound
        ballast.unlink()
        assert mem.backup(place).verified
