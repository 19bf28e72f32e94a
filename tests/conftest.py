"""What all tests share."""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from everyday_stores import pytest_collection_modifyitems as pytest_collection_modifyitems
from forked_workers import pytest_addoption as pytest_addoption
from forked_workers import pytest_runtestloop as pytest_runtestloop
from seeds import load_profile
from soak_report import pytest_terminal_summary as pytest_terminal_summary

load_profile()
# A process of the tests keeps much that is never given back (modules, models, stores of a session): looking through all
# of it as often as Python does by itself is a tenth of the time.
gc.set_threshold(100_000, 20, 50)

_OURS = ("RECOLLECT_SOAK", "RECOLLECT_SEED", "RECOLLECT_CITUS_URL")
for _name in [name for name in os.environ if name.startswith("RECOLLECT_") and name not in _OURS]:
    del os.environ[_name]
os.environ["XDG_CONFIG_HOME"] = "/nonexistent"  # the settings of whoever runs the tests are none of theirs
os.environ["RECOLLECT_BACKGROUND_SECONDS"] = "1e6"  # tests do background work when they say so


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file to copy: making the tables takes longer than most tests."""
    path = tmp_path_factory.mktemp("empty") / "test.db"
    recollect.open(path, embedder="hash").close()
    return path


@pytest.fixture
def mem(empty_store: Path, tmp_path: Path) -> Iterator[Any]:
    """An open memory on a real file, with the instant embedder."""
    shutil.copy(empty_store, tmp_path)
    with recollect.open(tmp_path / "test.db", embedder="hash", citation_root=tmp_path) as opened:
        yield opened


SERVERS = {
    "postgres_server": "server",
    "dynamodb_server": "dynamodb",
    "chroma_server": "chroma",
    "mariadb_server": "mariadb",
}


def pytest_sessionfinish() -> None:
    """A process of the tests that takes long to end is killed: what it would stop at its very end would stay."""
    for module, name in SERVERS.items():
        started = getattr(sys.modules.get(module), name, None)
        if started is not None and started.cache_info().currsize:
            started().stop()


def _postgres() -> Any:
    """The server, if a test of this process has started it."""
    module = sys.modules.get("postgres_server")
    return module.server_if_started() if module is not None else None


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
    """What a fixture of more than one test has made is there for all of them."""
    made = yield
    if fixturedef.scope != "function" and (server := _postgres()) is not None:
        server.keep_all()
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    ended = yield
    if (server := _postgres()) is not None:
        server.drop_those_of_the_test()
    return ended


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Show a failure when it happens: a run that is stopped before its end has then named it."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid} failed in its {report.when}\n{str(report.longrepr)[-2000:]}", flush=True)


@pytest.fixture(scope="session", autouse=True)
def _loaded_once() -> Iterator[None]:
    """A store that is opened loads its models anew, which takes longer than most tests: here the same weights, read and
    checked each time, are made ready once for each process. One that was forked has none of its parent's threads.
    """
    from recollect.adapters.models import minilm, query_ranker

    ready: dict[tuple[Any, ...], Any] = {}
    make, load = minilm._session, query_ranker.QueryRanker._load

    def session(weights: Path, threads: int, spin: bool, *, is_fused: bool) -> Any:
        place = (
            os.getpid(),
            hashlib.sha256(weights.read_bytes()).digest(),
            threads,
            spin,
        )  # which names its other files
        if place not in ready or sys.modules["onnxruntime"] is None:  # a test took it away
            ready[place] = make(weights, threads, spin, is_fused=is_fused)
        return ready[place]

    def ranker(self: Any) -> Any:
        place = (os.getpid(), hashlib.sha256(self._content()).digest(), self._threads)
        if place not in ready:
            ready[place] = load(self)
        self._session = ready[place]
        return self._session

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minilm, "_session", session)
        patch.setattr(query_ranker.QueryRanker, "_load", ranker)
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick_passwords() -> Iterator[None]:
    """Trying a password or a master key takes a tenth of a second on purpose. A password is kept with what trying it
    takes, so those of the tests take less, in every process; a key is derived once for each process.
    """
    from recollect.services.access import passwords

    derive, derived = hashlib.scrypt, dict[tuple[Any, ...], bytes]()

    def scrypt(secret: bytes, **given: Any) -> bytes:
        place = (secret, *sorted(given.items()))
        if place not in derived:
            derived[place] = derive(secret, **given)
        return derived[place]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashlib, "scrypt", scrypt)
        patch.setitem(passwords.SCRYPT, "n", 2**4)
        yield


@pytest.fixture(scope="session")
def shared_engine() -> Iterator[Any]:
    from recollect.adapters.data.engine import DuckDBEngine

    engine = DuckDBEngine(size=2)
    yield engine
    engine.close()


@pytest.fixture
def one_engine(shared_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One data engine for all tests that ask for it: its processes take longer to start than most tests take."""
    from recollect.app.data import EngineOnDemand

    monkeypatch.setattr(EngineOnDemand, "__call__", lambda self: shared_engine)
    monkeypatch.setattr(EngineOnDemand, "close", lambda self: None)


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, str]]:
    from s3_server import s3_server

    with s3_server() as environment:
        yield environment


@pytest.fixture
def bucket(s3: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an unused part of a bucket."""
    from s3_server import BUCKET

    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{tmp_path.name}"
