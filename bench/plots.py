"""Charts as SVG, written by hand: a benchmark needs no plotting library.

`bar_chart(title, panels)`: a panel is a measure, holding groups (sizes), each holding a bar per product. Lengths are
logarithmic, since the products differ by orders of magnitude; the number stands at the end of each bar.

`line_charts(title, panels)`: a panel is an operation, holding lines of points; three panels in a row, both axes
logarithmic, the last number at the end of each line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

Lines = Mapping[str, Sequence[tuple[float, float]]]
Panels = Mapping[str, Mapping[str, Mapping[str, float]]]
COLOURS = ("#2563eb", "#93b4f5", "#f59e0b", "#10b981", "#8b5cf6")
_BAR, _GAP, _LEFT, _WIDE = 16, 14, 250, 860


def bar_chart(title: str, panels: Panels) -> str:
    names = list(dict.fromkeys(name for groups in panels.values() for bars in groups.values() for name in bars))
    colours = dict(zip(names, (COLOURS * len(names))[: len(names)], strict=True))
    parts, y = [_text(20, 30, title, size=18, weight="bold")], 50
    for heading, groups in panels.items():
        drawn, y = _panel(heading, groups, colours, y)
        parts += drawn
    style = "font-family:system-ui,sans-serif;background:#fff"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDE}" height="{y + 10}" style="{style}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>", ""])


def _panel(
    heading: str, groups: Mapping[str, Mapping[str, float]], colours: Mapping[str, str], y: int
) -> tuple[list[str], int]:
    parts = [_text(20, y + 20, f"{heading} (logarithmic)", size=14, weight="bold")]
    values = [value for bars in groups.values() for value in bars.values() if value > 0]
    low, high = math.log10(min(values)) - 0.3, math.log10(max(values))
    y += 32
    for group, bars in groups.items():
        parts.append(_text(20, y + 12, group, size=12))
        for name, value in bars.items():
            share = (math.log10(value) - low) / max(high - low, 1e-9) if value > 0 else 0.0
            length = 4 + share * (_WIDE - _LEFT - 120)
            parts.append(_text(_LEFT - 8, y + 12, name, size=12, anchor="end"))
            parts.append(f'<rect x="{_LEFT}" y="{y}" width="{length:.0f}" height="{_BAR - 3}" fill="{colours[name]}"/>')
            parts.append(_text(_LEFT + length + 6, y + 12, _number(value), size=12))
            y += _BAR
        y += _GAP
    return parts, y


_PANEL_WIDE, _PANEL_HIGH, _MARGIN_LEFT, _MARGIN_RIGHT, _MARGIN_TOP, _MARGIN_LOW = 290, 200, 44, 52, 30, 26


def line_charts(title: str, panels: Mapping[str, Lines]) -> str:
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    colours = dict(zip(names, (COLOURS[:1] + COLOURS[2:] * len(names))[: len(names)], strict=True))
    parts, x = [_text(20, 30, title, size=18, weight="bold")], 20.0
    for name, colour in colours.items():
        parts.append(f'<rect x="{x:.0f}" y="44" width="14" height="4" fill="{colour}"/>')
        parts.append(_text(x + 20, 51, name, size=12))
        x += 36 + 7 * len(name)
    for number, (heading, lines) in enumerate(panels.items()):
        left, top = 10 + number % 3 * _PANEL_WIDE, 64 + number // 3 * _PANEL_HIGH
        parts += _line_panel(heading, lines, colours, left, top)
    height = 74 + -(-len(panels) // 3) * _PANEL_HIGH
    style = "font-family:system-ui,sans-serif;background:#fff"
    wide = 20 + 3 * _PANEL_WIDE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{height}" style="{style}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>", ""])


def _line_panel(heading: str, lines: Lines, colours: Mapping[str, str], left: int, top: int) -> list[str]:
    xs = [math.log10(x) for points in lines.values() for x, _ in points]
    ys = [math.log10(y) for points in lines.values() for _, y in points if y > 0]
    low, high = math.floor(min(ys)), max(math.ceil(max(ys)), math.floor(min(ys)) + 1)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - min(xs)) / max(max(xs) - min(xs), 1e-9)
        up = (math.log10(y) - low) / (high - low)
        wide, tall = _PANEL_WIDE - _MARGIN_LEFT - _MARGIN_RIGHT, _PANEL_HIGH - _MARGIN_TOP - _MARGIN_LOW
        return left + _MARGIN_LEFT + across * wide, top + _MARGIN_TOP + (1 - up) * tall

    right, parts = left + _PANEL_WIDE - _MARGIN_RIGHT, [_text(left + 10, top + 18, heading, size=13, weight="bold")]
    for decade in range(low, high + 1):
        y = place(10 ** min(xs), 10.0**decade)[1]
        parts.append(f'<path d="M{left + _MARGIN_LEFT} {y:.0f}H{right}" stroke="#e5e7eb"/>')
        parts.append(_text(left + _MARGIN_LEFT - 6, y + 4, f"{10.0**decade:g}", size=10, anchor="end"))
    for size in sorted({x for points in lines.values() for x, _ in points}):
        parts.append(_text(place(size, 10.0**low)[0], top + _PANEL_HIGH - 10, _short(size), size=10, anchor="middle"))
    ends: list[tuple[float, float, float]] = []
    for name, points in lines.items():
        drawn = [place(x, y) for x, y in points if y > 0]
        if drawn:
            path = "M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in drawn)
            parts.append(f'<path d="{path}" fill="none" stroke="{colours[name]}" stroke-width="2"/>')
            ends.append((drawn[-1][1] + 4, drawn[-1][0] + 5, points[-1][1]))
    return parts + _apart(ends)


def _apart(ends: Sequence[tuple[float, float, float]]) -> list[str]:
    """The numbers at the ends of the lines, from top to bottom, none over another."""
    parts, free = [], 0.0
    for y, x, value in sorted(ends):
        y = max(y, free)
        parts.append(_text(x, y, _number(value), size=10))
        free = y + 10
    return parts


def _short(size: float) -> str:
    return f"{size / 1e6:g} M" if size >= 1e6 else f"{size / 1e3:g} k" if size >= 1e3 else f"{size:g}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _text(x: float, y: float, text: str, *, size: int, anchor: str = "start", weight: str = "normal") -> str:
    place = f'x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" font-weight="{weight}" fill="#1f2937">{escape(text)}</text>'
