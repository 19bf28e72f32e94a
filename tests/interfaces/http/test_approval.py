"""Approval over HTTP: the key of a worker proposes, who may govern decides. Citations as JavaScript writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from recollect.interfaces.serve import application
from recollect.settings import Settings


@pytest.fixture
def doors(mem: Any) -> Iterator[dict[str, Any]]:
    """Clients of a service with the key of a worker, and with that of Ann, a curator."""
    mem.user.add("Ann", id="ann")
    mem.user.revise("ann", role="curator")
    keys = {
        "worker": mem.key.add("worker").key,
        "ann": mem.key.add("ann", user="ann", own_only=False, scopes=["read", "govern"]).key,
    }
    app = application(mem._core, Settings(server={"upkeep_seconds": 1e6}))
    with TestClient(app, "http://127.0.0.1", client=("127.0.0.1", 50000)) as client:

        def door(key: str) -> Any:
            def call(method: str, path: str, status: int = 200, **given: Any) -> Any:
                answer = client.request(method, f"/v1{path}", headers={"authorization": f"Bearer {key}"}, **given)
                assert answer.status_code == status, answer.text
                return answer.json()

            return call

        yield {name: door(key) for name, key in keys.items()}


def test_the_key_of_a_worker_proposes_and_a_curator_decides(mem: Any, doors: dict[str, Any]) -> None:
    worker, ann = doors["worker"], doors["ann"]
    mem.agent.add("Bee", id="bee")
    run = worker("POST", "/runs", json={"goal": "collect", "agent": "bee", "approve": "always"})["id"]
    fence = worker("POST", "/runs/claim", json={"worker": "w"})["fence"]
    proposed = worker("POST", f"/runs/{run}/propose", json={"fence": fence, "tool": "fly"})
    assert proposed["waiting"]
    (waiting,) = ann("GET", "/approvals", params={"agent": "bee"})["steps"]
    assert (waiting["run"], waiting["cycle"], waiting["tool"]) == (run, proposed["cycle"], "fly")
    for verb in ("approve", "reject"):
        refused = worker("POST", f"/runs/{run}/{verb}", 403, json={"why": "I say so"})["error"]
        assert refused["message"] == f"run.{verb} needs the permission 'govern'"
    ann("POST", f"/runs/{run}/reject", 422, json={"step": 1})  # without a reason
    assert ann("POST", f"/runs/{run}/reject", json={"step": 1, "why": "no flying"})["status"] == "queued"
    ann("POST", f"/runs/{run}/approve", 409, json={"step": 1})
    last = worker("POST", "/runs/claim", json={"worker": "w"})["last"]
    assert (last["error"]["message"], last["error"]["by"]) == ("no flying", "ann")
    assert worker("GET", "/agents/bee/cycles/0")["error"]["code"] == "rejected"
    assert worker("GET", "/cycles", params={"agent": "bee"})["total"] == 1
    worker("GET", "/agents/bee/cycles/1", 404)


def test_citations_in_camel_case_are_taken_and_shown_as_ours(mem: Any, doors: dict[str, Any]) -> None:
    worker, ann = doors["worker"], doors["ann"]
    job = {"type": "log", "logId": "ci/7", "timestamp": "2026-03-04T12:00:00Z", "context": "npm test", "excerpt": "ok"}
    commit = {"type": "commit", "hash": "0123456", "repo": "app", "message": "Fix", "diffSummary": "+1"}
    id = worker("POST", "/memories", json={"content": "the tests pass", "cites": [job]})["id"]
    worker("POST", f"/memories/{id}/citations", json={"cites": [commit]})
    shown = {one["type"]: one["evidence"] for one in worker("GET", f"/memories/{id}")["citations"]}
    assert (shown["log"]["log_id"], shown["log"]["excerpt"]) == ("ci/7", "ok")
    assert shown["commit"]["diff_summary"] == "+1"
    assert ann("POST", f"/memories/{id}/promote", json={})["status"] == "verified"
    wrong = worker("POST", f"/memories/{id}/citations", 422, json={"cites": [{"type": "log", "logID": "7"}]})["error"]
    assert "log_id" in wrong["remedy"]
