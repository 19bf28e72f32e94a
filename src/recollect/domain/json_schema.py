"""Whether a JSON object has the shape of a JSON Schema, as tools declare their parameters with.

The words that models and tool runners read are checked; others are left alone. What is checked is the schema itself,
never data against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

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
