"""Who may come in, and who may not send others away."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.domain.access import ROLES
from recollect.domain.audit import AccessLog
from recollect.domain.memory import Memory
from recollect.domain.record import now
from recollect.domain.tenancy import ApiKey, User
from recollect.errors import Denied, InvalidInput, Unauthenticated, Unavailable
from recollect.ports.query import Order, Query, equal
from recollect.ports.records import Scope
from recollect.ports.steps import Touch
from recollect.services.access import keys, passwords
from recollect.services.admin.export import FORMAT
from recollect.services.admin.import_ import ImportRequest, import_
from recollect.services.admin.removal import RemovalRequest, remove_user

HERE = Scope("default")
ADMIN = Scope("default", "somebody", ROLES["admin"])


def test_an_admin_cannot_send_the_owner_away_or_speak_for_them(mem: Any) -> None:
    core, made = mem._core, keys.ensure_owner(mem._core.for_scope(HERE))
    assert made is not None
    owner = core.store.find(HERE, Query(User, (), (Order("id"),))).records[0].id
    for attempt in (
        lambda: remove_user(core.for_scope(ADMIN), RemovalRequest(id=owner)),
        lambda: keys.add_key(core.for_scope(ADMIN), keys.AddKeyRequest(name="mine", scopes=["read"], user=owner)),
        lambda: keys.revoke_key(core.for_scope(ADMIN), keys.RevokeKeyRequest(id=made.id)),
    ):
        with pytest.raises(Denied):
            attempt()
    assert keys.authenticate(core, made.key).scope.actor == owner
    assert mem.key.revoke(made.id).revoked_at is not None  # whoever has the store itself may


@pytest.mark.parametrize("table", ["user", "api_key", "access_log"])
def test_an_import_raises_nobody(table: str, mem: Any, tmp_path: Path) -> None:
    """A file is what its maker wrote into it: a key of the owner's, an owner, a past that never was."""
    made = {
        "user": User(organization_id="default", name="me", role="owner"),
        "api_key": ApiKey(organization_id="default", name="mine", key_hash="x", scopes=["operate"]),
        "access_log": AccessLog(organization_id="default", operation="read"),
    }[table]
    lines = [b'{"format": "%s"}\n' % FORMAT.encode()]
    lines.append(json.dumps({"table": table, "record": made.model_dump(mode="json")}).encode() + b"\n")
    end = {"end": FORMAT, "records": 1, "hash": hashlib.sha256(b"".join(lines)).hexdigest()}
    file = tmp_path / "forged.jsonl"
    file.write_bytes(b"".join([*lines, json.dumps(end).encode() + b"\n"]))
    with pytest.raises(Denied):
        import_(mem._core.for_scope(ADMIN), ImportRequest(path=str(file)))
    assert (
        import_(mem._core.for_scope(HERE), ImportRequest(path=str(file))).records == 1
    )  # whoever has the store itself may


def test_an_exported_store_that_was_sealed_is_sound_where_it_is_imported(mem: Any, tmp_path: Path) -> None:
    mem.remember("here")
    mem.audit.seal()
    for audit in (False, True):
        mem.export(str(tmp_path / "x.jsonl"), audit=audit)
        with recollect.open(tmp_path / f"{audit}.db", embedder="hash") as other:
            other.import_(str(tmp_path / "x.jsonl"))
            assert other.audit.verify().problems == []


def test_an_admin_manages_everybody_else(mem: Any) -> None:
    core, user = mem._core, mem.user.add("Bob").id
    mem.user.revise(user, role="admin")
    key = keys.add_key(core.for_scope(ADMIN), keys.AddKeyRequest(name="bob", scopes=["read"], user=user))
    only_admin = Scope("default", "somebody", frozenset({"admin"}))
    assert keys.revoke_key(core.for_scope(only_admin), keys.RevokeKeyRequest(id=key.id)).revoked_at is not None
    assert remove_user(core.for_scope(ADMIN), RemovalRequest(id=user)).restorable_until


def test_where_every_key_has_expired_the_next_start_makes_one(mem: Any, tmp_path: Path) -> None:
    made = keys.ensure_owner(mem._core.for_scope(HERE))
    assert not keys.needs_owner(mem._core.for_scope(HERE))
    ended = {"expires_at": now() - timedelta(days=1)}
    mem._core.store.transact(HERE, [Touch(ApiKey, made.id, put=ended)])
    assert not keys.has_keys(mem._core.for_scope(HERE))
    assert keys.needs_owner(mem._core.for_scope(HERE))
    again = keys.ensure_owner(mem._core.for_scope(HERE))
    assert again.user == made.user


def test_guessing_a_password_leaves_a_trace(mem: Any) -> None:
    user = mem.user.add("Bob", email="bob@example.org").id
    mem.user.revise(user, role="admin", password="correct horse battery")
    for organization, email in (
        ("default", "bob@example.org"),
        ("default", "eve@example.org"),
        ("nowhere", "x"),
        ("\0", "x"),
    ):
        with pytest.raises((Unauthenticated, InvalidInput)):
            passwords.sign_in(mem._core, organization, email, "a wrong password", "10.0.0.7")
    tried = mem.log(action="sign in").entries
    assert [(one.success, one.request.get("user"), one.address) for one in tried] == [
        (False, None, "10.0.0.7"), (False, user, "10.0.0.7"),
    ]  # fmt: skip
    assert "eve" not in str(tried)


def test_a_tenant_that_is_gone_takes_no_notes_of_others_along(mem: Any) -> None:
    core = mem._core
    for tenant in ("gone", "default"):
        core.journal.note(Scope(tenant), "read", "show", ["m"])
    core.journal.flush()
    assert [one.action for one in mem.log().entries] == ["show"]


@pytest.mark.parametrize("happens", [False, True], ids=["not written", "written but not told"])
@pytest.mark.parametrize("trouble", [Unavailable("away"), Denied("not now"), KeyboardInterrupt()], ids=type)
def test_notes_that_could_not_be_written_are_written_later_each_once(
    mem: Any, monkeypatch: pytest.MonkeyPatch, trouble: BaseException, happens: bool
) -> None:
    journal, transact = mem._core.journal, mem._core.store.transact

    def failing(*given: Any) -> None:
        if happens:
            transact(*given)
        raise trouble

    kept = mem.remember("kept").id
    journal.flush()
    journal.note(HERE, "read", "show", [kept])
    with monkeypatch.context() as patch:
        patch.setattr(mem._core.store, "transact", failing)
        with pytest.raises(type(trouble)):
            journal.flush()
    journal.note(HERE, "read", "recall", [kept])
    journal.flush()
    read = mem._core.store.select(HERE, Query(AccessLog, (equal("operation", "read"),)), ("action",))
    assert sorted(action for (action,) in read) == ["recall", "show"]
    assert mem._core.store.select(HERE, Query(Memory), ("access_count",)) == [(2,)]


def test_who_knows_their_password_changes_it_and_is_signed_out_everywhere(mem: Any) -> None:
    core, user = mem._core, mem.user.add("Bob", email="bob@example.org").id
    mem.user.revise(user, role="reader", password="correct horse battery")
    program = mem.key.add("program", scopes=["read"], user=user)
    signed_in = [passwords.sign_in(core, "default", "bob@example.org", "correct horse battery") for _ in range(2)]
    bob = mem.within(actor=user)
    with pytest.raises(Denied, match="not the password you have"):
        bob.user.change_password(password="a wrong password", new_password="staple battery horse")
    for unfit in ("short", "correct horse battery"):
        with pytest.raises(InvalidInput):
            bob.user.change_password(password="correct horse battery", new_password=unfit)
    assert keys.authenticate(core, signed_in[0].key).key.is_console
    changed = bob.user.change_password(password="correct horse battery", new_password="staple battery horse")
    assert changed.ended == 2
    for ended in signed_in:
        with pytest.raises(Unauthenticated):
            keys.authenticate(core, ended.key)
    assert keys.authenticate(core, program.key).scope.actor == user
    with pytest.raises(Unauthenticated):
        passwords.sign_in(core, "default", "bob@example.org", "correct horse battery")
    assert passwords.sign_in(core, "default", "bob@example.org", "staple battery horse").user == user
    entries = mem.log(action="user.change_password", by=user).entries
    assert [one.success for one in entries] == [True, False, False, False]
    assert {one.operation for one in entries} == {"update"}
    assert "password" not in str([one.request for one in entries])
    assert entries[0].request == {"user": user, "ended": 2}


def test_nobody_gets_a_first_password_by_a_borrowed_key(mem: Any) -> None:
    user = mem.user.add("Bob").id
    mem.user.revise(user, role="owner")
    for actor in (user, mem.key.add("nobody's").id, None):
        with pytest.raises(Denied):
            mem.within(actor=actor).user.change_password(password="", new_password="staple battery horse")
