"""Removing a user, agent, session or project, restoring it, and erasing it.

What is removed is hidden with what belongs to it, and can be restored for `restore_days`; what is erased is deleted at
once and for good. Messages, blocks, tools, runs and workspaces are removed the same way: record_removal.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from pydantic import Field

from recollect.domain.agents import Agent
from recollect.domain.conversations import Session
from recollect.domain.record import Id, Record, now
from recollect.domain.tenancy import Project, User
from recollect.errors import InvalidInput, VersionConflict
from recollect.ports.steps import Step
from recollect.retry import retry
from recollect.services.access.authorize import refuse_higher
from recollect.services.access.projects import ProjectView, project_view
from recollect.services.access.users import UserView, user_view
from recollect.services.admin.removal_plan import (
    RecordCount,
    RemovalPlan,
    counted,
    planned,
    removing_steps,
    returning_steps,
)
from recollect.services.agents.agents import AgentView, agent_view
from recollect.services.conversations.sessions import SessionView, session_view
from recollect.services.erasure import erase_traces, owing
from recollect.services.legal_holds import refuse_held
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, spoken
from recollect.services.workspaces.blobs import collect

R = TypeVar("R", bound=Record)
Check = Callable[[R], Sequence[Step]]
NAMES = ("name", "title", "label", "goal")
"""The fields that say what a record is called."""


class ErasureRequest(Request):
    """Which user, agent, session or project to delete for good."""

    id: Id = Field(description="Its id")
    dry_run: bool = Field(False, description="Only report what would be removed, and whose it is")
    hand_over_to: Id | None = Field(
        None, description="Another of the same type that receives what others use; the rest is removed"
    )
    with_others: bool = Field(False, description="Also remove what belongs to other users")

    def removal(self) -> RemovalRequest:
        return RemovalRequest(**{**self.__dict__, "for_good": True})


class RemovalRequest(ErasureRequest):
    """Which user, agent, session or project to remove, and how."""

    for_good: bool = Field(False, description="Delete immediately and for good: nothing can be restored")


class Removal(Reply):
    """What was or would be removed: how many records of which type, and whose."""

    type: str
    id: str
    name: str = ""
    dry_run: bool = False
    takes: list[RecordCount] = Field(default_factory=list)
    hands_over: list[RecordCount] = Field(default_factory=list, description="What `hand_over_to` receives instead")
    others: int = Field(0, description="How many of the records linked to it belong to other users")
    refused: str = Field("", description="With dry_run: the reason why it would be refused")
    restorable_until: datetime | None = Field(None, description="Until when it can be restored")
    deleted: int = Field(0, description="How many records were deleted for good")
    notes: list[str] = Field(default_factory=list)


def remove_user(tenant: Tenant, request: RemovalRequest) -> Removal:
    """Remove a user with their memories: hidden and restorable, or deleted for good.

    The reply says what is removed, and whose it is. What belongs to other users stays unless `with_others` is set.
    """
    return remove_record(tenant, User, request)


def remove_agent(tenant: Tenant, request: RemovalRequest) -> Removal:
    """Remove an agent with its memories: hidden and restorable, or deleted for good.

    The reply says what is removed, and whose it is. What belongs to users stays unless `with_others` is set.
    """
    return remove_record(tenant, Agent, request)


def remove_session(tenant: Tenant, request: RemovalRequest) -> Removal:
    """Remove a session with its messages: hidden and restorable, or deleted for good. Its memories stay."""
    return remove_record(tenant, Session, request)


def remove_project(tenant: Tenant, request: RemovalRequest) -> Removal:
    """Remove a project: hidden and restorable, or deleted for good. Its memories stay."""
    return remove_record(tenant, Project, request)


def erase_user(tenant: Tenant, request: ErasureRequest) -> Removal:
    """Delete a user with their memories for good, removed before or not.

    `privacy.erase` also finds what others wrote about them, and certifies the erasure.
    """
    return remove_record(tenant, User, request.removal())


def erase_agent(tenant: Tenant, request: ErasureRequest) -> Removal:
    """Delete an agent with its memories for good, removed before or not."""
    return remove_record(tenant, Agent, request.removal())


def erase_session(tenant: Tenant, request: ErasureRequest) -> Removal:
    """Delete a session with its messages for good, removed before or not. Its memories stay."""
    return remove_record(tenant, Session, request.removal())


def erase_project(tenant: Tenant, request: ErasureRequest) -> Removal:
    """Delete a project for good, removed before or not. Its memories stay."""
    return remove_record(tenant, Project, request.removal())


def remove_record(
    tenant: Tenant, record: type[R], request: RemovalRequest, check: Check[R] = lambda root: ()
) -> Removal:
    """Hide a record with what belongs to it, or delete it for good. `check` may refuse, and names what must hold."""
    return retry(lambda: _remove(tenant, record, request, check), VersionConflict)


def _remove(tenant: Tenant, record: type[R], request: RemovalRequest, check: Check[R]) -> Removal:
    root = load(tenant, record, request.id, deleted=request.for_good)
    if isinstance(root, User):
        refuse_higher(tenant.scope, root)
    plan = planned(tenant, root, request.hand_over_to, request.with_others)
    removal = _described(tenant, plan, request)
    if request.dry_run:
        return removal
    guards = check(root)
    if plan.refusal is not None:
        raise plan.refusal
    refuse_held(tenant, plan.going)
    moment = now()
    steps = removing_steps(tenant, plan, for_good=request.for_good, moment=moment)
    verb = "erase" if request.for_good else "remove"
    entry = logged(
        tenant, "delete", f"{spoken(record)}.{verb}", None, id=root.id, for_good=request.for_good,
        hand_over_to=request.hand_over_to, with_others=request.with_others,
    )  # fmt: skip
    if not request.for_good:
        commit(tenant, [*guards, *steps, entry])
        return removal.model_copy(update={"restorable_until": moment + timedelta(days=tenant.restore_days)})
    done = tenant.transact([*guards, *steps, owing(tenant, root.id), entry])
    tenant.vectors.hint(done.seq)
    collect(tenant)  # the content of workspaces that were removed, too
    return removal.model_copy(update={"deleted": done.deleted, "notes": erase_traces(tenant)})


def _described(tenant: Tenant, plan: RemovalPlan, request: RemovalRequest) -> Removal:
    kept: dict[str, list[str]] = {}
    for table, id in sorted(plan.kept):
        kept.setdefault(table, []).append(id)
    root = plan.dependents.root
    return Removal(
        type=root.shape.table,
        id=root.id,
        name=next((name for field in NAMES if (name := getattr(root, field, None))), ""),
        dry_run=request.dry_run,
        takes=counted(tenant, plan, plan.going),
        hands_over=counted(tenant, plan, kept),
        others=len(plan.others),
        refused=str(plan.refusal) if request.dry_run and plan.refusal is not None else "",
    )


class RestorationRequest(Request):
    """What to restore."""

    id: Id = Field(description="Its id")


def restore_user(tenant: Tenant, request: RestorationRequest) -> UserView:
    """Restore a removed user with everything hidden with them; what was handed over stays where it is."""
    return user_view(tenant, restore_record(tenant, User, request.id))


def restore_agent(tenant: Tenant, request: RestorationRequest) -> AgentView:
    """Restore a removed agent with everything hidden with it; what was handed over stays where it is."""
    return agent_view(tenant, restore_record(tenant, Agent, request.id))


def restore_session(tenant: Tenant, request: RestorationRequest) -> SessionView:
    """Restore a removed session with its messages."""
    return session_view(tenant, restore_record(tenant, Session, request.id))


def restore_project(tenant: Tenant, request: RestorationRequest) -> ProjectView:
    """Restore a removed project."""
    return project_view(tenant, restore_record(tenant, Project, request.id))


def restore_record(tenant: Tenant, record: type[R], id: str, check: Check[R] = lambda root: ()) -> R:
    """A removed record again, with exactly what was hidden with it."""

    def attempt() -> R:
        root = load(tenant, record, id, deleted=True)
        if not root.is_deleted:
            raise InvalidInput(f"that {spoken(record)} is not removed", remedy="nothing needs to be done")
        if isinstance(root, User):
            refuse_higher(tenant.scope, root)
        commit(tenant, [*check(root), *returning_steps(tenant, root)])
        return load(tenant, record, id)

    return retry(attempt, VersionConflict)
