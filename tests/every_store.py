"""The address of an empty store of each kind that keeps what it is given, and of each way to search vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from chroma_server import chroma
from dynamodb_server import dynamodb
from postgres_server import server

EVERY_STORE: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: str(folder / "store.db"),
    "duckdb": lambda folder: f"duckdb:///{folder}/store.duckdb",
    "dynamodb": lambda folder: dynamodb().new_store(),
    "postgres": lambda folder: server().new_store(),
}

VECTOR_SEARCH = (*EVERY_STORE, "memory", "chroma", "pgvector beside")


def searched(kind: str, folder: Path) -> dict[str, Any]:
    """The settings of an empty store whose vectors are searched in one of the ways there are."""
    if kind in EVERY_STORE:
        return {"store": EVERY_STORE[kind](folder)}
    if kind == "memory":
        return {"store": "memory://"}
    vectors = f"chroma+{chroma().url}" if kind == "chroma" else f"pgvector+{server().address()}"
    return {"store": str(folder / "beside.db"), "vectors": vectors}
