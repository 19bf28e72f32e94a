"""Who did what to which memory, when, and whether it worked. Holds ids and hashes, never stored text.

Entries are sealed in batches: a seal holds the hash of its entries and of the seal before it, so the seals are a chain.
Changing, deleting, inserting or swapping a sealed entry breaks its seal; taking seals off the end is seen by whoever
kept the last seal's hash elsewhere (an anchor).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from recollect.domain.record import Id, Json, Moment, Record, Reference, Shape, Text, Unique, now

AccessOperation = Literal["create", "read", "update", "delete", "search"]


class AccessLog(Record):
    shape: ClassVar[Shape] = Shape(
        "access_log",
        references={"organization_id": Reference("organization")},
        indexes=(
            ("memory_id",),
            ("session_id",),
            ("agent_id",),
            ("timestamp",),
            ("operation",),
            ("success",),
            ("seal",),
        ),
    )

    memory_id: Id | None = None
    session_id: Id | None = None
    agent_id: Id | None = None
    actor_id: Id | None = None
    operation: AccessOperation
    action: Text = ""
    timestamp: Moment = Field(default_factory=now)
    request_data: Json = Field(default_factory=dict)
    success: bool = True
    error_message: Text | None = None
    ip_address: Text | None = None
    seal: int | None = None


class Erasure(Record):
    """Something was deleted for good, and its traces on disk are still to be overwritten. Has the id of what it was."""

    shape: ClassVar[Shape] = Shape("erasure", references={"organization_id": Reference("organization")})


class Seal(Record):
    """The hash of a batch of entries of the access log and of the seal before."""

    shape: ClassVar[Shape] = Shape(
        "seal", references={"organization_id": Reference("organization")}, unique=(Unique(("number",)),)
    )

    number: int = Field(ge=1)
    previous: Text
    digest: Text
    entries: int = Field(ge=1)
