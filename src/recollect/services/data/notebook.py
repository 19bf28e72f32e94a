"""Answers and sources as a notebook shows them: tables that fit light and dark pages, with nothing from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

SHOWN_ROWS = 20
SHOWN_COLUMNS = 30
LONGEST_CELL = 120
_NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "REAL", "NUMERIC")
# Colours are those of the page, faded where they matter less: a notebook may be light or dark.
_MUTED = "opacity:.65"
_CHIP = "display:inline-block;border:1px solid currentColor;border-radius:1em;padding:0 .6em;margin:0 .3em .3em 0"
_BAR = "display:inline-block;width:4px;margin-right:1px;background:currentColor;opacity:.55;vertical-align:bottom"


def is_number(type: str) -> bool:
    return any(part in type for part in _NUMBERS)


def cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    text = "" if value is None else str(value)
    return escape(text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…")


def table(titles: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells that are HTML already, below titles, each with whether it is a column of numbers."""
    sides = ["right" if right else "left" for _, right in titles]
    head = "".join(
        f'<th style="text-align:{side}">{cell(title)}</th>' for (title, _), side in zip(titles, sides, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td style="text-align:{side}">{one}</td>' for one, side in zip(row, sides, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def result(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[object]]) -> str:
    """The first rows and columns of a result."""
    titles = [(name, is_number(type)) for name, type in columns[:SHOWN_COLUMNS]]
    return table(titles, [[cell(value) for value in row[:SHOWN_COLUMNS]] for row in rows[:SHOWN_ROWS]])


def facts(told: Sequence[str]) -> str:
    return f'<p style="{_MUTED}"><small>{escape("; ".join(told))}</small></p>' if told else ""


def statement(sql: str) -> str:
    return f"<details><summary>SQL</summary><pre>{escape(sql)}</pre></details>" if sql else ""


def chips(parts: Sequence[str]) -> str:
    return "<p>" + "".join(f'<span style="{_CHIP}">{cell(part)}</span>' for part in parts) + "</p>" if parts else ""


def histogram(counts: Sequence[int]) -> str:
    """Bars of different heights."""
    most = max(counts, default=0) or 1
    return "".join(f'<span style="{_BAR};height:{max(1, round(18 * count / most))}px"></span>' for count in counts)


def values(statistics: Mapping[str, object]) -> str:
    """The values of a column: a histogram with the range, or the most frequent ones."""
    bins, top = statistics.get("histogram"), statistics.get("top")
    known, distinct = top if isinstance(top, list) else [], statistics.get("distinct")
    if isinstance(bins, list) and len(bins) > 1 and isinstance(distinct, int) and distinct > len(known):
        drawn = histogram([int(one["count"]) for one in bins])
        return f"{drawn} {cell(statistics.get('min'))} … {cell(statistics.get('max'))}"
    return ", ".join(f"{cell(one['value'])} ({one['count']:,})" for one in known[:5])
