"""The pages about data as they are drawn: profiles, answers, and what is missing."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import recollect
from recollect.interfaces.http.console import data_pages
from recollect.interfaces.http.console.data_pages import (
    cell_text,
    column_profile,
    histogram_bars,
    top_values,
    value_text,
)
from recollect.interfaces.serve import application
from recollect.services.data.sources import FieldView
from recollect.settings import Settings

PASSWORD = "a few long words"


@pytest.fixture(scope="module")
def mem(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("data pages")
    with recollect.open(folder / "m.db", embedder="hash") as opened:
        maya, priya = (opened.user.add(name, email=f"{name}@example.com") for name in ("maya", "priya"))
        opened.user.revise(maya.id, role="owner", password=PASSWORD)
        opened.user.revise(priya.id, role="reader", password=PASSWORD)
        yield opened


def _entered(mem: Any, name: str) -> TestClient:
    client = TestClient(application(mem._core, Settings(server={"upkeep_seconds": 1e6})), "http://127.0.0.1")
    client.post("/console/sign-in", data={"email": f"{name}@example.com", "password": PASSWORD})
    return client


@pytest.fixture(scope="module")
def console(mem: Any) -> Iterator[TestClient]:
    with _entered(mem, "maya") as client:
        yield client


def test_without_sources_the_pages_say_what_to_do(console: TestClient) -> None:
    assert "Add a file, then ask questions about it" in console.get("/console/sources").text
    page = console.get("/console/ask").text
    assert "There is nothing to ask about yet" in page
    assert "data-ask" not in page


def test_an_unknown_source_or_run_is_a_page_with_its_status(console: TestClient) -> None:
    assert console.get("/console/sources/none").status_code == 404
    assert console.get("/console/ask?run=none").status_code == 404


def test_a_source_is_drawn_with_its_columns(mem: Any, console: TestClient, tmp_path: Path) -> None:
    file = tmp_path / "sales.csv"
    file.write_text("region,amount\n" + "".join(f"{'north' if n % 3 else 'south'},{n}\n" for n in range(90)))
    added = mem.source.add(str(file))
    page = console.get(f"/console/sources/{added.id}").text
    assert 'aria-label="Histogram of amount' in page
    assert "<bdi" in page
    assert ">60</span>" in page, "how often the most frequent value is there"
    run = mem.query.run("select region, sum(amount) as total from sales group by 1 order by 2", question="By region?")
    answer = console.get(f"/console/ask?run={run.run}").text
    assert '"recollect": {"kind": "bar"' in answer
    assert f'<a href="/console/sources/{added.id}">' in answer
    assert '"recollect": {"kind": "pie"' in console.get(f"/console/ask/answer?run={run.run}&kind=pie").text
    assert '"recollect": {"kind": "bar"' in console.get(f"/console/ask/answer?run={run.run}&kind=nonsense").text


def test_a_reader_may_ask_but_not_add(mem: Any, console: TestClient) -> None:
    with _entered(mem, "priya") as reader:
        sources, connections = reader.get("/console/sources").text, reader.get("/console/connections")
        assert "data-upload" not in sources
        assert reader.get("/console/ask").status_code == 200
        assert "data-add-connection" not in connections.text


def test_what_draws_charts_is_served_from_here(console: TestClient) -> None:
    script = console.get(f"/console/vega.js?v={data_pages.vega_version()}")
    assert script.headers["content-type"].startswith("text/javascript")
    assert "immutable" in script.headers["cache-control"]
    assert "window.vegaEmbed" in script.text
    assert console.get("/console/vega.js?v=old").headers["cache-control"] == "no-cache"
    stranger = TestClient(console.app, "http://127.0.0.1")
    assert stranger.get("/console/vega.js").status_code == 401


def test_without_the_package_the_page_draws_no_chart(
    mem: Any, console: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_pages, "vega_version", lambda: "")
    mem.source.add(base64=base64.b64encode(b"region\nnorth\nsouth\n").decode(), name="regions")
    run = mem.query.run("select region, count(*) as n from regions group by 1", question="How many?").run
    page = console.get(f"/console/ask?run={run}").text
    assert 'data-vega=""' in page
    assert "recollect[data]" in page
    assert "data-chart=" not in page


def test_the_api_paths_of_pages_are_those_of_the_catalogue(mem: Any, console: TestClient) -> None:
    mem.source.add(base64=base64.b64encode(b"a\n1\n").decode(), name="own table")
    run = mem.query.run("select 1 as a, 'x' as b from own_table", question="odd / id?").run
    assert f'data-post="/v1/queries/{run}/judge"' in console.get(f"/console/ask?run={run}").text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "empty"),
        (True, "yes"),
        (1234567, "1,234,567"),
        (2025, "2025"),
        (0.123456, "0.1235"),
        (12.5, "12.5"),
        ("2025-01-01T00:00:00", "2025-01-01"),
        ("", "(blank)"),
    ],
)
def test_values_are_worded_for_people(value: object, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        (None, "DOUBLE", None),
        (0.1 + 0.2, "DOUBLE", "0.3"),
        (2025, "BIGINT", "2025"),
        (True, "BOOLEAN", "yes"),
        ("2025-01-01T00:00:00", "TIMESTAMP", "2025-01-01"),
        ("2025-01-01T10:30:00", "TIMESTAMP", "2025-01-01 10:30:00"),
        ("aTb", "VARCHAR", "aTb"),
        ({"a": ["é"]}, "STRUCT(a VARCHAR[])", '{"a": ["é"]}'),
    ],
)
def test_cells_are_shown_as_they_are(value: object, type: str, text: str | None) -> None:
    assert cell_text(value, type) == text


def test_bars_of_a_histogram_fill_their_box() -> None:
    bars = histogram_bars([{"low": 0, "high": 5, "count": 100}, {"low": 5, "high": 10, "count": 1}])
    assert [(bar.x, bar.height) for bar in bars] == [(0.0, 100.0), (50.0, 3.0)], "what is not empty can be seen"
    assert bars[1].label == "5 to 10: 1"
    assert histogram_bars([{"low": 0, "high": 0, "count": 9}]) == histogram_bars(None) == []


def test_top_values_are_the_first_few() -> None:
    found = top_values([{"value": n, "count": 10 - n} for n in range(9)])
    assert [(one.text, one.amount, one.share) for one in found][:2] == [("0", 10, 100.0), ("1", 9, 90.0)]
    assert len(found) == data_pages.TOP_VALUES


def test_a_column_without_statistics_is_drawn_too() -> None:
    found = column_profile(FieldView(name="a", type="VARCHAR"))
    assert (found.facts, found.bars, found.values, found.filled) == ([], [], [], 0.0)


def test_ids_have_no_mean() -> None:
    statistics = {"rows": 9, "nulls": 0, "distinct": 9, "min": 1, "max": 9, "mean": 5.0, "quantiles": [1, 2, 5, 8, 9]}
    named = column_profile(FieldView(name="id", type="BIGINT", meaning="id", statistics=statistics))
    measured = column_profile(FieldView(name="n", type="BIGINT", meaning="number", statistics=statistics))
    assert [name for name, _ in named.facts] == ["distinct", "range"]
    assert [name for name, _ in measured.facts] == ["distinct", "range", "mean", "median"]
