"""No test says by the clock that something is fast: it would say how busy the machine is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
CLOCKS = {"monotonic", "perf_counter", "monotonic_ns", "perf_counter_ns"}


def _timed(source: str) -> Iterator[int]:
    """Lines that assert how much time has gone by. To wait for something until a deadline is another matter."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert):
            for inner in ast.walk(node.test):
                if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub) and _reads_a_clock(inner.left):
                    yield node.lineno


def _reads_a_clock(node: ast.expr) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", "")) in CLOCKS


def test_the_rule_sees_what_it_forbids() -> None:
    assert list(_timed("assert time.monotonic() - began < 5")) == [1]
    assert list(_timed("assert min(perf_counter() - began, 1) < 5")) == [1]
    assert list(_timed("assert time.monotonic() < deadline")) == []


def test_no_test_asserts_how_long_something_took() -> None:
    found = [f"{path.relative_to(TESTS)}:{line}" for path in TESTS.rglob("*.py") for line in _timed(path.read_text())]
    assert found == []
