"""Cold storage, retention and holds on the command line: in words, with what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recollect.interfaces.cli.main import run


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOLLECT_EMBEDDER__PROVIDER", "hash")
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str, code: int = 0) -> str:
        assert run(list(arguments)) == code
        shown = capsys.readouterr()
        return shown.out + shown.err

    return call


def test_cold_storage_on_the_command_line(cli: Any, tmp_path: Path) -> None:
    cli("session", "add", "Ferries 渡轮", "--id", "old")
    cli("message", "add", "user", "When does the ferry leave? 渡轮", "--session", "old")
    cli("remember", "The ferry leaves at nine", "--id", "fact", "--session", "old")
    cli("remember", "The harbour is in the north", "--id", "harbour")
    cli("relate", "harbour", "fact", "beside")
    assert "Nothing is in cold storage." in cli("cold", "list")
    assert "would move 1 sessions" in cli("cold", "store", "--session", "old", "--dry-run")
    assert "moved 1 sessions with" in cli("cold", "store", "--session", "old", "--to", str(tmp_path / "cold"))
    assert "Ferries 渡轮" in cli("cold", "list")
    assert "its files are intact" in cli("cold", "show", "old")
    assert "渡轮" in cli("cold", "search", "渡轮")
    assert "Nothing found in 1 sessions." in cli("cold", "search", "zeppelin")
    assert "in cold storage" in cli("session", "list")
    assert "recollect cold restore old" in cli("show", "harbour")
    told = cli("show", "fact", code=1)
    assert "in cold storage" in told
    assert "recollect cold restore old" in told
    assert "restored session old" in cli("cold", "restore", "old")
    assert "The ferry leaves at nine" in cli("show", "fact")


def test_retention_and_holds_on_the_command_line(cli: Any) -> None:
    cli("session", "add", "Ferries", "--id", "old")
    cli("remember", "The ferry leaves at nine", "--id", "fact", "--session", "old")
    assert "No retention rules" in cli("retention", "list")
    cli("retention", "set", "--kind", "fact", "--keep-days", "30", "--then", "erase", "--reason", "policy 7")
    assert "policy 7" in cli("retention", "list")
    assert "kind fact" in cli("retention", "preview")
    assert "on hold" in cli("retention", "apply")
    assert "No legal holds." in cli("hold", "list")
    cli("hold", "place", "--session", "old", "--reason", "case 42")
    assert "case 42" in cli("hold", "list")
    assert "is on legal hold" in cli("erase", "fact", code=1)
