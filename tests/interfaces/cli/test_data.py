"""Data on the command line: files become sources with a profile to look at, questions and SQL become tables."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from recollect.interfaces.cli.main import run
from recollect.interfaces.cli.render.cells import cell_text, column_texts
from recollect.interfaces.cli.render.queries import rows_table
from recollect.interfaces.cli.render.sources import profile_table, sparkline
from recollect.services.data.results import ResultColumn
from recollect.services.data.sources import FieldView

SALES = "order_id,customer_id,region,amount\n" + "".join(
    f"{number},{number % 20 + 1},{('North', 'South', 'Südost')[number % 3]},{number * 1.5}\n"
    for number in range(1, 201)
)
CUSTOMERS = "customer_id,name\n" + "".join(f"{number},Customer {number}\n" for number in range(1, 21))


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOLLECT_EMBEDDER__PROVIDER", "hash")
    (tmp_path / "sales.csv").write_text(SALES + "201,1,North,3.5,too,many\n", encoding="utf-8")
    (tmp_path / "customers.csv").write_text(CUSTOMERS, encoding="utf-8")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing else")

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(list(arguments))
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


@pytest.mark.parametrize("width", [60, 100, 250])
def test_long_values_are_cut_and_the_other_columns_stay_whole(width: int) -> None:
    top = [{"value": f"2025-01-{day:02}T10:00:00+00:00", "count": 9} for day in range(1, 20)]
    known = {"rows": 171, "distinct": 19, "top": top}
    field = FieldView(name="moment", type="VARCHAR", meaning="date", statistics=known)
    shown = StringIO()
    Console(file=shown, width=width).print(profile_table([field], width))
    title, line = shown.getvalue().splitlines()
    assert title.split() == ["column", "type", *(["meaning"] if width >= 90 else []), "empty", "distinct", "values"]
    assert line.split()[:2] == ["moment", "varchar"]
    assert line.rstrip().endswith("…")


def test_several_files_are_added_and_shown_with_profiles_rejected_rows_and_joins(cli: Any) -> None:
    code, out, _ = cli("source", "add", "sales.csv", "customers.csv")
    assert code == 0
    assert "200 rows × 4 columns" in out
    assert "key order_id" in out
    assert "region       varchar  category" in out
    assert "South 34%" in out
    assert "1.5 … 300" in out
    assert "1 row could not be read" in out
    assert "line 202  " in out
    assert "201,1,North,3.5,too,many" in out
    assert "joins  customer_id → customers.customer_id" in out
    code, out, _ = cli("source", "list")
    assert (code, [line.split()[0] for line in out.splitlines()]) == (0, ["name", "customers", "sales"])
    _, out, _ = cli("source", "add", "sales.csv", "--name", "copy")
    assert "200 rows" in out


def test_a_file_that_fails_is_named_and_the_others_are_added(cli: Any) -> None:
    code, out, err = cli("source", "add", "broken.parquet", "sales.csv", "none.csv")
    assert code == 1
    assert "error: broken.parquet: " in err
    assert "error: none.csv: " in err
    assert "200 rows" in out
    code, out, err = cli("source", "add", "none.csv", "customers.csv", "--json")
    assert (code, [one["name"] for one in json.loads(out)]) == (2, ["customers"])
    assert json.loads(err)["error"]["code"] == "invalid_input"
    code, out, _ = cli("source", "add", "customers.csv", "--json")
    assert json.loads(out)["name"] == "customers"
    assert cli("source", "add")[0] == 2


def test_a_query_is_a_table_with_numbers_on_the_right(cli: Any) -> None:
    cli("source", "add", "sales.csv")
    code, out, _ = cli("query", "run", "select region, sum(amount) as total from sales group by 1 order by 1")
    assert code == 0
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[:4] == [" region    total", " North    9949.5", " South   10050.0", " Südost  10150.5"]
    assert lines[4] == "3 rows"
    assert "from sales (version 1)" in lines[5]
    _, out, _ = cli("query", "run", "select * from sales", "--limit", "2")
    assert "the first 2 of 200 rows" in out
    code, out, _ = cli("query", "list")
    assert "select * from sales" in out.lower()
    run_id = out.splitlines()[1].split()[-1]
    assert "unjudged" in cli("query", "show", run_id)[1]
    code, _, err = cli("query", "run", "select nothing from sales")
    assert (code, "nothing" in err) == (1, True)


def test_a_question_shows_how_it_was_read_its_sql_and_a_chart(cli: Any) -> None:
    cli("source", "add", "sales.csv")
    code, out, _ = cli("ask", "total amount by region")
    assert code == 0
    assert "‹" in out
    assert "% sure" in out
    assert "SUM(amount)" in out
    assert "North" in out
    assert "█" in out
    code, out, _ = cli("ask", "total amount by region", "--json")
    assert json.loads(out)["rows"]


def test_rows_and_charts_are_saved_by_their_suffix(cli: Any, tmp_path: Path) -> None:
    cli("source", "add", "sales.csv")
    sql = "select region, sum(amount) as total from sales group by 1 order by 1"
    code, _, err = cli("query", "run", sql, "--format", "parquet", "--out", "r.parquet", "--chart", "r.svg")
    assert (code, "saved 3 rows to " in err) == (0, True)
    assert (tmp_path / "r.parquet").read_bytes()[:4] == b"PAR1"
    assert (tmp_path / "r.svg").read_text().startswith("<svg")
    run_id = json.loads(cli("query", "list", "--json")[1])["runs"][0]["run"]
    assert "South" in cli("query", "chart", run_id)[1]
    code, _, _ = cli("query", "export", run_id, "--path", "r.csv")
    assert (code, (tmp_path / "r.csv").read_text().splitlines()[0]) == (0, "region,total")
    code, _, err = cli("query", "run", "select 'a' as x", "--chart", "none.svg")
    assert (code, "there is no chart" in err) == (2, True)
    assert not (tmp_path / "none.svg").exists()


def test_a_judged_answer_is_a_pattern_and_can_be_remembered(cli: Any) -> None:
    cli("source", "add", "sales.csv")
    code, out, _ = cli("ask", "total amount by region", "--json")
    run_id = json.loads(out)["run"]
    code, out, _ = cli("query", "judge", run_id, "right")
    assert code == 0
    assert "right: pattern" in out
    code, out, _ = cli("query", "remember", run_id)
    assert code == 0
    assert "total amount by region" in out
    assert "total amount by region" in cli("recall", "total amount")[1]


def test_an_outside_database_is_added_shown_and_joined_with_a_file(cli: Any, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("create table managers (region text primary key, manager text)")
        shop.execute("insert into managers values ('North', 'Ann'), ('South', 'Bo')")
        shop.commit()
    cli("source", "add", "sales.csv")
    code, out, err = cli("connection", "add", "shop", f"sqlite:///{tmp_path / 'shop.db'}")
    assert code == 0, err
    assert "managers" in out
    assert "shop" in cli("connection", "list")[1]
    sql = "select manager, count(*) as orders from sales join managers using (region) group by 1 order by 1"
    code, out, _ = cli("query", "run", sql)
    assert [line.split() for line in out.splitlines()[1:3]] == [["Ann", "66"], ["Bo", "67"]]


def test_files_to_save_are_checked_before_anything_runs(cli: Any) -> None:
    cli("source", "add", "sales.csv")
    assert cli("query", "run", "select 1", "--format", "csv")[0] == 2
    code, _, err = cli("query", "run", "select 1", "--out", "no/such/folder/a.csv")
    assert (code, "there is no folder" in err) == (2, True)
    assert "select 1" not in cli("query", "list")[1]


def test_nothing_in_a_value_or_a_name_moves_the_cursor_or_is_markup(cli: Any, tmp_path: Path) -> None:
    hostile = "\x1b[2J[red]\u202ea\tb"
    (tmp_path / "bad.csv").write_text(f'"{hostile}",n\n"{hostile}",1\n"{hostile}",2\n', encoding="utf-8")
    for command in (("source", "add", "bad.csv"), ("source", "show", "bad"), ("query", "run", "select * from bad")):
        code, out, err = cli(*command)
        assert code == 0, err
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "[red]" in out


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_rows_fit_any_terminal(width: int) -> None:
    columns = [ResultColumn(name=f"a column with number {number}", type="BIGINT") for number in range(50)]
    out = StringIO()
    rows = [["x" * 500, "李雷" * 100, *range(48)]]
    Console(file=out, width=width).print(rows_table(columns, rows, width))
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert all(len(line) <= width for line in lines)
    assert any(f"+{number}" in lines[0] for number in range(50))


def test_numbers_read_as_people_write_them() -> None:
    assert column_texts([0.1 + 0.2, 10.0, None, 2.25]) == ["0.30", "10.00", "", "2.25"]
    assert column_texts([1e-9, 5.0]) == ["1e-09", "5"]
    assert [cell_text(value) for value in (None, True, 3, {"a": [1]}, "two\nlines")] == [
        "", "true", "3", '{"a": [1]}', "two⏎lines",
    ]  # fmt: skip
    assert sparkline([0, 1, 50, 100]) == " ▁▅█"
