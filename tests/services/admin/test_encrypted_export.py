"""Exports of a store that has a key: encrypted, read again with the key, refused without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.adapters.encryption.master_key import new_key
from recollect.errors import DamagedData, Denied, WrongKey
from recollect.ports.records import Scope
from recollect.services.admin.import_ import ImportRequest, import_

MARKER = "the marker of an export"


def _opened(**settings: Any) -> Any:
    return recollect.open("memory://", embedder="none", background=False, **settings)


@pytest.fixture
def key() -> str:
    return new_key()


@pytest.fixture
def exported(key: str, tmp_path: Path) -> Path:
    path = tmp_path / "all.jsonl"
    with _opened(key=key) as mem:
        for number in range(500):
            mem.remember(f"{MARKER} {number} 記憶")
        assert mem.export(str(path)).records == 500
    return path


def test_no_plain_byte_is_in_it_and_the_key_reads_it(exported: Path, key: str) -> None:
    assert MARKER.encode() not in exported.read_bytes()
    with _opened(key=key) as mem:
        mem.import_(str(exported))
        assert mem.list(limit=1).total == 500
        assert mem.import_(str(exported)).records == 0


@pytest.mark.parametrize("other", [None, "another key that is long enough"])
def test_without_the_key_it_is_refused_and_nothing_is_imported(exported: Path, other: str | None) -> None:
    with _opened(**({"key": other} if other else {})) as mem:
        with pytest.raises(WrongKey) as raised:
            mem.import_(str(exported))
        assert "key" in raised.value.remedy
        assert mem.list(limit=1).total == 0


def test_it_can_be_written_plain(key: str, tmp_path: Path) -> None:
    with _opened(key=key) as mem:
        mem.remember(MARKER)
        mem.export(str(tmp_path / "plain.jsonl"), plain=True)
    assert MARKER.encode() in (tmp_path / "plain.jsonl").read_bytes()
    with _opened() as mem:
        assert mem.import_(str(tmp_path / "plain.jsonl")).records > 0


def test_a_changed_or_cut_file_is_refused_before_anything_is_written(exported: Path, key: str) -> None:
    content = exported.read_bytes()
    for broken in (content[:-1], content[:70_000], content[:100_000] + b"?" + content[100_001:]):
        exported.write_bytes(broken)
        with _opened(key=key) as mem:
            with pytest.raises(DamagedData):
                mem.import_(str(exported))
            assert mem.list(limit=1).total == 0


def test_an_encrypted_file_is_not_read_for_a_caller_over_the_network(exported: Path, key: str) -> None:
    """It may be another organization's."""
    with _opened(key=key) as mem:
        tenant = mem._core.for_scope(Scope("default", "somebody", granted=frozenset({"admin"})))
        with pytest.raises(Denied, match="over the network"):
            import_(tenant, ImportRequest(path=str(exported)))
