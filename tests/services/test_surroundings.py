"""Clocks that are ahead, text in the place of ids, files that are taken away, a system that refuses."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EMPTY_STORE, EVERY_STORE
from recollect.domain.agents import Lease
from recollect.domain.record import now
from recollect.errors import (
    Conflict,
    FileReplaced,
    NotFound,
    Overloaded,
    RecollectError,
    StoreFull,
    StoreReadOnly,
    Unavailable,
    of_the_system,
)
from recollect.ports.steps import Put
from recollect.services.runs.history import lease_name


@pytest.mark.parametrize("kind", EVERY_STORE)
def test_a_lease_taken_by_a_clock_that_is_ahead_blocks_nobody(kind: str, tmp_path: Path) -> None:
    with recollect.open(EMPTY_STORE[kind](tmp_path), embedder="hash") as mem:
        mem.agent.add("Worker bee", id="bee")
        run = mem.run.start("collect honey", agent="bee").id
        fence = mem.run.claim("one", id=run).fence
        with pytest.raises(Conflict):
            mem.run.claim("two", id=run)
        store, scope = mem._core.store, mem._scope
        lease = store.get(scope, Lease, lease_name(run))
        assert lease is not None
        store.transact(scope, [Put(lease.changed(expires_at=now() + timedelta(days=365)))])
        taken = mem.run.claim("two")
        assert taken.run.id == run
        assert taken.fence > fence
        with pytest.raises(RecollectError):  # the one whose clock is ahead is fenced off
            mem.run.renew(run, fence)


def test_text_in_the_place_of_an_id_is_not_kept_when_it_is_refused(each: Any) -> None:
    for call in (lambda: each.show("my password is hunter2"), lambda: each.erase("my password is hunter2")):
        with pytest.raises(NotFound):
            call()
    own = each.remember("something").id
    each.erase(own)
    with pytest.raises(NotFound):
        each.show(own)
    entries = [one for one in each.log(limit=50).entries if not one.success]
    assert len(entries) == 3
    assert "hunter2" not in repr(entries)
    assert own in repr(entries)


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_duckdb_file_that_was_taken_away_takes_no_more_writes(how: str, tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    mem = recollect.open(f"duckdb:///{path}", embedder="hash")
    mem.remember("the first")
    mem.backup(str(tmp_path / "copy.duckdb"))
    if how == "deleted":
        path.unlink()
    else:
        os.replace(tmp_path / "copy.duckdb", path)
    with pytest.raises(FileReplaced):
        mem.remember("into nothing")
    mem.close()


def test_a_duckdb_file_that_we_wrote_anew_is_still_ours(tmp_path: Path) -> None:
    with recollect.open(f"duckdb:///{tmp_path}/a.duckdb", embedder="hash") as mem:
        mem.erase(mem.remember("the first").id)
        assert mem.remember("the second").id


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.EMFILE, Overloaded),
        (errno.ENFILE, Overloaded),
        (errno.ENOSPC, StoreFull),
        (errno.EACCES, StoreReadOnly),
        (errno.EROFS, StoreReadOnly),
        (errno.ECONNRESET, Unavailable),
        (errno.EIO, RecollectError),
    ],
)
def test_what_the_system_refuses_has_a_type_and_a_remedy(number: int, expected: type[RecollectError]) -> None:
    told = of_the_system(OSError(number, os.strerror(number)))
    assert isinstance(told, expected)
    assert told.remedy


def test_too_many_open_files_are_a_typed_error_and_over_when_some_are_closed(tmp_path: Path) -> None:
    body = """
        import os, resource, sys, recollect
        from recollect.errors import RecollectError
        mem = recollect.open(sys.argv[1], embedder="hash")
        for number in range(3000):
            mem.remember(f"fact {number}") if number < 5 else None
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        told = set()
        for call in (
            lambda: mem.recall("fact"), lambda: mem.list(), lambda: mem.remember("more"), lambda: mem.verify(),
            lambda: mem.export(sys.argv[1] + ".jsonl"), lambda: mem.backup(sys.argv[1] + ".copy"),
            lambda: recollect.open(sys.argv[1], embedder="hash"), lambda: mem.reindex(), lambda: mem.doctor(),
        ):
            try:
                call()
            except RecollectError as error:
                told.add(error.code)
        for one in held:
            os.close(one)
        assert told, "nothing was refused"
        print(len(mem.recall("fact", limit=50)) >= 5)
        mem.close()
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(body), str(tmp_path / "a.db")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout.strip() == "True", ended.stderr[-2000:]
