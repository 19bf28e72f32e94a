"""Charts as files: whole, with their caption, and with nothing loaded from anywhere."""

from __future__ import annotations

import http.server
import json
import re
import struct
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.adapters.charts import renderer
from recollect.adapters.charts.caption import with_caption
from recollect.adapters.charts.renderer import VegaChartRenderer
from recollect.domain.charts.chart import chart_of
from recollect.domain.charts.columns import ChartColumn
from recollect.domain.charts.themes import COLOURS
from recollect.errors import InvalidInput, MissingExtra, RecollectError, Unavailable

SQL = "select region, sum(amount) as revenue\nfrom sales\ngroup by 1 -- <b> & 'quotes'"


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    columns = [ChartColumn("region", "VARCHAR"), ChartColumn("revenue", "DOUBLE")]
    rows = [["north </text>", 5.0], ["华南", 6.0], ["الشرق", 1.0]]
    found = chart_of(columns, rows, title="Revenue <by> region", sql=SQL).spec
    assert found is not None
    return found


@pytest.fixture(scope="module")
def charts() -> VegaChartRenderer:
    return VegaChartRenderer()


def test_an_svg_has_the_chart_and_its_caption(charts: VegaChartRenderer, spec: dict[str, Any]) -> None:
    drawn = ElementTree.fromstring(charts.render(spec, "svg"))
    texts = [text.strip() for text in drawn.itertext() if text.strip()]
    assert {"Revenue <by> region", "north </text>", "华南", "3 rows", "from sales"} <= set(texts)
    assert texts[-1] == "group by 1 -- <b> & 'quotes'"


def test_a_png_is_twice_as_fine_as_the_svg(charts: VegaChartRenderer, spec: dict[str, Any]) -> None:
    svg, png = charts.render(spec, "svg").decode(), charts.render(spec, "png", theme="dark")
    width = re.search(r'<svg[^>]* width="(\d+)"', svg)
    assert width is not None
    assert png.startswith(b"\x89PNG")
    assert struct.unpack(">I", png[16:20])[0] == 2 * int(width[1])


def test_a_pdf_is_one(charts: VegaChartRenderer, spec: dict[str, Any]) -> None:
    assert charts.render(spec, "pdf").startswith(b"%PDF-")


def test_json_is_the_spec(charts: VegaChartRenderer, spec: dict[str, Any]) -> None:
    assert json.loads(charts.render(spec, "json")) == spec


def test_a_page_has_everything_in_it_and_allows_nothing_else(charts: VegaChartRenderer, spec: dict[str, Any]) -> None:
    page = charts.render(spec, "html").decode()
    assert "default-src 'none'" in page
    ours = page.replace(charts.javascript().decode(), "")
    assert len(ours) < 20_000
    assert not re.search(r"<(?:script|link|img|iframe)[^>]*\s(?:src|href)=", ours)
    assert page.count("</script>") == 2, "no value ends a script"
    assert "&lt;b&gt; &amp; &#x27;quotes&#x27;" in page
    assert charts.javascript() is charts.javascript(), "made once"


class _Listener(http.server.BaseHTTPRequestHandler):
    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'[{"x": 1, "y": 2}]')

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def listener() -> Iterator[str]:
    _Listener.asked.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Listener)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def _with_address(spec: dict[str, Any], address: str) -> list[dict[str, Any]]:
    image = {"mark": {"type": "image"}, "encoding": {"url": {"value": f"{address}/image.png"}}}
    data = {"url": f"{address}/data.json"}
    return [
        {**spec, "data": data, "layer": [{"mark": "bar", "encoding": {"x": {"field": "x"}}}]},
        {**spec, "layer": [image]},
    ]


def test_a_spec_with_an_address_is_refused_and_nothing_is_loaded(
    charts: VegaChartRenderer, spec: dict[str, Any], listener: str
) -> None:
    for hostile in _with_address(spec, listener):
        with pytest.raises(InvalidInput):
            charts.render(hostile, "png")
    assert _Listener.asked == []


def test_even_a_spec_that_was_not_checked_loads_nothing(
    spec: dict[str, Any], listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renderer, "check_spec", lambda spec: None)
    charts = VegaChartRenderer()
    for hostile in _with_address(spec, listener):
        try:
            charts.render(hostile, "png")
        except RecollectError as refused:
            assert isinstance(refused, Unavailable), "either it is drawn without, or not at all"  # noqa: PT017
    assert _Listener.asked == []


def test_a_file_is_not_read_into_a_chart(spec: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("x,y\nswordfish,3\n")
    monkeypatch.setattr(renderer, "check_spec", lambda spec: None)
    data = {"url": secret.as_uri(), "format": {"type": "csv"}}
    encoding = {"x": {"field": "x"}, "y": {"field": "y", "type": "quantitative"}}
    hostile = {**spec, "data": data, "layer": [{"mark": "bar", "encoding": encoding}]}
    assert b"swordfish" not in VegaChartRenderer().render(hostile, "svg")


def test_what_cannot_be_drawn_in_its_time_is_ended(spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderer, "_SECONDS", 0.01)
    with pytest.raises(Unavailable, match="too long"):
        VegaChartRenderer().render(spec, "svg")


def test_what_vega_refuses_is_an_error_with_a_remedy(spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderer, "check_spec", lambda spec: None)
    with pytest.raises(Unavailable) as refused:
        VegaChartRenderer().render({**spec, "layer": "nonsense"}, "svg")
    assert refused.value.remedy


def test_without_the_extra_the_remedy_says_what_to_install(
    spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renderer, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra) as missing:
        VegaChartRenderer().render(spec, "png")
    assert missing.value.remedy == "pip install 'recollect[data]'"
    assert VegaChartRenderer().render(spec, "json"), "which needs nothing"


def test_a_long_statement_is_cut_in_the_picture() -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="400" height="200"></svg>'
    drawn = with_caption(svg, "3 rows", "\n".join(f"line {n}\x00" for n in range(500)), COLOURS["light"])
    lines = list(ElementTree.fromstring(drawn).itertext())
    assert lines[-1] == "…"
    assert len(lines) < 20
