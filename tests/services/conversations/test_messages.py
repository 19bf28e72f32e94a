"""Sessions and messages: order, once per otid, references that exist, taking back."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import recollect
from clocks import as_another_machine
from recollect.errors import IllegalTransition, InvalidInput, NotFound, ReferenceMissing, TooLarge, VersionConflict


def talk(mem: Any, *texts: str, session: str = "s") -> Any:
    mem.session.add("talk", id=session, on_existing="return")
    return mem.message.add_many([{"role": "user", "text": text} for text in texts], session=session).messages


def texts(page: Any) -> list[str]:
    return [message.text for message in page.messages]


def test_messages_keep_their_order_and_every_field(every: Any) -> None:
    mem = every
    mem.user.add("Ann", id="ann")
    mem.agent.add("Helper", id="helper")
    mem.session.add("talk", id="s", user="ann", agent="helper")
    memory = mem.remember("Ann likes tea").id
    full = {
        "role": "assistant", "text": "tea?", "session": "s", "user": "ann", "agent": "helper",
        "model": "m-1", "name": "H",
        "content": [{"type": "text", "text": "tea?"}], "tool_calls": [{"id": "c1", "name": "brew"}],
        "tool_call_id": "c0", "tool_returns": [{"ok": True}], "step_id": "st", "otid": "o1",
        "group_id": "g", "sender_id": "x",
        "references": [{"type": "memory", "id": memory}],
    }  # fmt: skip
    added = mem.message.add(**full)
    mem.message.add_many([{"role": "user", "text": f"n{number}"} for number in range(30)], session="s")
    listed = mem.message.list("s").messages
    assert listed[0].model_dump(include=set(full)) == full
    assert added.id == listed[0].id
    assert [one.text for one in listed[1:]] == [f"n{number}" for number in range(30)]
    assert mem.session.show("s").messages == 31


def test_messages_keep_their_order_where_clocks_disagree(each: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    each.session.add("talk", id="talk")
    as_another_machine(monkeypatch, 1)
    each.message.add("user", "what is two and two?", session="talk")
    as_another_machine(monkeypatch, 0)
    each.message.add_many(
        [{"role": "assistant", "text": "let me see"}, {"role": "assistant", "text": "four"}], session="talk"
    )
    as_another_machine(monkeypatch, -1)
    each.message.add("user", "thanks", session="talk")
    said = [one.text for one in each.message.list("talk").messages]
    assert said == ["what is two and two?", "let me see", "four", "thanks"]
    assert each.message.pop("talk").message.text == "thanks"


def test_pages_lead_through_all_messages_from_either_end(each: Any) -> None:
    talk(each, *"abcdefg")
    first = each.message.list("s", limit=3)
    rest = each.message.list("s", limit=10, after=first.next)
    assert texts(first) + texts(rest) == list("abcdefg")
    assert texts(each.message.list("s", first="newest", limit=2)) == ["g", "f"]


def test_an_otid_is_added_once_per_session(every: Any) -> None:
    mem = every
    talk(mem, "a")
    talk(mem, "a", session="t")
    first = mem.message.add("user", "hello", session="s", otid="x")
    again = mem.message.add("user", "hello again", session="s", otid="x")
    assert (again.id, again.text, again.duplicate) == (first.id, "hello", True)
    assert mem.message.add("user", "hello", session="t", otid="x").id != first.id
    alone = mem.message.add("user", "no session", otid="x")
    assert mem.message.add("user", "no session", otid="x").id == alone.id
    both = mem.message.add_many([{"role": "user", "text": t, "otid": "y"} for t in "pq"], session="s").messages
    assert both[0].id == both[1].id
    assert [one.duplicate for one in both] == [False, True]


def test_racing_writers_of_one_otid_make_one_message(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "m.db", embedder="hash") as mem:
        mem.session.add("s", id="s")
        ids: list[str] = []
        gate = threading.Barrier(8)

        def add(number: int) -> None:
            gate.wait()
            for otid in range(10):
                ids.append(mem.message.add("user", f"{number}", session="s", otid=f"o{otid}").id)
                ids.append(mem.message.add("user", f"{number}", otid=f"o{otid}").id)

        threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert len(ids) == 160
        assert len(set(ids)) == 20


def test_references_must_exist_and_all_or_none_is_added(each: Any) -> None:
    talk(each, "a")
    with pytest.raises(ReferenceMissing):
        each.message.add("user", "see", session="s", references=["memory:nowhere"])
    with pytest.raises(ReferenceMissing):
        each.message.add_many(
            [{"role": "user", "text": "fine"}, {"role": "user", "text": "see", "references": ["source:none"]}],
            session="s",
        )
    with pytest.raises(InvalidInput):
        each.message.add("user", "see", references=["planet:mars"])
    assert texts(each.message.list("s")) == ["a"]


def test_an_empty_or_a_huge_message_is_refused(each: Any) -> None:
    with pytest.raises(InvalidInput):
        each.message.add("user")
    with pytest.raises(InvalidInput):
        each.message.add("robot", "hello")
    with pytest.raises(TooLarge):
        each.message.add("user", "x", content=["y" * 1_000_000])


def test_words_find_messages_within_their_bounds(each: Any) -> None:
    talk(each, "the walrus sings", "a quiet day")
    talk(each, "another walrus", session="t")
    hits = each.message.search("walrus", session="s").hits
    assert [hit.text for hit in hits] == ["the walrus sings"]
    assert len(each.message.search("walrus").hits) == 2
    assert each.message.search("walrus", role="assistant").hits == []
    each.message.remove(hits[0].id)
    assert each.message.search("walrus", session="s").hits == []


def test_who_takes_a_message_for_a_memory_is_told_how_it_becomes_one(mem: Any) -> None:
    said = mem.message.add("user", "The gate opens at six", session="talk")
    for wrong in (mem.promote, mem.show, mem.forget):
        with pytest.raises(NotFound) as refused:
            wrong(said.id)
        assert "message.remember" in refused.value.remedy
    assert mem.message.remember(said.id).citations == 1


def test_pop_takes_the_last_and_each_caller_another_one(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "m.db", embedder="hash") as mem:
        added = talk(mem, *(f"n{number}" for number in range(40)))
        assert mem.message.pop("s").message.text == "n39"
        taken: list[str] = []

        def take() -> None:
            while (message := mem.message.pop("s").message) is not None:
                taken.append(message.id)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert sorted(taken) == sorted(one.id for one in added[:-1])
        assert mem.message.pop("s").message is None


def test_clear_deletes_the_messages_of_one_session_only(each: Any) -> None:
    talk(each, "a", "b")
    talk(each, "c", session="t")
    with pytest.raises(InvalidInput):
        each.message.clear()
    assert each.message.clear("s").removed == 2
    assert each.message.clear("s").removed == 0
    assert texts(each.message.list("t")) == ["c"]


def test_an_archived_session_takes_no_messages_and_is_not_listed(each: Any) -> None:
    talk(each, "a")
    assert each.session.archive("s").archived
    with pytest.raises(IllegalTransition):
        each.message.add("user", "b", session="s")
    assert each.session.list().sessions == []
    assert [one.id for one in each.session.list(archived="only").sessions] == ["s"]
    each.session.unarchive("s")
    each.message.add("user", "b", session="s")
    assert texts(each.message.list("s")) == ["a", "b"]


def test_a_session_is_revised_and_ended(each: Any) -> None:
    talk(each, "a")
    shown = each.session.revise("s", title="Tea", metadata={"place": "kitchen"}, version=1)
    assert (shown.title, shown.metadata, shown.version) == ("Tea", {"place": "kitchen"}, 2)
    with pytest.raises(VersionConflict):
        each.session.revise("s", title="Coffee", version=1)
    with pytest.raises(InvalidInput):
        each.session.revise("s")
    ended = each.session.end("s", summary="we had tea")
    assert ended.summary == "we had tea"
    assert ended.ended_at is not None
    assert each.session.list(open=True).sessions == []
    with pytest.raises(NotFound):
        each.session.show("nowhere")


def test_another_tenant_sees_and_touches_nothing(each: Any) -> None:
    (message,) = talk(each, "secret walrus")
    other = each.within("other")
    assert other.message.search("walrus").hits == []
    assert other.message.list("s").messages == []
    assert other.message.clear("s").removed == 0
    assert other.message.pop("s").message is None
    for call in (other.message.show, other.message.remove):
        with pytest.raises(NotFound):
            call(message.id)
    other.message.add("user", "x", session="s")  # a session of their own, with the same id
    assert texts(each.message.list("s")) == ["secret walrus"]


def test_messages_go_with_their_session_and_leave_no_byte(tmp_path: Path) -> None:
    marker = "zanzibarmarker"
    with recollect.open(tmp_path / "m.db", embedder="hash") as mem:
        talk(mem, f"first {marker}", "second")
        mem.message.erase(mem.message.list("s").messages[0].id)
        assert not _holding(tmp_path, marker)
        talk(mem, f"third {marker}")
        mem.message.clear("s")
        assert not _holding(tmp_path, marker)
        talk(mem, f"fourth {marker}")
        assert _holding(tmp_path, marker)
        mem.session.remove("s", for_good=True)
        assert mem.message.list("s").messages == []
        assert not _holding(tmp_path, marker)


def _holding(folder: Path, marker: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and marker.encode() in path.read_bytes()]
