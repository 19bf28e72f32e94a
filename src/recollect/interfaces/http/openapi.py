"""The description of the HTTP API, written from the catalogue: OpenAPI 3.1 with examples and one error shape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from recollect import __version__
from recollect.catalogue import GROUPS, OPERATIONS, Operation
from recollect.interfaces.http.request_parsing import kind_of

REF = "#/components/schemas/{model}"
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "remedy", "details", "request_id"],
            "properties": {
                "code": {"type": "string", "description": "A stable code, for programs"},
                "message": {"type": "string", "description": "What is wrong"},
                "remedy": {"type": "string", "description": "What to do next"},
                "details": {"type": "object", "description": "Ids and names"},
                "request_id": {"type": "string", "description": "Identifies the request in the service's log"},
            },
        }
    },
}
PROBLEMS = {
    "400": "The request is malformed.",
    "401": "The key is missing or not valid.",
    "403": "The key does not have the permission for this.",
    "404": "Not found, or it belongs to another organization.",
    "409": "The request conflicts with what is stored.",
    "413": "The body is too large, or a list in it too long.",
    "422": "A field is not valid.",
    "429": "Too many requests; Retry-After says when.",
    "500": "An internal error.",
    "501": "A package that this needs is not installed on the service.",
    "502": "A model failed to answer.",
    "503": "Busy or not ready; Retry-After says when.",
    "507": "The disk is full.",
}
JsonSchema = dict[str, Any]
"""A part of the document; its shape is what OpenAPI and JSON Schema say."""
EXAMPLES: dict[str, JsonSchema] = {
    "remember": {"content": "Alice prefers pytest", "cites": ["user:alice:said so in review"], "tags": ["testing"]},
    "recall": {"query": "which test framework?", "limit": 5},
    "context": {"query": "write tests for the parser", "tokens": 800},
    "promote": {"to": "verified"},
    "key.add": {"name": "ci", "scopes": ["read"], "expires_days": 90},
}


def offered() -> list[Operation]:
    """The operations of the HTTP API: not those that read or write files of the caller's own machine."""
    return [operation for operation in OPERATIONS.values() if not operation.local]


@cache
def as_json(prefix: str) -> bytes:
    """Made when it is first asked for: it takes a second or two, and hardly anybody asks."""
    return json.dumps(document(prefix), ensure_ascii=False, separators=(",", ":")).encode()


def document(prefix: str) -> JsonSchema:
    operations = offered()
    models: set[tuple[type[BaseModel], str]] = {(one.request, "validation") for one in operations}
    models |= {(one.reply, "serialization") for one in operations}
    ordered = sorted(models, key=lambda pair: (pair[0].__module__, pair[0].__name__, pair[1]))
    names, schemas = models_json_schema(ordered, ref_template=REF)  # type: ignore[arg-type]
    components = {**schemas.get("$defs", {}), "Error": ERROR}
    paths: JsonSchema = {}
    for operation in operations:
        method, _, path = operation.route.partition(" ")
        described = _described(operation, method, names, components)
        paths.setdefault(prefix + path, {})[method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Recollect", "version": __version__, "description": "The memory of AI agents."},
        "tags": [{"name": name, "description": about} for name, about in {"memory": "Memories.", **GROUPS}.items()],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "A key of Recollect"}},
        },
    }


def _described(
    operation: Operation, method: str, names: Mapping[Any, JsonSchema], components: JsonSchema
) -> JsonSchema:
    request, reply = names[operation.request, "validation"], names[operation.reply, "serialization"]
    inside = re.findall(r"{(\w+)}", operation.route)
    described: JsonSchema = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"Needs the permission `{operation.permission}`. {repeating(operation)}".strip(),
        "tags": [operation.group or "memory"],
        "parameters": [_parameter(operation, components, name, "path") for name in inside] + _headers(operation),
        "responses": _responses(reply),
    }
    left = [name for name in operation.request.model_fields if name not in inside]
    if method in ("GET", "DELETE"):
        described["parameters"] += [_parameter(operation, components, name, "query") for name in left]
    elif left:
        described["requestBody"] = _body(operation, request, components, inside)
    _as_it_is(operation, described, components)
    return described


BYTES: JsonSchema = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


SENT_WITH_A_FILE = ("path", "name", "description", "project", "user", "version_of", "profile")
"""The fields of `source.add` that stand in the query where the body is the file."""


def _as_it_is(operation: Operation, described: JsonSchema, components: JsonSchema) -> None:
    """Files go either way as they are, too: no base64, up to the largest that is allowed."""
    if operation.name == "workspace.write":
        described["requestBody"]["content"] |= BYTES
        described["parameters"].append(_parameter(operation, components, "media_type", "query"))
        described["description"] += (
            " As `application/octet-stream` the body is the file itself, up to `workspace_file_bytes`, and"
            " `media_type` goes into the query. Slashes in the path may be sent as they are or as %2F."
        )
    if operation.name == "source.add":
        form = {
            "type": "object",
            "required": ["file"],
            "properties": {
                "file": {"type": "string", "format": "binary"},
                **{name: {"type": "string"} for name in SENT_WITH_A_FILE},
            },
        }
        described["requestBody"]["content"] |= {**BYTES, "multipart/form-data": {"schema": form}}
        described["parameters"] += [_parameter(operation, components, name, "query") for name in SENT_WITH_A_FILE]
        described["description"] += (
            " As `application/octet-stream`, or any other type that is not JSON, the body is the file itself, up to"
            " `data_file_bytes`: its name goes into the query as `path`, as the other fields do. A form"
            " (`multipart/form-data`) has the file in the field `file`."
        )
    if operation.name in ("query.export", "query.chart"):
        described["responses"]["200"]["content"] |= BYTES
        described["description"] += " With `Accept: application/octet-stream` the response is the file itself."
    if operation.name == "workspace.read":
        described["responses"]["200"]["content"] |= BYTES
        described["description"] += (
            " With `Accept: application/octet-stream` the response is the file itself, its version in `ETag`, its hash"
            " in `X-Recollect-Hash`, its type in `X-Recollect-Media-Type`."
        )


HEADERS: dict[str, JsonSchema] = {
    "idempotency_key": {
        "name": "Idempotency-Key",
        "description": "Sets `idempotency_key`: a repeated request is done once; a different one is a conflict.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    },
    "version": {
        "name": "If-Match",
        "description": "Sets `version`: send the ETag of a response, and the request fails if something changed since.",
        "schema": {"type": "string", "pattern": r'^"[0-9]{1,18}"$'},
    },
}


def _headers(operation: Operation) -> list[JsonSchema]:
    """The headers that an operation honours; elsewhere they are refused."""
    fields = operation.request.model_fields
    return [{**told, "in": "header", "required": False} for field, told in HEADERS.items() if field in fields]


def repeating(operation: Operation) -> str:
    """How to repeat a write whose response was lost: by `Idempotency-Key`, or in which other way."""
    method = operation.route.partition(" ")[0]
    fields = operation.request.model_fields
    if operation.access == "read":
        return ""
    if "idempotency_key" in fields:
        return "Accepts `Idempotency-Key`: with the same key it is done once, however often it is sent."
    refused = "Rejects `Idempotency-Key`"
    if "on_existing" in fields:
        return f'{refused}. To repeat it safely, choose an `id` and send `"on_existing": "return"`.'
    if method in ("PUT", "DELETE"):
        return f"{refused}. Repeating it has no further effect."
    if "version" in fields:
        return f"{refused}. To repeat it safely, send `If-Match`: the second request is then a conflict."
    return f"{refused}. Check whether it was done before you repeat it."


def _responses(reply: JsonSchema) -> JsonSchema:
    error = {"application/json": {"schema": {"$ref": REF.format(model="Error")}}}
    problems = {status: {"description": about, "content": error} for status, about in PROBLEMS.items()}
    for status in ("429", "503"):
        problems[status]["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait"}}
    answer = {"description": "Success.", "content": {"application/json": {"schema": reply}}}
    return {"200": answer, **problems}


def _schema(operation: Operation, components: JsonSchema) -> JsonSchema:
    return components.get(operation.request.__name__) or operation.request.model_json_schema(ref_template=REF)


def _parameter(operation: Operation, components: JsonSchema, name: str, place: str) -> JsonSchema:
    schema = _schema(operation, components)["properties"][name]
    field = operation.request.model_fields[name]
    made = {"name": name, "in": place, "required": place == "path" or field.is_required()}
    made["description"] = field.description or ""
    if place == "query" and kind_of(field.annotation) == "object":
        return made | {"content": {"application/json": {"schema": schema}}}
    return made | {"schema": schema}


def _body(operation: Operation, request: JsonSchema, components: JsonSchema, inside: Iterable[str]) -> JsonSchema:
    """The request's own schema, without the fields that stand in the path."""
    whole = _schema(operation, components)
    schema: JsonSchema = request
    if inside:
        schema = {
            **whole,
            "properties": {name: one for name, one in whole["properties"].items() if name not in inside},
            "required": [name for name in whole.get("required", []) if name not in inside],
        }
    content: JsonSchema = {"schema": schema}
    if operation.name in EXAMPLES:
        content["example"] = EXAMPLES[operation.name]
    required = any(field.is_required() for name, field in operation.request.model_fields.items() if name not in inside)
    return {"required": required, "content": {"application/json": content}}
