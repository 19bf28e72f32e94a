"""Whoever reads from an organization that is not there is told so; only writing makes one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EVERY_STORE
from recollect.errors import NotFound
from recollect.interfaces.cli.main import run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOLLECT_EMBEDDER__PROVIDER", "hash")
    assert run(["remember", "the harbour opens at six", "--store", "s.db", "--organization", "acme"]) == 0
    return tmp_path / "s.db"


def tenants(store: Path) -> list[str]:
    mem: Any = recollect.open(store, organization="acme")
    with mem:
        return list(mem._core.store.tenants())


@pytest.mark.parametrize(
    "command",
    [
        ["recall", "harbour"],
        ["list"],
        ["stats"],
        ["verify"],
        ["export", "x.jsonl"],
        ["sweep"],
        ["erase", "m"],
        ["doctor"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_that_makes_nothing_says_which_organizations_there_are(
    here: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--store", "s.db", "--organization", "acne"]) != 0
    said = capsys.readouterr().err
    assert "no organization 'acne'" in said
    assert "it has acme" in said
    assert tenants(here) == ["acme"]


def test_a_command_that_writes_makes_it(here: Path) -> None:
    assert run(["agent", "add", "Bee", "--store", "s.db", "--organization", "globex"]) == 0
    assert run(["tool", "add", "hammer", "--store", "s.db", "--organization", "initech"]) == 0
    assert tenants(here) == ["acme", "globex", "initech"]


def test_the_default_organization_need_not_be_made_first(here: Path) -> None:
    assert run(["list", "--store", "s.db"]) == 0


@pytest.mark.parametrize("kind", [*EVERY_STORE])
def test_opening_without_creating_refuses_it_on_every_store(kind: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"embedder": "hash", "organization": "acme"}
    address = EVERY_STORE[kind](tmp_path)
    recollect.open(address, **given).close()
    mem: Any = recollect.open(address, create=False, **given)
    with mem:
        with pytest.raises(NotFound, match="no organization 'acne'"):
            mem.within("acne")
        assert list(mem._core.store.tenants()) == ["acme"]
    with pytest.raises(NotFound, match="no organization 'acne'"):
        recollect.open(address, create=False, embedder="hash", organization="acne")
