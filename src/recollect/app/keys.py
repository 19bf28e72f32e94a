"""The master key that the settings name: a text, a file, a command that prints it, or a key service of a package."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pydantic import SecretStr

from recollect.app.plugins import Group, is_installed, made
from recollect.app.stores import file_of
from recollect.errors import InvalidSettings
from recollect.ports.keys import KeyService
from recollect.settings import Settings, secret

if TYPE_CHECKING:
    from recollect.adapters.encryption.master_key import MasterKey

PLUGINS: Group = "recollect.key_services"
_COMMAND_SECONDS = 30


def key_text(settings: Settings, prefix: str = "") -> str | None:
    """The master key; None where the settings name none. A file or command that gives none is an error.

    The prefix `previous_` is for the key before it.
    """
    names = [f"{prefix}{name}" for name in ("key", "key_file", "key_command", "key_service")]
    named = [name for name in names if getattr(settings, name, None) is not None]
    if len(named) > 1:
        raise InvalidSettings(f"both {named[0]} and {named[1]} are set", remedy="set only one of them")
    key, file, command = (getattr(settings, name) for name in names[:3])
    if key is not None:
        return _checked(key.get_secret_value(), f"the setting {names[0]}")
    if file is not None:
        return _checked(secret("", file), f"the key file '{file}'")
    return _checked(_printed(command), "the key command") if command is not None else None


def key_service(settings: Settings) -> KeyService | None:
    """What wraps data keys; None where nothing is to be encrypted."""
    from recollect.adapters.encryption.master_key import KeyAndPrevious, MasterKey

    current, previous = _current(settings), key_text(settings, "previous_")
    if previous is None:
        return current
    if current is None:
        raise InvalidSettings("previous_key is set, and key is not", remedy="set the key that replaces it as `key`")
    return KeyAndPrevious(current, MasterKey(previous))


def with_printed_keys(settings: Settings) -> Settings:
    """The same settings with what their key commands print, which may ask somebody: they are run once."""
    printed = {
        f"{prefix}{name}": SecretStr(key_text(settings, prefix) or "") if name == "key" else None
        for prefix in ("", "previous_")
        if getattr(settings, f"{prefix}key_command") is not None
        for name in ("key", "key_command")
    }
    return settings.model_copy(update=printed)


def _current(settings: Settings) -> KeyService | None:
    from recollect.adapters.encryption.master_key import MasterKey

    text = key_text(settings)
    if text is not None:
        return MasterKey(text)
    if settings.key_service is None:
        return None
    name, _, address = settings.key_service.partition(":")
    if not is_installed(PLUGINS, name):
        raise InvalidSettings(
            f"unknown key service '{name}'",
            remedy=f"install the package that adds it to {PLUGINS}, or set key_command to what fetches the key",
        )
    return cast(KeyService, made(PLUGINS, name, KeyService, address))


def file_key(settings: Settings) -> MasterKey | None:
    """What a store in a file is encrypted with; None where it is plain, and for stores elsewhere."""
    from recollect.adapters.encryption.master_key import MasterKey

    if file_of(settings.store) is None:
        return None
    if settings.key_service is not None:
        raise InvalidSettings(
            "a key service cannot encrypt a store in a file: its pages need the key itself",
            remedy="set key_command to a program that fetches the key from the service, or key or key_file",
        )
    text = key_text(settings)
    return MasterKey(text) if text is not None else None


def given_key(file: Path | None, command: str | None) -> MasterKey | None:
    """A key that a command names beside the one of the settings."""
    from recollect.adapters.encryption.master_key import MasterKey

    text = key_text(Settings(key_file=file, key_command=command))
    return MasterKey(text) if text is not None else None


def _checked(text: str | None, where: str) -> str:
    if not (text or "").strip():
        raise InvalidSettings(f"{where} is empty", remedy="make a key with `recollect encryption new-key`")
    return (text or "").strip()


def _printed(command: str) -> str:
    """What a command prints, such as that of a password manager; its arguments are given as they are, to no shell."""
    try:
        done = subprocess.run(
            shlex.split(command), stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMMAND_SECONDS, check=True
        )
        return done.stdout.decode()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        why = f"exit status {error.returncode}" if isinstance(error, subprocess.CalledProcessError) else "no answer"
        raise InvalidSettings(
            f"the key command failed: {why}", remedy="run it by hand; it must print the key and nothing else"
        ) from None
