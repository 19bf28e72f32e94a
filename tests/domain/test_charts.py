"""Charts by rules: which kind a result becomes, what is in its spec, and what is never in it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.charts.bars import MOST_BARS
from recollect.domain.charts.chart import KINDS, Chart, ChartKind, caption_of, chart_of, kinds_for, themed
from recollect.domain.charts.columns import ChartColumn
from recollect.domain.charts.drawing import MOST_POINTS
from recollect.domain.charts.formats import number_text, unit_of, wrapped
from recollect.domain.charts.spec_check import check_spec
from recollect.errors import InvalidInput, RecollectError, TooLarge

MONTHS = [f"2025-{month:02d}-01" for month in range(1, 13)]


def drawn(columns: dict[str, str], rows: Sequence[Sequence[object]], **more: Any) -> Chart:
    return chart_of([ChartColumn(name, type) for name, type in columns.items()], rows, **more)


def spec_of(chart: Chart) -> dict[str, Any]:
    assert chart.spec is not None, chart.reason
    check_spec(chart.spec)
    return chart.spec


def values_of(chart: Chart) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = spec_of(chart)["data"]["values"]
    return values


@pytest.mark.parametrize(
    ("columns", "rows", "kind"),
    [
        ({"month": "DATE", "revenue": "DOUBLE"}, [[month, 5.0] for month in MONTHS], "line"),
        ({"month": "VARCHAR", "revenue": "DOUBLE"}, [["2025-01", 5.0], ["2025-02", 6.0]], "line"),
        ({"year": "BIGINT", "orders": "BIGINT"}, [[2023, 5], [2024, 6], [2025, 9]], "line"),
        ({"region": "VARCHAR", "revenue": "DOUBLE"}, [["north", 5.0], ["south", 6.0]], "bar"),
        ({"customer_id": "BIGINT", "orders": "BIGINT"}, [[7, 5], [8, 6]], "bar"),
        ({"day": "VARCHAR", "hour": "VARCHAR", "n": "BIGINT"}, [[d, h, 1] for d in "ab" for h in "xyz"], "heatmap"),
        ({"age": "INTEGER", "income": "DOUBLE"}, [[20, 5.0], [30, 6.5], [40, 6.1]], "scatter"),
        ({"amount": "DOUBLE"}, [[float(n)] for n in range(50)], "histogram"),
        ({"count_star()": "BIGINT"}, [[42]], "number"),
        ({"region": "VARCHAR", "revenue": "DOUBLE"}, [["north", 5.0]], "number"),
        ({"time": "TIMESTAMP", "value": "DOUBLE"}, [["2025-01-01T10:00:00", n] for n in (1.0, 2.0)] * 9, "histogram"),
        ({"time": "DATE", "value": "DOUBLE"}, [[month, n] for n in (1.0, 2.0) for month in MONTHS], "scatter"),
    ],
)
def test_the_kind_follows_from_the_columns(columns: dict[str, str], rows: list[list[object]], kind: str) -> None:
    assert drawn(columns, rows).kind == kind


@pytest.mark.parametrize(
    ("columns", "rows", "reason"),
    [
        ({"amount": "DOUBLE"}, [], "empty"),
        ({"name": "VARCHAR", "email": "VARCHAR"}, [["a", "b"], ["c", "d"]], "no column of numbers"),
        ({"low": "DOUBLE", "high": "DOUBLE"}, [[1.0, 2.0]], "table"),
        ({"amount": "DOUBLE"}, [[None], [None]], "no column of numbers"),
        ({"point": "STRUCT(x DOUBLE)", "tags": "VARCHAR[]"}, [[{"x": 1}, ["a"]], [{"x": 2}, []]], "no column of"),
        ({"amount": "DOUBLE"}, [[1.0], [2.0]], "nothing that names them"),
    ],
)
def test_what_cannot_be_drawn_says_why(columns: dict[str, str], rows: list[list[object]], reason: str) -> None:
    chart = drawn(columns, rows)
    assert chart.spec is None
    assert reason in chart.reason


def test_a_small_category_makes_several_lines() -> None:
    rows = [[month, region, 1.0] for month in MONTHS for region in ("north", "south")]
    chart = drawn({"month": "DATE", "region": "VARCHAR", "revenue": "DOUBLE"}, rows)
    assert spec_of(chart)["encoding"]["color"]["field"] == "series"
    assert {value["series"] for value in values_of(chart)} == {"north", "south"}


def test_of_many_lines_the_largest_are_drawn_and_the_rest_is_told() -> None:
    rows = [[month, f"shop {n}", float(n)] for month in MONTHS for n in range(20)]
    chart = drawn({"month": "DATE", "shop": "VARCHAR", "revenue": "DOUBLE"}, rows)
    assert {value["series"] for value in values_of(chart)} == {f"shop {n}" for n in range(12, 20)}
    assert chart.notes == ["the 8 largest of 20 lines are drawn"]


def test_columns_that_can_share_an_axis_are_drawn_together() -> None:
    rows = [["north", 100.0, 120.0], ["south", 80.0, 70.0]]
    chart = drawn({"region": "VARCHAR", "revenue_2024": "DOUBLE", "revenue_2025": "DOUBLE"}, rows)
    assert [value["series"] for value in values_of(chart)] == ["revenue_2024", "revenue_2025"] * 2


def test_bars_stand_as_the_result_is_sorted_and_the_rest_is_told() -> None:
    rows = [[f"item {n}", 500 - n] for n in range(112)]
    chart = drawn({"item": "VARCHAR", "stock": "BIGINT"}, rows)
    assert [value["x"] for value in values_of(chart)] == [f"item {n}" for n in range(MOST_BARS)]
    assert chart.notes == ["the first 30 of 112 bars are drawn"]
    assert spec_of(chart)["layer"][0]["encoding"]["y"]["sort"] is None


def test_long_names_lie_and_are_cut_but_stay_apart() -> None:
    chart = drawn({"text": "VARCHAR", "n": "BIGINT"}, [["x" * 500, 1], ["x" * 501, 2], [None, 3], ["", 4]])
    names = [value["x"] for value in values_of(chart)]
    assert len(set(names)) == 4
    assert max(map(len, names)) <= 60
    assert names[2:] == ["(empty)", "(blank)"]
    assert spec_of(chart)["layer"][0]["encoding"]["y"]["field"] == "x"


def test_the_number_that_the_result_is_sorted_by_is_drawn() -> None:
    rows = [["a", 3, 9.0], ["b", 1, 7.0], ["c", 2, 5.0]]
    chart = drawn({"name": "VARCHAR", "orders": "BIGINT", "revenue": "DOUBLE"}, rows, kind="pie")
    assert [value["y"] for value in values_of(chart)] == [9.0, 7.0, 5.0]


def test_nulls_are_told() -> None:
    chart = drawn({"region": "VARCHAR", "revenue": "DOUBLE"}, [["north", 5.0], ["south", None], ["west", None]])
    assert chart.notes == ["2 rows have no number in revenue"]
    assert len(values_of(chart)) == 1


def test_no_more_than_5000_points_are_inlined() -> None:
    rows = [[random.random(), random.random()] for _ in range(20_000)]
    chart = drawn({"x": "DOUBLE", "y": "DOUBLE"}, rows)
    assert len(values_of(chart)) == MOST_POINTS
    assert chart.notes == ["5,000 of 20,000 points are drawn, evenly chosen"]


def test_a_histogram_counts_every_row_and_inlines_only_its_bars() -> None:
    chart = drawn({"amount": "DOUBLE"}, [[n / 7] for n in range(9000)])
    assert sum(value["y"] for value in values_of(chart)) == 9000
    assert len(values_of(chart)) <= 40


def test_dates_are_the_same_day_everywhere() -> None:
    chart = drawn({"day": "DATE", "n": "BIGINT"}, [["2025-03-30", 1], ["2025-03-31", 2]])
    assert [value["x"] for value in values_of(chart)] == ["2025-03-30T00:00:00Z", "2025-03-31T00:00:00Z"]
    assert spec_of(chart)["encoding"]["x"]["scale"] == {"type": "utc"}
    assert [value["when"] for value in values_of(chart)] == ["30 Mar 2025", "31 Mar 2025"]


def test_a_month_that_is_not_over_is_told() -> None:
    rows = [[month, 1.0] for month in MONTHS]
    assert drawn({"month": "DATE", "n": "DOUBLE"}, rows, today=date(2025, 12, 3)).notes == ["Dec 2025 is not over yet"]
    assert drawn({"month": "DATE", "n": "DOUBLE"}, rows, today=date(2026, 1, 3)).notes == []


def test_a_year_is_no_number_with_a_comma() -> None:
    chart = drawn({"year": "BIGINT", "n": "BIGINT"}, [[2024, 1], [2025, 2]])
    assert [value["when"] for value in values_of(chart)] == ["2024", "2025"]
    assert number_text(2025, "year") == "2025"


@pytest.mark.parametrize(
    ("name", "meaning", "values", "text"),
    [
        ("revenue", None, [1234567.5], "1.23M"),
        ("revenue", None, [12.5], "12.50"),
        ("churn_rate", None, [0.125, 0.5], "12.5%"),
        ("anything", "percent", [12.5], "12.5%"),
        ("orders", None, [9999], "9,999"),
        ("orders", None, [123456], "123,456"),
        ("ratio of nothing", "number", [0.00123], "0.0012"),
        ("huge", None, [1e300], "1e+300"),
    ],
)
def test_numbers_are_worded_by_what_they_mean(name: str, meaning: str | None, values: list[float], text: str) -> None:
    assert number_text(values[0], unit_of(name, meaning, values)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_can_be_asked_for_and_is_refused_with_those_that_fit(kind: ChartKind) -> None:
    names = [ChartColumn("region", "VARCHAR"), ChartColumn("revenue", "DOUBLE")]
    rows = [["north", 5.0], ["south", 6.0], ["west", 1.0]]
    if kind in kinds_for(names, rows):
        assert chart_of(names, rows, kind=kind).kind == kind
        return
    with pytest.raises(InvalidInput) as refused:
        chart_of(names, rows, kind=kind)
    assert refused.value.remedy == "kinds of chart that fit: bar, histogram, pie"


def test_small_slices_become_one() -> None:
    chart = drawn({"name": "VARCHAR", "n": "BIGINT"}, [[f"n{n}", 100 - n] for n in range(20)], kind="pie")
    assert len(values_of(chart)) == 8
    assert values_of(chart)[-1]["x"].startswith("13 others")
    assert chart.notes == ["13 small slices are drawn as one"]


def test_under_a_chart_stand_the_statement_the_rows_and_what_was_cut() -> None:
    rows = [[f"item {n}", n] for n in range(40)]
    chart = drawn({"item": "VARCHAR", "n": "BIGINT"}, rows, sql="select item, n from t", row_count=123_456, is_cut=True)
    caption = caption_of(spec_of(chart))
    assert caption.facts == "the first 40 of 123,456 rows · the first 30 of 40 bars are drawn"
    assert caption.sql == "select item, n from t"


def test_a_chart_is_described_for_those_who_do_not_see_it() -> None:
    chart = drawn({"region": "VARCHAR", "n": "BIGINT"}, [["north", 5], ["south", 9]], title="How many?")
    assert spec_of(chart)["description"] == "Bar chart: How many? 2 bars, from 5 (north) to 9 (south)."


HOSTILE = [
    "a.b['c']",
    'x"]; url: http://evil.example/x.png',
    "</script><script>alert(1)</script>",
    "datum['y'] = 1",
    "{{constructor}}",
    "\\.[",
    "\x00\x1b[31m",
    "表格",
    "عمود",
    "",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_and_values_of_strangers_are_only_ever_text(name: str) -> None:
    rows = [[name, 1.0], [f"{name}2", 2.0]]
    chart = drawn({name: "VARCHAR", f"{name}n": "DOUBLE"}, rows, title=name, sql=name)
    assert {field for value in values_of(chart) for field in value} <= {"x", "y", "label"}
    assert _keys(spec_of(chart)).isdisjoint({"url", "expr", "signal", "transform", "href", "params"})


def test_a_column_named_image_is_not_loaded_by_the_tooltip() -> None:
    chart = drawn({"image": "VARCHAR", "n": "BIGINT"}, [["http://evil.example/x.png", 1], ["b", 2]])
    assert [one["title"] for one in spec_of(chart)["layer"][0]["encoding"]["tooltip"]] == ["Image", "n"]


def _keys(part: object) -> set[str]:
    if isinstance(part, dict):
        return set(part) | {key for value in part.values() for key in _keys(value)}
    return {key for value in part for key in _keys(value)} if isinstance(part, list) else set()


def test_the_only_address_in_a_spec_is_the_name_of_its_schema() -> None:
    chart = drawn({"region": "VARCHAR", "n": "BIGINT"}, [["north", 5], ["south", 9]])
    assert json.dumps(spec_of(chart)).count("://") == 1


def test_a_theme_changes_nothing_but_the_colours() -> None:
    spec = spec_of(drawn({"region": "VARCHAR", "n": "BIGINT"}, [["north", 5], ["south", 9]]))
    dark = themed(spec, "dark")
    assert dark["config"] != spec["config"]
    assert {**dark, "config": None} == {**spec, "config": None}
    check_spec(dark)


def test_text_of_any_script_is_wrapped() -> None:
    assert wrapped("one two three four", 9, 3) == ["one two", "three", "four"]
    assert wrapped("各地区的销售总额是多少", 10, 2) == ["各地区的销", "售总额是多 …"]


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.text(max_size=20),
    st.dates().map(date.isoformat),
    st.sampled_from(["a", "b", "2025-01", "NaN", "inf"]),
    st.lists(st.integers(), max_size=2),
)
_TYPES = st.sampled_from(
    ["BIGINT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN", "HUGEINT", "INTEGER[]", "JSON"]
)


@st.composite
def _results(draw: st.DrawFn) -> tuple[list[ChartColumn], list[list[object]]]:
    types = draw(st.lists(_TYPES, min_size=1, max_size=4))
    columns = [ChartColumn(draw(st.text(max_size=8)), type) for type in types]
    row = st.lists(_VALUES, min_size=len(types), max_size=len(types))
    return columns, draw(st.lists(row, max_size=12))


@given(_results(), st.sampled_from([None, *KINDS]))
def test_whatever_the_rows_are_there_is_a_sound_spec_or_a_reason(
    result: tuple[list[ChartColumn], list[list[object]]], kind: ChartKind | None
) -> None:
    try:
        chart = chart_of(*result, kind=kind)
    except InvalidInput:
        assert kind is not None, "only a kind that was asked for is refused"
        return
    assert (chart.spec is None) == bool(chart.reason)
    if chart.spec is not None:
        check_spec(chart.spec)
        json.dumps(chart.spec, allow_nan=False)


def _changed(change: dict[str, Any]) -> dict[str, Any]:
    spec = spec_of(drawn({"age": "INTEGER", "income": "DOUBLE"}, [[20, 5.0], [30, 6.5], [40, 6.1]]))
    return {**spec, **change}


def _hostile_specs() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "address", _changed({"data": {"url": "http://127.0.0.1/x.json"}})
    yield "address beside values", _changed({"data": {"values": [], "url": "file:///etc/passwd"}})
    yield "sequence", _changed({"data": {"sequence": {"start": 0, "stop": 1e12}}})
    yield "image", _changed({"mark": {"type": "image"}})
    yield "image, short", _changed({"mark": "image"})
    yield "link", _changed({"encoding": {"href": {"field": "x"}}})
    yield "image address", _changed({"encoding": {"url": {"field": "x"}}})
    yield "transform", _changed({"transform": [{"calculate": "1", "as": "z"}]})
    yield "params", _changed({"params": [{"name": "a", "expr": "1"}]})
    yield "expression of a label", _changed({"encoding": {"x": {"axis": {"labelExpr": "alert(1)"}}}})
    yield "expression", _changed({"width": {"expr": "1e9"}})
    yield "signal", _changed({"height": {"signal": "1e9"}})
    yield "huge", _changed({"width": 1e9})
    yield "many ticks", _changed({"encoding": {"x": {"axis": {"tickCount": 1e9}}}})
    yield "wide format", _changed({"encoding": {"x": {"axis": {"format": "999999999d"}}}})
    yield "facet", _changed({"encoding": {"row": {"field": "x"}}})
    yield "another schema", _changed({"$schema": "https://vega.github.io/schema/vega/v6.json"})
    yield "paint from elsewhere", _changed({"config": {"background": "url(http://evil.example/x.svg)"}})
    yield "many layers", _changed({"layer": [{"mark": "bar"}] * 1000})
    yield "unknown field", _changed({"data": {"values": [{"__proto__": 1}]}})
    yield "nested", _changed({"data": {"values": [{"x": {"a": 1}}]}})
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"layer": [deep]}
    yield "deep", _changed(deep)


@pytest.mark.parametrize(
    ("what", "spec"), list(_hostile_specs()), ids=lambda given: given if isinstance(given, str) else ""
)
def test_a_spec_that_is_not_like_ours_is_refused(what: str, spec: dict[str, Any]) -> None:
    with pytest.raises(RecollectError):
        check_spec(spec)


def test_a_spec_with_too_many_points_is_refused() -> None:
    with pytest.raises(TooLarge):
        check_spec(_changed({"data": {"values": [{"x": 1}] * 20_000}}))


def test_days_of_a_year_leave_their_ticks_to_vega() -> None:
    rows = [[(date(2025, 1, 1) + timedelta(days=n)).isoformat(), n] for n in range(365)]
    assert "values" not in spec_of(drawn({"day": "DATE", "n": "BIGINT"}, rows))["encoding"]["x"]["axis"]
