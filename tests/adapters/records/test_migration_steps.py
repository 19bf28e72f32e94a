"""Every kind of migration step, on every store, with records in it: killed in the middle, and by two at once.

The in-memory store has no part in it: nothing of it outlives the program that would be upgraded.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from every_store import EVERY_STORE
from pebbles import Pebble1, Pebble2, Pebble3, program
from postgres_server import server
from recollect.adapters.records.common import migrations
from recollect.adapters.records.sqlite.connection import connect
from recollect.app.stores import record_store
from recollect.domain.memory import Memory
from recollect.domain.record import RECORDS
from recollect.domain.text import tokenizer
from recollect.errors import DuplicateKey, StoreError
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Insert
from recollect.testing.conformance.makers import found, memory, search
from seeds import SEED, SOAK

ACME = Scope("acme")
KINDS = {"create_table", "add_column", "add_unique", "drop_unique", "add_index", "drop_index", "index_text"}


def opened(address: str) -> Any:
    return closing(record_store(address)[0])


def pebble(version: Any, id: str, **fields: Any) -> Any:
    return version(organization_id="acme", id=id, **{"name": id, **fields})


def filled(address: str) -> list[Any]:
    """A store of the first version with a few pebbles, one of them soft-deleted."""
    with program(1), opened(address) as store:
        found(store, "acme")
        made = [
            pebble(Pebble1, "a", note="a blue stone", owner_id="ann"),
            pebble(Pebble1, "b", note="a red stone"),
            pebble(Pebble1, "c", note="a stone that is gone", is_deleted=True),
            pebble(Pebble1, "d"),
        ]
        store.transact(ACME, [Insert(one) for one in made])
        return made


def as_upgraded(record: Any, version: Any) -> Any:
    return version(**record.__dict__)


def test_these_migrations_have_every_kind_of_step() -> None:
    with program(3):
        done = {step["do"] for migration in migrations.migrations()[-3:] for step in migration.steps}
    assert done == KINDS


def test_what_changed_is_told_as_steps() -> None:
    with program(1):
        first = migrations.built(migrations.migrations())
    with program(2):
        steps = migrations.difference({"pebble": first["pebble"]}, {"pebble": migrations.declared_table(Pebble2)})
        second = migrations.built(migrations.migrations())
    assert [step for step in steps if step["do"] == "drop_unique"] == [
        {"do": "drop_unique", "table": "pebble", "unique": {"fields": ["name", "owner_id"], "nulls_equal": False}}
    ]
    assert {step["column"][0]: step.get("fill") for step in steps if step["do"] == "add_column"} == {
        "colour": "it's grey",
        "weight": 3,
        "share": 0.5,
        "is_round": True,
        "marks": ["new", {"n": 1}],
        "place": None,
    }
    assert migrations.difference(second, {"pebble": migrations.declared_table(Pebble2)}) == []


def test_a_new_field_that_says_nothing_of_older_records_is_refused() -> None:
    with program(1), pytest.MonkeyPatch.context() as patch:
        wider = migrations.declared_table(Pebble1)
        wider["columns"].append(["name", "text", False])
        have = migrations.built(migrations.migrations())["pebble"]
        have["columns"] = [column for column in have["columns"] if column[0] != "name"]
        patch.setitem(RECORDS, "pebble", Pebble1)
        with pytest.raises(ValueError, match=r"pebble\.name needs a default"):
            migrations.difference({"pebble": have}, {"pebble": wider})


@pytest.mark.parametrize("kind", EVERY_STORE)
def test_every_kind_of_step_on_a_store_with_records(kind: str, tmp_path: Path) -> None:
    address = EVERY_STORE[kind](tmp_path)
    made = filled(address)
    with program(2), opened(address) as store:
        read = store.find(ACME, Query(Pebble2, deleted="yes")).records
        assert read == [as_upgraded(one, Pebble2) for one in made]
        assert search(store, ACME, "stone", record=Pebble2) == ["a", "b"]
        assert search(store, ACME, "blue", record=Pebble2, facets={"owner_id": ("ann",)}) == ["a"]
        store.transact(ACME, [Insert(pebble(Pebble2, "e", name="a", note="other", owner_id="ann"))])  # the old key went
        for id, note in (("f", "a red stone"), ("g", None)):
            with pytest.raises(DuplicateKey):  # empty owners are the same, and so are empty notes
                store.transact(ACME, [Insert(pebble(Pebble2, id, note=note))])
        assert store.verify() == []
    with program(3), opened(address) as store:
        assert search(store, ACME, "stone", record=Pebble3) == []
        assert search(store, ACME, "grey", record=Pebble3) == ["a", "b", "d", "e"]
        store.transact(ACME, [Insert(pebble(Pebble3, "f", note="a red stone"))])  # empty owners differ again
        with pytest.raises(DuplicateKey):
            store.transact(ACME, [Insert(pebble(Pebble3, "g", note="other", owner_id="ann"))])
        assert store.verify() == []
    with program(3), opened(address) as store:
        assert store.migrate() == []
        assert search(store, ACME, "grey", record=Pebble3) == ["a", "b", "d", "e", "f"]


@pytest.mark.parametrize("kind", EVERY_STORE)
def test_a_new_store_is_as_one_that_was_upgraded(kind: str, tmp_path: Path) -> None:
    address = EVERY_STORE[kind](tmp_path)
    with program(3), opened(address) as store:
        found(store, "acme")
        store.transact(ACME, [Insert(pebble(Pebble3, "a", note="n")), Insert(pebble(Pebble3, "b", note="n"))])
        store.transact(ACME, [Insert(pebble(Pebble3, "c", note="n", owner_id="ann"))])
        with pytest.raises(DuplicateKey):
            store.transact(ACME, [Insert(pebble(Pebble3, "d", note="n", owner_id="ann"))])
        assert search(store, ACME, "grey", record=Pebble3) == ["a", "b", "c"]
        assert store.verify() == []


@pytest.mark.parametrize("kind", EVERY_STORE)
def test_records_that_break_a_new_key_are_named_and_nothing_is_changed(kind: str, tmp_path: Path) -> None:
    address = EVERY_STORE[kind](tmp_path)
    filled(address)
    with program(1), opened(address) as store:
        store.transact(ACME, [Insert(pebble(Pebble1, "same", note="a red stone"))])
    for _ in range(2):
        with program(2), pytest.raises(StoreError, match=r"'pebble' are the same in note, owner_id"):
            record_store(address)[0].close()
    with program(1), opened(address) as store:
        assert [one.id for one in store.find(ACME, Query(Pebble1)).records] == ["a", "b", "d", "same"]
        with pytest.raises(DuplicateKey):
            store.transact(ACME, [Insert(pebble(Pebble1, "z", name="a", owner_id="ann"))])
        assert store.verify() == []


# Imports once and upgrades in a fork for every line it reads: an address, and the statement at which it kills itself.
_UPGRADER = """
import os, signal, sys
from pebbles import program
from recollect.app.stores import record_store
from recollect.adapters.records.sqlite import store as sqlite

def upgrade(address, left):
    def traced(*args, **options):
        connection = connect(*args, **options)
        def tracer(cursor, statement, bindings):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return True
        if left:
            connection.exec_trace = tracer
        return connection

    connect, sqlite.connect = sqlite.connect, traced
    with program(2):
        record_store(address)[0].close()

print("ready", flush=True)
for line in sys.stdin:
    address, left = line.rstrip().rsplit(" ", 1)
    child = os.fork()
    if not child:
        upgrade(address, int(left))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Upgrader:
    """A process that brings stores to the second version."""

    def __init__(self) -> None:
        here = str(Path(__file__).parents[2])
        code = f"import sys; sys.path[:0] = [{here!r}]\n{_UPGRADER}"
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def begin(self, address: str, killed_at: int = 0) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{address} {killed_at}\n")
        self._process.stdin.flush()

    def said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> str:
        """What it complained of."""
        return self._process.communicate(timeout=60)[1]


def test_a_file_whose_upgrade_was_killed_at_any_statement_is_upgraded_by_the_next(tmp_path: Path) -> None:
    """At every statement in a soak, else at every eighth or so, others with each seed."""
    kept = tmp_path / "kept.db"
    made = filled(str(kept))
    killed, number = 0, 0
    chance = random.Random(f"{SEED} killed at any statement")
    upgrader = Upgrader()
    assert upgrader.said() == "ready"
    while True:
        number += 1 if SOAK else chance.randint(1, 16)
        path = tmp_path / f"{number}.db"
        path.write_bytes(kept.read_bytes())
        upgrader.begin(str(path), number)
        code = upgrader.said()
        if code == "0":
            break
        assert code == str(-signal.SIGKILL), upgrader.close()
        killed += 1
        with program(2), opened(str(path)) as store:
            assert store.find(ACME, Query(Pebble2, deleted="yes")).records == [as_upgraded(o, Pebble2) for o in made]
            assert search(store, ACME, "stone", record=Pebble2) == ["a", "b"]
            assert store.verify() == []
    assert killed > 5
    upgrader.close()


@pytest.mark.parametrize("kind", [kind for kind in EVERY_STORE if kind != "duckdb"])  # which is for one process
def test_a_store_is_upgraded_by_several_processes_at_once(kind: str, tmp_path: Path) -> None:
    address = EVERY_STORE[kind](tmp_path)
    filled(address)
    upgraders = [Upgrader() for _ in range(3)]
    assert [one.said() for one in upgraders] == ["ready"] * 3
    for one in upgraders:
        one.begin(address)
    for one in upgraders:
        code, problem = one.said(), one.close()
        assert code == "0", problem
    with program(2), opened(address) as store:
        assert search(store, ACME, "stone", record=Pebble2) == ["a", "b"]
        assert store.verify() == []


def _emptied_sqlite(address: str) -> None:
    with closing(connect(Path(address), writable=True)) as connection:
        connection.execute("INSERT INTO memory_text(memory_text) VALUES ('delete-all')")


def _emptied_duckdb(address: str) -> None:
    with closing(duckdb.connect(address.removeprefix("duckdb:///"))) as connection:
        connection.execute("DELETE FROM memory_text")


def _emptied_postgres(address: str) -> None:
    name = address.rpartition("/")[2]
    server().admin("ALTER TABLE memory DROP COLUMN _text; ALTER TABLE memory ADD COLUMN _text tsvector", name)


EMPTIED = {"sqlite": _emptied_sqlite, "duckdb": _emptied_duckdb, "postgres": _emptied_postgres}


@pytest.mark.parametrize("kind", EMPTIED)
def test_other_words_make_every_text_index_again_at_the_next_opening(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = EVERY_STORE[kind](tmp_path)
    with opened(address) as store:
        found(store, "acme")
        store.transact(ACME, [Insert(memory(ACME, "m", "an anchor"))])
    EMPTIED[kind](address)
    with opened(address) as store:
        assert search(store, ACME, "anchor") == []  # opening again makes nothing again
    monkeypatch.setattr(tokenizer, "VERSION", tokenizer.VERSION + 1)
    with opened(address) as store:
        assert search(store, ACME, "anchor") == ["m"]
        store.transact(ACME, [Insert(memory(ACME, "n", "another anchor"))])
        assert search(store, ACME, "anchor", record=Memory) == ["m", "n"]
        assert store.verify() == []
