"""Links, tags and changes of many memories, for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from recollect.interfaces.cli.render.cells import clean
from recollect.services.admin.bulk_changes import BulkReply
from recollect.services.memories.relations import RelationPage
from recollect.services.memories.tags import TagPage
from recollect.services.recall.linked import RelationGraph

if TYPE_CHECKING:
    from recollect.interfaces.cli.render.replies import Renderer

SHOWN = 60  # characters of a memory in a table


def bulk(show: Renderer, reply: BulkReply) -> None:
    if reply.dry_run:
        show.console.print(f"{reply.matched:,} memories match:" if reply.matched else "no memory matches")
        for example in reply.examples:
            show.console.print(f"  {escape(clean(example))}")
        if reply.matched > len(reply.examples):
            show.console.print(f"  [dim]and {reply.matched - len(reply.examples):,} more[/]")
        return
    left = [(reply.held, "on legal hold"), (reply.skipped, "skipped")]
    others = "".join(f", {count:,} {word}" for count, word in left if count)
    show.console.print(f"{reply.changed:,} of {reply.matched:,} memories were changed{others}")
    for one in reply.reasons:
        show.console.print(f"[yellow]{escape(one.id)}[/] {escape(clean(one.why))}")
    show.notes(reply.notes)


def links(show: Renderer, reply: RelationPage) -> None:
    table = Table("type", "from", "to", "other", "status", "made", box=None, header_style="dim")
    for one in reply:
        cells = (one.type, one.source, one.target, one.text[:SHOWN], one.status, show.when(one.created_at))
        table.add_row(*(escape(clean(cell)) for cell in cells))
    show.console.print(table)
    if reply.next:
        show.console.print(f"[dim]more with --after {escape(reply.next)}[/]")


def graph(show: Renderer, reply: RelationGraph) -> None:
    table = Table("hops", "memory", "status", "id", box=None, header_style="dim")
    for node in reply.nodes:
        table.add_row(str(node.hops), *(escape(clean(one)) for one in (node.text[:SHOWN], node.status, node.id)))
    show.console.print(table)
    for edge in reply.edges:
        show.console.print(f"{escape(edge.source)} [dim]{escape(clean(edge.type))}[/] {escape(edge.target)}")
    if reply.more:
        show.console.print("[dim]there are more: raise --limit[/]")
    show.notes(reply.notes)


def tags(show: Renderer, reply: TagPage) -> None:
    table = Table("tag", "memories", box=None, header_style="dim")
    for one in reply:
        table.add_row(escape(clean(one.tag)), f"{one.memories:,}")
    show.console.print(table)
    if reply.next:
        show.console.print(f"[dim]more with --after {escape(reply.next)}[/]")


RENDERERS: dict[type, Callable[[Renderer, Any], None]] = {
    BulkReply: bulk,
    RelationPage: links,
    RelationGraph: graph,
    TagPage: tags,
}
