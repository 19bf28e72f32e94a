"""An erasure that is killed, or done by two at once, ends with everything erased once and one certificate."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import recollect
from delegating import DelegatingStore
from recollect.catalogue import OPERATIONS, invoke
from recollect.domain.agents import Lease
from recollect.errors import NotFound, RecollectError
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.services.access_journal import Journal

WORD = "zqmarker4711"
PHASES = ("mask_others", "pseudonymise_log", "collect_blobs", "scan", "signed")
KILLED = """
import os, signal, sys
import recollect
from recollect.services.privacy import erase

def killed(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(erase, sys.argv[2], killed)
with recollect.open(sys.argv[1], embedder="hash") as mem:
    mem.privacy.erase(user="ann-lee-1", reason="killed")
"""


def household(mem: Any) -> None:
    for name, id in (("Ann Lee", "ann-lee-1"), ("Bob Ray", "bob-ray-2")):
        mem.user.add(name, id=id)
        mem.session.add(f"talk of {name}", id=f"session-{id}", user=id)
        mem.message.add("user", f"my word is {WORD}", session=f"session-{id}", user=id)
        mem.remember(f"{name} said {WORD}", user=id, id=f"memory-{id}")
        mem.within(actor=id).recall("word")
    mem.remember("Ann Lee and Bob Ray met at noon", id="met")
    mem.audit.seal()


@pytest.mark.parametrize("phase", PHASES)
def test_killed_in_any_phase_it_is_finished_by_asking_again(phase: str, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with recollect.open(path, embedder="hash") as mem:
        household(mem)
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path), phase], timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL
    with recollect.open(path, embedder="hash") as mem:
        [running] = mem.privacy.certificates()
        assert running.status == "running"
        with pytest.raises(NotFound):
            mem.show("memory-ann-lee-1")
        reply = mem.privacy.erase(user="ann-lee-1", reason="again")
        assert reply.clean, reply.certificate["scan"]
        assert (reply.certificate["reason"], reply.deleted["memory"], reply.unnamed) == ("killed", 1, {"memory": 1})
        assert reply.log_entries > 0
        assert mem.privacy.verify(reply.certificate["id"]).sound
        assert mem.audit.verify().sound
        assert mem.verify().sound
        assert len(mem.privacy.certificates()) == 1
        mem.privacy.erase(user="bob-ray-2")
    assert [one.name for one in tmp_path.rglob("*") if one.is_file() and WORD.encode() in one.read_bytes()] == []


@pytest.mark.parametrize("people", [("ann-lee-1", "ann-lee-1"), ("ann-lee-1", "bob-ray-2")])
def test_two_at_once_leave_one_certificate_for_each_person(every: Any, people: tuple[str, str]) -> None:
    household(every)
    outcomes: list[Any] = []
    together = threading.Barrier(2)

    def erase(user: str) -> None:
        together.wait(30)
        try:
            outcomes.append(every.privacy.erase(user=user).certificate["id"])
        except RecollectError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=erase, args=(one,)) for one in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    told = [one for one in outcomes if not isinstance(one, NotFound)]  # who comes too late finds nothing more
    assert not [one for one in told if isinstance(one, Exception)], outcomes
    certificates = every.privacy.certificates()
    assert {one.id for one in certificates} == set(told)
    # Who comes second may still find what the log noted of the person meanwhile, but no memory again.
    assert sum(one.certificate["deleted"].get("memory", 0) for one in certificates) == len(set(people)), certificates
    assert all(one.status == "done" and every.privacy.verify(one.id).sound for one in certificates)
    verdict = every.audit.verify()
    assert verdict.sound, verdict.problems
    assert every.verify().sound


def test_a_caller_over_the_network_learns_nothing_of_other_organizations(tmp_path: Path) -> None:
    """Their files are the same: bytes that another has must not be told of, nor how the files are called."""
    with recollect.open(tmp_path / "a.db", embedder="hash") as mem:
        household(mem)
        other = mem.within("other")
        other.user.add("Cy", id="cy")
        other.remember(f"Ann Lee said {WORD}", user="cy", id="memory-ann-lee-1")
        scope = Scope(mem._scope.organization_id, "admin", frozenset({"read", "write", "delete", "admin"}))
        reply = invoke(OPERATIONS["privacy.erase"], mem._core, scope, {"user": "ann-lee-1"})
        assert reply.clean
        assert [place["name"] for place in reply.certificate["scan"]["places"]] == ["records"]
        assert "network" in reply.certificate["remains"][0]["what"]
        local = mem.privacy.erase(user="bob-ray-2")
        assert local.clean, local.certificate["scan"]
        assert other.show("memory-ann-lee-1").text == f"Ann Lee said {WORD}"


class LateNotes(DelegatingStore):
    """Another process has this store open, too, and writes its notes when the traces are being erased."""

    def __init__(self) -> None:
        super().__init__()
        self.journal = Journal(self, flush_seconds=3600)

    def erase_traces(self) -> list[str]:
        self.journal.flush()
        return super().erase_traces()


def test_what_another_process_notes_about_them_meanwhile_is_unnamed_too() -> None:
    store = LateNotes()
    with recollect.open(store, embedder="hash") as mem:
        household(mem)
        store.journal.note(Scope("default", "bob-ray-2"), "search", "recall", (), user="ann-lee-1")
        assert mem.privacy.erase(user="ann-lee-1").clean
        assert "ann-lee-1" not in str(mem.log())
    store.close()


def test_the_leases_of_erased_runs_go_with_them(mem: Any) -> None:
    mem.user.add("Ann Lee", id="ann-lee-1")
    mem.agent.add("Bee", id="bee")
    mem.session.add("s", id="session-of-ann-1", user="ann-lee-1")
    run = mem.run.start("brew", agent="bee", session="session-of-ann-1").id
    mem.run.claim("worker", id=run)
    assert mem.privacy.erase(user="ann-lee-1").clean
    assert mem._core.store.count(mem._scope, Query(Lease)) == 0
