"""What is done in a store by itself: by the service, by a program that opened it, by one process of all on it."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.app import open_for_command
from recollect.app.background import LONGEST_REST, Background
from recollect.app.embedded_background import EmbeddedBackground
from recollect.background_thread import BackgroundThread
from recollect.domain.agents import Lease
from recollect.domain.key_value import Item
from recollect.errors import Closed, EmbedderFailed, StoreReadOnly
from recollect.interfaces.http.app import Service
from recollect.interfaces.serve import service_background
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Put
from recollect.services.admin import expiry
from recollect.services.background import LEASE, Schedule
from recollect.settings import ServerSettings, Settings
from recollect.testing.fakes import HashEmbedder

SCOPE = Scope("default")


class SometimesAway(HashEmbedder):
    """A model that can be reached only when `is_away` is false."""

    is_away = True

    def embed(self, texts: Any) -> Any:
        if self.is_away:
            raise EmbedderFailed("the model is away")
        return super().embed(texts)


@contextmanager
def of_service(mem: Any, **settings: Any) -> Iterator[Background]:
    with closing(service_background(Service(mem._core, ServerSettings(**settings), "default"))) as background:
        yield background


def of_library(mem: Any) -> Background:
    return Background(mem._core, Schedule(look_seconds=1e6))


def expired(mem: Any) -> int:
    mem.remember("soon gone", ttl_seconds=0.001)
    return left(mem)


def left(mem: Any) -> int:
    return int(mem.sweep(dry_run=True).expired)


# -- what is done ------------------------------------------------------------------------------------------------------


def test_vectors_that_are_owed_are_made_when_the_model_is_back(tmp_path: Path) -> None:
    model = SometimesAway(8)
    with recollect.open(tmp_path / "a.db", embedder=model) as mem:
        assert mem.remember("stored all the same").queued
        with of_service(mem) as background:
            background.once()
            assert mem.stats().queued == 1
            model.is_away = False
            background.once()
            assert mem.stats().queued == 1  # a model that is away is not asked again at once
        with of_service(mem) as background:
            background.once()
        assert (mem.stats().queued, mem.stats().vectors) == (0, 1)


def test_summaries_that_are_due_are_written_by_the_service_unless_they_are_not_wanted(mem: Any) -> None:
    mem.session.add("talk", id="s")
    mem.remember("We fly to Lisbon", kind="conversation", author="Ann", session="s", at="2024-05-08T10:00:00Z")
    mem.session.end("s")
    with of_service(mem, summary_seconds=None) as background:
        background.once()
    with closing(of_library(mem)) as background:
        background.once()
    assert not mem.summary.tree().lines
    with of_service(mem) as background:
        background.once()
    assert mem.summary.tree().lines[0].kind == "summary"


@pytest.mark.parametrize("opened_by", ["service", "library"])
def test_what_has_expired_goes_and_the_log_is_sealed(mem: Any, opened_by: str) -> None:
    expired(mem)
    mem.item.put(["n"], "k", value={"a": 1}, ttl_minutes=0.00001)
    with of_service(mem) if opened_by == "service" else closing(of_library(mem)) as background:
        background.once()
    assert left(mem) == 0
    assert mem._core.store.count(SCOPE, Query(Item)) == 0
    assert mem.audit.verify().seals > 0


def test_every_organization_is_looked_after(mem: Any) -> None:
    other = mem.within("another")
    expired(other)
    with closing(of_library(mem)) as background:
        background.once()
    assert left(other) == 0


@pytest.mark.parametrize("is_busy", [True, False])
def test_while_somebody_waits_for_answers_it_rests_longer_than_it_works(
    mem: Any, is_busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        mem.session.add(name, id=name)
        mem.remember(f"We fly to {name}", kind="conversation", author="Ann", session=name, at="2024-05-08T10:00:00Z")
        mem.session.end(name)
    service, rests = Service(mem._core, ServerSettings(), "default"), list[float]()
    service.counts.inside[0][0] = int(is_busy)
    with closing(service_background(service)) as background:
        monkeypatch.setattr(background._thread.stopping, "wait", rests.append)
        background.once()
    assert mem.summary.tree().lines
    assert (len(rests) > 3) is is_busy
    assert all(0 < seconds <= LONGEST_REST for seconds in rests)


@pytest.mark.parametrize("is_asked", [True, False])
def test_in_a_program_that_opened_a_store_it_rests_while_that_asks(
    mem: Any, is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large import is sealed for a minute, in which a recall took four times as long."""
    mem.remember_many([f"Number {number}." for number in range(250)])
    rests = list[float]()
    background = EmbeddedBackground(mem._core, Settings())
    monkeypatch.setattr(background._thread.stopping, "wait", rests.append)
    monkeypatch.setattr(mem._core.journal, "_ended_at", -1e9)
    with mem._core.journal.attend(SCOPE, "search", "recall", {}) if is_asked else nullcontext():
        background.once()
    assert (len(rests) > 2) is is_asked
    assert mem.audit.verify().entries >= 250
    background.close()


def test_while_it_sweeps_it_may_rest_or_stop_in_between(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "AT_ONCE", 2)
    lefts = list[int]()
    for _ in range(5):
        expired(mem)
    while left(mem) < 5:  # the last has a millisecond to go
        time.sleep(0.001)
    expiry.sweep(mem._core.for_scope(SCOPE), expiry.SweepRequest(), lambda: lefts.append(left(mem)))
    assert lefts == [3, 1, 0]


def test_told_to_stop_while_it_rests_it_does_nothing_more(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    service, went_on = Service(mem._core, ServerSettings(), "default"), list[bool]()
    service.counts.inside[0][0] = 1
    with closing(service_background(service)) as background:
        stopping = background._thread.stopping
        monkeypatch.setattr(stopping, "wait", lambda seconds: stopping.set())
        monkeypatch.setattr(background._lease, "keep", lambda: went_on.append(True))
        with pytest.raises(Closed):
            background.once()
    assert not went_on


# -- by whom -----------------------------------------------------------------------------------------------------------


def test_of_two_on_one_store_one_does_the_work_until_it_closes(mem: Any) -> None:
    with closing(of_library(mem)) as first, closing(of_library(mem)) as second:
        first.once()
        expired(mem)
        second.once()
        assert left(mem) == 1
        first.close()
        second.once()
        assert left(mem) == 0


WORKER = """
import sys, recollect
from recollect.app.background import Background
from recollect.services.background import Schedule
mem = recollect.open(sys.argv[1], embedder="hash")
Background(mem._core, Schedule(look_seconds=1e6)).once()
print("working", flush=True)
sys.stdin.read()
"""


def test_when_the_process_that_does_it_is_killed_another_takes_over(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with recollect.open(path, embedder="hash") as mem, closing(of_library(mem)) as background:
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "working\n"
            worker.kill()
        assert expired(mem) == 1
        background.once()
        assert left(mem) == 1  # the lease of the dead has not run out
        store = mem._core.store
        lease = store.get(SCOPE, Lease, LEASE)
        store.transact(SCOPE, [Put(lease.changed(expires_at=lease.created_at))])
        background.once()
        assert left(mem) == 0


def test_who_lost_the_lease_stops(mem: Any) -> None:
    with closing(of_library(mem)) as slow, closing(of_library(mem)) as other:
        slow.once()
        store = mem._core.store
        lease = store.get(SCOPE, Lease, LEASE)
        store.transact(SCOPE, [Put(lease.changed(expires_at=lease.created_at))])
        slow._lease._renew_at = 0.0  # it slept for longer than the lease
        other.once()
        expired(mem)
        slow.once()
        assert left(mem) == 1


# -- the thread --------------------------------------------------------------------------------------------------------


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "recollect-background"]


def test_a_program_that_opens_a_store_has_it_until_it_closes(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "a.db", embedder="hash", background=False) as mem:
        expired(mem)  # before the other thread looks, since it looks for what has expired once an hour
    with recollect.open(tmp_path / "a.db", embedder="hash", background_seconds=0.001) as mem:
        assert threads()
        while left(mem):
            threading.Event().wait(0.01)  # asking without a pause would leave the other thread no turn
    assert not threads()


def test_a_program_may_do_without(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "a.db", embedder="hash", background=False):
        assert not threads()


def test_a_command_does_without(tmp_path: Path) -> None:
    with open_for_command(str(tmp_path / "a.db"), None, None, create=True, create_organization=True):
        assert not threads()


def test_a_short_program_does_not_load_what_it_never_does() -> None:
    program = """
import sys, recollect
with recollect.open("memory://", embedder="hash") as mem:
    mem.remember("short")
print("recollect.services.background" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_store_that_was_dropped_is_not_kept_alive(tmp_path: Path) -> None:
    mem = recollect.open("memory://", embedder="hash", background_seconds=0.001)
    thread = mem._core.background._thread._thread
    del mem
    gc.collect()
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_closes_without_taking_the_lease_away(tmp_path: Path) -> None:
    program = """
import os, sys, recollect
from recollect.app.background import Background
from recollect.services.background import Schedule
mem = recollect.open("memory://", embedder="hash")
with_lease = Background(mem._core, Schedule(look_seconds=1e6))
with_lease.start()
with_lease.once()
child = os.fork()
if child == 0:
    with_lease.close()
    os._exit(0 if with_lease._lease._held is not None else 1)
print(os.waitpid(child, 0)[1], with_lease._thread._thread.is_alive())
with_lease.close()
"""
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
    assert done.stdout.split() == ["0", "True"]


def test_nothing_is_done_after_closing_or_where_nothing_can_be_written(mem: Any, tmp_path: Path) -> None:
    expired(mem)
    background = of_library(mem)
    background.close()
    background.start()
    assert background._thread._thread is None
    with closing(of_library(mem)) as background:

        def refuse(*given: Any) -> Any:
            raise StoreReadOnly("the disk takes no writes")

        kept, mem._core.store.transact = mem._core.store.transact, refuse
        with pytest.raises(StoreReadOnly):
            background.once()
        mem._core.store.transact = kept
    assert left(mem) == 1


def test_an_unforeseen_error_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    again = threading.Event()

    class Owner:
        tries = 0

        def work(self) -> None:
            self.tries += 1
            if self.tries > 2:
                again.set()
            raise ZeroDivisionError

    owner = Owner()
    thread = BackgroundThread("recollect.tried", owner.work, every_seconds=0.001)
    with caplog.at_level(logging.WARNING, "recollect.tried"):
        thread.start()
        assert again.wait(60)
        thread.stop()
    assert [record.message for record in caplog.records] == ["background work failed; it is tried again: "]
