"""Requests and replies of operations: their base classes, and what of them the access log stores."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

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

from recollect.domain.access import Restriction
from recollect.domain.kinds import describe
from recollect.domain.record import Id, of_valid
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


class AsGiven:
    """Marks a field that is never searched for secrets: it is used as it is, and not stored as it is."""


AS_GIVEN = AsGiven()


class Request(BaseModel):
    """The request of an operation. Unknown fields are refused, so that a misspelt filter is never ignored.

    Lists, objects and numbers are bounded: where a field does not say how, by services/request_limits.py.
    """

    model_config = ConfigDict(extra="forbid", defer_build=True, allow_inf_nan=False)
    in_python: ClassVar[dict[str, object]] = {}
    """The types of fields that take more in Python than JSON can say, such as data frames."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema: CoreSchema = bounded(handler(source))
        return schema

    @model_validator(mode="wrap")
    @classmethod
    def _whose(cls, value: Any, handler: ModelWrapValidatorHandler[Any], info: ValidationInfo) -> Any:
        return reading_whose(value, handler, info)


class MaskedSecret(BaseModel):
    """Secrets of one kind that were replaced by marks in one field of a request; see services/secrets.py."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    field: str = Field(description="Where it was, such as memories.0.content")
    kind: str = Field(description="What it was, such as AWS access key")
    count: int = Field(ge=1, description="How many there were")


class CreatedOwner(BaseModel):
    """A user, agent, session or project that was made because the request named it; see services/named_owners.py."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    type: str = Field(description="user, agent, session or project")
    id: str


class Reply(BaseModel):
    """The reply of an operation."""

    model_config = ConfigDict(extra="forbid", defer_build=True, allow_inf_nan=False)
    created: list[CreatedOwner] = Field(
        default_factory=list,
        exclude_if=lambda created: not created,
        description="Users, agents, sessions and projects that were added because the request named them; left out "
        "where there were none",
    )
    masked: list[MaskedSecret] = Field(
        default_factory=list,
        exclude_if=lambda masked: not masked,
        description="Secrets that were masked before anything was stored; left out where there were none",
    )

    @classmethod
    def of_valid(cls, fields: Mapping[str, Any]) -> Self:
        """A reply of fields that are valid, as those of a stored record are: for replies of thousands of parts."""
        return of_valid(cls, fields)

    @classmethod
    def own_fields(cls) -> tuple[str, ...]:
        """The fields that this type declares, without those of every reply."""
        return tuple(name for name in cls.model_fields if name not in Reply.model_fields)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What every reply may tell comes last, and only if there is any."""
        shown = dict(super().__repr_args__())
        last = {name: shown.pop(name, None) for name in Reply.model_fields}
        yield from shown.items()
        yield from ((name, told) for name, told in last.items() if told)

    def __repr__(self) -> str:
        """Short, for those that people look at: a line a hit. `model_dump` gives everything."""
        from recollect.services.reply_texts import short_text

        return short_text(self) or super().__repr__()

    def __str__(self) -> str:
        from recollect.services.reply_texts import short_text

        return short_text(self) or super().__str__()

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        from recollect.services.reply_views import html_of

        return html_of(self)


G = TypeVar("G", bound=Request)


def in_namespace(request: G, restriction: Restriction | None) -> G:
    """The request of somebody who is restricted to a namespace: that one, where they name none."""
    if restriction is None or restriction.namespace is None:
        return request
    changes: dict[str, object] = {}
    for name, info in type(request).model_fields.items():
        value = getattr(request, name)
        if name == "namespaces" and get_origin(info.annotation) is list and name not in request.model_fields_set:
            changes[name] = [restriction.namespace]
        elif isinstance(value, list):
            changes[name] = [in_namespace(one, restriction) if isinstance(one, Request) else one for one in value]
    return request.model_copy(update=changes)


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
    return next(name for name in reply.own_fields() if get_origin(reply.model_fields[name].annotation) is list)


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


def sanitized(request: Request, *, refused: bool = False, only: frozenset[str] | None = None) -> dict[str, Any]:
    """A request as logged: ids, numbers and choices as they are, of everything else a hash and a size.

    Of a `refused` request only generated ids are logged: anything else in the place of an id may be text. With `only`,
    no other fields than these.
    """
    kept: dict[str, Any] = {}
    given = request.model_fields_set if only is None else request.model_fields_set & only
    for name in sorted(given - _SECRET):
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
