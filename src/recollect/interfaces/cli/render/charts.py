"""Charts in a terminal: the same spec that a browser draws, as blocks and dots of Unicode.

bar, pie, histogram   a bar for each label
line, area            a curve of dots; several series as sparklines
scatter               a field of dots
heatmap               shaded cells
number                the number
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markup import escape

from recollect.domain.charts.chart import caption_of, kind_of
from recollect.domain.charts.formats import label_text, number_text

_EIGHTHS = " ▏▎▍▌▋▊▉"
_HEIGHTS = "▁▂▃▄▅▆▇█"
_SHADES = " ░▒▓█"
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a braille cell: four rows of two
_MOST_NAME = 32
_PLOT_ROWS = 12
Values = Sequence[Mapping[str, object]]


def show_chart(console: Console, spec: Mapping[str, object]) -> None:
    """Print a chart of `recollect.domain.charts`, its title, and what was left out of it."""
    title = spec.get("title")
    lines = title.get("text") if isinstance(title, dict) else None
    if isinstance(lines, list):
        console.print(f"[bold]{escape(' '.join(map(str, lines)))}[/]")
    for line in chart_lines(spec, min(100, console.width)):
        console.print(line)
    if facts := caption_of(spec).facts:
        console.print(f"[dim]{escape(facts)}[/]")


def chart_lines(spec: Mapping[str, object], width: int = 80) -> list[str]:
    """The lines of a chart, with rich's markup."""
    data, kind = spec.get("data"), kind_of(spec)
    values = data.get("values") if isinstance(data, dict) else None
    if not isinstance(values, list) or not values:
        return []
    if kind == "number":
        return [f"[bold cyan]{escape(_text(values[0], 'text'))}[/]  {escape(_text(values[0], 'label'))}"]
    if kind in ("line", "area"):
        return _curves(values, width)
    if kind == "scatter":
        points = [(_place(value), y) for value in values if (y := _number(value, "y")) is not None]
        return _dots(points, width)
    if kind == "heatmap":
        return _cells(values, width)
    return _bars([_bar(value, kind == "histogram") for value in values], width)


def _bar(value: Mapping[str, object], is_bin: bool) -> tuple[str, float, str]:
    """Its name, its length, and the figure at its end."""
    length = _number(value, "y") or 0.0
    if is_bin:
        return _text(value, "label"), length, number_text(length, "whole")
    name = f"{_text(value, 'x')}, {_text(value, 'series')}" if "series" in value else _text(value, "x")
    return name, length, _text(value, "label") or number_text(length, "number")


def _bars(bars: Sequence[tuple[str, float, str]], width: int) -> list[str]:
    named = min(_MOST_NAME, max(cell_len(name) for name, _, _ in bars))
    room = max(8, width - named - max(cell_len(figure) for _, _, figure in bars) - 3)
    most = max(abs(value) for _, value, _ in bars) or 1.0
    found = []
    for name, value, figure in bars:
        eighths = round(8 * room * abs(value) / most)
        bar = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
        colour = "cyan" if value >= 0 else "red"
        found.append(f"{escape(_sized(name, named))} [{colour}]{bar}[/] {escape(figure)}")
    return found


def _curves(values: Values, width: int) -> list[str]:
    series: dict[str, list[float]] = {}
    for value in values:
        if (y := _number(value, "y")) is not None:
            series.setdefault(_text(value, "series"), []).append(y)
    first, last = _text(values[0], "when"), _text(values[-1], "when")
    if len(series) == 1:
        numbers = next(iter(series.values()))
        found = _dots([(float(place), y) for place, y in enumerate(numbers)], width, joined=True)
    else:
        named = min(_MOST_NAME, max(map(cell_len, series)))
        room = max(8, width - named - 22)
        low, high = min(min(one) for one in series.values()), max(max(one) for one in series.values())
        found = [
            f"{escape(_sized(name, named))} [cyan]{_sparkline(numbers, room, low, high)}[/] "
            f"{number_text(numbers[0], 'number')} → {number_text(numbers[-1], 'number')}"
            for name, numbers in series.items()
        ]
    return [*found, f"[dim]{escape(first)} to {escape(last)}[/]"]


def _sparkline(numbers: Sequence[float], width: int, low: float, high: float) -> str:
    step = max(1.0, len(numbers) / width)
    chosen = [numbers[int(place * step)] for place in range(min(width, len(numbers)))]
    return "".join(_HEIGHTS[round(7 * (one - low) / ((high - low) or 1.0))] for one in chosen)


def _dots(points: Sequence[tuple[float, float]], width: int, *, joined: bool = False) -> list[str]:
    """A field of braille dots with the range at its side; neighbours are `joined` to a curve."""
    if not points:
        return []
    low_x, high_x = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    margin = max(len(number_text(one, "number")) for one in (low, high)) + 1
    columns, rows = 2 * max(10, width - margin), 4 * _PLOT_ROWS
    places = [
        (
            round((x - low_x) / ((high_x - low_x) or 1) * (columns - 1)),
            round((y - low) / ((high - low) or 1) * (rows - 1)),
        )
        for x, y in points
    ]
    if joined:
        places = [place for pair in pairwise(places) for place in _between(*pair)] or places
    field = [[0] * (columns // 2) for _ in range(_PLOT_ROWS)]
    for x, y in places:
        down = rows - 1 - y
        field[down // 4][x // 2] |= _DOTS[down % 4][x % 2]
    found = []
    for place, line in enumerate(field):
        figure = number_text(high if place == 0 else low, "number") if place in (0, _PLOT_ROWS - 1) else ""
        found.append(f"[dim]{figure:>{margin - 1}}[/] [cyan]{''.join(chr(0x2800 + bits) for bits in line)}[/]")
    return found


def _between(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    return [
        (start[0] + (end[0] - start[0]) * one // steps, start[1] + (end[1] - start[1]) * one // steps)
        for one in range(steps + 1)
    ]


def _cells(values: Values, width: int) -> list[str]:
    rows = list(dict.fromkeys(_text(value, "row") for value in values))
    columns = list(dict.fromkeys(_text(value, "column") for value in values))
    numbers = {(_text(one, "row"), _text(one, "column")): _number(one, "y") or 0.0 for one in values}
    low, high = min(numbers.values()), max(numbers.values())
    named = min(_MOST_NAME, max(map(cell_len, rows)))
    room = max(2, min(8, (width - named - 1) // len(columns)))
    shown = columns[: (width - named - 1) // room]
    found = [" " * (named + 1) + "".join(_sized(one, room - 1) + " " for one in shown)]
    found[0] = f"[dim]{escape(found[0].rstrip())}[/]"
    for row in rows:
        line = ""
        for column in shown:
            value = numbers.get((row, column))
            shade = " " if value is None else _SHADES[1 + round(3 * (value - low) / ((high - low) or 1.0))]
            line += shade * (room - 1) + " "
        found.append(f"{escape(_sized(row, named))} [cyan]{line.rstrip()}[/]")
    return [*found, f"[dim]░ {number_text(low, 'number')}  █ {number_text(high, 'number')}[/]"]


def _text(value: Mapping[str, object], field: str) -> str:
    return label_text(value[field], 200) if field in value else ""


def _number(value: Mapping[str, object], field: str) -> float | None:
    found = value.get(field)
    return float(found) if isinstance(found, int | float) else None


def _place(value: Mapping[str, object]) -> float:
    """Where a point stands from left to right: by its number, or by its date."""
    x = value.get("x")
    return float(x) if isinstance(x, int | float) else datetime.fromisoformat(str(x)).timestamp()


def _sized(name: str, width: int) -> str:
    return set_cell_size(name if cell_len(name) <= width else set_cell_size(name, width - 1) + "…", width)
