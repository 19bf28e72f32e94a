"""Work counted, for tests that something stays small: a clock would measure how busy the machine is, too."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


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
