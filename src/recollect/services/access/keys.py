"""API keys and sign-in: what each key grants, and who it belongs to.

A key is 256 random bits, shown once and kept as a hash. It names its organization, so that looking it up stays
inside one tenant. Passwords are kept as scrypt hashes; signing in makes a key of its own that signing out revokes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pydantic import Field

from recollect.domain.access import PERMISSIONS, RESTRICTED, ROLES, Permission, Restriction
from recollect.domain.memory import MemoryNamespace
from recollect.domain.record import Id, JsonObject, Name, new_id, now
from recollect.domain.tenancy import ApiKey, Membership, Organization, User
from recollect.errors import Denied, InvalidInput, Unauthenticated
from recollect.ports.query import AnyOf, Compare, Filter, IsNull, Order, Query, equal
from recollect.ports.records import Scope, revised
from recollect.ports.steps import Insert, Touch, Update
from recollect.services.access.authorize import Principal, refuse_beyond_own, refuse_higher
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Core, Tenant
from recollect.services.transaction import commit, load, logged, made

PREFIX = "rk"


INVALID_CREDENTIALS = Unauthenticated(
    "that key or password is not valid", remedy="ask an admin of the organization for a key"
)


def authenticate(core: Core, token: str, address: str | None = None) -> Principal:
    """The holder of a key. Unknown, expired, revoked and foreign keys all look alike."""
    key = _find(core, token)
    if key is None or key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now()):
        raise INVALID_CREDENTIALS
    refuse_suspended(core, key.organization_id)
    scope, zone, user = Scope(key.organization_id), None, None
    granted = frozenset(key.scopes)
    if key.user_id is not None:
        user = core.store.get(scope, User, key.user_id)
        if user is None or not user.is_active or user.status != "active":
            raise INVALID_CREDENTIALS
        if user.role is None and not key.own_only:
            raise INVALID_CREDENTIALS
        granted &= ROLES[user.role] if user.role is not None else RESTRICTED
        zone = user.timezone if user.timezone != "UTC" else core.timezone
    restriction = _restriction(core, key, user)
    if restriction is not None:
        granted &= RESTRICTED
    actor = key.user_id or key.id
    return Principal(Scope(key.organization_id, actor, granted, address, zone, restriction=restriction), key)


def _restriction(core: Core, key: ApiKey, user: User | None) -> Restriction | None:
    """What the key reaches of its organization; None for all of it."""
    own = key.user_id if user is not None and (key.own_only or user.own_only) else None
    if (own, key.agent_id, key.project_id, key.namespace) == (None, None, None, None):
        return None
    return reach_of(core, key.organization_id, own, key.agent_id, key.project_id, key.namespace)


def reach_of(
    core: Core,
    organization: str,
    user: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    namespace: str | None = None,
) -> Restriction:
    """The restriction to these. With a user are shared: the projects they are a member of, and the one named."""
    if user is None:
        return Restriction(user, agent, project, namespace)
    member = Query(Membership, (equal("user_id", user),))
    shared = {id for (id,) in core.store.select(Scope(organization), member, ("project_id",))}
    return Restriction(user, agent, project, namespace, frozenset({*shared, *([project] if project else [])}))


def refuse_suspended(core: Core, organization: str) -> None:
    """Raise Denied if nobody of this organization is let in now; only for those who have shown that they are of it."""
    query = Query(Organization, (equal("id", organization), IsNull("suspended_at", wanted=False)))
    if core.store.count(Scope(organization), query):
        raise Denied(
            f"organization '{organization[:80]}' is suspended",
            remedy="ask the operator of this service to resume it; nothing was deleted",
        )


def _find(core: Core, token: str) -> ApiKey | None:
    prefix, _, rest = token.partition(".")
    parts = rest.split(".")
    if prefix != PREFIX or len(parts) != 3 or len(token) > 1000:
        return None
    try:
        organization = base64.urlsafe_b64decode(parts[0] + "=" * (-len(parts[0]) % 4)).decode()
        key = core.store.get(Scope(organization), ApiKey, parts[1])
    except (ValueError, InvalidInput):  # no base64, no text, or no name an organization could have
        return None
    if key is None or not hmac.compare_digest(key.key_hash, _hashed(token)):
        return None
    return key


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def proof(token: str) -> str:
    """What a page of ours sends along to show that it is ours: only who can read the cookie's answers has it."""
    return hmac.new(token.encode(), b"console", "sha256").hexdigest()


def proves(token: str, sent: str) -> bool:
    return hmac.compare_digest(proof(token).encode(), sent.encode("utf-8", "replace"))


class SignedInUser(NamedTuple):
    """Who somebody is, for their own eyes, and the zone they are shown times in."""

    name: str
    role: str
    timezone: str
    email: str = ""
    has_password: bool = False


def introduced(core: Core, principal: Principal) -> SignedInUser:
    """The user behind a key, or the key itself. UTC is what users have who chose no zone: they get the store's."""
    id = principal.key.user_id
    user = core.store.get(Scope(principal.scope.organization_id), User, id) if id is not None else None
    if user is None:
        return SignedInUser(principal.key.name, "key", core.timezone)
    zone = user.timezone if user.timezone != "UTC" else core.timezone
    return SignedInUser(user.name, user.role or "", zone, user.email or "", user.password_hash is not None)


def count_uses(core: Core, key: ApiKey, uses: int) -> None:
    """Note that a key was used: when, and how often today. Several uses in one write."""
    today = now().date().isoformat()
    scope = Scope(key.organization_id)
    known = core.store.get(scope, ApiKey, key.id)
    if known is None:
        return
    add = {"counted": uses} if known.counted_on == today else {}
    put: JsonObject = {"last_used_at": now(), "counted_on": today} | ({} if add else {"counted": uses})
    core.store.transact(scope, [Touch(ApiKey, key.id, add, put)])


class AddKeyRequest(Request):
    """A key for a program or a person."""

    name: Name = Field(description="What it is for")
    scopes: list[Permission] = Field(
        ["read", "write"], description="What it grants: read, write, govern, delete, admin, operate"
    )
    user: Id | None = Field(
        None, description="On whose behalf; it never grants more than their role, and reaches only what is theirs"
    )
    own_only: bool | None = Field(
        None, description="Whether it reaches only what is the user's; by default yes, unless they are admin or owner"
    )
    agent: Id | None = Field(None, description="It reaches only what belongs to this agent")
    project: Id | None = Field(None, description="It reaches only what belongs to this project")
    namespace: MemoryNamespace | None = Field(None, description="It reaches only memories and items in this namespace")
    expires_days: float | None = Field(None, gt=0, le=36500, description="Expires after this many days")
    rate_per_minute: int | None = Field(None, ge=1, description="The most requests per minute")
    requests_per_day: int | None = Field(None, ge=1, description="The most requests per day")


class KeyView(Reply):
    id: str
    name: str
    scopes: list[str]
    user: str | None = None
    own_only: bool = Field(False, description="Whether it reaches only what is the user's")
    agent: str | None = Field(None, description="The agent that it is restricted to")
    project: str | None = Field(None, description="The project that it is restricted to")
    namespace: str | None = Field(None, description="The namespace that it is restricted to")
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    rate_per_minute: int | None = None
    requests_per_day: int | None = None


class NewKey(KeyView):
    """The key itself is here and nowhere else: it is not shown again."""

    key: str


def add_key(tenant: Tenant, request: AddKeyRequest) -> NewKey:
    """Make a key. It is shown this once; only its hash is kept."""
    refuse_beyond_own(tenant.scope, request.scopes)
    own_only = False
    if request.user is not None:
        user = load(tenant, User, request.user)
        refuse_higher(tenant.scope, user)
        sees_all = user.role is not None and "admin" in ROLES[user.role]
        own_only = not sees_all if request.own_only is None else request.own_only
    elif request.own_only:
        raise InvalidInput("own_only says whose: no user is given", remedy="give a user, or leave own_only out")
    reach = {"own_only": own_only, "namespace": request.namespace}
    reach |= {"agent_id": request.agent, "project_id": request.project}
    excess = sorted(set(request.scopes) - RESTRICTED)
    if excess and any((request.own_only, request.agent, request.project, request.namespace)):
        raise InvalidInput(
            f"a key that reaches only a part of the organization cannot grant '{excess[0]}'",
            remedy=f"leave {' and '.join(excess)} out of scopes, or do not restrict it",
        )
    ends = now() + timedelta(days=request.expires_days) if request.expires_days is not None else None
    limits = {"rate_per_minute": request.rate_per_minute, "requests_per_day": request.requests_per_day}
    return make_key(tenant, name=request.name, scopes=request.scopes, user=request.user, ends=ends, **limits, **reach)


def make_key(
    tenant: Tenant, *, name: str, scopes: Iterable[str], user: str | None, ends: datetime | None, **more: Any
) -> NewKey:
    id = new_id()
    organization = base64.urlsafe_b64encode(tenant.scope.organization_id.encode()).decode().rstrip("=")
    token = f"{PREFIX}.{organization}.{id}.{secrets.token_urlsafe(32)}"
    granted = sorted(set(scopes), key=PERMISSIONS.index)
    key: ApiKey = made(
        ApiKey, tenant, id=id, name=name, key_hash=_hashed(token), scopes=granted, user_id=user, expires_at=ends, **more
    )
    commit(tenant, [Insert(key), logged(tenant, "create", "key.add", None, key=id)])
    return NewKey(key=token, **key_view(key).model_dump())


def key_view(key: ApiKey) -> KeyView:
    named = {"user": key.user_id, "agent": key.agent_id, "project": key.project_id}
    return KeyView(**named, **{name: getattr(key, name) for name in KeyView.own_fields() if name not in named})


class ListKeysRequest(Request):
    """Which keys to show."""

    user: Id | None = Field(None, description="Only this user's")
    revoked: bool = Field(False, description="Also those that were revoked")


class KeyPage(PageReply[KeyView]):
    """Keys, the newest first."""

    keys: list[KeyView]


def list_keys(tenant: Tenant, request: ListKeysRequest) -> KeyPage:
    """Keys, the newest first: what they grant and when they were used, never the keys themselves."""
    where: list[Filter] = [equal("is_console", False)]
    where += [equal("user_id", request.user)] if request.user is not None else []
    where += [] if request.revoked else [equal("revoked_at", None)]
    found = tenant.find(Query(ApiKey, tuple(where), (Order("id", descending=True),))).records
    return KeyPage(keys=[key_view(key) for key in found])


class RevokeKeyRequest(Request):
    """End a key at once."""

    id: Id = Field(description="The key's id")


def revoke_key(tenant: Tenant, request: RevokeKeyRequest) -> KeyView:
    """End a key at once: the very next request with it is refused."""
    key = load(tenant, ApiKey, request.id)
    if "operate" in key.scopes and "operate" not in (tenant.scope.granted or PERMISSIONS):
        raise Denied("that key may do more than yours", remedy="ask an owner", permission="operate")
    if key.revoked_at is None:
        key = revised(key, tenant.scope, revoked_at=now())
        commit(tenant, [Update(key), logged(tenant, "update", "key.revoke", None, key=key.id)])
    return key_view(key)


def needs_owner(tenant: Tenant) -> bool:
    """Whether nobody can sign in yet."""
    return not tenant.count(Query(ApiKey, (equal("is_console", False), *_valid())))


def ensure_owner(tenant: Tenant) -> NewKey:
    """An owner, made where there is none, and a key of its own."""
    owners = tenant.find(Query(User, (equal("role", "owner"),), (Order("id"),), 1)).records
    owner = owners[0] if owners else made(User, tenant, name="Owner", role="owner")
    if not owners:
        commit(tenant, [Insert(owner), logged(tenant, "create", "user.add", None, user=owner.id)])
    return make_key(tenant, name="first key", scopes=PERMISSIONS, user=owner.id, ends=None)


def has_keys(tenant: Tenant) -> bool:
    return tenant.count(Query(ApiKey, _valid())) > 0


def _valid() -> tuple[Filter, ...]:
    return equal("revoked_at", None), AnyOf((IsNull("expires_at"), Compare("expires_at", ">", now())))


def revoking_steps(tenant: Tenant, user: str) -> list[Update]:
    """Sign somebody out wherever they are signed in."""
    where = (equal("user_id", user), equal("is_console", True), equal("revoked_at", None))
    found = tenant.find(Query(ApiKey, where)).records
    return [Update(revised(key, tenant.scope, revoked_at=now())) for key in found]
