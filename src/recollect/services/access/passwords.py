"""Passwords, kept as scrypt hashes; signing in makes a key of its own that signing out revokes."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field

from recollect.domain.access import ROLES
from recollect.domain.record import Id, Text, now
from recollect.domain.tenancy import Organization, User
from recollect.errors import Denied, InvalidInput
from recollect.ports.query import Query, equal
from recollect.ports.records import Scope, revised
from recollect.ports.steps import Update
from recollect.services.access.authorize import Principal
from recollect.services.access.keys import INVALID_CREDENTIALS, NewKey, make_key, refuse_suspended, revoking_steps
from recollect.services.requests import AS_GIVEN, Reply, Request
from recollect.services.tenant import Core, Tenant
from recollect.services.transaction import commit, logged

SIGNED_IN_HOURS = 12


# 2**15 blocks of 8 take 32 MB and about a tenth of a second: enough to make guessing dear, not to stall the service.
SCRYPT = {"n": 2**15, "r": 8, "p": 1, "maxmem": 2**26}


SHORTEST_PASSWORD = 10
LONGEST_PASSWORD = 1000


class SignInRequest(Request):
    """Who signs in, over the API."""

    email: Text = Field(max_length=1000, description="Your email")
    password: Annotated[Text, AS_GIVEN] = Field(max_length=LONGEST_PASSWORD, description="Your password")
    organization: Id | None = Field(None, description="Your organization; by default the one that runs the service")


class SignInReply(Reply):
    """A key for as long as somebody stays signed in."""

    key: str = Field(description="To send with each request: Authorization: Bearer KEY")
    user: str
    organization: str
    expires_at: datetime | None = None


class ChangePasswordRequest(Request):
    """Change your own password."""

    password: Annotated[Text, AS_GIVEN] = Field(max_length=LONGEST_PASSWORD, description="The one you have now")
    new_password: Annotated[Text, AS_GIVEN] = Field(
        max_length=LONGEST_PASSWORD, description="The one you want: ten characters or more"
    )


class SignOutReply(Reply):
    """Who it was, and in how many places they were signed in until now."""

    user: str
    ended: int


def change_password(tenant: Tenant, request: ChangePasswordRequest) -> SignOutReply:
    """Change your own password; you are signed out everywhere. Keys of programs stay as they are.

    Only who knows the present one may: a borrowed key or a browser left open must not become an account. So nobody
    gives themselves a first one either.
    """
    user = tenant.get(User, tenant.scope.actor) if tenant.scope.actor is not None else None
    if user is None:
        remedy = "sign in, or let an admin set it: user.revise(id, password=…)"
        raise Denied("nobody with a password asks", remedy=remedy)
    if not password_fits(request.password, user.password_hash):
        raise Denied("that is not the password you have", remedy="type it again, or ask an admin to set a new one")
    if request.password == request.new_password:
        raise InvalidInput("that is the password you have", remedy="choose another")
    changed = revised(user, tenant.scope, password_hash=hashed_password(request.new_password))
    tenant = tenant.unrestricted
    ended = revoking_steps(tenant, user.id)
    entry = logged(tenant, "update", "user.change_password", None, user=user.id, ended=len(ended))
    commit(tenant, [Update(changed), *ended, entry])
    return SignOutReply(user=user.id, ended=len(ended))


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


def sign_in(core: Core, organization: str, email: str, password: str, address: str | None = None) -> NewKey:
    """A key for the console, for as long as somebody stays signed in."""
    tenant = core.for_scope(Scope(organization, address=address))
    try:
        found = tenant.find(Query(User, (equal("email", email),))).records if email else []
    except InvalidInput:
        found = []
    user = found[0] if found else None
    fits = password_fits(password, user.password_hash if user else None)
    if user is None or not fits or not user.is_active or user.status != "active" or user.role is None:
        _note_refusal(tenant, user)
        raise INVALID_CREDENTIALS
    refuse_suspended(core, organization)
    own = core.for_scope(Scope(organization, user.id, address=address))
    ends = now() + timedelta(hours=SIGNED_IN_HOURS)
    return make_key(own, name="console", scopes=ROLES[user.role], user=user.id, ends=ends, is_console=True)


def _note_refusal(tenant: Tenant, user: User | None) -> None:
    """Guessing leaves a trace: the account if there is one, never what was typed."""
    if tenant.count(Query(Organization, (equal("id", tenant.scope.organization_id),))):
        about = {"user": user.id} if user is not None else {}
        tenant.journal.failed(tenant.scope, "create", "sign in", about, INVALID_CREDENTIALS.code)


def sign_out(core: Core, principal: Principal) -> None:
    """End a key that signing in made. One that was pasted in stays: programs may use it."""
    key = principal.key
    if key.is_console and key.revoked_at is None:
        ended = revised(key, principal.scope, revoked_at=now())
        tenant = core.for_scope(principal.scope).unrestricted
        commit(tenant, [Update(ended), logged(tenant, "update", "sign out", None, key=key.id)])
