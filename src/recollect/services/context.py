"""What every service works with: the ports, bound together once by the composition root."""

from __future__ import annotations

import base64
import binascii
import random
import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.functional_validators import ModelWrapValidatorHandler
from pydantic_core import CoreSchema

from recollect.domain.audit import AccessLog, AccessOperation
from recollect.domain.kinds import describe
from recollect.domain.memory import Memory, Tag
from recollect.domain.provenance import Citation, World
from recollect.domain.record import Id, Record
from recollect.errors import InvalidInput, NotFound, RecollectError, VersionConflict
from recollect.ports.folders import Folders
from recollect.ports.models import Embedder, LanguageModel
from recollect.ports.records import Insert, Page, Query, RecordStore, Scope, Step, equal, revised
from recollect.ports.vectors import VectorStore
from recollect.services.access_journal import Journal, named
from recollect.services.keyed_hashes import Keyring
from recollect.services.request_limits import bounded
from recollect.services.times import reading_whose

R = TypeVar("R", bound=Record)
T = TypeVar("T")


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
    """What an operation is asked. Unknown fields are refused, so that a misspelt filter is never ignored.

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
    """What an operation answers."""

    model_config = ConfigDict(extra="forbid", defer_build=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class WorkspaceLimits:
    file_bytes: int = 100_000_000
    files: int = 200_000
    bytes: int = 10_000_000_000


@dataclass(frozen=True, slots=True)
class Core:
    """The first embedder serves recall; a second one, if any, is being moved to (see services/memories/indexing.py).

    Whoever reads much and computes takes the `turn` for it where one after the other is quicker for all: a thread that
    reads row by row gives the interpreter away with every row, and waits for those that rank. Eight recalls at once on
    SQLite answered half as many questions a second as one at a time.
    """

    store: RecordStore
    vectors: VectorStore
    embedders: tuple[Embedder, ...]
    world: Callable[[Scope, str | None], World]
    journal: Journal
    folders: Folders
    keyring: Keyring
    timezone: str = "UTC"
    late_interaction: bool = True
    access_log_days: int | None = None
    stale_seconds: float = 86_400.0
    """After how long what was found of a citation is looked at again."""
    restore_days: float = 30
    passages_at_once: int | None = None
    """How many passages one call has embedded while its caller waits; the vectors of longer ones are owed. The service
    sets it, which makes them afterwards; in process a call does all its work itself.
    """
    owns_store: bool = True
    """Whether closing closes the store, too; one that was handed in is its owner's to close."""
    workspaces: WorkspaceLimits = WorkspaceLimits()
    language_model: LanguageModel | None = None
    turn: AbstractContextManager[object] = field(default_factory=nullcontext)
    lengths: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """How long vectors given from outside are, by tenant, namespace and model, as far as it was looked up."""
    zones: dict[tuple[str, str], tuple[str | None, float]] = field(default_factory=dict)
    """The zones of users that were asked for lately, and until when they are believed; see services/times.py."""

    @property
    def embedder(self) -> Embedder | None:
        return self.embedders[0] if self.embedders else None


_SPOKEN = {"execution": "run"}


def load(core: Core, scope: Scope, record: type[R], id: str, *, deleted: bool = False, version: int | None = None) -> R:
    """The record, or NotFound; another tenant's looks exactly like one that is absent.

    With `version`, only as somebody saw it: VersionConflict if it was changed since.
    """
    found = core.store.get(scope, record, id, deleted=deleted)
    spoken = _SPOKEN.get(record.shape.table, record.shape.table.replace("_", " "))
    if found is None:
        raise NotFound(
            f"there is no {spoken} '{id[:80]}'",
            remedy="check the id; a forgotten one can be restored" if record is Memory else "check the id",
            id=id[:255],
        )
    if version is not None and version != found.version:
        raise VersionConflict(
            f"{spoken} '{id[:80]}' was changed by someone else",
            remedy="read it again and repeat the change",
            id=id[:255],
            expected=version,
        )
    return found


def logged(
    scope: Scope, operation: AccessOperation, action: str, memory: Memory | None = None, **request: Any
) -> Insert:
    """The audit entry of a change, to be written in the same transaction as the change itself.

    It is called by the operation that makes the change; `action` says what exactly was done (see journal.named).
    """
    about = named(action)
    told = {name: value for name, value in request.items() if value not in (None, "", [])}
    return Insert(
        AccessLog(
            organization_id=scope.organization_id,
            memory_id=memory.id if memory else None,
            session_id=(memory.session_id if memory else None) or about.get("session_id"),
            agent_id=(memory.agent_id if memory else None) or about.get("agent_id"),
            actor_id=scope.actor,
            operation=operation,
            action=about["action"],
            request_data={**about.get("request_data", {}), **told},
            ip_address=scope.address,
        )
    )


def commit(core: Core, scope: Scope, steps: Sequence[Step]) -> int:
    """Write the steps. What was read, is to be changed and is gone was deleted meanwhile: another look says so."""
    try:
        seq = core.store.transact(scope, steps).seq
    except NotFound as gone:
        raise VersionConflict(
            "somebody deleted what was to be changed", remedy="read it again", **gone.details
        ) from None
    core.vectors.hint(seq)
    return seq


def made(record: Any, tenant: Scope, /, **fields: Any) -> Any:
    """A validated record of the tenant, with a readable error instead of pydantic's."""
    audit = {"created_by": tenant.actor, "updated_by": tenant.actor}
    try:
        return record(organization_id=tenant.organization_id, **{**audit, **fields})
    except ValidationError as error:
        raise InvalidInput(f"that {record.shape.table} is not valid: {describe(error)}") from None


def as_of_version(record: R, version: int | None) -> R:
    """The record as the caller knows it: with another version than is stored, the store refuses its update."""
    known: R = record if version is None else record.changed(version=version)
    return known


def persistently(version: int | None, attempt: Callable[[], T]) -> T:
    """Read, change and write again for as long as others are quicker, unless the caller insists on a version."""
    return attempt() if version is not None else insistently(attempt, VersionConflict)


def insistently(attempt: Callable[[], T], *failures: type[RecollectError], tries: int = 100) -> T:
    """Again when it fails in a way that looking afresh may mend; what still fails then is raised.

    Waits a little longer each time, by chance, so that those who were in each other's way do not meet again.
    """
    for number in range(tries):
        try:
            return attempt()
        except failures:
            time.sleep(random.uniform(0, 0.001 * 2 ** min(number, 6)))
    return attempt()


def rewritten(record: R, scope: Scope, **fields: Any) -> R:
    """A changed copy to be written, with a readable error instead of pydantic's."""
    try:
        return revised(record, scope, **fields)
    except ValidationError as error:
        raise InvalidInput(f"that {record.shape.table} is not valid: {describe(error)}") from None


def counted_page(core: Core, scope: Scope, query: Query[R]) -> tuple[Page[R], int]:
    """A page, and how many there are on all of them: counted with the first, and carried along in the cursor."""
    after, _, carried = (query.after or "").partition("~")
    page = core.store.find(scope, replace(query, after=after or None))
    if re.fullmatch("[0-9]{1,18}", carried):
        total = int(carried)
    elif page.next is None and not after:
        total = len(page.records)
    else:
        total = core.store.count(scope, query)
    return replace(page, next=page.next and f"{page.next}~{total}"), total


def citations_of(core: Core, scope: Scope, memory_id: str) -> list[Citation]:
    return core.store.find(scope, Query(Citation, (equal("memory_id", memory_id),))).records


def tags_of(core: Core, scope: Scope, memory_id: str) -> list[str]:
    return sorted(tag for (tag,) in core.store.select(scope, Query(Tag, (equal("memory_id", memory_id),)), ("tag",)))


_ID: TypeAdapter[str] = TypeAdapter(Id)


def checked_id(given: str, what: str) -> str:
    try:
        return _ID.validate_python(given)
    except ValidationError as error:
        raise InvalidInput(f"that {what} is not valid: {describe(error)}", remedy="give 1 to 255 characters") from None


# Never even hashed: who has the log could try out guesses.
_SECRET = frozenset({"password", "new_password", "key", "secret", "token"})


# As we make them. Ids that users choose may be any text, and what was refused may never have been one.
_OUR_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")


def sanitized(request: Request, *, refused: bool = False) -> dict[str, Any]:
    """What was asked, for the log: ids, numbers and choices as they are, of everything else a hash and a size.

    Of what was `refused`, only ids of our own making are kept: whatever else stands in the place of one may be text.
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
    """An id or one of a list of words, not text of a user's."""
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
