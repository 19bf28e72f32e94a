"""States: where an agent left off, one per agent and session, and one per agent without a session.

A state that has expired is never given back, swept or not; saving over it begins anew. Its version guards against
losing what another process saved: saving with a version is refused if the state has another one by now.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import Field

from recollect.domain.agents import Agent, AgentState
from recollect.domain.memory import canonical
from recollect.domain.record import LONGEST_SECONDS, Id, Json, JsonObject, QueryText, now
from recollect.errors import DuplicateKey, InvalidInput, NotFound, TooLarge, VersionConflict
from recollect.ports.query import AnyOf, Compare, Filter, IsNull, Order, Query, equal
from recollect.ports.steps import Delete, Insert, Step, Update
from recollect.retry import retry_unless_pinned
from recollect.services.agents.agents import at_work
from recollect.services.erasure import erase_traces, owing
from recollect.services.legal_holds import refuse_held
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.times import Through
from recollect.services.transaction import commit, load, logged, made, rewritten

LARGEST_STATE = 4_000_000  # bytes of JSON


class StateView(Reply):
    """A state as it was saved."""

    id: str
    agent: str
    session: str | None = None
    data: JsonObject
    version: int
    created_at: datetime
    saved_at: datetime
    expires_at: datetime | None = None


class StateRequest(Request):
    """Whose state, and in which session."""

    agent: Id = Field(description="The agent")
    session: Id | None = Field(None, description="The session; the agent's own state if left out")

    def key(self) -> tuple[Filter, ...]:
        return (equal("agent_id", self.agent), equal("session_id", self.session))


class SaveStateRequest(StateRequest):
    """Where an agent left off."""

    data: Json = Field(description="The state, as JSON")
    expires_at: Through | None = Field(None, description="When it expires")
    ttl_seconds: float | None = Field(None, gt=0, le=LONGEST_SECONDS, description="Expires after this many seconds")
    version: int | None = Field(None, ge=0, description="Only if it still has this version; 0: only if there is none")


def save(tenant: Tenant, request: SaveStateRequest) -> StateView:
    """Save a state in place of the one before."""
    if request.expires_at and request.ttl_seconds:
        raise InvalidInput("expires_at and ttl_seconds say the same thing", remedy="give one of them")
    size = len(canonical(request.data))
    if size > LARGEST_STATE:
        raise TooLarge(f"a state of {size} bytes", remedy=f"at most {LARGEST_STATE}; keep large things in a workspace")
    moment = now()
    expires = moment + timedelta(seconds=request.ttl_seconds) if request.ttl_seconds else request.expires_at
    return retry_unless_pinned(request.version, lambda: _saved(tenant, request, expires))


def _saved(tenant: Tenant, request: SaveStateRequest, expires: datetime | None) -> StateView:
    before = _stored(tenant, request)
    alive = before is not None and not _is_over(before)
    found = before.version if before is not None and alive else 0
    if request.version is not None and request.version != found:
        raise _conflict(request, found)
    fields = {"state_data": request.data, "expires_at": expires}
    step: Step
    if before is None:
        state: AgentState = made(AgentState, tenant, agent_id=request.agent, session_id=request.session, **fields)
        step = Insert(state)
    else:
        state = rewritten(before, tenant, **fields)
        step = Update(state)
    entry = logged(tenant, "update" if before else "create", "save state", None, id=state.id)
    try:
        commit(tenant, [*at_work(tenant, request.agent), step, entry])
    except DuplicateKey:
        raise _conflict(request, None) from None  # somebody saved the first state a moment ago
    return _view(state if before is None else state.changed(version=state.version + 1))


def _conflict(request: SaveStateRequest, found: int | None) -> VersionConflict:
    return VersionConflict(
        "that state was saved by someone else",
        remedy="load it again and repeat the change",
        expected=request.version,
        found=found,
    )


def load_state(tenant: Tenant, request: StateRequest) -> StateView:
    """The state as it was last saved; an expired one is not there."""
    load(tenant, Agent, request.agent)
    state = _stored(tenant, request)
    if state is None or _is_over(state):
        where = f" in session '{request.session[:80]}'" if request.session else ""
        raise NotFound(f"agent '{request.agent[:80]}' has no state{where}", remedy="save one first", id=request.agent)
    return _view(state)


class ListStatesRequest(Request):
    """Which states to list."""

    agent: Id | None = Field(None, description="Only of this agent")
    session: Id | None = Field(None, description="Only in this session")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class StatePage(PageReply[StateView]):
    """States that have not expired, the newest first."""

    states: list[StateView]


def list_states(tenant: Tenant, request: ListStatesRequest) -> StatePage:
    """The states that have not expired, the newest first."""
    links = (("agent_id", request.agent), ("session_id", request.session))
    where: list[Filter] = [equal(name, value) for name, value in links if value is not None]
    where.append(AnyOf((IsNull("expires_at"), Compare("expires_at", ">", now()))))
    page = tenant.find(Query(AgentState, tuple(where), (Order("id", descending=True),), request.limit, request.after))
    return StatePage(states=[_view(state) for state in page.records], next=page.next)


class DropStateReply(Reply):
    dropped: bool


def drop(tenant: Tenant, request: StateRequest) -> DropStateReply:
    """Delete a state for good, traces included; says whether there was one."""
    load(tenant, Agent, request.agent)
    state = _stored(tenant, request)
    if state is None:
        return DropStateReply(dropped=False)
    refuse_held(tenant, {"agent_state": [state.id]})
    entry = logged(tenant, "delete", "drop state", None, id=state.id)
    commit(tenant, [Delete(AgentState, state.id), owing(tenant, state.id), entry])
    erase_traces(tenant)
    return DropStateReply(dropped=not _is_over(state))


def _stored(tenant: Tenant, request: StateRequest) -> AgentState | None:
    return next(iter(tenant.find(Query(AgentState, request.key(), limit=1)).records), None)


def _is_over(state: AgentState) -> bool:
    return state.expires_at is not None and state.expires_at <= now()


def _view(state: AgentState) -> StateView:
    return StateView(
        id=state.id,
        created_at=state.created_at,
        agent=state.agent_id,
        session=state.session_id,
        data=state.state_data,
        version=state.version,
        saved_at=state.updated_at,
        expires_at=state.expires_at,
    )
