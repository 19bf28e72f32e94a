"""What every stored thing has in common, and how a record type declares itself.

A record type says once, in its `shape`, what identifies it, what it refers to, what is unique, indexed, searched
as text or encrypted. Tables, indexes, cascades, migrations and docs all follow from that declaration, so a new
record type adds no line to any store. Identity is `(organization_id, id)`; an id is made by the client (UUIDv7,
so ids sort by time) and never reused. `version` counts the writes of a record and guards against lost updates.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import threading
import time
import types
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, cast, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

ID_LENGTH = 255
LONGEST_QUERY = 20_000


def now() -> datetime:
    return datetime.now(UTC)


def in_utc(moment: datetime) -> datetime:
    """As records keep it: a moment without a zone is in UTC."""
    if moment.tzinfo is UTC:
        return moment
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("must lie between the years 1 and 9999 in UTC") from None


def storable(text: str) -> str:
    """Refuse what some store cannot keep: NUL (PostgreSQL) and lone surrogates (no UTF-8)."""
    if "\x00" in text:
        raise ValueError("must not contain the NUL character")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("must be valid Unicode (it holds a lone surrogate)") from None
    return text


def clipped(text: str, most: int) -> str:
    """The text, or as much of its beginning as fits."""
    return text if len(text) <= most else text[: most - 1] + "…"


def clipped_within(text: str, most: int) -> str:
    """The text, or as much of its beginning and its end as fits."""
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]} … {text[-half:]}"


DEEPEST_JSON = 100


def storable_json(value: object, depth: int = 0) -> object:
    """JSON only, with every string storable and every number finite; tuples become the lists they will be read as."""
    if depth > DEEPEST_JSON:
        raise ValueError(f"must not be nested more than {DEEPEST_JSON} levels deep")
    if isinstance(value, str):
        storable(value)
    elif isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError("must not contain NaN or infinity")
    elif isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("JSON keys must be text")
        return {storable(key): storable_json(inner, depth + 1) for key, inner in value.items()}
    elif isinstance(value, list | tuple):
        return [storable_json(inner, depth + 1) for inner in value]
    elif value is not None and not isinstance(value, bool | int):
        raise ValueError(f"must be JSON (found {type(value).__name__})")
    return value


def _printable(identifier: str) -> str:
    if not identifier.isprintable() and any(unicodedata.category(character) == "Cc" for character in identifier):
        raise ValueError("must not contain control characters")
    return identifier


Text = Annotated[str, AfterValidator(storable)]
QueryText = Annotated[Text, StringConstraints(max_length=LONGEST_QUERY)]
"""What somebody looks for: long enough for a page pasted as a question, short enough to be read at once."""
Moment = Annotated[datetime, AfterValidator(in_utc)]
Json = Annotated[dict[str, Any], AfterValidator(lambda value: storable_json(value))]
JsonList = Annotated[list[Any], AfterValidator(lambda value: storable_json(value))]
JsonObject = dict[str, Any]
JsonArray = list[Any]
"""JSON that is not checked again, since it was when it was stored."""
Id = Annotated[
    str,
    StringConstraints(min_length=1, max_length=ID_LENGTH),
    AfterValidator(storable),
    AfterValidator(_printable),
]
Name = Annotated[str, StringConstraints(min_length=1, max_length=255), AfterValidator(storable)]
Vector = Annotated[list[float], Field(max_length=65_536)]

# A hundred years: longer spans lead out of the calendar.
LONGEST_SECONDS = 3.2e9

_OURS = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_last_stamp = 0
_stamp_lock = threading.Lock()


def new_id() -> str:
    """A UUIDv7 that is greater than every one this process made before, even within a millisecond."""
    global _last_stamp
    with _stamp_lock:
        stamp = max((time.time_ns() // 1_000_000) << 12, _last_stamp + 1)
        _last_stamp = stamp
    return _stamped(stamp)


def made_at(id: str) -> float | None:
    """The second since 1970 in which an id was made; None if it is not one of ours."""
    return int(id[:8] + id[9:13], 16) / 1000 if _OURS.fullmatch(id) else None


def id_after(earlier: str) -> str:
    """A new id that sorts after an earlier one, even if the clock of whoever made that one is ahead of ours."""
    fresh = new_id()
    if fresh > earlier or not _OURS.fullmatch(earlier):
        return fresh
    number = int(earlier.replace("-", ""), 16)
    stamp = ((number >> 80) << 12 | (number >> 64) & 0xFFF) + 1
    return _stamped(stamp) if stamp < 1 << 60 else fresh


def _stamped(stamp: int) -> str:
    """The milliseconds and, in the last three digits, how many came before within one; then chance."""
    head, tail = f"{stamp:015x}", random_bytes(8).hex()
    return f"{head[:8]}-{head[8:12]}-7{head[12:]}-{_VARIANT[tail[0]]}{tail[1:4]}-{tail[4:]}"


_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


class _Randomness(threading.local):
    """What the system gave one thread, and how much of it is used up."""

    given = b""
    used = 0


_randomness = _Randomness()
RANDOM_AT_ONCE = 4096


def random_bytes(count: int) -> bytes:
    """As good as the system's own, of which much is asked for at once: to ask for each id lets other threads in."""
    mine = _randomness
    start, given = mine.used, mine.given
    if start + count > len(given):
        start, given = 0, os.urandom(max(RANDOM_AT_ONCE, count))
        mine.given = given
    mine.used = start + count
    return given[start : start + count]


def _forget_randomness() -> None:
    _randomness.given, _randomness.used = b"", 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_randomness)  # else both would make the same ids


def derived_id(*parts: str) -> str:
    """A short id that these parts, in this order, always have, and no others."""
    digest = hashlib.blake2b(digest_size=15)
    for part in parts:
        raw = part.encode()
        digest.update(b"%d:" % len(raw))
        digest.update(raw)
    return base64.urlsafe_b64encode(digest.digest()).decode()


OnDelete = Literal["cascade", "clear"]


@dataclass(frozen=True, slots=True)
class Reference:
    """A field that holds the id of another record of the same tenant.

    When the other is deleted for good, `cascade` deletes this record too and `clear` empties the field. Where one
    of the fields `unless` is set, that one refers and this one is only a key.
    """

    to: str
    on_delete: OnDelete = "cascade"
    unless: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unique:
    """Together unique within a tenant. With `nulls_equal`, at most one record may have a field empty."""

    fields: tuple[str, ...]
    nulls_equal: bool = False


@dataclass(frozen=True, slots=True)
class TextIndex:
    """Which fields are searched as text, and which small fields narrow that search (`facets`)."""

    fields: tuple[str, ...]
    facets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    table: str
    references: Mapping[str, Reference] = field(default_factory=dict)
    unique: tuple[Unique, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    unset: tuple[str, ...] = ()
    """Fields that are empty while something waits to be done: those records, few of many, are found by an index of
    their own."""
    encrypted: frozenset[str] = frozenset()
    encrypted_texts: frozenset[str] = frozenset()
    """Texts of memories and messages, and fields with copies of them: encrypted too in an organization whose texts are
    (`Organization.text_encrypted`)."""
    encrypted_hashes: frozenset[str] = frozenset()
    """Hashes of such texts, by which equal ones are found: encrypted with them, so that equal ones stay equal."""
    text: TextIndex | None = None
    store_only: frozenset[str] = frozenset()
    """Fields that have no meaning in another store: they are neither copied nor exported."""
    leaves_trace: bool = True
    """Whether `changes` tells when one was deleted for good; not worth it for what comes and goes all the time."""

    @property
    def sealable(self) -> frozenset[str]:
        """All fields that may be stored encrypted."""
        return self.encrypted | self.encrypted_texts | self.encrypted_hashes

    @property
    def has_keyed_terms(self) -> bool:
        """Whether its text index holds keyed terms where texts are encrypted."""
        return self.text is not None and not self.encrypted_texts.isdisjoint(self.text.fields)


ColumnType = Literal["text", "integer", "real", "boolean", "moment", "bytes", "json"]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: ColumnType
    nullable: bool


RECORDS: dict[str, type[Record]] = {}


class Record(BaseModel):
    # Validators are built on first use: a program that opens a store waits for the types it uses, not for all.
    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=False, defer_build=True, allow_inf_nan=False
    )

    shape: ClassVar[Shape]

    organization_id: Id
    id: Id = Field(default_factory=new_id)
    version: int = 1
    created_at: Moment = Field(default_factory=now)
    updated_at: Moment = Field(default_factory=now)
    created_by: Id | None = None
    updated_by: Id | None = None
    is_deleted: bool = False

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "shape" in cls.__dict__:
            RECORDS[cls.shape.table] = cls

    @classmethod
    def columns(cls) -> tuple[Column, ...]:
        cached = cls.__dict__.get("_columns")
        if cached is None:
            cached = tuple(_column(name, info.annotation) for name, info in cls.model_fields.items())
            cls._columns = cached
        return cached

    _columns: ClassVar[tuple[Column, ...]]

    @classmethod
    def of_valid(cls, fields: Mapping[str, Any]) -> Self:
        """A record of fields that were validated a moment ago and are as it keeps them; what is left out has its
        default. To validate them again takes longer than to store them, for each of thousands.
        """
        return of_valid(cls, fields)

    def refers(self, field: str) -> str | None:
        """The id that a field refers to; None if it refers to nothing."""
        if any(getattr(self, other) is not None for other in self.shape.references[field].unless):
            return None
        id: str | None = getattr(self, field)
        return id

    def changed(self, **fields: object) -> Self:
        """A validated copy with some fields different."""
        return type(self).model_validate({**self.__dict__, **fields})


M = TypeVar("M", bound=BaseModel)


def of_valid(model: type[M], fields: Mapping[str, Any]) -> M:
    """A model of valid fields, not validated again."""
    plain, made = _defaults(model)
    values = {**plain, **fields}
    for name, make in made:
        if name not in fields:
            values[name] = make()
    built = _new(model)
    _set_values(built, values)
    _set_names(built, set(fields))
    _set_extra(built, None)
    _set_private(built, None)
    return built


_new = cast(Callable[[type[M]], M], object.__new__)
# The slots of every model, set as pydantic sets them, without asking for their names each time.
_set_values, _set_names, _set_extra, _set_private = (
    BaseModel.__dict__[name].__set__
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


@cache
def _defaults(model: type[BaseModel]) -> tuple[dict[str, Any], list[tuple[str, Callable[[], Any]]]]:
    """What fields hold that are left out, all of them in their order; and those whose default is made each time."""
    plain, made = {}, []
    for name, info in model.model_fields.items():
        plain[name] = None if info.is_required() or info.default_factory else info.default
        if info.default_factory is not None:
            made.append((name, cast(Callable[[], Any], info.default_factory)))
    return plain, made


_SCALARS: dict[object, ColumnType] = {
    str: "text",
    int: "integer",
    float: "real",
    bool: "boolean",
    datetime: "moment",
    bytes: "bytes",
}


def _column(name: str, annotation: object) -> Column:
    options = [annotation]
    if get_origin(annotation) in (Union, types.UnionType):
        options = list(get_args(annotation))
    nullable = type(None) in options
    inner = next(option for option in options if option is not type(None))
    while get_origin(inner) is Annotated:
        inner = get_args(inner)[0]
    if get_origin(inner) is Literal:
        inner = type(get_args(inner)[0])
    if isinstance(inner, type) and issubclass(inner, str):
        inner = str
    return Column(name, _SCALARS.get(inner, "json"), nullable)
