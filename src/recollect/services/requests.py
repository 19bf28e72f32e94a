"""Requests and replies of operations: their base classes, and what of them the access log stores."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints, overload

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.functional_validators import ModelWrapValidatorHandler
from pydantic_core import CoreSchema

from recollect.domain.kinds import describe
from recollect.domain.record import Id
from recollect.errors import InvalidInput
from recollect.services.request_limits import bounded
from recollect.services.times import reading_whose


def _from_base64(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be base64") from None


Bytes = Annotated[
    bytes,
    BeforeValidator(_from_base64),
    PlainSerializer(lambda raw: base64.b64encode(raw).decode(), return_type=str, when_used="json"),
]
"""Bytes: as they are in process, base64 in JSON."""


class Request(BaseModel):
    """The request of an operation. Unknown fields are refused, so that a misspelt filter is never ignored.

    Lists, objects and numbers are bounded: where a field does not say how, by services/request_limits.py.
    """

    model_config = ConfigDict(extra="forbid", defer_build=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema: CoreSchema = bounded(handler(source))
        return schema

    @model_validator(mode="wrap")
    @classmethod
    def _whose(cls, value: Any, handler: ModelWrapValidatorHandler[Any], info: ValidationInfo) -> Any:
        return reading_whose(value, handler, info)


class Reply(BaseModel):
    """The reply of an operation."""

    model_config = ConfigDict(extra="forbid", defer_build=True, allow_inf_nan=False)


Item = TypeVar("Item")


class ListReply(Reply, Generic[Item]):
    """A list: iterable, with a length and an index. Its items are in the first list field it declares."""

    def _items(self) -> list[Item]:
        items: list[Item] = getattr(self, _item_field(type(self)))
        return items

    def __iter__(self) -> Iterator[Item]:  # type: ignore[override]  # pydantic would give pairs of field and value
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...

    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        return self._items()[index]


class PageReply(ListReply[Item]):
    """A page of a list, and where the next one starts."""

    next: str | None = Field(None, description="Pass it as `after` to get the next page; empty on the last")


@cache
def _item_field(reply: type[ListReply[Any]]) -> str:
    return next(name for name, field in reply.model_fields.items() if get_origin(field.annotation) is list)


_ID: TypeAdapter[str] = TypeAdapter(Id)


def checked_id(given: str, what: str) -> str:
    try:
        return _ID.validate_python(given)
    except ValidationError as error:
        raise InvalidInput(f"that {what} is not valid: {describe(error)}", remedy="give 1 to 255 characters") from None


# Not even hashed: whoever has the log could try guesses.
_SECRET = frozenset({"password", "new_password", "key", "secret", "token"})


# As we make them. Ids that users choose may be any text, and what was refused may never have been one.
_OUR_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")


def sanitized(request: Request, *, refused: bool = False) -> dict[str, Any]:
    """A request as logged: ids, numbers and choices as they are, of everything else a hash and a size.

    Of a `refused` request only generated ids are logged: anything else in the place of an id may be text.
    """
    kept: dict[str, Any] = {}
    for name in sorted(request.model_fields_set - _SECRET):
        value = getattr(request, name)
        if isinstance(value, str) and not _is_plain(type(request), name, value, refused):
            kept[name] = {"sha256": sha256(value.encode("utf-8", "replace")).hexdigest()[:16], "length": len(value)}
        elif isinstance(value, list | dict | tuple | bytes | Request):
            kept[name] = {"count": len(value.model_fields_set if isinstance(value, Request) else value)}
        elif value is not None:
            kept[name] = value.isoformat() if isinstance(value, datetime) else value
    return kept


@cache
def _hints(request: type[Request]) -> dict[str, Any]:
    return get_type_hints(request, include_extras=True)


def _is_plain(request: type[Request], name: str, value: str, refused: bool) -> bool:
    """An id or one of a list of choices, not free text."""
    is_id, words = _plain_values(request, name)
    return value in words or (is_id and (not refused or _OUR_ID.fullmatch(value) is not None))


@cache
def _plain_values(request: type[Request], name: str) -> tuple[bool, frozenset[str]]:
    """Whether a field takes ids, and the words it may be chosen from."""
    is_id, words, open_ends = False, set(), [_hints(request)[name]]
    while open_ends:
        annotation = open_ends.pop()
        if get_origin(annotation) is Literal:
            words |= {word for word in get_args(annotation) if isinstance(word, str)}
        elif annotation == Id:
            is_id = True
        else:
            open_ends += [inner for inner in get_args(annotation) if inner is not str]
    return is_id, frozenset(words)
