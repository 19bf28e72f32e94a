"""The review inbox: ranked, filtered, paged while others judge, and by few statements however many wait."""

from __future__ import annotations

from typing import Any

import pytest

import recollect
from counting import store_calls
from every_store import EMPTY_STORE, EVERY_STORE
from recollect import cite
from recollect.errors import InvalidInput
from seeds import some


@pytest.mark.parametrize("kind", some(2, EVERY_STORE, "review"))
def test_what_is_used_or_risky_comes_first_and_says_why(kind: str, tmp_path: Any) -> None:
    with recollect.open(EMPTY_STORE[kind](tmp_path), embedder="hash") as mem:
        mem.remember("plain", id="plain", author="ann")
        mem.remember("rests on plain", id="rests", derived_from=["plain"], kind="observation")
        mem.remember("cited", id="cited", cites=[cite.user("ann", "I saw it")], author="ann")
        mem.remember("used", id="used")
        mem.remember("against", id="against")
        mem.relate("against", "cited", "contradicts")
        mem.within("theirs").remember("their own", id="theirs")
        mem.remember("judged", id="judged")
        mem.archive("judged")
        for _ in range(9):
            mem.show("used")
        mem._core.journal.flush()
        page = mem.review.list()
        told = {one.id: [reason.name for reason in one.reasons] for one in page}
        assert [one.id for one in page] == ["cited", "against", "used", "plain", "rests"]
        assert told["cited"] == ["contradicted", "claimed"]
        assert told["used"] == ["used", "uncited"]
        assert set(told["plain"]) == {"depended_on", "uncited"}
        assert (page.total, page.by_reason["contradicted"], page.by_reason["uncited"]) == (5, 2, 4)
        assert [one.id for one in mem.review.list("used")] == ["used"]
        assert [one.id for one in mem.review.list(author="ann")] == ["cited", "plain"]
        assert [one.id for one in mem.review.list(kinds=["observation"])] == ["rests"]
        first = mem.review.list(limit=2)
        mem.archive("cited")  # somebody else judges meanwhile: nothing is skipped, nothing comes twice
        assert [one.id for one in mem.review.list(limit=9, after=first.next)] == ["used", "plain", "rests"]
        for broken in ("x", "WyJ4IiwgMV0"):
            with pytest.raises(InvalidInput, match="cursor"):
                mem.review.list(after=broken)


def test_three_thousand_are_ranked_by_a_few_statements(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for start in range(0, 3000, 1000):
        mem.remember_many(
            [{"content": f"note {n}", "priority": 9 if n == 1234 else 5} for n in range(start, start + 1000)]
        )
    seen = store_calls(mem, monkeypatch)
    page = mem.review.list(limit=100)
    assert (page.total, len(page), page[0].text) == (3000, 100, "note 1234")
    assert len(seen) <= 8, seen
    count, after, ids = 0, page.next, {one.id for one in page}
    while after:
        page = mem.review.list(limit=200, after=after)
        count, after = count + len(page), page.next
        ids |= {one.id for one in page}
    assert (count, len(ids)) == (2900, 3000)
