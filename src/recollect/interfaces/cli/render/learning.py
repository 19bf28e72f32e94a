"""Patterns, summaries and extracted facts for people: success drawn as an interval, summaries as a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from recollect.services.learning.extraction import ExtractReply
from recollect.services.learning.pattern_use import ApplyReply, EpisodeLine, PatternView, ReportReply, SuggestReply
from recollect.services.learning.patterns import LearnReply
from recollect.services.learning.rollup import MakeSummaryReply, RollUpReply
from recollect.services.learning.success_rates import Rate
from recollect.services.learning.summaries import SummaryView
from recollect.services.learning.summary_tree import SummaryTree

if TYPE_CHECKING:
    from recollect.interfaces.cli.render.replies import Renderer

WIDTH = 30


def interval(rate: Rate) -> str:
    """A line from 0 to 100%: the interval is thick, the expected rate is marked."""
    low, high = round(rate.low * (WIDTH - 1)), round(rate.high * (WIDTH - 1))
    mark = round(rate.expected * (WIDTH - 1))
    drawn = ["━" if low <= place <= high else "─" for place in range(WIDTH)]
    drawn[mark] = "●"
    return f"[cyan]{''.join(drawn)}[/] {escape(str(rate))}"


def suggested(show: Renderer, reply: SuggestReply) -> None:
    if not reply.suggestions:
        show.console.print("No pattern fits this task.")
    for place, one in enumerate(reply.suggestions, 1):
        show.console.print(
            f"[bold]{place:2}[/] [cyan]{one.score:5.2f}[/]  {escape(one.problem)}  [dim]{escape(one.id)}[/]"
        )
        show.console.print(f"           {interval(one.rate)}")
        show.console.print(f"           [dim]{escape('; '.join(one.reasons))}[/]")
    _notes(show, reply.notes)


def pattern(show: Renderer, reply: PatternView) -> None:
    show.console.print(f"[bold]{escape(reply.problem)}[/]  {reply.status}  [dim]{escape(reply.id)} v{reply.version}[/]")
    show.console.print(escape(reply.template))
    show.console.print(interval(reply.rate) + ("" if reply.offered else "  [yellow]not suggested yet[/]"))
    _episodes(show, "learned from", reply.episodes)
    _episodes(show, "against it", reply.counter_examples)
    for use in reply.applications:
        outcome = use.outcome or "not reported"
        show.console.print(
            f"used  {show.when(use.at)}  {outcome:12} {escape(use.task)}  [dim]{escape(use.application)}[/]"
        )


def _episodes(show: Renderer, title: str, episodes: Sequence[EpisodeLine]) -> None:
    for one in episodes:
        mark = "[green]✓[/]" if one.success else "[red]✗[/]"
        show.console.print(f"{title}  {mark} {escape(one.task)}  [dim]{escape(one.id)}[/]")


def applied(show: Renderer, reply: ApplyReply) -> None:
    show.console.print(escape(reply.text))
    if reply.missing:
        show.console.print(f"[yellow]no value for[/] {escape(', '.join(reply.missing))}")
    show.console.print(f"[dim]report the outcome: recollect pattern report {escape(reply.application)} --success[/]")


def reported(show: Renderer, reply: ReportReply) -> None:
    show.console.print(interval(reply.rate) + ("  [dim]already reported[/]" if reply.repeated else ""))
    if reply.consequence:
        show.console.print(f"[yellow]{escape(reply.consequence)}[/]")


def learned(show: Renderer, reply: LearnReply) -> None:
    show.console.print(
        f"{reply.episodes} new episodes: {len(reply.founded)} new patterns, {len(reply.grown)} patterns extended, "
        f"{reply.counter_examples} counter-examples, {reply.left} episodes without a pattern"
    )
    for id in reply.founded:
        show.console.print(f"new  [dim]{escape(id)}[/]")
    for id in reply.demoted:
        show.console.print(f"[yellow]demoted[/] [dim]{escape(id)}[/]")
    _notes(show, reply.notes)


def summarized(show: Renderer, reply: MakeSummaryReply) -> None:
    show.console.print(escape(reply.text))
    show.console.print(f"[dim]covers {len(reply.covers)}  {escape(reply.id)}[/]")
    _notes(show, reply.notes)


def rolled_up(show: Renderer, reply: RollUpReply) -> None:
    written = ", ".join(f"{count} {level}" for level, count in reply.written.items()) or "nothing was due"
    again = f"; {reply.dropped} were out of date" if reply.dropped else ""
    show.console.print(f"written: {written}{again}")
    _notes(show, reply.notes)


def summary(show: Renderer, reply: SummaryView) -> None:
    stale = "  [yellow]out of date[/]" if reply.stale else ""
    show.console.print(
        f"[bold]{reply.level}[/] {show.when(reply.at)}  {reply.status}{stale}  [dim]{escape(reply.id)}[/]"
    )
    show.console.print(escape(reply.text))
    for part in reply.parts:
        said = f"{escape(part.by)}: " if part.by else ""
        show.console.print(f"  [dim]{part.kind:12}[/] {said}{escape(part.text)}  [dim]{escape(part.id)}[/]")


def tree(show: Renderer, reply: SummaryTree) -> None:
    for line in reply.lines:
        stale = "  [yellow]out of date[/]" if line.stale else ""
        title = line.level if line.kind == "summary" else line.kind
        show.console.print(f"{'  ' * line.depth}[bold]{title}[/] {escape(line.text)}{stale}  [dim]{escape(line.id)}[/]")
    if reply.more or not reply.lines:
        show.console.print("[dim]more with --limit[/]" if reply.more else "There are no summaries.")


def _notes(show: Renderer, notes: Sequence[str]) -> None:
    for note in notes:
        show.console.print(f"[yellow]note:[/] {escape(note)}")


FINDINGS = {"new": "green", "contradiction": "yellow", "duplicate": "dim", "outdated": "dim"}


def extracted(show: Renderer, reply: ExtractReply) -> None:
    for one in reply.proposals:
        show.console.print(
            f"[{FINDINGS[one.finding]}]{one.finding:13}[/] {one.category:11} {escape(one.text)}  "
            f"[dim]{escape(one.id or '')}[/]"
        )
        if one.known:
            relation = {"duplicate": "known as", "contradiction": "would replace"}.get(one.finding, "newer is")
            show.console.print(f"              [dim]{relation}: {escape(one.known_text)}  {escape(one.known[0])}[/]")
    proposed = sum(one.finding in ("new", "contradiction") for one in reply.proposals)
    then = "; review them before they are relied on" if proposed and not reply.dry_run else ""
    show.console.print(
        f"messages read: {reply.read}, {'to propose' if reply.dry_run else 'proposed'}: {proposed}{then}"
    )
    if reply.remaining:
        show.console.print(f"[dim]{reply.remaining} messages are left: run it again[/]")
    _notes(show, reply.notes)


RENDERERS: dict[type, Callable[[Renderer, Any], None]] = {
    SuggestReply: suggested,
    PatternView: pattern,
    ApplyReply: applied,
    ReportReply: reported,
    LearnReply: learned,
    MakeSummaryReply: summarized,
    RollUpReply: rolled_up,
    SummaryView: summary,
    SummaryTree: tree,
    ExtractReply: extracted,
}
