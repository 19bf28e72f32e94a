"""Names that operations had one version ago: each still works everywhere, and says what it is called now."""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import recollect
from recollect.catalogue import FORMER_NAMES, OPERATIONS, SYNONYMS
from recollect.errors import InvalidInput, VersionConflict
from recollect.interfaces.cli.main import run
from recollect.interfaces.mcp.tools import PROFILES, offered
from recollect.interfaces.serve import application
from recollect.settings import Settings

FIELDS: dict[str, dict[str, Any]] = {"user.add": {"name": "Ann"}, "agent.add": {"name": "Bee"}}
FIELDS |= {"project.add": {"name": "House"}, "session.add": {"title": "Talk"}}
EACH = [(former.name, type) for former in FORMER_NAMES.values() for type in former.types or ("",)]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Any]:
    with recollect.open(tmp_path / "s.db", embedder="hash") as mem:
        for type in ("user", "agent", "session", "project"):
            getattr(mem, type).add(type, id=f"{type} here")
            getattr(mem, type).add(type, id=f"{type} gone")
            getattr(mem, type).remove(f"{type} gone")
        mem.workspace.add("agent here", id="desk")
        yield mem


def given(name: str, type: str) -> tuple[str, dict[str, Any]]:
    """The name of today, and fields that both take."""
    today = FORMER_NAMES[name].now.format(type=type)
    named: dict[str, dict[str, Any]] = {
        "remove": {"id": f"{type} here", "dry_run": True},
        "unremove": {"id": f"{type} gone"},
        "workspace.drop": {"id": "desk", "dry_run": True},
        "erase_organization": {"id": "default", "dry_run": True},
    }
    return today, named.get(name, FIELDS.get(today, {}))


def test_a_name_is_either_of_today_or_a_former_one() -> None:
    assert not set(FORMER_NAMES) & {*OPERATIONS, *SYNONYMS}
    assert {today for former in FORMER_NAMES.values() for today in former.operations} <= set(OPERATIONS.values())


@pytest.mark.parametrize(("name", "type"), EACH)
def test_a_former_name_works_in_python_and_warns(here: Any, name: str, type: str) -> None:
    today, fields = given(name, type)
    typed = {"type": type} if type else {}
    with pytest.warns(DeprecationWarning, match=f"{name} is deprecated, use {today}") as warned:
        reply = attrgetter(name)(here)(**typed, **fields)
    assert Path(warned[0].filename) == Path(__file__)
    assert isinstance(reply, OPERATIONS[today].reply)
    if OPERATIONS[today].unlogged:
        return
    assert OPERATIONS[today].name in {entry.action for entry in here.log(action=name, limit=5).entries}


@pytest.mark.parametrize(("name", "type"), EACH)
def test_a_former_command_works_and_says_so(
    here: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, type: str
) -> None:
    today, fields = given(name, type)
    flags = ["--dry-run"] if fields.pop("dry_run", False) else []
    here.close()
    words = [*FORMER_NAMES[name].command.split(), *([type] if type else []), *fields.values(), *flags]
    assert run([*words, "--store", str(tmp_path / "s.db"), "--json"]) == 0
    shown = capsys.readouterr()
    assert f"is deprecated, use 'recollect {today.replace('.', ' ')}'" in shown.err
    OPERATIONS[today].reply.model_validate(json.loads(shown.out))


@pytest.mark.parametrize("name", [former.name for former in FORMER_NAMES.values() if former.route])
def test_a_former_route_answers_and_names_its_successor(here: Any, name: str) -> None:
    key = here.key.add("all", scopes=["read", "write", "delete", "admin"]).key
    app = application(here._core, Settings(server={"upkeep_seconds": 1e6}))
    with TestClient(app, "http://127.0.0.1", headers={"authorization": f"Bearer {key}"}) as client:
        for type in FORMER_NAMES[name].types:
            method, _, path = FORMER_NAMES[name].route.partition(" ")
            id = f"{type} {'here' if name == 'remove' else 'gone'}"
            query = "?dry_run=true" if name == "remove" else ""
            answer = client.request(method, f"/v1{path}".replace("{type}", type).replace("{id}", id) + query)
            assert answer.status_code == 200, answer.text
            assert answer.headers["deprecation"] == "true"
            assert answer.headers["link"].startswith(f"</v1/{type}s")
            assert answer.headers["link"].endswith('; rel="successor-version"')
            assert "parties" not in client.get("/openapi.json").text


def test_a_type_that_is_none_is_refused_with_the_names_of_today(here: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        here.remove("house", "x")
    assert "user.remove" in refused.value.remedy
    assert run(["remove", "house", "x"]) == 2
    assert "recollect user remove" in capsys.readouterr().err


def test_tools_have_the_names_of_today_only() -> None:
    named = {name for profile in PROFILES if profile != "memory-server" for name in offered(profile)}
    assert not named & set(FORMER_NAMES)
    assert {"user_add", "session_list", "run_list"} <= named


def test_get_is_another_name_of_show(here: Any) -> None:
    id = here.remember("Alice prefers pytest").id
    assert here.get(id).text == here.show(id).text == "Alice prefers pytest"


def test_what_goes_in_as_user_comes_out_as_user(here: Any) -> None:
    owners = {type: f"{type} here" for type in ("user", "agent", "session", "project")}
    id = here.remember("Alice prefers pytest", **owners).id
    for shown in (here.show(id), here.list()[0], here.recall("pytest")[0]):
        assert {type: getattr(shown, type) for type in owners} == owners
    session = here.session.add("Talk", user="user here", agent="agent here", project="project here")
    assert (session.user, session.agent, session.project) == ("user here", "agent here", "project here")
    assert here.project.show(here.project.add("House", owner="user here").id).owner == "user here"
    with pytest.warns(DeprecationWarning, match="attributes of SessionView"):
        assert session.fields["user_id"] == "user here"


def test_a_project_is_shown_revised_and_listed_by_its_owner(here: Any) -> None:
    house = here.project.add("House", owner="user here")
    revised = here.project.revise(house.id, description="with a garden", version=house.version)
    assert (revised.name, revised.description, revised.version) == ("House", "with a garden", house.version + 1)
    assert here.project.show(house.id) == revised
    with pytest.raises(VersionConflict):
        here.project.revise(house.id, name="Hut", version=house.version)
    with pytest.raises(InvalidInput, match="nothing to change"):
        here.project.revise(house.id)
    assert [one.id for one in here.project.list(user="user here")] == [house.id]
