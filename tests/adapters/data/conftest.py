"""A data engine for the tests, and a few tables for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from recollect.adapters.data.engine import DuckDBEngine

SECRET = "TOP-SECRET-42"


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="package")
def tables(folder: Path) -> dict[str, Path]:
    connection = duckdb.connect()
    sales = (
        "SELECT * FROM (VALUES (1, 'North', 10.5, DATE '2025-01-02', '01234'), (2, 'South', 20.0, DATE '2025-02-03', "
        "'94107'), (3, 'North', NULL, DATE '2024-12-31', 'n/a')) t(id, region, amount, day, zip)"
    )
    made = {"sales": sales, "big": "SELECT i AS id, i % 100 AS part, 'text ' || i AS label FROM range(200000) t(i)"}
    for name, sql in made.items():
        connection.execute(f"COPY ({sql}) TO '{folder / name}.parquet'")
    connection.execute(f"COPY (SELECT '{SECRET}' AS secret) TO '{folder}/unlisted.parquet'")
    connection.close()
    (folder / "secret.txt").write_text(SECRET)
    (folder / "secret.csv").write_text(f"secret\n{SECRET}\n")
    return {name: folder / f"{name}.parquet" for name in made}


@pytest.fixture(scope="package")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBEngine]:
    engine = DuckDBEngine(size=1, scratch=tmp_path_factory.mktemp("scratch"))
    yield engine
    engine.close()
