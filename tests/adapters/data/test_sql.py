"""One SELECT over listed tables: what is understood, what is rewritten with a note, and what errors say."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from recollect.adapters.data.engine import DuckDBEngine
from recollect.errors import InvalidInput, NotFound
from recollect.ports.data import ExportFormat, Limits

Tables = dict[str, Path]


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT region, count(*) FROM sales GROUP BY 1 ORDER BY 1", [["North", 2], ["South", 1]]),
        ("WITH n AS (SELECT * FROM sales WHERE region = 'North') SELECT count(*) FROM n", [[2]]),
        ("SELECT id FROM sales WHERE id = 1 UNION ALL SELECT 7", [[1], [7]]),
        ("FROM sales SELECT max(id)", [[3]]),
        ("SELECT sum(id) FROM (SELECT id FROM sales) AS inside", [[6]]),
        ("VALUES (1, 'a')", [[1, "a"]]),
        ("SELECT id FROM sales QUALIFY row_number() OVER (ORDER BY id DESC) = 1", [[3]]),
        ("SELECT unnest([1, 2]) AS x", [[1], [2]]),
        ("SELECT sum(x) FROM generate_series(1, 4) t(x)", [[10]]),
        ("SELECT count(*) FILTER (WHERE amount > 15), count(*) FROM sales", [[1, 3]]),
        ("SELECT id, count(*) FILTER (WHERE id > 1) OVER () FROM sales ORDER BY id", [[1, 2], [2, 2], [3, 2]]),
        ("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY id) FROM sales", [[2]]),
        ("SELECT a.id FROM sales a JOIN sales b ON a.id = b.id + 1 ORDER BY 1", [[2], [3]]),
        ("SELECT day FROM sales WHERE id = 1;", [["2025-01-02"]]),
        ("-- a comment\nSELECT 1 /* and another */", [[1]]),
    ],
)
def test_a_query_runs_as_it_is_written(
    engine: DuckDBEngine, tables: Tables, sql: str, rows: list[list[object]]
) -> None:
    done = engine.query(sql, tables)
    assert done.rows == rows
    assert done.notes == []


@pytest.mark.parametrize(
    ("sql", "rows", "note"),
    [
        ('SELECT id FROM sales WHERE region = "South"', [[2]], "read as a text"),
        ("SELECT id FROM sales WHERE region LIKE 'north' ORDER BY id", [[1], [3]], "without regard to case"),
        ("SELECT id FROM sales WHERE region NOT LIKE 'nor%'", [[2]], "without regard to case"),
        ("SELECT id FROM sales ORDER BY id LIMIT 1, 2", [[2], [3]], "LIMIT b OFFSET a"),
        ("SELECT `id` FROM `sales` WHERE `id` = 1", [[1]], "sqlite"),
        ("SELECT IFNULL(amount, 0) FROM sales WHERE id = 3", [[0]], ""),
        ("SELECT IIF(id > 2, 'big', 'small') FROM sales WHERE id = 3", [["big"]], "written anew"),
        ("SELECT strftime('%Y', day) FROM sales WHERE id = 1", [["2025"]], ""),
        ("SELECT strftime('%Y', '2020-05-06')", [["2020"]], ""),
        ("SELECT id FROM sales WHERE day LIKE '2024%'", [[3]], "compared as text"),
        ("SELECT id FROM sales WHERE day = '12/31/2024'", [[3]], "2024-12-31"),
        ("SELECT id FROM sales WHERE zip = 94107", [[2]], "compared as text"),
        ("SELECT id FROM sales WHERE zip > 90000", [[2]], "compared as a number"),
        ("SELECT id FROM sales WHERE id = ''", [], "compared as text"),
        ("SELECT sum(zip) FROM sales WHERE id < 3", [[95341.0]], "read as a number"),
        ("SELECT max(id), zip FROM sales GROUP BY region ORDER BY 1", [[2, "94107"], [3, "n/a"]], "largest"),
        ("SELECT id, min(day) FROM sales", [[3, "2024-12-31"]], "smallest"),
        ("SELECT zip, count(*) FROM sales WHERE id = 1 GROUP BY region", [["01234", 1]], "not in GROUP BY"),
        ("SELECT region FROM main.sales WHERE id = 2", [["South"]], "main.sales"),
        ("SELECT 1 / 0", [[None]], ""),
        ("SELECT group_concat(id) FROM sales WHERE id = 1", [["1"]], ""),
        ("SELECT date('2025-01-01')", [["2025-01-01"]], "date"),
        ("SELECT date('2025-03-31', 'start of month', '-1 month')", [["2025-02-01"]], "date"),
        ("SELECT count(*) FROM sales WHERE day > date('now', '-1000 years')", [[3]], "date"),
        ("SELECT to_char(day, 'YYYY-MM') FROM sales WHERE id = 1", [["2025-01"]], "strftime with '%Y-%m'"),
    ],
)
def test_sql_of_other_databases_is_forgiven(
    engine: DuckDBEngine, tables: Tables, sql: str, rows: list[list[object]], note: str
) -> None:
    done = engine.query(sql, tables)
    assert done.rows == rows
    assert note in " ".join(done.notes)


@pytest.mark.parametrize(
    ("sql", "said", "nearest"),
    [
        ("SELECT * FROM sale", "there is no table 'sale'", ["sales"]),
        ("SELECT amout FROM sales", "there is no column 'amout'", ["amount"]),
        ("SELECT regoin FROM sales", "there is no column 'regoin'", ["region"]),
        ('SELECT "amonut" FROM sales', "there is no column 'amonut'", ["amount"]),
        ('SELECT id FROM sales WHERE "amoumt" > 3', "there is no column 'amoumt'", ["amount"]),
    ],
)
def test_an_unknown_name_comes_with_the_nearest(
    engine: DuckDBEngine, tables: Tables, sql: str, said: str, nearest: list[str]
) -> None:
    with pytest.raises(NotFound, match=said) as error:
        engine.query(sql, tables)
    assert error.value.details["nearest"] == nearest
    assert nearest[0] in error.value.remedy


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT date('now', 'weekday 0')",
        "SELECT strftime('%Y', 'now', '-1 year')",
        "SELECT to_char(id, '999') FROM sales",
    ],
)
def test_what_would_come_out_otherwise_than_it_was_meant_is_refused(
    engine: DuckDBEngine, tables: Tables, sql: str
) -> None:
    with pytest.raises(InvalidInput) as error:
        engine.query(sql, tables)
    assert error.value.remedy


def test_a_mistake_is_shown_with_its_place(engine: DuckDBEngine, tables: Tables) -> None:
    with pytest.raises(InvalidInput, match="line 1, column"):
        engine.query("SELECT FROM WHERE", tables)


def test_checking_does_not_run_the_query(engine: DuckDBEngine, tables: Tables) -> None:
    found = engine.check("SELECT region, sum(amount) AS total FROM sales, big GROUP BY 1", tables)
    assert [(column.name, column.type) for column in found.columns] == [
        ("region", "VARCHAR"),
        ("total", "DECIMAL(38,1)"),
    ]
    assert found.tables == ["sales", "big"]


def test_rows_are_cut_and_counted(engine: DuckDBEngine, tables: Tables) -> None:
    done = engine.query("SELECT * FROM big", tables, limits=Limits(rows=10, seconds=200))
    assert (len(done.rows), done.is_cut, done.row_count) == (10, True, 200_000)
    done = engine.query("SELECT * FROM big", tables, limits=Limits(rows=10, hashed_rows=100))
    assert (len(done.rows), done.is_cut, done.row_count, done.hash) == (10, True, None, None)


def test_rows_are_cut_at_their_size(engine: DuckDBEngine) -> None:
    done = engine.query("SELECT repeat('x', 100000) FROM range(100)", {}, limits=Limits(reply_megabytes=1))
    assert done.is_cut
    assert 5 <= len(done.rows) <= 10
    assert done.row_count == 100


def test_the_hash_is_of_the_whole_result_and_not_of_its_order(engine: DuckDBEngine, tables: Tables) -> None:
    def hashed(sql: str, rows: int = 10_000) -> str | None:
        return engine.query(sql, tables, limits=Limits(rows=rows, seconds=200, cpu_seconds=200)).hash

    up = hashed("SELECT id, label FROM big ORDER BY id")
    assert up == hashed("SELECT id, label FROM big ORDER BY id DESC", rows=3)
    assert up != hashed("SELECT id, label FROM big WHERE id != 7")
    assert up != hashed("SELECT id, CASE id WHEN 7 THEN 'x' ELSE label END AS label FROM big")
    assert hashed("SELECT 0.1 + 0.2::DOUBLE AS x") == hashed("SELECT 0.3::DOUBLE AS x")
    assert hashed("SELECT 1 AS x") != hashed("SELECT 1 AS x UNION ALL SELECT 1")


def test_values_are_plain(engine: DuckDBEngine) -> None:
    done = engine.query(
        "SELECT 1.50::DECIMAL(5,2), TIMESTAMP '2020-01-02 03:04:05', [1, 2], {'a': 1}, 'x'::BLOB, NULL, 1e400::DOUBLE, "
        "INTERVAL 1 DAY, true, 170141183460469231731687303715884105727::HUGEINT, TIMESTAMPTZ '2020-01-01 00:00:00+00'",
        {},
    )
    assert done.rows[0][:6] == [1.5, "2020-01-02T03:04:05", [1, 2], {"a": 1}, "eA==", None]
    assert done.rows[0][6:9] == ["inf", "1 day, 0:00:00", True]
    assert done.rows[0][9:] == [170141183460469231731687303715884105727, "2020-01-01T00:00:00+00:00"]


@pytest.mark.parametrize("format", ["json", "csv", "parquet", "arrow", "xlsx"])
def test_results_leave_as_files(engine: DuckDBEngine, tables: Tables, tmp_path: Path, format: ExportFormat) -> None:
    target = tmp_path / f"out.{format}"
    done = engine.export("SELECT * FROM sales ORDER BY id", tables, format, target)
    assert (done.path, done.rows, done.bytes) == (target, 3, target.stat().st_size)
    assert list(tmp_path.iterdir()) == [target]
    assert _read_again(target, format)[:2] == [(1, "North"), (2, "South")]


def _read_again(path: Path, format: str) -> list[tuple[object, ...]]:
    if format == "arrow":
        import nanoarrow
        from nanoarrow.ipc import InputStream

        found = nanoarrow.ArrayStream(InputStream.from_path(str(path))).read_all().to_pylist()
        return [(row["id"], row["region"]) for row in found]
    if format == "xlsx":
        import fastexcel

        sheet = fastexcel.read_excel(str(path)).load_sheet(0)
        return duckdb.from_arrow(sheet).project("id::INT, region").fetchall()
    return duckdb.sql(f"SELECT id, region FROM '{path}'").fetchall()


def test_a_text_in_excel_is_no_formula(engine: DuckDBEngine, tmp_path: Path) -> None:
    import zipfile

    target = tmp_path / "out.xlsx"
    engine.export("SELECT '=1+1' AS a, 'http://example.com' AS b", {}, "xlsx", target)
    with zipfile.ZipFile(target) as book:
        assert b"<f>" not in book.read("xl/worksheets/sheet1.xml")


def test_a_comment_at_the_end_does_not_hide_what_follows(engine: DuckDBEngine, tmp_path: Path) -> None:
    assert engine.export("SELECT 1 AS a -- one", {}, "csv", tmp_path / "out.csv").rows == 1
    assert engine.query("SELECT 1 AS a -- one", {}).rows == [[1]]


def test_tables_whose_names_differ_in_case_are_refused(engine: DuckDBEngine, tables: Tables) -> None:
    with pytest.raises(InvalidInput, match="same name"):
        engine.query("SELECT 1", {"a": tables["sales"], "A": tables["big"]})
