"""The children: each is held to its limits, ended when it must be, replaced, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from recollect.adapters.data.engine import DuckDBEngine
from recollect.adapters.data.pool import ChildPool
from recollect.errors import Cancelled, Closed, InvalidInput, NotFound, Overloaded, TooLarge
from recollect.ports.data import Limits

ENDLESS = "SELECT count(*) FROM big a, big b, big c WHERE a.label || b.label || c.label = 'x'"
LONG = Limits(seconds=120, cpu_seconds=120)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[DuckDBEngine]:
    engine = DuckDBEngine(size=2, scratch=tmp_path / "scratch")
    yield engine
    engine.close()
    assert list((tmp_path / "scratch").iterdir()) == []


def _pool(engine: DuckDBEngine) -> ChildPool:
    return engine.pool


def _wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to pass")


def _is_gone(pid: int) -> bool:
    """Dead and waited for: not even a zombie is left."""
    return not Path(f"/proc/{pid}").exists()


def _in_background(work: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, raised


def test_one_child_answers_many_questions(own: DuckDBEngine, tables: dict[str, Path]) -> None:
    own.query("SELECT 1", {})
    (pid,) = _pool(own).children()
    for _ in range(5):
        assert own.query("SELECT count(*) FROM sales", tables).rows == [[3]]
    assert _pool(own).children() == [pid]


def test_the_next_job_in_a_child_sees_nothing_of_the_one_before(own: DuckDBEngine, tables: dict[str, Path]) -> None:
    assert own.query("SELECT count(*) FROM big", tables).rows == [[200_000]]
    before = _pool(own).children()
    with pytest.raises(NotFound):
        own.query("SELECT count(*) FROM big", {"sales": tables["sales"]})
    # The same name is another file now, and the file of before is not readable by its path.
    assert own.query("SELECT count(*) FROM big", {"big": tables["sales"]}).rows == [[3]]
    with pytest.raises((InvalidInput, NotFound)):
        own.query(f"SELECT * FROM '{tables['big']}'", {"big": tables["sales"]})
    assert _pool(own).children() == before


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_child_knows_nothing_of_its_parent(own: DuckDBEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_SECRET_KEY", "do not tell")
    own.query("SELECT 1", {})
    (pid,) = _pool(own).children()
    assert b"RECOLLECT_SECRET_KEY" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert os.getsid(pid) == pid != os.getsid(0)
    files = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    assert not [name for name in files if name.startswith("socket:")]


def test_what_is_enforced_is_said(own: DuckDBEngine) -> None:
    found = own.protections()
    assert {"memory", "cpu_time", "file_size", "address_space", "no_network", "own_folder_only"} == set(found)
    if sys.platform == "linux":
        assert all(found[name] for name in ("memory", "cpu_time", "file_size", "address_space"))


def test_a_cancelled_query_ends_and_its_child_is_replaced(own: DuckDBEngine, tables: dict[str, Path]) -> None:
    own.query("SELECT 1", {})
    (pid,) = _pool(own).children()
    thread, raised = _in_background(lambda: own.query(ENDLESS, tables, limits=LONG, job="mine"))
    _wait_for(lambda: own.cancel("mine"))
    thread.join(30)
    assert isinstance(raised[0], Cancelled)
    assert _is_gone(pid)
    assert not own.cancel("mine")
    assert own.query("SELECT count(*) FROM sales", tables).rows == [[3]]


def test_at_the_deadline_a_child_that_does_not_listen_is_killed(own: DuckDBEngine, tables: dict[str, Path]) -> None:
    own.query("SELECT 1", {})
    (pid,) = _pool(own).children()
    with pytest.raises(TooLarge, match="too long"):
        own.query("SELECT levenshtein(repeat('a', 300000), repeat('b', 300000))", {}, limits=Limits(seconds=0.5))
    assert _is_gone(pid)
    assert own.query("SELECT count(*) FROM sales", tables).rows == [[3]]


def test_processor_time_is_limited_whatever_the_clock_says(own: DuckDBEngine) -> None:
    with pytest.raises(TooLarge, match="processor time"):
        own.query(
            "SELECT levenshtein(repeat('a', 300000), repeat('b', 300000))",
            {},
            limits=Limits(seconds=300, cpu_seconds=1),
        )


def test_a_child_that_dies_is_reported_and_replaced(own: DuckDBEngine, tables: dict[str, Path]) -> None:
    own.query("SELECT 1", {})
    (pid,) = _pool(own).children()
    thread, raised = _in_background(lambda: own.query(ENDLESS, tables, limits=LONG, job="mine"))
    _wait_for(lambda: _pool(own).busy() == 1)
    os.kill(pid, signal.SIGKILL)
    thread.join(30)
    assert isinstance(raised[0], TooLarge)
    assert _is_gone(pid)
    assert own.query("SELECT count(*) FROM sales", tables).rows == [[3]]


def test_an_idle_child_that_died_is_not_asked(own: DuckDBEngine, tables: dict[str, Path]) -> None:
    own.query("SELECT 1", {})
    (pid,) = _pool(own).children()
    os.kill(pid, signal.SIGKILL)
    _wait_for(lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None)
    assert own.query("SELECT count(*) FROM sales", tables).rows == [[3]]
    assert _is_gone(pid)


def test_too_many_at_once_are_turned_away(tables: dict[str, Path], tmp_path: Path) -> None:
    engine = DuckDBEngine(size=1, scratch=tmp_path, wait_seconds=0.1)
    try:
        thread, raised = _in_background(lambda: engine.query(ENDLESS, tables, limits=LONG, job="first"))
        _wait_for(lambda: _pool(engine).busy() == 1)
        with pytest.raises(Overloaded):
            engine.query("SELECT 1", {})
        engine.cancel("first")
        thread.join(30)
        assert isinstance(raised[0], Cancelled)
    finally:
        engine.close()


def test_two_running_jobs_cannot_have_one_name(own: DuckDBEngine, tables: dict[str, Path]) -> None:
    thread, _ = _in_background(lambda: own.query(ENDLESS, tables, limits=LONG, job="mine"))
    _wait_for(lambda: _pool(own).busy() == 1)
    with pytest.raises(InvalidInput, match="mine"):
        own.query("SELECT 1", {}, job="mine")
    own.cancel("mine")
    thread.join(30)


def test_closing_ends_everything(tables: dict[str, Path], tmp_path: Path) -> None:
    engine = DuckDBEngine(size=2, scratch=tmp_path)
    engine.query("SELECT 1", {})
    thread, raised = _in_background(lambda: engine.query(ENDLESS, tables, limits=LONG, job="mine"))
    _wait_for(lambda: _pool(engine).busy() == 1)
    pids = _pool(engine).children()
    engine.close()
    thread.join(30)
    assert isinstance(raised[0], Closed)
    assert all(_is_gone(pid) for pid in pids)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Closed):
        engine.query("SELECT 1", {})
    engine.close()


PARENT = """
import sys
from pathlib import Path
from recollect.adapters.data.engine import DuckDBEngine
from recollect.ports.data import Limits
engine = DuckDBEngine(size=2, scratch=Path(sys.argv[1]))
engine.query("SELECT 1", {})
engine.warm()
print(*engine.pool.children(), flush=True)
engine.query(sys.argv[3], {"big": Path(sys.argv[2])}, limits=Limits(seconds=300, cpu_seconds=300))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_when_the_parent_is_killed_its_children_end_too(tables: dict[str, Path], tmp_path: Path) -> None:
    """In the middle of a query, and without leaving a file: what the parent left is deleted by the next engine."""
    command = [sys.executable, "-c", PARENT, str(tmp_path), str(tables["big"]), ENDLESS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert pids
        _wait_for(lambda: all(float(Path(f"/proc/{pid}/stat").read_text().split()[13]) >= 0 for pid in pids))
        parent.kill()
    _wait_for(lambda: all(not Path(f"/proc/{pid}").exists() or "Z" in _state(pid) for pid in pids))
    engine = DuckDBEngine(scratch=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1  # its own
    engine.close()
    assert list(tmp_path.iterdir()) == []


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2]
    except FileNotFoundError:
        return "Z"


def test_nobody_gets_the_answer_to_a_call_that_was_left(own: DuckDBEngine, tmp_path: Path) -> None:
    """Whoever waits may be interrupted; the child that still works for them is not given to the next."""
    path = tmp_path / "t.db"
    with closing(sqlite3.connect(path)) as connection:
        for number in range(3):
            connection.execute(f"CREATE TABLE t{number} (a)")

    def interrupt(what: str, share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        own.read_file(path, tmp_path / "into", progress=interrupt)
    assert own.query("SELECT 42", {}).rows == [[42]]
    assert not (tmp_path / "into").exists()


def test_an_export_that_fails_leaves_no_file(own: DuckDBEngine, tables: dict[str, Path], tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("as before")
    with pytest.raises(TooLarge):
        own.export("SELECT a.label, b.label FROM big a, big b", tables, "csv", target, limits=Limits(disk_megabytes=1))
    assert target.read_text() == "as before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "scratch"]


def test_several_statements_are_tried_at_once_and_those_that_fail_have_no_rows(
    engine: DuckDBEngine, tables: dict[str, Path]
) -> None:
    outside = f"SELECT * FROM read_csv('{tables['sales'].parent}/secret.csv')"
    asked = ["SELECT count(*) FROM sales", "SELECT nothing FROM sales", outside, "SELECT max(id) FROM big b, sales s"]
    assert engine.trials(asked, tables) == [[[3]], None, None, None]
    assert engine.trials(["SELECT max(b.id) FROM big b", "SELECT id FROM sales"], tables)[0] == [[199_999]]
    assert engine.trials(["SELECT 1", ENDLESS], tables, limits=Limits(seconds=1, cpu_seconds=9)) == [[[1]], None]
    assert engine.trials([], tables) == []
