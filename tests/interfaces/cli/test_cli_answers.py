"""What the command line says when something is not as it should be: what is wrong, in words, and what to write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.errors import InvalidInput
from recollect.interfaces.cli.main import run


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command in its own folder; gives exit code, output, complaints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOLLECT_EMBEDDER__PROVIDER", "hash")

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(list(arguments))
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def test_a_missing_file_makes_no_store(cli: Any, tmp_path: Path) -> None:
    code, _, err = cli("import", "nope.jsonl")
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert "cannot read 'nope.jsonl'" in err


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["recall", "x", "--boost", "foo"], "--boost recency=0.5; KEY is one of recency, priority, trust, access"),
        (["remember", "x", "--metadata", "foo"], "--metadata colour=blue"),
        (["remember", "x", "--relate", "foo"], "--relate MEMORY_ID=contradicts"),
    ],
)
def test_a_pair_that_is_none_is_told_its_own_option(cli: Any, arguments: list[str], remedy: str) -> None:
    code, _, err = cli(*arguments)
    assert code == 2
    assert f"write {remedy}" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--store"], "--store needs a value"),
        (["--json", "--organization"], "--organization needs a value"),
        (["--sotre", "x", "list"], "there is no option '--sotre' (did you mean --store?)"),
        (["--sotre=x", "list"], "there is no option '--sotre' (did you mean --store?)"),
        (["run", "--sotre", "x", "show"], "there is no option '--sotre' (did you mean --store?)"),
        (["--frobnicate", "list"], "there is no option '--frobnicate' (options of a command come after it"),
        (["--store", "x.db"], "no command was given (see recollect --help)"),
        (["--store=x.db"], "no command was given (see recollect --help)"),
        (["run", "--store", "x.db"], "no command was given (see recollect run --help)"),
    ],
)
def test_an_option_in_the_place_of_the_command(cli: Any, arguments: list[str], says: str) -> None:
    code, out, err = cli(*arguments)
    assert (code, out) == (2, "")
    assert says in err


@pytest.mark.parametrize("arguments", ["config check --store x.yaml", "--store x.yaml config check"])
def test_the_settings_to_check_may_be_named_as_everywhere(cli: Any, tmp_path: Path, arguments: str) -> None:
    (tmp_path / "x.yaml").write_text("store: here.db\nembeder: hash\n")
    _, out, err = cli(*arguments.split())
    assert "embeder" in out + err
    assert "No such option" not in err


def test_two_settings_to_check_are_one_too_many(cli: Any) -> None:
    code, _, err = cli("config", "check", "a.yaml", "--store", "b.yaml")
    assert code == 2
    assert "not both" in err


def test_notes_are_told_beside_what_was_asked_for(cli: Any) -> None:
    _, out, _ = cli("remember", "Alice prefers pytest", "--cite", "user:alice:said so", "--json")
    assert cli("promote", json.loads(out)["id"])[0] == 0
    for command in (["recall", "harbours", "--purpose", "act"], ["context", "harbours", "--purpose", "act"]):
        code, out, err = cli(*command)
        assert code == 0
        assert "note: 1 that hardly answer" in err, command
        assert "note:" not in out


def test_a_text_that_is_too_long_is_counted_in_characters(mem: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        mem.recall("x" * 20_001)
    assert "query: should have at most 20,000 characters, not 20,001" in refused.value.message
    with pytest.raises(InvalidInput) as refused:
        mem.remember("x", tags=["y"] * 101)
    assert "tags: should have at most 100 entries, not 101" in refused.value.message
    with pytest.raises(InvalidInput) as refused:
        mem.remember("x", namespaces=[])
    assert "namespaces: should have at least 1 entry, not 0" in refused.value.message


@pytest.mark.parametrize("zone", ["UTC", "Asia/Bangkok", "America/Los_Angeles"])
def test_the_last_day_of_the_calendar_counts_whole(tmp_path: Path, zone: str) -> None:
    with recollect.open(tmp_path / "a.db", embedder="hash", timezone=zone) as mem:
        id = mem.remember("for good").id
        mem.remember("as long as time lasts", valid_to="9999-12-31", expires_at="9999-12-31")
        assert mem.recall("for good", until="9999-12-31").hits[0].id == id
        assert mem.recall("for good", as_of="9999-12-31").hits[0].id == id
        assert mem.recall("long as time lasts").hits[0].text == "as long as time lasts"
        assert mem.list(until="9999-12-31").total == 2
        assert mem.show(id).text == "for good"
        with pytest.raises(InvalidInput, match="9999"):
            mem.recall("for good", until="9999-12-31T23:59:59-23:00")


def test_what_needed_no_mending_is_not_told(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "a.db", embedder="hash") as mem:
        mem.remember("one memory")
        assert not [line for line in mem._core.store.mend() if ": 0 " in line]
