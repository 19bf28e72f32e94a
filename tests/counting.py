"""Work counted, for tests that something stays small: a clock would measure how busy the machine is, too."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

VERBS = ("get", "find", "select", "select_each", "count", "count_by", "beside", "search_text", "stored_vectors")


def steps_of(work: Callable[[], Any]) -> int:
    """How many instructions of Python the work takes in this thread, the first time it is done being left out."""
    work()
    count = 0

    def count_one(frame: FrameType, event: str, given: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return count_one

    before = sys.gettrace()
    sys.settrace(count_one)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def store_calls(mem: Any, monkeypatch: Any) -> list[str]:
    """The calls that an open memory makes of its store and of its vector index from now on: times that it waits."""
    seen: list[str] = []
    inside = False

    def counted(name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal inside
            if inside:  # a verb that the store itself uses
                return verb(*given, **named)
            seen.append(name)
            inside = True
            try:
                return verb(*given, **named)
            finally:
                inside = False

        return call

    for holder, verbs in ((mem._core.store, (*VERBS, "transact")), (mem._core.vectors, ("search",))):
        for name in verbs:
            monkeypatch.setattr(holder, name, counted(name, getattr(holder, name)))
    return seen
