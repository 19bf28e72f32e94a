"""Replies in a REPL: a line for each hit, memory or run, in place of all their fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from recollect.domain.record import clipped
from recollect.domain.text.shown import clean

if TYPE_CHECKING:
    from recollect.services.data.results import QueryReply
    from recollect.services.recall.browse import MemoryLine, MemoryPage, MemoryView
    from recollect.services.recall.context import Context
    from recollect.services.recall.hits import Hit
    from recollect.services.recall.recall import RecallReply
    from recollect.services.requests import Reply
    from recollect.services.runs.history import RunPage, RunView, StepView, Timeline

SHOWN = 20
WIDTH = 100
WIDEST_CELL = 24


def short_text(reply: Reply) -> str | None:
    """What a REPL shows of a reply; None for those that it shows with all their fields."""
    make = kept_for(type(reply), _TEXTS)
    return make(reply) if make is not None else None


def kept_for(reply: type, makers: dict[str, Callable[[Any], str]]) -> Callable[[Any], str] | None:
    """What is kept for a type, or for the nearest one that it refines; by names, so that none has to be imported."""
    for one in reply.__mro__:
        name = f"{one.__module__.removeprefix('recollect.services.')}:{one.__name__}"
        if name in makers:
            return makers[name]
    return None


def moment(when: datetime | str) -> str:
    return str(when)[:16].replace("T", " ")


def called(step: StepView) -> str:
    """What a step of a run did: the tool with its arguments, or what was thought."""
    if step.tool is None:
        return step.reasoning or "(no tool)"
    return f"{step.tool}({', '.join(f'{name}={value!r}' for name, value in step.arguments.items())})"


def _listed(title: str, lines: Sequence[str], notes: Sequence[str] = ()) -> str:
    more = [f"  … {len(lines) - SHOWN:,} more"] if len(lines) > SHOWN else []
    return "\n".join([title, *(f"  {line}" for line in lines[:SHOWN]), *more, *(f"  note: {_short(n)}" for n in notes)])


def _short(text: str, most: int = WIDTH) -> str:
    return clean(clipped(text, most))


def _hit(hit: Hit) -> str:
    what = hit.role or "message" if hit.type == "message" else hit.status
    text = f"… {hit.passage.text} …" if hit.passage else hit.text
    cites = f", {len(hit.citations)} cited" if hit.citations else ""
    return f"{hit.match:.2f}  {_short(text)}  [{clean(what)}{cites}]  {clean(hit.id)}"


def _recalled(reply: RecallReply) -> str:
    sure = f", confidence {reply.confidence:.2f}" if reply.confidence is not None else ""
    return _listed(f"{_count(len(reply.hits), 'hit')}{sure}", [_hit(hit) for hit in reply.hits], reply.notes)


def _context(reply: Context) -> str:
    used = _count(len(reply.used), "entry", "entries")
    return f"<Context of {used}, about {reply.tokens:,} tokens, {reply.left_out:,} left out: {_short(reply.text)}>"


def _line(line: MemoryLine) -> str:
    return (
        f"{moment(line.occurred_at)}  {_short(line.text)}  [{clean(line.status)} {clean(line.kind)}]  {clean(line.id)}"
    )


def _page(reply: MemoryPage) -> str:
    title = f"{len(reply.memories):,} of {_count(reply.total, 'memory', 'memories')}"
    return _listed(title, [_line(one) for one in reply.memories], reply.notes)


def _memory(reply: MemoryView) -> str:
    cites = [f"{clean(one.state)}: {_short(one.source)}" for one in reply.citations]
    title = f"{_short(reply.text)}  [{clean(reply.status)} {clean(reply.kind)}]  {clean(reply.id)} v{reply.version}"
    return _listed(title, cites)


def _run(run: RunView) -> str:
    steps = _count(run.length, "step")
    return f"{clean(run.status)}  {_short(run.goal)}  [{clean(run.agent)}, {steps}]  {clean(run.id)}"


def _timeline(reply: Timeline) -> str:
    steps = [
        f"{one.number:3}  {clean(one.outcome or one.state)}  {_short(called(one))}  {_short(one.summary)}".rstrip()
        for one in reply.timeline
    ]
    return _listed(_run(reply), steps)


def _runs(reply: RunPage) -> str:
    return _listed(f"{len(reply.runs):,} of {_count(reply.total, 'run')}", [_run(one) for one in reply.runs])


def _rows(reply: QueryReply) -> str:
    declined = getattr(reply, "declined", None)
    if declined is not None:
        return f"no answer: {_short(declined)}"
    cells = [[_short("" if one is None else str(one), WIDEST_CELL) for one in row] for row in reply.rows[:SHOWN]]
    table = [[_short(column.name, WIDEST_CELL) for column in reply.columns], *cells]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    shown = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
    more = f"{'' if reply.row_count is None else f'{reply.row_count:,} '}rows; {_short(reply.sql)}"
    return "\n".join([more, *(f"  {line}" for line in shown)])


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


_TEXTS: dict[str, Callable[[Any], str]] = {
    "data.results:QueryReply": _rows,
    "recall.browse:MemoryLine": lambda line: f"<MemoryLine {_line(line)}>",
    "recall.browse:MemoryPage": _page,
    "recall.browse:MemoryView": _memory,
    "recall.context:Context": _context,
    "recall.hits:Hit": lambda hit: f"<Hit {_hit(hit)}>",
    "recall.recall:RecallReply": _recalled,
    "runs.history:RunPage": _runs,
    "runs.history:RunView": lambda run: f"<Run {_run(run)}>",
    "runs.history:Timeline": _timeline,
}
