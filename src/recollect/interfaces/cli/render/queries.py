"""Answers from data for people: how a question was read, the SQL, the rows, and a chart where one fits."""

from __future__ import annotations

import sys
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from recollect.interfaces.cli.render.cells import clean, column_texts
from recollect.interfaces.cli.render.charts import chart_lines, show_chart
from recollect.interfaces.cli.render.learning import interval
from recollect.services.data.answers import AnswerReceipt
from recollect.services.data.ask import AskReply
from recollect.services.data.charts import ChartReply
from recollect.services.data.exports import ExportQueryReply
from recollect.services.data.patterns import JudgeReply
from recollect.services.data.queries import QueryPage, QueryView
from recollect.services.data.results import QueryReply, ResultColumn

if TYPE_CHECKING:
    from recollect.interfaces.cli.render.replies import Renderer

WIDEST = 48
SHOWN_ROWS = 100
CHARTED_ROWS = 40
_NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "HUGEINT", "REAL", "NUMERIC")


def answer(show: Renderer, reply: AskReply) -> None:
    if reply.declined is not None:
        show.console.print(f"[yellow]No answer:[/] {escape(clean(reply.declined))}")
        return
    parts = [part.text for part in reply.reading]
    _reading(show, parts, reply.confidence, is_draft=reply.draft)
    show.console.print(Text(reply.sql, "dim", overflow="fold"))
    _rows(show, reply)
    if reply.others and reply.draft:
        show.console.print("\nOther readings; choose one with --follows and --choose:")
        for one in reply.others:
            show.console.print(
                f"  [bold]{one.number}[/]  {chips([part.text for part in one.reading])}  {one.confidence:.0%}"
            )
    elif reply.chart is not None and 1 < len(reply.rows) <= CHARTED_ROWS and isinstance(reply.chart, Mapping):
        show.console.print()
        for line in chart_lines(reply.chart, min(80, show.console.width)):
            show.console.print(line, soft_wrap=True)
    _run(show, reply)


def _reading(show: Renderer, parts: Sequence[str], confidence: float | None, *, is_draft: bool) -> None:
    sure = "" if confidence is None else f"{confidence:.0%} sure"
    if is_draft:
        sure = f"[yellow]a draft, {sure}: check how it was read[/]"
    show.console.print(f"{chips(parts)}  {sure}" if is_draft else f"{chips(parts)}  [green]{sure}[/]")


def chips(parts: Sequence[str]) -> str:
    return " ".join(f"[cyan]‹{escape(clean(part))}›[/]" for part in parts)


def result(show: Renderer, reply: QueryReply) -> None:
    _rows(show, reply)
    _run(show, reply)


def shown(show: Renderer, reply: QueryView) -> None:
    if reply.question:
        show.console.print(f"[bold]{escape(clean(reply.question))}[/]")
    if reply.reading:
        _reading(show, [part["text"] for part in reply.reading], reply.confidence, is_draft=reply.is_draft)
    show.console.print(Text(reply.sql, "dim", overflow="fold"))
    _rows(show, reply)
    by = f" by {reply.created_by}" if reply.created_by else ""
    show.console.print(f"[dim]{show.when(reply.created_at)}{escape(by)}, {reply.verdict}[/]")


def _rows(show: Renderer, reply: QueryReply) -> None:
    if reply.columns:
        show.console.print(rows_table(reply.columns, reply.rows[:SHOWN_ROWS], show.console.width))
    show.console.print(f"[dim]{count_of(reply, SHOWN_ROWS)}[/]")
    show.notes(reply.notes)


def _run(show: Renderer, reply: QueryReply) -> None:
    if reply.run is not None:
        read = ", ".join(f"{clean(one.name)} (version {one.version})" for one in reply.sources)
        show.console.print(f"[dim]run {escape(reply.run)}{escape(f'  from {read}' if read else '')}[/]")


def count_of(reply: QueryReply, most: int) -> str:
    """How many rows there are, and how many of them are shown."""
    given, whole = min(len(reply.rows), most), reply.row_count
    if given == whole or (whole is None and not reply.is_cut):
        return "1 row" if given == 1 else f"{given:,} rows"
    return f"the first {given:,} of {'over a million' if whole is None else f'{whole:,}'} rows"


def rows_table(columns: Sequence[ResultColumn], rows: Sequence[Sequence[object]], width: int) -> Table:
    """Rows with numbers on the right; columns that do not fit are counted at the end instead of squeezed."""
    cells = [column_texts([row[at] for row in rows]) for at in range(len(columns))]
    table = Table(box=None, header_style="dim", padding=(0, 1))
    left, fitting, most = width, 0, max(4, min(WIDEST, width - 8))
    for at, column in enumerate(columns):
        widest = max([cell_len(clean(column.name)), *map(cell_len, cells[at])])
        left -= min(widest, most) + 2
        if left < (6 if at + 1 < len(columns) else 0) and at:
            break
        number = any(part in column.type for part in _NUMBERS)
        title = Text(clean(column.name), overflow="ellipsis")
        table.add_column(
            title, justify="right" if number else "left", max_width=most, overflow="ellipsis", no_wrap=True
        )
        fitting += 1
    more = len(columns) - fitting
    if more:
        table.add_column(f"+{more}", style="dim")
    for row in zip(*cells[:fitting], strict=True):
        table.add_row(*map(Text, row), *(["…"] if more else []))
    return table


def runs(show: Renderer, reply: QueryPage) -> None:
    table = Table(
        "when", "question or SQL", Column("rows", justify="right"), "verdict",
        Column("run", no_wrap=True, overflow="ignore", min_width=36), box=None, header_style="dim",
    )  # fmt: skip
    for one in reply:
        text = Text(clean(one.question or " ".join(one.sql.split())), overflow="ellipsis", no_wrap=True)
        verdict = "" if one.verdict == "unjudged" else one.verdict
        count = "" if one.row_count is None else f"{one.row_count:,}"
        table.add_row(show.when(one.created_at), text, count, verdict, f"[dim]{escape(one.run or '')}[/]")
    show.console.print(table)
    if reply.next:
        show.console.print(f"[dim]more with --after {escape(reply.next)}[/]")


def exported(show: Renderer, reply: ExportQueryReply) -> None:
    """A file that was written; without a path the content itself, as a program would read it from a pipe."""
    if reply.path is not None:
        show.console.print(Text(f"saved {reply.rows:,} rows to {reply.path} ({decimal(reply.bytes)})"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(b64decode(reply.base64 or ""))
        sys.stdout.buffer.flush()
    show.notes(reply.notes)


def chart(show: Renderer, reply: ChartReply) -> None:
    if reply.path is not None:
        show.console.print(Text(f"saved the chart to {reply.path}"))
    elif reply.spec is not None:
        show_chart(show.console, reply.spec)
    else:
        show.console.print(Text(f"No chart: {clean(reply.reason)}"))
    show.notes(reply.notes)


def judged(show: Renderer, reply: JudgeReply) -> None:
    use = "questions like it are answered from it" if reply.is_used else "it is not used"
    show.console.print(f"{reply.verdict}: pattern [dim]{escape(reply.pattern)}[/], {use}")
    show.console.print(interval(reply.rate))
    if reply.corrected:
        show.console.print(f"the right statement is run [dim]{escape(reply.corrected)}[/]")


def remembered(show: Renderer, reply: AnswerReceipt) -> None:
    show.console.print(Text(reply.text))
    show.console.print(f"{reply.status}  [dim]{escape(reply.id)} v{reply.version}[/]")


RENDERERS: dict[type, Callable[[Renderer, Any], None]] = {
    AskReply: answer,
    QueryView: shown,
    QueryReply: result,
    QueryPage: runs,
    ExportQueryReply: exported,
    ChartReply: chart,
    JudgeReply: judged,
    AnswerReceipt: remembered,
}
