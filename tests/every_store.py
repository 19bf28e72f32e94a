"""The address of an empty store of each kind that keeps what it is given, on the real engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dynamodb_server import dynamodb
from postgres_server import server

EVERY_STORE: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: str(folder / "store.db"),
    "duckdb": lambda folder: f"duckdb:///{folder}/store.duckdb",
    "dynamodb": lambda folder: dynamodb().new_store(),
    "postgres": lambda folder: server().new_store(),
}
