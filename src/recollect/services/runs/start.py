"""Starting a run: a task is stored before any work, once for each idempotency key, with what the agent's configuration
says about remembering its results and approving its steps."""

from __future__ import annotations

from typing import get_args

from pydantic import Field

from recollect.domain.agents import Agent, Approval, Execution
from recollect.domain.record import Id, Json, JsonList, Name, Text
from recollect.errors import Conflict, DuplicateKey, IllegalTransition, InvalidInput
from recollect.ports.query import Query, equal
from recollect.ports.steps import Insert
from recollect.services.requests import Request
from recollect.services.runs.history import RunProgress, RunView, run_view
from recollect.services.tenant import Tenant
from recollect.services.times import Through
from recollect.services.transaction import commit, load_named, logged, made

REMEMBERED, APPROVED = "remember_results", "approve"
LONGEST_APPROVAL_SECONDS = 366 * 86_400


class StartRequest(Request):
    """A task for an agent. It is stored before any work starts."""

    goal: Text = Field(min_length=1, max_length=100_000, description="What is to be done")
    agent: Id = Field(description="The agent that does it")
    session: Id | None = Field(None, description="The session it belongs to")
    message: Id | None = Field(None, description="The message that asked for it")
    idempotency_key: Id | None = Field(None, description="The same key again returns the same run")
    queue: Name = Field("default", description="The queue in which workers find it")
    priority: int = Field(5, ge=1, le=10, description="1 to 10; greater ones are claimed first")
    steps: JsonList = Field(default_factory=list, description="The planned steps, if known")
    deadline: Through | None = Field(None, description="No further step is started after this time")
    max_steps: int | None = Field(None, ge=1, description="The most steps it may take")
    max_crashes: int | None = Field(None, ge=0, description="How many crashes of workers to tolerate before it fails")
    remember: bool | None = Field(
        None, description="Whether results become memories; by default as the agent is configured"
    )
    approve: Approval | None = Field(
        None,
        description="Which steps wait until a person approves them: never, tools (those that call a tool) or always; "
        "by default never. If the agent's config_overrides have `approve`, the stricter one counts",
    )
    approval_seconds: float | None = Field(
        None,
        gt=0,
        le=LONGEST_APPROVAL_SECONDS,
        description="How long a step waits for approval before it counts as rejected; by default as the settings say",
    )
    metadata: Json = Field(default_factory=dict, description="Anything else")


def start(tenant: Tenant, request: StartRequest) -> RunView:
    """Accept a task for an agent; workers find it in its queue."""
    known = _started_before(tenant, request)
    if known is not None:
        return run_view(tenant, known, duplicate=True)
    agent = load_named(tenant, Agent, request.agent) or made(Agent, tenant, id=request.agent, name=request.agent)
    if agent.status != "active":
        raise IllegalTransition(
            f"agent '{agent.id}' is {agent.status}", remedy="activate it first, or give another agent", id=agent.id
        )
    asked = request.model_dump(exclude={"agent", "session", "message", "remember", "approve"})
    asked |= {"agent_id": agent.id, "session_id": request.session, "message_id": request.message}
    remembers = bool(agent.config_overrides.get(REMEMBERED, True)) if request.remember is None else request.remember
    approve = _stricter(request.approve, agent)
    run: Execution = made(Execution, tenant, **asked, remembers=remembers, approve=approve)
    try:
        commit(tenant, [Insert(run), logged(tenant, "create", "start run", None, id=run.id)])
    except DuplicateKey:
        raced = _started_before(tenant, request)
        if raced is None:
            raise
        return run_view(tenant, raced, duplicate=True)
    return run_view(tenant, run, RunProgress(0, "think"))


def _stricter(asked: Approval | None, agent: Agent) -> Approval:
    """Of what is asked for and what the agent is configured with, so that a task cannot lower the agent's bar."""
    words: tuple[Approval, ...] = get_args(Approval)
    configured = agent.config_overrides.get(APPROVED, "never")
    if configured not in words:
        raise InvalidInput(
            f"'{APPROVED}' in the config_overrides of agent '{agent.id}' is not one of {', '.join(words)}",
            remedy="change it with agent.revise",
            id=agent.id,
        )
    return words[max(words.index(asked or "never"), words.index(configured))]


def _started_before(tenant: Tenant, request: StartRequest) -> Execution | None:
    if request.idempotency_key is None:
        return None
    key = equal("idempotency_key", request.idempotency_key)
    found = tenant.find(Query(Execution, (key,), limit=1)).records
    if found and (found[0].goal, found[0].agent_id) != (request.goal, request.agent):
        raise Conflict(
            "that idempotency key was used for another run", remedy="use a new key for a new task", id=found[0].id
        )
    return found[0] if found else None
