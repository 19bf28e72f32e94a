"""Text search."""

from __future__ import annotations

import pytest

from recollect.domain.conversations import Message
from recollect.domain.memory import Memory, Tag
from recollect.domain.record import Record
from recollect.domain.sources import Source
from recollect.ports.query import Compare, Holds, Linked, OneOf, TextQuery, equal
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Delete, Insert, Update
from recollect.testing.conformance.makers import agent, memory, one_of_each, search, session, stored, tag, user

HOSTILE_TERMS = [
    *('"', '""', "'", '"unclosed', 'a"b', "AND", "OR", "NOT", "NEAR", "NEAR(", "NEAR(anchor, 2)", "*", "anchor*", "^"),
    *("^anchor", ":", "text:anchor", "facets:1", "{text}:anchor", "-anchor", "+", "(", ")", "((", ";", "--", "\\", "%"),
    *("", " ", "\n", "\t", "\x00", "anchor\x00", "\x00anchor", "\ud800", "🙂", "⚓️", "مرساة", "עוגן", "\u202eanchor"),
    *("' OR 1=1 --", '"; DROP TABLE memory; --', "a" * 10_000, "anchor " * 1500, '"' * 10_000, "e\u0301" * 99),
]


class TextRules:
    def test_any_of_the_terms_is_enough_and_case_does_not_matter(self, store: RecordStore, acme: Scope) -> None:
        texts = {"a": "An Anchor", "b": "a lantern", "c": "ANCHOR and Lantern", "d": "the moon"}
        stored(store, acme, *(memory(acme, id, text) for id, text in texts.items()))
        assert sorted(search(store, acme, "anchor")) == ["a", "c"]
        assert sorted(search(store, acme, "LANTERN", "Moon")) == ["b", "c", "d"]
        assert search(store, acme, "sun") == []
        assert search(store, acme) == []

    def test_the_best_come_first(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, memory(acme, "one", "anchor among many other quite different words"))
        stored(store, acme, memory(acme, "both", "anchor lantern"), memory(acme, "none", "moon"))
        stored(store, acme, *(memory(acme, f"filler{n}", "moon and sun and stars") for n in range(9)))
        hits = store.search_text(acme, TextQuery(Memory, ("anchor", "lantern"), 10))
        assert [hit.id for hit in hits] == ["both", "one"]
        assert hits[0].score > hits[1].score >= 0

    def test_a_limit_keeps_the_best(self, store: RecordStore, acme: Scope) -> None:
        words = ["anchor", "lantern", "harbour", "compass"]
        stored(store, acme, *(memory(acme, f"m{n}", " ".join(words[: n + 1])) for n in range(4)))
        stored(store, acme, *(memory(acme, f"filler{n}", "moon and sun and stars") for n in range(12)))
        assert search(store, acme, *words, limit=2) == ["m3", "m2"]
        assert search(store, acme, *words, limit=0) == []

    def test_a_search_among_some_finds_the_best_of_these(self, store: RecordStore, acme: Scope, globex: Scope) -> None:
        words = ["anchor", "lantern", "harbour", "compass"]
        stored(store, acme, *(memory(acme, f"m{n}", " ".join(words[: n + 1])) for n in range(4)))
        stored(store, acme, *(memory(acme, f"filler{n}", "moon and sun and stars") for n in range(12)))
        stored(store, globex, memory(globex, "theirs", "anchor lantern harbour compass"))
        every = {hit.id: hit.score for hit in store.search_text(acme, TextQuery(Memory, tuple(words), 10))}
        among = OneOf("id", ("m0", "m2", "filler1", "theirs", "nobody"))
        hits = store.search_text(acme, TextQuery(Memory, tuple(words), 10, where=(among,)))
        assert [(hit.id, hit.score) for hit in hits] == [(id, every[id]) for id in ("m2", "m0")]
        assert store.search_text(acme, TextQuery(Memory, tuple(words), 10, where=(OneOf("id", ()),))) == []
        but = OneOf("id", ("m3", "m2"), wanted=False)
        assert [hit.id for hit in store.search_text(acme, TextQuery(Memory, tuple(words), 1, where=(but,)))] == ["m1"]

    def test_a_rare_term_counts_more_than_a_common_one(self, store: RecordStore, acme: Scope, globex: Scope) -> None:
        stored(store, acme, memory(acme, "rare", "one anchor"), memory(acme, "common", "one lantern"))
        stored(store, acme, *(memory(acme, f"also{n}", "a lantern") for n in range(9)))
        stored(store, globex, *(memory(globex, f"theirs{n}", "an anchor") for n in range(30)))
        assert search(store, acme, "anchor", "lantern")[0] == "rare"

    def test_all_declared_fields_are_searched(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, memory(acme, "says", "anchor here", author="moon"))
        stored(store, acme, memory(acme, "by", "lantern here", author="anchor"))
        assert sorted(search(store, acme, "anchor")) == ["by", "says"]

    def test_every_searched_type_is_found(self, store: RecordStore, acme: Scope) -> None:
        records = one_of_each(acme)
        store.transact(acme, [Insert(one) for one in records[1:]])
        for one in records:
            text = one.shape.text
            words = " ".join(str(getattr(one, name) or "") for name in text.fields) if text else ""
            if "something" in words:
                assert search(store, acme, "something", record=type(one)) == [one.id]

    def test_facets_narrow(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, user(acme), user(acme, "eve"))
        owners = {"a": "ann", "b": "eve", "c": None}
        stored(store, acme, *(memory(acme, id, "an anchor", user_id=owner) for id, owner in owners.items()))
        stored(store, acme, memory(acme, "d", "an anchor", user_id="ann", kind="event", namespaces=["short_term", "x"]))
        for facets, expected in (
            ({}, ["a", "b", "c", "d"]),
            ({"user_id": ("ann",)}, ["a", "d"]),
            ({"user_id": ("ann", "eve")}, ["a", "b", "d"]),
            ({"user_id": ("ann",), "kind": ("fact",)}, ["a"]),
            ({"namespaces": ("x",)}, ["d"]),
            ({"namespaces": ("long_term", "x")}, ["a", "b", "c", "d"]),
            ({"user_id": ()}, []),
            ({"user_id": ("nobody", "' OR 1=1 --", '"', "*")}, []),
        ):
            assert sorted(search(store, acme, "anchor", facets=facets)) == expected

    def test_facets_follow_an_update(self, store: RecordStore, acme: Scope) -> None:
        first = stored(store, acme, memory(acme, text="an anchor"))
        store.transact(acme, [Update(first.changed(status="verified"))])
        assert search(store, acme, "anchor", facets={"status": ("verified",)}) == ["fact"]
        assert search(store, acme, "anchor", facets={"status": ("hypothesis",)}) == []

    def test_filters_narrow_before_the_limit(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, *(memory(acme, f"m{n:02}", "an anchor", priority=1 + n % 10) for n in range(40)))
        stored(store, acme, tag(acme, "m09", "sea"), tag(acme, "m29", "sea"))
        high = (Compare("priority", "=", 10),)
        assert sorted(search(store, acme, "anchor", where=high)) == ["m09", "m19", "m29", "m39"]
        assert len(search(store, acme, "anchor", where=high, limit=3)) == 3
        sea = (*high, Linked(Tag, "memory_id", (equal("tag", "sea"),)), Holds("namespaces", "long_term"))
        assert sorted(search(store, acme, "anchor", where=sea, limit=2)) == ["m09", "m29"]

    def test_the_index_follows_every_write(self, store: RecordStore, acme: Scope) -> None:
        first = stored(store, acme, memory(acme, text="an anchor"))
        store.transact(acme, [Update(first.changed(text="a lantern"))])
        assert (search(store, acme, "anchor"), search(store, acme, "lantern")) == ([], ["fact"])
        store.transact(acme, [Delete(Memory, "fact")])
        assert search(store, acme, "anchor", "lantern") == []
        stored(store, acme, memory(acme, text="the moon"))
        assert (search(store, acme, "lantern"), search(store, acme, "moon")) == ([], ["fact"])

    @pytest.mark.parametrize("term", HOSTILE_TERMS, ids=lambda term: ascii(term)[:14])
    def test_a_hostile_term_is_a_word_like_any_other(
        self, store: RecordStore, acme: Scope, globex: Scope, term: str
    ) -> None:
        stored(store, acme, memory(acme, "mine", "an anchor and or not near"), memory(acme, "moon", "the moon"))
        stored(store, globex, memory(globex, "theirs", "an anchor and or not near"))
        assert set(search(store, acme, term)) <= {"mine"}
        assert sorted(search(store, acme, term, "moon")) in (["moon"], ["mine", "moon"])
        facet = term.replace("\x00", "?").replace("\ud800", "?")
        assert search(store, acme, "anchor", facets={"kind": (facet,)}) == []

    def test_thousands_of_terms_are_no_error(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, memory(acme, text="an anchor"))
        assert search(store, acme, *(f"w{number}" for number in range(3000)), "anchor") == ["fact"]

    def test_hostile_text_is_found_by_its_words(self, store: RecordStore, acme: Scope) -> None:
        for number, term in enumerate(HOSTILE_TERMS):
            text = f"marker{number} " + term.replace("\x00", "").replace("\ud800", "")
            stored(store, acme, memory(acme, f"m{number}", text))
        for number in range(len(HOSTILE_TERMS)):
            assert search(store, acme, f"marker{number}") == [f"m{number}"]

    def test_an_empty_text_is_no_obstacle(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, session(acme), agent(acme))
        made: list[Record] = [
            Message(organization_id="acme", id="silent", role="user", text=None, session_id="talk"),
            Message(organization_id="acme", id="loud", role="user", text="an anchor", session_id="talk"),
        ]
        stored(store, acme, *made)
        assert search(store, acme, "anchor", record=Message, facets={"session_id": ("talk",)}) == ["loud"]
        stored(store, acme, Source(organization_id="acme", id="s", name="anchor", path="p", content_hash="h"))
        assert search(store, acme, "anchor", record=Source) == ["s"]

    def test_right_to_left_and_accented_words_are_found(self, store: RecordStore, acme: Scope) -> None:
        for id, word in {"he": "עוגן", "ar": "مرساة", "el": "άγκυρα", "ru": "якорь", "fr": "forêt"}.items():
            stored(store, acme, memory(acme, id, f"x {word} y"))
            assert search(store, acme, word) == [id]
