"""Sessions and the messages exchanged in them."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from recollect.domain.record import Id, Json, JsonList, Moment, Name, Record, Reference, Shape, Text, TextIndex, Unique

Role = Literal["user", "assistant", "system", "tool"]


class Session(Record):
    shape: ClassVar[Shape] = Shape(
        "session",
        references={
            "organization_id": Reference("organization"),
            "project_id": Reference("project"),
            "user_id": Reference("user"),
            "agent_id": Reference("agent"),
        },
        indexes=(("user_id", "id"), ("project_id", "id"), ("agent_id", "id"), ("type", "id"), ("created_at",)),
        encrypted_texts=frozenset({"title", "summary"}),
    )

    project_id: Id | None = None
    user_id: Id | None = None
    agent_id: Id | None = None
    type: Name = "conversation"
    title: Text = ""
    metadata: Json = Field(default_factory=dict)
    summary: Text | None = None
    ended_at: Moment | None = None
    is_archived: bool = False
    cold_at: Moment | None = None
    """When its messages, memories and runs were moved to cold storage, if they were (domain/cold.py)."""
    extracted_to: Id | None = None
    """The last message that memories were extracted from (services/learning/extraction.py)."""


class Message(Record):
    shape: ClassVar[Shape] = Shape(
        "message",
        references={
            "organization_id": Reference("organization"),
            "session_id": Reference("session"),
            "user_id": Reference("user"),
            "agent_id": Reference("agent"),
        },
        unique=(Unique(("session_id", "otid")),),
        indexes=(("agent_id", "created_at"), ("agent_id", "id"), ("session_id", "id"), ("user_id", "id")),
        text=TextIndex(fields=("text", "name"), facets=("session_id", "user_id", "agent_id", "role")),
        encrypted_texts=frozenset({"text", "content", "tool_calls", "tool_returns"}),
    )

    session_id: Id | None = None
    user_id: Id | None = None
    agent_id: Id | None = None
    role: Role
    text: Text | None = None
    content: JsonList = Field(default_factory=list)
    model: Text | None = None
    name: Text | None = None
    tool_calls: JsonList = Field(default_factory=list)
    tool_call_id: Text | None = None
    tool_returns: JsonList = Field(default_factory=list)
    step_id: Text | None = None
    otid: Text | None = None
    group_id: Text | None = None
    sender_id: Text | None = None
    references: JsonList = Field(default_factory=list)
