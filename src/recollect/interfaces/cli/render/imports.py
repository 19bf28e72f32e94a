"""What an import found and wrote, for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from recollect.services.admin.export import TransferReply
from recollect.services.admin.import_ import ImportReply

if TYPE_CHECKING:
    from recollect.interfaces.cli.render.replies import Renderer


def imported(show: Renderer, reply: ImportReply) -> None:
    if reply.source == "recollect":
        show.fields(reply.model_dump(mode="json", include=set(TransferReply.model_fields)))
        return
    what = "would be imported" if reply.dry_run else "found"
    table = Table(what, "", box=None, header_style="dim")
    for name, count in reply.found.items():
        table.add_row(escape(name), f"{count:,}")
    show.console.print(table)
    for sample in reply.samples:
        show.console.print(f"[dim]{escape(sample.what)}[/] {escape(sample.text)}")
    if reply.unmapped:
        without = Table("without a field here", "times", "why", "such as", box=None, header_style="dim")
        for one in reply.unmapped:
            place = f"{one.what}.{one.field}" if one.field else one.what
            without.add_row(escape(place), f"{one.count:,}", escape(one.why), escape(one.example))
        show.console.print(without)
    if not reply.dry_run:
        show.console.print(f"[green]✓[/] {reply.records:,} written, {reply.skipped:,} already here")
    show.notes(reply.notes)


RENDERERS: dict[type, Callable[[Renderer, Any], None]] = {ImportReply: imported}
