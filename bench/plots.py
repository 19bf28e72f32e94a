"""Bar charts as SVG, written by hand: a benchmark needs no plotting library.

`bar_chart(title, panels)`: a panel is a measure, holding groups (sizes), each holding a bar per product. Lengths are
logarithmic, since the products differ by orders of magnitude; the number stands at the end of each bar.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

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


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _text(x: float, y: float, text: str, *, size: int, anchor: str = "start", weight: str = "normal") -> str:
    place = f'x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" font-weight="{weight}" fill="#1f2937">{escape(text)}</text>'
