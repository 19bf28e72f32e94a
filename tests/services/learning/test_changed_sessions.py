"""The service looks again only at sessions that have changed, and nothing is missed by it."""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "bench"))

from counts import counting, opened
from recollect.domain.record import now
from recollect.ports.records import Scope
from recollect.services.change_feed import last_change
from recollect.services.learning import changed_sessions, rollup
from recollect.services.learning.changed_sessions import DueSummaries
from recollect.services.learning.rollup import RollUp, RollUpRequest, roll_all

START = datetime(2024, 5, 1, 8, tzinfo=UTC)


class Service:
    """Writes what is due at a time of ours, and notes which sessions it looks at."""

    def __init__(self, mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tenant = mem._core.for_scope(Scope(mem.organization))
        self.due, self.moment, self.looked_at = DueSummaries(3600), START, set[str]()
        said = rollup._said
        monkeypatch.setattr(changed_sessions, "now", lambda: self.moment)
        monkeypatch.setattr(rollup, "_said", lambda tenant, id: (self.looked_at.add(id), said(tenant, id))[1])

    def write(self) -> dict[str, int]:
        """All that is due, in as many rounds as it takes."""
        self.looked_at.clear()
        written: Counter[str] = Counter(self.due.write(self.tenant, lambda: None).written)
        while self.due.is_waiting(self.tenant):
            written.update(self.due.write(self.tenant, lambda: None).written)
        return dict(written)

    def left(self) -> tuple[dict[str, int], int]:
        """What a look at all sessions would still write and delete."""
        run = roll_all(RollUp(self.tenant, RollUpRequest(), moment=self.moment))
        return run.report.written, run.report.dropped


@pytest.fixture
def service(mem: Any, monkeypatch: pytest.MonkeyPatch) -> Service:
    for name in ("alps", "sea"):
        mem.project.add(name, id=name)
    for name in ("ann", "bob"):
        mem.user.add(name, id=name)
    return Service(mem, monkeypatch)


def say(mem: Any, session: str, moment: datetime, number: int) -> str:
    text = f"Turn {number}: the tent costs {number} euros."
    return str(mem.remember(text, kind="conversation", author="Ann", session=session, at=moment).id)


def begin(mem: Any, id: str, chance: random.Random) -> None:
    owners = {"user": chance.choice(["ann", "bob", None]), "project": chance.choice(["alps", "sea", None])}
    mem.session.add(id, id=id, **{name: owner for name, owner in owners.items() if owner})


@pytest.mark.parametrize("seed", range(4))
def test_after_each_round_a_look_at_everything_finds_nothing_to_do(
    mem: Any, service: Service, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(changed_sessions, "SESSIONS_AT_ONCE", 3)
    chance, wrote = random.Random(seed), 0
    sessions, said, forgotten = list[str](), list[str](), list[str]()
    for number in range(60):
        service.moment += timedelta(minutes=chance.choice([1, 5, 60, 400]))
        what = chance.choice(["begin", "say", "say", "say", "end", "revise", "forget", "restore"])
        if what == "begin" or not sessions:
            sessions.append(f"s{number}")
            begin(mem, sessions[-1], chance)
        elif what == "end":
            mem.session.end(chance.choice(sessions))
        elif what == "revise" and said:
            mem.revise(chance.choice(said), content=f"Turn {number}: another tent, {number} francs.")
        elif what == "forget" and said:
            forgotten.append(said.pop(chance.randrange(len(said))))
            mem.forget(forgotten[-1])
        elif what == "restore" and forgotten:
            said.append(forgotten.pop())
            mem.restore(said[-1])
        else:
            session = chance.choice(sessions[-3:])
            said += [
                say(mem, session, service.moment, 100 * number + turn) for turn in range(chance.choice([1, 3, 22]))
            ]
        if number % 4 == 3:
            wrote += sum(service.write().values())
            assert service.left() == ({}, 0), f"after {what}, step {number}"
    assert wrote > 10


def test_it_is_due_every_hour_and_while_all_are_looked_at(
    mem: Any, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed_sessions, "SESSIONS_AT_ONCE", 1)
    for name in ("one", "two"):
        mem.session.add(name, id=name)
        say(mem, name, START - timedelta(days=3), 1)
    rounds = 0
    while service.due.is_waiting(service.tenant):
        service.due.write(service.tenant, lambda: None)
        rounds += 1
    assert rounds == 3
    service.moment += timedelta(minutes=59)
    assert not service.due.is_waiting(service.tenant)
    service.moment += timedelta(minutes=1)
    assert service.due.is_waiting(service.tenant)


def test_only_what_changed_is_read_again(mem: Any, service: Service) -> None:
    for name in ("old", "other"):
        mem.session.add(name, id=name)
        say(mem, name, START - timedelta(days=3), 1)
    service.write()
    assert service.looked_at == {"old", "other"}
    service.moment += timedelta(hours=1)
    service.write()
    assert service.looked_at <= {"old", "other"}, "what it wrote itself is a change"
    service.moment += timedelta(hours=1)
    service.write()
    assert service.looked_at == set()
    mem.session.add("new", id="new")
    say(mem, "new", service.moment, 2)
    service.moment += timedelta(hours=1)
    assert service.write() == {}
    assert service.looked_at == {"new"}
    service.moment += timedelta(hours=1)
    service.write()
    assert service.looked_at == {"new"}, "it is not over yet"


def test_a_session_is_over_by_itself_and_its_day_ends(mem: Any, service: Service) -> None:
    service.moment = START + timedelta(days=10)
    service.write()
    for name in ("one", "two"):
        mem.session.add(name, id=name)
        say(mem, name, service.moment, 1)
    service.moment += timedelta(hours=12)
    assert service.write() == {}
    service.due._looked[mem.organization] = replace(service.due._looked[mem.organization], all_at=service.moment)
    service.moment += timedelta(hours=13)
    assert service.write() == {"stretch": 2, "day": 1}
    assert service.left() == ({}, 0)


def test_a_day_long_ago_is_summed_up_again_without_what_was_forgotten(mem: Any, service: Service) -> None:
    said: dict[str, str] = {}
    for name in ("one", "two", "three"):
        mem.session.add(name, id=name, project="alps", user="ann")
        said[name] = say(mem, name, START - timedelta(days=200), 1 + len(said))
    assert service.write() == {"stretch": 3, "day": 1}
    mem.forget(said["two"])
    service.moment += timedelta(hours=2)
    assert service.write() == {"day": 1}
    assert service.left() == ({}, 0)


def test_all_are_looked_at_once_a_day(mem: Any, service: Service) -> None:
    mem.session.add("s", id="s")
    gone = say(mem, "s", START - timedelta(days=3), 1)
    say(mem, "s", START - timedelta(days=3), 2)
    service.write()
    service.moment += timedelta(hours=2)
    service.write()
    mem.erase(gone)
    service.moment += timedelta(hours=20)
    service.write()
    service.moment += timedelta(hours=3)
    assert service.write() == {"stretch": 1}
    assert service.looked_at == {"s"}


def test_what_was_only_read_is_not_looked_at(mem: Any, service: Service) -> None:
    mem.session.add("s", id="s")
    say(mem, "s", START, 1)
    service.moment = now() + timedelta(hours=2)
    service.write()
    service.moment += timedelta(minutes=1)
    service.write()
    before = last_change(service.tenant)
    mem.recall("tent")
    mem._core.journal.flush()
    assert last_change(service.tenant) > before
    service.moment += timedelta(minutes=1)
    service.write()
    assert service.looked_at == set()


def test_writing_a_summary_does_not_look_at_all_the_others(tmp_path: Path) -> None:
    """Counted in steps of SQLite, as bench/growth.py does."""
    steps = []
    with counting() as work, opened(tmp_path / "many.db") as mem:
        for number in (12, 120):
            for place in range(number):
                name = f"of {number}, {place}"
                mem.session.add(name, id=name)
                say(mem, name, START, place)
            mem.summary.roll_up()
            mem.session.add("one more", id=f"one more of {number}")
            say(mem, f"one more of {number}", START, number)
            steps.append(work.of(partial(mem.summary.roll_up, session=f"one more of {number}"))["steps"])
    assert steps[1] < 1.5 * steps[0], steps
