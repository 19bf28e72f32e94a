"""Rows of cold storage: every byte comes back in order, words and filters find them without loading them."""

from __future__ import annotations

import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recollect.adapters.cold.parquet_files import ParquetFiles
from recollect.domain.text import tokenizer
from recollect.errors import DamagedData
from recollect.ports.cold import ColdQuery, ColdRow

AT = datetime(2025, 3, 4, 5, 6, 7, 890123, tzinfo=UTC)
TEXTS = ("The ferry leaves at nine", "渡轮九点出发", "naïve 'quotes' \\n \u2028 and {braces}", "")


def _terms(text: str) -> list[str]:
    return list(tokenizer.terms_of([text]))


def _rows() -> list[ColdRow]:
    return [
        ColdRow("message", f"m{number}", f'{{"text": "{number}"}}', "user", AT, text, _terms(text))
        for number, text in enumerate(TEXTS)
    ]


def test_rows_come_back_as_they_were_and_in_order(tmp_path: Path) -> None:
    rows = [*_rows(), ColdRow("access_log", "l1", "{}"), ColdRow("memory", "long", '{"x": "' + "ä" * 3_000_000 + '"}')]
    target = tmp_path / "it's here.parquet"
    assert ParquetFiles().write(rows, target) == 6
    assert [(one, list(one.terms)) for one in ParquetFiles().read(target)] == [
        (ColdRow(r.table, r.id, r.record, r.kind, r.moment, r.text, list(r.terms) or ()), list(r.terms)) for r in rows
    ]
    assert target.stat().st_mode & 0o777 == 0o600


def test_words_find_rows_in_several_files_those_with_more_words_first(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.parquet" for name in ("one", "two")}
    ParquetFiles().write(_rows(), files["one"])
    ParquetFiles().write([ColdRow("memory", "x", "{}", "fact", AT, "The ferry", _terms("ferry"))], files["two"])

    def found(words: str = "", **narrower: Any) -> list[tuple[str, str]]:
        query = ColdQuery(_terms(words), ("message", "memory"), 10, **narrower)
        return [(hit.file, hit.id) for hit in ParquetFiles().search(files, query)]

    assert found("ferry nine") == [("one", "m0"), ("two", "x")]
    assert found("渡轮") == [("one", "m1")]
    assert found("ferry", kinds=("fact",)) == [("two", "x")]
    assert found("ferry", since=datetime(2025, 3, 5, tzinfo=UTC)) == []
    assert found("ferry", until=datetime(2025, 3, 5, tzinfo=UTC)) == found("ferry")
    assert len(found()) == 5


def test_a_file_of_something_else_is_damaged_data_and_an_empty_session_is_a_file(tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    other.write_bytes(b"no parquet")
    with pytest.raises(DamagedData):
        list(ParquetFiles().read(other))
    assert ParquetFiles().write([], tmp_path / "empty.parquet") == 0
    assert list(ParquetFiles().read(tmp_path / "empty.parquet")) == []
    assert ParquetFiles().search({}, ColdQuery((), ("message",), 10)) == []


def test_folders_that_killed_processes_left_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name, days in (("recollect-cold-old", 2), ("recollect-cold-young", 0), ("another", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows.jsonl").write_text("secret")
        os.utime(tmp_path / name, (time.time() - days * 86_400,) * 2)
    ParquetFiles().write([], tmp_path / "x.parquet")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["another", "recollect-cold-young", "x.parquet"]
