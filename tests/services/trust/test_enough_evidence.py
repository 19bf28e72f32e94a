"""Which evidence is enough: logs of other systems as attested, pages fetched when asked, kinds as the settings say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect import cite
from recollect.errors import Denied, IllegalTransition, InvalidSettings
from recollect.interfaces.client import Recollect
from recollect.ports.records import Scope

ALL = frozenset({"read", "write", "govern", "delete", "admin"})
JOB = {"type": "log", "logId": "ci/4711", "context": "make test", "excerpt": "981 passed — 全部通过"}


def test_a_log_of_another_system_supports_verified_as_attested_and_not_published_alone(mem: Any) -> None:
    key = mem.key.add("ci").id
    ci = Recollect(mem._core, Scope("default", key, ALL), lambda store, scope: None, owns=False)
    id = ci.remember("The tests pass on main", cites=[JOB]).id
    assert ci.promote(id).status == "verified"
    (shown,) = ci.show(id).citations
    assert (shown.state, shown.note) == ("holds", f"an excerpt of log ci/4711 is recorded, attested by {key}")
    assert shown.evidence["excerpt"] == JOB["excerpt"]
    assert shown.evidence["log_hash"].startswith("x1:")
    with pytest.raises(IllegalTransition, match="attested_log alone is not enough evidence for published") as refused:
        ci.promote(id, "published")
    assert "commit" in refused.value.remedy
    mem.user.add("Ann", id="ann")
    mem.cite(id, [cite.user("ann", "seen")])
    assert mem.promote(id, "published").status == "published"
    user = next(one.id for one in mem.show(id).citations if one.type == "user")
    assert mem.uncite(id, user).status == "hypothesis"  # what is left is not enough for published


def test_a_log_of_another_system_without_an_excerpt_is_told_how_to_be_cited(mem: Any) -> None:
    id = mem.remember("The tests pass", cites=["log:ci/4711"]).id
    with pytest.raises(IllegalTransition, match="is cited with its excerpt"):
        mem.promote(id)


def test_the_settings_say_which_kinds_are_enough(tmp_path: Path) -> None:
    strict: dict[str, Any] = {"evidence": {"verified": ["commit", "file"], "published": ["commit"]}}
    (tmp_path / "notes.md").write_text("one\n")
    with recollect.open(tmp_path / "a.db", embedder="none", citation_root=tmp_path, **strict) as mem:
        said = mem.remember("said", cites=[cite.user("ann", "yes")]).id
        with pytest.raises(IllegalTransition, match="user alone is not enough evidence for verified"):
            mem.promote(said)
        mem.cite(said, ["file:notes.md:1"])
        assert mem.promote(said).status == "verified"
        with pytest.raises(IllegalTransition, match="file and user alone is not enough evidence for published"):
            mem.promote(said, "published")
        mem.export(str(tmp_path / "out.jsonl"))
    with recollect.open(tmp_path / "b.db", embedder="none", citation_root=tmp_path) as other:
        other.import_(str(tmp_path / "out.jsonl"))
        assert other.show(said).status == "verified"
    only_commits: dict[str, Any] = {"evidence": {"verified": ["commit"]}}
    with recollect.open(tmp_path / "c.db", embedder="none", citation_root=tmp_path, **only_commits) as other:
        other.import_(str(tmp_path / "out.jsonl"))
        assert other.show(said).status == "hypothesis"
    for wrong in ([], ["hearsay"]):
        with pytest.raises(InvalidSettings):
            recollect.open(tmp_path / "d.db", embedder="none", evidence={"verified": wrong})


def test_a_page_without_a_hash_is_fetched_and_recorded_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = {"type": "url", "url": "https://authjs.dev/", "title": "Auth.js", "crawledAt": "2026-03-04T12:00:00Z"}
    served: list[str] = []
    monkeypatch.setattr("recollect.adapters.public_fetch.fetch", lambda url: served.append(url) or b"page")
    with recollect.open(tmp_path / "a.db", embedder="none", background=False) as opened:
        mem: Any = opened
        id = mem.remember("Auth.js runs on the edge", cites=[page]).id
        with pytest.raises(Denied, match="pages are not fetched here"):
            mem.check(id, fetch=True)
        assert served == []
    with recollect.open(tmp_path / "a.db", embedder="none", background=False, fetch=True) as opened:
        mem = opened
        assert mem.check(id).unreachable == 1
        assert served == []  # nobody asked for it to be recorded
        assert mem.check(id, fetch=True).holds == 1
        (shown,) = mem.show(id).citations
        assert shown.evidence["content_hash"] == cite.page_hash(b"page")
        assert mem.promote(id).status == "verified"
        monkeypatch.setattr("recollect.adapters.public_fetch.fetch", lambda url: b"another page")
        assert mem.check(id).demoted == [id]
