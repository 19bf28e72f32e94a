"""What is said about a table: counts that are right, what columns mean, keys and likely joins."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from recollect.adapters.data.engine import DuckDBEngine
from recollect.errors import NotFound, TooLarge
from recollect.ports.data import ColumnProfile, Limits, TableProfile


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Ten thousand orders, with some of everything."""
    path = tmp_path / "orders.parquet"
    duckdb.sql(
        "SELECT i AS order_id, DATE '2024-01-01' + (i % 366)::INT AS day, "
        "['North', 'South', 'East'][1 + i % 3] AS region, (i % 1000) / 10 AS amount, "
        "CASE WHEN i % 4 = 0 THEN NULL ELSE i % 7 END AS quantity, 'c' || (i % 900) || '@example.com' AS email, "
        "2000 + i % 20 AS year, i % 2 = 0 AS is_paid, [i, i + 1] AS parts, NULL::VARCHAR AS nothing, "
        "'https://example.com/' || i AS page, md5(i::VARCHAR) AS token, "
        "'a long text about the order ' || repeat('and so on ', 8) || i AS remark, "
        "'+49 30 ' || (1000000 + i) AS phone, ['de', 'fr'][1 + i % 2] AS country FROM range(10000) t(i)"
    ).write_parquet(str(path), row_group_size=2048)
    return path


def _column(profile: TableProfile, name: str) -> ColumnProfile:
    return next(column for column in profile.columns if column.name == name)


def test_counts_are_right(engine: DuckDBEngine, made: Path) -> None:
    profile = engine.profile(made)
    assert (profile.rows, profile.sampled, profile.is_sample) == (10_000, 10_000, False)
    quantity = _column(profile, "quantity")
    assert (quantity.nulls, quantity.distinct, quantity.is_distinct_exact, quantity.min, quantity.max) == (
        2500,
        7,
        True,
        0,
        6,
    )
    assert sum(bar.count for bar in quantity.histogram) == 7500
    assert [(bar.low, bar.high) for bar in quantity.histogram][:2] == [(0.0, 1.0), (1.0, 2.0)]
    region = _column(profile, "region")
    assert [(top.value, top.count) for top in region.top] == [("North", 3334), ("East", 3333), ("South", 3333)]
    amount = _column(profile, "amount")
    assert amount.mean == pytest.approx(49.95)
    assert amount.quantiles == pytest.approx([4.9, 24.9, 49.9, 74.9, 94.9], abs=0.2)
    assert len(amount.histogram) == 20
    day = _column(profile, "day")
    assert (day.min, day.max, day.histogram[0].low) == ("2024-01-01", "2024-12-31", "2024-01-01")
    assert sum(bar.count for bar in day.histogram) == 10_000
    nothing = _column(profile, "nothing")
    assert (nothing.nulls, nothing.distinct, nothing.min, nothing.top) == (10_000, 0, None, [])


def test_columns_mean_what_a_person_would_say(engine: DuckDBEngine, made: Path) -> None:
    assert {column.name: column.meaning for column in engine.profile(made).columns} == {
        "order_id": "id", "day": "date", "region": "category", "amount": "money", "quantity": "count", "email": "email",
        "year": "year", "is_paid": "flag", "parts": "nested", "nothing": "empty", "page": "url", "token": "id",
        "remark": "text", "phone": "phone", "country": "country",
    }  # fmt: skip


def test_keys_are_found(engine: DuckDBEngine, made: Path) -> None:
    profile = engine.profile(made)
    assert profile.keys[:2] == ["order_id", "token"]
    assert not _column(profile, "email").is_key


def test_a_sample_comes_from_all_over_the_table(engine: DuckDBEngine, made: Path) -> None:
    profile = engine.profile(made, sample_rows=1000)
    assert (profile.rows, profile.sampled, profile.is_sample) == (10_000, 1000, True)
    order = _column(profile, "order_id")
    assert (order.rows, order.min) == (1000, 0)
    assert order.max >= 9000
    assert _column(profile, "region").distinct == 3
    assert "1,000 of 10,000 rows" in profile.notes[0]


def test_profiling_keeps_to_its_memory(engine: DuckDBEngine, tmp_path: Path) -> None:
    """A million rows of which none is like another, in what the issue allows for ten."""
    path = tmp_path / "t.parquet"
    duckdb.sql("SELECT i AS id, md5(i::VARCHAR) AS text, random() AS x FROM range(1000000) t(i)").write_parquet(
        str(path)
    )
    profile = engine.profile(path, limits=Limits(megabytes=250))
    assert profile.cost is not None
    assert profile.cost.peak_bytes <= 250 << 20
    assert profile.keys == ["id", "text"]


def test_an_empty_table_and_odd_values(engine: DuckDBEngine, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    duckdb.sql("SELECT 1 AS a, 'x' AS b WHERE false").write_parquet(str(path))
    profile = engine.profile(path)
    assert [(column.meaning, column.nulls) for column in profile.columns] == [("empty", 0), ("empty", 0)]
    duckdb.sql(
        "SELECT unnest(['nan', 'inf', '-inf', '1', '2'])::DOUBLE AS x, DATE '0001-01-01' AS d, "
        "TIMESTAMP 'infinity' AS t, 1::UHUGEINT AS u, '' AS e, 'a' AS \"quo\"\"ted\""
    ).write_parquet(str(path))
    profile = engine.profile(path)
    assert sum(bar.count for bar in profile.columns[0].histogram) == 2
    assert profile.columns[5].name == 'quo"ted'


def test_values_of_texts_are_counted(engine: DuckDBEngine, made: Path) -> None:
    found = engine.values(made, most=2)
    assert [(one.value, one.count) for one in found["region"]] == [("North", 3334), ("East", 3333)]
    assert found["remark"] == [] or all(len(str(one.value)) <= 200 for one in found["remark"])
    assert "amount" not in found
    assert list(engine.values(made, columns=["region"])) == ["region"]


def test_joins_are_found_by_names_and_by_values(engine: DuckDBEngine, tmp_path: Path) -> None:
    statements = {
        "customers": "SELECT i AS id, 'name ' || i AS name, 'c' || i AS code FROM range(100) t(i)",
        "orders": "SELECT i AS id, i % 100 AS customer_id, 'c' || i % 50 AS buyer, i % 7 AS n FROM range(500) t(i)",
        "countries": "SELECT unnest(['de', 'fr', 'it', 'es']) AS country_code",
        "offices": "SELECT i AS id, ['de', 'fr', 'it'][1 + i % 3] AS country_code FROM range(30) t(i)",
    }
    for name, sql in statements.items():
        duckdb.sql(sql).write_parquet(str(tmp_path / f"{name}.parquet"))
    found = engine.joins({name: tmp_path / f"{name}.parquet" for name in statements})
    pairs = {(join.table, join.column, join.to_table, join.to_column): join for join in found}
    assert pairs["orders", "customer_id", "customers", "id"].containment == 1.0
    assert "names customers" in pairs["orders", "customer_id", "customers", "id"].reason
    assert ("orders", "buyer", "customers", "code") in pairs
    assert ("offices", "country_code", "countries", "country_code") in pairs
    assert ("orders", "n", "customers", "id") not in pairs


def test_tables_with_hundreds_of_columns_are_joined_within_the_limits(engine: DuckDBEngine, tmp_path: Path) -> None:
    columns = ", ".join(f"i % 7 AS c{n}" for n in range(199))
    duckdb.sql(f"SELECT i % 100 AS customer_id, {columns} FROM range(300) t(i)").write_parquet(
        str(tmp_path / "wide.parquet")
    )
    duckdb.sql("SELECT i AS customer_id FROM range(100) t(i)").write_parquet(str(tmp_path / "customers.parquet"))
    found = engine.joins({name: tmp_path / f"{name}.parquet" for name in ("wide", "customers")})
    assert ("wide", "customer_id", "customers") in {(join.table, join.column, join.to_table) for join in found}


def test_a_table_that_is_gone(engine: DuckDBEngine, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        engine.profile(tmp_path / "none.parquet")


def test_a_profile_that_takes_too_much_is_ended(engine: DuckDBEngine, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    duckdb.sql("SELECT repeat('x', 2000) || i AS a FROM range(100000) t(i)").write_parquet(str(path))
    with pytest.raises(TooLarge):
        engine.profile(path, limits=Limits(seconds=0.01, megabytes=300))
    assert engine.query("SELECT 1", {}).rows == [[1]]
