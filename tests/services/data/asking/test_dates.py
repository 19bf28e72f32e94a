"""Spans of time in questions, in English and German."""

from __future__ import annotations

from datetime import date

import pytest

from recollect.services.data.asking.language.dates import time_spans
from recollect.services.data.asking.language.words import tokens

TODAY = date(2025, 6, 15)  # a Sunday


@pytest.mark.parametrize(
    ("question", "first", "after"),
    [
        ("orders in March 2024", "2024-03-01", "2024-04-01"),
        ("orders on 5 March 2024", "2024-03-05", "2024-03-06"),
        ("orders on March 5, 2024", "2024-03-05", "2024-03-06"),
        ("orders last month", "2025-05-01", "2025-06-01"),
        ("orders this year", "2025-01-01", "2026-01-01"),
        ("orders last March", "2025-03-01", "2025-04-01"),
        ("orders last August", "2024-08-01", "2024-09-01"),
        ("orders of the last 30 days", "2025-05-16", "2025-06-16"),
        ("orders in Q1 2024", "2024-01-01", "2024-04-01"),
        ("orders last quarter", "2025-01-01", "2025-04-01"),
        ("orders yesterday", "2025-06-14", "2025-06-15"),
        ("orders last week", "2025-06-02", "2025-06-09"),
        ("orders since March 2024", "2024-03-01", None),
        ("orders before March 2024", None, "2024-03-01"),
        ("orders after March 2024", "2024-04-01", None),
        ("orders in December", "2024-12-01", "2025-01-01"),
        ("Welche Bestellungen gab es im März 2024?", "2024-03-01", "2024-04-01"),
        ("Welche Bestellungen gab es letzten Monat?", "2025-05-01", "2025-06-01"),
        ("Wie viele Bestellungen gibt es seit Januar 2025?", "2025-01-01", None),
    ],
)
def test_a_span_of_time_is_read(question: str, first: str | None, after: str | None) -> None:
    (span,) = time_spans(tokens(question), TODAY)
    assert (span.first and span.first.isoformat(), span.after and span.after.isoformat()) == (first, after)


@pytest.mark.parametrize(
    "question",
    ["What is the last name of the students?", "Which students may enrol?", "the first five orders", "in 2024"],
)
def test_what_is_no_span_of_time_is_left_alone(question: str) -> None:
    assert time_spans(tokens(question), TODAY) == []
