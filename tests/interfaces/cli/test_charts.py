"""Charts in a terminal: the same spec as everywhere, as blocks and dots."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from recollect.domain.charts.chart import ChartKind, chart_of
from recollect.domain.charts.columns import ChartColumn
from recollect.interfaces.cli.render.charts import chart_lines, show_chart

MONTHS = [f"2025-{month:02d}-01" for month in range(1, 13)]


def shown(
    columns: dict[str, str], rows: list[list[object]], kind: ChartKind | None = None, width: int = 60
) -> list[str]:
    spec = chart_of([ChartColumn(*one) for one in columns.items()], rows, kind=kind, title="The title").spec
    assert spec is not None
    output = io.StringIO()
    show_chart(Console(file=output, width=width, highlight=False), spec)
    return output.getvalue().splitlines()


def test_bars_are_as_long_as_their_numbers() -> None:
    lines = shown({"region": "VARCHAR", "n": "BIGINT"}, [["north", 100], ["华南", 50], ["[red]x[/]", 25]])
    assert lines[0] == "The title"
    assert [line.count("█") for line in lines[1:4]] == [45, 22, 11]
    assert lines[3].startswith("[red]x[/] █"), "markup in a value is text"
    assert lines[2].endswith("▌ 50")
    assert lines[-1] == "3 rows"


def test_a_line_is_a_curve_between_its_lowest_and_highest() -> None:
    lines = shown({"month": "DATE", "n": "BIGINT"}, [[month, place] for place, month in enumerate(MONTHS)])
    assert lines[1].startswith("11 ")
    assert lines[12].startswith(" 0 ")
    assert lines[13] == "Jan 2025 to Dec 2025"


def test_several_lines_are_sparklines() -> None:
    rows: list[list[object]] = [[month, name, place] for place, month in enumerate(MONTHS) for name in ("a", "b")]
    lines = shown({"month": "DATE", "name": "VARCHAR", "n": "BIGINT"}, rows)
    assert lines[1] == "a ▁▂▂▃▄▄▅▅▆▇▇█ 0 → 11"


@pytest.mark.parametrize(
    ("columns", "rows", "kind"),
    [
        ({"x": "DOUBLE", "y": "DOUBLE"}, [[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]], "scatter"),
        ({"day": "DATE", "y": "DOUBLE"}, [[month, 2.0] for month in MONTHS] * 2, "scatter"),
        ({"x": "DOUBLE"}, [[float(n)] for n in range(30)], "histogram"),
        ({"n": "BIGINT"}, [[42]], "number"),
        ({"a": "VARCHAR", "b": "VARCHAR", "n": "BIGINT"}, [[a, b, 1] for a in "xy" for b in "uvw"], "heatmap"),
        ({"a": "VARCHAR", "n": "BIGINT"}, [["x", 1], ["y", 2]], "pie"),
        ({"month": "DATE", "n": "BIGINT"}, [[month, 0] for month in MONTHS], "area"),
        ({"a": "VARCHAR", "m": "DOUBLE", "n": "DOUBLE"}, [["x", 1.0, 2.0], ["y", 2.0, -1.0]], "bar"),
    ],
)
@pytest.mark.parametrize("width", [20, 100])
def test_every_kind_is_drawn_within_the_width(
    columns: dict[str, str], rows: list[list[object]], kind: ChartKind, width: int
) -> None:
    lines = shown(columns, rows, kind, width)
    assert len(lines) >= 3
    assert max(map(len, lines)) <= width


def test_a_spec_without_values_draws_nothing() -> None:
    assert chart_lines({}) == []
