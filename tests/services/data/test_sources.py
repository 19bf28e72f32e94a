"""Files and data frames become sources: on every record store, with versions, and nothing half listed."""

from __future__ import annotations

import base64
import gzip
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest

import recollect
from recollect.domain.sources import Field, Source, SourceVersion, StoredObject, Table
from recollect.errors import DamagedData, InvalidInput, NotFound, TooLarge
from recollect.ports.query import Query
from recollect.services.admin.expiry import SweepRequest, sweep
from recollect.services.data.sources import delete_for_good
from services.data.conftest import write_sales


def _counts(mem: Any) -> dict[str, int]:
    types = (Source, Table, Field, StoredObject, SourceVersion)
    return {one.shape.table: mem._tenant.count(Query(one, deleted="yes")) for one in types}


def _objects(mem: Any) -> set[str]:
    return {one.digest for one in mem._core.objects.list(mem._tenant.content_place)}


def test_a_file_becomes_a_table_with_a_profile(stored: Any, sales: Path) -> None:
    source = stored.source.add(sales)
    (table,) = source.tables
    assert (source.name, source.version, source.is_new, source.format) == ("sales", 1, True, "csv")
    assert (table.name, table.rows, table.profiled, table.keys) == ("sales", 1000, "whole", ["id"])
    region = next(field for field in table.fields if field.name == "region")
    assert (region.type, region.meaning) == ("VARCHAR", "category")
    assert region.statistics["distinct"] == 3
    assert {one["value"] for one in region.statistics["top"]} == {"north", "south", "west"}
    shown = stored.source.show("sales")
    assert [field.name for field in shown.tables[0].fields] == ["id", "region", "amount", "day"]
    assert [one.name for one in stored.source.list()] == ["sales"]


@pytest.mark.parametrize("ending", ["jsonl.gz", "ndjson.GZ", "tsv.gz", "csv.gz"])
def test_a_packed_file_is_called_like_what_is_in_it(mem: Any, tmp_path: Path, ending: str) -> None:
    content = b'{"a": 1}\n{"a": 2}\n' if "json" in ending else b"a\tb\n1\t2\n"
    path = tmp_path / f"events.{ending}"
    path.write_bytes(gzip.compress(content))
    source = mem.source.add(path)
    assert (source.name, source.format, source.tables[0].name) == ("events", ending.partition(".")[0], "events")


def test_users_with_restricted_keys_have_sources_of_the_same_name(mem: Any, sales: Path) -> None:
    for name in ("ann", "bob"):
        mem.user.add(name, id=name)
    ann, bob = mem.restricted(user="ann"), mem.restricted(user="bob")
    first, other = ann.source.add(sales), bob.source.add(sales)
    assert (first.user, other.user) == ("ann", "bob")
    assert ann.source.add(sales).id == first.id
    assert bob.source.add(write_sales(sales, 5)).version == 2
    assert [(one.id, one.version) for one in ann.source.list()] == [(first.id, 1)]


def test_the_same_bytes_are_the_same_source(stored: Any, sales: Path, tmp_path: Path) -> None:
    first = stored.source.add(sales)
    before = _counts(stored)
    again = stored.source.add(sales)
    copy = tmp_path / "copy.csv"
    copy.write_bytes(sales.read_bytes())
    other = stored.source.add(copy)
    assert (again.id, again.is_new, other.id) == (first.id, False, first.id)
    assert "already" in other.notes[0]
    assert _counts(stored) == before


def test_a_new_version_says_what_changed(stored: Any, sales: Path) -> None:
    first = stored.source.add(sales)
    sales.write_text("id,region,amount,paid\n1,north,a lot,yes\n2,south,little,no\n")
    second = stored.source.add(sales)
    assert (second.id, second.version, second.is_new) == (first.id, 2, True)
    said = {(one["change"], one.get("column")) for one in second.changes}
    assert said == {("column added", "paid"), ("column removed", "day"), ("type changed", "amount"), ("rows", None)}
    assert [one.number for one in stored.source.versions("sales")] == [2, 1]
    assert [field.name for field in stored.source.show("sales").tables[0].fields] == ["id", "region", "amount", "paid"]


def test_rows_that_cannot_be_read_are_shown_with_their_line(mem: Any, tmp_path: Path) -> None:
    path = write_sales(tmp_path / "broken.csv", 50, more="1,2,3,4,5,6,7\n")
    (table,) = mem.source.add(path).tables
    assert (table.rows, table.rejected) == (50, 1)
    assert table.rejected_rows[0]["line"] == 52


def test_every_format_is_read(mem: Any, tmp_path: Path) -> None:
    frame = polars.DataFrame({"city": ["Ulm", "東京"], "people": [126_000, 14_000_000]})
    frame.write_csv(tmp_path / "a.tsv", separator="\t")
    frame.write_json(tmp_path / "b.json")
    frame.write_ndjson(tmp_path / "c.jsonl")
    frame.write_parquet(tmp_path / "d.parquet")
    with pandas.ExcelWriter(tmp_path / "e.xlsx", engine="xlsxwriter") as book:
        frame.to_pandas().to_excel(book, sheet_name="Cities", index=False)
        frame.to_pandas().to_excel(book, sheet_name="More cities", index=False)
    with sqlite3.connect(tmp_path / "f.sqlite") as database:
        database.execute("CREATE TABLE city (name TEXT, people INTEGER)")
        database.execute("INSERT INTO city VALUES ('東京', 14000000)")
    tables = {
        path.suffix: [table.name for table in mem.source.add(path).tables] for path in sorted(tmp_path.glob("?.*"))
    }
    assert tables == {
        ".tsv": ["a"], ".json": ["b"], ".jsonl": ["c"], ".parquet": ["d"], ".xlsx": ["Cities", "More_cities"],
        ".sqlite": ["city"],
    }  # fmt: skip
    for name in ("a", "b", "c", "d", "Cities", "More_cities"):
        assert mem.query.run(f"SELECT max(people) FROM {name} WHERE city = '東京'").rows == [[14_000_000]], name


@pytest.mark.parametrize("library", [polars, pandas])
def test_a_data_frame_becomes_a_source(mem: Any, library: Any) -> None:
    frame = library.DataFrame({"region": ["north", "south"], "manager": ["Ann", "朱"]})
    source = mem.source.add(frame, name="managers")
    assert source.tables[0].rows == 2
    assert mem.query.run("SELECT manager FROM managers WHERE region = 'south'").rows == [["朱"]]
    assert mem.source.add(frame, name="managers").id == source.id


def test_content_may_be_sent_as_base64(mem: Any) -> None:
    sent = base64.b64encode(b"name,age\nAnn,3\nBob,4\n").decode()
    source = mem.source.add(base64=sent, name="people")
    assert source.tables[0].rows == 2


def test_likely_joins_are_found(mem: Any, sales: Path) -> None:
    mem.source.add(sales)
    mem.source.add(polars.DataFrame({"region": ["north", "south", "west"], "manager": ["A", "B", "C"]}), name="bosses")
    (join,) = mem.source.show("sales").tables[0].joins
    assert (join["column"], join["to_name"], join["to_column"]) == ("region", "bosses", "region")


def test_tables_of_the_same_name_have_names_of_their_own(mem: Any, sales: Path, tmp_path: Path) -> None:
    mem.user.add("Ann", id="ann")
    mem.source.add(sales)
    mem.source.add(write_sales(tmp_path / "other.csv", 10), name="sales", user="ann")
    names = sorted(table.name for source in mem.source.list() for table in source.tables)
    assert names == ["sales", "sales_sales"]
    assert mem.query.run("SELECT count(*) FROM sales_sales").rows == [[10]]
    assert mem.query.run("SELECT count(*) FROM sales", user="ann").rows == [[10]]


def test_removing_and_restoring(stored: Any, sales: Path) -> None:
    source = stored.source.add(sales)
    stored.source.remove("sales")
    assert not list(stored.source.list())
    with pytest.raises(InvalidInput, match="no sources"):
        stored.query.run("SELECT 1 FROM sales")
    assert [one.id for one in stored.source.list(removed=True)] == [source.id]
    stored.source.restore(source.id)
    assert stored.query.run("SELECT count(*) FROM sales").rows == [[1000]]


def test_deleting_for_good_leaves_no_record_and_no_byte(stored: Any, sales: Path) -> None:
    stored.source.add(sales)
    stored.source.add(polars.DataFrame({"kept": [1]}), name="kept")
    kept = {one.digest for one in stored._tenant.find(Query(StoredObject)).records if one.digest} - _of(stored, "sales")
    stored.source.remove("sales", for_good=True)
    assert _counts(stored) == {"source": 1, "table": 1, "field": 1, "object": 2, "source_version": 1}
    assert _objects(stored) == kept


def _of(mem: Any, name: str) -> set[str]:
    id = mem.source.show(name).id
    return {one.digest for one in mem._tenant.find(Query(StoredObject)).records if one.source_id == id}


def test_descriptions_are_kept_when_a_table_is_profiled_again(mem: Any, sales: Path) -> None:
    mem.source.add(sales)
    mem.source.revise("sales", tables={"sales": "what we sold"}, columns={"sales.amount": "in euro"})
    mem._tenant.transact([])
    shown = mem.source.profile("sales").tables[0]
    assert shown.description == "what we sold"
    assert next(field for field in shown.fields if field.name == "amount").description == "in euro"


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("empty.csv", b"", InvalidInput),
        ("noise.parquet", b"PAR1" + os.urandom(200), DamagedData),
        ("deep.json", b"[" * 100_000, InvalidInput),
    ],
)
def test_what_cannot_be_read_leaves_nothing(mem: Any, tmp_path: Path, name: str, content: bytes, error: Any) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises((error, DamagedData, InvalidInput)) as told:
        mem.source.add(path)
    assert told.value.remedy
    assert set(_counts(mem).values()) == {0}


def test_a_path_that_is_not_a_file_is_refused(mem: Any, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.csv"):
        with pytest.raises(InvalidInput, match="not a file"):
            mem.source.add(path)


def test_a_killed_upload_lists_nothing(tmp_path: Path) -> None:
    """Killed at many moments: either the whole source is there, or nothing of it is listed."""
    path = write_sales(tmp_path / "sales.csv", 30_000)
    code = f"import recollect; recollect.open({str(tmp_path / 'k.db')!r}, embedder='hash').source.add({str(path)!r})"
    recollect.open(tmp_path / "k.db", embedder="hash").close()
    for wait in (0.3, 0.6, 0.9, 1.2, 1.5):
        child = subprocess.Popen([sys.executable, "-c", code])
        time.sleep(wait)
        child.send_signal(signal.SIGKILL)
        child.wait()
    with recollect.open(tmp_path / "k.db", embedder="hash", background=False) as mem:
        for _source in mem.source.list():
            assert mem.query.run("SELECT count(*) FROM sales").rows == [[30_000]]
            assert mem._tenant.count(Query(Field)) == 4
        assert mem.source.add(path).tables[0].rows == 30_000
        assert not mem.verify().problems


def test_two_tenants_do_not_see_each_others_sources(mem: Any, sales: Path) -> None:
    source = mem.source.add(sales)
    other = mem.within("other")
    assert not list(other.source.list())
    for call in (lambda: other.source.show(source.id), lambda: other.query.run("SELECT * FROM sales")):
        with pytest.raises((NotFound, InvalidInput)):
            call()


def test_a_removed_source_is_deleted_for_good_when_it_can_no_longer_be_restored(sales: Path, tmp_path: Path) -> None:
    with recollect.open(tmp_path / "sweep.db", embedder="hash", background=False, restore_days=0) as mem:
        mem.source.add(sales)
        mem.source.remove("sales")
        assert mem.sweep(dry_run=True).removed == 1
        assert mem.sweep().removed == 1
        assert set(_counts(mem).values()) == {0}
        assert not _objects(mem)


def _swept_while(mem: Any, happens: Callable[[], object]) -> None:
    def rest() -> None:
        happens()

    sweep(mem._tenant, SweepRequest(), rest)


@pytest.mark.parametrize("happens", ["restored while it rests", "restored as it deletes", "held while it rests"])
def test_a_source_that_is_wanted_again_while_others_are_swept_stays(
    sales: Path, tmp_path: Path, happens: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recollect.open(tmp_path / "sweep.db", embedder="hash", background=False, restore_days=0) as mem:
        mem.project.add("Shop", id="shop")
        mem.user.add("Ann", id="ann")
        id = mem.source.add(sales, project="shop").id
        mem.source.remove(id)
        mem.user.remove("ann")
        if happens == "held while it rests":
            _swept_while(mem, lambda: mem.hold.place(project="shop", reason="a case"))
        elif happens == "restored while it rests":
            _swept_while(mem, lambda: mem.source.restore(id))
        else:
            deleted, once = delete_for_good, [True]

            def late(*given: Any, **more: Any) -> None:
                if once:
                    once.pop()
                    mem.source.restore(id)
                deleted(*given, **more)

            monkeypatch.setattr("recollect.services.admin.expiry.delete_for_good", late)
            assert mem.sweep().removed == 1
        kept = mem._tenant.get(Source, id, deleted=True)
        assert kept is not None
        assert kept.is_deleted == (happens == "held while it rests")


def test_deleting_a_source_for_good_deletes_the_rows_that_queries_kept_of_it(stored: Any, sales: Path) -> None:
    stored.source.add(sales)
    stored.source.add(polars.DataFrame({"kept": [1]}), name="kept")
    stored.query.run("SELECT region, amount FROM sales LIMIT 3")
    other = stored.query.run("SELECT * FROM kept").run
    stored.source.remove("sales", for_good=True)
    assert [one.run for one in stored.query.list()] == [other]


def test_joins_that_cannot_be_looked_for_do_not_fail_an_upload(
    mem: Any, sales: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mem.source.add(polars.DataFrame({"region": ["north"]}), name="bosses")

    def too_much(*given: Any, **named: Any) -> Any:
        raise TooLarge("too many columns", remedy="fewer")

    monkeypatch.setattr(mem._core.data_engine(), "joins", too_much)
    assert "too many columns" in mem.source.add(sales).notes[0]
    assert mem.query.run("SELECT count(*) FROM sales").rows == [[1000]]
