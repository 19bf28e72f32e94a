"""Kinds of memory: built in, of the store, or accepted without being declared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.domain.json_schema import misfits
from recollect.domain.kinds import KINDS
from recollect.errors import Conflict, InvalidInput, NotFound, UnknownKind

RECIPE = {
    "type": "object",
    "properties": {"dish": {"type": "string", "minLength": 2}, "minutes": {"type": "integer", "minimum": 1}},
    "required": ["dish"],
}


@pytest.fixture(autouse=True)
def _only_built_in_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests define kinds in the program, which is theirs and ours."""
    monkeypatch.delitem(KINDS, "recipe", raising=False)


def test_a_declared_kind_is_known_to_every_process(every: Any) -> None:
    with pytest.raises(UnknownKind):
        every.remember("soup", kind="recipe")
    shown = every.kind.add("recipe", "How to cook something", json_schema=RECIPE)
    assert (shown.name, shown.declared, shown.memories) == ("recipe", "store", 0)
    assert every.kind.add("recipe", "How to cook something", json_schema=RECIPE) == shown
    id = every.remember({"dish": "炒饭", "minutes": 10}, kind="recipe").id
    assert every.show(id).text == "dish: 炒饭\nminutes: 10"
    assert [one.id for one in every.recall("炒饭", kinds=["recipe"])] == [id]
    every.revise(id, {"dish": "炒饭", "minutes": 20})
    for wrong in ({"minutes": 10}, {"dish": "x"}, {"dish": "soup", "minutes": 0}, {"dish": "soup", "minutes": True}):
        with pytest.raises(InvalidInput, match="does not fit the kind 'recipe'"):
            every.remember(wrong, kind="recipe")
        with pytest.raises(InvalidInput, match="does not fit the kind 'recipe'"):
            every.revise(id, wrong)
    with pytest.raises(Conflict, match="1 memories"):
        every.kind.remove("recipe")
    with pytest.raises(Conflict, match="otherwise"):
        every.kind.add("recipe", "Something else")
    every.kind.add("recipe", "Anything cooked", replace=True)
    every.remember("soup", kind="recipe")
    other = every.within("another")
    with pytest.raises(UnknownKind):  # another organization has kinds of its own
        other.remember("soup", kind="recipe")


def test_two_processes_on_one_store(tmp_path: Path) -> None:
    """Nothing is cached: what one declares or removes, the other knows with its next call."""
    path = tmp_path / "x.db"
    with recollect.open(path, embedder="hash") as one, recollect.open(path, embedder="hash") as two:
        one.kind.add("recipe")
        id = two.remember("soup", kind="recipe").id
        two.forget(id)
        with pytest.raises(Conflict):  # a forgotten one can be restored
            one.kind.remove("recipe")
        two.erase(id)
        one.kind.remove("recipe")
        with pytest.raises(UnknownKind):
            two.remember("soup", kind="recipe")
        with pytest.raises(NotFound):
            two.kind.remove("recipe")


def test_a_kind_that_is_removed_meanwhile_is_not_used(tmp_path: Path, meanwhile: Any) -> None:
    from recollect.domain.memory import Memory

    with recollect.open(tmp_path / "x.db", embedder="hash") as mem:
        mem.kind.add("recipe")
        meanwhile(mem, "transact", Memory, lambda: mem.kind.remove("recipe"))
        with pytest.raises(UnknownKind):
            mem.remember("soup", kind="recipe")
        assert not mem.list()


def test_an_unknown_kind_is_accepted_where_the_settings_say_so(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "x.db", embedder="hash", unknown_kinds="accept") as mem:
        receipt = mem.remember({"colour": "blue"}, kind="mood")
        assert any("not declared" in note for note in receipt.notes)
        assert mem.show(receipt.id).text == "colour: blue"
        assert not mem.remember("plain").notes
        with pytest.raises(InvalidInput, match="cannot name a kind"):
            mem.remember("x", kind="No Kind")
        mem.revise(receipt.id, {"colour": "green"})


def test_the_kinds_are_listed(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "x.db", embedder="hash") as mem:
        mem.kind.add("recipe", "How to cook")
        mem.remember("soup", kind="recipe")
        listed = {one.name: one for one in mem.kind.list()}
        assert (listed["recipe"].declared, listed["recipe"].memories) == ("store", 1)
        assert (listed["fact"].declared, listed["fact"].description) == ("built in", "Something held to be true.")


@pytest.mark.parametrize(
    ("name", "schema", "wrong"),
    [
        ("Recipe", {}, "cannot name"),
        ("recipe", {"type": "thing"}, "not a JSON Schema"),
        ("recipe", {"properties": {"x": {"pattern": "(a+)+$"}}}, "'pattern'"),
        ("recipe", {"$ref": "https://example.com/x.json"}, "'\\$ref'"),
        ("recipe", {"description": "x" * 30_000}, "longer"),
    ],
)
def test_what_cannot_be_declared(tmp_path: Path, name: str, schema: dict[str, Any], wrong: str) -> None:
    with recollect.open("memory://", embedder="hash") as mem, pytest.raises(InvalidInput, match=wrong):
        mem.kind.add(name, json_schema=schema)


def test_a_built_in_kind_is_not_declared_again() -> None:
    with recollect.open("memory://", embedder="hash") as mem, pytest.raises(Conflict, match="already"):
        mem.kind.add("fact")


@pytest.mark.parametrize(
    ("schema", "fitting", "wrong"),
    [
        ({"type": ["string", "null"]}, ["a", None], [1, True, []]),
        ({"type": "number"}, [1, 1.5], [True, "1"]),
        ({"type": "integer"}, [1, 2.0], [1.5, False]),
        ({"enum": [1, "a"]}, [1, 1.0, "a"], [True, "b"]),
        ({"const": True}, [True], [1]),
        ({"items": {"type": "string"}, "maxItems": 1}, [[], ["a"], "no list"], [[1], ["a", "b"]]),
        ({"additionalProperties": False, "properties": {"a": {}}}, [{}, {"a": 1}], [{"b": 1}]),
        ({"additionalProperties": {"type": "integer"}}, [{"a": 1}], [{"a": "1"}]),
        ({"anyOf": [{"type": "string"}, {"minimum": 3}]}, ["a", 3], [2]),
        ({"exclusiveMaximum": 3, "exclusiveMinimum": 1}, [2, "text"], [1, 3]),
        ({"minLength": 2, "maxLength": 3}, ["ab", 1], ["a", "abcd"]),
    ],
)
def test_what_fits_a_schema(schema: dict[str, Any], fitting: list[Any], wrong: list[Any]) -> None:
    assert [value for value in fitting if list(misfits(value, schema))] == []
    assert [value for value in wrong if not list(misfits(value, schema))] == []
