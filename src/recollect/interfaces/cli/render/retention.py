"""Cold storage, retention rules and legal holds, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from recollect.interfaces.cli.render.cells import clean
from recollect.services.cold.archives import ArchivePage, ShowColdReply
from recollect.services.cold.restore_sessions import RestoreColdReply
from recollect.services.cold.search import SearchColdReply
from recollect.services.cold.store_sessions import StoreColdReply
from recollect.services.retention.application import RetentionReply
from recollect.services.retention.holds import HoldPage
from recollect.services.retention.rules import RuleList, RuleView

if TYPE_CHECKING:
    from recollect.interfaces.cli.render.replies import Renderer


def _table(show: Renderer, titles: Sequence[str], rows: Iterable[Sequence[object]], next: str | None = None) -> None:
    table = Table(*titles, box=None, header_style="dim")
    for row in rows:
        table.add_row(*(escape(clean(cell)) for cell in row))
    show.console.print(table)
    if next:
        show.console.print(f"[dim]more with --after {escape(next)}[/]")


def stored(show: Renderer, reply: StoreColdReply) -> None:
    verb = "would move" if reply.dry_run else "moved"
    records, size = sum(one.records for one in reply.moved), sum(one.bytes for one in reply.moved)
    files = "" if reply.dry_run else f", {decimal(size)}"
    show.console.print(f"{verb} {len(reply.moved):,} sessions with {records:,} records to {escape(reply.to)}{files}")
    for one in reply.stayed:
        named = f"{clean(one.title)} {one.session}".strip()
        show.console.print(f"[yellow]stays:[/] {escape(named)}: {escape(clean(one.stays_because))}")
    if reply.more:
        show.console.print("[dim]more sessions are due: run it again[/]")


def archives(show: Renderer, reply: ArchivePage) -> None:
    if not reply.archives:
        show.console.print("Nothing is in cold storage.")
        return
    rows = [
        (
            show.when(one.last_at) if one.last_at else "", one.title, f"{one.records:,}", decimal(one.bytes), one.at,
            one.session,
        )
        for one in reply
    ]  # fmt: skip
    _table(show, ("last used", "title", "records", "size", "at", "session"), rows, reply.next)


def archive(show: Renderer, reply: ShowColdReply) -> None:
    show.console.print(f"[bold]{escape(clean(reply.title))}[/]  [dim]{escape(clean(reply.session))}[/]")
    show.console.print(f"at {escape(reply.at)}, {decimal(reply.bytes)}")
    _table(show, ("type", "records"), [(table, f"{count:,}") for table, count in reply.counts.items()])
    if reply.intact:
        show.console.print("[green]its files are intact[/]")
    else:
        show.console.print(f"[red]{escape(clean(reply.problem))}[/]")
    show.console.print(f"[dim]recollect cold restore {escape(clean(reply.session))}[/]")


def restored(show: Renderer, reply: RestoreColdReply) -> None:
    show.console.print(f"restored session {escape(clean(reply.session))} with {reply.records:,} records")
    show.notes(reply.notes)


def found(show: Renderer, reply: SearchColdReply) -> None:
    for hit in reply.hits:
        when = f"{show.when(hit.at)} " if hit.at else ""
        kind = hit.kind or hit.type
        show.console.print(
            f"[dim]{when}[/][bold]{escape(clean(kind))}[/]: {escape(clean(hit.text))}  "
            f"[dim]{escape(hit.id)} in session {escape(clean(hit.session))}[/]"
        )
    if not reply.hits:
        show.console.print(f"Nothing found in {reply.searched:,} sessions.")
    if reply.more:
        show.console.print("[dim]older sessions were not looked through: give --until[/]")
    show.notes(reply.notes)


def _about(rule: RuleView) -> str:
    named = (("kind", rule.kind), ("project", rule.project), ("level", rule.level))
    said = ", ".join(f"{name} {value}" for name, value in named if value is not None)
    return said or ("all sessions" if rule.then == "cold" else "all memories")


def rules(show: Renderer, reply: RuleList) -> None:
    if not reply.rules:
        show.console.print("No retention rules; `recollect retention set --keep-days 365 --then archive` adds one.")
        return
    rows = [(_about(one), f"{one.keep_days:g} days", one.then, one.origin, one.reason, one.id) for one in reply]
    _table(show, ("about", "keep", "then", "from", "reason", "id"), rows)


def outcomes(show: Renderer, reply: RetentionReply) -> None:
    rows = [
        (_about(one), one.then, show.when(one.before), f"{one.due - one.done:,}", f"{one.done:,}", f"{one.held:,}")
        for one in reply.rules
    ]
    if rows:
        _table(show, ("about", "then", "if older than", "due", "done", "on hold"), rows)
    for one in reply.rules:
        for example in one.examples:
            show.console.print(f"[dim]{one.then}:[/] {escape(clean(example))}")
    if reply.more:
        show.console.print("[dim]there is more: run it again[/]")
    if not rows and not reply.notes:
        show.console.print("No retention rules.")
    show.notes(reply.notes)


def holds(show: Renderer, reply: HoldPage) -> None:
    if not reply.holds:
        show.console.print("No legal holds.")
        return
    rows = [
        (
            show.when(one.placed_at), one.placed_by or "", f"{one.type} {one.subject}", one.reason,
            f"released {show.when(one.released_at)}" if one.released_at else "in force", one.id,
        )
        for one in reply
    ]  # fmt: skip
    _table(show, ("placed", "by", "on", "reason", "", "id"), rows, reply.next)


RENDERERS: dict[type, Callable[[Renderer, Any], None]] = {
    StoreColdReply: stored,
    ArchivePage: archives,
    ShowColdReply: archive,
    RestoreColdReply: restored,
    SearchColdReply: found,
    RuleList: rules,
    RetentionReply: outcomes,
    HoldPage: holds,
}
