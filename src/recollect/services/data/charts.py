"""Charts of runs: a Vega-Lite specification by rules, stored with the run, and drawn as a file where one is wanted."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Annotated, get_args

from pydantic import Field as Having

from recollect.domain.charts.chart import ChartKind, chart_of
from recollect.domain.charts.columns import ChartColumn
from recollect.domain.charts.themes import Theme
from recollect.domain.memory import canonical
from recollect.domain.record import Json, JsonArray
from recollect.domain.sources import QueryRun
from recollect.errors import InvalidInput
from recollect.ports.charts import ChartFormat
from recollect.ports.data import DEFAULT_LIMITS
from recollect.ports.steps import Touch
from recollect.services.data.ask import KEPT_CHART_BYTES
from recollect.services.data.exports import LONGEST_PATH, own_target
from recollect.services.data.queries import QueryRequest, run_again
from recollect.services.requests import AS_GIVEN, Reply
from recollect.services.secrets import masked_value
from recollect.services.tenant import Tenant
from recollect.services.transaction import load

MOST_DRAWN_ROWS = 5_000
FORMATS: tuple[ChartFormat, ...] = get_args(ChartFormat)


class ChartQueryRequest(QueryRequest):
    """A run to draw."""

    kind: ChartKind | None = Having(None, description="The kind of chart; chosen by the columns if left out")
    format: ChartFormat | None = Having(None, description="Also as a file: svg, png, pdf, html or json")
    theme: Theme = Having("light", description="The colours of the file: light or dark")
    path: Annotated[str | None, AS_GIVEN] = Having(
        None, max_length=LONGEST_PATH, description="The file to write, on your own machine; its end says the format"
    )

    def file_format(self) -> ChartFormat | None:
        if self.format is not None or self.path is None:
            return self.format
        suffix = Path(self.path).suffix.lstrip(".").lower()
        found: ChartFormat | None = next((one for one in FORMATS if one == suffix), None)
        if found is None:
            raise InvalidInput(
                f"'{suffix[:20]}' is not a format of charts", remedy=f"end the path in .{', .'.join(FORMATS)}"
            )
        return found


class ChartReply(Reply):
    """A chart of a run. Without a fitting kind there is none, and `reason` says why."""

    run: str
    kind: ChartKind | None = None
    spec: Json | None = Having(None, description="The Vega-Lite specification, with its values")
    reason: str = ""
    notes: list[str] = Having(default_factory=list, description="What was left out or put together")
    path: str | None = Having(None, description="The file that was written")
    base64: str | None = Having(None, description="The file, where a format was given and no path")


def chart_query(tenant: Tenant, request: ChartQueryRequest) -> ChartReply:
    """Draw the result of a run: as a specification, and as a file if a format or a path is given."""
    format = request.file_format()
    target = own_target(tenant, request.path) if request.path is not None else None
    reply = _chart(tenant, load(tenant, QueryRun, request.run), request.kind)
    if reply.spec is None or format is None:
        return reply
    drawn = tenant.charts.render(reply.spec, format, theme=request.theme)
    if target is None:
        return reply.model_copy(update={"base64": base64.b64encode(drawn).decode()})
    tenant.folders.keep(target, lambda file: file.write(drawn))
    return reply.model_copy(update={"path": str(target)})


def _chart(tenant: Tenant, run: QueryRun, kind: ChartKind | None) -> ChartReply:
    """The chart, which is stored with the run: the console shows it again without drawing it anew."""
    rows, notes = _rows(tenant, run)
    made = chart_of(
        [ChartColumn(name, type) for name, type in run.result_columns],
        rows,
        title=run.question,
        sql=run.sql,
        row_count=run.row_count,
        is_cut=len(rows) < run.row_count,
        kind=kind,
    )
    if made.spec is not None and len(canonical(made.spec)) <= KEPT_CHART_BYTES:
        tenant.transact([Touch(QueryRun, run.id, put={"chart": masked_value(tenant, made.spec)})])
    return ChartReply(run=run.id, kind=made.kind, spec=made.spec, reason=made.reason, notes=[*notes, *made.notes])


def _rows(tenant: Tenant, run: QueryRun) -> tuple[JsonArray, list[str]]:
    """The rows to draw: those that were kept, or more of them, read again, where there are more."""
    if not run.is_cut:
        return run.rows, []
    result, _ = run_again(tenant, run, replace(DEFAULT_LIMITS, rows=MOST_DRAWN_ROWS))
    return result.rows, [] if result.hash == run.result_hash else ["the data have changed since this run"]
