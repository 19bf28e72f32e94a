"""Measurements and the leak test for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from recollect.interfaces.measurement_replies import LeakTestReply, RecallMeasure, SpeedMeasure

if TYPE_CHECKING:
    from recollect.interfaces.cli.render.replies import Renderer


def recalled(renderer: Renderer, reply: RecallMeasure) -> None:
    table = Table("questions", "R@1", "R@5", "R@10", "MRR", box=None, header_style="dim")
    found = (reply.recall_at_1, reply.recall_at_5, reply.recall_at_10, reply.mrr)
    table.add_row(f"{reply.questions:,}", *(f"{one:.3f}" for one in found))
    renderer.console.print(table)
    for question in reply.missed:
        renderer.console.print(f"[yellow]not found[/] {escape(question)}")


def timed(renderer: Renderer, reply: SpeedMeasure) -> None:
    renderer.console.print(f"{reply.memories:,} memories in {escape(reply.store)}")
    for one in reply.times:
        renderer.console.print(
            f"[bold]{one.operation}[/]  p50 {one.p50:.1f} ms  p95 {one.p95:.1f} ms  slowest {one.slowest:.1f} ms"
            f"  [dim]{one.calls} calls[/]"
        )
        for line in one.chart:
            renderer.console.print(f"[cyan]{line}[/]")
    renderer.notes(reply.notes)


def tried(renderer: Renderer, reply: LeakTestReply) -> None:
    if reply.rows:
        table = Table("operation", "asked by", "tries", "leaks", box=None, header_style="dim")
        for row in reply.rows:
            told = "\n".join(f"[red]{escape(one)}[/]" for one in row.leaks) or "[green]none[/]"
            table.add_row(row.operation, escape(row.caller), f"{row.tries:,}", told)
        renderer.console.print(table)
    verdict = "[green]✓[/] nothing leaked" if reply.well else "[red]✗[/] something leaked"
    renderer.console.print(f"{verdict}: {reply.operations} operations, {reply.tries:,} tries")


RENDERERS: dict[type, Callable[[Renderer, Any], None]] = {
    RecallMeasure: recalled,
    SpeedMeasure: timed,
    LeakTestReply: tried,
}
