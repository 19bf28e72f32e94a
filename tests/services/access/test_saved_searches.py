"""Saved searches: one's own, few, small, and gone with the user."""

from __future__ import annotations

from typing import Any

import pytest

from recollect.errors import Denied, InvalidInput, NotFound
from recollect.services.access.saved_searches import MOST_SAVED


def test_searches_are_saved_for_whoever_is_signed_in(mem: Any) -> None:
    for name in ("ann", "bob"):
        mem.user.add(name, id=name, preferences={"theme": "dark"})
    ann = mem.within(actor="ann")
    ann.user.save_search("pools", "?q=pool&kinds=fact")
    ann.user.save_search(" 连接池 ", "q=连接池")
    assert [one.name for one in ann.user.save_search("pools", "q=pool").searches] == ["pools", "连接池"]
    assert [one.search for one in ann.user.searches().searches] == ["q=pool", "q=连接池"]
    assert mem.user.show("ann").preferences["theme"] == "dark"
    assert mem.within(actor="bob").user.searches().searches == []
    assert len(ann.user.remove_search("pools").searches) == 1
    with pytest.raises(NotFound, match="no such saved search"):
        ann.user.remove_search("pools")
    with pytest.raises(Denied, match="saved for users"):
        mem.user.save_search("mine", "q=x")


def test_they_are_few_and_what_others_keep_there_does_no_harm(mem: Any) -> None:
    mem.user.add("ann", id="ann", preferences={"saved_searches": {"odd": 3, "fine": "q=x"}})
    mem.user.add("bob", id="bob", preferences={"saved_searches": ["not ours"]})
    ann, bob = mem.within(actor="ann"), mem.within(actor="bob")
    assert [one.name for one in ann.user.searches().searches] == ["fine"]
    assert bob.user.searches().searches == []
    for number in range(MOST_SAVED):
        bob.user.save_search(f"search {number}", "q=x")
    with pytest.raises(InvalidInput, match="already"):
        bob.user.save_search("one more", "q=x")
    bob.user.save_search("search 3", "q=y")
    for name, search in ((" ", "q=x"), ("n" * 81, "q=x"), ("n", "q" * 1001)):
        with pytest.raises(InvalidInput):
            ann.user.save_search(name, search)
