"""Connections for people: the database, what the last check found, and the tables that can be asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from recollect.interfaces.cli.render.cells import cell_text, clean
from recollect.interfaces.cli.render.sources import change_text
from recollect.services.data.connections import ConnectionPage, ConnectionView

if TYPE_CHECKING:
    from recollect.interfaces.cli.render.replies import Renderer

MOST_TABLES = 40


def connection(show: Renderer, reply: ConnectionView) -> None:
    named = f"[bold]{escape(clean(reply.name))}[/]  {escape(clean(reply.address))}"
    show.console.print(f"{named}  [dim]{escape(reply.id)}[/]")
    known = {name.replace("_", " "): value for name, value in reply.facts.items() if value not in (None, [], "")}
    show.console.print(Text(", ".join(f"{name}: {cell_text(value)}" for name, value in known.items()), "dim"))
    if reply.problem:
        show.console.print(f"[red]{escape(clean(reply.problem))}[/]")
    for change in reply.changes:
        show.console.print(f"  [yellow]changed[/] {escape(change_text(change))}")
    if reply.tables:
        columns = Column("rows, about", justify="right"), Column("columns", justify="right")
        table = Table("table", *columns, "about", box=None, header_style="dim")
        for one in reply.tables[:MOST_TABLES]:
            table.add_row(Text(clean(one.name)), f"{one.rows:,}", f"{one.columns:,}", Text(clean(one.description)))
        show.console.print(table)
    if len(reply.tables) > MOST_TABLES:
        show.console.print(f"[dim]{len(reply.tables) - MOST_TABLES:,} more tables; --json shows them[/]")
    show.notes(reply.notes)


def connections(show: Renderer, reply: ConnectionPage) -> None:
    if not reply.connections:
        show.console.print("No connections yet; `recollect connection add NAME ADDRESS` adds one.")
        return
    table = Table("name", "address", "secret", "problem", box=None, header_style="dim")
    for one in reply:
        table.add_row(*(Text(clean(part or "")) for part in (one.name, one.address, one.secret, one.problem)))
    show.console.print(table)
    if reply.next:
        show.console.print(f"[dim]more with --after {escape(reply.next)}[/]")


RENDERERS: dict[type, Callable[[Renderer, Any], None]] = {ConnectionView: connection, ConnectionPage: connections}
