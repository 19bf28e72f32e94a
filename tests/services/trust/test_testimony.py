"""Evidence has an author: a citation of a user is a claim until that user entered or confirmed it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect import cite
from recollect.domain.provenance import Citation
from recollect.errors import Denied, IllegalTransition, InvalidInput
from recollect.interfaces.client import Recollect
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Update

ALL = frozenset({"read", "write", "govern", "delete", "admin"})


def through_a_door(mem: Any, actor: str | None) -> Any:
    """The same store, asked as the service asks it for whoever came with a key."""
    return Recollect(mem._core, Scope("default", actor, ALL), lambda store, scope: None, owns=False)


@pytest.fixture
def people(mem: Any) -> dict[str, Any]:
    for id in ("alice", "bob"):
        mem.user.add(id.title(), id=id)
    key = mem.key.add("ci").id
    return {
        "mem": mem,
        "alice": through_a_door(mem, "alice"),
        "bob": through_a_door(mem, "bob"),
        "key": through_a_door(mem, key),
    }


def state(mem: Any, id: str) -> str:
    return str(mem.show(id).citations[0].state)


@pytest.mark.parametrize("who", ["bob", "key"])
@pytest.mark.parametrize("user", ["alice", "ghost"])
def test_who_comes_by_a_door_cannot_speak_for_another(people: dict[str, Any], who: str, user: str) -> None:
    asks = people[who]
    id = asks.remember("the budget is approved", cites=[cite.user(user, "approved")]).id
    assert state(asks, id) == "claimed"
    assert "claimed" in str(asks.context("budget"))
    assert "0 of 1 citations hold" in asks.recall("budget")[0].why
    with pytest.raises(IllegalTransition, match="a claim alone does not support a promotion") as refused:
        asks.promote(id)
    assert "confirm" in refused.value.remedy
    assert asks.check(id).claimed == 1
    with pytest.raises(Denied, match=f"only {user} can confirm"):
        asks.confirm(id, asks.show(id).citations[0].id)
    assert state(asks, id) == "claimed"


def test_what_one_says_oneself_holds(people: dict[str, Any]) -> None:
    alice = people["alice"]
    id = alice.remember("the budget is approved", cites=[cite.user("alice", "approved")]).id
    assert alice.promote(id).status == "verified"
    assert alice.show(id).citations[0].entered_by == "alice"


def test_a_key_without_a_user_is_nobody_who_says_something(people: dict[str, Any]) -> None:
    key = people["key"]
    id = key.remember("approved", cites=[cite.user(key._scope.actor, "approved")]).id
    assert key.check(id).claimed == 1


def test_what_was_claimed_can_be_confirmed_by_who_is_cited(people: dict[str, Any]) -> None:
    alice, bob = people["alice"], people["bob"]
    id = bob.remember("the budget is approved", cites=[cite.user("alice", "approved")]).id
    told = bob.show(id).citations[0]
    assert alice.confirm(id, told.id).citations == ["user:alice: holds"]
    assert alice.show(id).citations[0].confirmed_at is not None
    assert bob.promote(id).status == "verified"
    assert bob.check(id).holds == 1
    actions = [entry.action for entry in people["mem"].log(id).entries]
    assert "confirm" in actions


def test_who_is_cited_may_enter_it_too_beside_the_claim(people: dict[str, Any]) -> None:
    alice, bob, said = people["alice"], people["bob"], [cite.user("alice", "approved")]
    id = bob.remember("the budget is approved", cites=said).id
    assert bob.cite(id, said).citations == []
    assert len(alice.cite(id, said).citations) == 1
    assert alice.remember("the budget is approved", cites=said).citations == 0
    assert bob.promote(id).status == "verified"


def test_a_claim_beside_something_that_holds_does_no_harm(people: dict[str, Any]) -> None:
    bob = people["bob"]
    id = bob.remember("x", cites=[cite.user("alice", "yes"), cite.user("bob", "I saw it")]).id
    assert bob.promote(id).status == "verified"
    assert not bob.check(id).demoted
    mine = next(one.id for one in bob.show(id).citations if one.source == "user:bob")
    assert bob.uncite(id, mine).status == "hypothesis"


def test_only_what_users_said_is_confirmed(people: dict[str, Any]) -> None:
    mem = people["mem"]
    id = mem.remember("x", cites=[cite.log("absent"), cite.user("bob")]).id
    for one in mem.show(id).citations:
        with pytest.raises(InvalidInput, match=r"cannot be confirmed|no comment"):
            mem.confirm(id, one.id)


def test_merging_keeps_who_said_what(people: dict[str, Any]) -> None:
    bob = people["bob"]
    first = bob.remember("the budget is approved", cites=[cite.user("bob", "I heard so")]).id
    other = bob.remember("the budget got approval", cites=[cite.user("alice", "approved")]).id
    through = through_a_door(people["mem"], "alice")
    through.merge(first, [other])  # alice merging does not make alice the one who said it
    assert {one.source: one.state for one in bob.show(first).citations}["user:alice"] == "claimed"


class TestInProcess:
    """Whoever opens the store answers for what they record."""

    def test_a_comment_is_recorded_as_the_readme_shows(self, mem: Any) -> None:
        id = mem.remember("Alice prefers pytest", cites=[cite.user("alice", "said so in review")]).id
        assert mem.promote(id).status == "verified"
        assert mem.show(id).citations[0].note == "the comment of alice is recorded"

    def test_where_there_are_users_one_who_is_not_among_them_said_nothing(self, people: dict[str, Any]) -> None:
        mem = people["mem"]
        id = mem.remember("x", cites=[cite.user("ghost", "approved")]).id
        with pytest.raises(IllegalTransition, match="there is no user ghost"):
            mem.promote(id)
        known = mem.remember("y", cites=[cite.user("alice", "approved")]).id
        assert mem.promote(known).status == "verified"

    def test_the_operator_may_confirm_and_who_acts_for_another_may_not(self, people: dict[str, Any]) -> None:
        mem, bob = people["mem"], people["bob"]
        id = bob.remember("x", cites=[cite.user("alice", "approved")]).id
        told = mem.show(id).citations[0].id
        with pytest.raises(Denied):
            mem.within(actor="bob").confirm(id, told)
        assert mem.confirm(id, told).citations == ["user:alice: holds"]

    def test_what_stood_there_before_is_judged_by_who_made_it(self, people: dict[str, Any]) -> None:
        mem = people["mem"]
        ids = {}
        for by, asks in (("bob", people["bob"]), (None, mem), ("cron", mem.within(actor="cron"))):
            ids[by] = asks.remember(f"from {by}", cites=[cite.user("alice", "approved")]).id
        store, scope = mem._core.store, mem._scope
        for one in store.find(scope, Query(Citation)).records:  # as a store of an earlier version has them
            store.transact(scope, [Update(one.changed(entered_through=None, entered_by=None, state="holds"))])
        found = {by: mem.check(id) for by, id in ids.items()}
        assert (found["bob"].claimed, found[None].holds, found["cron"].holds) == (1, 1, 1)


def test_trust_that_rests_on_claims_alone_falls_when_it_is_checked(people: dict[str, Any]) -> None:
    mem = people["mem"]
    id = mem.remember("x", cites=[cite.user("alice", "approved")]).id
    mem.promote(id)
    store, scope = mem._core.store, mem._scope
    one = store.find(scope, Query(Citation)).records[0]
    store.transact(scope, [Update(one.changed(entered_by="bob", entered_through="door"))])
    assert mem.check(id).demoted == [id]
    assert mem.history(id).entries[-2].why.startswith("is supported by a claim only")


class TestPages:
    """A hash that a caller gives is a claim about a page that nobody here has seen."""

    GIVEN = {
        "type": "url",
        "url": "https://example.org/",
        "crawled_at": "2026-01-01T00:00:00Z",
        "content_hash": "p1:00",
    }

    def test_it_is_claimed_over_a_door_and_recorded_in_process(self, people: dict[str, Any]) -> None:
        bob, mem = people["bob"], people["mem"]
        id = bob.remember("it says so", cites=[self.GIVEN]).id
        assert state(bob, id) == "claimed"
        with pytest.raises(IllegalTransition, match="the page itself was not fetched"):
            bob.promote(id)
        assert mem.promote(mem.remember("it says so too", cites=[self.GIVEN]).id).status == "verified"

    @pytest.mark.parametrize(("served", "found"), [(b"as cited", "holds"), (b"other", "broken")])
    def test_where_pages_are_fetched_it_is_looked_at(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: bytes, found: str
    ) -> None:
        monkeypatch.setattr("recollect.adapters.public_fetch.fetch", lambda url: served)
        with recollect.open(tmp_path / "a.db", embedder="hash", fetch=True) as mem:
            bob = through_a_door(mem, "bob")
            given = self.GIVEN | {"content_hash": cite.page_hash(b"as cited")}
            id = bob.remember("it says so", cites=[given]).id
            bob.check(id)
            assert state(bob, id) == found


def test_runs_and_cycles_that_are_not_there_are_no_evidence(people: dict[str, Any]) -> None:
    bob = people["bob"]
    run = bob.run.start("tidy up", agent=bob.agent.add("a").id).id
    ids = [bob.remember(f"from {log}", cites=[cite.log(log)]).id for log in (run, "made-up")]
    assert bob.promote(ids[0]).status == "verified"
    with pytest.raises(IllegalTransition, match="is not recorded"):
        bob.promote(ids[1])


# -- imports -----------------------------------------------------------------------------------------------------------


def rewritten(lines: bytes, path: Path, change: Any) -> Path:
    """An exported file as somebody who knows the format would forge it."""
    records = [json.loads(line) for line in lines.splitlines()][:-1]
    for one in records[1:]:
        change(one["table"], one["record"])
    body = b"".join(json.dumps(one).encode() + b"\n" for one in records)
    end = {"end": "recollect-export-1", "records": len(records) - 1, "hash": hashlib.sha256(body).hexdigest()}
    path.write_bytes(body + json.dumps(end).encode() + b"\n")
    return path


def forged(table: str, record: dict[str, Any]) -> None:
    if table == "memory":
        record["status"] = "published"
    if table == "citation":
        record |= {"state": "holds", "entered_by": "alice", "confirmed_by": "alice", "entered_through": "process"}
        record |= {"confirmed_at": "2026-01-01T00:00:00Z", "checked_at": "2026-01-01T00:00:00Z"}


def file_from(folder: Path) -> Path:
    with recollect.open(folder / "from.db", embedder="hash", citation_root=folder) as mem:
        (folder / "notes.md").write_text("as it is\n")
        mem.remember("uncited", id="uncited")
        mem.remember("said", id="said", cites=[cite.user("alice", "approved")])
        mem.remember("noted", id="noted", cites=["file:notes.md:1"])
        mem.remember("gone", id="gone", cites=[cite.file("gone.md", lines=1, line_hash="l1:00")])
        mem.export(str(folder / "as_it_was.jsonl"))
        return rewritten((folder / "as_it_was.jsonl").read_bytes(), folder / "all.jsonl", forged)


@pytest.mark.parametrize("existing", ["skip", "replace"])
def test_an_import_over_a_door_verifies_nothing_that_is_not_proven_here(tmp_path: Path, existing: str) -> None:
    file = file_from(tmp_path)
    with recollect.open(tmp_path / "to.db", embedder="hash", citation_root=tmp_path, citation_roots=[tmp_path]) as mem:
        bob = through_a_door(mem, "bob")
        if existing == "replace":
            bob.remember("said", id="said", cites=[cite.user("alice", "approved")])
        done = bob.import_(str(file), existing=existing)
        found = {id: mem.show(id) for id in ("uncited", "said", "noted", "gone")}
        assert {id: one.status for id, one in found.items()} == {
            "uncited": "hypothesis", "said": "hypothesis", "noted": "published", "gone": "hypothesis",
        }  # fmt: skip
        assert (found["said"].citations[0].state, found["said"].citations[0].entered_by) == ("claimed", "bob")
        assert "3 memories have no citation that holds here" in done.notes[0]
        assert mem.history("said").entries[-2].why == "imported without a citation that holds here"
        with pytest.raises(IllegalTransition):
            bob.promote("said")
        assert mem.verify().problems == []
        again = bob.import_(str(file))
        assert (again.records, again.notes) == (0, [])


def test_an_import_in_process_is_answered_for_by_who_imports(tmp_path: Path) -> None:
    file = file_from(tmp_path)
    with recollect.open(tmp_path / "to.db", embedder="hash", citation_root=tmp_path) as mem:
        done = mem.import_(str(file))
        assert done.skipped == 0
        found = {id: mem.show(id).status for id in ("uncited", "said", "noted", "gone")}
        assert found == {"uncited": "hypothesis", "said": "published", "noted": "published", "gone": "hypothesis"}
