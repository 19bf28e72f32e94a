"""A memory is checked, and a memory is forgotten."""

from __future__ import annotations

import subprocess
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.errors import IllegalTransition, InvalidInput, NotFound
from recollect.services.admin import expiry

cite = recollect.cite


def cited(mem: Any, text: str = "cited", **options: Any) -> str:
    id: str = mem.remember(text, cites=[cite.user("ann", "she said so")], **options).id
    return id


def test_without_a_citation_nothing_is_promoted(mem: Any) -> None:
    receipt = mem.remember("a guess")
    with pytest.raises(IllegalTransition, match="without a citation") as caught:
        mem.promote(receipt.id)
    assert "cite" in caught.value.remedy


@pytest.mark.parametrize(
    ("path", "legal"),
    [
        (["verified"], True),
        (["verified", "published"], True),
        (["published"], False),
        (["verified", "archived", "hypothesis"], True),
        (["archived", "verified"], False),
        (["verified", "hypothesis", "verified"], True),
        (["verified", "published", "hypothesis"], True),
        (["archived", "archived"], False),
    ],
)
def test_only_legal_transitions_are_made(mem: Any, path: list[str], legal: bool) -> None:
    id = cited(mem)
    moves = {"verified": mem.promote, "hypothesis": mem.demote, "archived": mem.archive}

    def walk() -> None:
        for status in path:
            if status == "published":
                mem.promote(id, "published")
            else:
                moves[status](id)

    if legal:
        walk()
        assert mem.show(id).status == path[-1]
    else:
        with pytest.raises(IllegalTransition):
            walk()


def test_every_transition_records_who_and_why(mem: Any) -> None:
    id = cited(mem)
    mem.within(actor="carol").promote(id, why="checked by hand")
    entry = mem.history(id).entries[0]
    assert (entry.change, entry.by, entry.why) == ("promoted", "carol", "checked by hand")


def test_changed_lines_are_noticed_and_the_status_falls(mem: Any, tmp_path: Path) -> None:
    source = tmp_path / "a.py"
    source.write_text("one\ntwo\nthree\n")
    id = mem.remember("line two says two", cites=[cite.file("a.py", 2)]).id
    mem.promote(id)
    source.write_text("zero\none\ntwo\nthree\n")
    assert mem.check(id).demoted == []
    source.write_text("one\n2\nthree\n")
    assert mem.check().demoted == [id]
    assert mem.show(id).status == "hypothesis"
    assert "changed" in mem.history(id).entries[-2].why


def test_a_commit_is_looked_up_in_its_repository(mem: Any, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    git = ["git", "-C", str(repo), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "Raise the limit"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    good = mem.remember("raised", cites=[cite.commit(head, str(repo), message="Raise the limit")]).id
    assert mem.promote(good).status == "verified"
    bad = mem.remember("lowered", cites=[cite.commit("f" * 40, str(repo))]).id
    with pytest.raises(IllegalTransition, match="not in"):
        mem.promote(bad)


def test_a_log_citation_holds_when_the_entry_is_recorded_for_this_tenant(mem: Any) -> None:
    from recollect.domain.audit import AccessLog
    from recollect.ports.query import Query

    mem.remember("makes a log entry")
    entry = mem._core.store.find(mem._scope, Query(AccessLog)).records[0]
    good = mem.remember("seen in the log", cites=[cite.log(entry.id, context="remember")]).id
    assert mem.promote(good).status == "verified"
    foreign = mem.within("other")
    with pytest.raises(IllegalTransition):
        foreign.promote(foreign.remember("seen there", cites=[cite.log(entry.id)]).id)


def test_a_url_needs_its_crawl_time_and_hash(mem: Any) -> None:
    bare = mem.remember("bare", cites=[cite.url("https://example.com/a")]).id
    with pytest.raises(IllegalTransition, match="could be checked"):
        mem.promote(bare)
    crawled = datetime(2024, 1, 1, tzinfo=UTC)
    full = mem.remember("full", cites=[cite.url("https://example.com/a", "A", crawled, "p1:abc")]).id
    assert mem.promote(full).status == "verified"


def test_a_broken_citation_must_go_before_promotion(mem: Any, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("x\n")
    id = cited(mem)
    mem.cite(id, [cite.file("f.txt", 1)])
    (tmp_path / "f.txt").unlink()
    with pytest.raises(IllegalTransition, match="cannot be read"):
        mem.promote(id)
    broken = next(c for c in mem.show(id).citations if c.type == "file")
    mem.uncite(id, broken.id)
    assert mem.promote(id).status == "verified"


def test_taking_the_last_holding_citation_away_demotes(mem: Any) -> None:
    id = cited(mem)
    mem.promote(id)
    assert mem.uncite(id, mem.show(id).citations[0].id).status == "hypothesis"
    with pytest.raises(NotFound):
        mem.uncite(id, "absent")


def test_citing_the_same_twice_is_citing_once(mem: Any) -> None:
    id = cited(mem)
    assert mem.cite(id, [cite.user("ann", "she said so")]).citations == []
    assert len(mem.cite(id, [cite.user("bob", "he too")]).citations) == 1


def test_citing_an_unreadable_file_is_refused(mem: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot read"):
        mem.remember("x", cites=[cite.file("absent.txt", 1)])


def test_rolling_back_a_source_takes_everything_derived_along(mem: Any) -> None:
    bad = mem.remember("the moon is cheese", cites=[cite.user("mallory", "trust me")]).id
    derived = mem.remember("mice live on the moon", derived_from=[bad]).id
    pattern = {"problem_space": "mice", "solution_template": "send cats", "generalized_from": [derived]}
    learned = mem.remember(pattern, kind="pattern").id
    summary = mem.remember({"text": "all about mice", "covers": [learned]}, kind="summary").id
    innocent = mem.remember("cats like fish").id
    assert mem.roll_back("user:mallory", dry_run=True).derived == sorted([derived, learned, summary])
    assert mem.recall("moon")
    report = mem.roll_back("user:mallory", why="a liar")
    assert report.citing == [bad]
    assert {mem.show(id).status for id in (bad, derived, learned, summary)} == {"archived"}
    assert mem.show(innocent).status == "hypothesis"
    assert "a liar" in mem.history(derived).entries[0].why
    with pytest.raises(NotFound):
        mem.roll_back("user:nobody")


def test_links_are_typed_unique_and_between_two_memories(mem: Any) -> None:
    a, b = mem.remember("a").id, mem.remember("b").id
    assert mem.relate(a, b, "supports").links == 1
    assert mem.relate(a, b, "supports").links == 1
    assert mem.relate(a, b, "contradicts").links == 2
    with pytest.raises(InvalidInput):
        mem.relate(a, a, "likes")
    with pytest.raises(NotFound):
        mem.relate(a, "absent", "likes")


def test_forgetting_is_soft_and_restorable(mem: Any) -> None:
    id = cited(mem, "a passing thought")
    mem.forget(id, why="not needed")
    with pytest.raises(NotFound):
        mem.show(id)
    assert [line.id for line in mem.list(forgotten=True).memories] == [id]
    mem.restore(id)
    assert mem.recall("passing thought")[0].id == id
    assert len(mem.show(id).citations) == 1
    with pytest.raises(InvalidInput):
        mem.restore(id)


def test_erasing_leaves_nothing_behind(mem: Any, tmp_path: Path) -> None:
    marker = "zanzibarmarker"
    id = mem.remember(f"the word is {marker}", tags=[marker[:20]], cites=[cite.user("ann", marker)]).id
    mem.revise(id, f"the word was {marker}")
    mem.erase(id)
    with pytest.raises(NotFound):
        mem.restore(id)
    mem.close()
    for path in [p for p in tmp_path.rglob("*") if p.is_file()]:
        assert marker.encode() not in path.read_bytes(), path.name


def test_what_has_expired_is_deleted_some_at_a_time(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others write in between, also where a million expired while nobody swept."""
    monkeypatch.setattr(expiry, "AT_ONCE", 2)
    long_ago = datetime.now(UTC) - timedelta(days=1)
    for number in range(5):
        mem.remember(f"old {number}", expires_at=long_ago)
    for number in range(3):
        mem.state.save(f"agent-{number}", {"step": 1}, expires_at=long_ago)
    reply = mem.sweep()
    assert (reply.expired, reply.states) == (5, 3)
    told = [one.request for one in mem.log(limit=100).entries if one.action == "sweep"]
    assert [(one["count"], one["states"]) for one in reversed(told)] == [(2, 2), (2, 1), (1, 0)]
    assert mem.stats().memories == 0


def test_sweeping_deletes_what_has_expired(mem: Any) -> None:
    mem.remember("old", expires_at=datetime.now(UTC) - timedelta(days=1))
    mem.remember("young", ttl_seconds=1000)
    assert mem.sweep(dry_run=True).expired == 1
    assert mem.sweep().expired == 1
    assert mem.sweep().expired == 0
    assert mem.stats().memories == 1


def test_pruning_keeps_what_matters_most(mem: Any) -> None:
    for priority in range(1, 10):
        mem.remember(f"note {priority}", id=f"p{priority}", priority=priority)
    trusted = cited(mem, "proven", priority=1)
    mem.promote(trusted)
    report = mem.prune(keep=4, dry_run=True)
    assert report.forgotten == ["p1", "p2", "p3", "p4", "p5", "p6"]
    assert mem.prune(keep=4).kept == 4
    assert mem.show(trusted).status == "verified"
    mem.restore("p1")


def test_pruning_by_age_spares_what_is_read(mem: Any) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=400)
    mem.remember("dusty tome", id="dusty", at=long_ago)
    mem.remember("well thumbed", id="thumbed", at=long_ago)
    mem.remember("brand new", id="new")
    mem.recall("thumbed", limit=1)
    mem._core.journal.flush()
    assert mem.prune(older_than_days=365, unread_for_days=30).forgotten == ["dusty"]
    with pytest.raises(InvalidInput):
        mem.prune()


def test_deleting_a_session_keeps_its_memories(mem: Any) -> None:
    mem.session.add("chat", id="s")
    id = mem.remember("said in the chat", session="s").id
    mem.session.remove("s", for_good=True)
    assert "session_id" not in mem.show(id).fields
    assert mem.verify().sound
    assert [one.id for one in mem.remember("a new one of that name", session="s").created] == ["s"]
    assert mem.list(session="s").memories[0].text == "a new one of that name"


def test_deleting_a_user_deletes_what_was_theirs(mem: Any) -> None:
    mem.user.add("Ann", id="ann")
    id = cited(mem, "private", user="ann")
    assert mem.user.remove("ann", for_good=True).deleted > 2
    with pytest.raises(NotFound):
        mem.show(id)
    assert mem.verify().sound


def test_checks_at_once_all_finish_and_one_demotes(mem: Any, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("x\n")
    ids = [mem.remember(f"claim {n}", cites=[cite.file("f.txt", 1)]).id for n in range(10)]
    for id in ids:
        mem.promote(id)
    (tmp_path / "f.txt").write_text("y\n")
    reports: list[Any] = []
    threads = [threading.Thread(target=lambda: reports.append(mem.check())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [report.broken for report in reports] == [10] * 4
    assert sorted(id for report in reports for id in report.demoted) == sorted(ids)
