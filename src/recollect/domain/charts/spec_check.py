"""Whether a spec is like those that we make. One that came from elsewhere (an import, a request) is drawn only then.

An allow-list: keys that charts of ours have, numbers and lists of a sensible size, no address, and no expression but
our own two. Vega would load `url`, compute `expr`, and fill the memory for `sequence`; none of them is on the list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from recollect.domain.charts.drawing import MOST_POINTS, SCHEMA
from recollect.domain.charts.formats import BILLIONS, PERCENT
from recollect.errors import InvalidInput, TooLarge

MOST_BYTES = 4 << 20
_MOST_SIZE = 4_000
_MOST_LIST = 60
_DEEPEST = 12
_KEYS = frozenset(
    """
    $schema title text description data layer mark encoding width height config type style
    align angle baseline binSpacing cornerRadius cornerRadiusEnd dx dy fontSize fontWeight innerRadius line opacity
    orient outerRadius point size
    color field format labelExpr order sort stack theta tooltip x x2 xOffset y y2 yOffset bin binned axis legend
    scale zero nice columns grid labelAngle labelOverlap labels tickCount tickMinStep values
    anchor arc area axis background bar category domain domainColor fill fillOpacity filled font frame gridColor heatmap
    labelColor labelFlush labelFontSize labelLimit labelPadding lineHeight offset padding ramp range stroke strokeWidth
    subtitleColor subtitleFontSize subtitlePadding symbolType tickColor ticks titleColor titleFontSize titleFontWeight
    titleLimit titlePadding view big-number quiet cell-low cell-high
    """.split()
)
_FIELDS = frozenset("x y series label when low high row column place text".split())
_TYPES = frozenset("bar line area point rect arc text nominal quantitative temporal utc".split())
_WORD = re.compile(r"[\w #,.:%-]{0,200}")
_EXPRESSIONS = frozenset({BILLIONS, PERCENT})
_FORMAT = re.compile(r"[,.~]*\d?~?[a-z%]?|(?:%[A-Za-z][ :/-]?){1,6}")


def check_spec(spec: Mapping[str, object]) -> None:
    """Raises InvalidInput or TooLarge where it is not like ours."""
    try:
        size = len(json.dumps(spec, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise _refused("it is not JSON") from None
    if size > MOST_BYTES:
        raise TooLarge(f"the chart has {size:,} bytes; at most {MOST_BYTES:,} are drawn", remedy="draw fewer points")
    points = _check(dict(spec, usermeta=None), depth=0)
    if points > 2 * MOST_POINTS:  # a heat map has its cells twice
        raise TooLarge(
            f"the chart has {points:,} points; at most {MOST_POINTS:,} are drawn", remedy="draw fewer points"
        )


def _check(part: Mapping[str, object], depth: int) -> int:
    """Check an object of the spec; how many points are in it."""
    if depth > _DEEPEST:
        raise _refused("it is nested too deeply")
    points = 0
    for key, value in part.items():
        if key == "usermeta":
            continue
        if key not in _KEYS:
            raise _refused(f"'{key[:40]}' is not allowed in it")
        if key == "data":
            points += _check_data(value)
        elif isinstance(value, dict):
            points += _check(value, depth + 1)
        elif isinstance(value, list):
            points += _check_list(key, value, depth)
        else:
            _check_plain(key, value)
    return points


def _check_list(key: str, items: list[object], depth: int) -> int:
    if len(items) > _MOST_LIST:
        raise _refused(f"'{key}' has too many items")
    points = 0
    for item in items:
        if isinstance(item, dict):
            points += _check(item, depth + 1)
        elif isinstance(item, list):
            raise _refused(f"'{key}' is nested")
        else:
            _check_plain(key, item)
    return points


def _check_plain(key: str, value: object) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) > (_MOST_SIZE if key != "tickCount" else 50):
            raise _refused(f"'{key}' is too large")
    elif isinstance(value, str):
        if key == "labelExpr" and value not in _EXPRESSIONS:
            raise _refused("it has an expression")
        if key == "format" and not _FORMAT.fullmatch(value):
            raise _refused("it has an unknown format")
        if key == "field" and value not in _FIELDS:
            raise _refused(f"it has an unknown field '{value[:40]}'")
        if key in ("mark", "type") and value not in _TYPES:
            raise _refused(f"it has an unknown mark or type '{value[:40]}'")
        if key not in ("text", "title", "description", "labelExpr", "format", "$schema") and not _WORD.fullmatch(value):
            raise _refused(f"'{key}' has characters that are not allowed")
        if key == "$schema" and value != SCHEMA:
            raise _refused("it says that it is something else")


def _check_data(data: object) -> int:
    values = data.get("values") if isinstance(data, dict) and set(data) == {"values"} else None
    if not isinstance(values, list):
        raise _refused("its data are not inlined")
    for value in values:
        if not isinstance(value, dict) or not _FIELDS.issuperset(value):
            raise _refused("its data have unknown fields")
        if any(isinstance(one, dict | list) for one in value.values()):
            raise _refused("its data are nested")
    return len(values)


def _refused(why: str) -> InvalidInput:
    return InvalidInput(f"this chart cannot be drawn: {why}", remedy="draw a chart of a query: `query chart`")
