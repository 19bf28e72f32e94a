"""Stores, vector indexes and models that other packages add.

A package names them as entry points in one of the groups of `Group`: a store by the scheme of its addresses, anything
else by the name of its provider in the settings. Built-in names come first; nothing is imported before it is named.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Literal, cast

from recollect.errors import InvalidSettings, RecollectError
from recollect.ports.protocols import missing
from recollect.ports.records import RecordStore, missing_verbs

Group = Literal[
    "recollect.stores",
    "recollect.vectors",
    "recollect.embedders",
    "recollect.language_models",
    "recollect.key_services",
]


def is_installed(group: Group, name: str) -> bool:
    return bool(entry_points(group=group, name=name))


def package_of(group: Group, name: str) -> str:
    """The package that adds it, with its version."""
    return _package(_entry(group, name))


def made(group: Group, name: str, port: type, *arguments: object) -> object:
    """What the factory of the package makes of these arguments, if it has everything that the port asks for."""
    try:
        one = _entry(group, name).load()(*arguments)
    except RecollectError:
        raise
    except Exception as error:
        raise _broken(group, name, f"failed with {type(error).__name__}: {error}") from error
    lacking = missing_verbs(one) if port is RecordStore else missing(one, port)
    if lacking:
        raise _broken(group, name, f"does not implement {port.__name__}: it has no {', '.join(lacking)}")
    return cast(object, one)


def _broken(group: Group, name: str, what: str) -> InvalidSettings:
    entry = _entry(group, name)
    return InvalidSettings(
        f"'{name}' of the package {_package(entry)} {what}",
        remedy=f"update or fix the package; its entry point in {group} is {entry.value}",
        package=_package(entry),
    )


def _entry(group: Group, name: str) -> EntryPoint:
    found = list(entry_points(group=group, name=name))
    if len(found) > 1:
        packages = " and ".join(sorted(_package(entry) for entry in found))
        raise InvalidSettings(f"'{name}' is added by {packages}", remedy="uninstall all but one of them")
    return found[0]


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
