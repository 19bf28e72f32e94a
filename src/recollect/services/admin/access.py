"""Who may come in: keys, passwords, roles, and what each of them grants.

A key is 256 random bits, shown once and kept as a hash. It names its organization, so that looking it up stays
inside one tenant. Passwords are kept as scrypt hashes; signing in makes a key of its own that signing out revokes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from recollect.domain.access import PERMISSIONS, ROLES, Permission, Role
from recollect.domain.kinds import describe
from recollect.domain.record import Id, Json, Name, QueryText, Text, new_id, now
from recollect.domain.tenancy import ApiKey, Organization, User, UserStatus
from recollect.errors import Denied, InvalidInput, Unauthenticated
from recollect.ports.records import (
    AnyOf,
    Compare,
    Filter,
    Insert,
    IsNull,
    Order,
    Query,
    Scope,
    Touch,
    Update,
    equal,
    revised,
)
from recollect.services.context import Core, Reply, Request, commit, load, logged, made

PREFIX = "rk"
SIGNED_IN_HOURS = 12
# 2**15 blocks of 8 take 32 MB and about a tenth of a second: enough to make guessing dear, not to stall the service.
SCRYPT = {"n": 2**15, "r": 8, "p": 1, "maxmem": 2**26}
SHORTEST_PASSWORD, LONGEST_PASSWORD = 10, 1000
_WHO = Unauthenticated("that key or password is not valid", remedy="ask an admin of the organization for a key")


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever proved who they are: the scope they work in, the key they came with and its limits."""

    scope: Scope
    key: ApiKey

    @property
    def granted(self) -> frozenset[str]:
        return self.scope.granted or frozenset()


def authenticate(core: Core, token: str, address: str | None = None) -> Principal:
    """The holder of a key. Unknown, expired, revoked and foreign keys all look alike."""
    key = _find(core, token)
    if key is None or key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now()):
        raise _WHO
    scope, zone = Scope(key.organization_id), None
    granted = frozenset(key.scopes)
    if key.user_id is not None:
        user = core.store.get(scope, User, key.user_id)
        if user is None or not user.is_active or user.status != "active" or user.role is None:
            raise _WHO
        granted &= ROLES[user.role]
        zone = user.timezone if user.timezone != "UTC" else core.timezone
    actor = key.user_id or key.id
    return Principal(Scope(key.organization_id, actor, granted, address, zone), key)


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


def authorize(principal: Principal, operation: str, permission: str) -> None:
    """Denied unless granted, with the reason."""
    if permission not in principal.granted:
        raise Denied(
            f"{operation} needs the permission '{permission}'",
            remedy=f"this key grants {', '.join(sorted(principal.granted)) or 'nothing'}; ask an admin for more",
            permission=permission,
        )


class Introduction(NamedTuple):
    """Who somebody is, for their own eyes, and the zone they are shown times in."""

    name: str
    role: str
    timezone: str
    email: str = ""
    has_password: bool = False


def introduced(core: Core, principal: Principal) -> Introduction:
    """The user behind a key, or the key itself. UTC is what users have who chose no zone: they get the store's."""
    id = principal.key.user_id
    user = core.store.get(Scope(principal.scope.organization_id), User, id) if id is not None else None
    if user is None:
        return Introduction(principal.key.name, "key", core.timezone)
    zone = user.timezone if user.timezone != "UTC" else core.timezone
    return Introduction(user.name, user.role or "", zone, user.email or "", user.password_hash is not None)


def count_uses(core: Core, key: ApiKey, uses: int) -> None:
    """Note that a key was used: when, and how often today. Several uses in one write."""
    today = now().date().isoformat()
    scope = Scope(key.organization_id)
    known = core.store.get(scope, ApiKey, key.id)
    if known is None:
        return
    add = {"counted": uses} if known.counted_on == today else {}
    put: dict[str, Any] = {"last_used_at": now(), "counted_on": today} | ({} if add else {"counted": uses})
    core.store.transact(scope, [Touch(ApiKey, key.id, add, put)])


class AddKeyRequest(Request):
    """A key for a program or a person."""

    name: Name = Field(description="What it is for")
    scopes: list[Permission] = Field(
        ["read", "write"], description="What it grants: read, write, govern, delete, admin, operate"
    )
    user: Id | None = Field(None, description="On whose behalf; it then never grants more than that user's role")
    expires_days: float | None = Field(None, gt=0, le=36500, description="Ends after so many days")
    rate_per_minute: int | None = Field(None, ge=1, description="At most so many requests a minute")
    requests_per_day: int | None = Field(None, ge=1, description="At most so many requests a day")


class KeyView(Reply):
    id: str
    name: str
    scopes: list[str]
    user: str | None = None
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    rate_per_minute: int | None = None
    requests_per_day: int | None = None


class KeyMade(KeyView):
    """The key itself is here and nowhere else: it is not shown again."""

    key: str


def add_key(core: Core, scope: Scope, request: AddKeyRequest) -> KeyMade:
    """Make a key. It is shown this once; only its hash is kept."""
    _may_grant(scope, request.scopes)
    if request.user is not None:
        refuse_higher(scope, load(core, scope, User, request.user))
    ends = now() + timedelta(days=request.expires_days) if request.expires_days is not None else None
    limits = {"rate_per_minute": request.rate_per_minute, "requests_per_day": request.requests_per_day}
    return _make_key(core, scope, name=request.name, scopes=request.scopes, user=request.user, ends=ends, **limits)


def _may_grant(scope: Scope, wanted: Iterable[str]) -> None:
    """Nobody grants more than they have."""
    excess = sorted(set(wanted) - scope.granted) if scope.granted is not None else []
    if excess:
        raise Denied(
            f"you cannot grant '{excess[0]}', which you do not have", remedy="ask an owner", permission=excess[0]
        )


def refuse_higher(scope: Scope, user: User) -> None:
    """Nobody changes, ends or speaks for those who may do more than they."""
    if user.role is not None:
        _may_grant(scope, ROLES[user.role])


def _make_key(
    core: Core, scope: Scope, *, name: str, scopes: Iterable[str], user: str | None, ends: datetime | None, **more: Any
) -> KeyMade:
    id = new_id()
    tenant = base64.urlsafe_b64encode(scope.organization_id.encode()).decode().rstrip("=")
    token = f"{PREFIX}.{tenant}.{id}.{secrets.token_urlsafe(32)}"
    granted = sorted(set(scopes), key=PERMISSIONS.index)
    key: ApiKey = made(
        ApiKey, scope, id=id, name=name, key_hash=_hashed(token), scopes=granted, user_id=user, expires_at=ends, **more
    )
    commit(core, scope, [Insert(key), logged(scope, "create", "key.add", None, key=id)])
    return KeyMade(key=token, **key_view(key).model_dump())


def key_view(key: ApiKey) -> KeyView:
    return KeyView(
        user=key.user_id,
        **{name: getattr(key, name) for name in KeyView.model_fields if name != "user"},
    )


class ListKeysRequest(Request):
    """Which keys to show."""

    user: Id | None = Field(None, description="Only this user's")
    revoked: bool = Field(False, description="Also those that were revoked")


class Keys(Reply):
    keys: list[KeyView]


def list_keys(core: Core, scope: Scope, request: ListKeysRequest) -> Keys:
    """The keys of the organization: what they grant and when they were used, never the keys themselves."""
    where: list[Filter] = [equal("is_console", False)]
    where += [equal("user_id", request.user)] if request.user is not None else []
    where += [] if request.revoked else [equal("revoked_at", None)]
    found = core.store.find(scope, Query(ApiKey, tuple(where), (Order("id"),))).records
    return Keys(keys=[key_view(key) for key in found])


class RevokeKeyRequest(Request):
    """End a key at once."""

    id: Id = Field(description="The key's id")


def revoke_key(core: Core, scope: Scope, request: RevokeKeyRequest) -> KeyView:
    """End a key at once: the very next request with it is refused."""
    key = load(core, scope, ApiKey, request.id)
    if "operate" in key.scopes and "operate" not in (scope.granted or PERMISSIONS):
        raise Denied("that key may do more than yours", remedy="ask an owner", permission="operate")
    if key.revoked_at is None:
        key = revised(key, scope, revoked_at=now())
        commit(core, scope, [Update(key), logged(scope, "update", "key.revoke", None, key=key.id)])
    return key_view(key)


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


def show_user(core: Core, scope: Scope, request: ShowUserRequest) -> UserView:
    """A user with profile, preferences and role."""
    return user_view(load(core, scope, User, request.id))


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


def list_users(core: Core, scope: Scope, request: ListUsersRequest) -> Users:
    """The users with their roles."""
    where = (IsNull("role", wanted=False),) if request.with_role else ()
    page = core.store.find(scope, Query(User, where, (Order("id"),), request.limit, request.after))
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


def revise_user(core: Core, scope: Scope, request: ReviseUserRequest) -> UserView:
    """Change a user's profile, role, status or password."""
    user = load(core, scope, User, request.id)
    fields = request.model_dump(exclude={"id", "password"}, exclude_none=True)
    if request.role is not None:
        _may_grant(scope, ROLES[request.role])
    refuse_higher(scope, user)
    if request.password is not None:
        fields["password_hash"] = hashed_password(request.password)
    try:
        changed = revised(user, scope, **fields)
    except ValidationError as error:
        raise InvalidInput(f"that user is not valid: {describe(error)}") from None
    ending = _ending_steps(core, scope, user.id) if request.password is not None else []
    named = sorted(name.removesuffix("_hash") for name in fields)
    entry = logged(scope, "update", "user.revise", None, user=user.id, changed=named)
    commit(core, scope, [Update(changed), *ending, entry])
    core.zones.clear()
    return user_view(load(core, scope, User, user.id))


def _ending_steps(core: Core, scope: Scope, user: str) -> list[Update]:
    """Sign somebody out wherever they are signed in."""
    where = (equal("user_id", user), equal("is_console", True), equal("revoked_at", None))
    found = core.store.find(scope, Query(ApiKey, where)).records
    return [Update(revised(key, scope, revoked_at=now())) for key in found]


class ChangePasswordRequest(Request):
    """Change your own password."""

    password: Text = Field(max_length=LONGEST_PASSWORD, description="The one you have now")
    new_password: Text = Field(max_length=LONGEST_PASSWORD, description="The one you want: ten characters or more")


class SignedOut(Reply):
    """Who it was, and in how many places they were signed in until now."""

    user: str
    ended: int


def change_password(core: Core, scope: Scope, request: ChangePasswordRequest) -> SignedOut:
    """Change your own password; you are signed out everywhere. Keys of programs stay as they are.

    Only who knows the present one may: a borrowed key or a browser left open must not become an account. So nobody
    gives themselves a first one either.
    """
    user = core.store.get(scope, User, scope.actor) if scope.actor is not None else None
    if user is None:
        remedy = "sign in, or let an admin set it: user.revise(id, password=…)"
        raise Denied("nobody with a password asks", remedy=remedy)
    if not password_fits(request.password, user.password_hash):
        raise Denied("that is not the password you have", remedy="type it again, or ask an admin to set a new one")
    if request.password == request.new_password:
        raise InvalidInput("that is the password you have", remedy="choose another")
    changed = revised(user, scope, password_hash=hashed_password(request.new_password))
    ended = _ending_steps(core, scope, user.id)
    entry = logged(scope, "update", "user.change_password", None, user=user.id, ended=len(ended))
    commit(core, scope, [Update(changed), *ended, entry])
    return SignedOut(user=user.id, ended=len(ended))


def hashed_password(password: str) -> str:
    if len(password) < SHORTEST_PASSWORD:
        raise InvalidInput(
            f"a password needs {SHORTEST_PASSWORD} characters or more",
            remedy="choose a longer one: a few words",
        )
    salt = secrets.token_bytes(16)
    digest = _scrypt(password, salt, SCRYPT["n"])
    return f"scrypt${SCRYPT['n']}${salt.hex()}${digest.hex()}"


def _scrypt(password: str, salt: bytes, blocks: int) -> bytes:
    more = {name: value for name, value in SCRYPT.items() if name != "n"}
    return hashlib.scrypt(password.encode("utf-8", "surrogatepass"), salt=salt, n=blocks, dklen=32, **more)


def password_fits(password: str, kept: str | None) -> bool:
    """Takes as long for a user who has none, so that nobody learns by waiting who exists."""
    _, blocks, salt, digest = (kept or f"scrypt${SCRYPT['n']}${'00' * 16}${'00' * 32}").split("$")
    fits = hmac.compare_digest(_scrypt(password, bytes.fromhex(salt), int(blocks)).hex(), digest)
    return fits and kept is not None


def sign_in(core: Core, organization: str, email: str, password: str, address: str | None = None) -> KeyMade:
    """A key for the console, for as long as somebody stays signed in."""
    scope = Scope(organization, address=address)
    try:
        found = core.store.find(scope, Query(User, (equal("email", email),))).records if email else []
    except InvalidInput:
        found = []
    user = found[0] if found else None
    fits = password_fits(password, user.password_hash if user else None)
    if user is None or not fits or not user.is_active or user.status != "active" or user.role is None:
        _note_refusal(core, scope, user)
        raise _WHO
    own = Scope(organization, user.id, address=address)
    ends = now() + timedelta(hours=SIGNED_IN_HOURS)
    return _make_key(core, own, name="console", scopes=ROLES[user.role], user=user.id, ends=ends, is_console=True)


def _note_refusal(core: Core, scope: Scope, user: User | None) -> None:
    """Guessing leaves a trace: the account if there is one, never what was typed."""
    if core.store.get(scope, Organization, scope.organization_id) is not None:
        about = {"user": user.id} if user is not None else {}
        core.journal.failed(scope, "create", "sign in", about, _WHO.code)


def sign_out(core: Core, principal: Principal) -> None:
    """End a key that signing in made. One that was pasted in stays: programs may use it."""
    key = principal.key
    if key.is_console and key.revoked_at is None:
        ended = revised(key, principal.scope, revoked_at=now())
        commit(core, principal.scope, [Update(ended), logged(principal.scope, "update", "sign out", None, key=key.id)])


def needs_owner(core: Core, scope: Scope) -> bool:
    """Whether nobody can come in yet."""
    return not core.store.count(scope, Query(ApiKey, (equal("is_console", False), *_valid())))


def ensure_owner(core: Core, scope: Scope) -> KeyMade:
    """An owner, made where there is none, and a key of its own."""
    owners = core.store.find(scope, Query(User, (equal("role", "owner"),), (Order("id"),), 1)).records
    owner = owners[0] if owners else made(User, scope, name="Owner", role="owner")
    if not owners:
        commit(core, scope, [Insert(owner), logged(scope, "create", "user.add", None, user=owner.id)])
    return _make_key(core, scope, name="first key", scopes=PERMISSIONS, user=owner.id, ends=None)


def has_keys(core: Core, scope: Scope) -> bool:
    return core.store.count(scope, Query(ApiKey, _valid())) > 0


def _valid() -> tuple[Filter, ...]:
    return equal("revoked_at", None), AnyOf((IsNull("expires_at"), Compare("expires_at", ">", now())))
