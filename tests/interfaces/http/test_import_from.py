"""Imports of other products over the network: one file or zip at a time, and nothing of the machine is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import recollect
from import_samples import FIXTURES
from recollect.errors import InvalidInput
from recollect.interfaces.http.files import uploaded_name
from serving import served


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with served(tmp_path_factory.mktemp("served")) as found:
        yield found


def test_a_file_is_sent_and_imported_there(running: tuple[str, str], tmp_path: Path) -> None:
    with recollect.connect(*running) as mem:
        path = FIXTURES / "mem0.json"
        dry = mem.call("import_", path=str(path), source="auto", dry_run=True)
        assert (dry.source, dry.records, dry.path) == ("mem0", 0, str(path))
        done = mem.call("import_", path=str(path), source="mem0", vector_model="m")
        assert done.records == sum(dry.found.values())
        assert mem.call("import_", path=str(path), source="mem0").records == 0


def test_an_uploaded_file_is_not_cited_since_it_does_not_stay(running: tuple[str, str]) -> None:
    with recollect.connect(*running) as mem:
        reply = mem.call("import_", path=str(FIXTURES / "notes" / "CLAUDE.md"), source="auto")
        assert reply.source == "markdown"  # by the name of the file
        found = [one for one in mem.list().memories if one.text.startswith("Working here")]
        assert [mem.show(one.id).citations for one in found] == [[]] * len(found)
        assert mem.show(found[0].id).metadata["imported"]["file"] == "CLAUDE.md"
        assert mem.call("import_", path=str(FIXTURES / "notes" / "CLAUDE.md"), source="auto").records == 0


def test_a_folder_has_to_be_zipped(running: tuple[str, str]) -> None:
    with recollect.connect(*running) as mem, pytest.raises(InvalidInput, match="zip it"):
        mem.call("import_", path=str(FIXTURES / "notes"), source="markdown")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("notes/CLAUDE.md", "CLAUDE.md"),
        ("../../etc/passwd", "passwd"),
        ("C:\\x\\a.json", "a.json"),
        ("..", "upload"),
        (None, "upload"),
        ("a\x00b", "a_b"),
        ("x" * 500, "x" * 100),
    ],
)
def test_only_the_name_of_a_sent_file_is_used(path: str | None, name: str) -> None:
    assert uploaded_name(path) == name
