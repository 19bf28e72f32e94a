"""An open memory on the stores whose rules the services lean on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EMPTY_STORE
from postgres_server import server


def _open(kind: str, folder: Path) -> Any:
    addresses = {"sqlite": EMPTY_STORE["sqlite"], "memory": lambda _: "memory://"}
    address = addresses[kind](folder) if kind in addresses else server().emptied_store()
    return recollect.open(address, embedder="hash", citation_root=folder)


@pytest.fixture(params=("sqlite", "memory"))
def each(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Every test runs on a file and in memory."""
    with _open(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture(params=("sqlite", "memory", "postgres"))
def every(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """The few that also run on a database server."""
    with _open(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str, Any, Callable[[], object]], None]:
    """Has something else happen just before the store's next call of a verb that is about a record type."""

    def before(mem: Any, verb: str, record: Any, happens: Callable[[], object]) -> None:
        store, original = mem._core.store, getattr(mem._core.store, verb)

        def call(scope: Any, given: Any, *rest: Any) -> Any:
            about = [getattr(one, "record", one) for one in (given if verb == "transact" else [given])]
            if any(one is record or isinstance(one, record) for one in about):
                monkeypatch.setattr(store, verb, original)
                happens()
            return original(scope, given, *rest)

        monkeypatch.setattr(store, verb, call)

    return before
