"""Lines and areas over time, and scatter plots."""

from __future__ import annotations

from typing import Literal

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
    extremes,
    missing,
    number_axis,
    number_tip,
    series_colour,
    thinned,
)
from recollect.domain.charts.formats import grain_of, moment_text, time_axis, utc_text


def line_chart(table: Table) -> Drawing:
    return _over_time(table, "line")


def area_chart(table: Table) -> Drawing:
    if any(value < 0 for one in table.numbers[:1] for value in one.known()):
        raise Unfit("numbers that are not negative")
    return _over_time(table, "area")


def lines_of(table: Table) -> tuple[Series, Series | None] | None:
    """The time and the column that tells lines apart; None where a line would jump back and forth."""
    for time in table.times:
        if time.distinct < 2:
            continue
        if time.distinct == len(time.moments):
            return time, None
        for one in sorted(table.categories, key=lambda one: (one.is_id, one.distinct)):
            if len(set(zip(time.moments, one.labels, strict=True))) == table.rows:
                return time, one
    return None


def _over_time(table: Table, mark: Literal["line", "area"]) -> Drawing:
    if not table.numbers or (found := lines_of(table)) is None:
        raise Unfit("a column of dates with one number for each date (and each line)")
    time, splitting = found
    drawn = alike(table.numbers) if splitting is None else table.numbers[:1]
    notes: list[str] = []
    points: list[tuple[int, str, float | None]]
    if splitting is None:
        points = [(row, one.title, one.numbers[row]) for row in range(table.rows) for one in drawn]
    else:
        kept = _largest(splitting, drawn[0])
        if len(kept) < splitting.distinct:
            notes.append(f"the {len(kept)} largest of {splitting.distinct:,} lines are drawn")
        rows = [row for row in range(table.rows) if splitting.labels[row] in kept]
        points = [(row, splitting.labels[row], drawn[0].numbers[row]) for row in rows]
    undated = sum(time.moments[row] is None for row, _, _ in points)
    notes += [f"{undated:,} rows without a date are left out"] if undated else []
    notes += missing(sum(y is None for _, _, y in points), drawn[0])
    points = sorted(
        (one for one in points if time.moments[one[0]]), key=lambda one: (time.moments[one[0]] or 0, one[0])
    )
    points, cut = thinned(points)
    return _time_drawing(time, drawn, points, mark, splitting, notes + cut)


def _largest(splitting: Series, number: Series) -> set[str]:
    sizes: dict[str, float] = dict.fromkeys(splitting.labels, 0.0)
    for name, value in zip(splitting.labels, number.numbers, strict=True):
        sizes[name] += abs(value or 0)
    return set(sorted(sizes, key=lambda name: -sizes[name])[:MOST_SERIES])


def _time_drawing(
    time: Series,
    drawn: list[Series],
    points: list[tuple[int, str, float | None]],
    mark: Literal["line", "area"],
    splitting: Series | None,
    notes: list[str],
) -> Drawing:
    moments = [moment for moment in time.moments if moment is not None]
    grain = grain_of(moments)
    places = {series: place for place, series in enumerate(dict.fromkeys(series for _, series, _ in points))}
    has_series = len(places) > 1
    values: list[Json] = []
    for row, series, y in points:
        moment = time.moments[row]
        assert moment is not None
        value: Json = {"x": utc_text(moment), "y": y, "when": moment_text(moment, grain)}
        values.append(value | {"series": series, "place": places[series]} if has_series else value)
    number = (
        drawn[0] if len(drawn) == 1 else Series("", "number", numbers=[y for _, _, y in points], unit=drawn[0].unit)
    )
    known = [y for _, _, y in points if y is not None]
    tooltip: list[Json] = [{"field": "when", "type": "nominal", "title": time.title}, number_tip(number)]
    x_axis = {"grid": False, "labelAngle": 0, "labelOverlap": True, **time_axis(moments, grain)}
    encoding: Json = {
        "x": {"field": "x", "type": "temporal", "scale": {"type": "utc"}, "title": None, "axis": x_axis},
        "y": number_axis(number, known, zero=mark == "area"),
        "tooltip": tooltip,
    }
    if has_series:
        encoding["color"] = series_colour(splitting or Series("", "category"))
        tooltip.insert(0, {"field": "series", "type": "nominal", "title": splitting.title if splitting else "of"})
    if mark == "area" and has_series:
        encoding["order"] = {"field": "place", "type": "quantitative"}
    if mark == "area":
        drawn_as: Json = {"type": "area", "line": True}
    else:
        drawn_as = {"type": "line", "point": {"size": 40}} if len(set(moments)) <= 40 else {"type": "line"}
    labelled = [(moment_text(m, grain), y) for (row, _, y) in points if y is not None and (m := time.moments[row])]
    spec: Json = {"data": {"values": values}, "mark": drawn_as, "encoding": encoding, "width": WIDTH, "height": HEIGHT}
    return Drawing(spec, extremes(number, labelled, "points"), notes)


def scatter_plot(table: Table) -> Drawing:
    axes = [*(table.times[:1] if len(table.numbers) == 1 else []), *table.numbers][:2]
    if len(axes) < 2 or table.rows < 2:
        raise Unfit("two columns of numbers (or dates and a number)")
    x, y = axes
    label, colour = table.label(), next((one for one in table.categories if 1 < one.distinct <= MOST_SERIES), None)
    places = x.moments or x.numbers
    rows = [row for row in range(table.rows) if places[row] is not None and y.numbers[row] is not None]
    notes = [f"{table.rows - len(rows):,} rows without a value are left out"] if len(rows) < table.rows else []
    rows, cut = thinned(rows)
    if not rows:
        raise Unfit("rows with both values")
    grain = grain_of([one for one in x.moments if one is not None])
    values: list[Json] = []
    for row in rows:
        moment = x.moments[row] if x.moments else None
        value: Json = {"x": utc_text(moment) if moment else places[row], "y": y.numbers[row]}
        value |= {"when": moment_text(moment, grain)} if moment else {}
        value |= {"label": label.labels[row]} if label else {}
        values.append(value | ({"series": colour.labels[row]} if colour else {}))
    when: Json = {"field": "when", "type": "nominal", "title": x.title}
    tooltip = [when if x.moments else number_tip(x, "x"), number_tip(y)]
    tooltip = [{"field": "label", "type": "nominal", "title": label.title}, *tooltip] if label else tooltip
    across: Json = {"field": "x", "type": "temporal", "scale": {"type": "utc"}, "title": None, "axis": {"grid": False}}
    if not x.moments:
        across = number_axis(x, [n for row in rows if (n := x.numbers[row]) is not None], zero=False, near=0.1) | {
            "field": "x"
        }
    upright = number_axis(y, [n for row in rows if (n := y.numbers[row]) is not None], zero=False, near=0.1)
    encoding: Json = {"x": across, "y": upright, "tooltip": tooltip}
    if colour:
        encoding["color"] = series_colour(colour)
    mark = {"type": "point", "opacity": 0.8 if len(rows) <= 300 else 0.4, "size": 50 if len(rows) <= 300 else 22}
    spec: Json = {"data": {"values": values}, "mark": mark, "encoding": encoding, "width": WIDTH, "height": 400}
    return Drawing(spec, f"{len(rows):,} points of {y.title} against {x.title}", notes + cut)
