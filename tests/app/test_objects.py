"""Where large content goes, by the settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import recollect
from recollect.adapters.records.in_memory import MemoryStore
from recollect.app import build, close
from recollect.app.objects import object_store
from recollect.errors import InvalidSettings, NotFound
from recollect.ports.objects import object_hash
from recollect.settings import load


def test_content_lies_beside_the_file_of_the_store_and_is_private(tmp_path: Path) -> None:
    core = build(load(tmp_path / "a.db", embedder="none"))
    try:
        assert not (tmp_path / "a.db-objects").exists(), "most stores never hold an object"
        core.objects.put("default", [b"x"])
    finally:
        close(core)
    folder = tmp_path / "a.db-objects"
    assert (folder.stat().st_mode & 0o777, (folder / "t-default").stat().st_mode & 0o777) == (0o700, 0o700)
    (file,) = (folder / "t-default").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("written", ["{0}", "file://{0}"])
def test_a_setting_names_another_folder(tmp_path: Path, written: str) -> None:
    objects = object_store(load(tmp_path / "a.db", objects=written.format(tmp_path / "else where")))
    objects.put("default", [b"x"])
    assert (tmp_path / "else where" / "t-default").is_dir()


def test_a_folder_in_a_settings_file_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("store: a.db\nobjects: content\nobjects_cache: copies\n")
    settings = load(tmp_path / "settings.yaml")
    assert (settings.objects, settings.objects_cache) == (str(tmp_path / "content"), tmp_path / "copies")


def test_the_environment_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RECOLLECT_OBJECTS", "s3://bucket/prefix")
    assert object_store(load(tmp_path / "a.db")).label == "s3://bucket/prefix"


def test_a_store_in_memory_has_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    objects = object_store(load(":memory:"))
    digest = objects.put("default", [b"x"]).digest
    assert b"".join(objects.read("default", digest)) == b"x"
    assert [path.name[:18] for path in tmp_path.iterdir()] == ["recollect-objects-"]
    objects.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("store", ["postgresql://localhost/db", "dynamodb://table"])
def test_a_store_without_a_file_says_what_to_set_when_something_is_put(store: str) -> None:
    _refuses(object_store(load(store)))


def test_so_does_a_store_that_was_handed_in() -> None:
    with recollect.open(MemoryStore(), embedder="none") as memory:
        _refuses(memory._core.objects)


def _refuses(objects: object) -> None:
    from recollect.adapters.objects.unset import UnsetObjects

    assert isinstance(objects, UnsetObjects)
    with pytest.raises(InvalidSettings) as raised:
        objects.put("default", [b"x"])
    assert "RECOLLECT_OBJECTS" in raised.value.remedy
    assert (list(objects.list("default")), objects.info("default", object_hash(b"x"))) == ([], None)
    with pytest.raises(NotFound):
        objects.read("default", object_hash(b"x"))


@pytest.mark.parametrize("given", ["memory://", "memory:///x", "http://host/x", "s3://", "file://x/y", "", "ftp://x"])
def test_what_does_not_stay_or_names_nothing_is_refused(given: str) -> None:
    with pytest.raises(InvalidSettings, match="objects"):
        load("a.db", objects=given)


def test_opening_a_store_imports_no_client_and_a_missing_one_says_what_to_install(tmp_path: Path) -> None:
    script = f"""
import sys
sys.modules["obstore"] = None
import recollect
with recollect.open({str(tmp_path / "a.db")!r}, objects="s3://bucket", embedder="none") as memory:
    memory.remember("a note")
    try:
        memory._core.objects.put("default", [b"x"])
    except recollect.RecollectError as error:
        print(error.code, error.remedy)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.stdout) == ("", "missing_extra pip install 'recollect[data]'\n")
