"""What a store found out lately and would have to work for again; forgotten after a while."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Any

KNOWN_FOR_SECONDS, MOST_KNOWN = 60.0, 10_000


class Lately:
    """Notes with a time limit, for what may be a little out of date: whether a scope is broad, how common a word is."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[float, Any]] = {}

    def get(self, key: Hashable) -> Any:
        """None if it is not known, or was for too long."""
        until, value = self._known.get(key, (0.0, None))
        return value if until > time.monotonic() else None

    def note(self, key: Hashable, value: Any) -> None:
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[key] = time.monotonic() + KNOWN_FOR_SECONDS, value
