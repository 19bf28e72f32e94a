"""Uploaded files of a store that has a key: sealed where they lie, and used as ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EVERY_STORE
from recollect.adapters.encryption.master_key import new_key
from recollect.errors import RecollectError, WrongKey

MARKER = "amarkerthatmustnotbeseen"


def _opened(address: str | Path, **settings: Any) -> Any:
    return recollect.open(address, embedder="none", background=False, **settings)


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "sales.csv"
    path.write_text("city,amount\n" + "".join(f"{MARKER},{number}\n" for number in range(100)))
    return str(path)


def _bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.usefixtures("one_engine")
@pytest.mark.parametrize("kind", ["postgres", "dynamodb"])
def test_no_plain_byte_of_a_file_is_stored_and_questions_are_answered(kind: str, tmp_path: Path, table: str) -> None:
    address, objects, key = EVERY_STORE[kind](tmp_path), tmp_path / "objects", new_key()
    with _opened(address, key=key, objects=str(objects)) as mem:
        source = mem.source.add(table, name="sales").id
        assert mem.query.run("select sum(amount) from sales").rows == [[4950]]
        assert mem.verify(deep=True).sound
    assert len(_bytes_of(objects)) > 500
    assert MARKER.encode() not in _bytes_of(objects)
    with _opened(address, key=key, objects=str(objects)) as mem:
        assert mem.query.run("select count(*) from sales").rows == [[100]]
        mem.source.remove(source, for_good=True)
        assert _bytes_of(objects) == b""


@pytest.mark.usefixtures("one_engine")
def test_a_store_that_gets_a_key_reads_what_was_there_and_seals_what_comes(tmp_path: Path, table: str) -> None:
    address, places = EVERY_STORE["postgres"](tmp_path), {"objects": str(tmp_path / "objects")}
    with _opened(address, **places) as mem:
        mem.source.add(table, name="sales")
    other = tmp_path / "other.csv"
    other.write_text("town\nanothermarkerofanotherfile\n")
    key = new_key()
    with _opened(address, key=key, **places) as mem:
        mem.source.add(str(other), name="other")
        rows = mem.query.run("select (select count(*) from sales), (select count(*) from other)").rows
        assert rows == [[100, 1]]
    assert b"anothermarkerofanotherfile" not in _bytes_of(tmp_path / "objects")
    for wrong in (new_key(), None):
        with _opened(address, **({"key": wrong} if wrong else {}), **places) as mem:
            with pytest.raises(RecollectError) as raised:
                mem.query.run("select * from other")
            assert isinstance(raised.value, WrongKey) or wrong is None
    with _opened(address, key=key, **places) as mem:
        assert mem.verify(deep=True).sound
