"""What hangs on one memory is bounded in all, by whatever way it comes; what is there already stays readable."""

from __future__ import annotations

from typing import Any

import pytest

from recollect.domain.memory import Tag
from recollect.errors import InvalidInput, TooLarge
from recollect.ports.records import Scope
from recollect.ports.steps import Insert

MANY = [f"tag{n}" for n in range(100)]


def sayings(first: int, count: int) -> list[dict[str, str]]:
    return [{"type": "user", "user_id": "ann", "comment": f"said {n}"} for n in range(first, first + count)]


def test_repeating_a_memory_adds_tags_up_to_the_bound(mem: Any) -> None:
    id = mem.remember("the sky is blue", tags=MANY[:60]).id
    assert mem.remember("the sky is blue", tags=MANY[20:]).id == id
    with pytest.raises(TooLarge, match="at most 100 tags") as refused:
        mem.remember("the sky is blue", tags=["one more"])
    assert "revise" in str(refused.value.remedy)
    assert mem.remember("the sky is blue", tags=MANY[:5]).duplicate  # nothing new is not too much
    assert len(mem.show(id).tags) == 100


def test_repeating_it_in_one_call_is_no_way_around_it(mem: Any) -> None:
    with pytest.raises(TooLarge, match="at most 100 tags"):
        mem.remember_many([{"content": "the sky is blue", "tags": [f"{n}-{k}" for k in range(60)]} for n in range(2)])
    assert not mem.list().memories


def test_citing_and_repeating_add_citations_up_to_the_bound(mem: Any) -> None:
    id = mem.remember("the sky is blue", cites=sayings(0, 60)).id
    mem.cite(id, sayings(60, 40))
    with pytest.raises(TooLarge, match="at most 100 citations") as refused:
        mem.cite(id, sayings(100, 1))
    assert "uncite" in str(refused.value.remedy)
    with pytest.raises(TooLarge, match="at most 100 citations"):
        mem.remember("the sky is blue", cites=sayings(100, 1))
    mem.cite(id, sayings(0, 5))
    assert len(mem.show(id).citations) == 100


def test_relating_adds_links_up_to_the_bound(mem: Any) -> None:
    ids = [one.id for one in mem.remember_many([f"ground {n}" for n in range(1001)]).receipts]
    id = mem.remember("concluded", derived_from=ids[:999]).id
    mem.relate(id, ids[999], type="about")
    for add in (
        lambda: mem.relate(id, ids[1000], type="about"),
        lambda: mem.remember("concluded", derived_from=[ids[1000]]),
    ):
        with pytest.raises(TooLarge, match="at most 1000 links"):
            add()
    assert mem.relate(id, ids[999], type="about").links == 1000


def test_merging_adds_up_to_the_bound(mem: Any) -> None:
    kept, other = mem.remember("blue", tags=MANY[:60]).id, mem.remember("azure", tags=[f"x{n}" for n in range(60)]).id
    with pytest.raises(TooLarge, match="at most 100 tags"):
        mem.merge(kept, [other])
    assert mem.show(other).status == "hypothesis"


def test_what_has_more_already_stays_readable_and_can_be_mended(mem: Any) -> None:
    id, scope = mem.remember("from before", tags=MANY).id, Scope("default")
    more = [Tag(organization_id="default", memory_id=id, tag=f"old{n}") for n in range(50)]
    mem._core.store.transact(scope, [Insert(tag) for tag in more])
    assert len(mem.show(id).tags) == 150
    assert mem.remember("from before").duplicate
    mem.revise(id, tags=["a", "b"])
    assert mem.remember("from before", tags=["c"]).tags == 1


def test_revising_gives_no_more_namespaces_than_remembering(mem: Any) -> None:
    id = mem.remember("somewhere").id
    with pytest.raises(InvalidInput):
        mem.revise(id, namespaces=[f"place{n}" for n in range(21)])
