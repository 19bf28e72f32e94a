"""The service as a client meets it: fields, versions, repeats, limits, files, health, and the client over the wire."""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import recollect
from recollect.domain.access import PERMISSIONS
from recollect.domain.record import now
from recollect.domain.tenancy import ApiKey
from recollect.errors import (
    DamagedData,
    Denied,
    InvalidInput,
    NotFound,
    RateLimited,
    StoreBusy,
    Unavailable,
    VersionConflict,
)
from recollect.interfaces.http.limits import Rates, RequestLimit, Usage
from recollect.interfaces.http.log_lines import JsonLines
from recollect.interfaces.http.openapi import offered
from recollect.interfaces.serve import application, listening
from recollect.ports.records import Scope
from recollect.services.access import keys as access
from recollect.settings import ServerSettings, Settings
from serving import served


@pytest.fixture
def service(mem: Any) -> Iterator[Any]:
    """A client of a service before the open memory, with a key that may do everything."""
    settings = Settings(server={"upkeep_seconds": 1e6, "most_body_bytes": 100_000, "most_upload_bytes": 1 << 20})
    request = access.AddKeyRequest(name="all", scopes=list(PERMISSIONS))
    key = access.add_key(mem._core.for_scope(Scope("default")), request).key
    app = application(mem._core, settings)
    with TestClient(app, "http://127.0.0.1", raise_server_exceptions=False, client=("127.0.0.1", 50000)) as client:
        client.headers["authorization"] = f"Bearer {key}"
        yield client


def told(answer: Any, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json() if status < 400 else answer.json()["error"]


def test_a_memory_goes_in_and_comes_out_with_its_version(service: Any) -> None:
    made = told(service.post("/v1/memories", json={"content": "Alice prefers pytest", "tags": ["t"]}))
    shown = service.get(f"/v1/memories/{made['id']}")
    assert shown.headers["etag"] == '"1"'
    assert service.get(f"/v1/memories/{made['id']}", headers={"if-none-match": '"1"'}).status_code == 304
    path = f"/v1/memories/{made['id']}"
    assert (
        told(service.patch(path, json={"content": "Alice prefers nose"}, headers={"if-match": '"1"'}))["version"] == 2
    )
    problem = told(service.patch(path, json={"content": "no"}, headers={"if-match": '"1"'}), 409)
    assert problem["code"] == "version_conflict"
    assert told(service.get("/v1/memories", params={"tags": ["t"], "limit": 5, "metadata": "{}"}))["total"] == 1
    assert told(service.request("DELETE", path))


def test_a_repeated_request_with_its_key_is_done_once(service: Any, mem: Any) -> None:
    for _ in range(3):
        made = told(service.post("/v1/memories", json={"content": "once"}, headers={"idempotency-key": "k1"}))
    assert mem.stats().memories == 1
    assert made["id"]
    assert "idempotency" in told(service.post("/v1/sweep", json={}, headers={"idempotency-key": "k1"}), 422)["message"]
    assert "idempotency" in told(service.post("/v1/import", headers={"idempotency-key": "k1"}), 422)["message"]


def test_every_write_says_whether_it_honours_an_idempotency_key_and_keeps_to_it(service: Any) -> None:
    paths = service.get("/openapi.json").json()["paths"]
    for operation in offered():
        method, _, path = operation.route.partition(" ")
        told_of = paths[f"/v1{path}"][method.lower()]
        honoured = "idempotency_key" in operation.request.model_fields
        named = [one["name"] for one in told_of["parameters"] if one["in"] == "header"]
        assert ("Idempotency-Key" in named) == honoured == ("Accepts `Idempotency-Key`" in told_of["description"])
        assert honoured or operation.access == "read" or "Rejects `Idempotency-Key`" in told_of["description"]
        if not honoured:
            given = {"content": b"{}"} if method not in ("GET", "DELETE") else {}
            where = re.sub(r"{\w+}", "x", path)
            sent = {"idempotency-key": "k1", "content-type": "application/json"}
            answer = service.request(method, f"/v1{where}", headers=sent, **given)
            assert answer.status_code == 422, operation.name
            assert "idempotency_key" in answer.json()["error"]["message"], operation.name


@pytest.mark.parametrize(
    ("method", "path", "sent", "status"),
    [
        ("POST", "/v1/memories", {"content": b"[1]", "headers": {"content-type": "application/json"}}, 422),
        ("POST", "/v1/memories", {"content": b"{", "headers": {"content-type": "application/json"}}, 422),
        ("POST", "/v1/memories", {"content": b"[" * 90_000, "headers": {"content-type": "application/json"}}, 422),
        ("POST", "/v1/memories", {"content": b"a=1", "headers": {"content-type": "text/plain"}}, 422),
        ("POST", "/v1/memories", {"json": {"content": "x" * 100_001}}, 413),
        ("POST", "/v1/memories?content=x", {"json": {}}, 422),
        ("POST", "/v1/memories", {"json": {"content": "x", "colour": "red"}}, 422),
        ("POST", "/v1/memories/x/promote", {"json": {"id": "y", "to": "verified"}}, 422),
        ("GET", "/v1/memories", {"params": {"limit": "many"}}, 422),
        ("GET", "/v1/memories", {"params": [("limit", "1"), ("limit", "2")]}, 422),
        ("GET", "/v1/memories", {"params": {"metadata": "{"}}, 422),
        ("GET", "/v1/memories/absent", {}, 404),
        ("GET", "/v1/memories/%00", {}, 422),
        ("GET", "/v1/nothing", {}, 404),
        ("PUT", "/v1/memories", {}, 405),
        ("PATCH", "/v1/memories/x", {"json": {}, "headers": {"if-match": "soon"}}, 422),
    ],
)
def test_what_is_wrong_has_one_shape(method: str, path: str, sent: Any, status: int, service: Any) -> None:
    answer = service.request(method, path, **sent)
    problem = told(answer, status)
    assert set(problem) == {"code", "message", "remedy", "details", "request_id"}
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert problem["remedy"] or status in (404, 422)


def test_a_request_keeps_the_id_it_came_with_unless_it_is_odd(service: Any) -> None:
    assert service.get("/health", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert service.get("/health", headers={"x-request-id": "a b"}).headers["x-request-id"] != "a b"


def test_an_export_streams_and_is_imported_again(service: Any, mem: Any) -> None:
    told(service.post("/v1/memories", json={"content": "here", "tags": ["t"]}))
    exported = service.get("/v1/export")
    assert exported.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in exported.text.splitlines()]
    assert lines[0]["format"] == lines[-1]["end"]
    told(service.request("DELETE", f"/v1/memories/{mem.list().memories[0].id}"))
    assert mem.stats().memories == 0
    assert told(service.post("/v1/import", content=exported.content))["records"] > 0
    some = service.get("/v1/export", params={"metadata": '{"n": {"gte": 3}}', "kinds": ["fact"]})
    assert some.text.count('"table":"memory"') == 0
    assert told(service.get("/v1/export", params={"metadata": '{"n": {"$gtx": 3}}'}), 422)["code"] == "invalid_input"
    assert mem.recall("here").hits[0].text == "here"
    assert told(service.post("/v1/import", content=exported.content[:-9]), 500)["code"] == "damaged_data"
    assert told(service.post("/v1/import", content=b"x" * (2 << 20)), 413)["code"] == "too_large"


def test_files_of_the_machine_are_out_of_reach(service: Any) -> None:
    for path in ("/v1/backup", "/v1/export"):
        assert service.post(path, json={"path": "/tmp/x"}).status_code in (404, 405)


def test_health_and_readiness_can_fail(service: Any, mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(service.get("/ready"))["status"] == "ready"

    def busy() -> Any:
        raise StoreBusy("the store is busy", remedy="wait")

    with monkeypatch.context() as broken:
        broken.setattr(type(mem._core.store), "tenants", lambda self: busy())
        answer = service.get("/ready")
        assert told(answer, 503)["code"] == "store_busy"
        assert answer.headers["retry-after"] == "1"
    assert service.get("/ready").status_code == 200
    service.app.state.service.is_closing = True
    assert service.get("/ready").status_code == 503
    assert service.get("/health").status_code == 200


def test_figures_for_prometheus_name_operations_never_ids(service: Any) -> None:
    told(service.get("/v1/memories/absent"), 404)
    page = service.get("/metrics").text
    assert 'recollect_requests_total{operation="show",status="404"} 1' in page
    assert 'recollect_request_seconds_bucket{le="+Inf",operation="show"} 1' in page
    assert "recollect_requests_inside 0" in page
    assert "absent" not in page
    assert "_created" not in page


def test_logs_hold_no_secret_and_no_text(service: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "recollect"):
        told(service.post("/v1/memories", json={"content": "the zanzibar affair"}))
        told(service.post("/v1/recall", json={"query": "zanzibar"}))
        service.get("/v1/memories?tags=zanzibar")
        service.get("/v1/stats", headers={"authorization": "Bearer rk.secretzanzibar"})
    assert len(caplog.records) >= 4
    lines = [JsonLines().format(record) for record in caplog.records]
    for written in (caplog.text, *lines):
        assert "zanzibar" not in written
        assert service.headers["authorization"].split(".")[3] not in written
    assert {"request_id", "operation", "status", "ms"} <= json.loads(lines[0]).keys()


def test_an_unforeseen_error_leaks_nothing(service: Any, mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any) -> Any:
        raise ZeroDivisionError("the zanzibar affair")

    monkeypatch.setattr(type(mem._core.store), "get", broken)
    problem = told(service.get("/v1/memories/x"), 500)
    assert "zanzibar" not in json.dumps(problem)
    assert problem["message"] == "internal error: ZeroDivisionError"


def test_rates_and_quotas_of_a_key(service: Any, mem: Any) -> None:
    slow = mem.key.add("slow", scopes=["read"], rate_per_minute=2).key
    few = mem.key.add("few", scopes=["read"], requests_per_day=3).key
    answers = [service.get("/v1/stats", headers={"authorization": f"Bearer {slow}"}) for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    assert int(answers[2].headers["retry-after"]) in range(1, 32)
    for _ in range(2):
        told(service.get("/v1/stats", headers={"authorization": f"Bearer {few}"}))
    service.app.state.service.usage.flush()
    assert mem._core.store.get(Scope("default"), ApiKey, few.split(".")[2]).counted == 2
    answers = [service.get("/v1/stats", headers={"authorization": f"Bearer {few}"}) for _ in range(2)]
    assert [one.status_code for one in answers] == [200, 429]
    assert "daily limit" in answers[1].json()["error"]["message"]


def test_a_quota_holds_while_uses_are_written() -> None:
    """A request that read the key before its uses were written must not take them for unused."""
    stale = ApiKey(organization_id="o", name="k", key_hash="h", requests_per_day=3)
    usage = Usage(lambda key, uses: None)
    for _ in range(3):
        usage.count(stale)
    usage.flush()
    with pytest.raises(RateLimited):
        usage.count(stale)
    elsewhere = stale.changed(counted=3, counted_on=now().date().isoformat())
    with pytest.raises(RateLimited):
        Usage(lambda key, uses: None).count(elsewhere)


def test_uses_that_cannot_be_written_are_written_later() -> None:
    keys = [ApiKey(organization_id="o", id=id, name="k", key_hash=id) for id in "ab"]
    written: dict[str, int] = {}
    away = [Unavailable("away")]

    def write(key: ApiKey, uses: int) -> None:
        if away:
            raise away.pop()
        written[key.id] = uses

    usage = Usage(write)
    for key in (*keys, keys[0]):
        usage.count(key)
    with pytest.raises(Unavailable):
        usage.flush()
    usage.count(keys[0])
    usage.flush()
    assert written == {"a": 3, "b": 1}


def test_a_bucket_fills_again() -> None:
    clock = [0.0]
    rates = Rates(lambda: clock[0])
    for _ in range(60):
        rates.take("k", 60)
    with pytest.raises(RateLimited):
        rates.take("k", 60)
    rates.take("other", 60)
    clock[0] = 1.01
    rates.take("k", 60)
    with pytest.raises(RateLimited):
        rates.take("k", 60)


def test_a_full_gate_turns_away_and_recovers() -> None:
    limit = RequestLimit(1)
    with limit, pytest.raises(Unavailable), limit:
        pass
    with limit:
        assert limit.inside == 1


def test_overload_answers_503_and_recovers(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(server={"threads": 1, "waiting": 1, "upkeep_seconds": 1e6})
    key = mem.key.add("k", scopes=["read"]).key
    held = threading.Event()
    plain = type(mem._core.store).tenants

    def slow(self: Any) -> Any:
        held.wait(60)
        return plain(self)

    monkeypatch.setattr(type(mem._core.store), "tenants", slow)
    with TestClient(
        application(mem._core, settings), "http://127.0.0.1", headers={"authorization": f"Bearer {key}"}
    ) as client:
        with ThreadPoolExecutor(6) as pool:
            waiting = [pool.submit(client.get, "/ready") for _ in range(6)]
            deadline = time.monotonic() + 60
            while sum(one.done() for one in waiting) < 4 and time.monotonic() < deadline:
                time.sleep(0.01)
            held.set()
            statuses = sorted(one.result().status_code for one in waiting)
        assert statuses == [200, 200, 503, 503, 503, 503]
        assert client.get("/v1/stats").status_code == 200


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A real service in its own process: its address and the key it showed once."""
    with served(tmp_path_factory.mktemp("served")) as found:
        yield found


def test_the_client_works_the_same_over_the_wire(running: tuple[str, str]) -> None:
    with recollect.connect(*running) as mem:
        owner = mem.user.list().users[0].id  # whose key it is: nobody speaks for another
        cited = mem.remember("Alice prefers pytest", cites=[recollect.cite.user(owner, "she said so")], tags=["t"])
        assert mem.recall("pytest").hits[0].citations[0].source == f"user:{owner}"
        assert mem.promote(cited.id).status == "verified"
        assert mem.list(tags=["t"], limit=1).memories[0].id == cited.id
        assert "pytest" in mem.context("tests", tokens=200).text
        assert mem.key.list().keys[0].name == "first key"
        with pytest.raises(NotFound, match="no memory 'absent'"):
            mem.show("absent")
        with pytest.raises(InvalidInput, match="colour"):
            mem.remember("x", colour="red")  # type: ignore[call-arg]
        with pytest.raises(VersionConflict):
            mem.revise(cited.id, "y", version=9)
        with pytest.raises(InvalidInput, match="'backup' does not work over the service"):
            mem.backup("x")
        weak = mem.key.add("weak", scopes=["read"]).key
    with recollect.connect(running[0], weak) as mem, pytest.raises(Denied, match="needs the permission 'write'"):
        mem.remember("x")
    with pytest.raises(Unavailable, match="there is no service"):
        recollect.connect("http://127.0.0.1:9", "rk").remember("x")
    with pytest.raises(InvalidInput):
        recollect.connect("ftp://x", "rk")


def test_an_export_over_the_wire_is_the_same_file(running: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    with recollect.connect(*running) as mem:
        made = mem.remember("to be carried away").id
        told = mem.export(str(file))
        assert (told.path, told.records > 1, list(tmp_path.iterdir())) == (str(file), True, [file])
        mem.erase(made)
        assert mem.import_(str(file)).records > 0
        assert mem.show(made).text == "to be carried away"
        with recollect.open(tmp_path / "here.db", embedder="hash") as here:
            assert here.import_(str(file)).hash == told.hash
        file.write_bytes(file.read_bytes()[:-9])
        with pytest.raises(DamagedData):
            mem.import_(str(file))
        with pytest.raises(InvalidInput, match="cannot write"):
            mem.export(str(tmp_path / "absent" / "x.jsonl"))


def test_many_clients_at_once_lose_nothing(running: tuple[str, str]) -> None:
    def write(number: int) -> str:
        with recollect.connect(*running) as mem:
            made: str = mem.remember(f"fact number {number}").id
            return made

    with ThreadPoolExecutor(16) as pool:
        ids = list(pool.map(write, range(64)))
    with recollect.connect(*running) as mem:
        assert len({mem.show(id).text for id in ids}) == 64


def test_answers_are_sent_at_once() -> None:
    """asyncio turns off the waiting for more (Nagle) only where it sees TCP: 40 ms of each answer otherwise."""
    with listening(ServerSettings(port=0)) as (listener, _):
        assert listener.proto == socket.IPPROTO_TCP


def test_a_public_address_without_keys_is_refused(tmp_path: Path) -> None:
    from recollect.interfaces.cli.main import run

    assert run(["serve", str(tmp_path / "x.db"), "--host", "0.0.0.0", "--port", "0"]) == 2


def test_odd_requests_are_refused_and_not_broken_by(service: Any) -> None:
    """Each of these was an internal error once."""
    digits = {"if-match": f'"{"9" * 5000}"'}
    told(service.patch("/v1/memories/x", json={"content": "y"}, headers=digits), 422)
    deep = '{"content": {"a": ' + "[" * 900 + "]" * 900 + "}}"
    problem = told(service.post("/v1/memories", content=deep, headers={"content-type": "application/json"}), 422)
    assert "100 levels" in problem["message"]
    told(service.get("/v1/stats", headers={"authorization": "Bearer rk.é.é.é".encode("latin-1")}), 401)


def test_a_strangers_name_for_this_machine_is_refused(service: Any) -> None:
    """A page can point a name of its own at this machine and then ask as if it were at home."""
    for path in ("/v1/stats", "/metrics", "/openapi.json", "/console/sign-in"):
        assert "name" in told(service.get(path, headers={"host": "evil.example"}), 422)["message"]
        assert service.get(path, headers={"host": "localhost:7070"}).status_code == 200
    assert service.get("/health", headers={"host": "10.0.0.7"}).status_code == 200
    assert service.get("/v1/stats/", headers={"host": "evil.example"}).status_code == 404  # and is led nowhere


@pytest.mark.parametrize("key", ["", "Authorization: Bearer rk.a.b.c\r\n"])
def test_nothing_large_is_read_from_those_without_a_valid_key(key: str, running: tuple[str, str]) -> None:
    host, port = running[0].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        request = f"POST /v1/memories HTTP/1.1\r\nHost: {host}\r\n{key}Content-Length: 1000000\r\n\r\n"
        connection.sendall(request.encode())  # and not a byte of the body
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("pieces", [[], [b"x"], [b"x"] * 400])
def test_a_body_that_stops_coming_or_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch, pieces: list[bytes]) -> None:
    """The clock is turned by hand: each piece of the trickle takes a tenth of the time that silence may last."""
    import asyncio

    from starlette.requests import Request as Received

    from recollect.interfaces.http import body_timeouts, request_parsing

    monkeypatch.setattr(body_timeouts, "SILENT_SECONDS", 0.05)
    left = list(pieces)

    async def slowly() -> Any:
        if not left:
            await asyncio.Event().wait()
        await asyncio.sleep(0.005)
        return {"type": "http.request", "body": left.pop(), "more_body": True}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        with pytest.raises(InvalidInput, match="timed out"):
            await request_parsing.body_of(Received(scope, receive), 1000)
        assert scope["state"]["is_unread"]

    asyncio.run(body_timeouts.BodyTimeouts(app)({"type": "http", "headers": [], "state": {}}, slowly, None))  # type: ignore[arg-type]
    assert len(left) == 0 or len(left) > 300, "what trickles is not read to its end"


def test_figures_behind_a_proxy_need_the_operators_key(mem: Any) -> None:
    """There every request comes from this machine."""
    settings = Settings(server={"upkeep_seconds": 1e6, "hosts": ["memory.example"]})
    mem.within(organization="other")
    keys = [
        access.add_key(mem._core.for_scope(Scope(tenant)), access.AddKeyRequest(name="k", scopes=scopes)).key
        for tenant, scopes in (("default", ["operate"]), ("default", ["read"]), ("other", ["operate"]))
    ]
    with TestClient(application(mem._core, settings), "http://memory.example") as client:
        statuses = [client.get("/metrics", headers={"authorization": f"Bearer {key}"}).status_code for key in keys]
        assert [client.get("/metrics").status_code, *statuses] == [401, 200, 403, 403]


@pytest.mark.parametrize(
    ("path", "fields"),
    [("/v1/partitions", {"ahead": 3}), ("/v1/migrate", {"distribute": True}), ("/v1/sql", {"statement": "SELECT 1"})],
)
def test_what_a_store_can_never_do_is_no_matter_of_waiting(service: Any, path: str, fields: dict[str, Any]) -> None:
    answer = service.post(path, json=fields)
    assert told(answer, 409)["code"] == "unsupported"
    assert "retry-after" not in answer.headers


def test_only_what_may_pass_is_answered_with_when_to_try_again() -> None:
    """An error with 503 or 429 is one that waiting may mend; whatever is a kind of "cannot" has another status."""
    from recollect import errors

    waiting = {"rate_limited", "unavailable", "overloaded", "store_busy", "store_read_only", "closed", "file_replaced"}
    every = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.RecollectError)]
    assert {one.code for one in every if one.http_status in (429, 503)} == waiting
