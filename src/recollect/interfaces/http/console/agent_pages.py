"""Pages about agents: what they are told and given, their runs step by step, their workspaces, what they learned."""

from __future__ import annotations

from typing import Any

from recollect.interfaces.http.console.page_context import Page, Visit
from recollect.interfaces.http.console.templating import line_kinds

PATTERNS_AT_ONCE, STEPS_AT_ONCE, FILES_AT_ONCE, MOST_COMPARED = 20, 200, 500, 100
LONGEST_SHOWN = 20_000
LESSONS_AT_ONCE, MOST_UNFOLDED = 12, 40
RESUMABLE = ("paused", "failed")


def agents(visit: Visit) -> dict[str, Any]:
    page = visit.call("agent.list", after=visit.query("after"), limit=50)
    return {"agents": page.agents, "next": page.next}


def agent(visit: Visit) -> dict[str, Any]:
    blocks = visit.ask("block.list", agent=visit.id)
    tools = visit.ask("tool.list", agent=visit.id)
    runs = visit.ask("run.list", agent=visit.id, limit=20)
    workspaces = visit.ask("workspace.list", agent=visit.id)
    return {
        "agent": visit.call("agent.show", id=visit.id),
        "resumable": RESUMABLE,
        "blocks": blocks.blocks if blocks else [],
        "tools": tools.tools if tools else [],
        "runs": runs.runs if runs else [],
        "workspaces": workspaces.workspaces if workspaces else [],
        "memories": visit.call("list", agent=visit.id, limit=8),
    }


def runs(visit: Visit) -> dict[str, Any]:
    page = visit.call("run.list", status=visit.query("status"), after=visit.query("after"), limit=50)
    facts = {"runs": page.runs, "next": page.next, "total": page.total, "status": visit.query("status")}
    return facts | {"names": visit.names("agent", (one.agent for one in page.runs)), "resumable": RESUMABLE}


def run(visit: Visit) -> dict[str, Any]:
    before = visit.query("before")
    shown = visit.call("run.show", id=visit.id, limit=STEPS_AT_ONCE, before=int(before) if before.isdecimal() else None)
    agent = visit.names("agent", [shown.agent]).get(shown.agent, "agent")
    return {"run": shown, "agent": agent, "resumable": RESUMABLE}


def workspaces(visit: Visit) -> dict[str, Any]:
    page = visit.call("workspace.list", after=visit.query("after"), limit=50)
    return {"workspaces": page.workspaces, "next": page.next}


def workspace(visit: Visit) -> dict[str, Any]:
    page = visit.call("workspace.snapshots", id=visit.id, after=visit.query("after"))
    since, to = visit.query("since"), visit.query("to")
    compared = visit.call("workspace.diff", id=visit.id, since=since, to=to).files if since else []
    path, at = visit.query("path"), visit.query("at")
    listed = visit.call("workspace.files", id=visit.id, limit=FILES_AT_ONCE, after=visit.query("files_after"))
    return {
        "workspace": visit.call("workspace.show", id=visit.id),
        "folders": _folders(listed.files, path),
        "more_files": listed.next,
        "is_first": not visit.query("files_after"),
        "snapshots": page.snapshots,
        "next": page.next,
        "since": since,
        "to": to,
        "compared": [(one, line_kinds((one.diff or "")[:LONGEST_SHOWN])) for one in compared[:MOST_COMPARED]],
        "left_out": max(0, len(compared) - MOST_COMPARED),
        "file": visit.call("workspace.read", id=visit.id, path=path, snapshot=at) if path else None,
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


def patterns(visit: Visit) -> dict[str, Any]:
    page = visit.call("list", kinds=["pattern"], limit=PATTERNS_AT_ONCE, after=visit.query("after"))
    shown = [visit.call("pattern.show", id=line.id) for line in page.memories]
    return {"patterns": shown, "next": page.next, "total": page.total}


def pattern(visit: Visit) -> dict[str, Any]:
    shown = visit.call("pattern.show", id=visit.id)
    lessons = sorted([*shown.episodes, *shown.counter_examples], key=lambda one: one.at, reverse=True)
    return {"pattern": shown, "lessons": lessons, "at_once": LESSONS_AT_ONCE}


PAGES = (
    Page("/agents", "agents.html", "agent.list", agents),
    Page("/agents/{id}", "agent.html", "agent.show", agent),
    Page("/runs", "runs.html", "run.list", runs),
    Page("/runs/{id}", "run.html", "run.show", run),
    Page("/workspaces", "workspaces.html", "workspace.list", workspaces),
    Page("/workspaces/{id}", "workspace.html", "workspace.show", workspace),
    Page("/patterns", "patterns.html", "pattern.show", patterns),
    Page("/patterns/{id}", "pattern.html", "pattern.show", pattern),
)
