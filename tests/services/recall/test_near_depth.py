"""An index that suggests what does not pass is asked for more the next time, not searched twice by every recall."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from recollect.adapters.vectors.embedded import search
from recollect.adapters.vectors.embedded.index import EmbeddedIndex
from recollect.services.recall import few_passing, meaning, near_depth
from recollect.services.recall.near_depth import next_depth


class OfNoIndex:
    pass


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    near_depth._shares.clear()
    yield
    near_depth._shares.clear()


@pytest.fixture
def depths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many each search of the index was asked for."""
    asked: list[int] = []
    search = EmbeddedIndex.search

    def watched(self: Any, organization_id: str, space: str, query: Any, limit: int, where: Any = None) -> Any:
        asked.append(limit)
        return search(self, organization_id, space, query, limit, where)

    monkeypatch.setattr(EmbeddedIndex, "search", watched)
    return asked


@pytest.fixture
def outdated(mem: Any) -> Any:
    """Every fourth memory is of the past: the index does not know which."""
    told = [
        {"content": f"the lantern number {number} of the harbour", **({} if number % 4 else {"valid_to": "2020-01-01"})}
        for number in range(600)
    ]
    mem.remember_many(told)
    return mem


def test_only_the_first_recall_searches_twice(outdated: Any, depths: list[int]) -> None:
    first = outdated.recall("which lantern of the harbour", by="meaning", limit=50)
    assert len(depths) == 2
    assert depths[0] == 50
    assert depths[1] < 4 * 50
    del depths[:]
    assert outdated.recall("which lantern of the harbour", by="meaning", limit=50).hits == first.hits
    assert len(depths) == 1
    assert 50 < depths[0] < 100


def test_what_a_filter_of_the_caller_left_out_says_nothing(mem: Any, depths: list[int], monkeypatch: Any) -> None:
    monkeypatch.setattr(few_passing, "EXACT_UP_TO", 1)
    monkeypatch.setattr(meaning, "all_passing", lambda *given: None)
    monkeypatch.setattr(meaning, "SearchesPassing", OfNoIndex)  # as other indexes are searched
    told = [{"content": f"a buoy number {number}", "priority": 1 + number % 9} for number in range(80)]
    mem.remember_many(told)
    assert mem.recall("which buoy", by="meaning", limit=10, min_priority=9).hits
    assert len(depths) > 1
    assert not near_depth._shares


def test_where_those_who_pass_are_fewer_than_those_to_look_at_they_are_looked_up(
    mem: Any, depths: list[int], monkeypatch: Any
) -> None:
    told = [{"content": f"a buoy number {number}", "priority": 1 + number % 9} for number in range(80)]
    mem.remember_many(told)
    few = mem.recall("which buoy", by="meaning", limit=10, min_priority=9)
    assert len(few) == 8
    assert depths == []
    monkeypatch.setattr(few_passing, "EXACT_UP_TO", 1)
    monkeypatch.setattr(meaning, "SearchesPassing", OfNoIndex)
    assert mem.recall("which buoy", by="meaning", limit=10, min_priority=9).hits == few.hits
    assert len(depths) == 1


def test_where_all_pass_again_the_usual_number_comes_back(mem: Any, depths: list[int]) -> None:
    mem.remember_many([{"content": f"a buoy number {number}"} for number in range(80)])
    near_depth._shares[mem.organization, "memory"] = 0.5
    for _ in range(250):
        mem.recall("which buoy", by="meaning", limit=10)
    assert depths[0] == 20
    assert depths[-1] == 10


@pytest.mark.parametrize(
    ("passing", "wanted"),
    [(100, 150), (81, 155), (50, 250), (10, 1250), (1, 1600), (0, 1600)],
    ids=lambda one: str(one),
)
def test_a_second_look_is_as_deep_as_the_share_says(passing: int, wanted: int) -> None:
    assert next_depth(100, 100, 100, passing) == wanted


def test_many_that_pass_far_from_the_question_are_found_all_the_same(mem: Any, monkeypatch: Any) -> None:
    """What is nearest is of another time, and those of this one are too many to be compared one by one."""
    told = [{"content": f"a buoy number {number}", "priority": 1 + number % 9} for number in range(80)]
    mem.remember_many(told)
    wanted = mem.recall("which buoy", by="meaning", limit=10, min_priority=8)
    assert len(wanted) == 10
    for module, name in ((few_passing, "EXACT_UP_TO"), (few_passing, "MOST_COMPARED"), (search, "_NAMED_FIRST")):
        monkeypatch.setattr(module, name, 1)
    monkeypatch.setattr(search, "MOST_NAMED", 0)
    monkeypatch.setattr(search, "_FIRST_QUESTION", 4)
    assert mem.recall("which buoy", by="meaning", limit=10, min_priority=8).hits == wanted.hits


def test_those_who_pass_are_compared_where_that_is_quicker_than_to_search_so_deep() -> None:
    narrowed, broad = SimpleNamespace(is_narrowed=True), SimpleNamespace(is_narrowed=False)
    asked: Any = few_passing.worth_comparing
    assert [asked(narrowed, depth) for depth in (150, 1_600, 5_000, 30_000)] == [1_500, 16_000, 20_000, 30_000]
    assert asked(broad, 1_600) == 1_600
