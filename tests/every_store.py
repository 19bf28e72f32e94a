"""The address of an empty store of each kind that keeps what it is given, on the real engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from postgres_server import server

EVERY_STORE: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: str(folder / "store.db"),
    "duckdb": lambda folder: f"duckdb:///{folder}/store.duckdb",
    "postgres": lambda folder: server().new_store(),
}
