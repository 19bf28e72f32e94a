"""Charts as files, drawn by vl-convert in a process of their own that is ended at its time.

A spec is checked before it is drawn (`check_spec`), and the process that draws has no network, so that nothing can be
loaded even if the check were wrong. Proven by tests/adapters/charts/test_renderer.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from importlib.util import find_spec

from recollect.adapters.charts.page import page
from recollect.adapters.data.pool import clean_environment
from recollect.domain.charts.chart import caption_of, themed
from recollect.domain.charts.spec_check import check_spec
from recollect.domain.charts.themes import Theme
from recollect.errors import MissingExtra, Overloaded, Unavailable
from recollect.ports.charts import ChartFormat

_SECONDS = 60.0
_WAIT_SECONDS = 30.0


class VegaChartRenderer:
    """At most `at_once` charts are drawn at a time; others wait for their turn."""

    def __init__(self, at_once: int = 2) -> None:
        self._turn = threading.Semaphore(at_once)
        self._bundling = threading.Lock()
        self._bundle: bytes | None = None

    def render(self, spec: Mapping[str, object], format: ChartFormat, *, theme: Theme = "light") -> bytes:
        check_spec(spec)
        if format == "json":
            return json.dumps(themed(spec, theme), ensure_ascii=False, indent=1).encode()
        if format == "html":
            return page(spec, self.javascript().decode(), None if theme == "light" else theme).encode()
        caption = caption_of(spec)
        job = {"format": format, "spec": themed(spec, theme), "facts": caption.facts, "sql": caption.sql}
        return self._drawn(job | {"theme": theme})

    def javascript(self) -> bytes:
        with self._bundling:  # it takes two seconds: one makes it, the others wait
            if self._bundle is None:
                self._bundle = self._drawn({"format": "javascript"})
            return self._bundle

    def _drawn(self, job: Mapping[str, object]) -> bytes:
        if find_spec("vl_convert") is None:
            raise MissingExtra("drawing charts needs vl-convert", remedy="pip install 'recollect[data]'")
        if not self._turn.acquire(timeout=_WAIT_SECONDS):
            raise Overloaded("too many charts at once", remedy="try again in a moment")
        try:
            with tempfile.TemporaryDirectory(prefix="recollect-chart-") as folder:
                done = subprocess.run(
                    [sys.executable, "-m", "recollect.adapters.charts.child", folder],
                    input=json.dumps(job).encode(),
                    capture_output=True,
                    env=clean_environment(folder),
                    cwd=folder,
                    timeout=_SECONDS,
                    check=False,
                )
        except subprocess.TimeoutExpired:
            raise Unavailable("drawing the chart took too long", remedy="draw fewer points") from None
        finally:
            self._turn.release()
        if done.returncode != 0 or not done.stdout:
            raise Unavailable(
                f"the chart could not be drawn (status {done.returncode})",
                remedy="draw fewer points, or save it as JSON",
                said=done.stderr.decode("utf-8", "replace")[-300:] or None,
            )
        return done.stdout
