"""Users of an organization: added, shown, listed, changed. Those with a role can sign in; the others own memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from pydantic import Field

from recollect.domain.access import ROLES, Role
from recollect.domain.record import Id, Json, JsonObject, Name, Text
from recollect.domain.tenancy import User, UserStatus
from recollect.errors import InvalidInput
from recollect.ports.query import Filter, IsNull, Page, Query, encode_cursor, passes
from recollect.ports.steps import Update
from recollect.services.access.authorize import refuse_beyond_own, refuse_higher, require
from recollect.services.access.keys import revoking_steps
from recollect.services.access.passwords import LONGEST_PASSWORD, hashed_password, password_fits
from recollect.services.json_filters import member_conditions
from recollect.services.parties import AddRequest, ListRequest, PartyView, add, page_query, restorable_until
from recollect.services.request_limits import MOST_CONDITIONS
from recollect.services.requests import AS_GIVEN, PageReply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, rewritten

LOOKED_THROUGH = 2000
"""How many users one call reads to find those with some preferences."""


class UserView(PartyView):
    """A user."""

    id: str
    name: str
    email: str | None = None
    role: Role | None = None
    status: str
    timezone: str
    is_active: bool
    own_only: bool = Field(False, description="Whether they reach only what is theirs and shared with their projects")
    has_password: bool | None = Field(None, description="Shown to admins only")
    created_at: datetime
    updated_at: datetime
    created_by: str | None = None
    updated_by: str | None = None
    profile_data: JsonObject = Field(default_factory=dict)
    preferences: JsonObject = Field(default_factory=dict)
    version: int
    restorable_until: datetime | None = Field(None, description="Set for a removed one: `user.restore` until then")


class UserPage(PageReply[UserView]):
    """Users, the newest first."""

    users: list[UserView]


class AddUserRequest(AddRequest):
    """Somebody memories can belong to."""

    name: Name | None = Field(None, description="What to call them; their id or email by default")
    email: Text | None = Field(None, description="Unique within the organization")
    timezone: Text = Field("UTC", description="An IANA zone such as Asia/Bangkok")
    profile_data: Json = Field(default_factory=dict, description="What is known about them")
    preferences: Json = Field(default_factory=dict, description="What they like")
    role: Role | None = Field(None, description="reader, writer, curator, admin or owner; only admins give roles")
    password: Annotated[Text | None, AS_GIVEN] = Field(
        None, max_length=LONGEST_PASSWORD, description="Ten characters or more, to sign in with their email. For admins"
    )


def add_user(tenant: Tenant, request: AddUserRequest) -> UserView:
    """Add a user; with an email, a password and a role they can sign in at once."""
    more: dict[str, object] = {}
    if request.role is not None or request.password is not None:
        require(tenant.scope, "user.add", "admin")
        refuse_beyond_own(tenant.scope, ROLES[request.role] if request.role is not None else ())
    if request.password is not None:
        if request.email is None:
            raise InvalidInput("a password without an email lets nobody sign in", remedy="give an email, too")
        known = tenant.get(User, request.id) if request.id is not None else None
        is_same = known is not None and password_fits(request.password, known.password_hash)
        more["password_hash"] = known.password_hash if known and is_same else hashed_password(request.password)
    user = add(tenant, User, request, more=more)
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
    shown["is_active"] = user.is_active and user.status == "active"
    if tenant.scope.granted is None or "admin" in tenant.scope.granted:
        shown["has_password"] = user.password_hash is not None
    return UserView(**shown, restorable_until=restorable_until(tenant, user))


class ListUsersRequest(ListRequest):
    """Which users to list."""

    with_role: bool = Field(False, description="Only those who have a role, and so may sign in")
    preferences: Json = Field(
        default_factory=dict,
        max_length=MOST_CONDITIONS,
        description='Only those who prefer this, such as {"theme": "dark"}: a value, several, or operators',
    )
    profile_data: Json = Field(
        default_factory=dict, max_length=MOST_CONDITIONS, description="Only those whose profile has these members"
    )
    limit: int = Field(100, ge=1, le=1000, description="How many at most")


def list_users(tenant: Tenant, request: ListUsersRequest) -> UserPage:
    """Users, the newest first unless another order is asked for."""
    where = (IsNull("role", wanted=False),) if request.with_role else ()
    query = page_query(User, request, where)
    wanted = [
        condition.filter
        for field in ("preferences", "profile_data")
        for condition in member_conditions(field, getattr(request, field))
    ]
    page = _passing_page(tenant, query, wanted) if wanted else tenant.find(query)
    return UserPage(users=[user_view(tenant, user) for user in page.records], next=page.next)


def _passing_page(tenant: Tenant, query: Query[User], wanted: Sequence[Filter]) -> Page[User]:
    """Those who pass filters that no store can apply, since it encrypts these fields. A page ends where it is full, or
    where enough users were looked through: then it may be short, and `next` leads on.
    """
    users: list[User] = []
    page = tenant.find(replace(query, limit=LOOKED_THROUGH))
    for seen, user in enumerate(page.records, 1):
        if all(passes(user, one) for one in wanted):
            users.append(user)
        if len(users) == query.limit and seen < len(page.records):
            return Page(users, encode_cursor([getattr(user, order.field) for order in query.ordering()]))
    return Page(users, page.next)


class ReviseUserRequest(Request):
    """Change a user; what is left out stays."""

    id: Id = Field(description="The user")
    name: Name | None = Field(None, description="What to call them")
    email: Text | None = Field(None, description="Unique within the organization")
    timezone: Text | None = Field(None, description="An IANA zone such as Asia/Bangkok")
    profile_data: Json | None = Field(None, description="What is known about them")
    preferences: Json | None = Field(None, description="What they like")
    role: Role | None = Field(None, description="reader, writer, curator, admin or owner; lets them sign in")
    own_only: bool | None = Field(
        None, description="Whether they and their keys reach only what is theirs and shared with their projects"
    )
    status: UserStatus | None = Field(None, description="active, invited or suspended; only active users can sign in")
    password: Annotated[Text | None, AS_GIVEN] = Field(
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
    if request.status is not None:
        fields["is_active"] = request.status == "active"
    changed = rewritten(user, tenant, **fields)
    ending = revoking_steps(tenant, user.id) if request.password is not None else []
    named = sorted(name.removesuffix("_hash") for name in fields if name != "is_active")
    entry = logged(tenant, "update", "user.revise", None, user=user.id, changed=named)
    commit(tenant, [Update(changed), *ending, entry])
    tenant.zones.clear()
    return user_view(tenant, load(tenant, User, user.id))
