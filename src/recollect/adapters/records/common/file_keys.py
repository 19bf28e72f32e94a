"""What is said when the key of an encrypted store in a file is missing, wrong, or given for a plain one."""

from __future__ import annotations

from pathlib import Path

from recollect.errors import WrongKey

_SETTINGS = "`key`, `key_file` or `key_command` ($RECOLLECT_KEY, $RECOLLECT_KEY_FILE, $RECOLLECT_KEY_COMMAND)"


def no_key(path: Path) -> WrongKey:
    return WrongKey(f"'{path.name}' is encrypted, and no key was given", remedy=f"set {_SETTINGS}")


def wrong_key(path: Path) -> WrongKey:
    return WrongKey(
        f"'{path.name}' is encrypted with another key; nothing was changed",
        remedy=f"give the key that it was encrypted with, as {_SETTINGS}",
    )


def not_encrypted(path: Path) -> WrongKey:
    return WrongKey(
        f"a key was given, but '{path.name}' is not encrypted",
        remedy="encrypt it with `recollect encryption set`, or open it without a key",
    )
