"""The command line, as a person or a program uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from import_samples import FIXTURES
from recollect.catalogue import OPERATIONS
from recollect.interfaces.cli.commands import BEGINNING, COMMANDS, HEADINGS, Program
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


def told(cli: Any, *arguments: str) -> Any:
    code, out, err = cli(*arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_help_lists_every_command_once(cli: Any) -> None:
    code, out, _ = cli("--help")
    assert code == 0
    grouped = {operation.group or name for name, operation in COMMANDS.items()}
    assert sorted(" ".join(HEADINGS.values()).split()) == sorted(grouped)
    for command in grouped:
        assert f"  {command} " in out


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help_and_json(cli: Any, command: str) -> None:
    code, out, _ = cli(*command.split(), "--help")
    assert code == 0
    assert COMMANDS[command].summary in out
    assert "--json" in out
    fields = COMMANDS[command].request.model_fields
    is_of_a_store = not isinstance(COMMANDS[command], Program) or not fields.keys().isdisjoint(("settings", "store"))
    assert ("--store" in out) == is_of_a_store


def test_a_memory_goes_in_and_comes_out(cli: Any) -> None:
    made = told(cli, "remember", "Alice prefers pytest", "--cite", "user:alice:said so", "--tag", "testing",
                "--metadata", "team=core", "--metadata", "size=3", "--priority", "7")  # fmt: skip
    found = told(cli, "recall", "pytest", "--tag", "testing", "--metadata", "size=3")
    assert [hit["id"] for hit in found["hits"]] == [made["id"]]
    assert found["hits"][0]["citations"][0]["source"] == "user:alice"
    assert found["hits"][0]["metadata"] == {"team": "core", "size": 3}
    code, out, _ = cli("recall", "pytest")
    assert code == 0
    assert "Alice prefers pytest" in out
    assert "user:alice" in out


def test_what_was_masked_is_said_beside_the_answer(cli: Any) -> None:
    code, out, err = cli("remember", "the key is AKIAIOSFODNN7EXAMPLE")
    assert code == 0
    assert "AKIAIOSFODNN7EXAMPLE" not in out + err
    assert "note: masked in content: AWS access key" in err
    masked = told(cli, "remember", "again AKIAIOSFODNN7EXAMPLE AKIAIOSFODNN7EXAMPLE")["masked"]
    assert masked == [{"field": "content", "kind": "AWS access key", "count": 2}]


def test_the_whole_life_of_a_memory(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("alpha\nbeta\n")
    id = told(cli, "remember", "beta follows alpha", "--cite", "file:notes.md:1-2")["id"]
    assert told(cli, "promote", id, "--why", "read it")["status"] == "verified"
    assert told(cli, "cite", id, "user:ann:agrees")["citations"]
    (tmp_path / "notes.md").write_text("alpha\ngamma\n")
    code, out, _ = cli("check", "--json")
    assert (code, json.loads(out)["demoted"]) == (1, [id])
    assert told(cli, "revise", id, "gamma follows alpha", "--why", "changed")["status"] == "hypothesis"
    assert len(told(cli, "history", id)["entries"]) == 4
    assert told(cli, "show", id)["text"] == "gamma follows alpha"
    assert "gamma" in told(cli, "context", "what follows alpha?", "--tokens", "300")["text"]
    assert told(cli, "forget", id)["restorable"]
    assert told(cli, "restore", id)
    told(cli, "export", "out.jsonl")
    assert told(cli, "import", "out.jsonl", "--store", "other.db")["records"] > 3
    assert told(cli, "verify")["sound"]
    assert told(cli, "doctor")["well"]
    assert told(cli, "erase", id)
    assert told(cli, "stats")["memories"] == 0


def test_the_help_of_restore_says_how_a_backup_is_restored(cli: Any) -> None:
    _, out, _ = cli("restore", "--help")
    assert "Restore a forgotten memory" in out
    assert "recollect restore PLACE --to STORE" in " ".join(out.split())


@pytest.mark.parametrize("command", ["list", "stats", "verify", "doctor", "sweep", "session list", "backup b.db"])
def test_every_answer_also_reads_well(cli: Any, command: str) -> None:
    cli("remember", "something [bold]odd[/] to show")
    code, out, err = cli(*command.split())
    assert code == 0, err
    assert out.strip()


def test_content_from_standard_input_and_files(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO("piped in"))
    assert told(cli, "show", told(cli, "remember", "-")["id"])["text"] == "piped in"
    (tmp_path / "note.txt").write_text("from a file")
    assert told(cli, "show", told(cli, "remember", "@note.txt")["id"])["text"] == "from a file"
    typed = '{"task_description": "try", "success": true}'
    assert told(cli, "show", told(cli, "remember", typed, "--kind", "episode")["id"])["kind"] == "episode"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["recal"], 2, "did you mean recall"),
        (["recall"], 2, "QUERY"),
        (["remember", ""], 2, "nothing to remember"),
        (["remember", "x", "--kind", "nonsense"], 2, "define_kind"),
        (["remember", "x", "--priority", "99"], 2, "priority"),
        (["remember", "x", "--priority", "many"], 2, "--priority"),
        (["remember", "x", "--cite", "hearsay"], 2, "user:NAME:COMMENT"),
        (["remember", "x", "--metadata", "novalue"], 2, "KEY=VALUE"),
        (["remember", "@absent.txt"], 2, "absent.txt"),
        (["remember", "x", "--cycle", "nothing"], 1, "create the cycle first"),
        (["recall", "x", "--since", "yesterday-ish"], 2, "since"),
        (["recall", "x", "--no-such-option"], 2, "no-such-option"),
        (["show", "absent"], 1, "no memory"),
        (["promote", "absent"], 1, "no memory"),
        (["import", "absent.jsonl"], 2, "absent.jsonl"),
        (["list", "--after", "garbage"], 2, "cursor"),
        (["stats", "--store", "mysql://x"], 2, "unknown kind of store"),
        (["stats", "--store", "absent-folder/x.db"], 1, "folder"),
        (["stats", "--store", "absent.yaml"], 2, "absent.yaml"),
    ],
)
def test_wrong_requests_end_in_one_line_with_a_remedy(cli: Any, arguments: list[str], code: int, words: str) -> None:
    cli("remember", "something else")
    got, out, err = cli(*arguments)
    assert (got, out) == (code, "")
    assert words in err
    assert "Traceback" not in err


def test_errors_are_json_for_programs(cli: Any) -> None:
    told(cli, "remember", "present")
    code, _, err = cli("show", "absent", "--json")
    assert code == 1
    assert json.loads(err)["error"]["code"] == "not_found"


def test_a_foreign_file_is_left_alone(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ann, this is not a database. " * 100)
    code, _, err = cli("stats", "--store", "letter.txt")
    assert code == 1
    assert "not a Recollect store" in err
    assert (tmp_path / "letter.txt").read_text().startswith("Dear Ann")


def test_settings_come_from_a_file(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("store: kept.db\norganization: acme\ntimezone: Asia/Bangkok\n")
    told(cli, "remember", "in acme", "--store", "settings.yaml")
    assert (tmp_path / "kept.db").exists()
    assert told(cli, "stats", "--store", "kept.db")["memories"] == 0
    assert told(cli, "stats", "--store", "kept.db", "--organization", "acme")["memories"] == 1


def test_as_a_program_it_prints_no_traceback_when_the_pipe_closes(tmp_path: Path) -> None:
    environment = {**os.environ, "RECOLLECT_EMBEDDER__PROVIDER": "hash"}
    line = f"{sys.executable} -m recollect --help | head -1"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.startswith("Usage")
    assert done.stderr == ""


def test_hashes_and_numbers_of_the_store_are_shown_as_json_alone(cli: Any) -> None:
    stored = cli("remember", "Alice prefers pytest", "--id", "pytest", "--tag", "testing")[1]
    shown = cli("show", "pytest")[1]
    for out in (stored, shown):
        assert "hypothesis" in out
        assert not [name for name in ("content_hash", "identity", "is_deleted", "seq", "False") if name in out]
    told = json.loads(cli("show", "pytest", "--json")[1])
    assert told["fields"]["content_hash"].startswith("m1:")


def test_a_store_is_copied_into_another(cli: Any) -> None:
    told(cli, "remember", "Alice prefers pytest", "--store", "a.db")
    code, out, _ = cli("copy", "a.db", "b.db")
    assert code == 0
    assert "identical on both sides" in out
    assert told(cli, "copy", "a.db", "b.db")["written"] == 0
    assert told(cli, "recall", "pytest", "--store", "b.db")["hits"]
    code, _, err = cli("copy", "nowhere.db", "c.db")
    assert code == 1
    assert "there is no store" in err


def test_config_check_says_what_is_wrong_and_how_to_mend_it(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECOLLECT_EMBEDDER__PROVIDER")
    code, out, _ = cli("config", "check")
    assert code == 0
    assert "recollect.db: will be created" in out
    assert not (tmp_path / "recollect.db").exists()
    (tmp_path / "r.yaml").write_text(
        "store: postgresql://app:hush@127.0.0.1:1/memory\nembedder: {provider: openai, base_url: 'http://127.0.0.1:1'}\n"
        "citation_roots: [/nowhere/at/all]\n"
    )
    code, out, _ = cli("config", "check", "r.yaml", "--json")
    assert code == 1
    assert "hush" not in out
    findings = json.loads(out)["findings"]
    assert {one["name"]: one["well"] for one in findings} == {
        "settings": True, "store": False, "vectors": True, "embedder": False, "citations": False,
        "citation_roots": True, "secrets": False, "backups": True,
    }  # fmt: skip
    assert all(one["remedy"] for one in findings if not one["well"])
    (tmp_path / "r.yaml").write_text("colour: red")
    code, out, _ = cli("config", "check", "r.yaml")
    assert code == 1
    assert "colour" in out


def test_an_unknown_command_of_a_room_is_told(cli: Any) -> None:
    code, _, err = cli("config", "chekc")
    assert code == 2
    assert "config check" in err
    assert cli("config")[0] == 0


def test_many_problems_are_counted_not_poured_out(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(25):
        cli("remember", f"note {number}")
    monkeypatch.setenv("RECOLLECT_EMBEDDER__DIMENSIONS", "32")
    code, out, _ = cli("verify")
    assert code == 1
    assert "has no vector by hash-32 in long_term" in out
    assert "(and 24 more)" in out
    assert len(out.splitlines()) == 1


def test_removing_shows_first_what_goes_and_asks(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ann", "bob"):
        told(cli, "user", "add", name, "--id", name)
    told(cli, "remember", "Ann likes tea", "--user", "ann")
    assert "1  memory" in cli("user", "remove", "ann", "--dry-run")[1]
    assert told(cli, "user", "remove", "ann", "--dry-run")["takes"][0]["owner"] == "ann"
    code, _, err = cli("user", "remove", "ann", "--for-good")
    assert (code, "--yes" in err) == (2, True)
    terminal = StringIO("n\ny\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    code, out, _ = cli("user", "remove", "ann")
    assert (code, "memory" in out) == (130, True)
    assert len(told(cli, "user", "list")["users"]) == 2
    code, out, _ = cli("user", "remove", "ann")
    assert (code, "brings it back until" in out) == (0, True)
    assert [one["id"] for one in told(cli, "user", "list")["users"]] == ["bob"]
    assert cli("user", "restore", "ann")[0] == 0
    assert told(cli, "user", "remove", "ann", "--for-good", "--yes")["deleted"] > 1


@pytest.mark.parametrize(
    "command",
    [
        "recall tea", "context tea", "list", "show x", "stats", "verify", "doctor", "export e.jsonl", "backup b.db",
        "history x", "log", "session list", "why-not tea x", "run list", "run show x", "message list", "item search",
        "audit verify", "key list", "user list", "sweep", "forget x", "promote x", "reindex", "checkpoint threads",
        "doctor --fix", "activity", "summary tree", "user remove x --dry-run",
    ],
)  # fmt: skip
def test_in_the_wrong_folder_nothing_is_made_and_nothing_is_answered(cli: Any, tmp_path: Path, command: str) -> None:
    code, out, err = cli(*command.split())
    assert (code, out) == (1, "")
    assert f"there is no store '{tmp_path / 'recollect.db'}'" in err
    assert "--store" in err
    assert list(tmp_path.iterdir()) == []


def test_every_command_either_begins_a_store_or_needs_one() -> None:
    assert set(OPERATIONS) >= BEGINNING
    assert {OPERATIONS[name].permission for name in BEGINNING} <= {"write", "admin", "operate"}


@pytest.mark.parametrize("name", sorted(BEGINNING - {"import_", "migrate"}))
def test_what_comes_first_makes_the_store(cli: Any, tmp_path: Path, name: str) -> None:
    arguments = {
        "message.add": ["user", "hello"], "episode.record": ["mend the roof", "true"],
        "connection.add": ["shop", "sqlite:///nosuch.db"],
        "block.add": ["human", "Ann"], "item.put": ['["a"]', "k", "--value", "n=1"],
    }.get(name, ["first"])  # fmt: skip
    code, _, err = cli(*COMMANDS[OPERATIONS[name].command].command.split(), *arguments)
    assert code == 0 or "there is no store" not in err
    assert (tmp_path / "recollect.db").exists()


def test_the_package_is_the_command() -> None:
    command = [sys.executable, "-m", "recollect", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.startswith(
        "recollect "
    )


def test_what_has_a_place_may_also_be_given_by_its_name(cli: Any) -> None:
    one = told(cli, "remember", "--content=the first of all")["id"]
    assert told(cli, "revise", one, "--content", "the second")["version"] == 2
    assert told(cli, "revise", "--content=the third", "--id", one)["version"] == 3
    assert cli("revise", "--id")[0] == 2


def test_memories_of_another_product_are_looked_at_and_then_imported(cli: Any) -> None:
    path = str(FIXTURES / "mem0.json")
    code, out, err = cli("import", path, "--from", "auto", "--dry-run")
    assert (code, "recognised as mem0" in err) == (0, True)
    assert "would be imported" in out
    assert "memory.immutable" in out  # what has no field here
    assert "written" not in out
    assert "✓ 8 written, 0 already here" in cli("import", path, "--from", "mem0")[1]
    assert "✓ 0 written, 8 already here" in cli("import", path, "--from", "mem0")[1]
    assert cli("import", str(FIXTURES / "notes"), "--from", "markdown")[0] == 0  # a folder
    code, _, err = cli("import", path)
    assert (code, "--from auto" in err) == (2, True)
