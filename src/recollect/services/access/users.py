"""Users of an organization: shown, listed, changed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field, ValidationError

from recollect.domain.access import ROLES, Role
from recollect.domain.kinds import describe
from recollect.domain.record import Id, Json, Name, QueryText, Text
from recollect.domain.tenancy import User, UserStatus
from recollect.errors import InvalidInput
from recollect.ports.query import IsNull, Order, Query
from recollect.ports.records import revised
from recollect.ports.steps import Update
from recollect.services.access.authorize import refuse_beyond_own, refuse_higher
from recollect.services.access.keys import revoking_steps
from recollect.services.access.passwords import LONGEST_PASSWORD, hashed_password
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged


class UserView(Reply):
    id: str
    name: str
    email: str | None = None
    role: Role | None = None
    status: str
    timezone: str
    is_active: bool
    has_password: bool
    created_at: datetime
    profile_data: dict[str, Any] = Field(default_factory=dict)
    preferences: dict[str, Any] = Field(default_factory=dict)


class ShowUserRequest(Request):
    """One user."""

    id: Id = Field(description="The user")


def show_user(tenant: Tenant, request: ShowUserRequest) -> UserView:
    """A user with profile, preferences and role."""
    return user_view(load(tenant, User, request.id))


def user_view(user: User) -> UserView:
    fields = {name: getattr(user, name) for name in UserView.model_fields if name != "has_password"}
    return UserView(has_password=user.password_hash is not None, **fields)


class ListUsersRequest(Request):
    """The users of the organization."""

    with_role: bool = Field(False, description="Only those who have a role, and so may come in")
    limit: int = Field(100, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class Users(Reply):
    users: list[UserView]
    next: str | None = None


def list_users(tenant: Tenant, request: ListUsersRequest) -> Users:
    """The users with their roles."""
    where = (IsNull("role", wanted=False),) if request.with_role else ()
    page = tenant.find(Query(User, where, (Order("id"),), request.limit, request.after))
    return Users(users=[user_view(user) for user in page.records], next=page.next)


class ReviseUserRequest(Request):
    """Change a user; what is left out stays."""

    id: Id = Field(description="The user")
    name: Name | None = Field(None, description="What to call them")
    email: Text | None = Field(None, description="Unique within the organization")
    timezone: Text | None = Field(None, description="An IANA zone such as Asia/Bangkok")
    profile_data: Json | None = Field(None, description="What is known about them")
    preferences: Json | None = Field(None, description="What they like")
    role: Role | None = Field(None, description="reader, writer, curator, admin or owner; lets them sign in")
    status: UserStatus | None = Field(None, description="active, invited or suspended; only active users come in")
    password: Text | None = Field(
        None, max_length=LONGEST_PASSWORD, description="A new password; ends where they are signed in"
    )


def revise_user(tenant: Tenant, request: ReviseUserRequest) -> UserView:
    """Change a user's profile, role, status or password."""
    user = load(tenant, User, request.id)
    fields = request.model_dump(exclude={"id", "password"}, exclude_none=True)
    if request.role is not None:
        refuse_beyond_own(tenant.scope, ROLES[request.role])
    refuse_higher(tenant.scope, user)
    if request.password is not None:
        fields["password_hash"] = hashed_password(request.password)
    try:
        changed = revised(user, tenant.scope, **fields)
    except ValidationError as error:
        raise InvalidInput(f"that user is not valid: {describe(error)}") from None
    ending = revoking_steps(tenant, user.id) if request.password is not None else []
    named = sorted(name.removesuffix("_hash") for name in fields)
    entry = logged(tenant, "update", "user.revise", None, user=user.id, changed=named)
    commit(tenant, [Update(changed), *ending, entry])
    tenant.zones.clear()
    return user_view(load(tenant, User, user.id))
