"""What `source find` found, for people: tables, then fields, then values, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from recollect.domain.record import clipped
from recollect.services.data.find import FindReply

if TYPE_CHECKING:
    from recollect.interfaces.cli.render.replies import Renderer

_LONGEST = 60
Row = tuple[float, str, str, str]
"""Score, what it is, what more there is to it, and why it was found."""


def found(renderer: Renderer, reply: FindReply) -> None:
    if not (reply.tables or reply.fields or reply.values):
        renderer.console.print("Nothing found.")
    _listed(
        renderer,
        "Tables",
        ((one.score, one.name, f"{one.rows:,} rows, in {one.source_name}", one.why) for one in reply.tables),
    )
    _listed(
        renderer,
        "Fields",
        ((one.score, f"{one.table}.{one.name}", one.meaning or one.type.lower(), one.why) for one in reply.fields),
    )
    _listed(
        renderer,
        "Values",
        ((one.score, clipped(one.value, _LONGEST), f"{one.table}.{one.field}", one.why) for one in reply.values),
    )
    renderer.notes(reply.notes)


def _listed(renderer: Renderer, title: str, rows: Iterable[Row]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for score, name, more, why in rows:
        table.add_row(f"[cyan]{score:5.2f}[/]", f"[bold]{escape(name)}[/]", escape(more), f"[dim]{escape(why)}[/]")
    if table.row_count:
        renderer.console.print(f"[bold]{title}[/]")
        renderer.console.print(table)


RENDERERS: dict[type, Callable[[Renderer, Any], None]] = {FindReply: found}
