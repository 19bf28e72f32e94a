"""Denied unless granted: every role against every operation, and every way not to be let in."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, get_args

import pytest

from probing import operations, sample
from recollect.catalogue import OPERATIONS, Operation, Permission
from recollect.domain.access import PERMISSIONS, ROLES
from recollect.domain.record import now
from recollect.domain.tenancy import ApiKey
from recollect.interfaces.remote_exchange import wired
from recollect.ports.records import Scope
from recollect.ports.steps import Touch


def ask(world: Any, operation: Operation, key: str | None, fields: dict[str, Any] | None = None) -> Any:
    method, path, body = wired(operation, dict(fields if fields is not None else sample(operation)))
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    return world.http.request(method, path, content=body, headers=headers)


def test_every_operation_names_a_known_permission() -> None:
    assert set(get_args(Permission)) == set(PERMISSIONS)
    for operation in OPERATIONS.values():
        assert operation.permission in PERMISSIONS, operation.name
        assert operation.permission != "read" or not operation.route.startswith(("DELETE", "PATCH")), operation.name


@pytest.mark.parametrize("name", sorted(one.name for one in operations()))
def test_a_role_is_let_in_exactly_where_it_is_granted(name: str, world: Any) -> None:
    operation = OPERATIONS[name]
    nothing = dict.fromkeys(re.findall(r"{(\w+)}", operation.route), "no-such-thing")
    for role, granted in ROLES.items():
        answer = ask(world, operation, world.key("mine", tuple(sorted(granted))), {**nothing, "no_such_field": 1})
        refused = answer.status_code == 403
        assert refused == (operation.permission not in granted or operation.permission == "operate"), (
            role,
            answer.text,
        )
        if not refused:
            assert answer.status_code == 422, answer.text
    assert ask(world, operation, None, nothing).status_code == 401


def test_all_that_is_wrong_with_a_key_looks_alike(world: Any) -> None:
    good = world.key("mine", ("read",))
    prefix, tenant, id, secret = good.split(".")
    foreign = world.key("theirs", ("read",)).split(".")
    revoked = world.key("mine", ("read",), expires_days=1)
    world.mine.key.revoke(revoked.split(".")[2])
    expired = world.key("mine", ("read",), expires_days=1)
    past = Touch(ApiKey, expired.split(".")[2], put={"expires_at": now() - timedelta(seconds=1)})
    world.core.store.transact(Scope("mine"), [past])
    mixed = [(tenant, id, secret[:-1]), (tenant, id, ""), (tenant, id, secret + "a"), (foreign[1], id, secret)]
    mixed += [(tenant, foreign[2], secret), ("!!!", id, secret), (tenant, id, foreign[3]), ("bm9ib2R5", id, secret)]
    wrong = ["", "x", "rk", "rk...", good.upper(), revoked, expired, "rk." + "A" * 5000]
    wrong += [".".join((prefix, *parts)) for parts in mixed]
    operation = OPERATIONS["stats"]
    assert ask(world, operation, good).status_code == 200
    told = set()
    for key in wrong:
        answer = ask(world, operation, key or "-")
        assert answer.status_code == 401, key
        body = answer.json()["error"]
        body.pop("request_id")
        told.add(repr(body))
    assert len(told) == 1


def test_a_suspended_user_is_out_at_once_and_a_role_bounds_the_key(world: Any) -> None:
    user = world.mine.user.add("Cid", email="cid@mine.org").id
    made = world.mine.key.add("cid's", scopes=["read", "admin"], user=user, own_only=False)
    operation = OPERATIONS["stats"]
    assert ask(world, operation, made.key).status_code == 401  # a user without a role comes in nowhere
    world.mine.user.revise(user, role="reader")
    assert ask(world, operation, made.key).status_code == 200
    assert ask(world, OPERATIONS["key.list"], made.key).status_code == 403
    world.mine.user.revise(user, status="suspended")
    assert ask(world, operation, made.key).status_code == 401


def test_nobody_grants_more_than_they_have(world: Any) -> None:
    admin = world.key("mine", ("read", "admin"))
    for scopes in (["write"], ["operate"], ["read", "delete"]):
        assert ask(world, OPERATIONS["key.add"], admin, {"name": "x", "scopes": scopes}).status_code == 403
    assert ask(world, OPERATIONS["key.add"], admin, {"name": "x", "scopes": ["read"]}).status_code == 200
    owner = world.mine.user.add("Owner").id
    world.mine.user.revise(owner, role="owner")
    for change in ({"role": "reader"}, {"password": "a long password"}, {"status": "suspended"}, {"email": "a@b.c"}):
        assert ask(world, OPERATIONS["user.revise"], admin, {"id": owner, **change}).status_code == 403


def test_a_refusal_is_in_the_access_log(world: Any) -> None:
    key = world.key("mine", ("read",))
    ask(world, OPERATIONS["sweep"], key)
    entry = world.mine.log(action="sweep", success=False).entries[0]
    assert (entry.error, entry.actor, entry.address) == ("denied", key.split(".")[2], "127.0.0.1")
