"""Commands against a service: what is printed, the exit codes and the errors are those of a local store."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.errors import InvalidSettings, StoreReadOnly
from recollect.interfaces.cli import main as cli
from serving import served


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with served(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(autouse=True)
def _key(service: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_API_KEY", service[1])
    monkeypatch.setenv("RECOLLECT_EMBEDDER__PROVIDER", "hash")


def _said(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, str, str]:
    code = cli.run(list(command))
    out, err = capsys.readouterr()
    # Whoever acts over a service has an account; a column is as wide as what stands in it.
    out = re.sub(r" +", " ", re.sub(r"(?m)^(created|updated)_by .*\n", "", out)).replace(" \n", "\n")
    volatile = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\d[T ][\d:.]+(Z|\+00:00)?"
    return code, re.sub(volatile, "…", out), re.sub(volatile, "…", err)


COMMANDS: list[list[str]] = [
    ["remember", "Alice prefers pytest", "--tag", "tests"],
    ["remember", "The key hangs behind the boiler"],
    ["recall", "pytest"],
    ["context", "pytest"],
    ["list"],
    ["show", "nosuch"],
    ["tag", "list"],
    ["agent", "add", "Scout", "--id", "scout"],
    ["agent", "list"],
    ["agent", "remove", "nosuch"],
    ["run", "start", "look", "--agent", "scout"],
    ["run", "list"],
    ["prune", "--dry-run"],
    ["recall", "tea", "--limit", "0"],
    ["forget-many"],
    ["revise"],
]


def test_every_command_says_the_same_over_a_service(
    service: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in COMMANDS:
        local = _said(capsys, *command, "--store", str(tmp_path / "a.db"))
        assert _said(capsys, *command, "--store", service[0]) == local, command


def test_open_connects_to_a_service(service: tuple[str, str]) -> None:
    url, key = service
    with recollect.open(url) as mem:
        assert repr(mem) == f"<Recollect at {url}>"
        stored = mem.remember("opened like any other")
    with recollect.connect(url) as mem:
        assert mem.show(stored.id).text == "opened like any other"
    with recollect.open(url, api_key=key, readonly=True) as mem:
        assert mem.show(stored.id).id == stored.id
        with pytest.raises(StoreReadOnly):
            mem.forget(stored.id)


def test_awaited_it_is_the_same(service: tuple[str, str]) -> None:
    async def told() -> tuple[str, str]:
        async with recollect.aopen(service[0]) as mem:
            stored = await mem.remember("awaited")
        async with recollect.aconnect(service[0], retries=1, total_timeout=30) as mem:
            return (await mem.show(stored.id)).text, repr(mem)

    text, shown = asyncio.run(told())
    assert (text, service[0] in shown) == ("awaited", True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"embedder": "hash"}, "embedder cannot be chosen"),
        ({"actor": "bob"}, "the key says who acts"),
        ({"organization": "others"}, "not of the organization"),
    ],
)
def test_what_the_service_decides_cannot_be_chosen(service: tuple[str, str], given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSettings, match=said):
        recollect.open(service[0], **given)


@pytest.mark.parametrize(
    "command", [["backup", "there"], ["serve"], ["bench", "speed"], ["encryption", "check"], ["copy", "b.db"], ["mcp"]]
)
def test_what_needs_the_store_itself_says_so(
    service: tuple[str, str], command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = [*command, service[0]] if command[0] == "copy" else [*command, "--store", service[0]]
    code, out, err = _said(capsys, *given)
    assert (code, out) == (2, "")
    assert "machine of the" in err


def test_config_check_tries_the_service_and_its_key(
    service: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = _said(capsys, "config", "check", service[0])
    assert (code, "knows the key" in out) == (0, True)
    monkeypatch.setenv("RECOLLECT_API_KEY", "rk.ZGVmYXVsdA.nobody.wrong")
    code, out, _ = _said(capsys, "config", "check", service[0])
    assert (code, "not valid" in out) == (1, True)


def test_a_command_against_a_service_loads_no_model_and_no_store(service: tuple[str, str]) -> None:
    script = (
        "import sys, json\nfrom recollect.interfaces.cli.main import run\n"
        "code = run(sys.argv[1:])\nprint()\nprint(json.dumps([code, sorted(sys.modules)]))"
    )
    command = [sys.executable, "-c", script, "recall", "pytest", "--store", service[0]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    code, modules = json.loads(done.stdout.splitlines()[-1])
    heavy = (
        "onnxruntime",
        "apsw",
        "duckdb",
        "starlette",
        "yaml",
        "recollect.services.data",
        "recollect.services.admin",
    )
    assert code == 0, done.stderr
    assert [one for one in modules if f"{one}.".startswith(tuple(f"{name}." for name in heavy))] == []
