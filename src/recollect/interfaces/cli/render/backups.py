"""Backups for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from recollect.services.backups.backup import BackupReply
from recollect.services.backups.drill import DrillReply
from recollect.services.backups.history import BackupPage, BackupView
from recollect.services.backups.restored import RestoreBackupReply

if TYPE_CHECKING:
    from recollect.interfaces.cli.render.replies import Renderer


def made(renderer: Renderer, reply: BackupReply) -> None:
    new = f", {decimal(reply.new_bytes)} of it new" if reply.new_bytes is not None else ""
    renderer.console.print(f"backed up {decimal(reply.bytes)}{new} to {escape(reply.path)}")
    proven = [*(["encrypted"] if reply.encrypted else []), *(["read back and checked"] if reply.verified else [])]
    if proven:
        renderer.console.print(f"[green]✓[/] {', '.join(proven)}")
    if reply.objects is not None and reply.object_bytes is not None:
        renderer.console.print(f"{decimal(reply.object_bytes)} of stored files in {escape(reply.objects)}")
    if reply.deleted:
        renderer.console.print(f"deleted {len(reply.deleted)} older backups")
    renderer.notes(reply.notes)


def listed(renderer: Renderer, reply: BackupPage) -> None:
    table = Table("made", "size", "stored", "proven", "where", "id", box=None, header_style="dim")
    for one in reply.backups:
        size, stored = (decimal(one.bytes), decimal(one.new_bytes)) if one.error is None else ("", "")
        table.add_row(renderer.when(one.made_at), size, stored, _proven(renderer, one), escape(one.place), one.id)
    renderer.console.print(table if reply.backups else "no backups")


def _proven(renderer: Renderer, one: BackupView) -> str:
    if one.error is not None:
        return f"[red]failed[/] {escape(one.error)}"
    if one.drilled_at is not None:
        sound = (one.drill or {}).get("sound")
        return f"[green]restored[/] {renderer.when(one.drilled_at)}" if sound else "[red]restored, with problems[/]"
    return f"[green]read back[/] {renderer.when(one.verified_at)}" if one.verified_at is not None else "no"


def drilled(renderer: Renderer, reply: DrillReply) -> None:
    mark = "[green]✓[/]" if reply.sound else "[red]✗[/]"
    renderer.console.print(
        f"{mark} restored {reply.memories} memories of {reply.organizations} organizations "
        f"in {reply.restore_seconds:.1f} s, and checked them in {reply.seconds - reply.restore_seconds:.1f} s"
    )
    renderer.console.print(f"  {reply.objects} stored files read, {reply.recalled} of {reply.asked} memories recalled")
    for problem in reply.problems:
        renderer.console.print(f"  [red]{escape(problem)}[/]")


def restored(renderer: Renderer, reply: RestoreBackupReply) -> None:
    renderer.console.print(f"restored {reply.memories} memories to {escape(reply.store)}, all checked")
    renderer.notes(reply.notes)


RENDERERS: dict[type, Callable[[Renderer, Any], None]] = {
    BackupReply: made,
    BackupPage: listed,
    DrillReply: drilled,
    RestoreBackupReply: restored,
}
