"""Nothing of the service's machine is read for a caller, unless the operator named its folder; and then not told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import recollect
from probing import sample
from recollect.catalogue import OPERATIONS, Operation
from recollect.domain.access import PERMISSIONS
from recollect.domain.provenance import line_hash
from recollect.interfaces.http.openapi import offered
from recollect.interfaces.mcp.tools import PROFILES
from recollect.interfaces.mcp.tools import offered as tools
from recollect.interfaces.serve import application
from recollect.ports.records import Scope
from recollect.services.access import keys
from recollect.settings import Settings

SECRET = "DB_PASSWORD=tr0ub4dor"


class Door:
    """A service in this process, asked over HTTP and over MCP with one key."""

    def __init__(self, folder: Path, kind: str = "s.db", **settings: Any) -> None:
        address = str(folder / kind) if "://" not in kind else kind
        self.mem = recollect.open(address, embedder="hash", **settings)
        made = Settings(store=address, server={"rate_per_minute": 10**9, "upkeep_seconds": 1e6}, **settings)
        app = application(self.mem._core, made)
        self.client = TestClient(app, "http://127.0.0.1", raise_server_exceptions=False)
        self.key = self.key_with(PERMISSIONS)

    def key_with(self, scopes: Any, user: str | None = None) -> str:
        request = keys.AddKeyRequest(name="probe", scopes=list(scopes), user=user)
        return keys.add_key(self.mem._core.for_scope(Scope("default")), request).key

    def http(self, method: str, path: str, **more: Any) -> Any:
        return self.client.request(method, path, headers={"authorization": f"Bearer {self.key}"}, **more)

    def remembered(self, *cites: Any) -> Any:
        return self.http("POST", "/v1/memories", json={"content": f"cites {len(cites)}", "cites": list(cites)})

    def tool(self, name: str, /, **fields: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": fields}}
        headers = {"authorization": f"Bearer {self.key}", "accept": "application/json, text/event-stream"}
        return self.client.post("/mcp?profile=all", json=message, headers={**headers, "host": "localhost"}).json()


@contextmanager
def door(folder: Path, kind: str = "s.db", **settings: Any) -> Iterator[Door]:
    made = Door(folder, kind, **settings)
    with made.mem, made.client:
        yield made


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with something to find: beside the store, and in a folder of its own."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "env").write_text(f"HOST=db\n{SECRET}\n")
    (tmp_path / "keys.json").write_text(SECRET + "\n")
    git(tmp_path / "private", "init", "-q", "-b", "main")
    git(tmp_path / "private", "commit", "-q", "--allow-empty", "-m", "The very secret plan")
    (tmp_path / "srv").mkdir()
    return tmp_path


def git(place: Path, *arguments: str) -> str:
    made = subprocess.run(
        ["git", "-C", str(place), "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments],
        env={"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull},
        check=True,
        capture_output=True,
    )
    return made.stdout.decode().strip()


def told(answer: Any, path: str) -> tuple[int, str]:
    """An answer without what differs in any case: the request's id, and the name that was given."""
    said = answer.json()
    said.get("error", {}).pop("request_id", None)
    return answer.status_code, json.dumps(said, sort_keys=True).replace(path, "PATH")


OUTSIDE = [
    "/etc/passwd",
    "/proc/self/environ",
    "/dev/zero",
    "../keys.json",
    "{here}/private/env",
    "{here}/srv/../keys.json",
]


@pytest.mark.parametrize("rooted", [False, True], ids=["no roots", "roots"])
@pytest.mark.parametrize("path", OUTSIDE)
class TestOutside:
    """A file outside, against one that is not there at all."""

    @pytest.fixture
    def service(self, machine: Path, rooted: bool) -> Iterator[Door]:
        roots: dict[str, Any] = {"citation_roots": [machine / "srv"]} if rooted else {}
        with door(machine, **roots) as made:
            yield made

    @pytest.fixture
    def pair(self, path: str, machine: Path, rooted: bool) -> tuple[str, str]:
        path = path.format(here=machine)
        return path, f"{machine}/srv/absent.txt" if rooted else f"{path}-absent"

    def test_it_cannot_be_cited_any_more_than_what_is_not_there(self, service: Door, pair: tuple[str, str]) -> None:
        for lines in ({}, {"first_line": 1, "last_line": 1}, {"first_line": 1, "last_line": 10**6}, {"first_line": 1}):
            said = [told(service.remembered({"type": "file", "path": one, **lines}), one) for one in pair]
            assert said[0] == said[1]
            assert said[0][0] == 422

    def test_a_hash_given_with_it_is_not_compared(self, service: Door, pair: tuple[str, str]) -> None:
        said = []
        for one in pair:
            cited = {"type": "file", "path": one, "first_line": 2, "last_line": 2, "line_hash": line_hash([SECRET])}
            id = service.remembered(cited).json()["id"]
            promoted = service.http("POST", f"/v1/memories/{id}/promote", json={})
            checked = service.http("POST", "/v1/check", json={"id": id})
            shown = service.http("GET", "/v1/citations", params={"memories": id}).json()["citations"][0]
            assert shown["evidence"]["line_hash"].startswith("k1:")
            kept = {name: shown[name] for name in ("state", "note", "type")} | {"fields": sorted(shown["evidence"])}
            said.append((told(promoted, one)[1].replace(id, "ID"), told(checked, one), repr(kept).replace(one, "PATH")))
            service.http("DELETE", f"/v1/memories/{id}")
        assert said[0] == said[1]
        assert "'unreachable'" in said[0][2]

    def test_so_it_is_over_mcp(self, service: Door, pair: tuple[str, str]) -> None:
        said = [
            json.dumps(service.tool("remember", content="x", cites=[f"file:{one}:1-2"])).replace(one, "PATH")
            for one in pair
        ]
        assert said[0] == said[1]
        assert '"isError": true' in said[0]


@pytest.mark.parametrize("rooted", [False, True], ids=["no roots", "roots"])
def test_a_repository_outside_looks_like_none(machine: Path, rooted: bool) -> None:
    commit = git(machine / "private", "rev-parse", "HEAD")
    roots: dict[str, Any] = {"citation_roots": [machine / "srv"]} if rooted else {}
    with door(machine, **roots) as service:
        said = set()
        for repo in (
            f"{machine}/private",
            f"{machine}/absent",
            "--upload-pack=touch /tmp/x",
            f"{machine}/srv/../private",
        ):
            id = service.remembered({"type": "commit", "hash": commit, "repo": repo, "message": "secret"}).json()["id"]
            service.http("POST", "/v1/check", json={"id": id})
            shown = service.http("GET", "/v1/citations", params={"memories": id}).json()["citations"][0]
            said.add((shown["state"], shown["note"].replace(repo, "REPO")))
            service.http("DELETE", f"/v1/memories/{id}")
        assert said == {("unreachable", "there is no repository 'REPO' on this machine")}


class TestInside:
    @pytest.fixture
    def service(self, machine: Path) -> Iterator[Door]:
        (machine / "srv" / "app.ini").write_text(f"timeout=5\n{SECRET}\n")
        with door(machine, citation_roots=[machine / "srv"], citation_root=machine / "srv") as made:
            yield made

    def test_lines_are_cited_and_checked(self, service: Door, machine: Path) -> None:
        id = service.remembered("file:app.ini:1-2").json()["id"]
        assert service.http("POST", f"/v1/memories/{id}/promote", json={}).json()["status"] == "verified"
        (machine / "srv" / "app.ini").unlink()
        assert service.http("POST", "/v1/check", json={"id": id}).json()["demoted"] == [id]

    def test_neither_the_number_of_lines_nor_an_open_end_is_told(self, service: Door) -> None:
        absent = told(service.remembered("file:absent.ini:1-9"), "absent.ini")
        assert told(service.remembered("file:app.ini:1-9"), "app.ini") == absent
        assert service.remembered({"type": "file", "path": "app.ini", "first_line": 1}).status_code == 422

    def test_no_reply_of_any_door_has_a_plain_hash(self, service: Door) -> None:
        id = service.remembered("file:app.ini:2").json()["id"]
        paths = (f"/v1/memories/{id}", "/v1/citations", "/v1/export", f"/console/memories/{id}", "/console/citations")
        said = [service.http("GET", path).text for path in paths]
        said += [service.http("POST", f"/v1/{one}", json={"query": "cites"}).text for one in ("recall", "context")]
        said += [
            json.dumps(service.tool(one, **fields)) for one, fields in (("show", {"id": id}), ("citation_list", {}))
        ]
        assert all(line_hash([SECRET]).removeprefix("l1:") not in one for one in said)
        assert sum("k1:" in one for one in said) >= 6

    def test_a_keyed_hash_can_be_given_back(self, service: Door, machine: Path) -> None:
        id = service.remembered("file:app.ini:2").json()["id"]
        evidence = service.http("GET", f"/v1/memories/{id}").json()["citations"][0]["evidence"]
        again = service.http("POST", "/v1/memories", json={"content": "the same again", "cites": [evidence]}).json()[
            "id"
        ]
        assert service.http("POST", "/v1/check", json={"id": again}).json()["holds"] == 1
        (machine / "srv" / "app.ini").write_text("timeout=5\nDB_PASSWORD=other\n")
        assert service.http("POST", "/v1/check", json={"id": again}).json()["broken"] == 1

    def test_keys_differ_by_organization(self, service: Door) -> None:
        keyring, hash = service.mem._core.keyring, line_hash([SECRET])
        service.mem.within("other")
        assert keyring.keyed(Scope("default"), hash) == keyring.keyed(Scope("default", "x"), hash)
        assert keyring.keyed(Scope("default"), hash) != keyring.keyed(Scope("other"), hash)

    @pytest.mark.parametrize("make", ["link", "folder", "pipe", "huge", "device"])
    def test_what_only_looks_like_a_file_inside_is_not_there(self, service: Door, machine: Path, make: str) -> None:
        place = machine / "srv" / "odd"
        made: dict[str, Callable[[], Any]] = {
            "link": lambda: place.symlink_to(machine / "keys.json"),
            "folder": lambda: place.symlink_to(machine / "private"),
            "pipe": lambda: os.mkfifo(place),
            "huge": lambda: os.truncate(os.open(place, os.O_CREAT | os.O_WRONLY), 10**9),
            "device": lambda: place.symlink_to("/dev/zero"),
        }
        made[make]()
        path = "odd/env" if make == "folder" else "odd"
        assert told(service.remembered(f"file:{path}"), path) == told(service.remembered("file:absent"), "absent")

    def test_a_repository_that_keeps_its_objects_outside_is_not_there(self, service: Door, machine: Path) -> None:
        (machine / "srv" / "clone").mkdir()
        (machine / "srv" / "clone" / ".git").write_text(f"gitdir: {machine}/private/.git\n")
        commit = git(machine / "private", "rev-parse", "HEAD")
        id = service.remembered(f"commit:{commit}@clone").json()["id"]
        assert service.http("POST", "/v1/check", json={"id": id}).json()["unreachable"] == 1

    def test_a_repository_runs_nothing(self, service: Door, machine: Path) -> None:
        clone = machine / "srv" / "clone"
        clone.mkdir()
        git(clone, "init", "-q", "-b", "main")
        git(clone, "commit", "-q", "--allow-empty", "-m", "One")
        script = machine / "run.sh"
        script.write_text(f"#!/bin/sh\ntouch {machine}/ran\n")
        script.chmod(0o755)
        for name in (
            "core.fsmonitor",
            "core.sshCommand",
            "core.pager",
            "gpg.program",
            "diff.external",
            "alias.cat-file",
        ):
            git(clone, "config", name, str(script))
        git(clone, "config", "log.showSignature", "true")
        id = service.remembered(f"commit:{git(clone, 'rev-parse', 'HEAD')}@clone").json()["id"]
        assert service.http("POST", "/v1/check", json={"id": id}).json()["holds"] == 1
        assert not (machine / "ran").exists()


def test_the_root_of_the_machine_has_no_processes_and_devices_in_it(machine: Path) -> None:
    with door(machine, citation_roots=[Path("/")]) as service:
        assert service.remembered(f"file:{machine}/keys.json:1").status_code == 200
        for path in ("/proc/self/environ", "/proc/self/cwd/keys.json", "/sys/kernel/mm/ksm/run", "/dev/null"):
            assert service.remembered(f"file:{path}").status_code == 422, path


def test_what_the_operator_cites_on_the_machine_is_neither_shown_nor_taken_away_by_the_service(machine: Path) -> None:
    with door(machine) as service:
        mine = service.mem.remember("the password is old", cites=[f"file:{machine}/private/env:2"])
        assert service.mem.promote(mine.id).status == "verified"
        found = service.http("POST", "/v1/check", json={"id": mine.id}).json()
        assert (found["unreachable"], found["demoted"]) == (1, [])
        shown = service.http("GET", f"/v1/memories/{mine.id}").json()
        assert (shown["status"], shown["citations"][0]["state"]) == ("verified", "holds")
        assert line_hash([SECRET]) not in json.dumps(shown)
        again = service.http("POST", f"/v1/memories/{mine.id}/promote", json={"to": "published"})
        assert again.status_code == 409  # nothing was seen to hold just now
        assert service.mem.show(mine.id).citations[0].evidence["line_hash"] == line_hash([SECRET])
        (machine / "private" / "env").write_text("HOST=db\n")
        assert service.mem.check(mine.id).demoted == [mine.id]


def test_the_files_of_workspaces_can_always_be_cited(machine: Path) -> None:
    with door(machine) as service:
        agent = service.mem.agent.add("a").id
        place = service.mem.workspace.add(agent, "w").id
        service.mem.workspace.write(place, "notes.md", "one\ntwo\n")
        id = service.remembered(f"file:workspace:{place}/notes.md:1-2").json()["id"]
        assert service.http("POST", f"/v1/memories/{id}/promote", json={}).json()["status"] == "verified"


def test_sql_shows_no_hash_and_no_secret(machine: Path) -> None:
    (machine / "srv" / "app.ini").write_text(SECRET + "\n")
    settings = {"citation_roots": [machine / "srv"], "citation_root": machine / "srv"}
    with door(machine, f"duckdb:///{machine}/s.duckdb", **settings) as service:
        service.remembered("file:app.ini:1")
        service.http("GET", "/v1/citations")  # now there is a secret
        ask = {"statement": "SELECT evidence FROM citation"}
        shown = service.http("POST", "/v1/sql", json=ask).json()["rows"][0][0]
        assert (shown["path"], "line_hash" in shown) == ("app.ini", False)
        assert "line_hash" in service.mem.sql(ask["statement"]).rows[0][0]
        columns = service.http("POST", "/v1/sql", json={"statement": "SELECT * FROM organization"}).json()["columns"]
        assert "secret" not in columns


# -- every operation ---------------------------------------------------------------------------------------------------

TOUCHED: list[str] = []
LOOKING_FOR: list[str] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if LOOKING_FOR and (event in ("open", "subprocess.Popen") or event.startswith(("os.", "shutil.", "pathlib."))):
        said = repr(arguments)
        if any(word in said for word in LOOKING_FOR):
            TOUCHED.append(f"{event} {said[:200]}")


@pytest.fixture(scope="module")
def watching() -> None:
    """What this process opens, lists, makes, moves or runs; a hook cannot be taken away, so it sleeps between uses."""
    sys.addaudithook(_watch)


def _values(operation: Operation, field: str, bait: str) -> list[Any]:
    if field == "cites":
        return [[f"file:{bait}:1"], [f"commit:abc1234@{bait}"], [{"type": "file", "path": bait, "line_hash": "l1:00"}]]
    if field == "statement":
        return [f"SELECT * FROM read_text('{bait}')", f"COPY memory TO '{bait}'"]
    annotation = str(operation.request.model_fields[field].annotation)
    if "str" not in annotation and "Any" not in annotation:
        return []
    return [[bait] if "list" in annotation else {bait: bait} if "dict" in annotation else bait]


@pytest.mark.usefixtures("watching")
@pytest.mark.parametrize("kind", ["memory", "duckdb"])
def test_no_operation_touches_a_file_that_a_caller_names(machine: Path, kind: str) -> None:
    """Made from the catalogue: every field of every operation names a file or folder, over HTTP and over MCP."""
    bait = machine / "bait-0451"
    bait.mkdir()
    (bait / "notes.txt").write_text("bait\n")
    address = f"duckdb:///{machine}/s.duckdb" if kind == "duckdb" else "memory://"
    asked = [one for one in offered() if kind == "memory" or one.name in ("sql", "remember", "check")]
    with door(machine, address) as service:
        TOUCHED.clear()
        LOOKING_FOR.append("bait-0451")
        try:
            for operation in asked:
                for field in operation.request.model_fields:
                    for value in _values(operation, field, str(bait / "notes.txt")):
                        _asked(service, operation, sample(operation, **{field: value}))
            assert TOUCHED == []
            (bait / "notes.txt").read_text()
            assert TOUCHED  # or else nothing was watched
        finally:
            LOOKING_FOR.clear()


def _asked(service: Door, operation: Operation, fields: dict[str, Any]) -> None:
    method, _, path = operation.route.partition(" ")
    for name in list(fields):
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", str(fields[name]).strip("/").replace("/", "%2F"))
    left = {name: value for name, value in fields.items() if f"{{{name}}}" not in operation.route}
    plain = {name: value if isinstance(value, str) else json.dumps(value) for name, value in left.items()}
    sent = {"params": plain} if method in ("GET", "DELETE") else {"json": left}
    assert service.http(method, f"/v1{path}", **sent).status_code != 500
    service.tool(operation.name.replace(".", "_"), **fields)


def test_what_works_on_files_of_the_machine_is_offered_by_no_door(machine: Path) -> None:
    local = [one for one in OPERATIONS.values() if one.local]
    assert {one.name for one in local} == {
        "export", "import_", "backup", "backup.drill", "backup.remove", "privacy.export",
        "workspace.pull", "workspace.push",
    }  # fmt: skip
    assert not {one.name for one in local} & {one.name for one in offered()}
    for profile in PROFILES:
        assert not {one.name.replace(".", "_") for one in local} & set(tools(profile))
    with door(machine) as service:
        place = service.mem.workspace.add(service.mem.agent.add("a").id, "w").id
        for operation in local:
            fields = {"path": str(machine / "out"), "folder": str(machine / "private"), "id": place}
            given = {name: value for name, value in fields.items() if name in operation.request.model_fields}
            route = operation.route.removeprefix("POST ").replace("{id}", place)
            answer = service.http("POST", f"/v1{route}", json=given)
            assert answer.status_code in (400, 404, 405, 422), operation.name
            assert "error" in json.dumps(service.tool(operation.name.replace(".", "_"), **given))
            if operation.name != "import_":  # its page reads no file of the machine: one is sent to the API
                assert service.http("GET", f"/console{route}").status_code in (404, 403), operation.name
        assert not (machine / "out").exists()
        assert service.http("GET", f"/v1/workspaces/{place}/files").json()["files"] == []
