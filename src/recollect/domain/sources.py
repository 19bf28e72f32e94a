"""Uploaded files, what is in them, outside databases, and the questions asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field as Having

from recollect.domain.record import (
    Id,
    Json,
    JsonList,
    Moment,
    Name,
    Record,
    Reference,
    Shape,
    Text,
    TextIndex,
    Unique,
    clipped,
)
from recollect.domain.text.names import in_words

SourceStatus = Literal["uploaded", "profiled", "failed"]
ProfileExtent = Literal["none", "sample", "whole"]
"""How much of a table its profile rests on."""
ObjectPurpose = Literal["upload", "table", "values"]
RunStatus = Literal["done", "failed", "cancelled"]
Verdict = Literal["unjudged", "right", "wrong"]

_TENANT = Reference("organization")


class Source(Record):
    """A file, a data frame or an outside database that questions can be asked of; `revision` counts its versions."""

    shape: ClassVar[Shape] = Shape(
        "source",
        references={
            "organization_id": _TENANT,
            "project_id": Reference("project"),
            "user_id": Reference("user"),
            "connection_id": Reference("connection"),
        },
        indexes=(("project_id",), ("user_id",), ("content_hash",), ("connection_id",), ("name",)),
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
    connection_id: Id | None = None
    format: Text = ""
    revision: int = Having(default=1, ge=1)


class SourceVersion(Record):
    """One state of a source: the hash of its bytes, its tables then, and what changed in their columns."""

    shape: ClassVar[Shape] = Shape(
        "source_version",
        references={"organization_id": _TENANT, "source_id": Reference("source")},
        unique=(Unique(("source_id", "number")),),
        indexes=(("content_hash",),),
    )

    source_id: Id
    number: int = Having(ge=1)
    content_hash: Text
    size: int = Having(default=0, ge=0)
    media_type: Text = "application/octet-stream"
    format: Text = ""
    path: Text = ""
    tables: JsonList = Having(default_factory=list)
    changes: JsonList = Having(default_factory=list)


class StoredObject(Record):
    """Large content that a source needs, by its digest. Several records may need the same bytes."""

    shape: ClassVar[Shape] = Shape(
        "object",
        references={"organization_id": _TENANT, "source_id": Reference("source")},
        unique=(Unique(("source_id", "digest", "purpose")),),
        indexes=(("digest",),),
    )

    source_id: Id
    digest: Text
    size: int = Having(default=0, ge=0)
    media_type: Text = "application/octet-stream"
    purpose: ObjectPurpose = "upload"


class Table(Record):
    """A table of a source: where its rows are (`digest`, a Parquet object), and what its profile says of it."""

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
    digest: Text | None = None
    values_digest: Text | None = None
    """The object with the values of its text columns, which value search reads."""
    size: int = Having(default=0, ge=0)
    rejected_count: int = Having(default=0, ge=0)
    rejected: JsonList = Having(default_factory=list)
    profiled: ProfileExtent = "none"
    fingerprint: Text = ""
    """Of its columns and their types: a query that fitted them fits them still."""
    joins: JsonList = Having(default_factory=list)


class Field(Record):
    """A column of a table."""

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
    meaning: Text = ""


class Connection(Record):
    """An outside database. Its secret is named here (an environment variable or file), never kept here."""

    shape: ClassVar[Shape] = Shape(
        "connection",
        references={"organization_id": _TENANT, "project_id": Reference("project")},
        unique=(Unique(("name",)),),
        indexes=(("project_id",),),
        encrypted=frozenset({"address", "options"}),
    )

    project_id: Id | None = None
    name: Name
    engine: Name
    address: Text
    secret_name: Text | None = None
    options: Json = Having(default_factory=dict)
    facts: Json = Having(default_factory=dict)
    """What the last check found: the server, its version, whether it lets us only read."""
    problem: Text = ""
    checked_at: Moment | None = None


class QueryRun(Record):
    """A statement that was run, for whom, on which state of which sources, and what came of it."""

    shape: ClassVar[Shape] = Shape(
        "query_run",
        references={
            "organization_id": _TENANT,
            "project_id": Reference("project"),
            "session_id": Reference("session", on_delete="clear"),
            "user_id": Reference("user"),
            "agent_id": Reference("agent"),
            "connection_id": Reference("connection", on_delete="clear"),
        },
        indexes=(("project_id", "id"), ("session_id",), ("user_id",), ("agent_id",), ("verdict",)),
        text=TextIndex(fields=("question",)),
        encrypted_texts=frozenset(
            {"question", "sql", "result_columns", "chart", "error", "rows", "plan", "reading", "notes"}
        ),
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
    agent_id: Id | None = None
    previous_id: Id | None = None
    """The run that this one followed up ("and by month?")."""
    pattern_id: Id | None = None
    """The query pattern (a memory) that it made or moved; it may be gone."""
    status: RunStatus = "done"
    states: Json = Having(default_factory=dict)
    """The sources it read, by id: their name, revision and content hash then."""
    result_hash: Text | None = None
    rows: JsonList = Having(default_factory=list)
    """The first rows of the result."""
    is_cut: bool = False
    plan: Json | None = None
    """How the question was read, so that it can be changed, followed up and bound to other values."""
    reading: JsonList = Having(default_factory=list)
    confidence: float | None = None
    is_draft: bool = False
    fingerprint: Text = ""
    notes: JsonList = Having(default_factory=list)


# --- Texts that tables and fields are found by --------------------------------------------------------------

_COLUMNS_TEXT = 1500  # characters of the names of columns: wide tables are found by their fields
_SAMPLES = 5
_SAMPLE_TEXT = 40


def table_text(table: Table, columns: Sequence[str]) -> str:
    """What the vector of a table is made of: its name, description and columns."""
    described = f": {table.description}" if table.description else ""
    listed = clipped(", ".join(in_words(name) for name in columns), _COLUMNS_TEXT)
    return f"{in_words(table.name) or table.name}{described}" + (f". Columns: {listed}" if listed else "")


def field_text(field: Field, table: str) -> str:
    """What the vector of a field is made of: its name, table, description, meaning and some values."""
    described = f": {field.description}" if field.description else ""
    meaning = f" ({field.meaning})" if field.meaning else ""
    samples = ", ".join(clipped(str(value), _SAMPLE_TEXT) for value in field.sample_values[:_SAMPLES])
    named = f"{in_words(field.name) or field.name} of {in_words(table) or table}"
    return f"{named}{meaning}{described}" + (f". For example {samples}" if samples else "")


def sample_text(name: str, values: Sequence[object]) -> str:
    """What full text finds a field by, beside its name: the words of the name, and some values."""
    return " ".join([in_words(name), *(clipped(str(value), _SAMPLE_TEXT) for value in values if value is not None)])
