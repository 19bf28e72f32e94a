"""The same said again within a call, after an erasure, beside others who say it, too; by key and by what it says."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EVERY_STORE
from recollect.adapters.models.hash import HashEmbedder
from recollect.domain.memory import Memory, Relationship
from recollect.errors import Conflict, DuplicateKey, NotFound, ReferenceMissing, VersionConflict
from recollect.ports.query import Query

TEA: dict[str, Any] = {"content": "tea is hot"}


@pytest.mark.parametrize("is_stored", [False, True])
def test_every_receipt_of_a_call_is_of_a_memory_that_is_there(each: Any, is_stored: bool) -> None:
    """What repeats a repetition is another repetition of what is stored, whichever way each was recognised."""
    stored = [each.remember(**TEA).id] if is_stored else []
    one, two = {**TEA, "idempotency_key": "one"}, {**TEA, "idempotency_key": "two", "tags": ["tea"]}
    more = {**two, "metadata": {"cups": 2}, "cites": ["user:ann"]}
    receipts = each.remember_many([TEA, one, two, one, more]).receipts
    (id,) = {receipt.id for receipt in receipts}
    assert [id] == (stored or [receipts[0].id])
    shown = each.show(id)
    assert (shown.fields["metadata"], shown.tags, len(shown.citations)) == ({"cups": 2}, ["tea"], 1)


def test_a_key_is_for_one_content_in_one_call_as_in_two(each: Any) -> None:
    with pytest.raises(Conflict, match="used for another memory"):
        each.remember_many([{**TEA, "idempotency_key": "k"}, {"content": "milk", "idempotency_key": "k"}])
    assert each.stats().memories == 0


def test_what_a_call_repeats_and_replaces_is_changed_and_then_replaced(each: Any) -> None:
    old = each.remember(**TEA).id
    new, again = each.remember_many(
        [{"content": "tea was hot", "supersedes": old}, {**TEA, "metadata": {"cups": 2}}]
    ).receipts
    assert (again.id, again.merged) == (old, ["metadata"])
    shown = each.show(old)
    assert (shown.fields["metadata"], shown.version, "valid_to" in shown.fields) == ({"cups": 2}, 3, True)
    assert [one.change for one in each.history(old)][:2] == ["revised", "superseded"]
    each.forget(new.id)
    assert "valid_to" not in each.show(old).fields


def test_two_memories_of_a_call_cannot_replace_the_same_one(each: Any) -> None:
    old = each.remember(**TEA).id
    with pytest.raises(Conflict, match="replace the same one") as refused:
        each.remember_many([{"content": "cold", "supersedes": old}, {"content": "iced", "supersedes": old}])
    assert refused.value.details["id"] == old
    assert "valid_to" not in each.show(old).fields


def test_a_key_is_known_after_somebody_was_erased_who_is_named_in_its_memory(each: Any) -> None:
    """That leaves no revision, and the next one has a higher number."""
    each.user.add("Ann Lee", id="ann-lee")
    ones: list[dict[str, Any]] = [{**TEA, "idempotency_key": "k", "metadata": {"met": "Ann Lee"}}, {"content": "milk"}]
    first = each.remember_many(ones).receipts[0]
    each.privacy.erase(user="ann-lee")
    assert each.show(first.id).version == 2
    for content in ("tea is cold", "tea is gone"):
        each.revise(first.id, content=content)
    assert [one.duplicate for one in each.remember_many(ones).receipts] == [True, True]
    assert each.remember(**ones[0]).id == first.id
    with pytest.raises(Conflict, match="used for another memory"):
        each.remember("tea is gone", idempotency_key="k")


def test_a_vector_of_the_old_text_is_not_brought_to_the_new_one(each: Any) -> None:
    said: dict[str, Any] = {**TEA, "idempotency_key": "k", "vector": [1.0, 0.0], "vector_model": "own"}
    id = each.remember(**said).id
    each.revise(id, content="stock prices fell")
    assert each.remember(**said).vectors == 0
    assert not each.recall("tea", vector=[1.0, 0.0], vector_model="own", by="meaning").hits


def _interfered(mem: Any, monkeypatch: pytest.MonkeyPatch, times: int, change: Any) -> None:
    """Somebody else is quicker so many times, each time when memories are about to be written."""
    store, original = mem._core.store, mem._core.store.transact
    left = [times]

    def transact(scope: Any, steps: Any, *rest: Any) -> Any:
        about = [getattr(step, "record", None) for step in steps]
        if left[0] and any(one is Memory or isinstance(one, Memory) for one in about):
            left[0] -= 1
            monkeypatch.setattr(store, "transact", original)
            change(left[0])
            monkeypatch.setattr(store, "transact", transact)
        return original(scope, steps, *rest)

    monkeypatch.setattr(store, "transact", transact)


def test_a_large_call_is_stored_though_others_change_what_it_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recollect.open(tmp_path / "s.db", embedder="none", background=False) as mem:
        known = mem.remember(**TEA).id
        ones: list[Any] = [{**TEA, "metadata": {"cups": 2}}, {"content": "milk"}]
        _interfered(mem, monkeypatch, 10, lambda left: mem.revise(known, importance=left + 1.0))
        receipts = mem.remember_many(ones).receipts
        assert (receipts[0].id, mem.show(known).fields["metadata"]) == (known, {"cups": 2})
        _interfered(mem, monkeypatch, 1000, lambda left: mem.revise(known, importance=left + 2.0))
        with pytest.raises(VersionConflict, match="others keep changing") as refused:
            mem.remember_many([{**TEA, "metadata": {"cups": 3}}, {"content": "juice"}])
        assert "try again" in refused.value.remedy
        assert mem.stats().memories == 2


def test_a_tag_that_others_bring_too_is_no_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with recollect.open(tmp_path / "s.db", embedder="none", background=False) as mem:
        known = mem.remember(**TEA).id
        tags = [f"t{n}" for n in range(10)]
        _interfered(mem, monkeypatch, 10, lambda left: mem.remember(**TEA, tags=[tags[left]]))
        mem.remember_many([{**TEA, "tags": tags}, {"content": "milk"}])
        assert mem.show(known).tags == tags


def test_every_memory_of_a_call_is_stored_though_two_of_them_have_one_id(each: Any) -> None:
    """What repeats a memory is that memory, whatever id it was to have."""
    known = each.remember(**TEA).id
    milk, tea = each.remember_many([{"content": "milk", "id": "a"}, {**TEA, "id": "a"}]).receipts
    assert (milk.id, milk.duplicate, tea.id, tea.duplicate) == ("a", False, known, True)
    ones = [{"content": "salt", "id": "b"}, {"content": "sugar"}, {"content": "sugar", "id": "b"}, {"content": "salt"}]
    salt, sugar, again, more = each.remember_many(ones).receipts
    assert (salt.id, again.id, more.id) == ("b", sugar.id, "b")
    assert each.stats().memories == 4
    with pytest.raises(DuplicateKey):
        each.remember_many([{"content": "oil", "id": "c"}, {"content": "vinegar", "id": "c"}])
    assert each.stats().memories == 4


def test_a_kept_duplicate_is_repeated_within_a_call_as_after_it(each: Any) -> None:
    first, again = each.remember_many([{**TEA, "on_duplicate": "keep"}, TEA]).receipts
    assert (again.id, again.duplicate) == (first.id, True)
    kept = {**TEA, "on_duplicate": "keep"}
    newest, once_more = each.remember_many([{**kept, "id": "0"}, TEA]).receipts
    assert (newest.duplicate, once_more.id) == (False, "0")
    assert each.remember(**TEA).id == "0"


def test_what_a_memory_said_before_it_was_revised_is_new(each: Any) -> None:
    said = {**TEA, "idempotency_key": "k"}
    id = each.remember(**said).id
    each.revise(id, content="tea is cold")
    again, new = each.remember_many([said, TEA]).receipts
    assert (again.id, again.duplicate, new.duplicate) == (id, True, False)
    assert each.show(new.id).text == "tea is hot"


def test_links_lead_to_what_a_memory_of_the_call_turned_out_to_be(each: Any) -> None:
    known = each.remember(**TEA).id
    tea, wait, self = each.remember_many(
        [
            {**TEA, "id": "a"},
            {"content": "so wait", "derived_from": ["a", known]},
            {**TEA, "relates": {known: "see", "a": "see"}},
        ]
    ).receipts
    assert (tea.id, wait.links, self.links) == (known, 1, 0)
    links = each._tenant.find(Query(Relationship)).records
    assert [(one.source_id, one.target_id) for one in links] == [(wait.id, known)]


def test_a_receipt_names_the_version_that_is_stored(each: Any) -> None:
    """It may be the base of the next change."""
    first, again = each.remember_many([TEA, {**TEA, "metadata": {"cups": 2}}]).receipts
    assert (first.version, again.version, again.merged) == (1, 1, ["metadata"])
    one, two = each.remember_many([{**TEA, "metadata": {"cups": 3}}, TEA]).receipts
    assert (one.version, two.version, one.merged, two.merged) == (2, 2, ["metadata"], [])
    each.revise(two.id, importance=2.0, version=two.version)
    _, replaced = each.remember_many(
        [{"content": "tea was hot", "supersedes": first.id}, {**TEA, "importance": 3.0}]
    ).receipts
    assert (replaced.version, replaced.merged, each.show(first.id).version) == (5, ["importance"], 5)


def test_what_a_call_changes_and_puts_back_is_not_said_to_be_changed(each: Any) -> None:
    known = each.remember(**TEA, metadata={"cups": 1}).id
    receipts = each.remember_many([{**TEA, "metadata": {"cups": cups}} for cups in (2, 1)]).receipts
    assert [(one.id, one.version, one.merged, one.seq) for one in receipts] == [(known, 1, [], 0)] * 2
    assert each.show(known).version == 1


def test_the_past_does_not_know_what_a_call_said_of_a_memory_that_it_replaced(each: Any) -> None:
    old = each.remember(**TEA).id
    before = datetime.now(UTC)
    each.remember_many([{"content": "tea was hot", "supersedes": old}, {**TEA, "metadata": {"later": True}}])
    (hit,) = each.recall("tea", as_of=before).hits
    assert (hit.id, hit.metadata) == (old, {})
    later, first = each.history(old)[:2]
    assert first.held_to <= later.held_from or later.held_to <= first.held_from


def test_each_vector_that_is_given_is_kept_where_its_text_is(each: Any) -> None:
    said: dict[str, Any] = {**TEA, "idempotency_key": "k"}
    id = each.remember(**said).id
    each.revise(id, content="stock prices fell")
    old = {**said, "vector": [1.0, 0.0], "vector_model": "own"}
    new = {"content": "stock prices fell", "vector": [0.0, 1.0], "vector_model": "own"}
    assert [(one.id, one.vectors) for one in each.remember_many([old, new]).receipts] == [(id, 0), (id, 1)]
    assert each.recall("stock", vector=[0.0, 1.0], vector_model="own", by="meaning").hits[0].id == id


@pytest.mark.parametrize("more", [[], [{"content": "milk"}]])
def test_a_request_that_replaced_something_may_be_sent_again(each: Any, more: list[Any]) -> None:
    old = each.remember(**TEA).id
    request = {"content": "tea is cold", "supersedes": old, "idempotency_key": "k"}
    sent = [each.remember_many([request, *more]).receipts[0] if more else each.remember(**request) for _ in range(2)]
    assert (sent[0].id, sent[0].duplicate, sent[1].duplicate) == (sent[1].id, False, True)
    with pytest.raises(Conflict, match="already replaced"):
        each.remember("tea is iced", supersedes=old)


def test_a_memory_that_somebody_replaces_meanwhile_is_not_replaced_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recollect.open(tmp_path / "s.db", embedder="none", background=False) as mem:
        old = mem.remember(**TEA).id
        _interfered(mem, monkeypatch, 1, lambda left: mem.remember("tea is cold", supersedes=old))
        with pytest.raises(Conflict, match="already replaced"):
            mem.remember("tea is iced", supersedes=old)
        assert [one.change for one in mem.history(old)].count("superseded") == 1


def test_vectors_are_made_once_however_often_others_are_quicker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[str] = []

    class Counting(HashEmbedder):
        def embed(self, texts: Any) -> Any:
            embedded.extend(texts)
            return super().embed(texts)

    with recollect.open(tmp_path / "s.db", embedder=Counting(), background=False) as mem:
        known = mem.remember(**TEA).id
        embedded.clear()
        _interfered(mem, monkeypatch, 6, lambda left: mem.revise(known, importance=left + 1.0))
        mem.remember_many([{**TEA, "metadata": {"cups": 2}}, *[{"content": f"juice {n}"} for n in range(5)]])
        assert sorted(embedded) == [f"juice {n}" for n in range(5)]


def test_links_stay_with_a_memory_that_has_the_id(each: Any) -> None:
    """Whatever else a draft of the call with the same id turned out to be."""
    known = each.remember(**TEA).id
    each.remember("milk is white", id="stored")
    new, _, one, other, last = each.remember_many(
        [
            {"content": "salt", "id": "new"},
            {**TEA, "id": "new"},
            {"content": "one", "id": "one", "derived_from": ["new"]},
            {**TEA, "id": "stored"},
            {"content": "milk was white", "id": "last", "supersedes": "stored", "derived_from": [known]},
        ]
    ).receipts
    links = {(link.source_id, link.target_id) for link in each._tenant.find(Query(Relationship)).records}
    assert links == {("one", new.id), (last.id, "stored"), (last.id, known)}
    assert (one.id, other.id) == ("one", known)
    assert "valid_to" in each.show("stored").fields
    each.forget(last.id)
    assert "valid_to" not in each.show("stored").fields


def test_a_new_memory_is_not_linked_with_itself(each: Any) -> None:
    tea, again = each.remember_many([{**TEA, "id": "a", "relates": {"b": "see"}}, {**TEA, "id": "b"}]).receipts
    assert (tea.id, again.id, tea.links) == ("a", "a", 0)


def test_content_never_names_an_id_that_no_memory_has(each: Any) -> None:
    known = each.remember(**TEA).id
    summary = {"kind": "summary", "content": {"text": "of tea", "covers": ["a"]}}
    with pytest.raises(ReferenceMissing, match="'a'"):
        each.remember_many([{**TEA, "id": "a"}, summary])
    summary["content"] = {"text": "of tea", "covers": [known]}
    assert each.remember_many([TEA, summary]).receipts[1].links == 1


def test_a_repetition_replaces_nothing(each: Any) -> None:
    """Its link would keep what it names from coming back."""
    old = each.remember("tea is cold").id
    each.remember(**TEA, idempotency_key="k")
    assert each.remember(**TEA, idempotency_key="k", supersedes=old).links == 0
    new = each.remember("tea is warm", supersedes=old).id
    each.forget(new)
    assert "valid_to" not in each.show(old).fields


@pytest.mark.parametrize("goes", ["forget", "erase"])
def test_a_replacement_may_be_sent_again_when_what_it_replaced_is_gone(each: Any, goes: str) -> None:
    old = each.remember(**TEA).id
    said = {"content": "tea is cold", "supersedes": old, "idempotency_key": "k"}
    new = each.remember(**said).id
    getattr(each, goes)(old)
    assert each.remember(**said).id == new
    assert [one.id for one in each.remember_many([said, said]).receipts] == [new, new]
    with pytest.raises(NotFound):
        each.remember("tea is iced", supersedes=old)


def test_a_vector_that_is_given_is_found_in_the_scope_that_it_widens(each: Any) -> None:
    id = each.remember(**TEA, scope="task").id
    given = {"vector": [1.0, 0.0], "vector_model": "own"}
    assert each.remember(**TEA, scope="global", **given).merged == ["scope"]
    (hit,) = each.recall("tea", by="meaning", scopes=["global"], **given).hits
    assert hit.id == id
    assert each.verify().sound


def test_an_id_that_is_taken_is_said_to_be_taken(each: Any) -> None:
    each.remember("salt", id="taken")
    with pytest.raises(DuplicateKey, match="that id already"):
        each.remember_many([{"content": "milk", "id": "taken"}, {"content": "salt", "tags": ["white"]}])


@pytest.mark.parametrize("kind", EVERY_STORE)
@pytest.mark.parametrize("more", [[], [{"content": "milk"}]])
def test_evidence_is_not_hung_on_other_words(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[Any]
) -> None:
    """Somebody revises what a call repeats, just before it adds to that."""
    with recollect.open(EVERY_STORE[kind](tmp_path), embedder="none", background=False) as mem:
        known = mem.remember(**TEA).id
        said = {**TEA, "tags": ["drink"], "cites": ["user:ann"], "vector": [1.0, 0.0], "vector_model": "own"}
        # A single one is written before it is looked for.
        turns = iter([True] if more else [False, True])
        _interfered(
            mem, monkeypatch, 1 + (not more), lambda left: next(turns) and mem.revise(known, content="tea is cold")
        )
        receipt = mem.remember_many([said, *more]).receipts[0] if more else mem.remember(**said)
        shown = mem.show(receipt.id)
        assert (shown.text, shown.tags, len(shown.citations), receipt.duplicate) == ("tea is hot", ["drink"], 1, False)
        assert mem.show(known).tags == []
        assert mem.verify().sound
