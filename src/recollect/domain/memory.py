"""Memory: the one record of what an agent saw, did, learned or was told, and what hangs on it.

Statuses are a ladder: a hypothesis becomes verified, then published; anything may be archived. What a memory says
at a moment of the past is read from its revisions: each holds the whole state before one change. `content_hash`
says what is remembered; `identity` also says whose and where, so an exact duplicate is one with the same identity.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from recollect.domain.kinds import TEXT_LIMIT
from recollect.domain.record import (
    Id,
    Json,
    Moment,
    Name,
    Record,
    Reference,
    Shape,
    Text,
    TextIndex,
    Unique,
)
from recollect.domain.text.json_writer import json_writer

Status = Literal["hypothesis", "verified", "published", "archived"]
MemoryScope = Literal["task", "project", "global"]
Change = Literal["revised", "promoted", "demoted", "archived", "forgotten", "restored", "superseded", "moved"]

TRANSITIONS: dict[str, frozenset[str]] = {
    "hypothesis": frozenset({"verified", "archived"}),
    "verified": frozenset({"published", "hypothesis", "archived"}),
    "published": frozenset({"verified", "hypothesis", "archived"}),
    "archived": frozenset({"hypothesis"}),
}
TRUSTED: frozenset[str] = frozenset({"verified", "published"})
LONG_TERM, SHORT_TERM = "long_term", "short_term"
RESERVED = "recollect:"
"""Namespaces that begin like this are not for memories."""
DATA = f"{RESERVED}data"
"""Where the tables and fields of sources are searched."""
MESSAGES = f"{RESERVED}messages"
"""Where messages are searched."""
EXTRACTED = "extracted"
"""True in the metadata of memories that were proposed from messages (services/learning/extraction.py)."""
UTTERANCES = frozenset({"conversation", "interaction"})


def standing_for(level: str) -> str:
    """The metadata of a summary that says it stands for a higher level, too: nothing else is there to be summed up."""
    return f"stands for {level}"


LINKS = ("user", "agent", "session", "project", "cycle")

Namespace = Annotated[Name, StringConstraints(pattern=r"^[^/]+$")]


def for_memories(namespace: str) -> str:
    if namespace.startswith(RESERVED):
        raise ValueError(f"namespaces that begin with '{RESERVED}' are reserved: choose another name")
    return namespace


MemoryNamespace = Annotated[Namespace, AfterValidator(for_memories)]
"""A namespace that a request may name."""
TagName = Annotated[Text, StringConstraints(min_length=1, max_length=64, strip_whitespace=True)]

_TENANT = Reference("organization")
_MEMORY = Reference("memory")
_OWNER = {
    "organization_id": _TENANT,
    "memory_id": Reference("memory", unless=("source_id", "message_id")),
    "source_id": Reference("source"),
    "message_id": Reference("message"),
}


class Memory(Record):
    shape: ClassVar[Shape] = Shape(
        "memory",
        references={
            "organization_id": _TENANT,
            "user_id": Reference("user"),
            "agent_id": Reference("agent"),
            "session_id": Reference("session", on_delete="clear"),
            "project_id": Reference("project", on_delete="clear"),
            "cycle_id": Reference("cycle", on_delete="clear"),
        },
        unique=(Unique(("idempotency_key",)),),
        indexes=(
            ("session_id", "occurred_at", "id"),
            ("user_id", "id"),
            ("agent_id", "id"),
            ("project_id", "id"),
            ("cycle_id",),
            ("kind", "id"),
            ("status", "id"),
            ("source_agent",),
            ("identity",),
            ("expires_at",),
            ("created_at",),
            ("occurred_at", "id"),
            ("priority", "id"),
        ),
        text=TextIndex(
            fields=("text", "author", "moment"),
            facets=(
                "user_id",
                "agent_id",
                "session_id",
                "project_id",
                "kind",
                "scope",
                "status",
                "namespaces",
            ),
        ),
        encrypted_texts=frozenset({"content", "text"}),
        encrypted_hashes=frozenset({"content_hash", "identity"}),
    )

    kind: Name = "fact"
    content: Json
    text: Annotated[Text, StringConstraints(min_length=1, max_length=TEXT_LIMIT)]
    content_hash: Text
    identity: Text
    metadata: Json = Field(default_factory=dict)
    scope: MemoryScope = "global"
    level: Name = "item"
    status: Status = "hypothesis"
    confidence: float = Field(default=0.5, ge=0.0, le=1.0)
    priority: int = Field(default=5, ge=1, le=10)
    importance: float = Field(default=0.0, ge=0.0)
    score: float | None = None
    access_count: int = Field(default=0, ge=0)
    last_accessed: Moment | None = None
    author: Text | None = None
    occurred_at: Moment
    moment: Text = ""
    valid_from: Moment | None = None
    valid_to: Moment | None = None
    expires_at: Moment | None = None
    namespaces: list[Namespace] = Field(default_factory=lambda: [LONG_TERM])
    source_agent: Text | None = None
    user_id: Id | None = None
    agent_id: Id | None = None
    session_id: Id | None = None
    project_id: Id | None = None
    cycle_id: Id | None = None
    idempotency_key: Id | None = None

    @model_validator(mode="after")
    def _valid_from_comes_first(self) -> Self:
        if self.valid_from and self.valid_to and self.valid_to < self.valid_from:
            raise ValueError("valid_to must not lie before valid_from")
        return self


class Tag(Record):
    shape: ClassVar[Shape] = Shape(
        "tag",
        references={"organization_id": _TENANT, "memory_id": _MEMORY},
        unique=(Unique(("memory_id", "tag")),),
        indexes=(("tag", "memory_id"),),
    )

    memory_id: Id
    tag: TagName


class Relationship(Record):
    shape: ClassVar[Shape] = Shape(
        "relationship",
        references={"organization_id": _TENANT, "source_id": _MEMORY, "target_id": _MEMORY},
        unique=(Unique(("source_id", "target_id", "type")),),
        indexes=(("target_id",), ("type",)),
    )

    source_id: Id
    target_id: Id
    type: Name
    metadata: Json = Field(default_factory=dict)


class Embedding(Record):
    """The vector of one passage of a memory in one namespace by one model: unit length, float16 little endian.

    Tables and fields of sources have vectors, too, and so have messages, each in a namespace of their own: then
    `source_id` or `message_id` is set, and `memory_id` is the key that an index knows them by (`owner_key`).

    Most memories are one passage; a long one has several, numbered by `part`, of the characters from `start` to `end`.
    Where these are empty the vector is `given` (it came with the memory, for all of it), or is from before passages:
    then it is of the beginning. It repeats the few fields of the memory that filter a search, so that an index can be
    made from it alone.
    """

    shape: ClassVar[Shape] = Shape(
        "embedding",
        references=_OWNER,
        unique=(Unique(("memory_id", "namespace", "model", "part")),),
        indexes=(("namespace", "model"), ("source_id",), ("message_id",)),
        encrypted_texts=frozenset({"text_hash"}),
    )

    memory_id: Id
    namespace: Namespace = LONG_TERM
    model: Name
    part: int = Field(default=0, ge=0)
    start: int | None = None
    end: int | None = None
    given: bool = False
    dimensions: int = Field(ge=1)
    vector: bytes
    tokens: bytes | None = None
    text_hash: Text
    facets: list[str | None] = Field(default_factory=list)
    source_id: Id | None = None
    message_id: Id | None = None

    @property
    def space(self) -> str:
        return space_name(self.namespace, self.model)


class Revision(Record):
    """The whole state of a memory before one change, and who changed it when and why.

    Of a message, too: then `message_id` is set, and `memory_id` is its `owner_key`.
    """

    shape: ClassVar[Shape] = Shape(
        "revision",
        references={
            "organization_id": _TENANT,
            "memory_id": Reference("memory", unless=("message_id",)),
            "message_id": Reference("message"),
        },
        unique=(Unique(("memory_id", "number")),),
        indexes=(("held_from",), ("held_to",), ("message_id",)),
        text=TextIndex(fields=("text",)),
        encrypted_texts=frozenset({"state", "text", "why"}),
    )

    memory_id: Id
    number: int = Field(ge=1)
    change: Change
    why: Text = ""
    because_of: Id | None = None
    """The memory that caused the change: its replacement, the one it was merged into, the one it rested on."""
    state: Json
    text: Text
    held_from: Moment
    held_to: Moment
    message_id: Id | None = None


class IndexTask(Record):
    """A memory (or message, table, field) that still has to be embedded: written with it, deleted when it is done."""

    shape: ClassVar[Shape] = Shape(
        "index_task",
        references=_OWNER,
        unique=(Unique(("memory_id", "namespace", "model")),),
        indexes=(("source_id",), ("message_id",)),
        encrypted_texts=frozenset({"problem"}),
    )

    memory_id: Id
    namespace: Name
    model: Name
    attempts: int = 0
    problem: Text = ""
    source_id: Id | None = None
    message_id: Id | None = None


def owner_key(record: Record) -> str:
    """What the vectors of a record are known by in an index: the id of a memory; others say what they are, too."""
    table = record.shape.table
    return record.id if table == "memory" else f"{table}:{record.id}"


def message_key(id: str) -> str:
    """The `owner_key` of a message."""
    return f"message:{id}"


def message_id(key: str) -> str:
    return key.removeprefix("message:")


def space_name(namespace: str, model: str) -> str:
    return f"{namespace}/{model}"


def canonical(value: object) -> bytes:
    """One byte string per JSON value, whatever the order of its keys."""
    try:
        return _canonical_text(value).encode()
    except RecursionError:
        return _CHECKED.encode(value).encode()  # it says so where a value holds itself


_canonical_text = json_writer(sort_keys=True)
_CHECKED = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def content_hash(kind: str, content: Mapping[str, object]) -> str:
    return "m1:" + hashlib.sha256(canonical([kind, content])).hexdigest()


def entity_key(name: str, *owners: str) -> str:
    """The idempotency key of an entity, so that there is one of each name; with `owners`, one of theirs."""
    return f"entity:{hashlib.sha256(chr(0).join((name, *owners)).encode()).hexdigest()[:40]}"


def identity_of(
    content_hash: str, owners: Mapping[str, str | None], said_at: datetime | None, lasting: Sequence[object]
) -> str:
    """What makes two memories the same: content, whose it is, who said it where, and when if that was told;
    also where it is searched and how long it holds, since one that ends sooner cannot stand for one that stays.
    """
    moments = [one.isoformat() if isinstance(one, datetime) else one for one in (said_at, *lasting)]
    return "i1:" + hashlib.sha256(canonical([content_hash, dict(owners), moments])).hexdigest()[:32]
