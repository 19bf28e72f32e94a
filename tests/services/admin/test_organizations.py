"""Organizations are added, listed, renamed, suspended and removed, and each is reached only by those who may."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from recollect.catalogue import OPERATIONS, invoke
from recollect.errors import Conflict, Denied, InvalidInput, NotFound, RecollectError
from recollect.interfaces.mcp.tools import offered
from recollect.interfaces.serve import application
from recollect.ports.records import Scope
from recollect.services.access.keys import authenticate
from recollect.services.access.passwords import sign_in
from recollect.settings import Settings

ALL = frozenset({"read", "write", "govern", "delete", "admin", "operate"})


def test_they_are_added_renamed_suspended_and_removed(every: Any) -> None:
    acme = every.organization.add("Acme Corp", id="acme")
    assert (acme.name, acme.status, acme.version) == ("Acme Corp", "active", 1)
    assert every.organization.add(id="acme") == every.organization.add("Acme Corp", id="acme") == acme
    with pytest.raises(Conflict, match="is called 'Acme Corp'"):
        every.organization.add("Another", id="acme")
    every.organization.add(id="学")
    assert [one.id for one in every.organization.list()] == ["acme", every.organization, "学"]
    page = every.organization.list(limit=1)
    assert [one.id for one in every.organization.list(after=page.next, limit=1)] == [str(every.organization)]
    assert every.organization.revise("acme", "Acme Inc").name == every.organization.show("acme").name == "Acme Inc"
    assert every.organization.show().id == every.organization == "default"

    inside = every.within("acme")
    inside.remember("Ann prefers tea", user="ann")
    key = inside.key.add("app").key
    inside.user.add(id="boss", email="boss@acme.example", password="a long password", role="owner")
    assert authenticate(every._core, key).scope.organization_id == "acme"
    assert every.organization.suspend("acme").status == every.organization.suspend("acme").status == "suspended"
    with pytest.raises(Denied, match="is suspended") as refused:
        authenticate(every._core, key)
    assert "operator" in refused.value.remedy
    with pytest.raises(Denied, match="is suspended"):
        sign_in(every._core, "acme", "boss@acme.example", "a long password")
    with pytest.raises(RecollectError, match="not valid"):  # nothing is told to those who have not shown who they are
        sign_in(every._core, "acme", "boss@acme.example", "a wrong password")
    assert inside.stats().memories == 1
    every.organization.resume("acme")
    assert authenticate(every._core, key).scope.organization_id == "acme"
    assert {one.action for one in inside.log(limit=50).entries} >= {"organization.suspend", "organization.resume"}

    told = every.organization.remove("acme", dry_run=True)
    assert {"memory": 1, "user": 2}.items() <= {one.table: one.count for one in told.takes}.items()
    done = every.organization.remove("acme")
    assert done.takes == told.takes
    assert done.removed_at is not None
    assert [one.id for one in every.organization.list()] == ["default", "学"]
    assert "organization.remove" in {one.action for one in every.log(limit=50).entries}
    with pytest.raises(NotFound):
        every.organization.remove("acme")


def test_over_the_network_only_the_own_one_is_reached(each: Any) -> None:
    each.organization.add("Acme", id="acme")
    owner = Scope("default", "key", ALL)

    def asked(operation: str, /, **fields: Any) -> Any:
        return invoke(OPERATIONS[operation], each._core, owner, fields)

    assert asked("organization.show").id == "default"
    assert [one.id for one in asked("organization.list")] == ["default"]
    for name in ("acme", "absent"):
        for operation in ("add", "suspend", "resume", "remove"):
            with pytest.raises(Denied):
                asked(f"organization.{operation}", id=name)
        with pytest.raises(NotFound):
            asked("organization.show", id=name)
        with pytest.raises(NotFound):
            asked("organization.revise", id=name, name="Mine")
    with pytest.raises(InvalidInput, match="lock yourself out"):
        asked("organization.suspend", id="default")
    assert asked("organization.revise", name="Ours").name == "Ours"
    assert each.organization.show("acme").status == "active"
    assert not [name for name in offered("all") if name.startswith("organization_")]


def test_a_service_manages_them_where_the_operator_says_so(mem: Any) -> None:
    """Only those of the organization that runs the service, and only with the setting."""
    other = mem.within("other")
    other.user.add(id="boss", email="boss@other.example", password="a long password", role="owner")
    theirs = other.key.add("theirs", scopes=sorted(ALL)).key
    ours = mem.key.add("ours", scopes=sorted(ALL)).key
    for opened in (False, True):
        settings = Settings(server={"upkeep_seconds": 1e6, "organizations": opened})
        app = application(type(mem._core)(**managing(mem._core, opened)), settings)
        with TestClient(app, "http://127.0.0.1") as client:

            def listed(key: str, client: TestClient = client) -> Any:
                answer = client.get("/v1/organizations", headers={"authorization": f"Bearer {key}"})
                return answer.status_code, [one["id"] for one in answer.json().get("organizations", [])]

            assert listed(ours) == (200, ["default", "other"] if opened else ["default"])
            assert listed(theirs) == (403, [])
            if opened:
                suspended = client.post(
                    "/v1/organizations/other/suspend", json={}, headers={"authorization": f"Bearer {ours}"}
                )
                assert suspended.status_code == 200, suspended.text
                refused = client.get("/v1/stats", headers={"authorization": f"Bearer {theirs}"})
                assert (refused.status_code, "is suspended" in json.dumps(refused.json())) == (403, True)
                entry = {"email": "boss@other.example", "password": "a long password", "organization": "other"}
                assert client.post("/v1/sign-in", json=entry).status_code == 403


def managing(core: Any, opened: bool) -> dict[str, Any]:
    return {name: getattr(core, name) for name in core.__slots__ if hasattr(core, name)} | {
        "manages_organizations": opened
    }
