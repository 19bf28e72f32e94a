"""Removing a user, agent, session or project, and bringing it back."""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import Field

from recollect.domain.record import Id, now
from recollect.domain.tenancy import User
from recollect.errors import InvalidInput, VersionConflict
from recollect.retry import retry
from recollect.services.access.authorize import refuse_higher
from recollect.services.admin.removal_plan import Plan, Taken, counted, planned, removing_steps, returning_steps
from recollect.services.agents.parties import PARTIES, Party, PartyView, view
from recollect.services.erasure import erase_traces, owing
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged
from recollect.services.workspaces.blobs import collect


class RemovePartyRequest(Request):
    """Remove a user, agent, session or project: softly, or for good."""

    type: Party = Field(description="user, agent, session or project")
    id: Id = Field(description="Which one")
    dry_run: bool = Field(False, description="Only say what it would take, and whose that is")
    hand_over_to: Id | None = Field(
        None, description="Another of the same type that gets what others use; the rest goes"
    )
    with_others: bool = Field(False, description="Take also what belongs to other users")
    for_good: bool = Field(False, description="Delete at once and for good: nothing can be restored")


class Removed(Reply):
    """What was removed, or would be: how much of what, and whose."""

    type: str
    id: str
    name: str = ""
    dry_run: bool = False
    takes: list[Taken] = Field(default_factory=list)
    hands_over: list[Taken] = Field(default_factory=list, description="What passes on to `hand_over_to`")
    others: int = Field(0, description="How many of the records it hangs together with belong to other users")
    refused: str = Field("", description="Why it would be refused like this, when only asked")
    restorable_until: datetime | None = Field(None, description="Until when `unremove` brings it back")
    deleted: int = Field(0, description="How many records were deleted for good")
    notes: list[str] = Field(default_factory=list)


def remove_party(tenant: Tenant, request: RemovePartyRequest) -> Removed:
    """Hide a party with all that is its own, restorably; or delete it for good. Says what that takes, and whose it is.

    Users and agents take their memories along; sessions and projects leave them behind. What belongs to other users is
    never taken unless that was said.
    """
    return retry(lambda: _remove(tenant, request), VersionConflict)


def _remove(tenant: Tenant, request: RemovePartyRequest) -> Removed:
    root = load(tenant, PARTIES[request.type], request.id, deleted=request.for_good)
    if isinstance(root, User):
        refuse_higher(tenant.scope, root)
    plan = planned(tenant, root, request.hand_over_to, request.with_others)
    told = _told(tenant, plan, request)
    if request.dry_run:
        return told
    if plan.refusal is not None:
        raise plan.refusal
    moment = now()
    steps = removing_steps(tenant, plan, for_good=request.for_good, moment=moment)
    entry = logged(
        tenant, "delete", "remove", None, id=root.id, type=request.type, for_good=request.for_good,
        hand_over_to=request.hand_over_to, with_others=request.with_others,
    )  # fmt: skip
    if not request.for_good:
        commit(tenant, [*steps, entry])
        return told.model_copy(update={"restorable_until": moment + timedelta(days=tenant.restore_days)})
    done = tenant.transact([*steps, owing(tenant, root.id), entry])
    tenant.vectors.hint(done.seq)
    collect(tenant)  # the content of workspaces that went along
    return told.model_copy(update={"deleted": done.deleted, "notes": erase_traces(tenant)})


def _told(tenant: Tenant, plan: Plan, request: RemovePartyRequest) -> Removed:
    kept: dict[str, list[str]] = {}
    for table, id in sorted(plan.kept):
        kept.setdefault(table, []).append(id)
    return Removed(
        type=request.type,
        id=plan.reach.root.id,
        name=view(plan.reach.root).name,
        dry_run=request.dry_run,
        takes=counted(tenant, plan, plan.going),
        hands_over=counted(tenant, plan, kept),
        others=len(plan.others),
        refused=str(plan.refusal) if request.dry_run and plan.refusal is not None else "",
    )


class UnremovePartyRequest(Request):
    """Bring back what was removed."""

    type: Party = Field(description="user, agent, session or project")
    id: Id = Field(description="Which one")


def unremove_party(tenant: Tenant, request: UnremovePartyRequest) -> PartyView:
    """Bring a removed party back with all that was hidden with it; what was handed over stays where it is."""
    return retry(lambda: _unremove(tenant, request), VersionConflict)


def _unremove(tenant: Tenant, request: UnremovePartyRequest) -> PartyView:
    root = load(tenant, PARTIES[request.type], request.id, deleted=True)
    if not root.is_deleted:
        raise InvalidInput(f"that {request.type} is not removed", remedy="nothing needs to be done")
    if isinstance(root, User):
        refuse_higher(tenant.scope, root)
    commit(tenant, returning_steps(tenant, root))
    return view(load(tenant, PARTIES[request.type], request.id))
