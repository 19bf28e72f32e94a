"""Cold storage: old sessions whose records were moved out of the store into files.

The session stays, and says since when it is cold. Its archive says where the files are; the index has one small row for
each record that others look up by its id, so that they are told where it is instead of that it does not exist. Links
between a memory that was moved and one that was not are stored here until both are back.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from recollect.domain.record import Id, Json, JsonList, Moment, Name, Record, Reference, Shape, Text

ArchiveStatus = Literal["writing", "stored"]
COLD_FORMAT = "recollect-cold-1"

_TENANT = Reference("organization")
_ARCHIVE = Reference("cold_archive")


class ColdArchive(Record):
    """The files of one session in cold storage; its id is the session's.

    `address` is empty where they are among the store's own large content, `place` is what they lie under. Without a
    session, its files are still to be deleted: the session was restored or deleted, or the writing was not finished.
    """

    shape: ClassVar[Shape] = Shape(
        "cold_archive",
        references={"organization_id": _TENANT, "session_id": Reference("session", on_delete="clear")},
        indexes=(("session_id",), ("digest",), ("manifest",), ("last_at",)),
    )

    session_id: Id | None = None
    status: ArchiveStatus = "writing"
    address: Text | None = None
    place: Text
    digest: Text
    manifest: Text
    bytes: int = Field(ge=0)
    counts: Json = Field(default_factory=dict)
    first_at: Moment | None = None
    last_at: Moment | None = None
    memory_groups: JsonList = Field(default_factory=list)
    """The oldest memory by kind, level, project and whether it was forgotten: retention goes by it."""
    user_ids: list[Id] = Field(default_factory=list)
    agent_ids: list[Id] = Field(default_factory=list)
    project_ids: list[Id] = Field(default_factory=list)
    cycle_marks: JsonList = Field(default_factory=list)
    """Empty cycles that hold the numbers of those that were moved, so that no other gets them."""


class ColdRecord(Record):
    """Which archive a record was moved to. For an entry of the access log also its seal and its hash, so that the log
    can be verified without it.
    """

    shape: ClassVar[Shape] = Shape(
        "cold_record",
        references={"organization_id": _TENANT, "archive_id": _ARCHIVE},
        indexes=(("archive_id",), ("record_id",), ("seal",)),
        leaves_trace=False,
    )

    archive_id: Id
    record_table: Name
    record_id: Id
    seal: int | None = None
    digest: Text | None = None


class ColdLink(Record):
    """A link between two memories of which at least one is in cold storage: each end is a memory or in an archive."""

    shape: ClassVar[Shape] = Shape(
        "cold_link",
        references={
            "organization_id": _TENANT,
            "source_memory_id": Reference("memory"),
            "target_memory_id": Reference("memory"),
            "source_archive_id": _ARCHIVE,
            "target_archive_id": _ARCHIVE,
        },
        indexes=(("source_memory_id",), ("target_memory_id",), ("source_archive_id",), ("target_archive_id",)),
        leaves_trace=False,
    )

    source_memory_id: Id | None = None
    target_memory_id: Id | None = None
    source_archive_id: Id | None = None
    target_archive_id: Id | None = None
    link: Json
    """The whole relationship, as it was."""
