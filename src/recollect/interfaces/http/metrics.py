"""The figures of the service, for Prometheus. Never stored text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class RequestsInside(Collector):
    """How many requests there are right now."""

    def __init__(self, requests_inside: Callable[[], float]) -> None:
        self._requests_inside = requests_inside

    def collect(self) -> Iterable[Metric]:
        told = "Requests that are worked on or wait for it."
        yield GaugeMetricFamily("recollect_requests_inside", told, self._requests_inside())


class Metrics:
    """Figures by operation and status, so there are as many series as the catalogue allows, whatever is asked for.

    With a `folder`, those of all workers: each writes its own into files there, and whichever is asked adds them up.
    `present` are figures of this moment, read when they are asked for.
    """

    def __init__(self, present: Collector, folder: Path | None = None) -> None:
        disable_created_metrics()  # a time for each series, which nobody asked for
        own = CollectorRegistry()
        self._registry = own if folder is None else CollectorRegistry()
        if folder is not None:
            MultiProcessCollector(self._registry, str(folder))
        self._registry.register(present)
        self._requests = Counter(
            "recollect_requests", "Requests by operation and status.", ("operation", "status"), registry=own
        )
        self._seconds = Histogram(
            "recollect_request_seconds", "How long requests took.", ("operation",), registry=own, buckets=BOUNDS
        )
        self._background = Counter(
            "recollect_background_runs", "Background work by task and result.", ("task", "result"), registry=own
        )
        self._last_backup = Gauge(
            "recollect_last_backup_timestamp_seconds", "When the last good backup was made; 0 if none was.",
            registry=own, multiprocess_mode="max",
        )  # fmt: skip

    def count(self, operation: str, status: int, seconds: float) -> None:
        self._requests.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

    def count_background(self, task: str, is_done: bool) -> None:
        self._background.labels(task, "done" if is_done else "failed").inc()

    def note_backup(self, made_at: datetime | None) -> None:
        self._last_backup.set(made_at.timestamp() if made_at is not None else 0)

    def page(self) -> bytes:
        """In the text format that Prometheus reads."""
        return generate_latest(self._registry)
