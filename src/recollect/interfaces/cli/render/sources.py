"""Sources for people: a profile to look at, one line a column, with its values drawn small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from recollect.domain.record import Json
from recollect.interfaces.cli.render.cells import cell_text, clean
from recollect.services.data.sources import (
    FieldView,
    RemoveSourceReply,
    SourcePage,
    SourceView,
    TableView,
    VersionPage,
)

if TYPE_CHECKING:
    from rich.console import JustifyMethod

    from recollect.interfaces.cli.render.replies import Renderer

HEIGHTS = "▁▂▃▄▅▆▇█"
BARS = 20
MOST_COLUMNS = 60
MOST_REJECTED = 5
NARROW = 90


def source(show: Renderer, reply: SourceView) -> None:
    facts = [reply.format, decimal(reply.bytes), f"version {reply.version}"]
    show.console.print(
        f"[bold]{escape(reply.name)}[/]  {escape(', '.join(filter(None, facts)))}  [dim]{escape(reply.id)}[/]"
    )
    if reply.description:
        show.console.print(Text(clean(reply.description)))
    for change in reply.changes:
        show.console.print(f"  [yellow]changed[/] {escape(change_text(change))}")
    for one in reply.tables:
        _table(show, one)
    show.notes(reply.notes)
    if reply.restorable_until:
        show.console.print(
            f"removed; `recollect source restore` brings it back until {show.when(reply.restorable_until)}"
        )


def _table(show: Renderer, table: TableView) -> None:
    columns = f" × {len(table.fields):,} columns" if table.fields else ""
    facts = [f"{table.rows:,} rows{columns}", decimal(table.bytes)]
    facts += [f"key {', '.join(table.keys[:3])}"] if table.keys else []
    facts += ["profile of a sample"] if table.profiled == "sample" else []
    show.console.print(f"\n[bold cyan]{escape(clean(table.name))}[/]  {escape(clean(', '.join(facts)))}")
    if table.description:
        show.console.print(Text(clean(table.description)))
    if table.fields:
        show.console.print(profile_table(table.fields[:MOST_COLUMNS], show.console.width))
    if len(table.fields) > MOST_COLUMNS:
        show.console.print(f"[dim]{len(table.fields) - MOST_COLUMNS:,} more columns; --json shows them[/]")
    for join in table.joins:
        to = f"{join['to_name']}.{join['to_column']}"
        show.console.print(
            f"  joins  {escape(clean(join['column']))} → {escape(clean(to))}  [dim]{escape(clean(join['reason']))}[/]"
        )
    _rejected(show, table)
    for note in table.notes:
        show.console.print(f"  [yellow]note:[/] {escape(clean(note))}")


def _rejected(show: Renderer, table: TableView) -> None:
    if not table.rejected:
        return
    rows = "1 row" if table.rejected == 1 else f"{table.rejected:,} rows"
    show.console.print(f"  [red]{rows} could not be read[/]")
    for row in table.rejected_rows[:MOST_REJECTED]:
        line = Text(f"    line {row['line']:,}  ")
        line.append(f"{clean(row['reason'])}  ", "yellow").append(clean(row["text"]), "dim")
        line.truncate(show.console.width, overflow="ellipsis")
        show.console.print(line)
    if table.rejected > MOST_REJECTED:
        show.console.print("    [dim]--json lists more of them[/]")


def profile_table(fields: Sequence[FieldView], width: int) -> Table:
    """One line a column; what does not fit is cut, and on a narrow terminal the meaning is left out."""
    wide = width >= NARROW
    most = {"column": 28, "type": 14, "meaning": 16} if wide else {"column": 18, "type": 9}
    titles = [*most, "empty", "distinct"]
    rows = [_facts(field)[: len(most)] + _facts(field)[3:] for field in fields]
    table = Table(box=None, header_style="dim", padding=(0, 1))
    room = width - 2
    for at, title in enumerate(titles):
        needed = max(cell_len(title), *(cell_len(row[at]) for row in rows))
        room -= min(needed, most.get(title, needed)) + 2
        justify: JustifyMethod = "right" if title in ("empty", "distinct") else "left"
        table.add_column(title, justify=justify, no_wrap=True, overflow="ellipsis", max_width=most.get(title))
    # Cut here: rich takes from all columns of a table that is too wide, and the short ones go first.
    table.add_column("values", no_wrap=True, overflow="ellipsis", max_width=max(BARS, room))
    for row, field in zip(rows, fields, strict=True):
        table.add_row(*map(Text, row), _values(field.statistics))
    return table


def _facts(field: FieldView) -> list[str]:
    known = field.statistics
    distinct = f"{'' if known.get('is_distinct_exact', True) else '~'}{known.get('distinct', 0):,}"
    return [clean(field.name), field.type.lower(), field.meaning, _share_empty(known), distinct]


def _share_empty(known: Json) -> str:
    nulls, rows = known.get("nulls", 0), known.get("rows", 0)
    if not nulls or not rows:
        return ""
    share = 100 * nulls / rows
    return "<1%" if share < 1 else ">99%" if 99 < share < 100 else f"{share:.0f}%"


def _values(known: Json) -> Text:
    """Numbers and dates as a histogram with their range, everything else by its most frequent values."""
    top, bins = known.get("top", []), known.get("histogram", [])
    if len(bins) > 1 and known.get("distinct", 0) > len(top):
        drawn = Text(f"{sparkline([one['count'] for one in bins]):{BARS}}", "cyan")
        return drawn.append(f"  {cell_text(known.get('min'))} … {cell_text(known.get('max'))}", "default")
    repeated = [one for one in top if one["count"] > 1]
    if repeated:
        filled = max(1, known.get("rows", 0) - known.get("nulls", 0))
        shares = [f"{cell_text(one['value'])} {100 * one['count'] / filled:.0f}%" for one in repeated]
        drawn = Text(f"{sparkline([one['count'] for one in repeated]):{BARS}}", "cyan")
        return drawn.append("  " + ", ".join(shares), "default")
    return Text(" " * (BARS + 2) + ", ".join(cell_text(one["value"]) for one in top[:3]))


def sparkline(counts: Sequence[int]) -> str:
    """Counts as blocks of different heights; none at all is a gap."""
    counts, most = counts[:BARS], max(counts, default=0) or 1
    return "".join(HEIGHTS[min(7, int(8 * count / most))] if count else " " for count in counts)


def sources(show: Renderer, reply: SourcePage) -> None:
    if not reply.sources:
        show.console.print("No sources yet; `recollect source add FILE` adds one.")
        return
    table = Table(
        "name", "format", Column("rows", justify="right"), Column("size", justify="right"), "version", "tables",
        Column("id", no_wrap=True, overflow="ignore", min_width=20), box=None, header_style="dim",
    )  # fmt: skip
    for one in reply:
        names = [clean(inner.name) for inner in one.tables]
        tables = ", ".join(names[:4]) + (f", and {len(names) - 4} more" if len(names) > 4 else "")
        rows = sum(inner.rows for inner in one.tables)
        table.add_row(
            Text(clean(one.name)), escape(one.format), f"{rows:,}", decimal(one.bytes), str(one.version),
            Text(tables), f"[dim]{escape(one.id)}[/]",
        )  # fmt: skip
    show.console.print(table)
    if reply.next:
        show.console.print(f"[dim]more with --after {escape(reply.next)}[/]")


def versions(show: Renderer, reply: VersionPage) -> None:
    for one in reply:
        by = f" by {one.created_by}" if one.created_by else ""
        facts = f"{show.when(one.created_at)}{by}  {decimal(one.bytes)}  {clean(one.path)}"
        show.console.print(f"[bold]{one.number:3}[/]  {escape(facts)}")
        for change in one.changes:
            show.console.print(f"     {escape(change_text(change))}")


def change_text(change: Json) -> str:
    where = ".".join(clean(str(change[part])) for part in ("table", "column") if part in change)
    said = f"{change['change']}: {where}"
    return f"{said}, {change['before']} → {change['after']}" if "after" in change else said


def removed(show: Renderer, reply: RemoveSourceReply) -> None:
    show.console.print(f"Removed [bold]{escape(clean(reply.name))}[/]  [dim]{escape(reply.id)}[/]")
    if reply.restorable_until:
        show.console.print(f"`recollect source restore` brings it back until {show.when(reply.restorable_until)}")
    else:
        show.console.print("deleted for good")


RENDERERS: dict[type, Callable[[Renderer, Any], None]] = {
    SourceView: source,
    SourcePage: sources,
    VersionPage: versions,
    RemoveSourceReply: removed,
}
