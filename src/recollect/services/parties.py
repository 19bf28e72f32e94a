"""What users, agents, sessions and projects have in common: how they are added, listed and found after a removal.

Each has its own operations where it lives: access/users.py, agents/agents.py, conversations/sessions.py and
access/projects.py; removing and restoring are in admin/removal.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, TypeVar
from warnings import warn

from pydantic import Field

from recollect.domain.agents import Agent
from recollect.domain.conversations import Session
from recollect.domain.record import Id, Json, QueryText, Record
from recollect.domain.tenancy import Project, User
from recollect.errors import DuplicateKey
from recollect.ports.query import AnyOf, Filter, OneOf, Order, Page, Query, equal
from recollect.ports.steps import Insert, Step
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, logged, made

R = TypeVar("R", bound=Record)
PARTIES: dict[str, type[Record]] = {"user": User, "agent": Agent, "session": Session, "project": Project}
REFERENCES = frozenset({"user", "agent", "project", "owner"})
"""Fields that requests name as the noun and records as `…_id`."""


class PartyView(Reply):
    """What a user, agent, session or project is shown as."""

    @property
    def fields(self) -> Json:
        """What was in one dictionary one version ago; each is an attribute now."""
        warn(f"fields is going away: use the attributes of {type(self).__name__}", DeprecationWarning, stacklevel=2)
        shown = self.model_dump(mode="json", exclude={"id", "created_at"})
        named = {f"{name}_id" if name in REFERENCES else name: value for name, value in shown.items()}
        return {name: value for name, value in named.items() if value not in (None, "", [], {})}


class AddRequest(Request):
    """What is added under an id."""

    id: Id | None = Field(None, description="An id of your own; made for you if left out")
    on_existing: Literal["fail", "return"] = Field("fail", description="What to do when that id is there already")


class ListRequest(Request):
    """A page of a list, the newest first."""

    ids: list[Id] = Field(default_factory=list, max_length=1000, description="Only those with one of these ids")
    removed: bool = Field(False, description="List what was removed and can be restored instead")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


def add(tenant: Tenant, record: type[R], request: AddRequest, guards: Sequence[Step] = ()) -> R:
    """Store a new one, or give the one that has the id already if that was asked for."""
    existing = tenant.get(record, request.id) if request.id else None
    if existing is not None and request.on_existing == "return":
        return existing
    given = request.model_dump(exclude={"on_existing"}, exclude_none=True)
    new = made(record, tenant, **{f"{name}_id" if name in REFERENCES else name: value for name, value in given.items()})
    entry = logged(tenant, "create", f"{record.shape.table}.add", None, id=new.id)
    try:
        commit(tenant, [*guards, Insert(new), entry])
    except DuplicateKey as error:
        raced = tenant.get(record, new.id) if request.on_existing == "return" else None
        if raced is not None:
            return raced
        raise _duplicate(tenant, new, error) from None
    return new


def _duplicate(tenant: Tenant, new: Record, error: DuplicateKey) -> DuplicateKey:
    """Ids and emails of what was removed stay taken for as long as it can be restored."""
    table, remedy = new.shape.table, "choose another id or email, or say on_existing='return'"
    email = getattr(new, "email", None)
    same = AnyOf((equal("id", new.id), *([equal("email", email)] if email else [])))
    removed = tenant.find(Query(type(new), (same,), limit=1, deleted="only")).records
    if removed:
        remedy = f"it was removed: bring it back with {table}.restore, or remove it for_good ({removed[0].id[:80]})"
    return DuplicateKey(f"there is such a {table} already", remedy=remedy, **error.details)


def find_page(tenant: Tenant, record: type[R], request: ListRequest, where: Sequence[Filter] = ()) -> Page[R]:
    """The newest first."""
    chosen = (OneOf("id", tuple(dict.fromkeys(request.ids))),) if request.ids else ()
    newest = (Order("id", descending=True),)
    deleted: Literal["no", "only"] = "only" if request.removed else "no"
    return tenant.find(Query(record, (*where, *chosen), newest, request.limit, request.after, deleted))


def restorable_until(tenant: Tenant, record: Record) -> datetime | None:
    """Until when a removed record can be brought back; None for one that was not removed."""
    return record.updated_at + timedelta(days=tenant.restore_days) if record.is_deleted else None
