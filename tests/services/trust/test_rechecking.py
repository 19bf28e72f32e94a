"""Evidence does not age in silence: answers say when it was checked, and what is acted on is checked then."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EMPTY_STORE, EVERY_STORE
from recollect import cite
from recollect.app.background import Background
from recollect.domain.agents import Lease
from recollect.domain.provenance import Citation
from recollect.domain.record import now
from recollect.interfaces.client import Recollect
from recollect.interfaces.http.app import Service
from recollect.interfaces.serve import service_background
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Put, Update
from recollect.services.background import LEASE, StoreLease
from recollect.services.keyed_hashes import Keyring
from recollect.services.trust import governance, rechecks
from recollect.settings import ServerSettings


@pytest.fixture
def ports(mem: Any, tmp_path: Path) -> list[str]:
    """Three verified memories about ports, each of a file of its own."""
    ids = []
    for name in ("red", "green", "blue"):
        (tmp_path / f"{name}.ini").write_text(f"port of {name}\n")
        ids.append(mem.remember(f"The port of {name} is fixed", id=name, cites=[f"file:{name}.ini:1"]).id)
        mem.promote(name)
    return ids


def aged(mem: Any, days: float, **where: Any) -> None:
    """As if the last look were so long ago."""
    store, scope = mem._core.store, mem._scope
    for one in store.find(scope, Query(Citation)).records:
        if all(getattr(one, name) == value for name, value in where.items()):
            then = now() - timedelta(days=days)
            store.transact(scope, [Update(one.changed(checked_at=then, tried_at=then, version=one.version))])


def test_answers_say_when_a_citation_was_last_checked(mem: Any, ports: list[str]) -> None:
    aged(mem, 10)
    day = f"{now() - timedelta(days=10):%Y-%m-%d}"
    hit = mem.recall("port of red")[0]
    assert hit.citations[0].checked_at is not None
    assert f"1 of 1 citations hold, checked {day}]" in hit.why
    assert f"file:red.ini (holds, checked {day})" in str(mem.context("port of red"))
    never = mem.remember("unheard of", cites=[cite.user("ann", "x")]).id
    assert mem.show(never).citations[0].checked_at is None


def test_what_broke_is_not_acted_on(mem: Any, ports: list[str], tmp_path: Path) -> None:
    (tmp_path / "red.ini").write_text("moved away\n")
    assert mem.recall("port of red")[0].status == "verified"  # nobody asked to look
    found = mem.recall("port of red", purpose="act", limit=2)
    assert {hit.id for hit in found} == {"green", "blue"}  # the next best take its place
    assert all(hit.citations[0].state == "holds" for hit in found)
    assert found.notes == ["memory red is a hypothesis now: the cited lines of red.ini have changed"]
    assert mem.show("red").status == "hypothesis"
    assert "demoted" in [entry.change for entry in mem.history("red").entries]


def test_nor_packed_into_a_context_to_act_on(mem: Any, ports: list[str], tmp_path: Path) -> None:
    (tmp_path / "red.ini").unlink()
    packed = mem.context("port of red", purpose="act")
    assert set(packed.used) == {"green", "blue"}
    assert packed.notes == ["memory red is a hypothesis now: red.ini cannot be read any more"]


@pytest.mark.parametrize("check", ["none", "stale", "always"])
def test_who_asks_says_how_closely_to_look(mem: Any, ports: list[str], tmp_path: Path, check: str) -> None:
    for name in ("red", "green"):
        (tmp_path / f"{name}.ini").write_text("changed\n")
    aged(mem, 10, source="file:green.ini")
    found = mem.recall("port of something", check=check, limit=3)
    fallen = {hit.id for hit in found if hit.status == "hypothesis"}
    assert fallen == {"none": set(), "stale": {"green"}, "always": {"red", "green"}}[check]
    assert all("hypothesis, 0 of 1 citations hold" in hit.why for hit in found if hit.id in fallen)
    assert len(found.notes) == len(fallen)
    acted = {hit.id for hit in mem.recall("port of something", purpose="act", check=check)}
    assert acted == {"red", "green", "blue"} - fallen


def test_only_what_is_shown_is_looked_at_and_nothing_where_nobody_asks(
    mem: Any, ports: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    reads: list[int] = []
    whole, find = governance.looked_up, mem._core.store.find
    monkeypatch.setattr(governance, "looked_up", lambda tenant, one: looked.append(one.source) or whole(tenant, one))
    monkeypatch.setattr(mem._core.store, "find", lambda *given: reads.append(1) or find(*given))
    mem.recall("port of red", limit=1)
    mem.context("port of red")
    assert (looked, reads) == ([], [])
    mem.recall("port of red", limit=1, purpose="act")
    assert looked == ["file:red.ini"]
    looked.clear()
    mem.context("port of red", purpose="act", tokens=110)  # there is room for one
    assert len(looked) == 1


def test_that_the_same_was_found_again_is_not_written_every_time(mem: Any, ports: list[str]) -> None:
    def version() -> int:
        return int(mem._core.store.find(mem._scope, Query(Citation)).records[0].version)

    before = version()
    mem.recall("port", purpose="act")
    assert version() == before
    aged(mem, 1)
    before = version()
    assert mem.recall("port", purpose="act")[0].citations[0].checked_at > now() - timedelta(minutes=1)
    assert version() == before + 1


def test_pages_are_not_fetched_within_a_recall_unless_always(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    monkeypatch.setattr("recollect.adapters.public_fetch.fetch", lambda url: fetched.append(url) or b"page")
    with recollect.open(tmp_path / "a.db", embedder="hash", fetch=True) as mem:
        mem.promote(mem.remember("it says so", cites=["url:https://example.org/"]).id)
        fetched.clear()
        assert mem.recall("it says so", purpose="act").notes == []
        aged(mem, 10)
        note = mem.recall("it says so", purpose="act", check="stale").notes[0]
        assert note == f"url:https://example.org/ was last checked: {now() - timedelta(days=10):%Y-%m-%d}"
        assert fetched == []
        mem.recall("it says so", purpose="act", check="always")
        assert fetched == ["https://example.org/"]


def test_the_past_is_as_it_was(mem: Any, ports: list[str], tmp_path: Path) -> None:
    moment = now()
    (tmp_path / "red.ini").write_text("changed\n")
    assert "red" in {hit.id for hit in mem.recall("port", purpose="act", as_of=moment)}


# -- in the background -------------------------------------------------------------------------------------------------


@contextmanager
def background_of(mem: Any, **settings: Any) -> Iterator[Background]:
    background = service_background(Service(mem._core, ServerSettings(**settings), "default"))
    with closing(background):
        yield background


@pytest.fixture
def rooted(tmp_path: Path) -> Iterator[Any]:
    with recollect.open(
        tmp_path / "test.db", embedder="hash", citation_root=tmp_path, citation_roots=[tmp_path]
    ) as opened:
        yield opened


def test_the_service_looks_at_the_oldest_first_and_at_so_many(rooted: Any, tmp_path: Path) -> None:
    for name in ("red", "green", "blue"):
        (tmp_path / f"{name}.ini").write_text("one\n")
        rooted.remember(name, id=name, cites=[f"file:{name}.ini:1"])
        rooted.promote(name)
        (tmp_path / f"{name}.ini").write_text("two\n")
    for days, name in enumerate(("blue", "red"), 5):
        aged(rooted, days, source=f"file:{name}.ini")
    with background_of(rooted, checks_at_once=1) as first, background_of(rooted) as second:
        first.once()
        assert [rooted.show(name).status for name in ("red", "green", "blue")] == ["hypothesis", "verified", "verified"]
        second.once()  # another service: the first one does it
        assert rooted.show("blue").status == "verified"
        store, scope = rooted._core.store, rooted._scope
        lease = store.get(scope, Lease, LEASE)
        store.transact(scope, [Put(lease.changed(expires_at=now() + timedelta(days=365)))])  # by a clock that is ahead
        second.once()
        assert rooted.show("blue").status == "hypothesis"
    assert rooted.show("green").status == "verified"  # looked at lately


def test_it_can_be_switched_off(rooted: Any, tmp_path: Path) -> None:
    rooted.remember("x", id="x", cites=[cite.user("ann", "said")])
    with background_of(rooted, check_seconds=None) as background:
        background.once()
    assert rooted.show("x").citations[0].checked_at is None
    with background_of(rooted) as background:
        background.once()
    assert rooted.show("x").citations[0].state == "holds"


def test_forgotten_memories_do_not_hold_up_the_others(rooted: Any) -> None:
    for number in range(3):
        rooted.remember(f"gone {number}", id=str(number), cites=[cite.user("ann", "said")])
        rooted.forget(str(number))
    rooted.remember("here", id="here", cites=[cite.user("ann", "said")])
    scope = Scope("default", granted=frozenset({"govern"}))
    for _ in range(2):
        rechecks.check_oldest(rooted._core.for_scope(scope), 3)
    assert rooted.show("here").citations[0].state == "holds"


def test_the_background_takes_nothing_away_that_it_may_not_look_at(mem: Any, ports: list[str], tmp_path: Path) -> None:
    aged(mem, 10)
    (tmp_path / "red.ini").write_text("changed\n")
    with background_of(mem) as background:
        background.once()  # without roots the service sees no file
    assert [mem.show(id).status for id in ports] == ["verified"] * 3
    asked = Recollect(mem._core, Scope("default", "x", frozenset({"read"})), lambda store, scope: None, owns=False)
    found = asked.recall("port of red", purpose="act", limit=1)
    assert [hit.id for hit in found] == ["red"]
    assert found.notes == ["1 of the citations of memory red cannot be checked from here"]


# -- renamed files -----------------------------------------------------------------------------------------------------


def git(place: Path, *arguments: str) -> str:
    made = subprocess.run(
        ["git", "-C", str(place), "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments],
        env={"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull},
        check=True,
        capture_output=True,
    )
    return made.stdout.decode().strip()


class TestRenamed:
    LINES = "".join(f"line {number}\n" for number in range(1, 21))

    @pytest.fixture
    def repo(self, tmp_path: Path) -> Path:
        place = tmp_path / "repo"
        (place / "deep").mkdir(parents=True)
        (place / "deep" / "old name.txt").write_text(self.LINES)
        git(place, "init", "-q", "-b", "main")
        git(place, "add", ".")
        git(place, "commit", "-q", "-m", "One")
        return place

    @pytest.fixture
    def cited(self, mem: Any, repo: Path) -> str:
        id = str(mem.remember("as it says", cites=[cite.file("repo/deep/old name.txt", lines=(3, 5))]).id)
        mem.promote(id)
        return id

    def test_a_file_is_followed_through_its_names(self, mem: Any, cited: str, repo: Path) -> None:
        git(repo, "mv", "deep/old name.txt", "other.txt")  # the folder is gone with it
        assert mem.check(cited).holds == 1
        git(repo, "commit", "-q", "-m", "Two")
        (repo / "docs").mkdir()
        git(repo, "mv", "other.txt", "docs/new.txt")
        (repo / "docs" / "new.txt").write_text("a new first line\n" + self.LINES)
        git(repo, "commit", "-qam", "Three")
        assert mem.check(cited).demoted == []
        told = mem.show(cited).citations[0]
        assert (told.state, told.source) == ("holds", "file:repo/deep/old name.txt")
        assert told.note == (
            "repo/deep/old name.txt was renamed: the cited lines of repo/docs/new.txt now begin at line 4"
        )

    def test_only_the_very_lines_prove_it(self, mem: Any, cited: str, repo: Path) -> None:
        git(repo, "mv", "deep/old name.txt", "new.txt")
        (repo / "new.txt").write_text(self.LINES.replace("line 4", "line four"))
        git(repo, "commit", "-qam", "Two")
        assert mem.check(cited).demoted == [cited]

    def test_a_repository_runs_nothing_while_it_is_followed(self, mem: Any, cited: str, repo: Path) -> None:
        script = repo.parent / "run.sh"
        script.write_text(f"#!/bin/sh\ntouch {repo.parent}/ran\nexit 1\n")
        script.chmod(0o755)
        git(repo, "mv", "deep/old name.txt", "new.txt")
        (repo / ".gitattributes").write_text("* diff=x filter=x\n")
        git(repo, "commit", "-qam", "Two")
        for name in ("core.fsmonitor", "diff.external", "diff.x.command", "diff.x.textconv", "filter.x.clean"):
            git(repo, "config", name, str(script))
        for name in ("filter.x.smudge", "gpg.program", "core.pager", "core.sshCommand"):
            git(repo, "config", name, str(script))
        git(repo, "config", "log.showSignature", "true")
        assert mem.check(cited).holds == 1
        assert not (repo.parent / "ran").exists()

    def test_over_a_door_only_inside_of_the_roots(self, rooted: Any, repo: Path, tmp_path: Path) -> None:
        scope = Scope("default", "x", frozenset({"read", "write", "govern"}))
        asked = Recollect(rooted._core, scope, lambda store, scope: None, owns=False)
        id = asked.remember("as it says", cites=[cite.file("repo/deep/old name.txt", lines=(3, 5))]).id
        assert asked.promote(id).status == "verified"
        git(repo, "mv", "deep/old name.txt", "new.txt")
        assert asked.check(id).holds == 1
        (repo / "new.txt").rename(tmp_path.parent / f"{tmp_path.name}-outside.txt")
        (repo / "new.txt").symlink_to(tmp_path.parent / f"{tmp_path.name}-outside.txt")
        assert asked.check(id).demoted == [id]


@pytest.mark.parametrize("kind", [*EVERY_STORE, "memory"])
def test_every_store_takes_turns_knows_the_oldest_and_keeps_one_secret(kind: str, tmp_path: Path) -> None:
    address = EMPTY_STORE[kind](tmp_path) if kind in EVERY_STORE else "memory://"
    with recollect.open(address, embedder="hash") as opened:
        for id in "012":
            opened.remember(f"note {id}", id=id, cites=[cite.user("ann", "said")])
        opened.promote("1")
        aged(opened, 10, memory_id="1")
        tenant = opened._core.for_scope(Scope("default", granted=frozenset({"govern"})))
        assert rechecks.check_oldest(tenant, 2).holds == 2  # what was never tried comes before
        assert {one.memory for one in opened.citation.list("holds").citations} == {"0", "1", "2"}
        assert opened.show("1").citations[0].checked_at < now() - timedelta(days=9)
        assert rechecks.check_oldest(tenant, 9).holds == 1
        assert [StoreLease(opened._core, 60).take() for _ in range(2)] == [True, False]
        assert tenant.keyring.keyed(tenant.scope, "l1:0") == Keyring(tenant.store).keyed(Scope("default"), "l1:0")
