"""Checkpoints and items for people: what there is, not the bytes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from recollect.services.frameworks.checkpoint_reading import CheckpointPage, ThreadPage
from recollect.services.frameworks.key_value import GetItemReply, ItemView, NamespacePage, SearchItemsReply

if TYPE_CHECKING:
    from recollect.interfaces.cli.render.replies import Renderer


def threads(renderer: Renderer, reply: ThreadPage) -> None:
    table = Table("thread", "namespace", "checkpoints", "newest", "id", box=None, header_style="dim")
    for line in reply.threads:
        when = renderer.when(line.newest_at) if line.newest_at else ""
        table.add_row(
            escape(line.thread), escape(line.namespace), str(line.checkpoints), when, escape(line.newest or "")
        )
    renderer.console.print(table)


def checkpoints(renderer: Renderer, reply: CheckpointPage) -> None:
    table = Table("when", "thread", "namespace", "id", "metadata", "writes", box=None, header_style="dim")
    for one in reply.checkpoints:
        what = escape(json.dumps(one.metadata, ensure_ascii=False))
        writes = str(sum(len(task.slots) for task in one.writes))
        table.add_row(
            renderer.when(one.created_at), escape(one.thread), escape(one.namespace), escape(one.id), what, writes
        )
    renderer.console.print(table)
    if reply.next:
        renderer.console.print(f"[dim]more with --after {reply.next}[/]")


def item(renderer: Renderer, reply: GetItemReply) -> None:
    _items(renderer, [reply.item] if reply.item else [])


def items(renderer: Renderer, reply: SearchItemsReply) -> None:
    _items(renderer, reply.items)


def _items(renderer: Renderer, found: list[ItemView]) -> None:
    if not found:
        renderer.console.print("Nothing found.")
    for one in found:
        score = f"[cyan]{one.score:5.2f}[/]  " if one.score is not None else ""
        place = escape(" / ".join([*one.namespace, one.key]))
        renderer.console.print(f"{score}[bold]{place}[/]  {escape(json.dumps(one.value, ensure_ascii=False))}")


def namespaces(renderer: Renderer, reply: NamespacePage) -> None:
    for labels in reply.namespaces:
        renderer.console.print(escape(" / ".join(labels)))


RENDERERS: dict[type, Callable[[Renderer, Any], None]] = {
    ThreadPage: threads,
    CheckpointPage: checkpoints,
    GetItemReply: item,
    SearchItemsReply: items,
    NamespacePage: namespaces,
}
