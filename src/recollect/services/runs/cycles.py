"""The cycles of agents: every step they took, in whichever run, counted from 0 for each agent."""

from __future__ import annotations

from pydantic import Field

from recollect.domain.agents import Agent, Cycle, CycleStatus
from recollect.domain.record import Id, QueryText
from recollect.errors import NotFound
from recollect.ports.query import Compare, Order, Query, equal
from recollect.services.requests import PageReply, Request
from recollect.services.runs.history import StepView, step_views
from recollect.services.tenant import Tenant
from recollect.services.transaction import counted_page, load


class ListCyclesRequest(Request):
    """Which cycles to list."""

    agent: Id | None = Field(None, description="Only this agent's")
    run: Id | None = Field(None, description="Only those of this run itself, abandoned ones too")
    state: CycleStatus | None = Field(None, description="Only in this state, such as done or waiting")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class CyclePage(PageReply[StepView]):
    """Cycles, the latest first."""

    cycles: list[StepView]
    total: int


def list_cycles(tenant: Tenant, request: ListCyclesRequest) -> CyclePage:
    """List the cycles of an agent or a run, the latest first, each with its proposal and result."""
    given = {"agent_id": request.agent, "execution_id": request.run, "status": request.state}
    where = tuple(equal(field, value) for field, value in given.items() if value is not None)
    latest = Order("index" if request.agent or request.run else "id", descending=True)
    page, total = counted_page(tenant, Query(Cycle, where, (latest,), request.limit, request.after))
    return CyclePage(cycles=step_views(tenant, page.records), next=page.next, total=total)


class ShowCycleRequest(Request):
    """One cycle of an agent."""

    agent: Id = Field(description="The agent")
    index: int = Field(ge=0, description="Its number among all cycles of the agent; the first is 0")


def show_cycle(tenant: Tenant, request: ShowCycleRequest) -> StepView:
    """One cycle of an agent by its number, with its proposal and result."""
    load(tenant, Agent, request.agent)
    where = (equal("agent_id", request.agent), Compare("index", "=", request.index))
    found = tenant.find(Query(Cycle, where, limit=1)).records
    if not found:
        raise NotFound(f"agent '{request.agent}' has no cycle {request.index}", remedy="see cycle.list")
    return step_views(tenant, found)[0]
