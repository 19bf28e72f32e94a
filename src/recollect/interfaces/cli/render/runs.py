"""Runs for people: a list, the timeline of one, the steps that wait for approval, the cycles of an agent."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Column, Table

from recollect.domain.record import clipped
from recollect.services.runs.approval import WaitingPage
from recollect.services.runs.cycles import CyclePage
from recollect.services.runs.history import RunPage, RunView, StepView, Timeline
from recollect.services.runs.queue import ClaimReply

if TYPE_CHECKING:
    from recollect.interfaces.cli.render.replies import Renderer

STATUSES = {
    "queued": "cyan",
    "running": "bold cyan",
    "interrupted": "yellow",
    "waiting": "bold yellow",
    "paused": "yellow",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "dim",
}
MARKS = {"success": "[green]●[/]", "error": "[red]✗[/]", "timeout": "[red]◷[/]", "uncertain": "[yellow]?[/]"}
STATES = {
    "open": "[cyan]◌[/]", "waiting": "[yellow]◷[/]", "approved": "[green]◌[/]",
    "uncertain": "[yellow]?[/]", "again": "[cyan]↻[/]", "abandoned": "[dim]◌[/]",
}  # fmt: skip
WIDTH = 70
_UNDONE = {"open": "no result yet", "again": "to be done again", "waiting": "waits for approval"}


def run_page(renderer: Renderer, reply: RunPage) -> None:
    whole = Column("id", no_wrap=True, overflow="ignore", min_width=36)
    table = Table("started", "status", "steps", "agent", "goal", "next", whole, box=None, header_style="dim")
    for run in reply.runs:
        table.add_row(
            renderer.when(run.created_at), _status(run), str(run.length), escape(run.agent), escape(_short(run.goal)),
            escape(_short(run.next)), f"[dim]{escape(run.id)}[/]",
        )  # fmt: skip
    renderer.console.print(table)
    _count(renderer, len(reply.runs), reply.total, reply.next, "0 of 0")


def run(renderer: Renderer, reply: RunView) -> None:
    say = renderer.console.print
    say(f"{_status(reply)}  [bold]{escape(reply.goal)}[/]  [dim]{escape(reply.id)}[/]")
    facts = [f"agent {reply.agent}", f"queue {reply.queue}", f"{reply.length} steps"]
    facts += [f"claimed {reply.attempts}×"] if reply.attempts else []
    facts += [f"{reply.crashes} crashes"] if reply.crashes else []
    facts += [f"forked from {reply.parent} after step {reply.forked_after}"] if reply.parent else []
    say(f"[dim]{escape(' · '.join(facts))}[/]")
    if reply.note:
        say(f"note: {escape(reply.note)}")
    if isinstance(reply, Timeline):
        timeline(renderer, reply)
    for name, value in (("result", reply.result), ("error", reply.error)):
        if value:
            say(f"{name}: {escape(_json(value, 500))}", soft_wrap=True)
    say(f"[dim]next:[/] {escape(reply.next)}")


def timeline(renderer: Renderer, reply: Timeline) -> None:
    if reply.more:
        renderer.console.print(f"[dim]  … {reply.more} steps before these[/]")
    table = Table.grid(padding=(0, 2))
    for step in reply.timeline:
        table.add_row(*_row(renderer, step))
    for step in reply.abandoned:
        table.add_row(*(f"[dim]{cell}[/]" for cell in _row(renderer, step)), "[dim]abandoned[/]")
    renderer.console.print(table)
    for step in reply.timeline:
        if step.missing_artifacts:
            named = ", ".join(_json(one, 80) for one in step.missing_artifacts)
            renderer.console.print(f"[yellow]step {step.number}: not in the workspace:[/] {escape(named)}")
    for fork in reply.forks:
        renderer.console.print(f"[dim]forked as[/] {escape(fork)}")


def _row(renderer: Renderer, step: StepView) -> list[str]:
    took = step.seconds
    if took is None and step.recorded_at is not None:
        took = (step.recorded_at - step.proposed_at).total_seconds()
    outcome = step.outcome or _UNDONE.get(step.state, step.state)
    mark = MARKS[step.outcome] if step.outcome else STATES.get(step.state, "·")
    again = f" (attempt {step.attempts})" if step.attempts > 1 else ""
    told = step.summary or str((step.error or {}).get("message", ""))
    when = renderer.when(step.proposed_at)
    return [
        f"[bold]{step.number:3}[/] {mark}", f"[dim]{when}[/]", escape(_short(_called(step))),
        f"{took:.2f} s" if took is not None else "", f"{outcome}{again}", escape(_short(told)),
    ]  # fmt: skip


def _called(step: StepView) -> str:
    if step.tool is None:
        return step.reasoning or "(no tool)"
    return f"{step.tool}({', '.join(f'{name}={_json(value, 40)}' for name, value in step.arguments.items())})"


def _status(run: RunView) -> str:
    asks = " [bold yellow]needs an answer[/]" if run.asks is not None else ""
    return f"[{STATUSES[run.status]}]{run.status}[/]{asks}"


def _short(text: str) -> str:
    return clipped(" ".join(text.split()), WIDTH)


def _json(value: object, limit: int) -> str:
    return clipped(json.dumps(value, ensure_ascii=False), limit)


def claimed(renderer: Renderer, reply: ClaimReply) -> None:
    if reply.run is None:
        renderer.console.print("There is no run to claim.")
        return
    run(renderer, reply.run)
    renderer.console.print(f"[dim]fence:[/] {reply.fence}")


def waiting(renderer: Renderer, reply: WaitingPage) -> None:
    say = renderer.console.print
    for step in reply.steps:
        say(f"[bold]{escape(_called(step))}[/]", soft_wrap=True)
        say(f"  {escape(_short(step.goal))}[dim], step {step.number}, until {renderer.when(step.waits_until)}[/]")
        if step.tool is not None and step.reasoning:
            say(f"  [dim]{escape(_short(step.reasoning))}[/]")
        say(f"  [dim]recollect run approve {escape(step.run)} --step {step.number}[/]", soft_wrap=True)
    _count(renderer, len(reply.steps), reply.total, reply.next, "Nothing waits for approval.")


def cycles(renderer: Renderer, reply: CyclePage) -> None:
    table = Table.grid(padding=(0, 2))
    for step in reply.cycles:
        table.add_row(f"[dim]{escape(step.agent)}[/]", f"[bold]{step.index}[/]", *_row(renderer, step))
    renderer.console.print(table)
    _count(renderer, len(reply.cycles), reply.total, reply.next, "There are no cycles.")


def _count(renderer: Renderer, shown: int, total: int, after: str | None, none: str) -> None:
    more = f"; more with --after {after}" if after else ""
    renderer.console.print(f"[dim]{shown} of {total}{more}[/]" if total else none)


RENDERERS: dict[type, Callable[[Renderer, Any], None]] = {
    RunPage: run_page,
    RunView: run,
    ClaimReply: claimed,
    WaitingPage: waiting,
    CyclePage: cycles,
}
