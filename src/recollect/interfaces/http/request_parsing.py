"""From an HTTP request to the fields of an operation: path, query, body and headers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Union, get_args, get_origin

from starlette.requests import ClientDisconnect, Request

from recollect.catalogue import Operation
from recollect.errors import InvalidInput, TooLarge

LONGEST_VERSION = 18  # digits that every store keeps as one number


def fields_of(operation: Operation, request: Request, body: bytes) -> dict[str, object]:
    """Every field the request names; what is no field is left in, so that it is refused by name."""
    fields: dict[str, object] = {}
    if request.method in ("GET", "HEAD", "DELETE"):
        fields = _query(operation, request)
        if body:
            raise InvalidInput("this request takes no body", remedy="send the fields in the query string")
    else:
        if request.query_params:
            raise InvalidInput("this request takes no query string", remedy="send the fields in a JSON body")
        fields = json_fields(body, request.headers.get("content-type", ""))
    doubled = sorted(request.path_params.keys() & fields.keys())
    if doubled:
        raise InvalidInput(f"'{doubled[0]}' is already in the path", remedy="send it only once")
    fields |= request.path_params
    return fields | _headers(operation, request, fields)


def upload_fields(operation: Operation, request: Request) -> dict[str, object]:
    """Where the body is a file as it is, all else stands in path, query and headers."""
    fields = _query(operation, request)
    doubled = sorted(request.path_params.keys() & fields.keys())
    if doubled:
        raise InvalidInput(f"'{doubled[0]}' is already in the path", remedy="send it only once")
    fields |= request.path_params
    return fields | _headers(operation, request, fields)


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def declared_bytes(request: Request) -> int | None:
    """How long the body says it is; None where it comes in pieces until it ends."""
    if "transfer-encoding" in request.headers:
        return None
    declared = request.headers.get("content-length", "0")
    return int(declared) if declared.isdecimal() and len(declared) <= LONGEST_VERSION else None


async def body_of(request: Request, most_bytes: int) -> bytes:
    if (declared_bytes(request) or 0) > most_bytes:
        raise _too_large(most_bytes)
    parts: list[bytes] = []
    size = 0
    async for part in arriving(request):
        size += len(part)
        if size > most_bytes:
            raise _too_large(most_bytes)
        parts.append(part)
    return b"".join(parts)


async def arriving(request: Request) -> AsyncIterator[bytes]:
    """The pieces of a body, for as long as they keep coming."""
    try:
        async for part in request.stream():
            yield part
    except ClientDisconnect:
        if getattr(request.state, "is_unread", False):
            raise InvalidInput("the request body timed out", remedy="send it again without pauses") from None
        raise InvalidInput("the request body is incomplete", remedy="send it again") from None


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"the body is larger than {most:,} bytes", remedy="send it in pieces")


def json_fields(body: bytes, content_type: str) -> dict[str, object]:
    if not body:
        return {}
    if content_type.partition(";")[0].strip().lower() not in ("application/json", ""):
        raise InvalidInput("the body is not JSON", remedy="send Content-Type: application/json")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInput("the body is not JSON", remedy="send one JSON object") from None
    if not isinstance(value, dict):
        raise InvalidInput("the body is not a JSON object", remedy="send one JSON object with the fields")
    return value


def _query(operation: Operation, request: Request) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name in request.query_params:
        field = operation.request.model_fields.get(name)
        values = request.query_params.getlist(name)
        kind = kind_of(field.annotation) if field is not None else "one"
        if kind == "many":
            fields[name] = values
        elif len(values) > 1:
            raise InvalidInput(f"'{name}' is given twice", remedy="send it only once")
        else:
            fields[name] = _object(name, values[0]) if kind == "object" else values[0]
    return fields


def _object(name: str, text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput(f"'{name}' is not JSON", remedy=f'write {name}={{"key": "value"}}') from None


def kind_of(annotation: object) -> str:
    """How a field stands in a query: once, several times, or as a JSON object."""
    options = get_args(annotation) if get_origin(annotation) in (Union, type(int | str)) else (annotation,)
    origins = {get_origin(option) or option for option in options}
    if list in origins or tuple in origins:
        return "many"
    return "object" if dict in origins else "one"


def _headers(operation: Operation, request: Request, fields: dict[str, object]) -> dict[str, object]:
    """`Idempotency-Key` and `If-Match` set fields; they are refused if an operation has no such field."""
    given: dict[str, object] = {
        "idempotency_key": request.headers.get("idempotency-key"),
        "version": _version(request.headers.get("if-match")) if "if-match" in request.headers else None,
    }
    found = {name: value for name, value in given.items() if value is not None}
    for name, value in found.items():
        if name not in operation.request.model_fields:
            raise InvalidInput(f"{operation.name} does not accept {name}", remedy="leave out that header")
        if fields.get(name, value) != value:
            raise InvalidInput(
                f"the header and the body have different values for {name}", remedy="send only one of them"
            )
    return found


def refuse_headers(request: Request, what: str) -> None:
    """Where neither header means anything they are refused, not ignored: the sender relies on them."""
    for name in ("idempotency-key", "if-match"):
        if name in request.headers:
            raise InvalidInput(f"{what} does not accept {name}", remedy="leave out that header")


def _version(tag: str | None) -> int:
    number = (tag or "").strip().removeprefix("W/").strip('"')
    if not number.isdecimal() or len(number) > LONGEST_VERSION:
        raise InvalidInput("If-Match is not an ETag of ours", remedy='send the ETag of a response, such as "3"')
    return int(number)
