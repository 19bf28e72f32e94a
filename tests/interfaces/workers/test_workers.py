"""A service of two workers, in real processes on a real port: whichever answers, it is one service."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import recollect
from console_pages import PASSWORD
from every_store import EMPTY_STORE
from recollect.domain.agents import Lease
from recollect.ports.records import Scope
from recollect.services.background import LEASE
from seeds import SOAK
from serving import Running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks the workers up in /proc")
MCP_HEADERS = {"accept": "application/json, text/event-stream"}


class Door:
    """A connection that stays with one worker."""

    def __init__(self, running: Running, key: str | None = None) -> None:
        self._connection = HTTPConnection("127.0.0.1", running.port, timeout=60)
        self._headers = {"authorization": f"Bearer {key or running.key}"}
        assert self.ask("GET", "/health")[0] == 200
        self.worker = worker_of(running, self._connection.sock)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        given = {"content-type": "application/json", **self._headers, **headers}
        self._connection.request(method, path, None if body is None else json.dumps(body), given)
        answer = self._connection.getresponse()
        told, self.headers = answer.read(), answer.headers
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(told) if is_json and told else told.decode()

    def form(self, path: str, **fields: str) -> int:
        headers = {"content-type": "application/x-www-form-urlencoded"}
        self._connection.request("POST", path, urlencode(fields), headers)
        answer = self._connection.getresponse()
        answer.read()
        self.headers = answer.headers
        return answer.status

    def use(self, cookie: str) -> None:
        self._headers = {"cookie": cookie}

    def close(self) -> None:
        self._connection.close()


def workers_of(running: Running) -> list[int]:
    pid = running.process.pid
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def worker_of(running: Running, ours: socket.socket | None) -> int:
    """Who has the other end of a connection."""
    assert ours is not None
    theirs, port = f":{running.port:04X}", f":{ours.getsockname()[1]:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    # By both ends: to another server, a connection may come from the same port.
    inode = next(one[9] for one in lines if one[1].endswith(theirs) and one[2].endswith(port))
    return next(worker for worker in workers_of(running) if f"socket:[{inode}]" in files_of(worker))


def files_of(process: int) -> set[str]:
    found = set()
    for file in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.add(os.readlink(file))
    return found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    service = Running(tmp_path_factory.mktemp("two"), workers=2, server__upkeep_seconds="0.2")
    yield service
    assert service.end(signal.SIGINT) == 0


@pytest.fixture
def doors(running: Running) -> Iterator[tuple[Door, Door]]:
    with doors_of(running) as opened:
        yield opened


@contextmanager
def doors_of(running: Running) -> Iterator[tuple[Door, Door]]:
    """One to each worker: who has fewer connections takes the next, unless it is too busy to."""
    opened: dict[int, Door] = {}
    with ExitStack() as stack:
        while len(opened) < 2:
            door = Door(running)
            stack.callback(door.close)
            opened[door.worker] = door
        one, two = opened.values()
        yield one, two


def test_it_says_once_that_it_listens_and_where_the_key_is(running: Running) -> None:
    assert running.said.count("listens on") == running.said.count("owner's key") == 1
    assert "with 2 workers" in running.said


def burst(running: Running) -> list[int]:
    """How many of twenty connections that come at once each worker takes."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_connection(("127.0.0.1", running.port))) for _ in range(20)]
        for one in sockets:
            one.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        for one in sockets:
            assert one.recv(1000).startswith(b"HTTP/1.1 200")
        taken = [worker_of(running, one) for one in sockets]
    return [taken.count(worker) for worker in workers_of(running)]


def test_connections_are_shared_out_evenly_also_in_a_burst(running: Running) -> None:
    # On a machine with much else to do a worker may get no turn while the other takes all of one burst.
    assert any(min(burst(running)) >= 5 for _ in range(5))


def test_what_one_writes_the_other_recalls_at_once(doors: tuple[Door, Door]) -> None:
    written_and_recalled(doors)


# Every day one of the stores that are servers themselves.
@pytest.mark.parametrize("kind", ["postgres", "dynamodb"] if SOAK else ["postgres"])
def test_so_it_is_where_the_store_is_a_server_and_when_a_worker_is_killed(tmp_path: Path, kind: str) -> None:
    key_file = str(tmp_path / "s.db.owner-key")
    service = Running(tmp_path, workers=2, source=EMPTY_STORE[kind](tmp_path), server__key_file=key_file)
    try:
        with doors_of(service) as doors:
            written_and_recalled(doors)
            _, made = doors[0].ask("POST", "/v1/memories", {"content": "The quagga was acknowledged"})
            os.kill(doors[0].worker, signal.SIGKILL)
            assert doors[1].ask("GET", f"/v1/memories/{made['id']}")[0] == 200
        deadline = time.monotonic() + 60
        while len(workers_of(service)) < 2:  # another one takes its place
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with doors_of(service) as doors:
            written_and_recalled(doors)
    finally:
        assert service.end(signal.SIGINT) == 0


def written_and_recalled(doors: tuple[Door, Door]) -> None:
    for number in range(6):
        writer, reader = doors[number % 2], doors[1 - number % 2]
        status, made = writer.ask("POST", "/v1/memories", {"content": f"The zebra of day {number} is striped"})
        assert status == 200
        _, found = reader.ask("POST", "/v1/recall", {"query": f"zebra of day {number}", "limit": 1})
        assert found["hits"][0]["id"] == made["id"]
        changed = {"content": f"The okapi of day {number}"}
        assert reader.ask("PATCH", f"/v1/memories/{made['id']}", changed)[0] == 200
        _, found = writer.ask("POST", "/v1/recall", {"query": f"okapi of day {number}", "limit": 1})
        assert found["hits"][0]["text"] == f"The okapi of day {number}"
        assert writer.ask("DELETE", f"/v1/memories/{made['id']}")[0] == 200
        _, found = reader.ask("POST", "/v1/recall", {"query": f"okapi of day {number}", "limit": 1})
        assert made["id"] not in [hit["id"] for hit in found["hits"]]


def test_a_request_repeated_at_another_worker_is_carried_out_once(doors: tuple[Door, Door]) -> None:
    given = {"content": "once and no more", "idempotency_key": "the same"}
    first, second = (door.ask("POST", "/v1/memories", given)[1] for door in doors)
    assert first["id"] == second["id"]


def test_a_key_revoked_at_one_is_refused_by_the_other_at_once(running: Running, doors: tuple[Door, Door]) -> None:
    one, two = doors
    made = one.ask("POST", "/v1/keys", {"name": "short", "scopes": ["read"]})[1]
    bearer = f"Bearer {made['key']}"
    assert two.ask("GET", "/v1/stats", authorization=bearer)[0] == 200
    assert one.ask("POST", f"/v1/keys/{made['id']}/revoke")[0] == 200
    assert two.ask("GET", "/v1/stats", authorization=bearer)[0] == 401
    assert one.ask("GET", "/v1/stats", authorization=bearer)[0] == 401


def test_the_limits_of_a_key_hold_for_all_workers_together(doors: tuple[Door, Door]) -> None:
    for limit in ("rate_per_minute", "requests_per_day"):
        asked = {"name": limit, "scopes": ["read"], limit: 5}
        bearer = f"Bearer {doors[0].ask('POST', '/v1/keys', asked)[1]['key']}"
        told = [door.ask("GET", "/v1/stats", authorization=bearer)[0] for door in doors * 4]
        assert told == [200] * 5 + [429] * 3, limit


def test_passwords_are_guessed_no_more_often_with_more_workers(doors: tuple[Door, Door]) -> None:
    given = {"email": "nobody@example.com", "password": "wrong words here"}
    told = [door.ask("POST", "/v1/sign-in", given)[0] for door in doors * 4]
    assert told == [401] * 6 + [429] * 2


def test_who_signed_in_to_the_console_at_one_is_signed_in_at_the_other(doors: tuple[Door, Door]) -> None:
    one, two = doors
    person = {"name": "Maya", "email": "maya@example.com", "password": PASSWORD, "role": "writer"}
    assert one.ask("POST", "/v1/users", person)[0] == 200
    assert one.form("/console/sign-in", email="maya@example.com", password=PASSWORD) == 303
    cookie = one.headers["set-cookie"].partition(";")[0]
    two.use(cookie)
    status, page = two.ask("GET", "/console")
    proof = re.search(r'name="recollect-proof" content="([0-9a-f]+)"', page)
    assert status == 200
    assert proof is not None
    one.use(cookie)
    note = {"content": "written on a page that the other worker drew"}
    assert one.ask("POST", "/v1/memories", note)[0] == 403
    assert one.ask("POST", "/v1/memories", note, **{"x-recollect-csrf": proof[1]})[0] == 200
    assert one.ask("POST", "/console/sign-out", **{"x-recollect-csrf": proof[1]})[0] == 204
    assert two.ask("GET", "/console")[0] == 303


def test_a_conversation_over_mcp_goes_on_at_another_worker(doors: tuple[Door, Door]) -> None:
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
    status, begun = doors[0].ask("POST", "/mcp", begin, **MCP_HEADERS)
    assert status == 200
    assert begun["result"]["serverInfo"]
    go_on = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert doors[1].ask("POST", "/mcp", go_on, **MCP_HEADERS)[0] == 202
    version = {"mcp-protocol-version": begun["result"]["protocolVersion"]}
    for number, door in enumerate(doors[::-1] * 2):
        call = {"name": "list", "arguments": {"limit": 1}}
        asked = {"jsonrpc": "2.0", "id": 2 + number, "method": "tools/call", "params": call}
        status, told = door.ask("POST", "/mcp", asked, **MCP_HEADERS, **version)
        assert status == 200
        assert not told["result"].get("isError")


def test_figures_are_those_of_all_workers(doors: tuple[Door, Door]) -> None:
    def told(name: str, door: Door) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", door.ask("GET", "/metrics")[1], re.MULTILINE)
        return float(found[1]) if found else 0.0

    name = 'recollect_requests_total{operation="show",status="404"}'
    before = told(name, doors[0])
    for door in doors * 3:
        assert door.ask("GET", "/v1/memories/nothing")[0] == 404
    assert [told(name, door) - before for door in doors] == [6, 6]
    assert [told("recollect_workers", door) for door in doors] == [2, 2]
    assert [told("recollect_requests_inside", door) for door in doors] == [0, 0]


def test_one_worker_does_the_background_work(running: Running, doors: tuple[Door, Door]) -> None:
    """Both look for it five times a second."""
    holders = set()
    with recollect.connect(running.url, running.key) as mem:
        seals = mem.audit.verify().seals
        while mem.audit.verify().seals < seals + 3:
            with recollect.open(running.folder / "s.db", embedder="hash", background=False) as opened:
                lease = opened._core.store.get(Scope("default"), Lease, LEASE)
                holders.add(lease.holder if lease else None)
    assert len(holders) == 1
    assert None not in holders
