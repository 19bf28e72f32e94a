"""The reply to a restore, which works without an open store (app/store_restore.py)."""

from __future__ import annotations

from pydantic import Field

from recollect.services.requests import Reply


class RestoreBackupReply(Reply):
    """Where the store is now, and how many memories it has in all organizations together."""

    store: str
    memories: int
    notes: list[str] = Field(default_factory=list)
