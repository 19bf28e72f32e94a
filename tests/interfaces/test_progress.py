"""How far something is: growing numbers that end at the total, bars on stderr, nothing where nobody looks."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect import app
from recollect.adapters.models.hash import HashEmbedder
from recollect.errors import InvalidInput
from recollect.interfaces import progress
from recollect.interfaces.cli import main as cli
from recollect.interfaces.client import Recollect
from recollect.interfaces.progress import Lines, NotebookBar, bar_for_command
from recollect.services.memories.indexing import ReindexRequest, reindex
from serving import served

MANY = 300


@pytest.fixture
def mem(tmp_path: Path) -> Iterator[Recollect]:
    with recollect.open(tmp_path / "p.db", embedder="hash", background=False) as mem:
        mem.remember_many([f"memory number {number}" for number in range(MANY)])
        yield mem


LONG: dict[str, Callable[[Recollect, Path, Any], object]] = {
    "remember_many": lambda mem, to, told: mem.remember_many([f"new {n}" for n in range(MANY)], progress=told),
    "remember again": lambda mem, to, told: mem.remember_many([f"memory number {n}" for n in range(5)], progress=told),
    "reindex": lambda mem, to, told: mem.reindex(everything=True, progress=told),
    "export": lambda mem, to, told: mem.export(str(to / "e.jsonl"), progress=told),
    "backup and prove": lambda mem, to, told: mem.backup(f"{to}/", progress=told),
    "backup": lambda mem, to, told: mem.backup(f"{to}/", verify=False, progress=told),
    "backup as a file": lambda mem, to, told: mem.backup(str(to / "b.db"), progress=told),
    "copy": lambda mem, to, told: app.copy(to.parent / "p.db", to / "c.db", progress=told),
    "forget_many": lambda mem, to, told: mem.forget_many(kinds=["fact"], progress=told),
}


@pytest.mark.parametrize("name", LONG)
def test_numbers_grow_and_end_at_the_total(mem: Recollect, tmp_path: Path, name: str) -> None:
    told: list[tuple[int, int]] = []
    (tmp_path / "to").mkdir()
    LONG[name](mem, tmp_path / "to", lambda done, total: told.append((done, total)))
    done = [one for one, _ in told]
    assert done == sorted(done)
    assert all(0 <= one <= total for one, total in told)
    assert told[-1][0] == told[-1][1] > 0


def test_an_import_tells_how_far_it_is(mem: Recollect, tmp_path: Path) -> None:
    mem.export(str(tmp_path / "e.jsonl"))
    told: list[tuple[int, int]] = []
    with recollect.open(tmp_path / "other.db", embedder="hash", background=False) as other:
        other.import_(str(tmp_path / "e.jsonl"), progress=lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] == told[-1][1]


def test_a_service_is_sent_an_import_that_tells_how_much_was_sent(mem: Recollect, tmp_path: Path) -> None:
    mem.export(str(tmp_path / "e.jsonl"))
    told: list[tuple[int, int]] = []
    (tmp_path / "served").mkdir()
    with served(tmp_path / "served") as (address, key), recollect.connect(address, key) as remote:
        remote.import_(str(tmp_path / "e.jsonl"), progress=lambda *report: told.append(report))
        assert remote.list(limit=1).total == MANY
    size = (tmp_path / "e.jsonl").stat().st_size
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (size, size)


def test_no_memory_counts_as_done_before_all_are_stored(mem: Recollect) -> None:
    seen: list[tuple[int, int]] = []
    mem.remember_many(
        [f"new {n}" for n in range(MANY)], progress=lambda done, total: seen.append((done, mem.list(limit=1).total))
    )
    assert {stored for done, stored in seen if done < MANY} == {MANY}
    assert {stored for done, stored in seen if done == MANY} == {2 * MANY}
    assert seen[-1] == (MANY, 2 * MANY)


def test_every_embedder_counts(mem: Recollect) -> None:
    core = dataclasses.replace(mem._core, embedders=(HashEmbedder(64), HashEmbedder(32)))
    told: list[tuple[int, int]] = []
    reindex(core.for_scope(mem._scope), ReindexRequest(everything=True), lambda *report: told.append(report))
    assert {total for _, total in told} == {2 * MANY}
    assert told[-1] == (2 * MANY, 2 * MANY)


def test_what_is_no_way_to_tell_is_refused(mem: Recollect) -> None:
    wrong: Any = "yes"
    with pytest.raises(InvalidInput, match="True for a bar"):
        mem.call("reindex", progress=wrong)
    assert mem.reindex(progress=False).remaining == 0


def test_without_a_terminal_lines_go_to_stderr_alone(mem: Recollect, capsys: pytest.CaptureFixture[str]) -> None:
    mem.reindex(everything=True, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines()[-1] == f"Create the vectors that are missing: {MANY} of {MANY}"


def test_a_thousand_reports_are_ten_lines() -> None:
    output = io.StringIO()
    lines = Lines("Copy.", output)
    for done in range(1, 1001):
        lines.report(done, 1000)
    lines.report(5, 0)  # how much there is, is not known
    assert len(output.getvalue().splitlines()) == 11
    assert output.getvalue().endswith("Copy: 1,000 of 1,000\n")


class Page:
    """What IPython's display gives: a handle by which what is shown is shown anew."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, what: Any, *, display_id: bool) -> Page:
        assert display_id
        self.update(what)
        return self

    def update(self, what: Any) -> None:
        self.shown.append(what._repr_html_())


def test_a_notebook_is_shown_a_bar_of_plain_html() -> None:
    page = Page()
    bar = NotebookBar("<script>", page.display)
    for done in range(1, 10_001):
        bar.report(done, 10_000)
    bar.end(whole=True)
    assert len(page.shown) == 102, "one drawing for each hundredth"
    assert page.shown[0] == "<div>&lt;script&gt; <progress></progress> <small></small></div>"
    assert '<progress max="10000" value="10000"></progress> <small>10,000 of 10,000</small>' in page.shown[-1]


def test_a_bar_of_what_failed_does_not_look_done() -> None:
    page = Page()
    bar = NotebookBar("Copy", page.display)
    bar.report(3, 10)
    bar.end(whole=False)
    assert "3 of 10" in page.shown[-1]


def _on_a_terminal(*command: str) -> tuple[str, str]:
    """What a program writes to stdout, a pipe, and to stderr, a terminal."""
    screen, end = pty.openpty()
    surroundings = os.environ | {"TERM": "xterm", "COLUMNS": "100", "RECOLLECT_EMBEDDER__PROVIDER": "hash"}
    with subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=end, env=surroundings, text=True
    ) as running:
        os.close(end)
        written = b""
        try:
            while part := os.read(screen, 65536):
                written += part
        except OSError:  # how a terminal says that nobody is left to write to it
            pass
        assert running.stdout is not None
        answer = running.stdout.read()
    os.close(screen)
    assert running.returncode == 0, written
    return answer, written.decode()


def test_on_a_terminal_a_bar_is_drawn_and_taken_away(mem: Recollect, tmp_path: Path) -> None:
    script = (
        f"import recollect\nwith recollect.open({str(tmp_path / 'p.db')!r}, background=False) as mem:\n"
        "    mem.reindex(everything=True, progress=True)"
    )
    answer, screen = _on_a_terminal("-c", script)
    assert answer == ""
    assert "Create the vectors that are missing." in screen
    assert f"{MANY}/{MANY}" in screen
    assert screen.rstrip().endswith("\x1b[2K"), "its line is cleared"


def test_a_command_shows_no_bar_of_what_is_done_at_once(mem: Recollect, tmp_path: Path) -> None:
    answer, screen = _on_a_terminal("-m", "recollect", "reindex", "--store", str(tmp_path / "p.db"))
    assert screen == ""
    assert "reindexed" in answer


@pytest.mark.parametrize(("more", "is_terminal"), [([], False), (["--json"], True)])
def test_a_command_with_json_or_in_a_pipe_shows_no_bar(
    mem: Recollect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    more: list[str], is_terminal: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(progress, "TerminalBar", None)  # to make one would fail
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    assert cli.run(["reindex", "--everything", "--store", str(tmp_path / "p.db"), *more]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert str(MANY) in shown.out
    assert not more or json.loads(shown.out)["made"] == MANY


@pytest.mark.parametrize(("after", "is_shown"), [(0.0, True), (3600.0, False)])
def test_a_command_shows_a_bar_after_a_while(after: float, is_shown: bool) -> None:
    script = (
        "from recollect.interfaces.progress import bar_for_command\n"
        f"with bar_for_command('Copy [bold]', after={after}) as report:\n"
        "    for done in range(11): report(done, 10)"
    )
    answer, screen = _on_a_terminal("-c", script)
    assert answer == ""
    assert ("Copy [bold]" in screen) is is_shown
    assert is_shown or screen == ""


def test_where_nobody_looks_a_command_is_given_nothing_to_call(capsys: pytest.CaptureFixture[str]) -> None:
    with bar_for_command("Copy", after=0) as report:
        assert report is None
    assert capsys.readouterr().err == ""


def test_a_bar_is_loaded_when_it_is_shown() -> None:
    script = (
        "import sys, recollect\n"
        "with recollect.open(':memory:', embedder='hash', background=False) as mem:\n"
        "    mem.remember_many(['a', 'b'], progress=lambda done, total: None)\n"
        "print([one for one in sys.modules if one.startswith('rich')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"
