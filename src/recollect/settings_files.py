"""The settings files that are found without being named: one of the project, and one of the user.

Promise: a file that came with a project cannot make a program run commands, read secrets of the environment or send a
key to a host that the user did not name. So a project's file may only say which store it means, a file or a service
that the user has a profile for, or which profile, and little else. The user's own file may say everything; as soon as
there is a key in it, nobody else may be able to read it.
Shape: `recollect.yaml` in the current folder or one above it, up to the home directory; `config.yaml` in the user's
folder for settings, with `profiles`, each of which is settings under a name.
Proof: `tests/app/test_settings_files.py`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recollect.errors import InvalidSettings

PROJECT_FILE = "recollect.yaml"
USER_FILE = "config.yaml"
Values = dict[str, Any]
OF_A_PROJECT = frozenset({"store", "profile", "organization", "actor", "timezone"})
"""What a file that was found in a project may set."""
_LOCAL = ("sqlite://", "duckdb://")
_SERVICES = ("https://", "http://")


@dataclass(frozen=True)
class FoundFile:
    path: Path
    values: Values = field(default_factory=dict)
    ignored: str = ""
    """Why nothing of it counts."""


def is_service(address: str) -> bool:
    """Whether an address is one of a Recollect service, and not of a store."""
    return address.startswith(_SERVICES)


def user_file() -> Path:
    """Where the settings of the user are, if there are any."""
    named = os.environ.get("XDG_CONFIG_HOME") or (os.environ.get("APPDATA") if os.name == "nt" else None)
    folder = Path(named) if named and Path(named).is_absolute() else home() / ".config"
    return folder / "recollect" / USER_FILE


def home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user without one
        return Path("/")


def of_user() -> FoundFile | None:
    path = user_file()
    if not path.is_file():
        return None
    values = read_yaml(path)
    if _has_key(values) and (others := _readable_by_others(path)):
        raise InvalidSettings(f"'{path}' holds a key, and {others}", remedy=f"chmod 600 '{path}'")
    return FoundFile(path, values)


def _has_key(values: object) -> bool:
    if isinstance(values, Mapping):
        written = (name in ("key", "api_key") and inner and "${" not in str(inner) for name, inner in values.items())
        return any(written) or any(map(_has_key, values.values()))
    return isinstance(values, list) and any(map(_has_key, values))


def _readable_by_others(path: Path) -> str:
    if os.name == "nt":  # there the folder of a user is theirs alone
        return ""
    mode = stat.S_IMODE(path.stat().st_mode)
    return f"others may read it (its mode is {mode:o})" if mode & 0o077 else ""


def refuse_readable_key(path: Path, values: Values) -> None:
    """For a file that was named: a key of a service in it is as secret as in the user's own."""
    if values.get("api_key") and "${" not in str(values["api_key"]) and (others := _readable_by_others(path)):
        raise InvalidSettings(f"'{path}' holds a key, and {others}", remedy=f"chmod 600 '{path}'")


def of_project() -> FoundFile | None:
    """The nearest one, from the current folder upwards to the home directory, or to the top outside of it."""
    for folder in _upwards():
        path = folder / PROJECT_FILE
        if path.is_file():
            ignored = _not_ours(path)
            return FoundFile(path, ignored=ignored) if ignored else FoundFile(path, _of_a_project(path))
    return None


def _upwards() -> Iterator[Path]:
    try:
        folder = Path.cwd()
    except OSError:  # it was deleted
        return
    yield folder
    while folder not in (home(), folder.parent):
        folder = folder.parent
        yield folder


def _not_ours(path: Path) -> str:
    """Why somebody else may have written it: whoever may write in a folder above could choose the store of others."""
    if not hasattr(os, "getuid"):
        return ""
    there = path.stat()
    if there.st_uid not in (os.getuid(), 0):
        return "it belongs to another user"
    return "everybody may write to it" if there.st_mode & stat.S_IWOTH else ""


def _of_a_project(path: Path) -> Values:
    values = read_yaml(path)
    remedy = f"name the file (--store {path.name}, RECOLLECT_CONFIG), or put it in a profile in '{user_file()}'"
    if more := sorted(set(values) - OF_A_PROJECT):
        allowed = ", ".join(sorted(OF_A_PROJECT))
        raise InvalidSettings(
            f"'{path}' was found by itself, and such a file may not set {', '.join(map(str, more))}: only {allowed}",
            remedy=remedy,
        )
    if taken := [name for name, value in values.items() if "${" in str(value)]:
        raise InvalidSettings(f"'{path}' was found by itself, and may not use ${{…}} in {taken[0]}", remedy=remedy)
    if "store" in values and "profile" in values:
        raise InvalidSettings(f"'{path}' names a store and a profile", remedy="leave one of them out")
    store = str(values.get("store", ""))
    if "://" in store and not store.startswith((*_LOCAL, *_SERVICES)):
        raise InvalidSettings(
            f"'{path}' was found by itself, and may name a file, or a service that you have a profile for",
            remedy=remedy,
        )
    return values


def read_yaml(path: Path) -> Values:
    import yaml  # only those who have a file wait for its parser

    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSettings(f"cannot read '{path}': {error.strerror}", remedy="give an existing file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise InvalidSettings(f"'{path}' is not valid YAML{where}", remedy="see docs/reference/settings.md") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InvalidSettings(f"'{path}' contains no settings", remedy="write them as `name: value` lines")
    return values


def profiles_of(found: FoundFile | None) -> dict[str, Values]:
    """The profiles of the user, by name."""
    given = found.values.get("profiles") if found is not None else None
    if found is None or given is None:
        return {}
    if not isinstance(given, dict) or not all(isinstance(one, dict) for one in given.values()):
        raise InvalidSettings(
            f"'profiles' in '{found.path}' must have settings under names",
            remedy="write `profiles: {team: {store: https://…, api_key_file: …}}`, on lines of their own",
        )
    return {str(name): dict(values) for name, values in given.items()}


def profile_named(name: str, found: FoundFile | None) -> Values:
    known = profiles_of(found)
    if name in known:
        return known[name]
    there = f"there are {', '.join(known)}" if known else "there are none yet"
    raise InvalidSettings(f"there is no profile '{name}'", remedy=f"{there}; they stand in '{user_file()}'")


def profile_of(address: str, found: FoundFile | None) -> Values | None:
    """The profile of the service at this address: its key may be sent there."""
    wanted = address.rstrip("/")
    alike = (one for one in profiles_of(found).values() if str(one.get("store", "")).rstrip("/") == wanted)
    return next((one for one in alike if one.get("api_key") or one.get("api_key_file")), None)
