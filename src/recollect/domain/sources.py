"""Uploaded files, what is in them, outside databases, and the questions asked of them."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field as Having

from recollect.domain.record import Id, Json, JsonList, Name, Record, Reference, Shape, Text, TextIndex, Unique

SourceStatus = Literal["uploaded", "profiled", "failed"]
Verdict = Literal["unjudged", "right", "wrong"]

_TENANT = Reference("organization")


class Source(Record):
    shape: ClassVar[Shape] = Shape(
        "source",
        references={
            "organization_id": _TENANT,
            "project_id": Reference("project"),
            "user_id": Reference("user"),
        },
        indexes=(("project_id",), ("user_id",), ("content_hash",)),
        text=TextIndex(fields=("name", "description")),
    )

    project_id: Id | None = None
    user_id: Id | None = None
    name: Name
    description: Text = ""
    path: Text
    media_type: Text = "application/octet-stream"
    content_hash: Text
    size: int = Having(default=0, ge=0)
    status: SourceStatus = "uploaded"
    metadata: Json = Having(default_factory=dict)


class Table(Record):
    shape: ClassVar[Shape] = Shape(
        "table",
        references={"organization_id": _TENANT, "source_id": Reference("source")},
        unique=(Unique(("source_id", "name")),),
        text=TextIndex(fields=("name", "description")),
    )

    source_id: Id
    name: Name
    description: Text = ""
    row_count: int = Having(default=0, ge=0)
    metadata: Json = Having(default_factory=dict)


class Field(Record):
    shape: ClassVar[Shape] = Shape(
        "field",
        references={"organization_id": _TENANT, "table_id": Reference("table")},
        unique=(Unique(("table_id", "name")),),
        text=TextIndex(fields=("name", "description", "sample_text")),
    )

    table_id: Id
    name: Name
    description: Text = ""
    type: Text
    position: int = Having(default=0, ge=0)
    statistics: Json = Having(default_factory=dict)
    sample_values: JsonList = Having(default_factory=list)
    sample_text: Text = ""


class Connection(Record):
    """An outside database. Its secret is named here (an environment variable or file), never kept here."""

    shape: ClassVar[Shape] = Shape(
        "connection",
        references={"organization_id": _TENANT, "project_id": Reference("project")},
        unique=(Unique(("name",)),),
        indexes=(("project_id",),),
        encrypted=frozenset({"address"}),
    )

    project_id: Id | None = None
    name: Name
    engine: Name
    address: Text
    secret_name: Text | None = None
    options: Json = Having(default_factory=dict)


class QueryRun(Record):
    shape: ClassVar[Shape] = Shape(
        "query_run",
        references={
            "organization_id": _TENANT,
            "project_id": Reference("project"),
            "session_id": Reference("session", on_delete="clear"),
            "user_id": Reference("user"),
            "connection_id": Reference("connection", on_delete="clear"),
        },
        indexes=(("project_id", "id"), ("session_id",), ("user_id",), ("verdict",)),
        text=TextIndex(fields=("question",)),
    )

    project_id: Id | None = None
    session_id: Id | None = None
    user_id: Id | None = None
    connection_id: Id | None = None
    question: Text
    sql: Text
    source_ids: list[Id] = Having(default_factory=list)
    result_columns: JsonList = Having(default_factory=list)
    row_count: int = Having(default=0, ge=0)
    chart: Json | None = None
    error: Json | None = None
    verdict: Verdict = "unjudged"
    metadata: Json = Having(default_factory=dict)
