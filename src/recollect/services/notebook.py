"""What replies look like in a notebook is made of: tables that fit light and dark pages, with nothing from outside.

Whatever is shown was written by somebody else. All of it is escaped, and stripped of the characters that would reorder
what stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from recollect.domain.record import clipped
from recollect.domain.text.shown import clean, clean_lines

SHOWN_ROWS = 20
SHOWN_COLUMNS = 30
LONGEST_CELL = 120
LONGEST_TEXT = 600
LONGEST_BLOCK = 8_000
_NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "REAL", "NUMERIC")
# Colours are those of the page, faded where they matter less: a notebook may be light or dark.
_MUTED = "opacity:.65"
_TEXT = "white-space:pre-wrap;text-align:left;unicode-bidi:isolate"
_CHIP = "display:inline-block;border:1px solid currentColor;border-radius:1em;padding:0 .6em;margin:0 .3em .3em 0"
_BAR = "display:inline-block;width:4px;margin-right:1px;background:currentColor;opacity:.55;vertical-align:bottom"


def is_number(type: str) -> bool:
    return any(part in type for part in _NUMBERS)


def cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    text = "" if value is None else str(value)
    return escape(clean(clipped(text, LONGEST_CELL)))


def text(whole: str, read_on: str) -> str:
    """A text in its own lines; of a long one the beginning, how much is missing, and what reads on."""
    shown = escape(clean_lines(whole[:LONGEST_TEXT]))
    more = len(whole) - LONGEST_TEXT
    rest = muted(f"… {more:,} more characters: {read_on}") if more > 0 else ""
    return f'<div style="{_TEXT}">{shown}{rest}</div>'


def block(whole: str, read_on: str) -> str:
    """A text as it is handed on, such as a part of a prompt."""
    more = len(whole) - LONGEST_BLOCK
    rest = facts([f"{more:,} more characters: {read_on}"]) if more > 0 else ""
    return f'<pre style="white-space:pre-wrap">{escape(clean_lines(whole[:LONGEST_BLOCK]))}</pre>{rest}'


def muted(told: str) -> str:
    return f'<small style="{_MUTED}">{escape(clean(told))}</small>' if told else ""


def strong(told: str) -> str:
    return f"<b>{escape(clean(told))}</b>"


def code(id: str) -> str:
    """An id is copied, so it is never shortened."""
    return f'<code style="white-space:nowrap">{escape(clean(id))}</code>'


def lines(parts: Sequence[str]) -> str:
    """Below each other, each HTML already."""
    return "<br>".join(part for part in parts if part)


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
    titled = f"<thead><tr>{head}</tr></thead>" if any(title for title, _ in titles) else ""
    return f"<table>{titled}<tbody>{body}</tbody></table>"


def result(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[object]]) -> str:
    """The first rows and columns of a result."""
    titles = [(name, is_number(type)) for name, type in columns[:SHOWN_COLUMNS]]
    return table(titles, [[cell(value) for value in row[:SHOWN_COLUMNS]] for row in rows[:SHOWN_ROWS]])


def facts(told: Sequence[str]) -> str:
    return f'<p style="{_MUTED}"><small>{escape(clean("; ".join(told)))}</small></p>' if told else ""


def statement(sql: str) -> str:
    return f"<details><summary>SQL</summary><pre>{escape(clean_lines(sql))}</pre></details>" if sql else ""


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
