"""Episodes: tasks that were tried, how it went and why; recorded by hand or read off a run.

An episode is a memory like any other (kind `episode`), so it is cited, recalled, promoted and erased like one. One that
is read off a run cites the run as a log entry: its evidence is the record of what was proposed and what came of it.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field

from recollect.domain.agents import Execution, Proposal, Result
from recollect.domain.provenance import cite
from recollect.domain.record import Id, Json, JsonArray, Text, clipped
from recollect.domain.run_branches import history_of
from recollect.errors import Conflict
from recollect.ports.query import OneOf, Query
from recollect.services.memories.draft import RememberRequest
from recollect.services.memories.remember import remember
from recollect.services.memories.revise import Receipt
from recollect.services.request_limits import MOST_CITATIONS, MOST_TAGS
from recollect.services.requests import Request
from recollect.services.runs.history import cycles_between
from recollect.services.tenant import Tenant
from recollect.services.times import From
from recollect.services.transaction import load

MOST_CHARACTERS = 20_000  # of a plan or an output read off a run
MOST_STEPS = 1 << 31
MOST_OF_A_LINE = 500


class RecordEpisodeRequest(Request):
    """A task that was tried, and how it went."""

    task: Text = Field(min_length=1, description="What was to be done")
    success: bool = Field(description="Whether it was done")
    action_plan: Text | list[Text] = Field("", description="How it was done: text, or one step after the other")
    action_output: Text = Field("", description="What came out")
    initial_state_snapshot: Text = Field("", description="How things stood before: a description, or a snapshot's hash")
    critique: Text = Field("", description="Why it went as it did")
    tags: list[str] = Field(default_factory=list, max_length=MOST_TAGS, description="Words to find it by")
    cites: JsonArray = Field(
        default_factory=list, max_length=MOST_CITATIONS, description="Where it comes from: citations of recollect.cite"
    )
    user: Id | None = Field(None, description="The user it was done for")
    agent: Id | None = Field(None, description="The agent that did it")
    session: Id | None = Field(None, description="The session it was done in")
    project: Id | None = Field(None, description="The project it was done for")
    at: From | None = Field(None, description="When it was done; now, if left out")
    metadata: Json = Field(default_factory=dict, description="Anything else, as JSON")
    idempotency_key: Id | None = Field(None, description="The same key again returns the first receipt")
    id: Id | None = Field(None, description="An id of your own; made for you if left out")


def record_episode(tenant: Tenant, request: RecordEpisodeRequest) -> Receipt:
    """Remember a task that was tried; each try is kept, even one that went like another."""
    plan = request.action_plan if isinstance(request.action_plan, str) else "\n".join(request.action_plan)
    content = {
        "task_description": request.task,
        "initial_state_snapshot": request.initial_state_snapshot,
        "action_plan": plan,
        "action_output": request.action_output,
        "success": request.success,
        "critique": request.critique,
    }
    fields = "tags cites user agent session project at metadata idempotency_key id".split()
    carried = {name: getattr(request, name) for name in fields}
    # Doing the same thing twice is twice the evidence, so a repetition is no duplicate unless its key says so.
    return remember(tenant, RememberRequest(content=content, kind="episode", on_duplicate="keep", **carried))


class EpisodeFromRunRequest(Request):
    """A run that is over, and what to say of it."""

    run: Id = Field(description="The run (execution)")
    success: bool | None = Field(None, description="Whether it did its task; read off its status if left out")
    critique: Text = Field("", description="Why it went as it did; the last error if left out")
    tags: list[str] = Field(default_factory=list, max_length=MOST_TAGS, description="Words to find it by")


def episode_from_run(tenant: Tenant, request: EpisodeFromRunRequest) -> Receipt:
    """Remember a run as an episode that cites it; a run becomes one episode, however often it is asked for."""
    run = load(tenant, Execution, request.run)
    if request.success is None and run.status not in ("succeeded", "failed", "cancelled"):
        raise Conflict(f"that run is {run.status}", remedy="wait for its end, or say success=True or False", id=run.id)
    # Its history: with what it shares with the run it was forked from, without what it gave up.
    cycles = cycles_between(tenant, history_of(run), 1, MOST_STEPS)
    ids = tuple(cycle.id for cycle in cycles)
    proposals = {one.cycle_id: one for one in _hanging(tenant, Proposal, ids)}
    results = {one.cycle_id: one for one in _hanging(tenant, Result, ids)}
    steps = [_step(proposals[id]) for id in ids if id in proposals]
    outputs = [_output(results[id]) for id in ids if id in results]
    asked = RecordEpisodeRequest(
        task=run.goal,
        success=request.success if request.success is not None else run.status == "succeeded",
        action_plan=clipped("\n".join(step for step in steps if step), MOST_CHARACTERS),
        action_output=clipped("\n".join([*outputs, _shown(run.result)]).strip(), MOST_CHARACTERS),
        initial_state_snapshot=clipped(_shown(cycles[0].snapshot) if cycles else "", MOST_CHARACTERS),
        critique=request.critique or _shown(run.error),
        tags=request.tags,
        cites=[cite.log(run.id, run.created_at, "run")],
        agent=run.agent_id,
        session=run.session_id,
        at=run.ended_at or run.updated_at,
        metadata={"run": run.id, "cycles": len(cycles)},
        idempotency_key=f"episode:{run.id}",
    )
    return record_episode(tenant, asked)


def _hanging(tenant: Tenant, record: Any, cycles: tuple[str, ...]) -> JsonArray:
    return tenant.find(Query(record, (OneOf("cycle_id", cycles),))).records if cycles else []


def _step(proposal: Proposal) -> str:
    """What was proposed: the tool and its arguments, or else the reasoning."""
    call = proposal.tool_call or {}
    name = call.get("name") or call.get("tool")
    if not name:
        return _line(proposal.reasoning or " ".join(str(step) for step in proposal.plan))
    arguments = call.get("arguments") or call.get("args") or {}
    given = (
        ", ".join(f"{key}={value}" for key, value in arguments.items()) if isinstance(arguments, dict) else arguments
    )
    return _line(f"{name} {given}")


def _output(result: Result) -> str:
    return _line(result.summary or _shown(result.output) or _shown(result.error) or result.outcome)


def _shown(value: Any) -> str:
    """JSON as a reader would put it: its text, message or summary if it has one."""
    if not value:
        return ""
    if isinstance(value, dict):
        for name in ("text", "message", "summary"):
            if isinstance(value.get(name), str):
                return str(value[name])
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _line(text: str) -> str:
    return clipped(" ".join(text.split()), MOST_OF_A_LINE)
