"""Who did what to which memory, when, and whether it worked. Holds ids and hashes, never stored text."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from recollect.domain.record import Id, Json, Moment, Record, Reference, Shape, Text, now

AccessOperation = Literal["create", "read", "update", "delete", "search"]


class AccessLog(Record):
    shape: ClassVar[Shape] = Shape(
        "access_log",
        references={"organization_id": Reference("organization")},
        indexes=(("memory_id",), ("session_id",), ("agent_id",), ("timestamp",), ("operation",), ("success",)),
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
