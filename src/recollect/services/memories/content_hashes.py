"""What is shown is compared with its hash: the second line behind the store's own checksums.

A store may serve a byte that changed beneath it (SQLite does not check its log while it is in use, DuckDB and DynamoDB
are as good as what they stand on). So whatever shows a memory asks here first; a few hashes take some microseconds.
Who asks for one memory is told that it is damaged; among others it is left out and named, so that one damaged memory
does not keep all others from being found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recollect.domain import kinds
from recollect.domain.kinds import KINDS, read_content
from recollect.domain.memory import Memory, Revision, content_hash
from recollect.domain.record import Record
from recollect.errors import DamagedData, InvalidInput


def intact(memory: Memory) -> Memory:
    """The memory, if it reads as it was written."""
    check_fields(memory.__dict__)
    return memory


def left_out_note(fields: Mapping[str, Any]) -> str | None:
    """What is said of a damaged memory where others are shown; None if it reads as it was written."""
    what = _difference(fields)
    return f"memory '{fields['id']}' is damaged and left out ({what}): run `recollect verify`" if what else None


def check_fields(fields: Mapping[str, Any]) -> None:
    """DamagedData unless content and text are what the hash was made of."""
    what = _difference(fields)
    if what:
        raise DamagedData(
            f"memory '{fields['id']}' is damaged: {what}",
            remedy="run `recollect verify` to see what else is hit, then restore a backup, or erase the memory",
            id=fields["id"],
        )


def check_revision(revision: Revision) -> Revision:
    """The same for a former state."""
    check_fields({**revision.state, "text": revision.text, "id": revision.memory_id})
    return revision


def difference(record: Record) -> str:
    """What is wrong with a memory or a former state of one; nothing if it reads as it was written, or is neither."""
    try:
        if isinstance(record, Memory):
            return _difference(record.__dict__)
        return _difference({**record.state, "text": record.text}) if isinstance(record, Revision) else ""
    except (KeyError, TypeError, ValueError):
        return "it is not a state of a memory"


def _difference(fields: Mapping[str, Any]) -> str:
    if content_hash(fields["kind"], fields["content"]) != fields["content_hash"]:
        return "its content is not what its hash says"
    return "its text is not what its content says" if _text_differs(fields) else ""


def _text_differs(fields: Mapping[str, Any]) -> bool:
    """Only for kinds whose wording is ours: how users' own ones read may change with their program."""
    content, shape = fields["content"], KINDS.get(fields["kind"])
    if shape is None or shape.__module__ != kinds.__name__:
        return False
    if set(content) == {"text"} and str(content["text"]).strip() == fields["text"]:
        return False
    try:
        return bool(read_content(fields["kind"], content)[1] != fields["text"])
    except InvalidInput:  # the hash holds, so it was written so: by a program with another idea of this kind
        return False
