"""Pages about data: the sources with their profiles, questions with their answers, and outside databases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from recollect.domain.charts.chart import caption_of, chart_of, kind_of, kinds_for
from recollect.domain.charts.columns import ChartColumn, role_of_type
from recollect.domain.charts.themes import config
from recollect.interfaces.http.app import Endpoint, Service
from recollect.interfaces.http.console.page_context import ROOT, SECURITY_HEADERS, Page, PageContext, TemplateValues
from recollect.services.data.queries import QueryView
from recollect.services.data.sources import FieldView, TableView
from recollect.services.data.tables import readable_name

_NAMES = frozenset({"id", "category", "flag", "year", "month", "phone", "postcode"})  # numbers that name, not measure
SOURCES_AT_ONCE, MOST_SOURCES, MOST_CHANGED, FEW_COLUMNS, TOP_VALUES, MOST_JOINS = 30, 200, 5, 12, 5, 12


def sources(context: PageContext) -> TemplateValues:
    page = context.call("source.list", after=context.query("after"), limit=SOURCES_AT_ONCE)
    removed = context.ask("source.list", removed=True, limit=SOURCES_AT_ONCE) if context.may("source.restore") else None
    asked = context.query("q").strip()
    found = context.ask("source.find", query=asked) if asked else None
    return {
        "sources": page.sources,
        "next": page.next,
        "removed": removed.sources if removed else [],
        "q": asked,
        "found": found,
    }


class Bar(NamedTuple):
    """A bar of a small drawing in a box of 100 by 100, and what it says."""

    x: float
    y: float
    width: float
    height: float
    label: str


class Value(NamedTuple):
    """A frequent value: its text, how often it is there, and its share of the most frequent."""

    text: str
    amount: int
    share: float


class ColumnProfile(NamedTuple):
    """A column as its row of the profile shows it."""

    field: FieldView
    filled: float
    facts: list[tuple[str, str]]
    bars: list[Bar]
    values: list[Value]


class TableProfile(NamedTuple):
    table: TableView
    columns: list[ColumnProfile]


def source(context: PageContext) -> TemplateValues:
    shown = context.call("source.show", id=context.id)
    versions = context.call("source.versions", id=shown.id).versions
    context.learn_names(one.created_by for one in versions)
    return {
        "source": shown,
        "tables": [TableProfile(table, [column_profile(one) for one in table.fields]) for table in shown.tables],
        "versions": versions,
        "few": FEW_COLUMNS,
        "most_joins": MOST_JOINS,
    }


def column_profile(field: FieldView) -> ColumnProfile:
    known = field.statistics
    rows, nulls = _count(known.get("rows")), _count(known.get("nulls"))
    is_key = bool(known.get("is_key"))
    is_measured = not is_text(field) and field.meaning not in _NAMES
    about = "" if known.get("is_distinct_exact", True) else "about "
    facts = [("distinct", f"{about}{_count(known.get('distinct')):,}")] if rows else []
    if known.get("min") is not None and known.get("max") is not None and not is_text(field):
        facts.append(("range", f"{value_text(known['min'])} to {value_text(known['max'])}"))
    if isinstance(known.get("mean"), int | float) and is_measured:
        facts.append(("mean", value_text(known["mean"])))
    quantiles = known.get("quantiles")
    if isinstance(quantiles, list) and len(quantiles) == 5 and is_measured:
        facts.append(("median", value_text(quantiles[2])))
    bars = histogram_bars(known.get("histogram"))
    values = [] if bars or is_key else top_values(known.get("top"))
    return ColumnProfile(field, 100 * (rows - nulls) / rows if rows else 0.0, facts, bars, values)


def is_text(field: FieldView) -> bool:
    return field.type == "VARCHAR"


def histogram_bars(bins: object) -> list[Bar]:
    """The bars of a histogram; the highest reaches the top, and what is not empty can be seen."""
    if not isinstance(bins, list) or len(bins) < 2:
        return []
    counts = [_count(one.get("count")) for one in bins]
    most, width = max(counts) or 1, 100 / len(bins)
    found = []
    for at, (one, count) in enumerate(zip(bins, counts, strict=True)):
        height = max(3.0, 100 * count / most) if count else 0.0
        label = f"{value_text(one.get('low'))} to {value_text(one.get('high'))}: {count:,}"
        found.append(Bar(round(at * width, 2), round(100 - height, 2), round(width * 0.88, 2), round(height, 2), label))
    return found


def top_values(top: object) -> list[Value]:
    if not isinstance(top, list) or not top:
        return []
    counts = [_count(one.get("count")) for one in top]
    most = max(counts) or 1
    shown: Sequence[object] = [one.get("value") for one in top[:TOP_VALUES]]
    return [
        Value(value_text(value), count, round(100 * count / most, 2))
        for value, count in zip(shown, counts[:TOP_VALUES], strict=True)
    ]


def value_text(value: object) -> str:
    """A value of a table as people read it."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1 else f"{value:,.2f}".rstrip("0").rstrip(".")
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    text = str(value)
    return text.removesuffix("T00:00:00") if text else "(blank)"


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


SHOWN_CELLS, FEWEST_ROWS, RECENT = 6000, 10, 12


def ask(context: PageContext) -> TemplateValues:
    """A question, and the answer to the one that the address names."""
    recent = context.call("query.list", limit=RECENT)
    facts: TemplateValues = {
        "sources": context.call("source.list", limit=MOST_SOURCES).sources,
        "chosen": context.query("source"),
        "recent": recent.runs,
        "asked": context.query("q"),
    }
    return facts | (answer(context) if context.query("run") else {"run": None, "vega": vega_version()})


def answer(context: PageContext) -> TemplateValues:
    """A run with its chart, its rows, and what can be changed in how its question was read."""
    run = context.call("query.show", run=context.query("run"))
    columns = [ChartColumn(one.name, one.type) for one in run.columns]
    kinds = kinds_for(columns, run.rows)
    chosen = next((kind for kind in kinds if kind == context.query("kind")), None)
    spec, reason = run.chart, ""
    if spec is None or chosen is not None:
        chart = chart_of(
            columns, run.rows, title=run.question, sql=run.sql, row_count=run.row_count, is_cut=run.is_cut, kind=chosen
        )
        spec, reason = chart.spec, chart.reason
    rows = run.rows[: max(FEWEST_ROWS, SHOWN_CELLS // max(1, len(columns)))]
    return {
        "run": run,
        "rows": [[cell_text(cell, one.type) for cell, one in zip(row, columns, strict=True)] for row in rows],
        "numeric": [role_of_type(one.type) == "number" for one in columns],
        "is_whole": len(rows) == run.row_count,
        "chart": {"spec": spec, "dark": config("dark")} if spec else None,
        "reason": reason,
        "caption": caption_of(spec or {}),
        "vega": vega_version(),
        "kinds": kinds,
        "file": readable_name(run.question or "result")[:60],
        "kind": chosen or kind_of(spec or {}),
        "fields": _columns_of(context, run) if run.reading else [],
    }


def cell_text(value: object, type: str) -> str | None:
    """A cell of a result: as it is, but for the last digits of a sum, and the midnight of a day."""
    if value is None:
        return None
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and type.startswith("TIMESTAMP"):
        return value.removesuffix("T00:00:00").replace("T", " ")
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def _columns_of(context: PageContext, run: QueryView) -> list[str]:
    """The columns that a part of the reading may be changed to, as table.column."""
    known = [context.call("source.show", id=one.id) for one in run.sources[:MOST_CHANGED]]
    return [f"{table.name}.{field.name}" for one in known for table in one.tables for field in table.fields]


def connections(context: PageContext) -> TemplateValues:
    page = context.call("connection.list", after=context.query("after"), limit=SOURCES_AT_ONCE)
    return {"connections": page.connections, "next": page.next}


PAGES = (
    Page("/sources", "sources.html", "source.list", sources),
    Page("/sources/{id}", "source.html", "source.show", source),
    Page("/connections", "connections.html", "connection.list", connections),
    Page("/ask", "ask.html", "query.show", ask),
    Page("/ask/answer", "answer.html", "query.show", answer),
)


def vega_version() -> str:
    """Which version draws charts in the browser; empty where it is not installed."""
    try:
        return version("vl-convert-python")
    except PackageNotFoundError:
        return ""


def endpoints(service: Service) -> list[Endpoint]:
    async def vega(request: Request) -> Response:
        """What draws charts, from the package that has it: nothing of it lies among our own files."""

        def made() -> bytes:
            service.principal(request)  # making it takes a process: for those who are signed in
            return service.core.charts.javascript()

        script = await service.run(made)
        fresh = request.query_params.get("v") == vega_version()
        headers = {"cache-control": "public, max-age=31536000, immutable" if fresh else "no-cache"}
        return Response(script, media_type="text/javascript", headers=headers | SECURITY_HEADERS)

    return [("GET", f"{ROOT}/vega.js", "console vega", vega)]
