"""Data over HTTP: files stream in as they are or in a form, within limits, and beside other requests."""

from __future__ import annotations

import base64
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars
import pytest
from starlette.testclient import TestClient

import recollect
from recollect.domain.access import PERMISSIONS
from recollect.errors import InvalidInput
from recollect.interfaces.serve import application
from recollect.ports.records import Scope
from recollect.services.access import keys as access
from recollect.settings import Settings
from serving import served

SALES = b"region,amount\nNorth,10\nSouth,20\nNorth,5\n"
RAW = {"content-type": "application/octet-stream"}


@pytest.fixture
def mem(tmp_path: Path, one_engine: None) -> Iterator[Any]:
    with recollect.open(tmp_path / "s.db", embedder="hash", background=False) as mem:
        yield mem


def client(mem: Any, organization: str = "default", scopes: tuple[str, ...] = PERMISSIONS, **core: Any) -> TestClient:
    request = access.AddKeyRequest(name="all", scopes=list(scopes))
    key = access.add_key(mem._core.for_scope(Scope(organization)), request).key
    app = application(replace(mem._core, **core), Settings(server={"upkeep_seconds": 1e6, "most_body_bytes": 10_000}))
    made = TestClient(app, "http://127.0.0.1", raise_server_exceptions=False, client=("127.0.0.1", 50000))
    made.headers["authorization"] = f"Bearer {key}"
    return made


@pytest.fixture
def service(mem: Any) -> Iterator[TestClient]:
    with client(mem) as made:
        yield made


def told(answer: Any, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json() if status < 400 else answer.json()["error"]


def rows_of(service: TestClient, sql: str) -> Any:
    return told(service.post("/v1/queries", json={"sql": sql}))["rows"]


@pytest.mark.parametrize("sent_as", ["application/octet-stream", "text/csv", "text/plain; charset=utf-8", None])
def test_a_file_is_added_as_it_is(service: TestClient, sent_as: str | None) -> None:
    headers = {"content-type": sent_as} if sent_as else {}
    added = told(service.post("/v1/sources?path=sales.csv&description=by+region", content=SALES, headers=headers))
    assert added["name"] == "sales"
    assert added["is_new"]
    assert added["description"] == "by region"
    assert [(table["name"], table["rows"]) for table in added["tables"]] == [("sales", 3)]
    assert rows_of(service, "select region, sum(amount) from sales group by 1 order by 1") == [
        ["North", 15],
        ["South", 20],
    ]
    again = told(service.post("/v1/sources?path=sales.csv", content=SALES, headers=headers))
    assert again["id"] == added["id"]
    assert not again["is_new"]


def test_a_file_larger_than_a_json_body_is_streamed_in(service: TestClient) -> None:
    lines = b"n\n" + b"".join(b"%d\n" % number for number in range(20_000))
    assert len(lines) > 100_000  # ten times the limit of other bodies

    def parts() -> Iterator[bytes]:
        for start in range(0, len(lines), 7_000):
            yield lines[start : start + 7_000]

    added = told(service.post("/v1/sources?path=numbers.csv", content=parts(), headers=RAW))
    assert added["tables"][0]["rows"] == 20_000


def test_a_form_sends_a_file_with_its_fields(service: TestClient) -> None:
    sent = service.post("/v1/sources", files={"file": ("Umsätze 2025.csv", SALES)}, data={"description": "eins"})
    added = told(sent)
    assert (added["name"], added["description"]) == ("Umsätze 2025", "eins")
    assert told(service.post("/v1/sources", files={"other": ("a.csv", SALES)}), 422)["remedy"].startswith("send it in")
    two = [("file", ("a.csv", SALES)), ("file", ("b.csv", SALES))]
    assert "Too many files" in told(service.post("/v1/sources", files=two), 422)["message"]
    broken = {"content-type": "multipart/form-data; boundary=x"}
    assert told(service.post("/v1/sources", content=b"--y\r\n", headers=broken), 422)["code"] == "invalid_input"
    assert told(service.post("/v1/sources", content=b"", headers={"content-type": "multipart/form-data"}), 422)


def test_json_with_base64_still_works_and_a_path_of_the_service_does_not(service: TestClient) -> None:
    fields = {"base64": base64.b64encode(SALES).decode(), "path": "sales.csv"}
    assert told(service.post("/v1/sources", json=fields))["tables"][0]["rows"] == 3
    assert "machine of the service" in told(service.post("/v1/sources", json={"path": "/etc/passwd"}), 422)["message"]


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "..",
        "",
        "/",
        "a\\b\\c.csv",
        "pass\x00wd/sales.csv",
        ".hidden",
        "x" * 3000 + ".csv",
        "销售.csv",
    ],
)
def test_a_name_is_only_what_the_file_is_called(service: TestClient, name: str) -> None:
    added = told(service.post("/v1/sources", params={"path": name}, content=SALES, headers=RAW))
    assert added["tables"][0]["rows"] == 3
    assert "/" not in added["name"]
    assert "\\" not in added["name"]
    assert len(added["name"]) <= 255


def test_a_file_over_the_limit_is_refused_while_it_arrives(mem: Any) -> None:
    seen: list[int] = []

    def parts() -> Iterator[bytes]:
        for number in range(1000):
            seen.append(number)
            yield b"x" * 1000

    with client(mem, data_file_bytes=5_000) as service:
        for body in (b"x" * 5_001, parts()):
            refused = told(service.post("/v1/sources?path=a.csv", content=body, headers=RAW), 413)
            assert refused["code"] == "too_large"
            assert "5,000" in refused["message"]
        in_form = service.post("/v1/sources", files={"file": ("a.csv", b"x" * 6_000)})
        assert told(in_form, 413)["code"] == "too_large"
        assert told(service.get("/v1/sources"))["sources"] == []


def test_fields_are_checked_before_a_file_is_received(service: TestClient) -> None:
    for asked in ("base64=YQ==", "colour=red", "profile=half", "path=a.csv&path=b.csv", "limit=3"):
        assert told(service.post(f"/v1/sources?{asked}", content=SALES, headers=RAW), 422)["code"] == "invalid_input"
    assert told(service.post("/v1/sources?path=a.csv", content=b"", headers=RAW), 422)["remedy"]


def test_only_who_may_write_may_add_and_nobody_sees_what_another_organization_added(mem: Any) -> None:
    with client(mem) as own, client(mem, scopes=("read",)) as reader:
        told(own.post("/v1/sources?path=sales.csv", content=SALES, headers=RAW))
        assert told(reader.post("/v1/sources?path=a.csv", content=SALES, headers=RAW), 403)["code"] == "denied"
        assert told(reader.get("/v1/sources/sales"))["name"] == "sales"
        own.headers.pop("authorization")
        assert told(own.post("/v1/sources?path=a.csv", content=SALES, headers=RAW), 401)["code"] == "unauthenticated"
    mem.within("other")
    with client(mem, "other") as other:
        assert told(other.get("/v1/sources"))["sources"] == []
        assert told(other.get("/v1/sources/sales"), 404)["code"] == "not_found"
        assert told(other.post("/v1/queries", json={"sql": "select * from sales"}), 422)["code"] == "invalid_input"


def test_memories_are_answered_while_every_data_thread_is_at_work(mem: Any) -> None:
    with client(mem) as service:
        app: Any = service.app
        data, free = app.state.service, threading.Event()
        for _ in range(data.settings.threads):
            data.data_threads.submit(free.wait)
        try:
            assert told(service.get("/v1/memories"))["memories"] == []
            assert told(service.post("/v1/memories", json={"content": "still here"}))["id"]
        finally:
            free.set()


def test_openapi_lists_how_files_are_sent(service: TestClient) -> None:
    described = told(service.get("/openapi.json"))["paths"]["/v1/sources"]["post"]
    assert set(described["requestBody"]["content"]) == {
        "application/json", "application/octet-stream", "multipart/form-data",
    }  # fmt: skip
    assert "path" in [one["name"] for one in described["parameters"]]


def test_the_client_uploads_files_and_data_frames_of_its_own_machine(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "sales.csv").write_bytes(SALES)
    with served(tmp_path) as (url, key), recollect.connect(url, key=key) as mem:
        seen: list[tuple[int, int]] = []
        added = mem.call("source.add", path=here / "sales.csv", progress=lambda done, of: seen.append((done, of)))
        assert (added.name, added.tables[0].rows) == ("sales", 3)
        assert seen[-1] == (len(SALES), len(SALES))
        frame = polars.DataFrame({"region": ["North", "South"], "manager": ["Ann", "李雷"]})
        assert mem.source.add(frame, name="managers").tables[0].rows == 2
        assert mem.source.add(frame.to_arrow(), name="managers").is_new is False
        added = mem.source.add(frame.to_pandas().head(1), name="again")
        assert [field.name for field in added.tables[0].fields] == ["region", "manager"]
        found = mem.query.run(
            "select manager, sum(amount) as total from sales join managers using (region) group by 1 order by 1",
            sources=["sales", "managers"],
        )
        assert found.rows == [["Ann", 15], ["李雷", 20]]
        assert found.to_polars()["total"].to_list() == [15, 20]
        for wrong in (here / "none.csv", here):
            with pytest.raises(InvalidInput, match="cannot read"):
                mem.source.add(wrong)
        with pytest.raises(InvalidInput, match="give one file"):
            mem.source.add()


def test_results_and_charts_are_downloaded_as_files(service: TestClient, tmp_path: Path) -> None:
    told(service.post("/v1/sources?path=sales.csv", content=SALES, headers=RAW))
    sql = "select region, sum(amount) as total from sales group by 1 order by 1"
    run = told(service.post("/v1/queries", json={"sql": sql}))["run"]
    wanted = {"accept": "application/octet-stream"}
    got = service.post("/v1/queries/export", json={"run": run, "format": "csv"}, headers=wanted)
    assert (got.status_code, got.text.splitlines()[1:]) == (200, ["North,15", "South,20"])
    assert got.headers["content-disposition"] == 'attachment; filename="result.csv"'
    assert (got.headers["x-recollect-rows"], got.headers["x-content-type-options"]) == ("2", "nosniff")
    whole = service.post("/v1/queries/export", json={"sql": "select * from sales", "format": "parquet"}, headers=wanted)
    assert whole.content[:4] == b"PAR1"
    assert not list(Path(tempfile.gettempdir()).glob("recollect-export-*"))
    as_json = told(service.post("/v1/queries/export", json={"run": run}))
    assert base64.b64decode(as_json["base64"]).startswith(b"region,total")
    svg = service.post(f"/v1/queries/{run}/chart", json={}, headers=wanted)
    assert svg.content.startswith(b"<svg")
    assert svg.headers["content-disposition"] == 'attachment; filename="chart.svg"'
    png = service.post(f"/v1/queries/{run}/chart", json={"format": "png"}, headers=wanted)
    assert png.content[:4] == b"\x89PNG"
    for path, fields in (
        ("/v1/queries/export", {"run": run, "path": str(tmp_path / "here.csv")}),
        ("/v1/queries/export", {"run": run, "sql": sql}),
        (f"/v1/queries/{run}/chart", {"path": str(tmp_path / "here.svg")}),
    ):
        assert told(service.post(path, json=fields, headers=wanted), 422)["code"] == "invalid_input"
    assert told(service.post("/v1/queries/export", json={"run": "none"}, headers=wanted), 404)
    assert not list(tmp_path.glob("here.*"))


def test_the_client_downloads_results_and_charts_into_files_of_its_own(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "sales.csv").write_bytes(SALES)
    with served(tmp_path) as (url, key), recollect.connect(url, key=key) as mem:
        mem.source.add(here / "sales.csv")
        run = mem.query.run("select region, sum(amount) as total from sales group by 1 order by 1").run
        assert run is not None
        saved = mem.query.export(run, path=str(here / "r.parquet"))
        assert (saved.rows, saved.bytes, saved.format) == (2, (here / "r.parquet").stat().st_size, "parquet")
        assert polars.read_parquet(here / "r.parquet")["total"].to_list() == [15, 20]
        assert mem.query.export(run, format="csv").base64
        drawn = mem.query.chart(run, path=str(here / "r.png"))
        assert (drawn.path, drawn.base64) == (str(here / "r.png"), None)
        assert (here / "r.png").read_bytes()[:4] == b"\x89PNG"
        with pytest.raises(InvalidInput, match="cannot write"):
            mem.query.export(run, path=str(here / "none" / "r.csv"))
        with pytest.raises(InvalidInput, match="not a format"):
            mem.query.export(run, path=str(here / "r.doc"))
