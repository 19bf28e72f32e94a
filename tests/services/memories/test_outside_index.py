"""A vector index in another system: what users see of it, above all when it is away."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from chroma_server import ChromaServer, chroma
from postgres_server import server
from recollect.adapters.vectors.external import chroma as adapter
from recollect.adapters.vectors.external import index
from recollect.errors import IndexFailed, InvalidSettings, MissingExtra, StoreBusy
from recollect.services.recall import few_passing
from recollect.settings import load


@pytest.fixture
def own_server() -> Iterator[ChromaServer]:
    """One that may be stopped."""
    started = ChromaServer()
    yield started
    started.stop()


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_PAUSE_SECONDS", 0.0)


def opened(path: Path, vectors: Any, **settings: Any) -> Any:
    return recollect.open(path / "team.db", embedder="hash", vectors=vectors, **settings)


@pytest.mark.parametrize("kind", ["chroma server", "chroma folder", "pgvector"])
def test_the_public_api_works_on_each(tmp_path: Path, kind: str) -> None:
    vectors = {
        "chroma server": f"chroma+{chroma().url}",
        "chroma folder": f"chroma:{tmp_path / 'vectors'}",
        "pgvector": f"pgvector+{server().address()}",
    }[kind]
    with opened(tmp_path, vectors) as mem:
        first = mem.remember("Alice prefers pytest", cites=[recollect.cite.user("alice", "said so")])
        second = mem.remember("The harbour opens at nine")
        assert mem.recall("Alice prefers pytest", by="meaning", limit=1)[0].id == first.id
        mem.forget(second.id)
        assert [hit.id for hit in mem.recall("harbour", by="meaning")] == [first.id]
        mem.erase(second.id)
        assert mem.reindex(index=True).indexed == 1
        assert mem.verify().sound
        assert mem.stats().behind == 0
        assert mem.doctor().well
    with opened(tmp_path, vectors) as again:
        assert again.recall("pytest", by="meaning")[0].id == first.id
        assert not list(again.recall("pytest", by="meaning", kinds=["event"]))


def test_nothing_is_lost_while_the_index_is_away(
    tmp_path: Path, own_server: ChromaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, {"provider": "chroma", "url": own_server.url}) as mem:
        gone = mem.remember("The harbour opens at nine")
        assert mem.recall("harbour", by="meaning")
        own_server.halt()
        kept = mem.remember("Alice prefers pytest")
        found = mem.recall("pytest", by="meaning")
        assert found[0].id == kept.id
        assert [note.partition(":")[0] for note in found.notes] == ["searched without the vector index"]
        monkeypatch.setattr(few_passing, "EXACT_UP_TO", 1)
        found = mem.recall("pytest")
        assert [hit.id for hit in found] == [kept.id, gone.id]  # by its word, and what was written just before
        assert [note.partition(":")[0] for note in found.notes] == ["searched by words only"]
        assert mem.erase(gone.id).notes
        assert mem.reindex().notes
        assert mem.stats().behind is None
        finding = {one.name: one for one in mem.doctor().findings}["vectors"]
        assert not finding.well
        assert "behind" in finding.says
        assert not mem.doctor(fix=True).well
        with pytest.raises(IndexFailed):
            mem.reindex(index=True)
        own_server.start()
        assert mem.recall("pytest", by="meaning").notes == []
        mem.reindex()
        assert mem.doctor().well


def test_a_store_opens_and_imports_without_the_server(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with opened(tmp_path, f"chroma+{url}") as mem:
            mem.remember("Alice prefers pytest")
            mem.export(str(tmp_path / "all.jsonl"))
            assert mem.recall("pytest")[0].text == "Alice prefers pytest"
        with recollect.open(tmp_path / "other.db", embedder="hash", vectors=f"chroma+{url}") as other:
            done = other.import_(str(tmp_path / "all.jsonl"))
            assert done.records
            assert "behind" in done.notes[0]
        with opened(tmp_path, "postgresql://nobody@127.0.0.1:1/none") as mem:
            assert "without the vector index" in mem.recall("pytest").notes[0]


def test_a_failed_index_is_left_alone_for_a_while(
    tmp_path: Path, own_server: ChromaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_PAUSE_SECONDS", 600.0)
    with opened(tmp_path, f"chroma+{own_server.url}", background=False) as mem:
        mem.remember("Alice prefers pytest")
        own_server.halt()
        assert mem.recall("pytest").notes
        own_server.start()
        assert mem.recall("pytest").notes  # not asked again yet


def test_a_process_that_only_writes_feeds_the_index(tmp_path: Path) -> None:
    with opened(tmp_path, f"chroma+{chroma().url}") as mem:
        for number in range(3):
            mem.remember(f"Fact number {number}")
        feeder = next(one for one in threading.enumerate() if one.name == "recollect-feeder")
        deadline = 200
        while mem.stats().behind and deadline:
            feeder.join(0.05)
            deadline -= 1
        assert mem.stats().behind == 0


def test_the_folder_of_chroma_has_one_user(tmp_path: Path) -> None:
    with opened(tmp_path, f"chroma:{tmp_path / 'vectors'}"), pytest.raises(StoreBusy, match="another process"):
        opened(tmp_path, f"chroma:{tmp_path / 'vectors'}")
    opened(tmp_path, f"chroma:{tmp_path / 'vectors'}").close()


def test_no_text_and_no_name_reaches_the_other_system(tmp_path: Path) -> None:
    with opened(tmp_path, f"chroma:{tmp_path / 'vectors'}", organization="secretorg") as mem:
        mem.user.add("secretuser", id="secretuser")
        mem.remember("the secretword is told", user="secretuser")
        assert mem.recall("secretword", by="meaning", user="secretuser")
    data = b"".join(path.read_bytes() for path in (tmp_path / "vectors").rglob("*") if path.is_file())
    for word in (b"secretword", b"secretorg", b"secretuser"):
        assert word not in data


# -- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vectors", "says"),
    [
        ("pgvector", "does not have pgvector"),
        ("chroma", "a server or a folder"),
        ({"provider": "chroma", "url": "http://h:1", "path": "p"}, "not both"),
        ({"provider": "embedded", "url": "http://h:1"}, "vectors.url does not apply"),
        ({"provider": "pgvector", "path": "p"}, "vectors.path does not apply"),
        ({"provider": "chroma", "path": "p", "secret_env": "X"}, "vectors.secret_env does not apply"),
        ({"provider": "chroma", "url": "http://h:1", "secret_env": "NOT_SET"}, "NOT_SET is not set"),
        ({"provider": "chroma", "url": "http://h:1", "secret_file": "/nowhere"}, "cannot read"),
        ("chroma+http://me:word@h:1", "contains credentials"),
        ("chroma+ftp://h:1", "not the address of a Chroma server"),
        ("pgvector+postgresql://h/x?bogus=1", "not the address of a PostgreSQL"),
        ("faiss", "not valid"),
    ],
)
def test_wrong_settings_name_the_remedy(tmp_path: Path, vectors: Any, says: str) -> None:
    with pytest.raises(InvalidSettings, match=says) as caught:
        opened(tmp_path, vectors)
    assert caught.value.remedy
    assert "word" not in str(caught.value)


def test_settings_from_file_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("vectors: chroma:vectors\n")
    assert load(file).vectors.path == tmp_path / "vectors"
    monkeypatch.setenv("RECOLLECT_VECTORS", "chroma+https://h:1")
    monkeypatch.setenv("RECOLLECT_VECTORS__SECRET_ENV", "TOKEN")
    vectors = load(None).vectors
    assert (vectors.provider, vectors.url, vectors.secret_env) == ("chroma", "https://h:1", "TOKEN")


def test_a_secret_opens_the_door_and_is_not_shown(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("secretword\n")
    with opened(tmp_path, {"provider": "pgvector", "url": server().address(), "secret_file": secret}) as mem:
        mem.remember("Alice prefers pytest")
        assert mem.recall("pytest", by="meaning")
        assert "secretword" not in str(mem.doctor()) + repr(mem)


@pytest.mark.parametrize(
    ("vectors", "package", "extra"),
    [("chroma+http://h:1", "chromadb", "chroma"), ("postgresql://h/x", "psycopg", "postgres")],
)
def test_a_missing_package_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vectors: str, package: str, extra: str
) -> None:
    for name in [name for name in sys.modules if name.startswith("recollect.adapters.vectors.")]:
        if name.endswith((".chroma", ".external.pgvector", ".halfvec_sql")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra) as caught:
        opened(tmp_path, vectors)
    assert f"recollect[{extra}]" in caught.value.remedy


def test_a_server_that_takes_calls_and_says_nothing_is_not_waited_for(
    tmp_path: Path, own_server: ChromaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "_SEARCH_SECONDS", 0.5)
    monkeypatch.setattr(adapter, "_CONNECT_SECONDS", 0.3)
    with opened(tmp_path, f"chroma+{own_server.url}", background=False) as mem:
        kept = mem.remember("Alice prefers pytest")
        assert not mem.recall("pytest", by="meaning").notes
        own_server.process.send_signal(signal.SIGSTOP)
        os.waitpid(own_server.process.pid, os.WUNTRACED)  # until then some of its threads may still answer
        try:
            for _ in range(2):  # the first waits for an answer, the next for a sign of life
                found = mem.recall("pytest", by="meaning")
                assert found[0].id == kept.id
                assert "searched without the vector index" in found.notes[0]
        finally:
            own_server.process.send_signal(signal.SIGCONT)
        assert not mem.recall("pytest", by="meaning").notes
        assert mem.verify().sound


def test_the_longer_it_is_away_the_less_often_it_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_PAUSE_SECONDS", 0.001)
    with opened(tmp_path, "chroma+http://127.0.0.1:1", background=False) as mem:
        mem.remember("Alice prefers pytest")
        pauses = []
        for _ in range(4):
            time.sleep(max(0.0, mem._core.vectors._away_until - time.monotonic()))
            mem.recall("pytest", by="meaning")
            pauses.append(mem._core.vectors._pause_seconds)
        assert pauses == [0.002, 0.004, 0.008, 0.016]
