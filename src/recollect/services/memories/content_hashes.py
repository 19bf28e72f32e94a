"""What is shown is compared with its hash: the second line behind the store's own checksums.

A store may serve a byte that changed beneath it (SQLite does not check its log while it is in use, DuckDB and DynamoDB
are as good as what they stand on). So whatever shows a memory asks here first; a few hashes take some microseconds.
Who asks for one memory is told that it is damaged; among others it is left out and named, so that one damaged memory
does not keep all others from being found.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from recollect.domain import kinds
from recollect.domain.kinds import KINDS, read_content
from recollect.domain.memory import Memory, Revision, content_hash
from recollect.domain.record import Json, Record
from recollect.errors import DamagedData, InvalidInput


class HashedContent(Protocol):
    """What of a memory its hash is compared with."""

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def content(self) -> Json: ...
    @property
    def text(self) -> str: ...
    @property
    def content_hash(self) -> str: ...


class _FormerState(NamedTuple):
    id: str
    kind: str
    content: Json
    text: str
    content_hash: str


def intact(memory: Memory) -> Memory:
    """The memory, if it reads as it was written."""
    _check(memory)
    return memory


def check_revision(revision: Revision) -> Revision:
    """The same for a former state."""
    _check(_former(revision))
    return revision


def left_out_note(memory: HashedContent) -> str | None:
    """What is said of a damaged memory where others are shown; None if it reads as it was written."""
    what = _difference(memory)
    return _left_out(memory.id, what) if what else None


def unreadable_note(id: str) -> str:
    """What is said of a memory that the store has and cannot read."""
    return _left_out(id, "it cannot be read")


def _left_out(id: str, what: str) -> str:
    return f"memory '{id}' is damaged and left out ({what}): run `recollect verify`"


def _check(memory: HashedContent) -> None:
    """DamagedData unless content and text are what the hash was made of."""
    what = _difference(memory)
    if what:
        raise DamagedData(
            f"memory '{memory.id}' is damaged: {what}",
            remedy="run `recollect verify` to see what else is hit, then restore a backup, or erase the memory",
            id=memory.id,
        )


def _former(revision: Revision) -> _FormerState:
    state = revision.state
    return _FormerState(revision.memory_id, state["kind"], state["content"], revision.text, state["content_hash"])


def difference(record: Record) -> str:
    """What is wrong with a memory or a former state of one; nothing if it reads as it was written, or is neither."""
    try:
        if isinstance(record, Memory):
            return _difference(record)
        if isinstance(record, Revision) and record.message_id is None:
            return _difference(_former(record))
        return ""
    except (KeyError, TypeError, ValueError):
        return "it is not a state of a memory"


def _difference(memory: HashedContent) -> str:
    if content_hash(memory.kind, memory.content) != memory.content_hash:
        return "its content does not match its hash"
    return "its text does not match its content" if _text_differs(memory) else ""


def _text_differs(memory: HashedContent) -> bool:
    """Only for kinds whose wording is ours: how users' own ones read may change with their program."""
    content, shape = memory.content, KINDS.get(memory.kind)
    if shape is None or shape.__module__ != kinds.__name__:
        return False
    if set(content) == {"text"} and str(content["text"]).strip() == memory.text:
        return False
    try:
        return bool(read_content(memory.kind, content)[1] != memory.text)
    except InvalidInput:  # the hash holds, so it was written so: by a program with another idea of this kind
        return False
