"""Accounts in one call, signing in over the API, and the members of projects."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from recollect.catalogue import OPERATIONS, invoke
from recollect.domain.audit import AccessLog
from recollect.domain.tenancy import Membership
from recollect.errors import Conflict, Denied, InvalidInput, NotFound
from recollect.interfaces.serve import application
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.settings import Settings

PASSWORD = "correct horse battery"


@pytest.fixture
def client(mem: Any) -> Iterator[TestClient]:
    app = application(mem._core, Settings(server={"upkeep_seconds": 1e6}))
    with TestClient(app, "http://127.0.0.1") as client:
        yield client


def test_an_account_is_one_call_and_signs_in(mem: Any, client: TestClient) -> None:
    ann = mem.user.add(email="ann@example.com", password=PASSWORD, role="writer")
    assert (ann.name, ann.role, ann.is_active, ann.has_password) == ("ann@example.com", "writer", True, True)
    wrong = {"email": "ann@example.com", "password": "a wrong password"}
    absent = {"email": "nobody@example.com", "password": PASSWORD}
    refused = [client.post("/v1/sign-in", json=one) for one in (wrong, absent, {**wrong, "organization": "nowhere"})]
    assert {one.status_code for one in refused} == {401}
    assert len({one.json()["error"]["message"] for one in refused}) == 1
    assert client.post("/v1/sign-in", json={"email": "ann@example.com"}).status_code == 422
    entered = client.post("/v1/sign-in", json={"email": "ann@example.com", "password": PASSWORD})
    told = entered.json()
    assert (entered.status_code, told["user"], told["organization"]) == (200, ann.id, "default")
    assert told["expires_at"]
    headers = {"authorization": f"Bearer {told['key']}"}
    stored = client.post("/v1/memories", json={"content": "Ann was here", "user": ann.id}, headers=headers)
    assert stored.status_code == 200, stored.text
    assert mem.show(stored.json()["id"]).fields["created_by"] == ann.id
    assert client.get("/v1/keys", headers=headers).status_code == 403  # a writer is no admin
    assert client.post("/v1/sign-out", headers=headers).status_code == 204
    assert client.get("/v1/stats", headers=headers).status_code == 401
    entries = mem._core.store.find(mem._scope, Query(AccessLog)).records
    assert PASSWORD not in str([one.request_data for one in entries])


def test_guessing_is_stopped(mem: Any, client: TestClient) -> None:
    mem.user.add(email="ann@example.com", password=PASSWORD, role="writer")
    guesses = [client.post("/v1/sign-in", json={"email": "ann@example.com", "password": "guess"}) for _ in range(12)]
    assert guesses[-1].status_code == 429


def test_being_active_is_true_to_the_status(each: Any) -> None:
    ann = each.user.add("Ann", role="reader").id
    for status, active in (("suspended", False), ("invited", False), ("active", True)):
        assert each.user.revise(ann, status=status).is_active is active
        assert each.user.show(ann).is_active is active


def test_an_account_is_for_those_who_may_give_it(each: Any) -> None:
    def add(granted: set[str], **fields: Any) -> Any:
        return invoke(OPERATIONS["user.add"], each._core, Scope("default", "key", frozenset(granted)), fields)

    assert add({"read", "write"}, name="Bob").role is None
    for fields in ({"role": "reader"}, {"email": "bob@example.com", "password": PASSWORD}):
        with pytest.raises(Denied):
            add({"read", "write"}, name="Bob", **fields)
    with pytest.raises(Denied):
        add({"read", "write", "admin"}, name="Bob", role="owner")
    with pytest.raises(InvalidInput, match="email"):
        each.user.add("Bob", password=PASSWORD)
    with pytest.raises(InvalidInput, match="10 characters"):
        each.user.add("Bob", email="bob@example.com", password="short")
    again = {"id": "cy", "email": "cy@example.com", "password": PASSWORD, "role": "reader"}
    assert each.user.add(**again) == each.user.add(**again)
    with pytest.raises(Conflict):
        each.user.add(**{**again, "password": "quite another one"})


def test_projects_have_members_with_roles(every: Any) -> None:
    every.project.add("House", id="house")
    for name in ("ann", "bob"):
        every.user.add(id=name)
        assert every.project.add_member("house", name).role == "writer"
    assert every.project.add_member("house", "ann", "admin").role == "admin"
    assert [(one.user, one.role) for one in every.project.members("house")] == [("bob", "writer"), ("ann", "admin")]
    assert [one.id for one in every.project.list(member="ann")] == ["house"]
    assert every.project.list(member="cy").projects == []
    every.user.remove("bob")
    assert [one.user for one in every.project.members("house")] == ["ann"]
    every.user.restore("bob")
    every.project.remove("house")
    with pytest.raises(NotFound):
        every.project.members("house")
    every.project.restore("house")
    assert len(every.project.members("house")) == 2
    every.project.remove_member("house", "ann")
    with pytest.raises(NotFound, match="not a member"):
        every.project.remove_member("house", "ann")
    for unknown in (("nowhere", "bob"), ("house", "nobody")):
        with pytest.raises(NotFound):
            every.project.add_member(*unknown)
    every.user.erase("bob")
    assert not every._core.store.count(every._scope, Query(Membership, (), deleted="yes"))


def test_guessing_a_password_takes_as_long_as_it_should() -> None:
    """In a process of its own: those of the tests are quick to try."""
    tried = (
        "from recollect.services.access.passwords import hashed_password, password_fits\n"
        "kept = hashed_password('correct horse')\n"
        "assert kept.startswith(f'scrypt${2**15}$'), kept\n"
        "assert password_fits('correct horse', kept)\n"
        "assert not password_fits('wrong horse', kept)\n"
    )
    subprocess.run([sys.executable, "-c", tried], check=True)
