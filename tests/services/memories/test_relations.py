"""Links between memories: deleted, listed, followed by recall, drawn as a graph; and tags."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EMPTY_STORE, EVERY_STORE
from recollect.domain.record import now
from recollect.errors import InvalidInput, NotFound
from recollect.services.access_journal import Journal
from recollect.testing.statements import sqlite_statements


@pytest.fixture(params=(*EVERY_STORE, "memory"))
def mem(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    address = EMPTY_STORE[request.param](tmp_path) if request.param in EVERY_STORE else "memory://"
    with recollect.open(address, embedder="none", background=False) as opened:
        yield opened


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Any]:
    with recollect.open(tmp_path / "local.db", embedder="none", background=False) as opened:
        yield opened


def _chain(mem: Any) -> None:
    """harbour → quay → crane → harbour, a circle; and things beside it that may not be seen."""
    texts = {"harbour": "the harbour freezes", "quay": "stones", "crane": "iron", "rope": "hemp"}
    texts |= {"gone": "forgotten", "old": "archived", "brief": "expires"}
    for id, text in texts.items():
        mem.remember(text, id=id, **({"expires_at": now() + timedelta(seconds=1)} if id == "brief" else {}))
    mem.relate("harbour", "quay", "has", metadata={"since": 1900})
    mem.relate("quay", "crane", "has")
    mem.relate("crane", "harbour", "serves")
    mem.relate("rope", "harbour", "ties")
    for id in ("gone", "old", "brief"):
        mem.relate("harbour", id, "has")
    mem.relate("gone", "rope", "has")
    mem.forget("gone")
    mem.archive("old")


def test_links_are_listed_with_all_that_is_known_and_deleted(mem: Any) -> None:
    _chain(mem)
    out = mem.relations(of="harbour", direction="to", type="has")
    assert {(one.target, one.text) for one in out} >= {("quay", "stones"), ("gone", "")}
    quay = next(one for one in out if one.target == "quay")
    assert quay.metadata == {"since": 1900}
    assert (quay.direction, quay.status, quay.version) == ("to", "hypothesis", 1)
    assert [(one.source, one.direction) for one in mem.relations(of="crane", direction="from")] == [("quay", "from")]
    assert len(mem.relations(of="harbour")) == 6
    first = mem.relations(limit=5)
    assert len(first) + len(mem.relations(limit=5, after=first.next)) == 8
    done = mem.unrelate("harbour", "quay", "has")
    assert (done.removed, done.links) == (["has"], 3)
    with pytest.raises(NotFound):
        mem.unrelate("harbour", "quay")
    with pytest.raises(NotFound):
        mem.relations(of="absent")


def test_links_that_stand_for_a_change_are_not_deleted_alone(local: Any) -> None:
    local.remember("the port is 1", id="old")
    local.remember("the port is 2", id="new", supersedes="old")
    with pytest.raises(InvalidInput, match="valid again"):
        local.unrelate("new", "old")


def test_recall_follows_links_with_decaying_weight_and_says_by_which(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _chain(mem)
    later = now() + timedelta(seconds=5)
    monkeypatch.setattr("recollect.services.recall.linked.now", lambda: later)
    assert [hit.id for hit in mem.recall("harbour")] == ["harbour"]
    found = mem.recall("harbour", follow="has,serves", hops=3)
    hits = {hit.id: hit for hit in found}
    assert hits.keys() == {"harbour", "quay", "crane"}
    assert found[0].id == "harbour"
    assert hits["harbour"].via is None
    assert hits["quay"].score == pytest.approx(found[0].score / 2, abs=1e-3)
    assert (hits["quay"].via.id, hits["quay"].via.type, hits["quay"].via.direction) == ("harbour", "has", "to")
    assert (hits["crane"].via.type, hits["crane"].via.direction, hits["crane"].via.hops) == ("serves", "from", 1)
    assert "is linked from harbour (has)" in hits["quay"].why
    assert {hit.id for hit in mem.recall("harbour", follow="*")} == {"harbour", "quay", "crane", "rope"}
    assert {hit.id for hit in mem.recall("harbour", follow=["has"], hops=2)} == {"harbour", "quay", "crane"}
    assert len(mem.recall("harbour", follow="*", limit=2)) == 2
    packed = mem.context("harbour", follow="ties")
    assert packed.used == ["harbour", "rope"]
    assert 'linked="ties from harbour"' in packed.text
    assert {hit.id for hit in mem.recall("harbour", follow="*", kinds=["fact"])} == {"harbour", "quay", "crane", "rope"}
    with pytest.raises(InvalidInput):
        mem.recall("harbour", follow="*", as_of=now())


def test_what_comes_along_is_the_same_users_and_as_trusted_as_was_asked(local: Any) -> None:
    for user in ("ann", "bob"):
        local.user.add(user, id=user)
    local.remember("the harbour freezes", id="hers", user="ann", cites=[recollect.cite.user("ann", "saw it")])
    local.remember("stones", id="his", user="bob")
    local.relate("hers", "his", "has")
    assert [hit.id for hit in local.recall("harbour", user="ann", follow="*")] == ["hers"]
    local.promote("hers")
    assert [hit.id for hit in local.recall("harbour", purpose="act", follow="*")] == ["hers"]
    assert {hit.id for hit in local.recall("harbour", follow="*")} == {"hers", "his"}


def test_a_graph_shows_what_is_around_a_memory(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _chain(mem)
    later = now() + timedelta(seconds=5)
    monkeypatch.setattr("recollect.services.recall.linked.now", lambda: later)
    near = mem.relations.graph("harbour")
    assert {node.id: node.hops for node in near.nodes} == {"harbour": 0, "quay": 1, "crane": 1, "rope": 1}
    assert {(edge.source, edge.type, edge.target) for edge in near.edges} == {
        ("harbour", "has", "quay"),
        ("quay", "has", "crane"),
        ("crane", "serves", "harbour"),
        ("rope", "ties", "harbour"),
    }
    assert not near.more
    few = mem.relations.graph("harbour", limit=2)
    assert len(few.nodes) == 2
    assert few.more
    assert {node.id for node in mem.relations.graph("rope", types=["ties"], hops=2).nodes} == {"rope", "harbour"}


def test_following_takes_a_few_statements_whatever_hangs_on_a_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each hop reads links twice, from and to, and the memories once; tags and citations are read once more."""
    monkeypatch.setattr(Journal, "note", lambda *given, **named: None)
    with sqlite_statements() as seen, recollect.open(tmp_path / "many.db", embedder="none", background=False) as mem:
        mem.remember("the harbour freezes", id="hub")
        mem.remember_many([{"content": f"thing {n}", "id": f"t{n}", "relates": {"hub": "near"}} for n in range(300)])
        mem.recall("harbour", limit=500)
        counts = {}
        for hops in (0, 1, 3):
            seen.clear()
            asked: dict[str, Any] = {"follow": "near", "hops": hops} if hops else {}
            found = mem.call("recall", query="harbour", limit=500, **asked)
            counts[hops] = len(seen)
            assert len(found) == (101 if hops else 1)
        assert counts[1] <= counts[0] + 6
        assert counts[3] <= counts[0] + 12


def test_tags_are_added_removed_counted_and_renamed(mem: Any) -> None:
    for id in "abc":
        mem.remember(f"memory {id}", id=id, tags=["sea"])
    assert mem.tag.add("a", ["sky", "sea", "море"]).changed == ["sky", "море"]
    assert mem.tag.remove("b", ["sea", "none"]).changed == ["sea"]
    mem.tag.add("b", ["sky"])
    mem.forget("c")
    assert {one.tag: one.memories for one in mem.tag.list()} == {"sea": 1, "sky": 2, "море": 1}
    assert [one.tag for one in mem.tag.list("s")] == ["sea", "sky"]
    first = mem.tag.list(order="count", limit=1)
    assert (first[0].tag, first.total) == ("sky", 3)
    assert [one.tag for one in mem.tag.list(order="count", after=first.next)] == ["sea", "море"]
    assert mem.tag.rename("sky", "sea").memories == 2
    assert {one.tag: one.memories for one in mem.tag.list()} == {"sea": 2, "море": 1}
    with pytest.raises(NotFound):
        mem.tag.rename("sky", "sea")
    with pytest.raises(InvalidInput):
        mem.tag.list(after="nonsense")
