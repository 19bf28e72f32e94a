"""The graph of entities over memories: names stay unique, failures leave it sound, repeating finishes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.catalogue import invoke
from recollect.errors import (
    Conflict,
    DamagedData,
    InvalidInput,
    NotFound,
    RecollectError,
    StoreError,
    VersionConflict,
)
from recollect.interfaces.mcp.tools import GRAPH

OPERATIONS = {operation.name: operation for operation in GRAPH}
ADA = {"name": "Ada", "entityType": "person", "observations": ["wrote a program"]}
BOB = {"name": "Bob", "entityType": "person", "observations": []}
KNOWS = {"from": "Ada", "to": "Bob", "relationType": "knows"}
EXAMPLES: dict[str, dict[str, Any]] = {
    "create_entities": {"entities": [BOB, {**BOB, "name": "Cid"}, {**BOB, "name": "Mentioned"}]},
    "create_relations": {"relations": [{**KNOWS, "to": "Nobody yet"}, {**KNOWS, "relationType": "likes"}]},
    "add_observations": {"observations": [{"entityName": "Ada", "contents": ["liked numbers"]}]},
    "delete_entities": {"entityNames": ["Ada", "Mentioned"]},
    "delete_observations": {"deletions": [{"entityName": "Ada", "observations": ["wrote a program"]}]},
    "delete_relations": {"relations": [{**KNOWS, "to": "Mentioned"}]},
}


def ask(mem: Any, name: str, **fields: Any) -> Any:
    return invoke(OPERATIONS[name], mem._core, mem._scope, fields)


def attempt(mem: Any, name: str) -> RecollectError | None:
    try:
        ask(mem, name, **EXAMPLES[name])
    except RecollectError as error:
        return error
    return None


def graph(mem: Any) -> dict[str, Any]:
    shown: dict[str, Any] = ask(mem, "read_graph").model_dump(by_alias=True)
    return {name: sorted(map(str, part)) for name, part in shown.items()}


@pytest.fixture
def fresh(tmp_path: Path) -> Any:
    opened: list[Any] = []

    def make() -> Any:
        mem = recollect.open(tmp_path / f"{len(opened)}.db", embedder="hash")
        opened.append(mem)
        ask(mem, "create_entities", entities=[ADA])
        ask(mem, "create_relations", relations=[{**KNOWS, "to": "Mentioned"}])
        return mem

    yield make
    for mem in opened:
        mem.close()


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - {"read_graph", "search_nodes", "open_nodes"}))
def test_a_failing_call_of_the_store_leaves_the_graph_sound(
    name: str, fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fresh()
    ask(whole, name, **EXAMPLES[name])
    for failing in itertools.count(1):
        mem = fresh()
        before, made = graph(mem), list[int]()

        def counted(call: Any, failing: int = failing, made: list[int] = made) -> Any:
            def asked(*given: Any, **named: Any) -> Any:
                made.append(1)
                if len(made) == failing:
                    raise DamagedData("injected")
                return call(*given, **named)

            return asked

        with monkeypatch.context() as patch:
            for verb in ("get", "find", "select", "count", "transact"):
                patch.setattr(mem._core.store, verb, counted(getattr(mem._core.store, verb)))
            outcome = attempt(mem, name)
        assert isinstance(outcome, StoreError) == (len(made) >= failing)
        assert mem.verify().sound
        if len(made) < failing:
            break
        if name not in ("create_entities", "create_relations"):
            assert graph(mem) in (before, graph(whole))
        ask(mem, name, **EXAMPLES[name])
        assert graph(mem) == graph(whole)


def test_many_who_create_one_entity_make_one(mem: Any) -> None:
    problems: list[RecollectError] = []

    def create(number: int) -> None:
        try:
            ask(mem, "create_entities", entities=[{**ADA, "observations": [f"by {number}"]}])
        except Conflict as conflict:
            problems.append(conflict)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ask(mem, "read_graph").entities) == 1
    assert len(problems) < 8


def test_a_forgotten_entity_can_be_made_anew(mem: Any) -> None:
    for _ in range(3):
        assert len(ask(mem, "create_entities", entities=[ADA]).entities) == 1
        assert ask(mem, "create_entities", entities=[ADA]).entities == []
        mem.forget(mem.list(kinds=["entity"]).memories[0].id)
    assert ask(mem, "read_graph").entities == []
    assert mem.list(forgotten=True).total == 3


def test_a_deleted_entity_comes_back_with_its_relations(mem: Any) -> None:
    ask(mem, "create_entities", entities=[ADA, BOB])
    ask(mem, "create_relations", relations=[KNOWS])
    before = graph(mem)
    ask(mem, "delete_entities", entityNames=["Ada", "Nobody"])
    assert ask(mem, "read_graph").relations == []
    mem.restore(mem.list(forgotten=True).memories[0].id)
    assert graph(mem) == before


def test_entities_made_elsewhere_are_part_of_the_graph(mem: Any) -> None:
    mem.remember({"name": "Eve", "type": "spy", "text": "listens", "attributes": {"age": 40}}, kind="entity")
    mem.remember("no name", kind="entity")
    (eve,) = ask(mem, "search_nodes", query="SPY").entities
    assert (eve.name, eve.observations) == ("Eve", ["listens", "age: 40"])
    ask(mem, "add_observations", observations=[{"entityName": "Eve", "contents": ["hums"]}])
    assert ask(mem, "open_nodes", names=["Eve"]).entities[0].observations == ["listens", "age: 40", "hums"]
    assert mem.recall("hums").hits[0].content["text"] == "listens"


def test_what_cannot_be_is_refused(mem: Any) -> None:
    with pytest.raises(InvalidInput):
        ask(mem, "create_entities", entities=[{**ADA, "name": ""}])
    with pytest.raises(InvalidInput):
        ask(mem, "create_entities", entities=[{**ADA, "colour": "red"}])
    with pytest.raises(InvalidInput, match="does not replace"):
        ask(mem, "create_relations", relations=[{**KNOWS, "relationType": "supersedes"}])
    with pytest.raises(NotFound, match="Entity with name Nobody not found"):
        ask(mem, "add_observations", observations=[{"entityName": "Nobody", "contents": ["x"]}])
    assert ask(mem, "read_graph").entities == []


def test_a_name_that_is_only_mentioned_becomes_an_entity_when_described(mem: Any) -> None:
    ask(mem, "create_relations", relations=[KNOWS])
    assert ask(mem, "read_graph").entities == []
    assert len(ask(mem, "read_graph").relations) == 1
    assert [one.name for one in ask(mem, "create_entities", entities=[BOB, ADA]).entities] == ["Bob", "Ada"]
    assert len(ask(mem, "open_nodes", names=["Bob"]).relations) == 1
    assert mem.list(kinds=["entity"]).total == 2


def test_a_fact_is_added_however_often_others_were_quicker(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(mem, "create_entities", entities=[ADA])
    store, quicker = mem._core.store, itertools.count()
    transact = store.transact

    def late(scope: Any, steps: Any) -> Any:
        if next(quicker) < 12:
            raise VersionConflict("somebody was quicker")
        return transact(scope, steps)

    monkeypatch.setattr(store, "transact", late)
    ask(mem, "add_observations", **EXAMPLES["add_observations"])
    monkeypatch.undo()
    assert ask(mem, "read_graph").entities[0].observations == ["wrote a program", "liked numbers"]


THEIRS: dict[str, Any] = {
    "add_observations": {"observations": [{"entityName": "Ada", "contents": ["theirs"]}]},
    "delete_observations": {"deletions": [{"entityName": "Ada", "observations": ["wrote a program"]}]},
}


class Meanwhile:
    """Does something else before the n-th call of the store."""

    def __init__(self, mem: Any, patch: pytest.MonkeyPatch, number: int, work: Callable[[], Any]) -> None:
        self.calls, self._number, self._work = 0, number, work
        for name in ("select", "get", "find", "transact"):
            patch.setattr(mem._core.store, name, self._counted(getattr(mem._core.store, name)))

    def _counted(self, call: Any) -> Any:
        def counted(*given: Any, **named: Any) -> Any:
            self.calls += 1
            if self.calls == self._number:
                self._work()
            return call(*given, **named)

        return counted


@pytest.mark.parametrize("other", sorted(THEIRS))
def test_what_others_do_to_an_entity_meanwhile_is_never_undone(
    fresh: Any, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    expected = {"wrote a program", "ours", "theirs"} if other == "add_observations" else {"ours"}
    for number in itertools.count(1):
        mem = fresh()
        with monkeypatch.context() as patch:
            meanwhile = Meanwhile(mem, patch, number, partial(ask, mem, other, **THEIRS[other]))
            ask(mem, "add_observations", observations=[{"entityName": "Ada", "contents": ["ours"]}])
        if meanwhile.calls < number:
            assert number > 3
            return
        ada = next(one for one in ask(mem, "read_graph").entities if one.name == "Ada")
        assert set(ada.observations) == expected, f"before call {number}"
