"""The saved states of programs that run in steps, such as graphs: checkpoints, and the values they share.

A line is the checkpoints of one thread in one namespace. Each value is stored once: large values and the members of
lists are items of a stream that only grows, and a checkpoint says which ranges (`spans`) of which streams it uses. So a
list that grows by two costs two items, not the whole list again.

Identity is derived: the id of each record is a digest of what makes it unique, so a second write of the same
checkpoint, run of items or task finds the first. Nothing here leaves a tombstone: checkpoints come and go with every
step, and no index is derived from them.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, StringConstraints

from recollect.domain.record import (
    Id,
    Json,
    JsonList,
    Moment,
    Record,
    Reference,
    Shape,
    Text,
    Unique,
    derived_id,
    now,
    storable,
)

LONGEST_NAME = 1000
ThreadName = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME), AfterValidator(storable)]
NamespaceName = Annotated[str, StringConstraints(max_length=LONGEST_NAME), AfterValidator(storable)]

_OF_LINE = {"organization_id": Reference("organization"), "line_id": Reference("checkpoint_line")}


def line_id(thread: str, namespace: str) -> str:
    return derived_id("line", thread, namespace)


def checkpoint_key(line: str, id: str) -> str:
    return derived_id("checkpoint", line, id)


class CheckpointLine(Record):
    """All checkpoints of one thread in one namespace hang on it; deleting it deletes them.

    Whoever puts or deletes on the line writes this record, too, so its version shows concurrent writes; the first
    version is random, so that a line that was deleted and created again is not taken for the one before. `ends` are the
    numbers that the next items of each stream will get: a number is given once, even if its item is deleted. `small`
    counts the runs added to each stream since it was last checked whether there are enough to merge. `last_id` is the
    checkpoint that was put last, while it exists, and `last_spans` the items it uses: nearly always the next one shares
    them. `unlooked` and `looked_at` say how many were put since retention was last applied, and when that was.
    """

    shape: ClassVar[Shape] = Shape(
        "checkpoint_line",
        references={"organization_id": Reference("organization")},
        unique=(Unique(("thread", "namespace")),),
        leaves_trace=False,
    )

    thread: ThreadName
    namespace: NamespaceName = ""
    ends: Json = Field(default_factory=dict)
    small: Json = Field(default_factory=dict)
    last_id: Id | None = None
    last_spans: Json = Field(default_factory=dict)
    unlooked: int = 0
    looked_at: Moment = Field(default_factory=now)


class Checkpoint(Record):
    """One saved state. `body` is the maker's own; `lacks` names what can be rebuilt only from its ancestors."""

    shape: ClassVar[Shape] = Shape(
        "checkpoint",
        references=_OF_LINE,
        indexes=(("line_id", "checkpoint_id"), ("run_id",)),
        encrypted=frozenset({"body"}),
        leaves_trace=False,
    )

    line_id: Id
    checkpoint_id: Id
    parent_id: Id | None = None
    run_id: Text | None = None
    metadata: Json = Field(default_factory=dict)
    spans: Json = Field(default_factory=dict)
    starts: Json = Field(default_factory=dict)
    lacks: JsonList = Field(default_factory=list)
    body: bytes = b""


class CheckpointItems(Record):
    """A run of neighbouring items of a stream: those from `start` up to, not including, `end`."""

    shape: ClassVar[Shape] = Shape(
        "checkpoint_items",
        references=_OF_LINE,
        indexes=(("line_id", "stream", "start"),),
        encrypted=frozenset({"data"}),
        leaves_trace=False,
    )

    line_id: Id
    stream: NamespaceName
    start: int = Field(ge=0)
    end: int = Field(ge=1)
    data: bytes


class CheckpointWrites(Record):
    """What one task wrote towards the next checkpoint: `slots` are (place, channel), `data` their values."""

    shape: ClassVar[Shape] = Shape(
        "checkpoint_writes",
        references=_OF_LINE,
        indexes=(("line_id", "checkpoint_id"),),
        encrypted=frozenset({"data"}),
        leaves_trace=False,
    )

    line_id: Id
    checkpoint_id: Id
    task_id: Text
    task_path: Text = ""
    slots: JsonList
    data: bytes
