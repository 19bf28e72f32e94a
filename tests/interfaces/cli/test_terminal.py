"""What a person meets in a terminal: one line for what was written, tables, short ids, passwords, lines, completion."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.errors import DOCS_URL, InvalidSettings
from recollect.interfaces.cli import main as cli
from recollect.interfaces.cli.commands import COMMANDS
from recollect.interfaces.cli.completion import options
from serving import served

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
Run = Callable[..., tuple[int, str, str]]
Typed = Callable[[bytes], None]


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.db").write_bytes(empty_store.read_bytes())
    monkeypatch.setenv("RECOLLECT_STORE", str(tmp_path / "a.db"))
    monkeypatch.setenv("RECOLLECT_EMBEDDER__PROVIDER", "hash")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*command: str) -> tuple[int, str, str]:
        code = cli.run(list(command))
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Typed]:
    """As `command < file`."""
    with ExitStack() as open_files:

        def typed(given: bytes) -> None:
            (tmp_path / "input").write_bytes(given)
            monkeypatch.setattr(sys, "stdin", open_files.enter_context((tmp_path / "input").open(encoding="utf-8")))

        yield typed


def test_what_was_written_is_told_in_one_line(run: Run) -> None:
    _, out, _ = run("remember", "Alice prefers pytest", "--tag", "tests")
    assert re.fullmatch(rf"remembered {UUID} · hypothesis · 1 tag\n", out)
    _, out, _ = run("remember", "Alice prefers pytest")
    assert "known already" in out
    assert re.fullmatch(rf"added user {UUID} · Bob · active\n", run("user", "add", "Bob")[1])
    assert run("sweep")[1] == "swept · nothing to do\n"
    id = re.findall(UUID, run("list")[1])[0]
    assert run("forget", id)[1] == f"forgot {id}\n"


def test_all_of_it_is_shown_when_asked_for(run: Run) -> None:
    assert "indexed" in run("remember", "one", "-v")[1]
    assert "indexed" in run("--verbose", "remember", "two")[1]
    assert json.loads(run("remember", "three", "--json")[1])["status"] == "hypothesis"


def test_a_new_key_is_alone_on_its_line(run: Run) -> None:
    first, key = run("key", "add", "ci", "--scope", "read")[1].splitlines()
    assert re.fullmatch(rf"added key {UUID} · ci", first)
    assert re.fullmatch(r"rk\.\S+", key)


def test_users_keys_and_agents_are_tables(run: Run) -> None:
    run("user", "add", "Bob", "--email", "bob@example.com", "--role", "reader")
    run("key", "add", "ci", "--scope", "read", "--scope", "write")
    run("agent", "add", "Scout", "--type", "looker")
    assert re.search(r"id +name +email +role +status +created", run("user", "list")[1])
    keys = run("key", "list")[1]
    assert re.search(r"id +name +scopes", keys)
    assert "read, write" in keys
    assert "{" not in keys
    assert re.search(rf"{UUID} +Scout +looker +active", run("agent", "list")[1])


@pytest.mark.parametrize("columns", ["60", "200"])
def test_ids_stay_whole_in_a_narrow_terminal(columns: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("user", "add", "Bob")
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert re.search(UUID, run("user", "list")[1])


def test_an_id_is_known_by_its_beginning(run: Run) -> None:
    ids = ["aaaa1111-0000-7000-8000-000000000001", "aaaa1111-0000-7000-8000-000000000002", "aaaa2222-0000-7000-8000-00"]
    for id in ids:
        run("user", "add", f"Name {id[-1]}", "--id", id)
    assert f"Name {ids[2][-1]}" in run("user", "show", "aaaa2222")[1]
    assert f"Name {ids[2][-1]}" in run("user", "show", "AAAA2")[1]
    code, out, err = run("user", "show", "aaaa1111")
    assert (code, out) == (2, "")
    assert all(id in err for id in ids[:2])
    assert ids[2] not in err
    code, _, err = run("user", "show", "ffff")
    assert (code, "there is no user 'ffff'" in err) == (1, True)


def test_beginnings_work_where_ids_stand_and_only_there(run: Run) -> None:
    user = re.findall(UUID, run("user", "add", "Bob")[1])[0]
    assert "Bob" in run("user", "show", user[:13])[1]
    memory = re.findall(UUID, run("remember", "one")[1])[0]
    assert run("forget", memory[:13])[0] == 0
    assert run("restore", memory[:13])[0] == 0
    assert run("relate", memory[:13], memory[:13], "supports")[0] in (0, 2)
    assert run("remember", "theirs", "--user", user[:8])[0] == 0  # an owner of its own, and not Bob
    assert user[:8] in run("user", "list")[1].replace(user, "")


def test_no_beginning_tells_what_another_organization_has(run: Run) -> None:
    memory = re.findall(UUID, run("remember", "secret", "--organization", "acme")[1])[0]
    code, out, err = run("show", memory[:13])
    assert (code, out) == (1, "")
    assert memory not in err


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with served(tmp_path_factory.mktemp("service")) as running:
        yield running


def test_beginnings_and_lines_work_over_a_service(
    service: tuple[str, str], run: Run, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    monkeypatch.setenv("RECOLLECT_STORE", service[0])
    monkeypatch.setenv("RECOLLECT_API_KEY", service[1])
    memory = re.findall(UUID, run("remember", "one")[1])[0]
    assert "one" in run("show", memory[:13])[1]
    assert run("show", "ffff")[0] == 1
    with recollect.open(service[0]) as mem:
        mine = mem.key.add("of one", scopes=["read"], namespace="elsewhere").key
    monkeypatch.setenv("RECOLLECT_API_KEY", mine)
    assert run("show", memory[:13])[0] == 1, "a key that does not reach it learns nothing of it"
    monkeypatch.setenv("RECOLLECT_API_KEY", service[1])
    typed(b"one\ntwo\n")
    assert run("remember", "--lines")[1] == "remembered 1 new · 1 known already · 0 refused\n"


def test_each_line_becomes_a_memory(run: Run, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> None:
    from recollect.interfaces.cli import lines

    monkeypatch.setattr(lines, "LINES_AT_ONCE", 3)
    monkeypatch.setattr(lines, "LONGEST_LINE", 50)
    typed(b"tea\n\n  coffee\r\ntea\n\xff\xfe\n" + b"x" * 170 + b"\nmilk")
    code, out, err = run("remember", "--lines", "--tag", "drinks")
    assert (code, out) == (1, "remembered 3 new · 1 known already · 2 refused\n")
    assert re.findall(r"line (\d+): ", err) == ["5", "6"]
    assert {one["text"] for one in json.loads(run("list", "--tag", "drinks", "--json")[1])["memories"]} == {
        "tea",
        "coffee",
        "milk",
    }


def test_a_refused_line_keeps_no_other_from_being_stored(
    run: Run, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    monkeypatch.setenv("RECOLLECT_SECRETS", "refuse")
    typed(b"tea\nthe key is sk_live_" + b"4eC39HqLyjWDarjtT1zdp7dc" + b"\ncoffee\n")
    code, out, _ = run("remember", "--lines", "--json")
    told = json.loads(out)
    assert (code, told["new"], [one["line"] for one in told["lines"]]) == (1, 2, [2])


def test_passwords_come_from_standard_input_where_nobody_can_be_asked(run: Run, typed: Typed) -> None:
    typed(b"correct horse battery\n")
    command = ["user", "add", "Bob", "--email", "b@example.com", "--role", "reader", "--password", "-", "-v"]
    assert re.search(r"has_password +True", run(*command)[1])
    typed(b"")
    code, _, err = run(*[part.replace("b@", "c@") for part in command])
    assert (code, "standard input" in err) == (2, True)


def test_a_person_is_asked_for_a_password_without_echo(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom recollect.interfaces.cli.main import run\n"
        "sys.exit(run(['user', 'add', 'Bob', '--email', 'b@x.y', '--role', 'reader', '--password', '-', '--json']))"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", script])
    said = b""
    for asked in (b"New password: ", b"The same again: "):
        while asked not in said:
            said += os.read(terminal, 1024)
        os.write(terminal, b"correct horse battery\n")
    while True:
        try:
            part = os.read(terminal, 1024)
        except OSError:
            break
        if not part:
            break
        said += part
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, said
    assert b"correct horse" not in said
    assert b'"has_password": true' in said


def test_completion_of_bash_knows_commands_groups_and_options(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "recollect.bash"
    script.write_text(run("completion", "bash")[1])

    def completed(*words: str) -> set[str]:
        listed = " ".join(f"'{word}'" for word in words)
        test = (
            f"source {script}; COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _recollect; echo ${{COMPREPLY[@]}}"
        )
        return set(subprocess.run(["bash", "-c", test], capture_output=True, text=True, check=True).stdout.split())

    assert completed("recollect", "rec") == {"recall"}
    assert {"add", "list", "show"} <= completed("recollect", "user", "")
    assert completed("recollect", "recall", "tea", "--lim") == {"--limit"}
    assert completed("recollect", "user", "add", "--em") == {"--email"}
    assert completed("recollect", "con") == {"confirm", "connection", "config", "context"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_in_the_script_of_each_shell(shell: str, run: Run) -> None:
    script = run("completion", shell)[1]
    known = options()
    assert known.keys() == COMMANDS.keys()
    words = set(re.findall(r"[\w-]+", script))
    assert {part for command in COMMANDS for part in command.split()} <= words
    assert {flag.lstrip("-") for flags in known.values() for flag in flags} <= {word.lstrip("-") for word in words}


def test_another_shell_is_told_which_there_are(run: Run) -> None:
    code, _, err = run("completion", "tcsh")
    assert (code, "bash, zsh, fish" in err) == (2, True)


def test_help_and_errors_lead_to_pages_that_can_be_opened(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert DOCS_URL in run("--help")[1]
    assert f"{DOCS_URL}reference/cli.html#user-add" in run("user", "add", "--help")[1]
    monkeypatch.setenv("RECOLLECT_RESTORE_DAYS", "many")
    assert f"{DOCS_URL}reference/settings.html" in run("list")[2]
    error = InvalidSettings("no", remedy="see docs/guides/encryption.md#keys for it")
    assert error.remedy == f"see {DOCS_URL}guides/encryption.html#keys for it"


def test_the_module_is_the_command(tmp_path: Path) -> None:
    command: list[Any] = [sys.executable, "-m", "recollect", "list", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "Usage: recollect list " in done.stdout


def test_nothing_is_coloured_for_a_pipe_or_who_wants_no_colours(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("remember", "tea")
    assert "\x1b" not in run("list")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[3" not in run("list")[1]
