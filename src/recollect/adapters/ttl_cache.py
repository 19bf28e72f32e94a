"""A cache whose entries expire: what was found out a moment ago and would have to be worked for again."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V")
KEPT_FOR_SECONDS, MOST_ENTRIES = 60.0, 10_000


class TtlCache(Generic[V]):
    """For what may be a little out of date: whether a scope is broad, how common a word is.

    An entry expires some time after it was set, however often it is read: what is asked for all the time would never be
    looked at again otherwise.
    """

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[float, V]] = {}

    def get(self, key: Hashable) -> V | None:
        """None if there is no entry, or it has expired."""
        expires, value = self._entries.get(key, (0.0, None))
        return value if expires > time.monotonic() else None

    def set(self, key: Hashable, value: V, seconds: float = KEPT_FOR_SECONDS) -> None:
        if len(self._entries) >= MOST_ENTRIES:
            self._entries.clear()
        self._entries[key] = time.monotonic() + seconds, value
