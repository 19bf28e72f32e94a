"""The data engine, made when it is first asked for: opening a store starts no process and needs no extra."""

from __future__ import annotations

import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING

from recollect.errors import MissingExtra

if TYPE_CHECKING:
    from recollect.ports.data import DataEngine


class EngineOnDemand:
    """Calling it returns the engine of this process."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._lock = threading.Lock()
        self._engine: DataEngine | None = None

    def __call__(self) -> DataEngine:
        with self._lock:
            if self._engine is None:
                for package in ("duckdb", "sqlglot"):
                    if find_spec(package) is None:
                        raise MissingExtra(f"{package} is not installed", remedy="pip install 'recollect[data]'")
                from recollect.adapters.data.engine import DuckDBEngine

                self._engine = DuckDBEngine(size=self._processes)
            return self._engine

    def close(self) -> None:
        with self._lock:
            if self._engine is not None:
                self._engine.close()
