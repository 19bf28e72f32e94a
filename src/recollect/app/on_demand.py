"""Adapters that few commands need: made, and their modules imported, when something of them is first used."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class OnDemand:
    """Stands for what `make` makes, and has all that it has. Threads may share it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = None
        self._making = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        with self._making:
            if self._made is None:
                self._made = self._make()
        return getattr(self._made, name)

    def close(self) -> None:
        """Nothing, where it was not needed."""
        if self._made is not None:
            self._made.close()
