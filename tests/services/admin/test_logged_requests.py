"""What the access log tells of a request: whom it concerns and what was asked, of texts a hash; nothing is hashed for
an operation that writes an entry of its own."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.domain.audit import AccessLog
from recollect.errors import NotFound
from recollect.ports.query import Query
from recollect.services import requests


def entries(mem: Any) -> list[tuple[str, str | None, str | None, bool, dict[str, Any]]]:
    mem._core.journal.flush()
    found = mem._core.store.find(mem._scope, Query(AccessLog)).records
    return [(one.action, one.session_id, one.agent_id, one.success, one.request_data) for one in found]


def test_a_read_without_an_entry_of_its_own_is_logged_with_its_whole_request(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "m.db", embedder="hash") as mem:
        mem.agent.add("bot", id="bot")
        mem.session.add(id="talk", agent="bot")
        before = len(entries(mem))
        mem.list(session="talk", agent="bot", limit=3, author="blue")
        mem.session.show("talk")
        text = {"sha256": sha256(b"blue").hexdigest()[:16], "length": 4}
        asked = {"session": "talk", "agent": "bot", "limit": 3, "author": text}
        assert entries(mem)[before:] == [
            ("list", "talk", "bot", True, asked),
            ("session.show", "talk", None, True, {"id": "talk"}),
        ]


def test_a_refusal_tells_no_text_in_the_place_of_an_id(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "m.db", embedder="hash") as mem:
        before = len(entries(mem))
        with pytest.raises(NotFound):
            mem.show("my secret plan")
        ((action, *_, success, asked),) = entries(mem)[before:]
        assert (action, success) == ("show", False)
        assert asked["id"]["length"] == len("my secret plan")


def test_a_change_that_logs_itself_hashes_no_text_for_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with recollect.open(tmp_path / "m.db", embedder="hash") as mem:
        hashed: list[bytes] = []
        monkeypatch.setattr(requests, "sha256", lambda raw: (hashed.append(raw), sha256(raw))[1])
        mem.remember("tea is hot", session="talk", author="Ann")
        assert hashed == []
        mem.list(author="blue")
        assert hashed == [b"blue"]
        assert {one[:3] for one in entries(mem) if one[0] == "remember"} == {("remember", "talk", None)}
