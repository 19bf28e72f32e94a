"""JSON Schema: whether an object is one (`schema_problems`), and whether data fits one (`misfits`).

Tools declare their parameters with it: the words that models and tool runners read are checked, others are left alone.
Kinds of memory declare their content with it, by the words of `CHECKED` only, so that each of them holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import ge, gt, le, lt
from typing import Any

TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
DEEPEST = 64


def schema_problems(schema: object, where: str = "the schema", depth: int = 0) -> Iterator[str]:
    """What is wrong with a schema, in words; nothing when it is one."""
    if depth > DEEPEST:
        yield f"it is nested more than {DEEPEST} levels deep"
    elif isinstance(schema, bool):
        return
    elif not isinstance(schema, dict):
        yield f"{where} must be an object, not {type(schema).__name__}"
    else:
        for word, value in schema.items():
            if word in _WORDS:
                yield from _WORDS[word](value, f"{where}.{word}", depth)
        yield from _required(schema, where)


Check = Callable[[object, str, int], Iterator[str]]


def _type(value: object, where: str, depth: int) -> Iterator[str]:
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name in TYPES for name in names):
        yield f"{where} must be one or more of {', '.join(sorted(TYPES))}"


def _schemas_by_name(value: object, where: str, depth: int) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where} must be an object of schemas"
        return
    for name, inner in value.items():
        yield from schema_problems(inner, f"{where}.{name}", depth + 1)


def _schemas(value: object, where: str, depth: int) -> Iterator[str]:
    if not isinstance(value, list) or not value:
        yield f"{where} must be a list of schemas"
        return
    for number, inner in enumerate(value):
        yield from schema_problems(inner, f"{where}[{number}]", depth + 1)


def _schema(value: object, where: str, depth: int) -> Iterator[str]:
    yield from schema_problems(value, where, depth + 1)


def _list(value: object, where: str, depth: int) -> Iterator[str]:
    if not isinstance(value, list) or not value:
        yield f"{where} must be a list with something in it"


def _text(value: object, where: str, depth: int) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{where} must be text"


def _number(value: object, where: str, depth: int) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield f"{where} must be a number"


def _count(value: object, where: str, depth: int) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        yield f"{where} must be a whole number, 0 or more"


def _required(schema: Mapping[str, object], where: str) -> Iterator[str]:
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        yield f"{where}.required must be a list of names"
        return
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    missing = [name for name in required if name not in known]
    if missing and known:
        yield f"{where} requires '{missing[0]}', which is not among its properties"


_WORDS: dict[str, Check] = {
    "type": _type,
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions"), _schemas_by_name),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), _schemas),
    **dict.fromkeys(("items", "not", "additionalProperties", "contains", "if", "then", "else"), _schema),
    "enum": _list,
    **dict.fromkeys(("description", "title", "$ref", "format", "pattern"), _text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _count),
}


# --- Data against a schema ------------------------------------------------------------------------------------

ANNOTATIONS = frozenset({"title", "description", "default", "examples", "$schema"})
_LIMITS: dict[str, tuple[type, Callable[[Any, Any], bool], str]] = {
    "minimum": (float, ge, "must be at least"),
    "maximum": (float, le, "must be at most"),
    "exclusiveMinimum": (float, gt, "must be more than"),
    "exclusiveMaximum": (float, lt, "must be less than"),
    "minLength": (str, lambda text, bound: len(text) >= bound, "must have at least so many characters:"),
    "maxLength": (str, lambda text, bound: len(text) <= bound, "must have at most so many characters:"),
    "minItems": (list, lambda items, bound: len(items) >= bound, "must have at least so many entries:"),
    "maxItems": (list, lambda items, bound: len(items) <= bound, "must have at most so many entries:"),
}
CHECKED = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", *_LIMITS}
)
"""The words that `misfits` enforces. Patterns are not among them: whoever writes one could make checking it last."""


def unchecked_words(schema: object) -> Iterator[str]:
    """The words of a schema that would say nothing, since they are not enforced."""
    if not isinstance(schema, dict):
        return
    yield from (word for word in schema if word not in CHECKED | ANNOTATIONS)
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    for one in (*inner, schema.get("items"), schema.get("additionalProperties")):
        yield from unchecked_words(one)


def misfits(value: object, schema: object, where: str = "content") -> Iterator[str]:
    """What in a value does not fit a schema, in words and without the value itself."""
    if schema is False:
        yield f"{where} is not allowed"
    if not isinstance(schema, dict):
        return
    wanted = schema.get("type")
    if wanted is not None and _type_of(value).isdisjoint([wanted] if isinstance(wanted, str) else wanted):
        yield f"{where} must be {wanted if isinstance(wanted, str) else ' or '.join(wanted)}"
        return
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        yield f"{where} must be one of the values of the schema"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{where} must be the value of the schema"
    if "anyOf" in schema and all(next(misfits(value, one, where), None) is not None for one in schema["anyOf"]):
        yield f"{where} fits none of what the schema allows"
    yield from _beyond_limits(value, schema, where)
    if isinstance(value, dict):
        yield from _members(value, schema, where)
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from misfits(item, schema.get("items"), f"{where}[{number}]")


def _members(value: Mapping[str, object], schema: Mapping[str, Any], where: str) -> Iterator[str]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    yield from (f"{where}.{name} is missing" for name in schema.get("required", []) if name not in value)
    for name, inner in value.items():
        yield from misfits(inner, known.get(name, others), f"{where}.{name}")


def _beyond_limits(value: object, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    for word, (type, holds, said) in _LIMITS.items():
        is_meant = not isinstance(value, bool) and isinstance(value, (int, float) if type is float else type)
        if word in schema and is_meant and not holds(value, schema[word]):
            yield f"{where} {said} {schema[word]}"


def _type_of(value: object) -> set[str]:
    if value is None or isinstance(value, bool):
        return {"null"} if value is None else {"boolean"}
    if isinstance(value, int | float):
        return {"number", "integer"} if value == int(value) else {"number"}
    return {"string"} if isinstance(value, str) else {"array"} if isinstance(value, list) else {"object"}


def _same(value: object, other: object) -> bool:
    """As JSON: 1 is 1.0, and neither is true."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)
