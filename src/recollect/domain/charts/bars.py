"""Bars and their kin: bars side by side, histograms, slices of a pie, and a single number."""

from __future__ import annotations

import math
from collections import Counter

from recollect.domain.charts.columns import Series
from recollect.domain.charts.drawing import (
    HEIGHT,
    MOST_SERIES,
    WIDTH,
    Drawing,
    Json,
    Table,
    Unfit,
    alike,
    as_labels,
    extremes,
    missing,
    number_axis,
    number_tip,
    range_text,
    series_colour,
)
from recollect.domain.charts.formats import axis_format, grain_of, moment_text, number_text

MOST_BARS = 30
MOST_SLICES = 8


def bar_chart(table: Table) -> Drawing:
    number, label = table.number(), table.label()
    if label is None and (pair := table.pair()):
        return _grouped_bars(number, *pair)
    if label is None and table.times and table.times[0].distinct == table.rows:
        label = as_labels(table.times[0])
    if label is None:
        raise Unfit("a column that names each row, and a number; group the rows in the query")
    folded = alike(table.numbers) if len(table.numbers) < 4 and table.rows <= 12 else []
    if len(folded) > 1:
        names = Series(label.title, "category", labels=[one for one in label.labels for _ in folded])
        titles = Series("", "category", labels=[one.title for _ in label.labels for one in folded])
        numbers = [one.numbers[row] for row in range(table.rows) for one in folded]
        return _grouped_bars(Series("", "number", numbers=numbers, unit=folded[0].unit), names, titles)
    pairs = [(name, y) for name, y in zip(label.labels, number.numbers, strict=True) if y is not None]
    notes = missing(table.rows - len(pairs), number)
    if len(pairs) > MOST_BARS:
        notes.append(f"the first {MOST_BARS} of {len(pairs):,} bars are drawn")
    kept = pairs[:MOST_BARS]
    values: list[Json] = [{"x": name, "y": y, "label": number_text(y, number.unit)} for name, y in kept]
    is_lying = len(kept) > 10 or max(len(name) for name, _ in kept) > 10
    has_labels = min(y for _, y in kept) >= 0
    name_axis = _name_axis(label, is_lying)
    measure = number_axis(number, [y for _, y in kept], zero=True)
    if has_labels:  # the numbers stand at the bars
        measure |= {"axis": {"labels": False, "grid": False}}
    tooltip = [{"field": "x", "type": "nominal", "title": label.title}, number_tip(number)]
    along, across = ("y", "x") if is_lying else ("x", "y")
    bars: Json = {"mark": {"type": "bar"}, "encoding": {along: name_axis, across: measure, "tooltip": tooltip}}
    layers = [bars]
    if has_labels:
        aside = {"align": "left", "dx": 5} if is_lying else {"baseline": "bottom", "dy": -4}
        mark = {"type": "text", "style": "quiet", **aside}
        text = {"field": "label", "type": "nominal"}
        layers.append({"mark": mark, "encoding": {along: name_axis, across: measure, "text": text}})
    length = len(kept)
    size = (
        {"width": 560, "height": 26 * length}
        if is_lying
        else {"width": max(240, min(WIDTH, 90 * length)), "height": HEIGHT}
    )
    return Drawing({"data": {"values": values}, "layer": layers, **size}, extremes(number, kept, "bars"), notes)


def _grouped_bars(number: Series, first: Series, second: Series) -> Drawing:
    names, groups = list(dict.fromkeys(first.labels)), list(dict.fromkeys(second.labels))
    if len(names) < len(groups):
        first, second, names, groups = second, first, groups, names
    if len(groups) > MOST_SERIES:
        raise Unfit(f"at most {MOST_SERIES} bars side by side; this has {len(groups)}")
    kept = set(names[:MOST_BARS])
    points = [
        {"x": name, "series": group, "y": y}
        for name, group, y in zip(first.labels, second.labels, number.numbers, strict=True)
        if y is not None and name in kept
    ]
    notes = missing(sum(y is None for y in number.numbers), number)
    if len(names) > MOST_BARS:
        notes.append(f"the first {MOST_BARS} of {len(names):,} groups are drawn")
    is_lying = len(kept) > 8 or max(map(len, kept)) > 12
    along, across = ("y", "x") if is_lying else ("x", "y")
    encoding: Json = {
        along: _name_axis(first, is_lying),
        across: number_axis(number, [y for y in number.numbers if y is not None], zero=True),
        f"{along}Offset": {"field": "series", "sort": None},
        "color": series_colour(second),
        "tooltip": [
            {"field": "x", "type": "nominal", "title": first.title},
            {"field": "series", "type": "nominal", "title": second.title or "of"},
            number_tip(number),
        ],
    }
    thickness = len(groups) * 14 + 12
    size = {"width": 560, "height": thickness * len(kept)} if is_lying else {"width": WIDTH, "height": HEIGHT}
    spec = {"data": {"values": points}, "mark": {"type": "bar"}, "encoding": encoding, **size}
    return Drawing(spec, f"{len(kept)} groups of {len(groups)} bars", notes)


def _name_axis(label: Series, is_lying: bool) -> Json:
    """Names that stand beside their bars need no title; it would stand on its side."""
    title = None if is_lying else label.title or None
    return {"field": "x", "type": "nominal", "sort": None, "title": title, "axis": {"labelAngle": 0, "grid": False}}


def histogram(table: Table) -> Drawing:
    number = table.number()
    known = number.known()
    if len(known) < 2:
        raise Unfit("a column with several numbers")
    low, high = min(known), max(known)
    if not 1e-300 < high - low < 1e300 and low != high:
        raise Unfit("numbers that are nearer to each other")
    step = _round_step((high - low) / 30) if high > low else 1.0
    if all(value == int(value) for value in known):
        step = max(1.0, round(step))
    start = math.floor(low / step) * step
    counts = Counter(int((value - start) / step + 1e-9) for value in known)
    values: list[Json] = []
    for place in range(max(counts) + 1):
        begin, end = _tidy(start + place * step), _tidy(start + (place + 1) * step)
        text = f"{number_text(begin, number.unit)} to {number_text(end, number.unit)}"
        values.append({"low": begin, "high": end, "y": counts[place], "label": text})
    counted = Series("rows", "number", numbers=[float(one) for one in counts.values()], unit="whole")
    encoding: Json = {
        "x": {
            "field": "low",
            "type": "quantitative",
            "bin": {"binned": True},
            "title": number.title,
            "scale": {"zero": False, "nice": False},
            "axis": {"grid": False, "tickCount": 8, **axis_format(number.unit, max(abs(low), abs(high)))},
        },
        "x2": {"field": "high"},
        "y": number_axis(counted, counted.known(), zero=True) | {"stack": None},
        "tooltip": [{"field": "label", "type": "nominal", "title": number.title}, number_tip(counted)],
    }
    mark = {"type": "bar", "orient": "vertical", "binSpacing": 1, "cornerRadiusEnd": 0}
    spec: Json = {"data": {"values": values}, "mark": mark, "encoding": encoding, "width": WIDTH, "height": HEIGHT}
    middle = number_text(sorted(known)[len(known) // 2], number.unit)
    summary = f"{len(known):,} values of {number.title} from {range_text(number, known)}, the median is {middle}"
    return Drawing(spec, summary, missing(table.rows - len(known), number))


def _round_step(step: float) -> float:
    size = 10.0 ** math.floor(math.log10(step))
    return next(size * factor for factor in (1, 2, 5, 10) if size * factor >= step * 0.999)


def _tidy(value: float) -> float:
    return float(f"{value:.12g}")


def pie_chart(table: Table) -> Drawing:
    number, label = table.number(), table.label()
    known = number.known()
    if label is None or table.rows < 2:
        raise Unfit("a column that names each row, and a number")
    if not known or min(known) < 0 or sum(known) <= 0:
        raise Unfit("numbers that are not negative and add up to something")
    pairs = [(name, y) for name, y in zip(label.labels, number.numbers, strict=True) if y is not None]
    notes = missing(table.rows - len(pairs), number)
    if len(pairs) > MOST_SLICES:
        pairs.sort(key=lambda one: -one[1])
        rest = pairs[MOST_SLICES - 1 :]
        pairs = [*pairs[: MOST_SLICES - 1], (f"{len(rest):,} others", sum(y for _, y in rest))]
        notes.append(f"{len(rest):,} small slices are drawn as one")
    whole = sum(known)
    values = [
        {"x": f"{name}  {number_text(y / whole, 'share')}", "y": y, "place": place}
        for place, (name, y) in enumerate(pairs)
    ]
    slices = {"field": "x", "type": "nominal", "sort": None, "title": label.title, "legend": {"orient": "right"}}
    tooltip = [{"field": "x", "type": "nominal", "title": label.title}, number_tip(number)]
    encoding = {"theta": {"field": "y", "type": "quantitative", "stack": True}, "color": slices,
                "order": {"field": "place", "type": "quantitative"}, "tooltip": tooltip}  # fmt: skip
    mark = {"type": "arc", "innerRadius": 80, "outerRadius": 140}
    spec: Json = {"data": {"values": values}, "mark": mark, "encoding": encoding, "width": 300, "height": 300}
    return Drawing(spec, extremes(number, pairs, "slices"), notes)


def number_chart(table: Table) -> Drawing:
    shown = table.number()
    if table.rows != 1 or not shown.known():
        raise Unfit("one row with a number")
    text = number_text(shown.known()[0], shown.unit, exact=True)
    whose = ", ".join(
        [one.labels[0] for one in table.categories]
        + [moment_text(one.moments[0], grain_of([one.moments[0]])) for one in table.times if one.moments[0]]
    )
    label = f"{shown.title}, {whose}" if whose else shown.title
    big: Json = {"type": "text", "style": "big-number", "fontSize": 72, "fontWeight": 700, "dy": -8}
    small: Json = {"type": "text", "style": "quiet", "fontSize": 16, "dy": 46}
    layers = [
        {"mark": mark, "encoding": {"text": {"field": name, "type": "nominal"}}}
        for mark, name in ((big, "text"), (small, "label"))
    ]
    data = {"values": [{"text": text, "label": label, "y": shown.known()[0]}]}
    return Drawing({"data": data, "layer": layers, "width": 480, "height": 180}, f"{label}: {text}")
