"""Clocks that disagree."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from recollect.domain import record


def as_another_machine(monkeypatch: pytest.MonkeyPatch, hours: float) -> None:
    """From here on ids are made as by a process that just started, its clock so many hours ahead."""
    nanoseconds = time.time_ns() + int(hours * 3_600_000_000_000)
    monkeypatch.setattr(record, "_last_stamp", 0)
    monkeypatch.setattr(record, "time", SimpleNamespace(time_ns=lambda: nanoseconds))
