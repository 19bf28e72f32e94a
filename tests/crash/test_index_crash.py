"""The embedded index after kill -9, damage to its files, and with several processes at work: always equal to the truth.

This file is also the other process: `python test_index_crash.py nurse`, `… obey <database>`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from recollect.adapters.vectors.embedded.index import EmbeddedIndex
from recollect.testing.vector_truths import SqliteTruth, facets_of, nearest, packed

DIMENSIONS = 12
TENANTS = ("acme", "zeta")


def folder_of(database: Path) -> Path:
    return database.with_suffix(".index")


@contextmanager
def opened(database: Path, **options: object) -> Iterator[tuple[SqliteTruth, EmbeddedIndex]]:
    with closing(SqliteTruth(database)) as truth:
        index = EmbeddedIndex(truth, folder_of(database), **{"seal_rows": 20, "background": False, **options})  # type: ignore[arg-type]
        with closing(index):
            yield truth, index


def fill(truth: SqliteTruth, chance: random.Random, count: int) -> None:
    truth.put_all(
        (
            chance.choice(TENANTS),
            f"m{chance.randrange(400)}",
            "default",
            packed(np.array([chance.gauss(0, 1) for _ in range(DIMENSIONS)])),
            facets_of(user_id=f"u{chance.randrange(3)}"),
        )
        for _ in range(count)
    )


def assert_equal(truth: SqliteTruth, index: EmbeddedIndex, chance: random.Random, times: int = 4) -> None:
    for number in range(times):
        query = np.array([chance.gauss(0, 1) for _ in range(DIMENSIONS)], np.float32)
        where = {"user_id": ["u1", None]} if number % 2 else None
        for tenant in TENANTS:
            expected = nearest(truth, tenant, "default", query, 10, where)
            assert index.search(tenant, "default", query, 10, where) == expected


# -- killed processes ------------------------------------------------------------------------------------------------


def write_for_ever(database: Path, seed: str) -> None:
    """The victim: writes, searches and seals until it is killed."""
    chance = random.Random(seed)
    with opened(database, background=True) as (truth, index):
        print(os.getpid(), flush=True)
        while True:
            fill(truth, chance, chance.randrange(1, 30))
            truth.delete(chance.choice(TENANTS), f"m{chance.randrange(400)}")
            index.search("acme", "default", np.ones(DIMENSIONS, np.float32), 5)
            if chance.random() < 0.3:
                chance.choice([index.refresh, index.purge, index.rebuild])()


def nurse() -> None:
    """Starts a victim for each line, by forking: what takes long, the imports, is done once."""
    for line in sys.stdin:
        database, seed = line.split()
        child = os.fork()
        if child == 0:
            write_for_ever(Path(database), seed)
        print(os.waitpid(child, 0)[1], flush=True)


def start(job: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, job, *map(str, arguments)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def tell(child: subprocess.Popen[str], line: str) -> str:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()
    return child.stdout.readline().strip()


def test_after_kill_the_index_equals_the_truth(
    tmp_path: Path, times: Callable[[int], int], chance: random.Random
) -> None:
    database = tmp_path / "test.db"
    interrupted = 0
    with start("nurse") as nursery:
        for run in range(times(20)):
            victim = int(tell(nursery, f"{database} {chance.random()}"))
            time.sleep(chance.uniform(0.02, 0.3))
            os.kill(victim, signal.SIGKILL)
            assert nursery.stdout is not None
            assert int(nursery.stdout.readline()) == signal.SIGKILL
            interrupted += len(list(folder_of(database).glob("*.tmp")))
            with opened(database) as (truth, index):
                assert_equal(truth, index, chance, times=2)
                assert index.verify() == []
                if run % 3 == 0:
                    index.refresh()
                    assert list(folder_of(database).glob("*.tmp")) == []
                    assert_equal(truth, index, chance, times=1)
        assert nursery.stdin is not None
        nursery.stdin.close()
    print(f"{interrupted} writes were cut off in the middle")


@pytest.mark.parametrize("seam", ["write", "fsync", "replace", "sync the folder"])
def test_a_seal_that_dies_at_any_seam_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chance: random.Random, seam: str
) -> None:
    class Died(BaseException):
        """Not an Exception, so that nothing tidies up after it but what must; then the index is simply left."""

    def die(*arguments: object) -> None:
        raise Died

    database = tmp_path / "test.db"
    with opened(database) as (truth, index):
        fill(truth, chance, 50)
        index.refresh()
        fill(truth, chance, 50)
        with monkeypatch.context() as patch:
            if seam == "write":
                patch.setattr("recollect.adapters.vectors.embedded.index.write_segment", die)
            elif seam == "fsync":
                patch.setattr(os, "fsync", die)
            elif seam == "replace":
                patch.setattr(Path, "replace", die)
            else:
                patch.setattr("recollect.adapters.atomic_file.sync_folder", die)
            with pytest.raises(Died):
                index.refresh()
        assert_equal(truth, index, chance)
        with opened(database) as (_, other):
            assert_equal(truth, other, chance)
            other.refresh()
            assert_equal(truth, other, chance)
            assert other.verify() == []
        assert_equal(truth, index, chance)


# -- damaged files ---------------------------------------------------------------------------------------------------


def damage(path: Path, chance: random.Random) -> str:
    data = bytearray(path.read_bytes())
    how = chance.choice(["flip", "flip", "flip", "zero", "cut", "grow", "empty", "swap"])
    place = chance.randrange(len(data)) if data else 0
    if how == "flip":
        data[place : place + 1] = bytes(byte ^ 1 << chance.randrange(8) for byte in data[place : place + 1])
    elif how == "zero":
        data[place : place + 512] = bytes(len(data[place : place + 512]))
    elif how == "cut":
        del data[place:]
    elif how == "grow":
        data += os.urandom(chance.randrange(1, 100))
    elif how == "empty":
        data.clear()
    else:
        other = chance.choice(sorted(path.parent.glob("*.seg")))
        data = bytearray(other.read_bytes())
    path.write_bytes(data)
    return f"{how} at {place} of {path.name}"


def test_damage_is_repaired_or_harmless_never_served(
    tmp_path: Path, times: Callable[[int], int], chance: random.Random
) -> None:
    database = tmp_path / "test.db"
    with closing(SqliteTruth(database)) as truth:
        fill(truth, chance, 300)
        for _ in range(times(40)):
            with opened(database) as (_, index):
                index.search("acme", "default", np.ones(DIMENSIONS, np.float32), 1)
                index.refresh()
            paths = sorted(folder_of(database).glob("*.seg"))
            what = [damage(chance.choice(paths), chance) for _ in range(chance.randrange(1, 3))]
            with opened(database) as (_, index):
                if chance.random() < 0.3:
                    index.refresh()
                assert_equal(truth, index, chance, times=2)
                index.rebuild()
                assert index.verify() == [], what
            fill(truth, chance, 25)


def test_verify_names_every_damaged_file(tmp_path: Path, times: Callable[[int], int], chance: random.Random) -> None:
    database = tmp_path / "test.db"
    with opened(database) as (truth, index):
        fill(truth, chance, 100)
        for _ in range(times(15)):
            index.rebuild()
            assert index.verify() == []
            (path,) = folder_of(database).glob("*.seg")
            data = bytearray(path.read_bytes())
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            path.write_bytes(data)
            with opened(database) as (_, other):
                assert any(path.name in sentence for sentence in other.verify())


def test_files_of_another_store_are_not_used(tmp_path: Path, chance: random.Random) -> None:
    one, two = tmp_path / "one.db", tmp_path / "two.db"
    for database in (one, two):
        with opened(database) as (truth, index):
            fill(truth, chance, 120)
            index.refresh()
    folder_of(two).rename(tmp_path / "aside")
    folder_of(one).rename(folder_of(two))
    with opened(two) as (truth, index):
        assert_equal(truth, index, chance)
        assert index.verify() == []


# -- several processes -----------------------------------------------------------------------------------------------


def obey(database: Path) -> None:
    """The other process: puts a row and searches for it, as told, line by line."""
    with opened(database, background=True) as (truth, index):
        print("ready", flush=True)
        for line in sys.stdin:
            verb, id = line.split()
            chance = random.Random(id)
            vector = np.array([chance.gauss(0, 1) for _ in range(DIMENSIONS)])
            if verb == "put":
                truth.put("acme", id, vector)
                print("done", flush=True)
            else:
                print(index.search("acme", "default", vector.astype(np.float32), 1)[0].memory_id, flush=True)


def test_a_row_committed_by_one_process_is_found_at_once_by_another(
    tmp_path: Path, times: Callable[[int], int], chance: random.Random
) -> None:
    database = tmp_path / "test.db"
    with opened(database, background=True) as (truth, index), start("obey", database) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        for number in range(times(150)):
            id = f"r{number}"
            if number % 2:
                own = random.Random(id)
                truth.put("acme", id, np.array([own.gauss(0, 1) for _ in range(DIMENSIONS)]))
                assert tell(child, f"find {id}") == id
            else:
                assert tell(child, f"put {id}") == "done"
                own = random.Random(id)
                query = np.array([own.gauss(0, 1) for _ in range(DIMENSIONS)], np.float32)
                assert index.search("acme", "default", query, 1)[0].memory_id == id
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(30) == 0
        assert_equal(truth, index, chance)
        assert index.verify() == []


if __name__ == "__main__":
    if sys.argv[1] == "nurse":
        nurse()
    else:
        obey(Path(sys.argv[2]))
