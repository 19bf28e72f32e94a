"""Words find what is in cold storage, in any language, without anything being restored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cold_sessions import contents, fill, tenant_of


def test_words_find_messages_memories_runs_and_results_in_cold_storage(mem: Any, tmp_path: Path) -> None:
    for name in ("one", "two"):
        fill(mem, name)
    mem.cold.store(session="one")
    mem.cold.store(session="two", to=str(tmp_path / "elsewhere"))
    before = contents(tenant_of(mem))
    hits = mem.cold.search("when does the ferry leave").hits
    assert {hit.session for hit in hits} == {"one", "two"}
    assert {hit.type for hit in hits} == {"message", "memory"}
    assert [hit.matched for hit in hits] == sorted((hit.matched for hit in hits), reverse=True)
    assert {hit.id for hit in mem.cold.search("渡轮十点", type="memory", session="one")} == {"one-fact"}
    assert {hit.type for hit in mem.cold.search("drawer")} >= {"result"}
    assert {hit.type for hit in mem.cold.search("timetables", type="run")} == {"run"}
    assert mem.cold.search("zeppelin").hits == []
    assert mem.cold.search("...").hits == []
    assert contents(tenant_of(mem)) == before


def test_filters_narrow_a_search(local: Any) -> None:
    fill(local)
    local.cold.store(session="old")
    assert {hit.kind for hit in local.cold.search("ferry", kinds=["user"])} == {"user"}
    assert local.cold.search("ferry", since="2200-01-01").hits == []
    assert local.cold.search("ferry", until="2000-01-01").searched == 0
    assert local.cold.search("ferry", user="ann").hits
    assert local.cold.search("ferry", user="bob").searched == 0
    assert len(local.cold.search(limit=3)) == 3, "without words, everything"


def test_an_archive_that_is_missing_does_not_hide_the_others(local: Any, tmp_path: Path) -> None:
    for name in ("one", "two"):
        fill(local, name)
        local.cold.store(session=name, to=str(tmp_path / name))
    for path in (tmp_path / "one").rglob("*/*"):
        path.unlink()
    reply = local.cold.search("ferry")
    assert {hit.session for hit in reply} == {"two"}
    assert reply.notes[0].startswith("session one was not looked through")


def test_another_tenants_cold_storage_is_not_searched(local: Any, tmp_path: Path) -> None:
    fill(local)
    local.cold.store(session="old", to=str(tmp_path / "cold"))
    assert local.within("globex").cold.search("ferry").searched == 0
