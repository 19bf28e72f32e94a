"""Agents, what they are given (blocks, tools), and every step they take.

A step is a cycle with exactly one proposal and one result: a cycle is done exactly when its result is there, and a
proposal without a result is where a run stands still. `index` counts the cycles of an agent, `number` the steps of
one run; how runs share and abandon steps is in domain/run_branches.py. A run may ask for approval: a proposal that
needs it waits for a person, and nothing is carried out before.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from recollect.domain.record import Id, Json, JsonList, Moment, Name, Record, Reference, Shape, Text, Unique

AgentStatus = Literal["active", "paused", "retired"]
ExecutionStatus = Literal["queued", "running", "waiting", "paused", "succeeded", "failed", "cancelled"]
CycleStatus = Literal["open", "waiting", "approved", "done", "uncertain", "again", "abandoned"]
Approval = Literal["never", "tools", "always"]
"""Which proposals a person must approve: none, those that call a tool, or all; from lax to strict."""
Outcome = Literal["success", "error", "timeout", "uncertain"]

TRANSITIONS: dict[str, frozenset[str]] = {
    "active": frozenset({"paused", "retired"}),
    "paused": frozenset({"active", "retired"}),
    "retired": frozenset({"active"}),
}

_TENANT = Reference("organization")
_AGENT = Reference("agent")


class Agent(Record):
    shape: ClassVar[Shape] = Shape(
        "agent",
        references={"organization_id": _TENANT},
        indexes=(("name",),),
        encrypted=frozenset(
            {"system", "directives", "llm_config", "embedding_config", "mcp_tools", "config_overrides"}
        ),
    )

    type: Text | None = None
    name: Name
    description: Text = ""
    system: Text | None = None
    topic: Text | None = None
    message_ids: list[Id] = Field(default_factory=list)
    metadata: Json = Field(default_factory=dict)
    llm_config: Json = Field(default_factory=dict)
    embedding_config: Json = Field(default_factory=dict)
    tool_rules: JsonList = Field(default_factory=list)
    mcp_tools: JsonList = Field(default_factory=list)
    directives: JsonList = Field(default_factory=list)
    config_overrides: Json = Field(default_factory=dict)
    status: AgentStatus = "active"


class Block(Record):
    """A piece of core memory that is always in an agent's prompt; never longer than its limit."""

    shape: ClassVar[Shape] = Shape(
        "block",
        references={"organization_id": _TENANT, "user_id": Reference("user")},
        indexes=(("user_id",), ("label",)),
        encrypted=frozenset({"value"}),
    )

    user_id: Id | None = None
    label: Name
    value: Text = ""
    limit: int = Field(default=2000, ge=1)
    description: Text = ""
    template_name: Text | None = None
    is_template: bool = False
    metadata: Json = Field(default_factory=dict)

    @model_validator(mode="after")
    def _within_limit(self) -> Self:
        if len(self.value) > self.limit:
            raise ValueError(f"value has {len(self.value)} characters, the limit of this block is {self.limit}")
        return self


class BlockRevision(Record):
    """What a block said before one change, and who changed it when."""

    shape: ClassVar[Shape] = Shape(
        "block_revision",
        references={"organization_id": _TENANT, "block_id": Reference("block")},
        unique=(Unique(("block_id", "number")),),
        encrypted=frozenset({"value"}),
    )

    block_id: Id
    number: int = Field(ge=1)
    value: Text
    limit: int = Field(ge=1)
    held_from: Moment
    held_to: Moment


class BlockLink(Record):
    shape: ClassVar[Shape] = Shape(
        "block_link",
        references={"organization_id": _TENANT, "block_id": Reference("block"), "agent_id": _AGENT},
        unique=(Unique(("block_id", "block_label", "agent_id")),),
        indexes=(("agent_id",),),
    )

    block_id: Id
    block_label: Name
    agent_id: Id


class Tool(Record):
    shape: ClassVar[Shape] = Shape("tool", references={"organization_id": _TENANT}, unique=(Unique(("name",)),))

    name: Name
    description: Text = ""
    json_schema: Json = Field(default_factory=dict)
    source_type: Text | None = None
    source_code: Text | None = None
    tags: list[Text] = Field(default_factory=list)
    metadata: Json = Field(default_factory=dict)


class ToolLink(Record):
    shape: ClassVar[Shape] = Shape(
        "tool_link",
        references={"organization_id": _TENANT, "tool_id": Reference("tool"), "agent_id": _AGENT},
        unique=(Unique(("tool_id", "agent_id")),),
        indexes=(("agent_id",),),
    )

    tool_id: Id
    agent_id: Id


class AgentState(Record):
    """One per agent and session, and one per agent without a session."""

    shape: ClassVar[Shape] = Shape(
        "agent_state",
        references={"organization_id": _TENANT, "agent_id": _AGENT, "session_id": Reference("session")},
        unique=(Unique(("agent_id", "session_id"), nulls_equal=True),),
        indexes=(("session_id",), ("expires_at",)),
        encrypted=frozenset({"state_data"}),
    )

    agent_id: Id
    session_id: Id | None = None
    state_data: Json
    expires_at: Moment | None = None


class Execution(Record):
    """One task of an agent, from the goal to the result.

    `parent_id` and `past` name the runs whose steps it shares; those cannot be removed as long as it is there.
    """

    shape: ClassVar[Shape] = Shape(
        "execution",
        references={
            "organization_id": _TENANT,
            "agent_id": _AGENT,
            "session_id": Reference("session", on_delete="clear"),
            "message_id": Reference("message", on_delete="clear"),
        },
        unique=(Unique(("idempotency_key",)),),
        indexes=(
            ("agent_id", "id"),
            ("status", "id"),
            ("session_id",),
            ("message_id",),
            ("queue", "status", "priority", "id"),
            ("parent_id",),
            ("status", "waits_until"),
        ),
        encrypted=frozenset({"result", "error"}),
        encrypted_texts=frozenset({"goal", "steps", "note"}),
    )

    agent_id: Id
    session_id: Id | None = None
    message_id: Id | None = None
    goal: Text
    status: ExecutionStatus = "queued"
    steps: JsonList = Field(default_factory=list)
    result: Json | None = None
    error: Json | None = None
    idempotency_key: Id | None = None
    ended_at: Moment | None = None
    started_at: Moment | None = None
    queue: Name = "default"
    priority: int = Field(default=5, ge=1, le=10)
    attempts: int = Field(default=0, ge=0)
    crashes: int = Field(default=0, ge=0)
    max_crashes: int | None = Field(default=None, ge=0)
    max_steps: int | None = Field(default=None, ge=1)
    deadline: Moment | None = None
    worker: Text | None = None
    note: Text = ""
    remembers: bool = True
    parent_id: Id | None = None
    past: JsonList | None = None
    rewinds: JsonList | None = None
    metadata: Json | None = None
    approve: Approval = "never"
    approval_seconds: float | None = Field(default=None, gt=0)
    waits_until: Moment | None = None
    """When the proposal that waits for approval counts as rejected; empty while none waits."""

    def needs_approval(self, tool: str | None) -> bool:
        return self.approve == "always" or (self.approve == "tools" and tool is not None)


class Cycle(Record):
    """One step of an agent. `uncertain`: its effect may have happened; `again`: it did not, so it is done again;
    `waiting`: a person must approve it first; `approved`: one did, and no worker has started it yet."""

    shape: ClassVar[Shape] = Shape(
        "cycle",
        references={
            "organization_id": _TENANT,
            "agent_id": _AGENT,
            "execution_id": Reference("execution"),
        },
        unique=(Unique(("agent_id", "index")), Unique(("execution_id", "branch", "number"))),
        indexes=(("execution_id", "index"),),
        encrypted=frozenset({"snapshot"}),
    )

    agent_id: Id
    execution_id: Id | None = None
    index: int = Field(ge=0)
    snapshot: Json = Field(default_factory=dict)
    status: CycleStatus = "open"
    branch: int = Field(default=0, ge=0)
    number: int = Field(default=0, ge=0)
    attempts: int = Field(default=1, ge=0)


class Proposal(Record):
    """What the agent meant to do in a cycle, written before anything is done."""

    shape: ClassVar[Shape] = Shape(
        "proposal",
        references={"organization_id": _TENANT, "cycle_id": Reference("cycle")},
        unique=(Unique(("cycle_id",)),),
        encrypted=frozenset({"tool_call", "thoughts", "reasoning", "plan", "approval"}),
    )

    cycle_id: Id
    tool_call: Json | None = None
    thoughts: Json = Field(default_factory=dict)
    reasoning: Text = ""
    plan: JsonList = Field(default_factory=list)
    idempotency_key: Id | None = None
    is_repeatable: bool = False
    approval: Json | None = None
    """What was decided about it, by whom, when and why: see services/runs/approval.py."""


class Result(Record):
    """What came of a cycle, written before the next one begins."""

    shape: ClassVar[Shape] = Shape(
        "result",
        references={
            "organization_id": _TENANT,
            "cycle_id": Reference("cycle"),
            "agent_id": _AGENT,
            "memory_id": Reference("memory", on_delete="clear"),
        },
        unique=(Unique(("cycle_id",)),),
        indexes=(("agent_id", "id"), ("memory_id",)),
        encrypted=frozenset({"output", "error"}),
        encrypted_texts=frozenset({"summary", "artifacts", "missing_artifacts"}),
    )

    cycle_id: Id
    agent_id: Id
    outcome: Outcome
    summary: Text = ""
    output: Json | None = None
    error: Json | None = None
    artifacts: JsonList = Field(default_factory=list)
    missing_artifacts: JsonList | None = None
    """Those that named a file of a workspace which was not there, or not as described, when this was recorded."""
    seconds: float | None = Field(default=None, ge=0)
    memory_id: Id | None = None


class Lease(Record):
    """The right of one holder to work on one thing for a while. The id names the thing; `fence` only grows.

    `claim_key` is the holder's own name of the claim, by which it finds the lease again if the answer was lost.
    """

    shape: ClassVar[Shape] = Shape(
        "lease", references={"organization_id": _TENANT}, indexes=(("expires_at",), ("claim_key",))
    )

    holder: Name
    fence: int = Field(ge=1)
    expires_at: Moment
    claim_key: Id | None = None
