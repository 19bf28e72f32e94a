"""What a protocol asks for, and what an object lacks of it, without reading a property: that may ask a server."""

from __future__ import annotations

from inspect import get_annotations, getattr_static

_ABSENT = object()


def members(port: type) -> set[str]:
    """The names that a protocol declares, with those that it inherits."""
    return {name for part in port.__mro__ for name in (*vars(part), *get_annotations(part)) if not name.startswith("_")}


def missing(given: object, *ports: type) -> list[str]:
    """The names that these protocols declare and the object does not have."""
    wanted = {name for port in ports for name in members(port)}
    return sorted(name for name in wanted if not _has(given, name))


def _has(given: object, name: str) -> bool:
    if getattr_static(given, name, _ABSENT) is not _ABSENT:
        return True
    return hasattr(type(given), "__getattr__") and hasattr(given, name)  # one that passes calls on to another
