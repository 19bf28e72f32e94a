"""The looks of charts: colours that people who see no red or green can tell apart (after Okabe and Ito), on light and
on dark ground.
"""

from __future__ import annotations

from typing import Literal, TypedDict

Theme = Literal["light", "dark"]


class Colours(TypedDict):
    background: str
    text: str
    faint: str
    line: str
    main: str
    category: list[str]
    heat: list[str]


COLOURS: dict[Theme, Colours] = {
    "light": {
        "background": "#ffffff",
        "text": "#1f2937",
        "faint": "#5b6472",
        "line": "#e3e6ea",
        "main": "#0b6bb3",
        "category": ["#0b6bb3", "#e08e0b", "#009e73", "#c4488f", "#d1490c", "#3fa7dd", "#6b7280", "#8a6d00"],
        "heat": ["#eaf3fb", "#9fcbec", "#3f8fce", "#0b5394", "#062f57"],
    },
    "dark": {
        "background": "#14171c",
        "text": "#e6e9ee",
        "faint": "#a3acb9",
        "line": "#2c323b",
        "main": "#57b0f2",
        "category": ["#57b0f2", "#f0ae3c", "#2fc59a", "#e58cc0", "#ff8a57", "#9bd6f7", "#a3acb9", "#d9c25a"],
        "heat": ["#17263a", "#1f4c7a", "#2f7dbf", "#74bdf2", "#d6ecff"],
    },
}
FONT = "Helvetica Neue, Arial, Liberation Sans, Noto Sans, Noto Sans CJK SC, sans-serif"


def config(theme: Theme) -> dict[str, object]:
    """The `config` of a Vega-Lite spec."""
    colours = COLOURS[theme]
    text, faint, line = colours["text"], colours["faint"], colours["line"]
    return {
        "font": FONT,
        "background": colours["background"],
        "padding": 16,
        "view": {"stroke": "transparent"},
        "title": {
            "anchor": "start", "frame": "bounds", "color": text, "fontSize": 17, "fontWeight": 600, "offset": 16,
            "subtitleColor": faint, "subtitleFontSize": 12, "subtitlePadding": 6, "lineHeight": 21,
        },
        "axis": {
            "labelColor": faint, "titleColor": faint, "gridColor": line, "domainColor": line, "tickColor": line,
            "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelPadding": 6,
            "titlePadding": 10, "labelLimit": 220, "titleLimit": 400, "ticks": False, "labelFlush": False,
            "domain": False,
        },
        "legend": {
            "labelColor": text, "titleColor": faint, "labelFontSize": 12, "titleFontSize": 12,
            "titleFontWeight": "normal", "labelLimit": 180, "symbolType": "circle",
        },
        "range": {"category": colours["category"], "heatmap": colours["heat"], "ramp": colours["heat"]},
        "bar": {"color": colours["main"], "cornerRadiusEnd": 2},
        "line": {"color": colours["main"], "strokeWidth": 2.5},
        "area": {"color": colours["main"], "fillOpacity": 0.75},
        "point": {"color": colours["main"], "filled": True, "size": 45},
        "arc": {"stroke": colours["background"], "strokeWidth": 2},
        "style": {"big-number": {"color": text},
                  "quiet": {"color": faint},
                  "cell-low": {"color": "#1f2937" if theme == "light" else "#e6e9ee"},
                  "cell-high": {"color": "#ffffff" if theme == "light" else "#14171c"}},
    }  # fmt: skip
