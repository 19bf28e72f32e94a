"""The commands that are not operations of one open store: between two stores, or before there is one.

Each is a function of a request, like an operation but without the store, and one line in `commands.PROGRAMS`.
"""

from __future__ import annotations

from pydantic import Field

from recollect import app
from recollect.services.admin.copy import CopyReply
from recollect.services.admin.export import RestoreBackupReply
from recollect.services.admin.maintenance import Diagnosis
from recollect.services.memories.indexing import Progress
from recollect.services.requests import Request


class CopyRequest(Request):
    """Copy a store into another."""

    source: str = Field(description="The store to read: a file, an address, or a YAML settings file")
    target: str = Field(description="The store to write into")
    organizations: list[str] = Field(default_factory=list, description="Only this organization; by default all of them")


def copy(request: CopyRequest, progress: Progress | None = None) -> CopyReply:
    """Bring all that one store holds into another, of any kind, and prove that both hold the same.

    Run it again to go on where it stopped, or to bring over what changed since.
    """
    return app.copy(request.source, request.target, request.organizations, progress)


class RestoreBackupRequest(Request):
    """Create a store from a backup."""

    source: str = Field(description="The file that `recollect backup` wrote")
    target: str = Field(description="The path of a new file, or the address of an empty database")


def restore_backup(request: RestoreBackupRequest, progress: Progress | None = None) -> RestoreBackupReply:
    """Create a store from a backup, in an empty place, and check every record of it."""
    return app.restore_backup(request.source, request.target)


class ConfigCheckRequest(Request):
    """Check the settings."""

    settings: str | None = Field(
        None, description="The YAML file or store to check; by default what the environment names"
    )


def config_check(request: ConfigCheckRequest, progress: Progress | None = None) -> Diagnosis:
    """Try everything the settings name and say what is wrong and how to fix it; writes nothing."""
    findings = list(app.check_settings(request.settings))
    return Diagnosis(well=all(finding.well for finding in findings), findings=findings)
