"""Heat maps: two categories (or a category and a time) that name each cell together."""

from __future__ import annotations

from recollect.domain.charts.columns import Series
from recollect.domain.charts.drawing import Drawing, Json, Table, Unfit, as_labels, missing, number_tip, range_text
from recollect.domain.charts.formats import axis_format, number_text

MOST_CELLS = 40
_CELL = 64


def heat_map(table: Table) -> Drawing:
    number, found = table.number(), _crossed(table)
    if found is None:
        raise Unfit("two columns of categories that name each row together, and a number")
    first, second = found
    rows, columns = list(dict.fromkeys(first.labels)), list(dict.fromkeys(second.labels))
    notes = missing(sum(y is None for y in number.numbers), number)
    if len(rows) > MOST_CELLS or len(columns) > MOST_CELLS:
        shown = f"{min(len(rows), MOST_CELLS)} x {min(len(columns), MOST_CELLS)}"
        notes.append(f"the first {shown} of {len(rows):,} x {len(columns):,} cells are drawn")
    kept = set(rows[:MOST_CELLS]), set(columns[:MOST_CELLS])
    cells = [
        (name, across, y)
        for name, across, y in zip(first.labels, second.labels, number.numbers, strict=True)
        if y is not None and name in kept[0] and across in kept[1]
    ]
    if not cells:
        raise Unfit("at least one number")
    known = [y for _, _, y in cells]
    height, width = len(rows[:MOST_CELLS]), len(columns[:MOST_CELLS])
    axes: Json = {
        "y": {"field": "row", "type": "nominal", "sort": None, "title": first.title, "axis": {"grid": False}},
        "x": {"field": "column", "type": "nominal", "sort": None, "title": second.title,
              "axis": {"labelAngle": 0 if max(map(len, kept[1])) * 7 <= _CELL else -45, "grid": False}},
    }  # fmt: skip
    legend = {"title": number.title, **axis_format(number.unit, max(map(abs, known)))}
    colour = {"field": "y", "type": "quantitative", "scale": {"zero": False}, "legend": legend}
    tooltip = [{"field": "row", "type": "nominal", "title": first.title},
               {"field": "column", "type": "nominal", "title": second.title}, number_tip(number)]  # fmt: skip
    layers: list[Json] = [
        {"mark": {"type": "rect", "cornerRadius": 2}, "encoding": {**axes, "color": colour, "tooltip": tooltip}}
    ]
    values = [
        {"row": name, "column": across, "y": y, "label": number_text(y, number.unit)} for name, across, y in cells
    ]
    if len(cells) <= 150 and width <= 14:
        # Light text on the dark cells and the other way round; which is which differs between the themes.
        border = min(known) + 0.5 * (max(known) - min(known))
        low = [value for value, y in zip(values, known, strict=True) if y <= border]
        high = [value for value, y in zip(values, known, strict=True) if y > border]
        for style, chosen in (("cell-low", low), ("cell-high", high)):
            text = {"field": "label", "type": "nominal"}
            layers.append(
                {
                    "data": {"values": chosen},
                    "mark": {"type": "text", "style": style},
                    "encoding": {**axes, "text": text},
                }
            )
    spec: Json = {
        "data": {"values": values},
        "layer": layers,
        "width": max(200, min(900, _CELL * width)),
        "height": max(90, 32 * height),
    }
    return Drawing(spec, f"{len(cells):,} cells from {range_text(number, known)}", notes)


def _crossed(table: Table) -> tuple[Series, Series] | None:
    """Two categories, or a category and a time, that name each cell."""
    if pair := table.pair():
        return pair
    with_times = Table(table.rows, [], [*table.categories, *map(as_labels, table.times)], table.numbers)
    return with_times.pair()
