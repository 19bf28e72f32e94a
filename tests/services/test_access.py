"""Who may come in, and who may not send others away."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.access import ROLES
from recollect.domain.record import now
from recollect.domain.tenancy import ApiKey, User
from recollect.errors import Denied
from recollect.ports.records import Order, Query, Scope, Touch
from recollect.services import access
from recollect.services.directory import RemovePartyRequest, remove_party

HERE = Scope("default")
ADMIN = Scope("default", "somebody", ROLES["admin"])


def test_an_admin_cannot_send_the_owner_away_or_speak_for_them(mem: Any) -> None:
    core, made = mem._core, access.ensure_owner(mem._core, HERE)
    assert made is not None
    owner = core.store.find(HERE, Query(User, (), (Order("id"),))).records[0].id
    for attempt in (
        lambda: remove_party(core, ADMIN, RemovePartyRequest(type="user", id=owner)),
        lambda: access.add_key(core, ADMIN, access.AddKeyRequest(name="mine", scopes=["read"], user=owner)),
        lambda: access.revoke_key(core, ADMIN, access.RevokeKeyRequest(id=made.id)),
    ):
        with pytest.raises(Denied):
            attempt()
    assert access.authenticate(core, made.key).scope.actor == owner
    assert mem.key.revoke(made.id).revoked_at is not None  # whoever has the store itself may


def test_an_admin_manages_everybody_else(mem: Any) -> None:
    core, user = mem._core, mem.add_user("Bob").id
    mem.user.revise(user, role="admin")
    key = access.add_key(core, ADMIN, access.AddKeyRequest(name="bob", scopes=["read"], user=user))
    only_admin = Scope("default", "somebody", frozenset({"admin"}))
    assert access.revoke_key(core, only_admin, access.RevokeKeyRequest(id=key.id)).revoked_at is not None
    assert remove_party(core, ADMIN, RemovePartyRequest(type="user", id=user)).deleted


def test_where_every_key_has_expired_the_next_start_makes_one(mem: Any, tmp_path: Path) -> None:
    made = access.ensure_owner(mem._core, HERE)
    assert made is not None
    assert access.ensure_owner(mem._core, HERE) is None
    ended = {"expires_at": now() - timedelta(days=1)}
    mem._core.store.transact(HERE, [Touch(ApiKey, made.id, put=ended)])
    assert not access.has_keys(mem._core, HERE)
    again = access.ensure_owner(mem._core, HERE)
    assert again is not None
    assert again.user == made.user
