"""Replies as a notebook shows them: hits, contexts, memories and runs in views of their own, all others as tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from recollect.services import notebook
from recollect.services.reply_texts import called, kept_for, moment

if TYPE_CHECKING:
    from recollect.services.recall.browse import MemoryLine, MemoryPage, MemoryView
    from recollect.services.recall.context import Context
    from recollect.services.recall.hits import Hit
    from recollect.services.recall.recall import RecallReply
    from recollect.services.recall.user_sql import SqlReply
    from recollect.services.requests import Reply
    from recollect.services.runs.history import RunPage, RunView, StepView, Timeline
    from recollect.services.trust.citations import CitationView

SHOWN_ITEMS = 100
SHOWN_CITATIONS = 5
READ_ON = "show(id) has all of it"


def html_of(reply: Reply) -> str:
    view = kept_for(type(reply), _VIEWS) or _any_reply
    return view(reply) + notebook.facts(_asides(reply))


def _asides(reply: Reply) -> list[str]:
    """What any reply may tell besides: who was added, what was masked."""
    added = [f"added {one.type} {one.id}, which was not there yet" for one in reply.created]
    return added + [f"masked in {one.field}: {one.kind}" for one in reply.masked]


def _recalled(reply: RecallReply) -> str:
    titles = [("match", True), ("text", False), ("status", False), ("when", False), ("sources", False), ("id", False)]
    rows = [_hit_row(hit) for hit in reply.hits[:SHOWN_ITEMS]]
    told = [_shown_of(len(rows), len(reply.hits), "hits")]
    if reply.confidence is not None:
        told.append(f"{reply.confidence:.0%} sure that they answer")
    told += [f"{reply.left_out:,} left out, because they hardly answer"] if reply.left_out else []
    recent = [f"{moment(one.at)} {one.outcome}: {one.summary}" for one in reply.recent]
    table = notebook.table(titles, rows) if rows else ""
    return table + notebook.facts([*told, *reply.notes]) + notebook.facts(recent)


def _hit_row(hit: Hit) -> list[str]:
    by = notebook.muted(hit.author) if hit.author else ""
    return [
        f"{hit.match:.2f}", _hit_text(hit), _hit_status(hit),
        notebook.lines([notebook.cell(moment(hit.occurred_at)), *([by] if by else [])]),
        _citations(hit.citations), notebook.code(hit.id),
    ]  # fmt: skip


def _hit_text(hit: Hit) -> str:
    if hit.passage is None:
        return notebook.text(hit.text, READ_ON)
    before, after = "… " * (hit.passage.start > 0), " …" * (hit.passage.end < len(hit.text))
    of = f"characters {hit.passage.start:,} to {hit.passage.end:,} of {len(hit.text):,}: {READ_ON}"
    return notebook.text(f"{before}{hit.passage.text}{after}", READ_ON) + notebook.muted(of)


def _hit_status(hit: Hit) -> str:
    if hit.type == "message":
        return notebook.lines([notebook.strong("message"), notebook.muted(hit.role or "")])
    return notebook.lines([notebook.strong(hit.status), notebook.muted(hit.kind)])


def _hit(hit: Hit) -> str:
    scores = ", ".join(f"{name} {part:.3g}" for name, part in hit.parts.items())
    via = hit.via
    return notebook.table(
        [("", False), ("", False)],
        _pairs({
            "text": _hit_text(hit), "status": _hit_status(hit), "match": f"{hit.match:.2f}",
            "why": notebook.cell(hit.why), "parts": notebook.muted(scores), "author": notebook.cell(hit.author),
            "when": notebook.cell(moment(hit.occurred_at)), "sources": _citations(hit.citations),
            "tags": notebook.cell(", ".join(hit.tags)),
            "came by": notebook.cell(f"{via.type} {via.direction} {via.id}") if via else "",
            "id": notebook.code(hit.id),
        }),
    )  # fmt: skip


def _citations(cited: Sequence[CitationView]) -> str:
    shown = [
        f"{notebook.cell(one.source)} {notebook.muted(f'{one.state}: {one.note}' if one.note else one.state)}"
        for one in cited[:SHOWN_CITATIONS]
    ]
    more = len(cited) - SHOWN_CITATIONS
    return notebook.lines(shown + [notebook.muted(f"and {more} more")] * (more > 0))


def _context(reply: Context) -> str:
    told = [f"about {reply.tokens:,} tokens", f"{len(reply.used):,} used", f"{reply.left_out:,} left out"]
    return notebook.block(reply.text, "print it to see all") + notebook.facts([*told, *reply.notes])


def _memories(reply: MemoryPage) -> str:
    titles = [("when", False), ("text", False), ("status", False), ("id", False)]
    rows = [_memory_row(one) for one in reply.memories[:SHOWN_ITEMS]]
    more = [f"more with after={reply.next!r}"] if reply.next else []
    told = [_shown_of(len(rows), reply.total, "memories"), *more, *reply.notes]
    return (notebook.table(titles, rows) if rows else "") + notebook.facts(told)


def _memory_row(line: MemoryLine) -> list[str]:
    return [
        notebook.lines([notebook.cell(moment(line.occurred_at)), notebook.muted(line.author or "")]),
        notebook.text(line.text, READ_ON),
        notebook.lines([notebook.strong(line.status), notebook.muted(line.kind)]),
        notebook.code(line.id),
    ]


def _line(line: MemoryLine) -> str:
    return notebook.table([("when", False), ("text", False), ("status", False), ("id", False)], [_memory_row(line)])


def _memory(view: MemoryView) -> str:
    owners = {name: getattr(view, name) for name in ("user", "agent", "session", "project", "author")}
    links = [
        f"{notebook.cell(one.type)} {'→' if one.direction == 'to' else '←'} {notebook.code(one.id)} "
        f"{notebook.cell(one.text)}"
        for one in view.links[:SHOWN_ITEMS]
    ]
    rows = {
        "text": notebook.text(view.text, "reply.text is all of it"),
        "status": f"{notebook.strong(view.status)} {notebook.muted(f'{view.kind}, version {view.version}')}",
        **{name: notebook.cell(owner) for name, owner in owners.items()},
        "when": notebook.cell(moment(view.occurred_at)),
        "content": "" if set(view.content) <= {"text"} else _value(view.content),
        "metadata": _value(view.metadata) if view.metadata else "",
        "tags": notebook.cell(", ".join(view.tags)),
        "sources": _citations(view.citations),
        "links": notebook.lines(links),
        "id": notebook.code(view.id),
    }
    return notebook.table([("", False), ("", False)], _pairs(rows))


def _run(run: RunView) -> str:
    facts = [f"agent {run.agent}", f"{run.length:,} steps", f"next: {run.next}", *([run.note] if run.note else [])]
    ended = [(name, value) for name, value in (("result", run.result), ("error", run.error)) if value]
    told = "".join(f"<p>{notebook.strong(name)} {_value(value)}</p>" for name, value in ended)
    goal = f"<p>{notebook.strong(run.status)} {notebook.cell(run.goal)} {notebook.code(run.id)}</p>"
    return goal + notebook.facts(facts) + told


def _timeline(reply: Timeline) -> str:
    titles = [("step", True), ("when", False), ("what", False), ("seconds", True), ("outcome", False), ("", False)]
    rows = [_step_row(step, step.outcome or step.state) for step in reply.timeline]
    rows += [_step_row(step, "abandoned") for step in reply.abandoned]
    before = notebook.facts([f"{reply.more:,} steps before these"]) if reply.more else ""
    return _run(reply) + before + (notebook.table(titles, rows) if rows else "")


def _step_row(step: StepView, outcome: str) -> list[str]:
    took = step.seconds
    if took is None and step.recorded_at is not None:
        took = (step.recorded_at - step.proposed_at).total_seconds()
    told = step.summary or str((step.error or {}).get("message", ""))
    return [
        str(step.number), notebook.cell(moment(step.proposed_at)), notebook.cell(called(step)),
        "" if took is None else f"{took:.2f}", notebook.strong(outcome), notebook.cell(told),
    ]  # fmt: skip


def _runs(reply: RunPage) -> str:
    titles = [("started", False), ("status", False), ("steps", True), ("agent", False), ("goal", False), ("id", False)]
    rows = [
        [
            notebook.cell(moment(run.created_at)), notebook.strong(run.status), str(run.length),
            notebook.cell(run.agent), notebook.cell(run.goal), notebook.code(run.id),
        ]
        for run in reply.runs[:SHOWN_ITEMS]
    ]  # fmt: skip
    return (notebook.table(titles, rows) if rows else "") + notebook.facts([_shown_of(len(rows), reply.total, "runs")])


def _sql(reply: SqlReply) -> str:
    columns = list(zip(reply.columns, reply.types, strict=True))
    cut = ["there are more: raise the limit"] if reply.cut else []
    told = [_shown_of(min(len(reply.rows), notebook.SHOWN_ROWS), len(reply.rows), "rows"), *cut]
    return notebook.result(columns, reply.rows) + notebook.facts(told)


def _any_reply(reply: Reply) -> str:
    """A list as a table, the fields of anything else below each other; of long lists in it the beginning."""
    shown = _fields(reply)
    lists = {name: value for name, value in shown.items() if _is_list_of_replies(value)}
    others = {name: _value(value) for name, value in shown.items() if name not in lists}
    fields = notebook.table([("", False), ("", False)], _pairs(others)) if any(others.values()) else ""
    return fields + "".join(_items(name, items) for name, items in lists.items())


def _items(name: str, items: Sequence[Reply]) -> str:
    """One row for each; columns that are empty everywhere are left out."""
    rows = [_fields(one) for one in items[:SHOWN_ITEMS]]
    titles = [title for title in rows[0] if any(row.get(title) not in (None, "", [], {}) for row in rows)]
    titles = titles[: notebook.SHOWN_COLUMNS]
    table = notebook.table(
        [(title, False) for title in titles], [[_value(row.get(one)) for one in titles] for row in rows]
    )
    return table + notebook.facts([_shown_of(len(rows), len(items), name)])


def _fields(reply: Reply) -> dict[str, Any]:
    """As its repr has them: without what must not be shown, and what every reply may tell."""
    return {name: value for name, value in reply.__repr_args__() if name not in (None, "created", "masked")}


def _is_list_of_replies(value: object) -> bool:
    return isinstance(value, list) and bool(value) and hasattr(type(value[0]), "__repr_args__")


def _value(value: object) -> str:
    """Anything as a cell."""
    if hasattr(type(value), "model_dump"):
        value = value.model_dump(mode="json", exclude_defaults=True)  # type: ignore[attr-defined]
    if isinstance(value, datetime):
        value = moment(value)
    if isinstance(value, bytes):
        value = f"{len(value):,} bytes"
    if isinstance(value, list | dict | tuple):
        value = json.dumps(value, ensure_ascii=False, default=str) if value else ""
    return notebook.cell(value)


def _pairs(rows: dict[str, str]) -> list[list[str]]:
    return [[notebook.muted(name.replace("_", " ")), value] for name, value in rows.items() if value]


def _shown_of(shown: int, total: int, what: str) -> str:
    return f"{total:,} {what}" if shown == total else f"the first {shown:,} of {total:,} {what}"


_VIEWS: dict[str, Callable[[Any], str]] = {
    "recall.browse:MemoryLine": _line,
    "recall.browse:MemoryPage": _memories,
    "recall.browse:MemoryView": _memory,
    "recall.context:Context": _context,
    "recall.hits:Hit": _hit,
    "recall.recall:RecallReply": _recalled,
    "recall.user_sql:SqlReply": _sql,
    "runs.history:RunPage": _runs,
    "runs.history:RunView": _run,
    "runs.history:Timeline": _timeline,
}
