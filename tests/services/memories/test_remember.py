"""A memory comes in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recollect
from recollect.domain.kinds import KINDS
from recollect.domain.memory import Memory
from recollect.errors import (
    Conflict,
    DuplicateKey,
    EmbedderFailed,
    InvalidInput,
    NotFound,
    ReferenceMissing,
    TooLarge,
    UnknownKind,
    VersionConflict,
)
from recollect.testing.statements import sqlite_statements

CONTENT: dict[str, Any] = {
    "plan": {"text": "ship it", "steps": ["build", "test"]},
    "user_preference": {"key": "editor", "value": "vim"},
    "agent_state": {"state": {"mood": "curious"}},
    "entity": {"name": "Ada", "type": "person", "attributes": {"born": 1815}},
    "interaction": {"request": "what time is it?", "response": "noon"},
    "episode": {"task_description": "fix the login", "success": False, "critique": "the token had expired"},
    "pattern": {"problem_space": "auth", "solution_template": "refresh the token first"},
    "query_pattern": {"question": "how many users?", "sql": "select count(*) from users"},
}


class AwayEmbedder:
    """A model that cannot be reached."""

    model, dimensions = "away", 8

    def embed(self, texts: Any) -> Any:
        raise EmbedderFailed("the model is away")

    def embed_query(self, text: str) -> Any:
        raise EmbedderFailed("the model is away")


def test_a_receipt_says_what_is_stored_and_indexed(mem: Any) -> None:
    receipt = mem.remember(
        "water boils at 100 degrees", tags=["physics", "water"], cites=[recollect.cite.user("a", "b")]
    )
    assert (receipt.tags, receipt.citations, receipt.duplicate, receipt.queued) == (2, 1, False, [])
    assert receipt.indexed[0] == "text"
    assert receipt.indexed[1].startswith("vector:")
    assert receipt.content_hash.startswith("m1:")
    assert receipt.seq > 0


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_can_be_remembered_and_recalled(mem: Any, kind: str) -> None:
    receipt = mem.remember(CONTENT.get(kind, "the moon is far"), kind=kind)
    shown = mem.show(receipt.id)
    assert shown.kind == kind
    assert mem.recall(shown.text)[0].id == receipt.id


def test_typed_content_is_checked_for_its_kind(mem: Any) -> None:
    with pytest.raises(InvalidInput, match="success"):
        mem.remember({"task_description": "half an episode"}, kind="episode")


def test_an_unknown_kind_names_the_known_ones_and_how_to_define_it(mem: Any) -> None:
    with pytest.raises(UnknownKind) as caught:
        mem.remember("x", kind="recipe_x")
    assert "fact" in caught.value.remedy
    assert "define_kind('recipe_x')" in caught.value.remedy


def test_a_kind_of_ones_own_can_be_defined(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "k.db", embedder="hash", kinds=["recipe"]) as mem:
        assert mem.show(mem.remember("boil pasta", kind="recipe").id).kind == "recipe"


def test_a_memory_without_a_citation_is_a_hypothesis(mem: Any) -> None:
    assert mem.remember("maybe").status == "hypothesis"


@pytest.mark.parametrize(
    ("content", "error"),
    [("", InvalidInput), ("   ", InvalidInput), ("a\x00b", InvalidInput), ("\ud800", InvalidInput), (7, InvalidInput),
     (["list"], InvalidInput), ("x" * 1_000_001, TooLarge), ({"text": float("nan")}, InvalidInput)],
)  # fmt: skip
def test_content_that_cannot_be_kept_is_refused_whole(mem: Any, content: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        mem.remember(content)
    assert mem.stats().memories == 0


@pytest.mark.parametrize(
    "options",
    [{"priority": 0}, {"priority": 11}, {"confidence": 1.5},
     {"importance": -1}, {"ttl_seconds": 0}, {"scope": "galaxy"},
     {"tags": ["x" * 65]}, {"namespaces": []}, {"metadata": {"a": float("inf")}}, {"no_such_field": 1},
     {"vector": [1.0]},
     {"cites": ["not a citation"]}, {"id": "a\nb"}, {"id": "x" * 256}, {"ttl_seconds": 1e300},
     {"ttl_seconds": 5, "expires_at": datetime(2030, 1, 1, tzinfo=UTC)},
     {"valid_from": datetime(2030, 1, 1, tzinfo=UTC), "valid_to": datetime(2029, 1, 1, tzinfo=UTC)}],
)  # fmt: skip
def test_a_wrong_option_is_refused_and_nothing_is_stored(mem: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        mem.remember("fine", **options)
    assert mem.stats().memories == 0


def test_a_link_to_nothing_is_refused_with_a_remedy(mem: Any) -> None:
    with pytest.raises(ReferenceMissing) as caught:
        mem.remember("lost", cycle="nothing", user="nobody")
    assert "create" in caught.value.remedy
    assert (mem.stats().memories, len(mem.user.list())) == (0, 0)


def test_links_tags_and_metadata_come_back(mem: Any) -> None:
    mem.user.add("Ann", id="ann")
    mem.session.add("chat", id="s1", user="ann")
    first = mem.remember("one")
    second = mem.remember("two", user="ann", session="s1", metadata={"n": 1}, relates={first.id: "follows"})
    shown = mem.show(second.id)
    assert shown.fields["metadata"] == {"n": 1}
    assert [(link.type, link.id) for link in shown.links] == [("follows", first.id)]


def test_the_same_again_is_one_memory_with_more_evidence(mem: Any) -> None:
    first = mem.remember("tea is hot", cites=[recollect.cite.user("ann", "burnt her tongue")], tags=["a"])
    again = mem.remember("tea is hot", cites=[recollect.cite.user("bob", "him too")], tags=["a", "b"])
    assert (again.id, again.duplicate, again.citations, again.tags) == (first.id, True, 1, 1)
    assert len(mem.show(first.id).citations) == 2
    assert mem.stats().memories == 1


def test_a_new_memory_is_written_without_a_look_and_a_repeated_one_is_still_found(
    mem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Any] = []
    find = mem._core.store.find
    monkeypatch.setattr(mem._core.store, "find", lambda *given: looks.append(given) or find(*given))
    first = mem.remember("the sky is blue", id="sky", idempotency_key="k")
    assert not looks
    assert mem.remember("the sky is blue").id == first.id
    assert mem.remember("the sky is blue", id="sky", idempotency_key="k").id == first.id
    assert looks


def test_the_same_words_of_two_users_are_two_memories(mem: Any) -> None:
    for name in ("ann", "bob"):
        mem.user.add(name, id=name)
        mem.remember("likes tea", user=name)
    assert mem.stats().memories == 2


def test_duplicates_can_be_kept_when_asked(mem: Any) -> None:
    ids = {mem.remember("ok", on_duplicate="keep").id for _ in range(3)}
    assert len(ids) == 3


def test_an_idempotency_key_returns_the_first_receipt(mem: Any) -> None:
    first = mem.remember("once", idempotency_key="k", on_duplicate="keep")
    assert mem.remember("once", idempotency_key="k", on_duplicate="keep").id == first.id
    with pytest.raises(Conflict, match="another memory"):
        mem.remember("something else", idempotency_key="k")


def test_an_idempotency_key_holds_even_for_a_forgotten_memory(mem: Any) -> None:
    first = mem.remember("once", idempotency_key="k")
    mem.forget(first.id)
    assert mem.remember("once", idempotency_key="k").id == first.id


def test_an_id_of_ones_own_is_taken_once(mem: Any) -> None:
    assert mem.remember("mine", id="my-id").id == "my-id"
    with pytest.raises(DuplicateKey):
        mem.remember("other", id="my-id")


def test_many_are_stored_together_or_not_at_all(mem: Any) -> None:
    with pytest.raises(ReferenceMissing):
        mem.remember_many(["one", "two", {"content": "three", "cycle": "nothing"}])
    assert mem.stats().memories == 0
    receipts = mem.remember_many(["one", "two", "one"]).receipts
    assert [receipt.duplicate for receipt in receipts] == [False, False, True]
    assert receipts[0].id == receipts[2].id


def test_memories_of_one_call_may_link_to_each_other(mem: Any) -> None:
    mem.remember_many([{"content": "conclusion", "id": "c", "derived_from": ["p"]}, {"content": "premise", "id": "p"}])
    assert [link.id for link in mem.show("c").links] == ["p"]


def test_when_the_model_is_away_the_memory_is_stored_and_the_vector_owed(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "a.db", embedder=AwayEmbedder()) as mem:
        receipt = mem.remember("stored all the same")
        assert receipt.queued == ["vector:away"]
        found = mem.recall("stored")
        assert [hit.id for hit in found] == [receipt.id]
        assert "words only" in found.notes[0]
        assert not mem.doctor().well


def test_a_vector_of_ones_own_is_used(mem: Any) -> None:
    vector = np.zeros(64)
    vector[3] = 2.0
    receipt = mem.remember("opaque", vector=vector.tolist(), vector_model="hash-64")
    mem.remember("transparent")
    assert mem.recall("zzz", vector=vector.tolist(), vector_model="hash-64")[0].id == receipt.id


def test_revising_keeps_the_former_state(mem: Any) -> None:
    receipt = mem.remember("the limit is 3")
    mem.revise(receipt.id, "the limit is 5", why="raised")
    entries = mem.history(receipt.id).entries
    assert [entry.text for entry in entries] == ["the limit is 3", "the limit is 5"]
    assert (entries[0].change, entries[0].why) == ("revised", "raised")
    assert mem.recall("limit")[0].text == "the limit is 5"


def test_new_content_must_be_verified_anew(mem: Any) -> None:
    receipt = mem.remember("true", cites=[recollect.cite.user("a", "sure")])
    mem.promote(receipt.id)
    assert mem.revise(receipt.id, priority=9).status == "verified"
    assert mem.revise(receipt.id, "quite true").status == "hypothesis"


def test_a_stale_version_is_refused(mem: Any) -> None:
    receipt = mem.remember("v1")
    mem.revise(receipt.id, "v2", version=1)
    with pytest.raises(VersionConflict):
        mem.revise(receipt.id, "v3", version=1)


def test_revising_nothing_or_nobody_says_so(mem: Any) -> None:
    with pytest.raises(NotFound):
        mem.revise("absent", "x")
    with pytest.raises(InvalidInput, match="nothing to change"):
        mem.revise(mem.remember("x").id)


def test_tags_can_be_replaced(mem: Any) -> None:
    receipt = mem.remember("tagged", tags=["a", "b"])
    mem.revise(receipt.id, tags=["b", "c"])
    assert mem.show(receipt.id).tags == ["b", "c"]


def test_a_fact_that_replaces_another_ends_its_validity(mem: Any) -> None:
    old = mem.remember("Ann lives in Rome")
    new = mem.remember("Ann lives in Oslo", supersedes=old.id)
    assert [hit.id for hit in mem.recall("where does Ann live?")] == [new.id]
    assert {hit.id for hit in mem.recall("where does Ann live?", include_superseded=True)} == {old.id, new.id}
    assert ("supersedes", "to") in [(link.type, link.direction) for link in mem.show(new.id).links]


def test_replacing_what_is_not_there_is_refused(mem: Any) -> None:
    with pytest.raises(NotFound):
        mem.remember("x", supersedes="absent")


def test_naive_times_are_utc_and_zones_are_kept_as_instants(mem: Any) -> None:
    zoned = datetime.fromisoformat("2024-05-08T12:00:00+07:00")
    receipt = mem.remember("noon in Bangkok", at=zoned)
    assert datetime.fromisoformat(mem.show(receipt.id).fields["occurred_at"]) == zoned
    naive = mem.remember("noon", at=datetime(2024, 5, 8, 12))
    assert mem.show(naive.id).fields["occurred_at"].startswith("2024-05-08T12:00:00")


def test_expiry_by_seconds_or_by_moment(mem: Any) -> None:
    soon = mem.remember("gone soon", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    later = mem.remember("gone later", ttl_seconds=1000)
    assert [hit.id for hit in mem.recall("gone")] == [later.id]
    assert mem.why_not("gone", soon.id).reasons == ["it has expired"]


def test_a_duplicate_says_what_it_changed(every: Any) -> None:
    first = every.remember("tea is hot", scope="task", priority=7, confidence=0.4, metadata={"a": 1, "b": 1})
    again = every.remember(
        "tea is hot", scope="project", priority=3, confidence=0.9, importance=2.0, metadata={"b": 2, "c": 3}
    )
    assert (again.id, again.duplicate, again.version) == (first.id, True, 2)
    assert again.merged == ["confidence", "importance", "metadata", "scope"]
    fields = every.show(first.id).fields
    assert (fields["scope"], fields["priority"], fields["confidence"], fields["importance"]) == ("project", 7, 0.9, 2.0)
    assert fields["metadata"] == {"a": 1, "b": 2, "c": 3}
    assert every.recall("hot tea", scopes=["project"]).hits[0].id == first.id
    [before, now_] = every.history(first.id).entries
    assert (before.change, before.why, now_.number) == ("revised", "remembered again", 2)
    assert every.verify().sound


def test_what_a_duplicate_leaves_out_changes_nothing(each: Any) -> None:
    first = each.remember("tea is hot", scope="task", priority=2, confidence=0.1)
    again = each.remember("tea is hot")
    assert (again.merged, again.version, each.show(first.id).fields["scope"]) == ([], 1, "task")
    assert each.remember("tea is hot", scope="task", priority=1).merged == []


def test_duplicates_of_one_call_are_merged_before_they_are_stored(each: Any) -> None:
    known = each.remember("old", priority=2).id
    receipts = each.remember_many(
        [
            {"content": "new", "scope": "task"},
            {"content": "new", "scope": "project", "metadata": {"n": 1}},
            {"content": "old", "priority": 6},
            {"content": "new", "scope": "task", "metadata": {"m": 1}},
            {"content": "old", "confidence": 0.9},
        ]
    ).receipts
    assert [one.merged for one in receipts] == [[], ["metadata", "scope"], ["priority"], ["metadata"], ["confidence"]]
    shown = each.show(receipts[0].id)
    assert (shown.version, shown.fields["scope"], shown.fields["metadata"]) == (1, "project", {"n": 1, "m": 1})
    assert (each.show(known).version, each.show(known).fields["priority"]) == (2, 6)
    assert each.show(known).fields["confidence"] == 0.9


def test_an_import_that_is_repeated_asks_the_store_a_few_times(tmp_path: Path) -> None:
    """However many are known already, and have tags, keys and vectors."""
    counts = []
    with sqlite_statements() as seen, recollect.open(tmp_path / "again.db", embedder="none", background=False) as mem:
        for size in (20, 200):
            said = {"tags": ["sea"], "cites": ["user:ann"], "vector": [0.6, 0.8], "vector_model": "own"}
            ones: list[Any] = [
                {"content": f"{size}: {n}", "idempotency_key": f"{size}-{n}", **said} for n in range(size)
            ]
            first = mem.remember_many(ones).receipts
            mem.revise(first[3].id, priority=9)
            seen.clear()
            again = mem.remember_many(ones).receipts
            counts.append(len(seen))
            assert [one.id for one in again] == [one.id for one in first]
            assert {(one.duplicate, one.tags, one.citations, one.vectors) for one in again} == {(True, 0, 0, 0)}
    assert max(counts) <= 12


def test_duplicates_of_one_call_bring_what_is_missing_once(each: Any) -> None:
    known = each.remember("tea is hot", tags=["tea"]).id
    vector: dict[str, Any] = {"vector": [0.6, 0.8], "vector_model": "own"}
    said = {"content": "tea is hot", "tags": ["tea", "hot"], "cites": ["user:ann"], **vector}
    receipts = each.remember_many([{"content": "tea is hot"}, said, said, {"content": "tea is hot"}]).receipts
    assert {one.id for one in receipts} == {known}
    assert [(one.tags, one.citations, one.vectors) for one in receipts] == [(0, 0, 0), (1, 1, 1), (0, 0, 0), (0, 0, 0)]
    assert each.recall("tea", vector=[0.6, 0.8], vector_model="own", by="meaning")[0].id == known
    assert each.verify().sound


def test_a_repeated_call_with_its_key_changes_nothing(each: Any) -> None:
    id = each.remember("once", priority=9, idempotency_key="k").id
    each.revise(id, priority=1)
    assert each.remember("once", priority=9, idempotency_key="k").merged == []
    assert each.show(id).fields["priority"] == 1


def test_a_duplicate_that_comes_while_the_first_is_stored_is_merged(each: Any, meanwhile: Any) -> None:
    meanwhile(each, "transact", Memory, lambda: each.remember("at once", id="first", scope="task"))
    again = each.remember("at once", scope="global", priority=8)
    assert (again.id, again.merged) == ("first", ["priority", "scope"])
    assert each.show("first").fields["scope"] == "global"


def test_a_fact_of_a_task_becomes_one_of_the_project(every: Any) -> None:
    every.user.add("Ann", id="ann")
    every.project.add("House", id="house")
    every.session.add("chat", id="s")
    id = every.remember("the roof leaks", scope="task", author="ann", session="s", namespaces=["short_term"]).id
    every.revise(
        id, scope="project", level="project", project="house", user="ann", session=None, author="bob",
        namespaces=["long_term", "notes"], at=datetime(2024, 5, 9, 12, tzinfo=UTC), source_agent="surveyor",
    )  # fmt: skip
    fields = every.show(id).fields
    assert (fields["scope"], fields["level"], fields["project_id"], fields["user_id"]) == (
        "project", "project", "house", "ann",
    )  # fmt: skip
    assert (fields["author"], fields["source_agent"], "session_id" in fields) == ("bob", "surveyor", False)
    assert fields["occurred_at"].startswith("2024-05-09T12:00")
    assert fields["namespaces"] == ["long_term", "notes"]
    for narrowed in ({"project": "house"}, {"user": "ann"}, {"namespaces": ["notes"]}, {"author": "bob"}):
        assert [hit.id for hit in every.recall("roof leaks", **narrowed).hits] == [id], narrowed
    assert every.recall("what was on 9 May 2024", by="words").hits[0].id == id
    assert every.remember(
        "the roof leaks", author="bob", user="ann", project="house", namespaces=["notes", "long_term"],
        at=datetime(2024, 5, 9, 12, tzinfo=UTC),
    ).duplicate  # fmt: skip
    assert every.verify().sound
    assert [(one.type, one.id) for one in every.revise(id, user="nobody").created] == [("user", "nobody")]


def test_another_author_or_time_is_a_new_claim_and_another_owner_is_not(each: Any) -> None:
    each.user.add("Ann", id="ann")
    for name, change in (("one", {"author": "bob"}), ("two", {"at": datetime(2024, 5, 9, tzinfo=UTC)})):
        id = each.remember(name, cites=[recollect.cite.user("ann", "so it is")]).id
        each.promote(id)
        assert each.revise(id, user="ann", scope="project").status == "verified"
        assert each.revise(id, **change).status == "hypothesis"


def test_a_memory_does_not_become_what_another_is_already(each: Any, meanwhile: Any) -> None:
    each.user.add("Ann", id="ann")
    each.remember("likes tea", id="hers", user="ann")
    each.remember("likes tea", id="nobodys")
    with pytest.raises(Conflict, match="says exactly that already") as refused:
        each.revise("nobodys", user="ann")
    assert "merge hers nobodys" in refused.value.remedy
    assert refused.value.details["other"] == "hers"
    each.remember("likes milk", id="milk")
    meanwhile(each, "transact", Memory, lambda: each.remember("likes milk", id="late", user="ann"))
    with pytest.raises(Conflict, match="says exactly that already"):
        each.revise("milk", user="ann")
    each.archive("hers")
    each.revise("nobodys", user="ann")
