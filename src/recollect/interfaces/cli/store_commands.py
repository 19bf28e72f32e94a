"""The commands that are not operations of one open store: between two stores, or before there is one.

Each is a function of a request, like an operation but without the store, and one line in `commands.PROGRAMS`.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from recollect import app
from recollect.app import key_changes
from recollect.app.config_show import SettingsView
from recollect.app.key_changes import NewKey, StoreKey, make_key
from recollect.services.admin.copy import CopyReply
from recollect.services.admin.maintenance import Diagnosis
from recollect.services.backups.restored import RestoreBackupReply
from recollect.services.memories.indexing import Progress
from recollect.services.requests import Request

_WHICH = "The store, or a YAML file with settings; by default what the environment names"


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


class RestoreRequest(Request):
    """Create a store from a backup."""

    source: str = Field(description="A folder or an address with backups, or the file that `recollect backup` wrote")
    to: str | None = Field(
        None,
        description="The store to create: the path of a new file, or the address of an empty database; by default the "
        "store of the settings",
    )
    id: str | None = Field(None, description="Which of the backups; by default the newest")
    replace: bool = Field(False, description="Replace the store that is there; stop every process that uses it first")


def restore(request: RestoreRequest, progress: Progress | None = None) -> RestoreBackupReply:
    """Create a store from a backup, of the same or another kind, and check every record of it."""
    return app.restore(request.source, request.to, request.id, replace=request.replace, progress=progress)


class RestoreBackupRequest(Request):
    """Create a store from a backup."""

    source: str = Field(description="The file that `recollect backup` wrote")
    target: str = Field(description="The path of a new file, or the address of an empty database")


def restore_backup(request: RestoreBackupRequest, progress: Progress | None = None) -> RestoreBackupReply:
    """Create a store from a backup, in an empty place, and check every record of it."""
    return app.restore_backup(request.source, request.target)


class NewKeyRequest(Request):
    """Make a key to encrypt a store with."""

    file: Path | None = Field(None, description="Write it to this new file, which you alone can read")


def new_key(request: NewKeyRequest, progress: Progress | None = None) -> NewKey:
    """Make a random key to encrypt a store with. Keep it well: without it, nobody can read the store."""
    return make_key(request.file)


class CheckKeyRequest(Request):
    """Check the key of a store."""

    settings: str | None = Field(None, description=_WHICH)


def check_key(request: CheckKeyRequest, progress: Progress | None = None) -> StoreKey:
    """Whether a store is encrypted, and with the key that the settings name."""
    return key_changes.check_key(request.settings)


class SetKeyRequest(Request):
    """Encrypt a store, or change its key."""

    settings: str | None = Field(None, description=_WHICH)
    new_key_file: Path | None = Field(None, description="A file that holds the new key")
    new_key_command: str | None = Field(None, description="A command that prints the new key")


def set_key(request: SetKeyRequest, progress: Progress | None = None) -> StoreKey:
    """Encrypt a store in a file, or encrypt it with another key: it is written anew, and the old file is overwritten.

    Settings and environment name the present key. A store that is not encrypted yet gets the new key, or else theirs.
    """
    return key_changes.set_key(request.settings, request.new_key_file, request.new_key_command, progress)


class RemoveKeyRequest(Request):
    """Decrypt a store."""

    settings: str | None = Field(None, description=_WHICH)


def remove_key(request: RemoveKeyRequest, progress: Progress | None = None) -> StoreKey:
    """Decrypt a store in a file: from then on, whoever can read the file can read all that is in it."""
    return key_changes.remove_key(request.settings, progress)


class ConfigCheckRequest(Request):
    """Check the settings."""

    settings: str | None = Field(
        None, description="The YAML file, store or service to check; by default what a command would use here"
    )
    profile: str | None = Field(None, description="A profile of your own settings")


def config_check(request: ConfigCheckRequest, progress: Progress | None = None) -> Diagnosis:
    """Try everything the settings name and say what is wrong and how to fix it; writes nothing."""
    findings = list(app.check_settings(request.settings, request.profile))
    return Diagnosis(well=all(finding.well for finding in findings), findings=findings)


class ConfigShowRequest(Request):
    """Show the settings."""

    settings: str | None = Field(
        None, description="The YAML file, store or service to show them for; by default what a command would use here"
    )
    profile: str | None = Field(None, description="A profile of your own settings")


def config_show(request: ConfigShowRequest, progress: Progress | None = None) -> SettingsView:
    """Show which settings hold here, where each is from, and which files and profiles there are; opens nothing."""
    return app.show_settings(request.settings, request.profile)
