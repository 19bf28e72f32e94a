"""Queries over sources: run, kept, listed, cut, cancelled; on every record store."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.sources import QueryRun
from recollect.errors import Cancelled, InvalidInput, NotFound, OnLegalHold
from recollect.ports.steps import Insert
from recollect.services.transaction import made


def test_a_query_is_run_and_kept_with_what_it_rests_on(stored: Any, sales: Path) -> None:
    source = stored.source.add(sales)
    reply = stored.query.run("SELECT region, sum(amount) AS total FROM sales GROUP BY 1 ORDER BY 1")
    assert reply.rows == [["north", 250_249.5], ["south", 249_250.5], ["west", 249_750.0]]
    assert (reply.row_count, reply.is_cut) == (3, False)
    (state,) = reply.sources
    assert (state.id, state.version, state.hash) == (source.id, 1, source.hash)
    shown = stored.query.show(reply.run)
    assert (shown.rows, shown.hash, shown.verdict) == (reply.rows, reply.hash, "unjudged")
    assert [one.run for one in stored.query.list()] == [reply.run]


def test_a_star_means_the_columns_of_the_file_and_no_other(mem: Any, sales: Path, tmp_path: Path) -> None:
    mem.source.add(sales)
    done = mem.query.run("SELECT * FROM sales LIMIT 1")
    assert [column.name for column in done.columns] == ["id", "region", "amount", "day"]
    (tmp_path / "other.csv").write_text("code\nx\ny\n")
    assert mem.source.add(tmp_path / "other.csv").tables[0].joins == []


def test_rows_over_the_limit_are_cut_and_it_is_said(mem: Any, sales: Path) -> None:
    mem.source.add(sales)
    reply = mem.query.run("SELECT * FROM sales", limit=10)
    assert (len(reply.rows), reply.is_cut, reply.row_count) == (10, True, 1000)


def test_the_hash_is_of_the_result_whatever_its_order(mem: Any, sales: Path) -> None:
    mem.source.add(sales)
    one = mem.query.run("SELECT id FROM sales ORDER BY id")
    other = mem.query.run("SELECT id FROM sales ORDER BY id DESC")
    fewer = mem.query.run("SELECT id FROM sales WHERE id > 0")
    assert one.hash == other.hash != fewer.hash


def test_only_listed_sources_can_be_read(mem: Any, sales: Path, tmp_path: Path) -> None:
    mem.source.add(sales)
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with pytest.raises(NotFound, match="no table"):
        mem.query.run("SELECT * FROM nothing")
    for sql in (f"SELECT * FROM read_csv('{secret}')", f"SELECT * FROM '{secret}'", "COPY sales TO 'x.csv'"):
        with pytest.raises((InvalidInput, NotFound)):
            mem.query.run(sql)


def test_results_become_tables_of_other_libraries(mem: Any, sales: Path) -> None:
    mem.source.add(sales)
    reply = mem.query.run("SELECT region, amount, day, id > 5 AS big FROM sales ORDER BY id LIMIT 3")
    table = reply.to_arrow()
    assert [str(field.type) for field in table.schema] == ["string", "double", "date32[day]", "bool"]
    assert reply.to_polars().shape == (3, 4)
    assert list(reply.to_pandas().columns) == ["region", "amount", "day", "big"]


def test_a_query_can_be_cancelled(mem: Any, sales: Path) -> None:
    mem.source.add(sales)
    told: list[Exception] = []
    started = threading.Event()

    def run() -> None:
        started.set()
        try:
            mem.query.run("SELECT count(*) FROM sales a, sales b, sales c, sales d WHERE a.id + b.id > c.id", job="j")
        except Exception as error:  # noqa: BLE001 - looked at below
            told.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    assert not mem.within(actor="somebody else").query.cancel("j").cancelled
    while thread.is_alive() and not mem.query.cancel("j").cancelled:
        thread.join(0.05)
    thread.join()
    assert isinstance(told[0], Cancelled)
    assert not list(mem.query.list())
    assert not mem.within("other").query.cancel("j").cancelled


def test_a_removed_query_leaves_neither_record_nor_row(mem: Any, sales: Path, tmp_path: Path) -> None:
    mem.source.add(str(sales))
    run = mem.query.run("select *, 'a planted marker' as m from sales").run
    kept = mem.query.run("select 1 from sales").run
    assert (mem.query.remove(run).deleted, [one.run for one in mem.query.list().runs]) == (1, [kept])
    for gone in (run, "never there"):
        with pytest.raises(NotFound):
            mem.query.show(gone)
        with pytest.raises(NotFound, match="there is no query"):
            mem.query.remove(gone)
    with pytest.raises(NotFound):
        mem.within("other").query.remove(kept)


def test_a_query_of_somebody_on_legal_hold_stays(mem: Any, sales: Path) -> None:
    mem.source.add(str(sales))
    mem.user.add("Ann", id="ann")
    run = mem.query.run("select 1 from sales").run
    assert mem.query.remove(run).deleted == 1
    held = made(QueryRun, mem._tenant, question="", sql="select 1", user_id="ann")
    mem._tenant.transact([Insert(held)])
    hold = mem.hold.place(user="ann", reason="a lawsuit").id
    with pytest.raises(OnLegalHold):
        mem.query.remove(held.id)
    mem.hold.release(hold, reason="it is settled")
    assert mem.query.remove(held.id).deleted == 1
