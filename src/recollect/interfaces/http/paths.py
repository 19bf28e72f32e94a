"""Paths as they were sent: an id may hold any character, and a slash in it is no end of it.

The web server decodes a path before it is routed, and then `a%2Fb` looks like two parts. So routes look at the path as
it came, and decode each part by itself. A last part called `path` is all that is left: files lie in folders.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

from starlette.routing import Match, Route
from starlette.types import Scope

REST = "{path}"


class PathRoute(Route):
    """A route whose parts in braces may hold whatever a part of a path can say."""

    def __init__(self, path: str, endpoint: Any, **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self._parts = path.split("/")
        self._takes_the_rest = self._parts[-1] == REST or self._parts[-1].endswith(":path}")

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        found = self._found(_raw(scope))
        if found is None:
            return Match.NONE, {}
        inner = {"endpoint": self.endpoint, "path_params": {**scope.get("path_params", {}), **found}}
        return (Match.PARTIAL if self.methods and scope["method"] not in self.methods else Match.FULL), inner

    def _found(self, raw: str) -> dict[str, str] | None:
        """What stands where this route has names; None if it is not this route."""
        sent = raw.split("/")
        if self._takes_the_rest and len(sent) > len(self._parts):
            sent = [*sent[: len(self._parts) - 1], "/".join(sent[len(self._parts) - 1 :])]
        if len(sent) != len(self._parts):
            return None
        found = {}
        for part, text in zip(self._parts, map(unquote, sent), strict=True):
            if part.startswith("{") and text:
                found[part[1:-1].partition(":")[0]] = text
            elif part != text:
                return None
        return found


def _raw(scope: Scope) -> str:
    raw: bytes | None = scope.get("raw_path")
    return raw.decode("latin-1") if raw is not None else quote(scope["path"])
