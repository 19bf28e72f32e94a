"""Results leave as files: whole, in every format, on the caller's own machine or streamed; and charts of them."""

from __future__ import annotations

import base64
import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from recollect.domain.sources import QueryRun
from recollect.errors import InvalidInput, NotFound, TooLarge
from recollect.ports.records import Scope
from recollect.services.data import exports
from recollect.services.data.charts import ChartQueryRequest, chart_query
from recollect.services.data.exports import MEDIA_TYPES, ExportQueryRequest, export_query, exported

BY_REGION = "select region, sum(amount) as total from sales group by 1 order by 1"


@pytest.fixture
def run(mem: Any, tmp_path: Path) -> str:
    (tmp_path / "sales.csv").write_text("region,amount\nnorth,10\n南方,20\n", encoding="utf-8")
    mem.source.add(str(tmp_path / "sales.csv"))
    return str(mem.query.run(BY_REGION, question="Revenue by region").run)


def over_the_network(mem: Any) -> Any:
    return mem._core.for_scope(Scope(mem.organization, "bob", granted=frozenset({"read"})))


@pytest.mark.parametrize("format", MEDIA_TYPES)
def test_every_format_is_written_whole(mem: Any, run: str, format: str, tmp_path: Path) -> None:
    target = tmp_path / f"out.{format}"
    reply = mem.query.export(run, path=str(target))
    assert (reply.rows, reply.format, reply.path) == (2, format, str(target))
    assert reply.bytes == target.stat().st_size > 0
    assert [one.name for one in tmp_path.iterdir() if "out" in one.name] == [target.name]


def test_what_is_in_the_files(mem: Any, run: str, tmp_path: Path) -> None:
    mem.query.export(run, path=str(tmp_path / "a.csv"))
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == [{"region": "north", "total": "10"}, {"region": "南方", "total": "20"}]
    mem.query.export(sql=BY_REGION, format="parquet", path=str(tmp_path / "a.bin"))
    assert pyarrow.parquet.read_table(tmp_path / "a.bin").column("region").to_pylist() == ["north", "南方"]


def test_without_a_path_the_content_is_in_the_reply(mem: Any, run: str) -> None:
    reply = mem.query.export(run, format="json")
    assert [row["region"] for row in json.loads(base64.b64decode(reply.base64))] == ["north", "南方"]
    assert mem.query.export(run).format == "csv"


def test_what_is_too_large_for_a_reply_says_what_to_do(mem: Any, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "MOST_IN_A_REPLY", 10)
    with pytest.raises(TooLarge, match="give a path"):
        mem.query.export(run)


def test_a_file_to_stream_from_is_gone_afterwards(mem: Any, run: str) -> None:
    with exported(over_the_network(mem), ExportQueryRequest(run=run, format="csv")) as file:
        assert (file.rows, file.media_type) == (2, "text/csv")
        assert file.path.read_text(encoding="utf-8").startswith("region,total")
    assert not file.path.exists()


def test_over_the_network_no_file_of_the_service_is_written(mem: Any, run: str, tmp_path: Path) -> None:
    tenant = over_the_network(mem)
    with pytest.raises(InvalidInput, match="machine of the service"):
        export_query(tenant, ExportQueryRequest(run=run, path=str(tmp_path / "a.csv")))
    with pytest.raises(InvalidInput, match="machine of the service"):
        chart_query(tenant, ChartQueryRequest(run=run, path=str(tmp_path / "a.svg")))
    assert not list(tmp_path.glob("a.*"))


@pytest.mark.parametrize(
    "given", [{}, {"sql": "select 1", "run": "x"}, {"sql": "select 1", "path": "a.doc"}, {"sql": "drop table sales"}]
)
def test_what_cannot_be_exported_is_refused(mem: Any, run: str, given: dict[str, str], tmp_path: Path) -> None:
    fields = {**given, **({"path": str(tmp_path / given["path"])} if "path" in given else {})}
    with pytest.raises(InvalidInput):
        mem.query.export(**fields)


def test_a_folder_that_is_not_there_and_anothers_run_are_refused(mem: Any, run: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot write"):
        mem.query.export(run, path=str(tmp_path / "nowhere" / "a.csv"))
    with pytest.raises(NotFound):
        mem.within("rival").query.export(run)
    with pytest.raises(NotFound):
        mem.within("rival").query.chart(run)


def test_a_failing_query_leaves_the_old_file(mem: Any, run: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("before")
    with pytest.raises(NotFound):
        mem.query.export(sql="select nothing from sales", path=str(tmp_path / "a.csv"))
    assert (tmp_path / "a.csv").read_text() == "before"


def test_a_chart_is_kept_with_its_run(mem: Any, run: str) -> None:
    reply = mem.query.chart(run)
    assert (reply.kind, reply.reason) == ("bar", "")
    assert mem._tenant.get(QueryRun, run).chart == reply.spec
    assert mem.query.show(run).chart == reply.spec
    pie = mem.query.chart(run, "pie")
    assert mem.query.show(run).chart == pie.spec
    with pytest.raises(InvalidInput, match="line chart"):
        mem.query.chart(run, "line")


def test_a_chart_as_a_file(mem: Any, run: str, tmp_path: Path) -> None:
    written = mem.query.chart(run, path=str(tmp_path / "revenue.svg"))
    assert (tmp_path / "revenue.svg").read_text(encoding="utf-8").startswith("<svg")
    assert written.path == str(tmp_path / "revenue.svg")
    drawn = mem.query.chart(run, format="json")
    assert json.loads(base64.b64decode(drawn.base64))["title"]
    with pytest.raises(InvalidInput, match="not a format of charts"):
        mem.query.chart(run, path=str(tmp_path / "revenue.doc"))


def test_what_cannot_be_drawn_says_why(mem: Any, run: str, tmp_path: Path) -> None:
    names = mem.query.run("select region from sales").run
    reply = mem.query.chart(names, path=str(tmp_path / "names.svg"))
    assert (reply.spec, reply.path) == (None, None)
    assert reply.reason


def test_a_chart_of_a_long_result_reads_more_rows_than_were_kept(mem: Any, run: str) -> None:
    counting = "with recursive t(n) as (select 1 union all select n + 1 from t where n < 1500)"
    long = mem.query.run(f"{counting} select n, n * n as square from t, sales where region = 'north'").run
    assert len(mem.query.show(long).rows) == 200
    spec = mem.query.chart(long, "scatter").spec
    assert spec["usermeta"]["recollect"]
    assert len(json.dumps(spec)) > 1500 * 10
