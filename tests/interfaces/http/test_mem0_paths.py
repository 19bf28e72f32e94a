"""mem0's REST interface: with our keys and permissions, as mem0's own client asks.

The requests are those that mem0ai 2.2.1 sends; the package itself needs an environment of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import recollect
from serving import served

Client = httpx.Client


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with served(tmp_path_factory.mktemp("mem0"), mem0="true") as running:
        yield running


@pytest.fixture(scope="module")
def client(service: tuple[str, str]) -> Iterator[Client]:
    url, key = service
    with httpx.Client(base_url=f"{url}/mem0", headers={"Authorization": f"Token {key}"}) as opened:
        assert opened.get("/v1/ping/").json() == {"status": "ok", "org_id": "default", "project_id": "default"}
        yield opened


def told(response: httpx.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


def add(client: Client, text: str, **more: Any) -> str:
    given = {"messages": [{"role": "user", "content": text}], "infer": False, **more}
    return str(told(client.post("/v3/memories/add/", json=given))["results"][0]["id"])


def test_a_memory_from_its_adding_to_its_end(client: Client) -> None:
    id = add(client, "Alice 喝茶", user_id="alice", metadata={"n": 1})
    assert told(client.get(f"/v1/memories/{id}/"))["memory"] == "Alice 喝茶"
    found = told(client.post("/v3/memories/search/", json={"query": "喝茶", "filters": {"user_id": "alice"}}))
    assert [one["id"] for one in found["results"]] == [id]
    assert (
        told(client.put(f"/v1/memories/{id}/", json={"text": "Alice drinks cocoa"}))["memory"] == "Alice drinks cocoa"
    )
    assert [one["event"] for one in told(client.get(f"/v1/memories/{id}/history/"))] == ["ADD", "UPDATE"]
    page = told(client.post("/v3/memories/", json={"filters": {"user_id": "alice"}}, params={"page": 1}))
    assert (page["count"], page["next"], [one["id"] for one in page["results"]]) == (1, None, [id])
    assert told(client.get("/v1/entities/"))["results"][0]["name"] == "alice"
    told(client.delete(f"/v1/memories/{id}/"))
    gone = client.get(f"/v1/memories/{id}/")
    assert (gone.status_code, gone.json()["detail"]) == (404, f"Memory with id {id} not found")


def test_many_at_once_and_owners(client: Client) -> None:
    made = [add(client, f"fact {n}", user_id="bob", agent_id="bot") for n in range(4)]
    told(client.put("/v1/batch/", json={"memories": [{"memory_id": made[0], "text": "changed"}]}))
    told(client.request("DELETE", "/v1/batch/", json={"memories": [{"memory_id": made[1]}]}))
    told(client.delete("/v1/memories/", params={"user_id": "bob", "agent_id": "nobody"}))
    kept = told(client.post("/v2/memories/", json={"filters": {"AND": [{"user_id": "bob"}]}}))["results"]
    assert sorted(one["memory"] for one in kept) == ["changed", "fact 2", "fact 3"]
    told(client.delete("/v2/entities/user/bob/"))
    assert told(client.post("/v3/memories/", json={"filters": {"user_id": "bob"}}))["count"] == 0


def test_the_paths_of_mem0s_own_server(client: Client) -> None:
    given = {"messages": [{"role": "user", "content": "I prefer tea over coffee."}], "user_id": "carol"}
    id = told(client.post("/memories", json=given))["results"][0]["id"]
    assert told(client.get("/memories", params={"user_id": "carol"}))["results"][0]["id"] == id
    assert told(client.post("/search", json={"query": "tea", "user_id": "carol"}))["results"][0]["id"] == id
    assert told(client.get(f"/memories/{id}"))["memory"] == "I prefer tea over coffee"
    assert len(told(client.get(f"/memories/{id}/history"))) == 1
    told(client.delete("/memories", params={"user_id": "carol"}))
    assert told(client.get("/memories", params={"user_id": "carol"}))["results"] == []


def test_keys_and_permissions_are_those_of_the_rest(client: Client, service: tuple[str, str]) -> None:
    url, key = service
    id = add(client, "Dora likes tea", user_id="dora")
    with recollect.connect(url, key) as mem:
        mem.user.add("Eve", id="eve")
        reader = mem.key.add("reader", scopes=["read"]).key
        of_eve = mem.key.add("eve", scopes=["read", "write", "delete"], user="eve").key
    asked = {"query": "tea", "filters": {"user_id": "dora"}}
    with httpx.Client(base_url=f"{url}/mem0", headers={"X-API-Key": reader}) as reading:
        assert len(told(reading.post("/v3/memories/search/", json=asked))["results"]) == 1
        assert reading.delete(f"/v1/memories/{id}/").status_code == 403
        assert reading.post("/v3/memories/add/", json={"messages": "x", "user_id": "dora"}).status_code == 403
        assert reading.delete("/v1/memories/", params={"user_id": "dora"}).status_code == 403
    with httpx.Client(base_url=f"{url}/mem0", headers={"Authorization": f"Token {of_eve}"}) as other:
        assert other.get(f"/v1/memories/{id}/").status_code == 404
        assert other.delete(f"/v1/memories/{id}/").status_code == 404
        assert other.post("/v3/memories/search/", json=asked).json().get("results", []) == []
    assert httpx.get(f"{url}/mem0/v1/ping/").status_code == 401
    assert httpx.get(f"{url}/mem0/v1/ping/", headers={"Authorization": "Token wrong"}).json()["detail"]
    assert told(client.get(f"/v1/memories/{id}/"))["memory"] == "Dora likes tea"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v3/memories/add/", {"messages": "no owner"}),
        ("POST", "/v3/memories/search/", {"query": "", "filters": {"user_id": "alice"}}),
        ("POST", "/v3/memories/search/", {"query": "x", "filters": {"n": {"near": 1}}}),
        ("POST", "/v3/memories/", {"filters": {"OR": 1}}),
        ("PUT", "/v1/batch/", {"memories": [{}]}),
        ("PUT", "/v1/memories/x/", {}),
        ("DELETE", "/v1/memories/", None),
        ("DELETE", "/v2/entities/cat/tom/", None),
        ("POST", "/v3/memories/", {"page": "x"}),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(method: str, path: str, body: Any, client: Client) -> None:
    refused = client.request(method, path, json=body)
    assert refused.status_code == 422, refused.text
    assert refused.json()["detail"] == refused.json()["error"]["message"]
