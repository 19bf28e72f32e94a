"""Traces by OpenTelemetry: a span per request, per operation and per call of the store.

Where they are sent, and how many, is said by the standard variables of the environment (OTEL_EXPORTER_OTLP_ENDPOINT,
OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER and so on). A span has the name of the operation, the codes of errors and the
tables that are read; never stored text, nor ids. (tests/interfaces/http/test_tracing.py)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from recollect.errors import MissingExtra, RecollectError
from recollect.ports.query import Query, TextQuery
from recollect.ports.records import RecordStore
from recollect.ports.tracing import Span

try:
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.propagate import extract
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
except ImportError:
    raise MissingExtra("OpenTelemetry is not installed", remedy="pip install 'recollect[telemetry]'") from None

if TYPE_CHECKING:
    from opentelemetry.trace import Span as OpenTelemetrySpan

VERBS = ("get", "find", "select", "select_each", "count", "count_by", "beside", "transact", "search_text", "changes")


class OpenTelemetryTracing:
    """Fills `ports/tracing.py:Tracing`. Without an exporter of their own, spans are sent over OTLP."""

    def __init__(self, version: str, exporter: SpanExporter | None = None) -> None:
        resource = Resource.create({SERVICE_NAME: "recollect", "service.version": version})  # the environment wins
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("recollect", version)

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        started = self._tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False)
        with started as span, _errors_of(span):
            yield

    @contextmanager
    def request(self, name: str, method: str, headers: Mapping[str, str]) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            f"{method} {name}", extract(dict(headers)), trace.SpanKind.SERVER,
            {"http.request.method": method, "recollect.operation": name},
            record_exception=False, set_status_on_exception=False,
        ) as span:  # fmt: skip
            yield _Noted(span)

    def watch(self, store: RecordStore) -> None:
        for verb in VERBS:
            setattr(store, verb, self._watched(verb, getattr(store, verb), store.capabilities.name))

    def _watched(self, verb: str, call: Callable[..., object], system: str) -> Callable[..., object]:
        def watched(*given: object, **named: object) -> object:
            attributes = {"db.system.name": system, "db.operation.name": verb}
            if tables := sorted({_table(one) for one in given} - {""}):
                attributes["db.collection.name"] = ", ".join(tables)
            with self._tracer.start_as_current_span(
                f"store {verb}", kind=trace.SpanKind.CLIENT, attributes=attributes,
                record_exception=False, set_status_on_exception=False,
            ) as span, _errors_of(span):  # fmt: skip
                return call(*given, **named)

        return watched

    def close(self) -> None:
        self._provider.shutdown()


class _Noted:
    def __init__(self, span: OpenTelemetrySpan) -> None:
        self._span = span

    def note(self, name: str, value: str | int | float | bool) -> None:
        self._span.set_attribute(name, value)


@contextmanager
def _errors_of(span: OpenTelemetrySpan) -> Iterator[None]:
    """The code of an error; its message may hold what was asked."""
    try:
        yield
    except RecollectError as error:
        span.set_attribute("error.type", error.code)
        span.set_status(trace.StatusCode.ERROR)
        raise


def _table(given: object) -> str:
    record = given.record if isinstance(given, Query | TextQuery) else given
    shape = getattr(record, "shape", None)
    return str(shape.table) if shape is not None else ""
