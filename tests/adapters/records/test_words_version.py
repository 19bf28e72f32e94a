"""A text index that was made with other words is made again when the store is opened: whole, or not at all."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import duckdb
import pytest

import recollect
from every_store import EVERY_STORE
from postgres_server import server
from recollect.adapters.records.sqlite.connection import connect

TEXTS = [f"The {word} café number {number}" for number, word in enumerate(["naïve", "generous", "dying", "北京"])]
KEPT = ("sqlite", "duckdb", "postgres")


def sqlite_file(address: str, statement: str) -> None:
    with closing(connect(Path(address), writable=True)) as connection:
        connection.execute(statement)


def duckdb_file(address: str, statement: str) -> None:
    with duckdb.connect(address.removeprefix("duckdb:///")) as connection:
        connection.execute(statement)


def database(address: str, statement: str) -> None:
    server().admin(statement, address.rpartition("/")[2])


MEDDLE: dict[str, Callable[[str, str], None]] = {"sqlite": sqlite_file, "duckdb": duckdb_file, "postgres": database}
NOTED = "UPDATE recollect_store SET value = '{}' WHERE key LIKE 'text:%'"
EMPTIED = {
    "sqlite": "INSERT INTO memory_text(memory_text) VALUES ('delete-all')",
    "duckdb": "DELETE FROM memory_text",
    "postgres": "UPDATE memory SET _text = ''",
}


def filled(name: str, folder: Path) -> str:
    address = EVERY_STORE[name](folder)
    with recollect.open(address, embedder="none") as mem:
        for text in TEXTS:
            mem.remember(text)
    return address


def sound_and_found(address: str) -> None:
    with recollect.open(address, embedder="none") as mem:
        assert mem.verify().problems == []
        assert sorted(hit.text for hit in mem.recall("cafe", limit=10).hits) == sorted(TEXTS)
        assert [hit.text for hit in mem.recall("die", limit=1).hits] == [TEXTS[2]]


@pytest.mark.parametrize("noted", ["0", None])
@pytest.mark.parametrize("name", KEPT)
def test_an_index_of_other_words_is_made_again_on_opening(name: str, noted: str | None, tmp_path: Path) -> None:
    address = filled(name, tmp_path)
    MEDDLE[name](address, EMPTIED[name])
    MEDDLE[name](address, NOTED.format(noted) if noted else "DELETE FROM recollect_store WHERE key LIKE 'text:%'")
    sound_and_found(address)
    sound_and_found(address)


@pytest.mark.parametrize("name", KEPT)
def test_a_killed_making_again_is_done_at_the_next_opening(name: str, tmp_path: Path) -> None:
    address = filled(name, tmp_path)
    MEDDLE[name](address, EMPTIED[name])
    MEDDLE[name](address, NOTED.format(0))
    killed = f"""
import os
import recollect
from recollect.adapters.records.sqlite.connection import connect
from recollect.domain.text import tokenizer
made, calls = tokenizer.terms_of, []
def terms_of(texts):
    calls.append(1)
    return made(texts) if len(calls) < 3 else os._exit(9)
tokenizer.terms_of = terms_of
recollect.open({address!r}, embedder="none")
"""
    assert subprocess.run([sys.executable, "-c", killed], timeout=120, check=False).returncode == 9
    sound_and_found(address)


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        (
            "sqlite",
            "INSERT OR REPLACE INTO memory_text(rowid, facets, terms) SELECT _row, '', 'moon' FROM memory LIMIT 1",
        ),
        ("duckdb", "INSERT INTO memory_text SELECT 4711, _row FROM memory LIMIT 1"),
        ("postgres", "UPDATE memory SET _text = '''moon''' WHERE text LIKE '%generous%'"),
    ],
)
def test_verify_names_a_record_that_is_held_by_other_terms(name: str, statement: str, tmp_path: Path) -> None:
    address = filled(name, tmp_path)
    MEDDLE[name](address, statement)
    with recollect.open(address, embedder="none") as mem:
        (problem,) = mem.verify().problems
        assert "not in the text index as it reads" in str(problem)
        mem.doctor(fix=True)
    sound_and_found(address)


def test_verify_says_when_another_program_changed_the_words_meanwhile(tmp_path: Path) -> None:
    address = filled("sqlite", tmp_path)
    with recollect.open(address, embedder="none") as mem:
        sqlite_file(address, NOTED.format(0))
        assert "another version of the words" in str(mem.verify().problems)
        mem.doctor(fix=True)
        assert mem.verify().problems == []


def test_any_sqlite_can_check_and_vacuum_the_file(tmp_path: Path) -> None:
    address = filled("sqlite", tmp_path)
    shutil.copy(address, tmp_path / "copy.db")
    with closing(apsw.Connection(str(tmp_path / "copy.db"), vfs="unix")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("INSERT INTO memory_text(memory_text) VALUES ('integrity-check')")
        connection.execute("VACUUM")
        found = connection.execute("SELECT count(*) FROM memory_text WHERE memory_text MATCH 'terms : naiv'").fetchall()
        assert found == [(1,)]
