"""The figures of the service, for Prometheus. Never stored text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Figures by operation and status, so there are as many series as the catalogue allows, whatever is asked for."""

    def __init__(self, requests_inside: Callable[[], float]) -> None:
        disable_created_metrics()  # a time for each series, which nobody asked for
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "recollect_requests", "Requests by operation and status.", ("operation", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "recollect_request_seconds", "How long requests took.", ("operation",),
            registry=self._registry, buckets=BOUNDS,
        )  # fmt: skip
        inside = Gauge(
            "recollect_requests_inside", "Requests that are worked on or wait for it.", registry=self._registry
        )
        inside.set_function(requests_inside)
        self._background = Counter(
            "recollect_background_runs", "Background work by task and result.", ("task", "result"),
            registry=self._registry,
        )  # fmt: skip
        self._last_backup = Gauge(
            "recollect_last_backup_timestamp_seconds", "When the last good backup was made; 0 if none was.",
            registry=self._registry,
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
