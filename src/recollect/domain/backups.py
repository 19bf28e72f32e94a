"""The backups of a store: when each was made, where it is, and whether it was proven. Every organization has a record
of each backup that holds its data."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from recollect.domain.record import Json, Moment, Name, Record, Reference, Shape, Text


class Backup(Record):
    """A backup that was made, or that failed (`error`). The same id in every organization, and at the place."""

    shape: ClassVar[Shape] = Shape(
        "backup", references={"organization_id": Reference("organization")}, indexes=(("made_at",),)
    )

    place: Text
    """The address of the folder, bucket or file it is in."""
    kind: Literal["sqlite", "duckdb", "records", "file"]
    """A file of the store, its records, or a file of its own that the store's engine wrote."""
    made_at: Moment
    bytes: int = Field(default=0, ge=0)
    new_bytes: int = Field(default=0, ge=0)
    digest: Name | None = None
    is_encrypted: bool = False
    seconds: float = Field(default=0, ge=0)
    verified_at: Moment | None = None
    drilled_at: Moment | None = None
    drill: Json | None = None
    """What the last restore drill proved."""
    error: Text | None = None
