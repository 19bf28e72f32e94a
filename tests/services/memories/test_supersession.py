"""One memory takes the place of another."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.domain.memory import Revision
from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.ports.query import Query, equal
from recollect.ports.steps import Update

cite = recollect.cite


def texts(found: Any) -> list[str]:
    return sorted(hit.text for hit in found)


def test_what_was_replaced_can_become_true_again(mem: Any) -> None:
    paris = mem.remember("Alice lives in Paris")
    rome = mem.remember("Alice lives in Rome", supersedes=paris.id)
    again = mem.remember("Alice lives in Paris", supersedes=rome.id)
    assert not again.duplicate
    assert texts(mem.recall("where does Alice live")) == ["Alice lives in Paris"]


def test_a_hundred_former_states_do_not_hide_the_present_one(mem: Any) -> None:
    last = mem.remember("the counter stands at 0").id
    for number in range(1, 131):
        last = mem.remember(f"the counter stands at {number}", supersedes=last).id
    for by in ("everything", "meaning", "words"):
        assert [hit.id for hit in mem.recall("where does the counter stand", by=by)] == [last]


def test_an_unproven_claim_does_not_hide_a_trusted_one(mem: Any) -> None:
    trusted = mem.remember("the city is Oslo", cites=[cite.user("ann", "I live there")])
    mem.promote(trusted.id)
    claim = mem.remember("the city is Rome", supersedes=trusted.id, cites=[cite.user("bob", "so I heard")])
    assert texts(mem.recall("city", purpose="act")) == ["the city is Oslo"]
    mem.promote(claim.id)
    assert texts(mem.recall("city", purpose="act")) == ["the city is Rome"]


@pytest.mark.parametrize("way", ["roll_back", "forget", "erase"])
def test_when_the_replacement_goes_the_replaced_is_valid_again(mem: Any, way: str) -> None:
    mem.remember("the limit is 3", id="old")
    mem.remember("the limit is 9", id="new", supersedes="old", cites=[cite.user("mallory", "trust me")])
    assert texts(mem.recall("limit")) == ["the limit is 9"]
    getattr(mem, way)("user:mallory" if way == "roll_back" else "new")
    assert texts(mem.recall("limit")) == ["the limit is 3"]


def test_a_memory_is_replaced_once(mem: Any) -> None:
    old = mem.remember("v1")
    new = mem.remember("v2", supersedes=old.id)
    with pytest.raises(Conflict) as caught:
        mem.remember("v2 too", supersedes=old.id)
    assert new.id in caught.value.remedy
    with pytest.raises(InvalidInput):
        mem.relate(new.id, old.id, "supersedes")


def test_replacing_never_makes_a_fact_last_longer(mem: Any) -> None:
    old = mem.remember("held until 2020", valid_to=datetime(2020, 1, 1, tzinfo=UTC))
    mem.remember("holds from 2035", supersedes=old.id, valid_from=datetime(2035, 1, 1, tzinfo=UTC))
    assert mem.show(old.id).fields["valid_to"].startswith("2020")


def test_racing_replacements_leave_one(mem: Any) -> None:
    old = mem.remember("contested")
    failures: list[Exception] = []

    def replace(number: int) -> None:
        try:
            mem.remember(f"claim {number}", supersedes=old.id)
        except (Conflict, NotFound) as error:
            failures.append(error)

    threads = [threading.Thread(target=replace, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) + mem.stats().memories - 1 == 6
    assert mem.verify().sound


def test_a_duplicate_must_be_findable_to_count(mem: Any) -> None:
    mem.remember("in passing", namespaces=["short_term"])
    assert not mem.remember("in passing").duplicate
    archived = mem.remember("put aside")
    mem.archive(archived.id)
    assert not mem.remember("put aside").duplicate
    assert not mem.remember("fleeting", ttl_seconds=0.001).duplicate
    assert not mem.remember("fleeting").duplicate
    assert texts(mem.recall("passing aside fleeting")) == ["fleeting", "in passing", "put aside"]


def test_a_repeat_adds_its_links(mem: Any) -> None:
    origin = mem.remember("the premise")
    first = mem.remember("the conclusion")
    assert mem.remember("the conclusion", derived_from=[origin.id]).links == 1
    assert [link.id for link in mem.show(first.id).links] == [origin.id]


def test_a_key_holds_for_what_it_began_as(mem: Any) -> None:
    first = mem.remember("first words", idempotency_key="k")
    mem.revise(first.id, "other words")
    assert mem.remember("first words", idempotency_key="k").id == first.id
    twice = mem.remember_many(
        [{"content": "same", "idempotency_key": "j"}, {"content": "same", "idempotency_key": "j"}]
    )
    assert len({receipt.id for receipt in twice.receipts}) == 1


def test_roll_back_reaches_what_was_forgotten(mem: Any) -> None:
    id = mem.remember("hidden lie", cites=[cite.user("mallory", "hush")]).id
    mem.promote(id)
    mem.forget(id)
    mem.roll_back("user:mallory")
    mem.restore(id)
    assert mem.show(id).status == "archived"


def test_the_past_keeps_what_only_moved_or_rose(mem: Any) -> None:
    mem.session.add("chat", id="s")
    id = mem.remember("a kitten was adopted", session="s", cites=[cite.user("ann", "saw it")], tags=["pets"]).id
    mem.remember("a dog barked", tags=["noise"])
    then = datetime.now(UTC)
    mem.promote(id)
    mem.session.remove("s", for_good=True)
    assert [entry.change for entry in mem.history(id).entries] == ["promoted", "moved", ""]
    hits = mem.recall("kitten", as_of=then, tags=["pets"])
    assert [(hit.id, hit.status, hit.session) for hit in hits] == [(id, "hypothesis", "s")]
    with pytest.raises(InvalidInput):
        mem.recall("kitten", as_of=then, by="words")


def test_removing_a_user_keeps_the_vectors_of_others_in_step(mem: Any) -> None:
    mem.user.add("Ann", id="ann")
    mem.session.add("hers", id="s", user="ann")
    mem.project.add("hers", id="p", owner="ann")
    mem.remember("said in her session", session="s", project="p")
    mem.user.remove("ann", for_good=True)
    assert mem.verify().sound


def test_a_limit_on_validity_can_be_taken_away(mem: Any) -> None:
    id = mem.remember("temporary", ttl_seconds=1000).id
    mem.revise(id, expires_at=None)
    assert "expires_at" not in mem.show(id).fields


def test_a_replacement_that_is_rejected_gives_way_again_and_back(mem: Any) -> None:
    mem.remember("The door is red", id="old")
    mem.remember("The door is blue", id="new", supersedes="old")
    assert mem.show("old").fields.get("valid_to")
    mem.archive("new", why="rejected")
    assert "valid_to" not in mem.show("old").fields
    assert [hit.id for hit in mem.recall("what colour is the door?")] == ["old"]
    mem.demote("new", why="rejected by mistake")
    assert mem.show("old").fields.get("valid_to")
    assert [hit.id for hit in mem.recall("what colour is the door?")] == ["new"]


def test_what_is_trusted_is_valid_again_when_its_replacement_is_no_longer_trusted(mem: Any) -> None:
    said = [cite.user("ann", "saw it")]
    mem.remember("The door is red", id="old", cites=said)
    mem.promote("old")
    mem.remember("The door is blue", id="new", supersedes="old", cites=said)
    mem.promote("new")
    assert mem.show("old").fields.get("valid_to")
    mem.demote("new")
    assert "valid_to" not in mem.show("old").fields
    versions = mem.show("old").version
    mem.archive("new")
    assert mem.show("old").version == versions


@pytest.mark.parametrize("way", ["uncite", "check"])
def test_what_is_trusted_is_valid_again_when_the_evidence_of_its_replacement_is_gone(
    mem: Any, tmp_path: Path, way: str
) -> None:
    (tmp_path / "door.txt").write_text("blue\n")
    mem.remember("The door is red", id="old", cites=[cite.user("ann", "saw it")])
    mem.promote("old")
    mem.remember("The door is blue", id="new", supersedes="old", cites=[cite.file("door.txt", lines=(1, 1))])
    mem.promote("new")
    assert mem.show("old").fields.get("valid_to")
    if way == "uncite":
        mem.uncite("new", mem.show("new").citations[0].id)
    else:
        (tmp_path / "door.txt").write_text("green\n")
        assert mem.check("new").demoted == ["new"]
    assert "valid_to" not in mem.show("old").fields


def test_what_caused_a_change_is_told_in_a_field_of_its_own(each: Any) -> None:
    old = each.remember("the port is 1").id
    new = each.remember("the port is 2", supersedes=old).id
    assert each.history(old).entries[0].because_of == new
    each.forget(new)
    assert [one.because_of for one in each.history(old).entries] == [new, new, None]
    assert "valid_to" not in each.show(old).fields


def test_replacements_stored_before_causes_had_a_field_are_still_undone(each: Any) -> None:
    old = each.remember("the port is 1").id
    new = each.remember("the port is 2", supersedes=old).id
    [revision] = each._core.store.find(each._scope, Query(Revision, (equal("memory_id", old),))).records
    each._core.store.transact(each._scope, [Update(revision.changed(because_of=None))])
    each.forget(new)
    assert "valid_to" not in each.show(old).fields
