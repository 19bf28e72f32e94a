"""Every request is bounded, by the catalogue alone: lists, objects and numbers, at every door and without a 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from probing import operations, sample
from recollect.catalogue import OPERATIONS, Operation, validated
from recollect.errors import InvalidInput, TooLarge
from recollect.services.request_limits import LARGEST_INTEGER, MOST_VALUES

HUGE: tuple[Any, ...] = (10**400, -(10**400), 2**63, -(2**63), 1e308, -1e308, 1e-320, True, False)
NAMES = sorted(one.name for one in operations())


def parts(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside a request's own, with where it stands."""
    waiting = [("", schema)]
    while waiting:
        place, one = waiting.pop()
        yield place, one
        for name, inner in [*one.get("properties", {}).items(), *one.get("$defs", {}).items()]:
            waiting.append((f"{place}.{name}", inner))
        for name in ("items", "additionalProperties", "propertyNames"):
            if isinstance(one.get(name), dict):
                waiting.append((f"{place}[]", one[name]))
        for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
            waiting += [(place, inner) for inner in one.get(name, [])]


def fields_of_type(operation: Operation, *types: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Fields that may be of one of these JSON types, each with the schema of that type."""
    for name, schema in operation.request.model_json_schema()["properties"].items():
        for option in schema.get("anyOf", [schema]):
            if option.get("type") in types:
                yield name, option


def unbounded(operation: Operation) -> Iterator[str]:
    for place, one in parts(operation.request.model_json_schema()):
        kind = one.get("type")
        if kind == "array" and "maxItems" not in one:
            yield f"{place}: a list"
        if kind == "object" and one.get("additionalProperties", True) is not False and "maxProperties" not in one:
            yield f"{place}: an object"
        if kind in ("integer", "number") and (
            not {"maximum", "exclusiveMaximum"} & one.keys() or not {"minimum", "exclusiveMinimum"} & one.keys()
        ):
            yield f"{place}: a number"


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_list_object_and_number_of_a_request_has_a_bound(name: str) -> None:
    assert not list(unbounded(OPERATIONS[name]))


@pytest.mark.parametrize("name", NAMES)
def test_one_more_than_the_bound_is_too_much(name: str, world: Any) -> None:
    operation = OPERATIONS[name]
    for field, schema in fields_of_type(operation, "array"):
        many = ["x"] * (schema["maxItems"] + 1)
        with pytest.raises(TooLarge, match=field):
            validated(operation, sample(operation, **{field: many}))
    for field, schema in fields_of_type(operation, "object"):
        if "maxProperties" in schema:
            with pytest.raises(InvalidInput, match=field):
                validated(
                    operation, sample(operation, **{field: {str(n): 1 for n in range(schema["maxProperties"] + 1)}})
                )


def test_free_json_holds_a_bounded_number_of_values(mem: Any) -> None:
    mem.remember("enough", metadata={"a": [[0] * 100] * 900})
    for wrong in ([0] * MOST_VALUES, [[0] * 1000] * 101):
        with pytest.raises(InvalidInput, match="more than"):
            mem.remember("too much", metadata={"a": wrong})


def test_so_many_tags_are_refused_before_any_work(mem: Any) -> None:
    with pytest.raises(TooLarge, match="tags"):
        mem.remember("tagged", tags=[f"t{n}" for n in range(100_000)])
    assert mem.stats().memories == 0


def test_as_many_conditions_as_are_allowed_can_be_met(mem: Any) -> None:
    many = {f"k{n}": n for n in range(50)}
    made = mem.remember("found by all of it", metadata=many, tags=[f"t{n}" for n in range(100)])
    asked = {"metadata": many, "tags": [f"t{n}" for n in range(50)], "any_tags": [f"t{n}" for n in range(99, 1000)]}
    assert [one.id for one in mem.list(**asked).memories] == [made.id]
    assert [hit.id for hit in mem.recall("found", **asked)] == [made.id]


def numbers(operation: Operation) -> Iterator[tuple[str, Any]]:
    """Every field that takes a number, with what is beyond all bounds and what is just inside its own."""
    for field, schema in fields_of_type(operation, "integer", "number"):
        edges = [schema[edge] for edge in ("minimum", "maximum") if edge in schema]
        for value in (*HUGE, *edges, *(str(edge) for edge in edges)):
            yield field, value


@pytest.mark.parametrize("name", NAMES)
def test_no_number_is_an_internal_error(name: str, world: Any) -> None:
    operation = OPERATIONS[name]
    method, _, path = operation.route.partition(" ")
    headers = {"authorization": f"Bearer {world.key('mine')}", "content-type": "application/json"}
    for field, value in numbers(operation):
        fields = sample(operation, **{field: value})
        inside = {part: fields.pop(part) for part in list(fields) if f"{{{part}}}" in path}
        url = f"/v1{path.format(**inside)}"
        if method in ("GET", "DELETE"):
            answer = world.http.request(method, url, params=fields, headers=headers)
        else:
            answer = world.http.request(method, url, content=json.dumps(fields), headers=headers)
        assert answer.status_code < 500, (field, value, answer.text)
        if isinstance(value, bool):
            assert answer.status_code in (422, 403), (field, value, answer.text)
    for field, _ in fields_of_type(operation, "integer", "number"):
        for word in ("NaN", "Infinity", "-Infinity"):
            if method not in ("GET", "DELETE") and f"{{{field}}}" not in path:
                raw = json.dumps(sample(operation, **{field: "@"})).replace('"@"', word)
                answer = world.http.request(method, f"/v1{path.format_map(Anything())}", content=raw, headers=headers)
                assert 400 <= answer.status_code < 500, (field, word, answer.text)


class Anything(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "something"


@pytest.mark.parametrize("name", NAMES)
def test_truth_is_no_number(name: str) -> None:
    """In process as over JSON: `keep=True` must not mean to keep one."""
    operation = OPERATIONS[name]
    for field, _ in fields_of_type(operation, "integer", "number"):
        for truth in (True, False):
            with pytest.raises(InvalidInput, match=field):
                validated(operation, sample(operation, **{field: truth}))
    for field, schema in fields_of_type(operation, "array"):
        if schema["items"].get("type") in ("integer", "number"):
            with pytest.raises(InvalidInput, match=field):
                validated(operation, sample(operation, **{field: [0.5, True]}))


def test_the_largest_number_that_every_store_keeps_is_a_number() -> None:
    assert validated(OPERATIONS["forget"], {"id": "x", "version": LARGEST_INTEGER})
    with pytest.raises(InvalidInput):
        validated(OPERATIONS["forget"], {"id": "x", "version": LARGEST_INTEGER + 1})


def test_a_bound_that_is_missing_is_noticed() -> None:
    from pydantic import BaseModel

    class Loose(BaseModel):
        names: list[str]
        free: dict[str, int]

    loose = Operation("x", "", "read", "GET /x", (), "")
    loose.__dict__["request"] = Loose
    assert len(list(unbounded(loose))) == 4
