"""Traces: a span per request, operation and call of the store, in the caller's trace, without text or ids of persons;
nothing is imported where nobody asks for them."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

import recollect
from recollect.adapters.open_telemetry import OpenTelemetryTracing
from recollect.domain.access import PERMISSIONS
from recollect.interfaces.http.log_lines import JsonLines, TextLines
from recollect.interfaces.serve import application
from recollect.ports.records import Scope
from recollect.services.access import keys
from recollect.settings import Settings, wants_traces

TRACE = "0af7651916cd43dd8448eb211c80319c"
SECRET = "the-secret-is-xyzzy"


def asked(mem: Any, exporter: InMemorySpanExporter) -> list[Any]:
    """The spans of a few requests with a secret in them, two of them wrong."""
    tracing = OpenTelemetryTracing("1", exporter)
    tracing.watch(mem._core.store)
    core = replace(mem._core, tracing=tracing)
    key = keys.add_key(core.for_scope(Scope("default")), keys.AddKeyRequest(name="k", scopes=list(PERMISSIONS))).key
    with TestClient(application(core, Settings(server={"upkeep_seconds": 1e6})), base_url="http://localhost") as client:
        headers = {"authorization": f"Bearer {key}", "traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
        client.post("/v1/memories", json={"content": SECRET, "user": None}, headers=headers)
        assert client.post("/v1/recall", json={"query": SECRET}, headers=headers).status_code == 200
        assert client.get(f"/v1/memories/{SECRET}", headers=headers).status_code == 404
        assert client.get("/health").status_code == 200
    tracing.close()
    return list(exporter.get_finished_spans())


def test_a_request_is_a_span_in_its_callers_trace_with_operation_and_store_calls_below(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "x.db", embedder="hash", background=False) as mem:
        spans = asked(mem, InMemorySpanExporter())
    by_id = {span.context.span_id: span for span in spans}
    served = next(span for span in spans if span.name == "POST recall")
    assert f"{served.context.trace_id:032x}" == TRACE
    assert served.attributes["http.response.status_code"] == 200
    operation = next(span for span in spans if span.name == "recall")
    assert operation.parent.span_id == served.context.span_id
    below = [span for span in spans if span.parent and by_id.get(span.parent.span_id) is operation]
    assert {"store search_text"} <= {span.name for span in below}
    assert any(span.attributes.get("db.collection.name") == "memory" for span in below)
    assert not [span for span in spans if "health" in span.name]


def test_spans_hold_neither_text_nor_messages(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "x.db", embedder="hash", background=False) as mem:
        spans = asked(mem, InMemorySpanExporter())
    assert SECRET not in "".join(span.to_json() for span in spans)
    failed = next(span for span in spans if span.name == "show")
    assert failed.attributes["error.type"] == "not_found"
    assert not any(span.events for span in spans)


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, False),
    ],
)
def test_the_standard_variables_turn_traces_on(
    variables: dict[str, str], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert wants_traces() is wanted


def test_nothing_of_it_is_imported_when_it_is_off(tmp_path: Path) -> None:
    script = """
        import sys, recollect
        from recollect import app
        with recollect.open(sys.argv[1], embedder="hash") as mem:
            assert app.traced(mem._core) is mem._core
            mem.remember("a")
        assert not [name for name in sys.modules if name.startswith("opentelemetry")]
    """
    code = "\n".join(line[8:] for line in script.splitlines())
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.db")], check=True, timeout=60)


def test_the_log_is_a_line_per_request_as_text_or_json(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "recollect.requests")
    with recollect.open(tmp_path / "x.db", embedder="hash", background=False) as mem:
        asked(mem, InMemorySpanExporter())
    record = next(one for one in caplog.records if getattr(one, "facts", {}).get("operation") == "recall")
    line = json.loads(JsonLines().format(record))
    assert (line["operation"], line["status"], line["organization"]) == ("recall", 200, "default")
    assert line.keys() >= {"time", "level", "ms", "request_id", "method"}
    assert f"POST recall 200 in {line['ms']} ms request_id={line['request_id']}" in TextLines().format(record)
    for one in caplog.records:
        assert SECRET not in JsonLines().format(one) + TextLines().format(one)
