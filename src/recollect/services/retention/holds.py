"""Placing and releasing legal holds. What they stop is in services/legal_holds.py; released ones stay on record."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from recollect.domain.record import Id, QueryText, Text, now
from recollect.domain.retention import LegalHold
from recollect.errors import InvalidInput
from recollect.ports.query import Filter, IsNull, Order, Query, equal
from recollect.ports.steps import Insert, Update
from recollect.services.parties import PARTIES
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, made, rewritten


class HoldSubject(Request):
    """Whom or what a hold is on."""

    user: Id | None = Field(None, description="A user")
    agent: Id | None = Field(None, description="An agent")
    session: Id | None = Field(None, description="A session")
    project: Id | None = Field(None, description="A project")

    def subjects(self) -> list[tuple[str, str]]:
        return [(type, id) for type in PARTIES if (id := getattr(self, type)) is not None]


class PlaceHoldRequest(HoldSubject):
    """Whom or what to place on hold, and why."""

    reason: Text = Field(min_length=1, max_length=2000, description="Why, such as the number of the case")


class HoldView(Reply):
    """A legal hold: nothing of its subject can be deleted until it is released."""

    id: str
    type: str
    subject: str
    reason: str
    placed_at: datetime
    placed_by: str | None = None
    released_at: datetime | None = None
    released_by: str | None = None
    release_reason: str = ""


def place(tenant: Tenant, request: PlaceHoldRequest) -> HoldView:
    """Place a user, agent, session or project on legal hold.

    From then on nothing of it is forgotten, erased, removed, expired or moved, by anybody, until the hold is released.
    """
    subjects = request.subjects()
    if len(subjects) != 1:
        raise InvalidInput("a hold is on one subject", remedy="give exactly one of user, agent, session and project")
    ((type, id),) = subjects
    load(tenant, PARTIES[type], id, deleted=True)
    hold = made(LegalHold, tenant, subject_type=type, subject_id=id, reason=request.reason)
    entry = logged(tenant, "create", "hold.place", None, id=hold.id, type=type, subject=id)
    commit(tenant, [Insert(hold), entry])
    return _view(hold)


class ListHoldsRequest(HoldSubject):
    """Which holds to list."""

    released: Literal["no", "yes", "only"] = Field("no", description="Whether to list those that were released")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class HoldPage(PageReply[HoldView]):
    """Legal holds, the newest first."""

    holds: list[HoldView]


def list_holds(tenant: Tenant, request: ListHoldsRequest) -> HoldPage:
    """Legal holds, the newest first."""
    where: list[Filter] = [IsNull("released_at", wanted=request.released == "no")] if request.released != "yes" else []
    for type, id in request.subjects():
        where += [equal("subject_type", type), equal("subject_id", id)]
    page = tenant.find(Query(LegalHold, tuple(where), (Order("id", descending=True),), request.limit, request.after))
    return HoldPage(holds=[_view(one) for one in page.records], next=page.next)


class ReleaseHoldRequest(Request):
    """Which hold to release, and why."""

    id: Id = Field(description="The hold")
    reason: Text = Field("", max_length=2000, description="Why")


def release(tenant: Tenant, request: ReleaseHoldRequest) -> HoldView:
    """Release a legal hold; other holds on the same subject stay in force."""
    hold = load(tenant, LegalHold, request.id)
    if hold.released_at is not None:
        return _view(hold)
    told = {"released_at": now(), "released_by": tenant.scope.actor, "release_reason": request.reason}
    after = rewritten(hold, tenant, **told)
    entry = logged(tenant, "update", "hold.release", None, id=hold.id, type=hold.subject_type, subject=hold.subject_id)
    commit(tenant, [Update(after), entry])
    return _view(after)


def _view(hold: LegalHold) -> HoldView:
    return HoldView(
        id=hold.id,
        type=hold.subject_type,
        subject=hold.subject_id,
        reason=hold.reason,
        placed_at=hold.created_at,
        placed_by=hold.created_by,
        released_at=hold.released_at,
        released_by=hold.released_by,
        release_reason=hold.release_reason,
    )
