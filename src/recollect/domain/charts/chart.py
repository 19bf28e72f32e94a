"""The chart of a result: which kind fits, by rules, and its Vega-Lite spec.

    dates and a number              line (one for each value of a small category)
    a name and a number             bars, as the result is sorted
    two categories and a number     heat map
    two numbers                     scatter plot
    many numbers                    histogram
    one number                      the number

Values are inlined and nothing in a spec has an address. What stands under a chart (the statement, the number of rows,
what was left out) is in `usermeta.recollect`; whoever draws the chart draws it, too (`caption_of`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal, get_args

from recollect.domain.charts.bars import bar_chart, histogram, number_chart, pie_chart
from recollect.domain.charts.columns import ChartColumn, Role, Series, read_column, role_of_type
from recollect.domain.charts.drawing import SCHEMA, Drawing, Json, Table, Unfit
from recollect.domain.charts.formats import Grain, grain_of, label_text, moment_text, wrapped
from recollect.domain.charts.heat_map import heat_map
from recollect.domain.charts.lines import area_chart, line_chart, lines_of, scatter_plot
from recollect.domain.charts.themes import Theme, config
from recollect.errors import InvalidInput

ChartKind = Literal["bar", "line", "area", "scatter", "histogram", "heatmap", "pie", "number"]
KINDS: tuple[ChartKind, ...] = get_args(ChartKind)
_MOST_SQL = 4_000
_MOST_OF_A_ROLE = 8
BUILDERS: dict[ChartKind, Callable[[Table], Drawing]] = {
    "bar": bar_chart,
    "line": line_chart,
    "area": area_chart,
    "scatter": scatter_plot,
    "histogram": histogram,
    "heatmap": heat_map,
    "pie": pie_chart,
    "number": number_chart,
}
_NAMES: dict[ChartKind, str] = {
    "bar": "bar chart",
    "line": "line chart",
    "area": "area chart",
    "scatter": "scatter plot",
    "histogram": "histogram",
    "heatmap": "heat map",
    "pie": "pie chart",
    "number": "number",
}


@dataclass(frozen=True, slots=True)
class Chart:
    """`spec` is None where nothing sensible can be drawn; `reason` then says why."""

    kind: ChartKind | None
    spec: Json | None
    reason: str = ""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Caption:
    """What stands under a chart: `facts` (rows and what was left out), and the statement."""

    facts: str
    sql: str


def chart_of(
    columns: Sequence[ChartColumn],
    rows: Sequence[Sequence[object]],
    *,
    title: str = "",
    sql: str = "",
    row_count: int | None = None,
    is_cut: bool = False,
    kind: ChartKind | None = None,
    today: date | None = None,
) -> Chart:
    """The chart of a result. `row_count` is of the whole result, of which `rows` are the first when `is_cut`.

    Raises InvalidInput where the data cannot be drawn as the kind that was asked for.
    """
    table = _table(columns, rows)
    try:
        chosen = kind or choose(table)
        drawing = BUILDERS[chosen](table)
    except Unfit as unfit:
        if kind is None:
            return Chart(None, None, str(unfit))
        fitting = ", ".join(fitting_kinds(table)) or "none: look at the table"
        remedy = f"kinds of chart that fit: {fitting}"
        raise InvalidInput(f"a {_NAMES[kind]} needs {unfit}", remedy=remedy) from None
    notes = [*drawing.notes, *_unfinished(table, today)]
    said = label_text(title, 200) if title else _title(chosen, table)
    stop = "" if said[-1:] in ".?!。？！" else "."
    spec: Json = {
        "$schema": SCHEMA,
        "title": {"text": wrapped(said, 72, 2)},
        "description": f"{_NAMES[chosen].capitalize()}: {said}{stop} {drawing.summary}.",
        **drawing.spec,
        "config": config("light"),
        "usermeta": {"recollect": _meta(chosen, drawing, notes, sql, len(rows), row_count, is_cut)},
    }
    return Chart(chosen, spec, notes=notes)


def choose(table: Table) -> ChartKind:
    if table.rows == 0:
        raise Unfit("the result is empty")
    if not table.numbers:
        raise Unfit("there is no column of numbers to draw")
    if table.rows == 1:
        if len(table.numbers) > 1:
            raise Unfit("a single row with several numbers reads best as a table")
        return "number"
    if any(time.distinct > 1 for time in table.times):
        return "line" if lines_of(table) else "scatter"
    if table.label():
        return "bar"
    if table.pair():
        return "heatmap"
    if len(table.numbers) > 1 and table.rows > 2:
        return "scatter"
    if table.rows >= 10:
        return "histogram"
    raise Unfit("there are a few numbers and nothing that names them")


def fitting_kinds(table: Table) -> list[ChartKind]:
    found: list[ChartKind] = []
    for kind, build in BUILDERS.items():
        try:
            build(table)
        except Unfit:
            continue
        found.append(kind)
    return found


def kinds_for(columns: Sequence[ChartColumn], rows: Sequence[Sequence[object]]) -> list[ChartKind]:
    """The kinds of chart that a result can be drawn as."""
    return fitting_kinds(_table(columns, rows))


def themed(spec: Mapping[str, object], theme: Theme) -> Json:
    """The same chart in the colours of a theme."""
    return {**spec, "config": config(theme)}


def _ours(spec: Mapping[str, object]) -> Mapping[str, object]:
    meta = spec.get("usermeta")
    ours = meta.get("recollect") if isinstance(meta, dict) else None
    return ours if isinstance(ours, dict) else {}


def kind_of(spec: Mapping[str, object]) -> ChartKind | None:
    """Which kind of chart a spec of ours is."""
    return next((kind for kind in KINDS if kind == _ours(spec).get("kind")), None)


def caption_of(spec: Mapping[str, object]) -> Caption:
    ours = _ours(spec)
    notes = ours.get("notes")
    facts = [ours.get("rows"), *(notes if isinstance(notes, list) else [])]
    return Caption(" · ".join(str(one) for one in facts if one), str(ours.get("sql") or ""))


def _table(columns: Sequence[ChartColumn], rows: Sequence[Sequence[object]]) -> Table:
    """The columns by role: the first few of each, which is enough to choose from. A result may have hundreds."""
    found: dict[Role, list[Series]] = {"time": [], "category": [], "number": [], "other": []}
    read: Counter[Role] = Counter()
    for place, column in enumerate(columns):
        likely = role_of_type(column.type)
        if read[likely] < _MOST_OF_A_ROLE:
            read[likely] += 1
            one = read_column(column, [row[place] for row in rows])
            found[one.role].append(one)
    return Table(len(rows), found["time"], found["category"], found["number"])


def _meta(
    kind: ChartKind, drawing: Drawing, notes: list[str], sql: str, shown: int, row_count: int | None, is_cut: bool
) -> Json:
    if is_cut:
        rows = f"the first {shown:,} of {f'{row_count:,}' if row_count else 'many'} rows"
    else:
        rows = f"{shown:,} row{'' if shown == 1 else 's'}"
    return {"kind": kind, "rows": rows, "notes": notes, "summary": drawing.summary, "sql": sql[:_MOST_SQL]}


def _title(kind: ChartKind, table: Table) -> str:
    number = table.number().title
    over = [one.title for one in table.times[:1] or table.categories[:1]]
    if kind == "scatter" and len(table.numbers) > 1:
        return f"{table.numbers[1].title} against {table.numbers[0].title}"
    if kind == "heatmap":
        over = [one.title for one in [*table.categories, *table.times][:2]]
    return number if kind in ("histogram", "number") or not over else f"{number} by {' and '.join(over)}"


def _unfinished(table: Table, today: date | None) -> list[str]:
    """The last month or year of a line often dips only because it is not over."""
    moments: list[datetime] = [one for time in table.times[:1] for one in time.moments if one is not None]
    if today is None or len(moments) < 2:
        return []
    grain: Grain = grain_of(moments)
    last = max(moments)
    is_now = last.year == today.year and (grain == "year" or (grain == "month" and last.month == today.month))
    return [f"{moment_text(last, grain)} is not over yet"] if is_now else []
