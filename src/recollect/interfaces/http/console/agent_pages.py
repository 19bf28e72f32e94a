"""Pages about agents: what they are told and given, their runs step by step, what waits for approval, their workspaces,
what they learned."""

from __future__ import annotations

from typing import Any

from recollect.interfaces.http.console.page_context import Page, PageContext, TemplateValues
from recollect.interfaces.http.console.templating import line_kinds

PATTERNS_AT_ONCE, STEPS_AT_ONCE, FILES_AT_ONCE, MOST_COMPARED = 20, 200, 500, 100
LONGEST_SHOWN = 20_000
LESSONS_AT_ONCE, MOST_UNFOLDED = 12, 40
RESUMABLE = ("paused", "failed")


def agents(context: PageContext) -> TemplateValues:
    page = context.call("agent.list", after=context.query("after"), limit=50)
    return {"agents": page.agents, "next": page.next}


def agent(context: PageContext) -> TemplateValues:
    blocks = context.ask("block.list", agent=context.id)
    tools = context.ask("tool.list", agent=context.id)
    runs = context.ask("run.list", agent=context.id, limit=20)
    workspaces = context.ask("workspace.list", agent=context.id)
    return {
        "agent": context.call("agent.show", id=context.id),
        "resumable": RESUMABLE,
        "blocks": blocks.blocks if blocks else [],
        "tools": tools.tools if tools else [],
        "runs": runs.runs if runs else [],
        "workspaces": workspaces.workspaces if workspaces else [],
        "memories": context.call("list", agent=context.id, limit=8, count_at_most=10_000),
    }


def runs(context: PageContext) -> TemplateValues:
    page = context.call("run.list", status=context.query("status"), after=context.query("after"), limit=50)
    facts = {"runs": page.runs, "next": page.next, "total": page.total, "status": context.query("status")}
    return facts | {"names": context.names("agent", (one.agent for one in page.runs)), "resumable": RESUMABLE}


def run(context: PageContext) -> TemplateValues:
    before = context.query("before")
    shown = context.call(
        "run.show", id=context.id, limit=STEPS_AT_ONCE, before=int(before) if before.isdecimal() else None
    )
    agent = context.names("agent", [shown.agent]).get(shown.agent, "agent")
    return {"run": shown, "agent": agent, "resumable": RESUMABLE}


def approvals(context: PageContext) -> TemplateValues:
    page = context.call("run.waiting", after=context.query("after"), limit=50)
    names = context.names("agent", (one.agent for one in page.steps))
    return {"steps": page.steps, "next": page.next, "total": page.total, "names": names}


def workspaces(context: PageContext) -> TemplateValues:
    page = context.call("workspace.list", after=context.query("after"), limit=50)
    return {"workspaces": page.workspaces, "next": page.next}


def workspace(context: PageContext) -> TemplateValues:
    page = context.call("workspace.snapshots", id=context.id, after=context.query("after"))
    since, to = context.query("since"), context.query("to")
    compared = context.call("workspace.diff", id=context.id, since=since, to=to).files if since else []
    path, at = context.query("path"), context.query("at")
    listed = context.call("workspace.files", id=context.id, limit=FILES_AT_ONCE, after=context.query("files_after"))
    return {
        "workspace": context.call("workspace.show", id=context.id),
        "folders": _folders(listed.files, path),
        "more_files": listed.next,
        "is_first": not context.query("files_after"),
        "snapshots": page.snapshots,
        "next": page.next,
        "since": since,
        "to": to,
        "compared": [(one, line_kinds((one.diff or "")[:LONGEST_SHOWN])) for one in compared[:MOST_COMPARED]],
        "left_out": max(0, len(compared) - MOST_COMPARED),
        "file": context.call("workspace.read", id=context.id, path=path, snapshot=at) if path else None,
        "longest": LONGEST_SHOWN,
    }


def _folders(files: list[Any], chosen: str) -> list[tuple[str, list[Any], bool]]:
    """Files by the folder they lie in, where they are many: each with whether it is to be shown unfolded."""
    if len(files) <= MOST_UNFOLDED:
        return [("", files, True)] if files else []
    found: dict[str, list[Any]] = {}
    for one in files:
        found.setdefault(one.path.rpartition("/")[0], []).append(one)
    return [(name, inside, not name or chosen.startswith(f"{name}/")) for name, inside in sorted(found.items())]


def patterns(context: PageContext) -> TemplateValues:
    page = context.call("list", kinds=["pattern"], limit=PATTERNS_AT_ONCE, after=context.query("after"))
    shown = [context.call("pattern.show", id=line.id) for line in page.memories]
    return {"patterns": shown, "next": page.next, "total": page.total}


def pattern(context: PageContext) -> TemplateValues:
    shown = context.call("pattern.show", id=context.id)
    lessons = sorted([*shown.episodes, *shown.counter_examples], key=lambda one: one.at, reverse=True)
    return {"pattern": shown, "lessons": lessons, "at_once": LESSONS_AT_ONCE}


PAGES = (
    Page("/agents", "agents.html", "agent.list", agents),
    Page("/agents/{id}", "agent.html", "agent.show", agent),
    Page("/runs", "runs.html", "run.list", runs),
    Page("/runs/{id}", "run.html", "run.show", run),
    Page("/approvals", "approvals.html", "run.waiting", approvals),
    Page("/workspaces", "workspaces.html", "workspace.list", workspaces),
    Page("/workspaces/{id}", "workspace.html", "workspace.show", workspace),
    Page("/patterns", "patterns.html", "pattern.show", patterns),
    Page("/patterns/{id}", "pattern.html", "pattern.show", pattern),
)
