"""What the service tells about itself: figures for Prometheus and one JSON line a request. Never stored text."""

from __future__ import annotations

import json
import logging
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
log = logging.getLogger("recollect.requests")


class Metrics:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))
        self._seconds: Counter[str] = Counter()

    def count(self, operation: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[operation, status] += 1
            self._buckets[operation][bisect_left(BOUNDS, seconds)] += 1
            self._seconds[operation] += seconds  # type: ignore[assignment]

    def page(self, gauges: Mapping[str, float]) -> str:
        """In the text format that Prometheus reads."""
        with self._lock:
            return "\n".join([*self._lines(), *_gauges(gauges)]) + "\n"

    def _lines(self) -> Iterator[str]:
        yield "# HELP recollect_requests_total Requests by operation and status."
        yield "# TYPE recollect_requests_total counter"
        for (operation, status), count in sorted(self._requests.items()):
            yield f'recollect_requests_total{{operation="{operation}",status="{status}"}} {count}'
        yield "# HELP recollect_request_seconds How long requests took."
        yield "# TYPE recollect_request_seconds histogram"
        for operation, buckets in sorted(self._buckets.items()):
            total = 0
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), buckets, strict=True):
                total += count
                yield f'recollect_request_seconds_bucket{{operation="{operation}",le="{bound}"}} {total}'
            yield f'recollect_request_seconds_sum{{operation="{operation}"}} {self._seconds[operation]:.6f}'
            yield f'recollect_request_seconds_count{{operation="{operation}"}} {total}'


def _gauges(gauges: Mapping[str, float]) -> Iterator[str]:
    for name, value in gauges.items():
        yield f"# TYPE recollect_{name} gauge"
        yield f"recollect_{name} {value:g}"


def log_request(**facts: Any) -> None:
    if log.isEnabledFor(logging.INFO):
        facts = {name: value for name, value in facts.items() if value is not None}
        log.info(json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **facts}))
