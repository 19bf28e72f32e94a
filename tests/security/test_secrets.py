"""No operation lets a secret through: it is planted in every text of every operation of the catalogue, and afterwards
no byte of the store, its files, its log, the errors, the replies or the messages of the program has it.

The requests are made from the catalogue and from the examples of the crash tests, so an operation that is added is
tried without a line here.
"""

from __future__ import annotations

import logging
import random
import shutil
import string
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import recollect
from crash.test_failing_calls import ELSEWHERE, EXAMPLES, THEIR_OWN, Example, furnish
from probing import places, sample
from recollect.catalogue import OPERATIONS, Operation
from recollect.errors import RecollectError
from recollect.interfaces.serve import application
from recollect.services.secrets import _as_given
from recollect.settings import Settings

OWN_FILES = frozenset({"base64", "path", "folder", "vector"})
"""Where the caller's own file is: it is stored as it is (a source), or only its place is given."""


class Secrets:
    """Secrets that were planted, each recognised by its own letters."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self.planted: dict[str, str] = {}

    def plant(self, where: str) -> str:
        letters = "".join(self._random.choices(string.ascii_letters + string.digits, k=36))
        self.planted[letters] = where
        return f"ghp_{letters}"

    def found_in(self, data: bytes) -> list[str]:
        return [where for letters, where in self.planted.items() if letters.encode() in data]


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("furnished") / "store.db"
    furnish(path)
    return path


@pytest.fixture
def opened(furnished: Path, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def copy(**settings: Any) -> Any:
        path = tmp_path / f"{len(made)}" / "store.db"
        path.parent.mkdir()
        shutil.copy(furnished, path)
        shutil.copytree(f"{furnished}-objects", f"{path}-objects")
        made.append(recollect.open(path, embedder="hash", background=False, **settings))
        return made[-1]

    yield copy
    for one in made:
        one.close()


def planted(operation: Operation, mem: Any, folder: Path, secrets: Secrets) -> Iterator[dict[str, Any]]:
    """The examples with a secret in each place that takes text, and in each text that they have."""
    as_given = _as_given(operation.request)
    examples = EXAMPLES.get(operation.name) or [Example(sample(operation))]
    for fields in [example.request(mem, folder) for example in examples]:
        for place in places(operation, OWN_FILES):
            more = place.fields(secrets.plant(f"{operation.name} {place.label}"))
            if not as_given & more.keys() or operation.name == "workspace.write":
                yield {**fields, **more}
        for name, value in fields.items():
            if name not in as_given:
                yield {**fields, name: _with(value, secrets.plant(f"{operation.name} {name}, beside the example"))}


def _with(value: Any, secret: str) -> Any:
    """The value with a secret behind its texts."""
    if isinstance(value, str):
        return f"{value} {secret}"
    if isinstance(value, bytes):
        return value + b" " + secret.encode()
    if isinstance(value, list | tuple):
        return [_with(one, secret) for one in value]
    return {**value, "more": secret, secret: 1} if isinstance(value, dict) else value


def stored_bytes(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of the store, and what is compressed in it."""
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            yield path.name, data
            for start in _zlib_places(data):
                yield f"{path.name}, compressed", _unpacked(data[start : start + 1_000_000])


def _zlib_places(data: bytes) -> Iterator[int]:
    for head in (b"\x78\x9c", b"\x78\x01", b"\x78\xda", b"\x78\x5e"):
        start = data.find(head)
        while start >= 0:
            yield start
            start = data.find(head, start + 1)


def _unpacked(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, 1_000_000)
    except zlib.error:
        return b""


@pytest.mark.usefixtures("one_engine")
@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - ELSEWHERE))
def test_no_operation_stores_or_says_a_secret(
    name: str, opened: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "recollect")
    operation, secrets, mem = OPERATIONS[name], Secrets(name), opened()
    folder = tmp_path / "files"
    folder.mkdir()
    for fields in planted(operation, mem, folder, secrets):
        caller = mem.within(actor="user") if name in THEIR_OWN else mem
        try:
            outcome: Any = caller.call(name, **fields)
            assert outcome.masked or not secrets.found_in(repr(fields).encode()), "the receipt says it"
        except RecollectError as error:
            outcome = error.as_dict()
        assert secrets.found_in(repr(outcome).encode()) == []
    mem.close()
    for file, data in stored_bytes(tmp_path / "0"):
        assert secrets.found_in(data) == [], file
    assert secrets.found_in(caplog.text.encode()) == []


def test_the_probe_sees_what_is_kept(opened: Callable[..., Any], tmp_path: Path) -> None:
    """Without the mask every place of a memory is found again."""
    secrets, mem = Secrets("kept"), opened(secrets="keep")
    mem.remember(f"it is {secrets.plant('content')}", tags=[secrets.plant("tags")], user="user")
    mem.checkpoint.put("t", "1", body=secrets.plant("body").encode())
    mem.close()
    found = {where for _, data in stored_bytes(tmp_path / "0") for where in secrets.found_in(data)}
    assert found == {"content", "tags", "body"}


def test_what_is_asked_over_http_is_not_in_the_log_of_the_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = Secrets("http")
    with recollect.open(tmp_path / "store.db", embedder="hash", background=False) as mem:
        key = mem.key.add("all", scopes=["read", "write", "admin"]).key
        app = application(mem._core, Settings(store=str(tmp_path / "store.db")))
        with TestClient(app, "http://127.0.0.1", client=("127.0.0.1", 50000)) as client:
            headers = {"authorization": f"Bearer {key}"}
            client.get("/v1/stats", headers={**headers, "x-request-id": secrets.plant("request id")})
            client.get("/v1/memories", params={"author": secrets.plant("query")}, headers=headers)
            client.get(f"/v1/memories/{secrets.plant('path')}", headers=headers)
            client.get(f"/v1/{secrets.plant('no route')}", headers=headers)
            client.post("/v1/memories", json={secrets.plant("field"): 1, "content": "x"}, headers=headers)
            client.post("/v1/memories", content=secrets.plant("not JSON"), headers=headers)
            stored = client.post("/v1/memories", json={"content": secrets.plant("body")}, headers=headers)
            assert stored.json()["masked"] == [{"field": "content", "kind": "GitHub token", "count": 1}]
    ours = [one.getMessage() for one in caplog.records if one.name != "httpx2"]
    assert secrets.found_in("\n".join(ours).encode()) == []
    for file, data in stored_bytes(tmp_path):
        assert secrets.found_in(data) == [], file
