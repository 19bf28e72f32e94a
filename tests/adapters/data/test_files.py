"""Files become tables: every format, every encoding, types as a person would choose them, nothing lost in silence."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import threading
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
import xlsxwriter

from recollect.adapters.data.engine import DuckDBEngine
from recollect.errors import DamagedData, InvalidInput, NotFound, RecollectError, TooLarge
from recollect.ports.data import Limits, NewTable

SMALL = Limits(seconds=20, cpu_seconds=20, megabytes=400, disk_megabytes=64, input_megabytes=64, rejected_rows=1000)
PEOPLE = "id,name,city\n1,Zoë,Köln\n2,Ana,Málaga\n"

Read = Callable[..., list[NewTable]]


@pytest.fixture
def read(engine: DuckDBEngine, tmp_path: Path) -> Read:
    def read(file: str, content: bytes | str | None = None, **options: object) -> list[NewTable]:
        path = tmp_path / file
        if content is not None:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        limits = options.pop("limits", SMALL)
        return engine.read_file(path, tmp_path / "into", limits=limits, **options)  # type: ignore[arg-type]

    return read


def rows(table: NewTable) -> list[tuple[object, ...]]:
    return duckdb.sql(f"SELECT * FROM '{table.path}'").fetchall()


def types(table: NewTable) -> dict[str, str]:
    return {column.name: column.type for column in table.columns}


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", "\x1f"])
def test_any_delimiter(read: Read, delimiter: str) -> None:
    (table,) = read("people.csv", PEOPLE.replace(",", delimiter))
    assert rows(table) == [(1, "Zoë", "Köln"), (2, "Ana", "Málaga")]
    assert table.name == "people"
    assert types(table) == {"id": "BIGINT", "name": "VARCHAR", "city": "VARCHAR"}


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"]
)
def test_any_encoding(read: Read, encoding: str) -> None:
    (table,) = read("people.csv", PEOPLE.encode(encoding))
    assert rows(table) == [(1, "Zoë", "Köln"), (2, "Ana", "Málaga")]
    assert list(types(table)) == ["id", "name", "city"]


def test_packed_files(read: Read, tmp_path: Path) -> None:
    from backports import zstd

    (table,) = read("people.csv.gz", gzip.compress(PEOPLE.encode()))
    assert (table.name, table.rows) == ("people", 2)
    (table,) = read("people.csv.zst", zstd.compress(PEOPLE.encode()))
    assert (table.name, table.rows) == ("people", 2)
    (table,) = read("people.jsonl.gz", gzip.compress(b'{"a": 1}\n{"a": 2}\n'))
    assert table.rows == 2


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('a,b\n1,"x, y"\n2,"say ""hi"""\n', [(1, "x, y"), (2, 'say "hi"')]),
        ("a;b\n1;'x; y'\n2;'z'\n3;'w'\n", [(1, "x; y"), (2, "z"), (3, "w")]),
        ('a,b\n1,"two\nlines"\n2,x\n', [(1, "two\nlines"), (2, "x")]),
        ("a,b\r\n1,x\r\n2,y\r\n", [(1, "x"), (2, "y")]),
        ("a,b\n1,\n,y\n", [(1, None), (None, "y")]),
        ("Report of May\n\na,b\n1,x\n2,y\n", [(1, "x"), (2, "y")]),
        ("1,x\n2,y\n3,z\n", [(1, "x"), (2, "y"), (3, "z")]),
        ("name\nanna\nbert\n", [("anna",), ("bert",)]),
    ],
)
def test_quotes_lines_and_headers(read: Read, content: str, expected: list[tuple[object, ...]]) -> None:
    (table,) = read("t.csv", content)
    assert rows(table) == expected


@pytest.mark.parametrize(
    ("values", "type"),
    [
        (["1", "2", "-3"], "BIGINT"),
        (["1.5", "2", "-3e4"], "DOUBLE"),
        (["01234", "94107"], "VARCHAR"),
        (["12345678901234567890", "1"], "VARCHAR"),
        (["1,234", "12", "1,234,567"], "BIGINT"),
        (["1,234.50", "12.25"], "DOUBLE"),
        (["1.234,50", "12,25"], "DOUBLE"),
        (["$1,200.50", "$3"], "DOUBLE"),
        (["3.5%", "10%"], "DOUBLE"),
        (["yes", "no", "yes"], "BOOLEAN"),
        (["True", "FALSE"], "BOOLEAN"),
        (["0", "1"], "BIGINT"),
        (["2020-01-31", "2021-12-01"], "DATE"),
        (["2020-01-31", "n/a"], "DATE"),
        (["2020-01-31 10:00:00", "2021-12-01 11:30:00"], "TIMESTAMP"),
        (["2020-01-31 10:00:00", "n/a"], "TIMESTAMP"),
        (["2020-01-31T10:00:00Z", "2021-12-01T11:30:00+02:00"], "TIMESTAMP WITH TIME ZONE"),
        (["12/31/2020", "1/2/2021"], "DATE"),
        (["31/12/2020", "1/2/2021"], "DATE"),
        (["31.12.2020", "1.2.2021"], "DATE"),
        (["31-Dec-2020", "01-Feb-2021"], "DATE"),
        (["Jan 5, 2020", "Feb 6, 2021"], "DATE"),
        (["1/2/2021 10:30", "12/31/2020 9:05"], "TIMESTAMP"),
        (["10:30", "9:05"], "TIME"),
        (["2020-02-30", "2021-12-01"], "VARCHAR"),
        (["1", "2", "three"], "VARCHAR"),
        (["n/a", "-"], "VARCHAR"),
    ],
)
def test_types_are_found(read: Read, values: list[str], type: str) -> None:
    (table,) = read("t.csv", "value;other\n" + "".join(f"{value};x\n" for value in values))
    assert types(table)["value"] == type
    assert table.rows == len(values)


def test_days_and_months_are_told_apart_by_all_rows(read: Read) -> None:
    (table,) = read("t.csv", "day,x\n" + "1/2/2021,a\n" * 6000 + "31/12/2021,b\n")
    assert str(rows(table)[-1][0]) == "2021-12-31"
    (table,) = read("t.csv", "day,x\n1/2/2021,a\n3/4/2021,b\n")
    assert "leave open" in table.notes[0]


def test_a_value_that_does_not_fit_keeps_the_column_text_and_is_named(read: Read) -> None:
    (table,) = read("t.csv", "n,x\n" + "1,a\n" * 9000 + "many,b\n")
    assert types(table)["n"] == "VARCHAR"
    assert table.notes == ["n: stays text, since 1 of its values are not whole numbers, such as 'many'"]
    assert rows(table)[-1] == ("many", "b")


def test_names_stay_as_they_are_and_become_unique(read: Read) -> None:
    (table,) = read("t.csv", "Größe (cm),,id,ID,id\n1,2,3,4,5\n6,7,8,9,10\n")
    assert list(types(table)) == ["Größe (cm)", "column_2", "id", "ID_2", "id_3"]


def test_rows_that_cannot_be_read_are_counted_and_shown(read: Read) -> None:
    (table,) = read("t.csv", "a,b\n1,x\n2\n3,y,z\n4,w\n")
    assert rows(table) == [(1, "x"), (4, "w")]
    assert table.rejected_count == 2
    assert [(row.line, row.text) for row in table.rejected] == [(3, "2"), (4, "3,y,z")]
    assert all(row.reason for row in table.rejected)


def test_a_few_broken_letters_reject_their_rows(read: Read) -> None:
    content = b"a,b\n" + "1,ü\n".encode() * 50 + b"2,\xff\n" + "3,ö\n".encode()
    (table,) = read("t.csv", content)
    assert table.rejected_count == 1
    assert table.rejected[0].line == 52
    assert table.rows == 51


def test_many_rejected_rows_are_all_counted(read: Read) -> None:
    (table,) = read("t.csv", "a,b\n" + "1,x\n" * 1000 + "1,x,y\n" * 500)
    assert (table.rows, table.rejected_count, len(table.rejected)) == (1000, 500, 100)
    with pytest.raises(TooLarge, match="cannot be read"):
        read("t.csv", "a,b\n" + "1,x\n" * 5000 + "1,x,y\n" * 2000)


def test_json(read: Read) -> None:
    (table,) = read("t.json", '[{"a": 1, "b": {"c": [1, 2]}}, {"a": 2, "d": "2020-01-02"}]')
    assert types(table) == {"a": "BIGINT", "b": "STRUCT(c BIGINT[])", "d": "DATE"}
    (table,) = read("t.json", '{"count": 2, "items": [{"a": 1}, {"a": 2}]}')
    assert rows(table) == [(1,), (2,)]
    (table,) = read("t.jsonl", '{"a": 1}\n{"a": \n\n{"a": 3}\n7\n')
    assert rows(table) == [(1,), (3,)]
    assert [(row.line, row.text) for row in table.rejected] == [(2, '{"a":'), (5, "7")]
    with pytest.raises(DamagedData, match="not JSON"):
        read("t.json", '[{"a": 1}, {"a"')


def test_parquet(read: Read, tmp_path: Path) -> None:
    duckdb.sql("SELECT 1 AS a, 'x' AS b, [1, 2] AS c").write_parquet(str(tmp_path / "t.parquet"))
    (table,) = read("t.parquet")
    assert rows(table) == [(1, "x", [1, 2])]
    with pytest.raises(DamagedData, match="not Parquet"):
        read("t.parquet", b"PAR1" + b"\0" * 100)


def test_a_folder_called_like_a_partition_adds_no_column(read: Read, tmp_path: Path) -> None:
    (tmp_path / "year=2025").mkdir()
    duckdb.sql("SELECT 1 AS id").write_parquet(str(tmp_path / "year=2025" / "one.parquet"))
    for table in (*read("year=2025/one.parquet"), *read("year=2025/one.jsonl", '{"id": 1}\n{"id": 2}\n')):
        assert [column.name for column in table.columns] == ["id"]


def test_every_sheet_of_a_workbook(read: Read, tmp_path: Path) -> None:
    with xlsxwriter.Workbook(str(tmp_path / "t.xlsx")) as book:
        sheet = book.add_worksheet("Sales 2025")
        sheet.write_row(0, 0, ["Report"])
        sheet.write_row(2, 0, ["id", "when", "zip", "ok"])
        day = book.add_format({"num_format": "yyyy-mm-dd"})
        for row in (3, 4):
            sheet.write_number(row, 0, row)
            sheet.write_datetime(row, 1, __import__("datetime").datetime(2025, 1, row), day)
            sheet.write_string(row, 2, "0012")
            sheet.write_boolean(row, 3, row == 3)
        book.add_worksheet("empty")
        book.add_worksheet("other").write_row(0, 0, ["only"])
    sales, other = read("t.xlsx")
    assert (sales.name, other.name) == ("Sales 2025", "other")
    assert types(sales)["id"] == "BIGINT"
    assert [row[2:] for row in rows(sales)] == [("0012", True), ("0012", False)]
    assert str(rows(sales)[0][1]).startswith("2025-01-03")
    assert any("empty" in note for note in sales.notes)


def _database(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_every_table_of_a_sqlite_file(read: Read, tmp_path: Path) -> None:
    _database(
        tmp_path / "t.db",
        "CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT, founded TEXT, zip TEXT)",
        "CREATE TABLE person (id INTEGER, city_id INTEGER REFERENCES city(id), score, photo BLOB, mixed)",
        "INSERT INTO city VALUES (1, 'Köln', '0050-01-01', '01234'), (2, 'Berlin', '1237-10-28', NULL)",
        "INSERT INTO person VALUES (1, 2, 1.5, x'00ff', 1), (2, 1, '', NULL, 'x')",
    )
    city, person = read("t.db")
    assert types(city) == {"id": "BIGINT", "name": "VARCHAR", "founded": "DATE", "zip": "VARCHAR"}
    assert types(person)["score"] == "DOUBLE"
    assert [row[2:] for row in rows(person)] == [(1.5, b"\x00\xff", "1"), (None, None, "x")]
    assert [(key.column, key.to_table, key.to_column) for key in person.foreign_keys] == [("city_id", "city", "id")]
    assert any("mixed" in note for note in person.notes)


def test_a_name_may_be_given(read: Read) -> None:
    (table,) = read("t.csv", PEOPLE, name="guests")
    assert table.name == "guests"


def test_progress_is_told(engine: DuckDBEngine, tmp_path: Path) -> None:
    _database(tmp_path / "t.db", *(f"CREATE TABLE t{i} (a)" for i in range(3)))
    told: list[float] = []
    engine.read_file(tmp_path / "t.db", tmp_path / "into", progress=lambda what, share: told.append(share))
    assert told[:3] == [0.0, 1 / 3, 2 / 3]


# What wants to do harm.


def _bomb(size: int) -> bytes:
    return gzip.compress(b"a,b\n" + b"0" * size, compresslevel=9)


def _workbook_bomb(path: Path) -> None:
    with xlsxwriter.Workbook(str(path)) as book:
        book.add_worksheet("s").write_row(0, 0, ["a"])
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("xl/worksheets/sheet2.xml", b"\0" * (300 << 20))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("gzip.csv.gz", lambda path: path.write_bytes(_bomb(200 << 20))),
        ("workbook.xlsx", _workbook_bomb),
        ("columns.csv", lambda path: path.write_text(",".join(map(str, range(1_000_000))) + "\n")),
        ("columns on two lines.csv", lambda path: path.write_text(("x," * 20_000 + "x\n") * 2)),
        ("depth.json", lambda path: path.write_text("[" * 3_000_000 + "]" * 3_000_000)),
        ("depth.jsonl", lambda path: path.write_text(('{"a":' * 100_000 + "1" + "}" * 100_000 + "\n") * 2)),
        ("binary.csv", lambda path: path.write_bytes(os.urandom(10_000))),
        ("cut.csv.gz", lambda path: path.write_bytes(gzip.compress(PEOPLE.encode() * 1000)[:-20])),
        ("empty.csv", lambda path: path.write_bytes(b"")),
        ("spaces.csv", lambda path: path.write_bytes(b" \n \n")),
        ("archive.zip", lambda path: zipfile.ZipFile(path, "w").writestr("a.csv", PEOPLE)),
        ("a folder", lambda path: path.mkdir()),
        ("a pipe", lambda path: os.mkfifo(path)),
        ("a link", lambda path: path.symlink_to("/etc/passwd")),
        ("nothing", lambda path: None),
        ("broken.db", lambda path: path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)),
        ("broken.xlsx", lambda path: zipfile.ZipFile(path, "w").writestr("xl/workbook.xml", "<no")),
    ],
)
def test_harmful_files_end_in_a_clear_error(
    engine: DuckDBEngine, tmp_path: Path, name: str, make: Callable[[Path], object]
) -> None:
    path = tmp_path / name
    make(path)
    with pytest.raises(RecollectError) as error:
        engine.read_file(path, tmp_path / "into", limits=SMALL)
    assert isinstance(error.value, InvalidInput | DamagedData | NotFound), error.value
    assert error.value.remedy
    assert (error.value.details.get("peak_bytes") or 0) <= (SMALL.megabytes + 64) << 20
    assert not (tmp_path / "into").exists()
    assert engine.query("SELECT 1", {}).rows == [[1]]


def test_a_giant_cell_is_a_rejected_row(read: Read) -> None:
    (table,) = read("t.csv", b"a,b\n1," + b"x" * (20 << 20) + b"\n2,y\n")
    assert (table.rejected_count, table.rejected[0].line, len(table.rejected[0].text)) == (1, 2, 200)
    assert rows(table) == [(2, "y")]
    with pytest.raises(TooLarge):
        read("t.csv", b"a,b\n1," + b"x" * (SMALL.input_megabytes << 20) + b"\n2,y\n")


def test_an_object_with_too_many_keys_is_one_column(read: Read) -> None:
    (table,) = read("t.json", json.dumps([{f"k{i}": 1 for i in range(50_000)}]))
    assert types(table) == {"json": "MAP(VARCHAR, BIGINT)"}


def test_a_parquet_bomb_ends_at_its_limits(engine: DuckDBEngine, tmp_path: Path) -> None:
    """A few kilobytes that hold gigabytes of a long text."""
    path = tmp_path / "bomb.parquet"
    duckdb.sql("SELECT repeat('x', 10000) AS a FROM range(300000)").write_parquet(str(path), compression="zstd")
    assert path.stat().st_size < 2 << 20
    with pytest.raises(TooLarge):
        engine.query("SELECT list(a) FROM t", {"t": path}, limits=SMALL)
    assert engine.query("SELECT 1", {}).rows == [[1]]


def test_views_and_triggers_of_a_sqlite_file_do_not_run(read: Read, tmp_path: Path) -> None:
    _database(
        tmp_path / "t.db",
        "CREATE TABLE t (a)",
        "INSERT INTO t VALUES (1)",
        "CREATE VIEW bomb AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r",
        "CREATE TRIGGER hook AFTER INSERT ON t BEGIN DELETE FROM t; END",
        "CREATE VIRTUAL TABLE words USING fts5(text)",
    )
    (table,) = read("t.db")
    assert (table.name, rows(table)) == ("t", [(1,)])
    assert table.notes == ["views are not read: bomb; a connection to the file reads them"]


def test_changes_that_are_not_in_the_sqlite_file_yet_are_told_of(read: Read, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "t.db")) as database:
        database.executescript("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("INSERT INTO t VALUES (2)")
        database.commit()
        (table,) = read("t.db")
        assert rows(table) == [(1,)]
        assert "t.db-wal was not read" in table.notes[0]


def test_a_file_that_grows_meanwhile_is_refused(engine: DuckDBEngine, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,x\n" * 400_000)
    stop = threading.Event()

    def grow() -> None:
        with open(path, "a") as file:
            while not stop.wait(0.002):
                file.write("2,y\n")
                file.flush()

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        with pytest.raises((InvalidInput, DamagedData)):
            engine.read_file(path, tmp_path / "into", limits=SMALL)
    finally:
        stop.set()
        thread.join()
    assert not (tmp_path / "into").exists()


def test_lines_may_end_differently(engine: DuckDBEngine, tmp_path: Path) -> None:
    path = tmp_path / "mixed.csv"
    path.write_bytes(b'id,name\r\n1,"a\nb"\r\n2,b\n3,c,d,e\r\n4,d\r\n')
    (table,) = engine.read_file(path, tmp_path / "out")
    assert (table.rows, table.rejected_count) == (3, 1)
    assert engine.query("SELECT name FROM t WHERE id = 1", {"t": table.path}).rows == [["a\nb"]]
