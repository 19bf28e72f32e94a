"""Who a request comes from: what the connection says, or a proxy that the settings name; never what a client wrote."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from starlette.testclient import TestClient

import recollect
from recollect.errors import InvalidSettings
from recollect.interfaces.http.client_address import client_network, parsed
from recollect.interfaces.serve import application
from recollect.settings import Settings, load
from serving import served

HTML = "<script>alert(1)</script>" * 120
Fronted = Callable[..., AbstractContextManager[Any]]


def _sign_in(url: str, number: int) -> int:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    form = urlencode({"email": f"user{number}@example.com", "password": "not the password"})
    headers = {"content-type": "application/x-www-form-urlencoded", "x-forwarded-for": f"203.0.113.{number}"}
    connection.request("POST", "/console/sign-in", form, headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_forged_addresses_do_not_get_past_the_limit_of_tries(tmp_path: Path) -> None:
    with served(tmp_path) as (url, key), recollect.connect(url, key) as remote:
        statuses = [_sign_in(url, number) for number in range(80)]
        addresses = {entry.address for entry in remote.log(action="sign in", limit=1000).entries}
    assert statuses[:20] == [401] * 20
    assert statuses.count(429) >= 50, "a few more come in while the tries refill"
    assert addresses == {"127.0.0.1"}


@pytest.fixture
def fronted(mem: Any) -> Fronted:
    """A client of a service, coming from some address, where the settings name some proxies."""

    def make(proxies: str = "", peer: str = "127.0.0.1", **server: Any) -> Any:
        named = [one for one in proxies.split() if one]
        settings = Settings(server={"upkeep_seconds": 1e6, "proxies": named, **server})
        return TestClient(
            application(mem._core, settings), "http://127.0.0.1", client=(peer, 4711), follow_redirects=False
        )

    return make


def _address_kept(mem: Any, client: Any, headers: Any) -> str | None:
    form = {"email": "nobody@example.com", "password": "not the password"}
    assert client.post("/console/sign-in", data=form, headers=headers).status_code == 401
    address: str | None = mem.log(action="sign in", limit=1).entries[0].address
    return address


@pytest.mark.parametrize(
    ("proxies", "peer", "header", "kept"),
    [
        ("", "127.0.0.1", "203.0.113.9", "127.0.0.1"),
        ("10.0.0.0/8", "127.0.0.1", "203.0.113.9", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("127.0.0.1", "127.0.0.1", "6.6.6.6, 203.0.113.9", "203.0.113.9"),
        ("127.0.0.1 10.0.0.0/8", "127.0.0.1", "6.6.6.6, 203.0.113.9, 10.1.2.3", "203.0.113.9"),
        ("127.0.0.1 10.0.0.0/8", "127.0.0.1", "10.9.9.9, 10.1.2.3", "10.9.9.9"),
        ("127.0.0.1", "127.0.0.1", f"203.0.113.9, {HTML}", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1", f"fe80::1%{HTML[:30]}", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1", "unknown", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1", "203.0.113.9:5555", "203.0.113.9"),
        ("127.0.0.1", "127.0.0.1", "[2001:DB8:0::1]:5555", "2001:db8::1"),
        ("127.0.0.1", "127.0.0.1", "::ffff:203.0.113.9", "203.0.113.9"),
        ("127.0.0.1", "::ffff:127.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("2001:db8::/32", "2001:db8::7", "203.0.113.9", "203.0.113.9"),
        ("", "a unix socket", "203.0.113.9", None),
    ],
)
def test_the_nearest_address_that_is_no_proxy_of_ours_is_the_client(
    mem: Any, fronted: Fronted, proxies: str, peer: str, header: str, kept: str | None
) -> None:
    with fronted(proxies, peer) as client:
        assert _address_kept(mem, client, {"x-forwarded-for": header}) == kept


def test_headers_that_proxies_hand_on_unread_say_nothing(mem: Any, fronted: Fronted) -> None:
    others = {"forwarded": "for=6.6.6.6;proto=https", "x-real-ip": "6.6.6.6", "x-client-ip": "6.6.6.6"}
    with fronted("127.0.0.1") as client:
        assert _address_kept(mem, client, others | {"x-forwarded-host": "evil.example"}) == "127.0.0.1"
        several = [("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "203.0.113.9")]
        assert _address_kept(mem, client, several) == "203.0.113.9"


def test_a_cookie_is_for_https_only_where_a_proxy_says_that_https_was_used(mem: Any, fronted: Fronted) -> None:
    form = {"key": mem.key.add("k", scopes=["read"]).key}
    secure = []
    for proxies, scheme in (("", "https"), ("127.0.0.1", "https"), ("127.0.0.1", "http"), ("127.0.0.1", "<b>")):
        with fronted(proxies) as client:
            answer = client.post("/console/sign-in", data=form, headers={"x-forwarded-proto": scheme})
            assert answer.status_code == 303
            secure.append("; secure" in answer.headers["set-cookie"].lower())
    assert secure == [False, True, False, False]


def test_figures_are_for_this_machine_and_not_for_who_comes_through_it(fronted: Fronted) -> None:
    with fronted() as client:
        assert client.get("/metrics").status_code == 200
        assert client.get("/metrics", headers={"x-forwarded-for": "127.0.0.1"}).status_code == 401
        assert client.get("/metrics", headers={"forwarded": "for=127.0.0.1"}).status_code == 401
    with fronted("127.0.0.1") as client:
        assert client.get("/metrics").status_code == 401
    with fronted(peer="192.0.2.1") as client:
        assert client.get("/metrics", headers={"x-forwarded-for": "127.0.0.1"}).status_code == 401


def test_a_name_given_by_a_header_is_not_believed(fronted: Fronted) -> None:
    with fronted("127.0.0.1", hosts=["memory.example"]) as client:
        forged = {"host": "evil.example", "x-forwarded-host": "memory.example"}
        assert client.get("/console/sign-in", headers=forged).status_code == 422
        assert client.get("/console/sign-in", headers={"host": "memory.example"}).status_code == 200


def test_a_client_is_limited_by_what_it_can_choose_its_address_from() -> None:
    assert client_network("2001:db8::1") == client_network("2001:db8::ffff:1") != client_network("2001:db8:0:1::1")
    assert client_network("203.0.113.9") != client_network("203.0.113.8")
    assert parsed(HTML) is None


def test_only_addresses_and_networks_can_be_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_SERVER__PROXIES", "10.0.0.0/8,::1")
    assert load().server.proxies == ["10.0.0.0/8", "::1/128"]
    for wrong in ("*", "localhost", "10.0.0.1/8", "unix"):
        with pytest.raises(InvalidSettings, match="proxies"):
            load(server={"proxies": [wrong]})


def test_an_origin_that_cannot_be_read_is_a_stranger(mem: Any, fronted: Fronted) -> None:
    key = mem.key.add("k", scopes=["read"]).key
    with fronted() as client:
        strange = {"origin": "http://[", "authorization": f"Bearer {key}"}
        assert client.post("/mcp", json={}, headers=strange).status_code == 403
