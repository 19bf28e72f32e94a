"""Citations by what was found of them, with the memories that rest on them."""

from __future__ import annotations

from typing import Any

from recollect import cite


def furnished(mem: Any, folder: Any) -> None:
    (folder / "notes.md").write_text("as it was\n")
    mem.remember("as noted", id="noted", cites=["file:notes.md:1-1"])
    mem.remember("as said", id="said", cites=[cite.user("ann", "said so"), cite.user("bob")])
    mem.remember("let go", id="gone", cites=[cite.user("bob")])
    mem.promote("noted")
    (folder / "notes.md").write_text("as it is\n")


def test_what_broke_is_listed_with_the_memory_that_rests_on_it(mem: Any, tmp_path: Any) -> None:
    furnished(mem, tmp_path)
    assert [one.state for one in mem.citation.list().citations] == ["unchecked"] * 3 + ["holds"]
    mem.check()
    mem.forget("gone")
    broken = mem.citation.list("broken")
    assert broken.total == mem.stats().broken == 3
    assert [(one.memory, one.text, one.status, one.source) for one in broken.citations] == [
        ("gone", "let go", "forgotten", "user:bob"),
        ("said", "as said", "hypothesis", "user:bob"),
        ("noted", "as noted", "hypothesis", "file:notes.md"),
    ]
    assert all(one.checked_at for one in broken.citations)
    note = next(one.note for one in broken.citations if one.memory == "noted")
    assert note == "the cited lines of notes.md have changed"


def test_citations_are_listed_by_source_and_memory_and_in_pages(mem: Any, tmp_path: Any) -> None:
    furnished(mem, tmp_path)
    assert {one.memory for one in mem.citation.list(source="user:bob").citations} == {"said", "gone"}
    first = mem.citation.list(memories=["said", "absent"], limit=1)
    assert (first.total, len(first.citations)) == (2, 1)
    rest = mem.citation.list(memories=["said", "absent"], limit=1, after=first.next)
    assert {first.citations[0].source, rest.citations[0].source} == {"user:ann", "user:bob"}


def test_only_what_broke_is_looked_up_again(mem: Any, tmp_path: Any) -> None:
    furnished(mem, tmp_path)
    mem.check()
    (tmp_path / "notes.md").write_text("as it was\n")
    again = mem.check(state="broken")
    assert (again.looked_at, again.holds, again.broken) == (3, 1, 2)
