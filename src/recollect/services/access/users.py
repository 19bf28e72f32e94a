"""Users of an organization: added, shown, listed, changed."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from recollect.domain.access import ROLES, Role
from recollect.domain.record import Id, Json, JsonObject, Name, Text
from recollect.domain.tenancy import User, UserStatus
from recollect.ports.query import IsNull
from recollect.ports.steps import Update
from recollect.services.access.authorize import refuse_beyond_own, refuse_higher
from recollect.services.access.keys import revoking_steps
from recollect.services.access.passwords import LONGEST_PASSWORD, hashed_password
from recollect.services.parties import AddRequest, ListRequest, PartyView, add, find_page, restorable_until
from recollect.services.requests import PageReply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, rewritten


class UserView(PartyView):
    """A user."""

    id: str
    name: str
    email: str | None = None
    role: Role | None = None
    status: str
    timezone: str
    is_active: bool
    has_password: bool | None = Field(None, description="Shown to admins only")
    created_at: datetime
    profile_data: JsonObject = Field(default_factory=dict)
    preferences: JsonObject = Field(default_factory=dict)
    version: int
    restorable_until: datetime | None = Field(None, description="Set for a removed one: `user.restore` until then")


class UserPage(PageReply[UserView]):
    """Users, the newest first."""

    users: list[UserView]


class AddUserRequest(AddRequest):
    """Somebody memories can belong to."""

    name: Name = Field(description="What to call them")
    email: Text | None = Field(None, description="Unique within the organization")
    timezone: Text = Field("UTC", description="An IANA zone such as Asia/Bangkok")
    profile_data: Json = Field(default_factory=dict, description="What is known about them")
    preferences: Json = Field(default_factory=dict, description="What they like")


def add_user(tenant: Tenant, request: AddUserRequest) -> UserView:
    """Add a user."""
    user = add(tenant, User, request)
    tenant.zones.clear()
    return user_view(tenant, user)


class ShowUserRequest(Request):
    """One user."""

    id: Id = Field(description="The user")


def show_user(tenant: Tenant, request: ShowUserRequest) -> UserView:
    """A user with profile, preferences and role."""
    return user_view(tenant, load(tenant, User, request.id))


def user_view(tenant: Tenant, user: User) -> UserView:
    shown = user.model_dump(include=set(UserView.model_fields))
    if tenant.scope.granted is None or "admin" in tenant.scope.granted:
        shown["has_password"] = user.password_hash is not None
    return UserView(**shown, restorable_until=restorable_until(tenant, user))


class ListUsersRequest(ListRequest):
    """Which users to list."""

    with_role: bool = Field(False, description="Only those who have a role, and so may sign in")
    limit: int = Field(100, ge=1, le=1000, description="How many at most")


def list_users(tenant: Tenant, request: ListUsersRequest) -> UserPage:
    """Users, the newest first."""
    where = (IsNull("role", wanted=False),) if request.with_role else ()
    page = find_page(tenant, User, request, where)
    return UserPage(users=[user_view(tenant, user) for user in page.records], next=page.next)


class ReviseUserRequest(Request):
    """Change a user; what is left out stays."""

    id: Id = Field(description="The user")
    name: Name | None = Field(None, description="What to call them")
    email: Text | None = Field(None, description="Unique within the organization")
    timezone: Text | None = Field(None, description="An IANA zone such as Asia/Bangkok")
    profile_data: Json | None = Field(None, description="What is known about them")
    preferences: Json | None = Field(None, description="What they like")
    role: Role | None = Field(None, description="reader, writer, curator, admin or owner; lets them sign in")
    status: UserStatus | None = Field(None, description="active, invited or suspended; only active users can sign in")
    password: Text | None = Field(
        None, max_length=LONGEST_PASSWORD, description="A new password; signs them out everywhere"
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
    changed = rewritten(user, tenant, **fields)
    ending = revoking_steps(tenant, user.id) if request.password is not None else []
    named = sorted(name.removesuffix("_hash") for name in fields)
    entry = logged(tenant, "update", "user.revise", None, user=user.id, changed=named)
    commit(tenant, [Update(changed), *ending, entry])
    tenant.zones.clear()
    return user_view(tenant, load(tenant, User, user.id))
