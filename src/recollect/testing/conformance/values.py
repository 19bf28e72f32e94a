"""What goes in comes out: types, hostile ids, long texts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from recollect.domain.agents import Agent, Block, Cycle
from recollect.domain.conversations import Message
from recollect.domain.memory import Embedding, Memory, Tag
from recollect.domain.record import Record
from recollect.domain.sources import Source, Table
from recollect.domain.tenancy import User
from recollect.errors import InvalidInput
from recollect.ports.query import Linked, OneOf, Order, Query, equal
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Delete, Insert, Require, Touch, Update
from recollect.testing.conformance.makers import (
    agent,
    embedding,
    ids,
    memory,
    one_of_each,
    search,
    session,
    stored,
    tag,
    user,
)

JSON_VALUES: list[object] = [
    *(None, True, False, 0, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)),
    *(0.1, -0.0, 1e-300, 1.7976931348623157e308, 5e-324, 1.0, 0.1 + 0.2),
    *(
        "",
        " ",
        "null",
        "1",
        "a\"b'c\\d",
        "line\nfeed\ttab\r",
        "\x01\x1f\x7f",
        "é",
        "e\u0301",
        "🙂👩‍👩‍👧",
        "\u202eabc",
        "\uffff",
    ),
    *([], {}, [[]], [1, "1", 1.5, True, None], {"a": {"b": {"c": [{"d": None}]}}}, {"": "", "$": {".": "[0]"}}),
    *({"shape": 1, "id": 2, "__class__": 3}, list(range(2000)), {f"key {n}": n for n in range(500)}),
]
MOMENTS = [
    datetime(2026, 3, 4, 5, 6, 7, 890123, tzinfo=UTC),
    datetime(2026, 3, 4, 5, 6, 7, tzinfo=timezone(timedelta(hours=5, minutes=45))),
    datetime(2026, 3, 4, 5, 6, 7, 1, tzinfo=timezone(-timedelta(hours=9, minutes=30))),
    datetime(2026, 3, 4, 5, 6, 7, 999999),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1000, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 500000, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
]
HOSTILE_IDS = [
    *("..", "../../etc/passwd", ".", "/", "\\", "~", "C:\\", "%2e%2e", "%00", "🙂", "👩‍👩‍👧", "\u202edlrow", "עוגן"),
    *("' OR 1=1 --", '"; DROP TABLE "memory"; --', "';--", "*", "%", "_", "null", "None", "0", "-1", " ", " a ", "a b"),
    *(
        "x" * 255,
        "é",
        "e\u0301",
        "İ",
        "ß",
        "K",
        "\u212a",
        "<script>",
        "{}",
        "${x}",
        "$",
        "?",
        "?1",
        ":a",
        "@a",
        "\u200b",
    ),
]
REFUSED_IDS = ["", "a\x00b", "\x00", "\ud800", "a\udfff", "\n", "a\tb", "\x1b[0m", "\x7f", "\x85", "x" * 256]


class ValueRules:
    def test_every_type_of_record_comes_back_as_it_went(self, store: RecordStore, acme: Scope) -> None:
        records = one_of_each(acme)
        store.transact(acme, [Insert(one) for one in records[1:]])
        for one in records[1:]:
            assert store.get(acme, type(one), one.id) == one
            assert store.find(acme, Query(type(one))).records == [one]

    def test_json_comes_back_as_it_went(self, store: RecordStore, acme: Scope) -> None:
        for number, value in enumerate(JSON_VALUES):
            stored(store, acme, memory(acme, f"{number}", metadata={"k": value}, content={"deep": [value]}))
        for number, value in enumerate(JSON_VALUES):
            kept = store.get(acme, Memory, f"{number}")
            assert kept is not None
            assert (kept.metadata, kept.content) == ({"k": value}, {"deep": [value]})
            assert type(kept.metadata["k"]) is type(value)
            assert repr(kept.metadata) == repr({"k": value})

    def test_what_the_caller_changes_afterwards_is_not_stored(self, store: RecordStore, acme: Scope) -> None:
        given = memory(acme, metadata={"list": [1]})
        stored(store, acme, given)
        given.metadata["list"].append(2)
        read = store.get(acme, Memory, "fact")
        assert read is not None
        assert read.metadata == {"list": [1]}
        read.metadata["list"].append(3)
        assert store.select(acme, Query(Memory), ("metadata",)) == [({"list": [1]},)]

    def test_moments_keep_their_instant_to_the_microsecond(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, *(memory(acme, f"{n}", occurred_at=moment) for n, moment in enumerate(MOMENTS)))
        for number, moment in enumerate(MOMENTS):
            kept = store.get(acme, Memory, f"{number}")
            assert kept is not None
            assert kept.occurred_at == (moment if moment.tzinfo else moment.replace(tzinfo=UTC))
            assert kept.occurred_at.utcoffset() == timedelta(0)
            assert ids(store, acme, Query(Memory, (equal("occurred_at", moment),))) == [f"{number}"]
        found = store.find(acme, Query(Memory, order=(Order("occurred_at"),))).records
        assert [one.occurred_at for one in found] == sorted(one.occurred_at for one in found)

    def test_numbers_and_booleans_keep_their_type(self, store: RecordStore, acme: Scope) -> None:
        stored(
            store, acme, memory(acme, confidence=1, importance=2**53, score=-1e-308, priority=10, access_count=2**62)
        )
        kept = store.get(acme, Memory, "fact")
        assert kept is not None
        values = (kept.confidence, kept.importance, kept.score, kept.priority, kept.access_count, kept.is_deleted)
        assert values == (1.0, 2.0**53, -1e-308, 10, 2**62, False)
        assert [type(value) for value in values] == [float, float, float, int, int, bool]

    def test_an_integer_beyond_64_bits_is_kept_or_refused(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, agent(acme))
        for index in (2**63 - 1, 2**63, 2**200):
            cycle = Cycle(organization_id="acme", id=f"c{index}"[:200], agent_id="bot", index=index)
            try:
                stored(store, acme, cycle)
            except InvalidInput:
                assert index >= 2**63
                assert store.get(acme, Cycle, cycle.id) is None
            else:
                assert store.get(acme, Cycle, cycle.id) == cycle

    @pytest.mark.parametrize("vector", [b"", b"\x00", bytes(range(256)), b"\xff" * 100_000, b"'\"\\"], ids=len)
    def test_bytes_come_back_as_they_went(self, store: RecordStore, acme: Scope, vector: bytes) -> None:
        stored(store, acme, memory(acme))
        stored(store, acme, embedding(acme, "fact", vector, tokens=vector))
        assert store.select(acme, Query(Embedding), ("vector", "tokens")) == [(vector, vector)]

    def test_empty_is_not_missing(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, memory(acme, "empty", author="", metadata={}, namespaces=[]), memory(acme, "none"))
        kept, none = store.get(acme, Memory, "empty"), store.get(acme, Memory, "none")
        assert kept is not None
        assert none is not None
        assert (kept.author, kept.metadata, kept.namespaces, none.author) == ("", {}, [], None)

    def test_a_megabyte_of_text_comes_back_and_is_found(self, store: RecordStore, acme: Scope) -> None:
        text = "".join(f"word{number} é🙂 " for number in range(70_000))[:999_990] + " anchor"
        stored(store, acme, memory(acme, text=text, content={"text": text}))
        kept = store.get(acme, Memory, "fact")
        assert kept is not None
        assert kept.text == text
        assert kept.content == {"text": text}
        assert search(store, acme, "anchor") == ["fact"]

    def test_reserved_words_are_names_like_any_other(self, store: RecordStore, acme: Scope) -> None:
        org: dict[str, Any] = {"organization_id": "acme"}
        stored(store, acme, user(acme), agent(acme), session(acme, user_id="ann"))
        stored(store, acme, Block(**org, id="b", label="select", value="where", limit=7))
        stored(store, acme, Cycle(**org, id="c", agent_id="bot", index=3))
        stored(store, acme, Source(**org, id="s", name="from", path="p", content_hash="h"))
        stored(store, acme, Table(**org, id="t", source_id="s", name="group"))
        stored(store, acme, Message(**org, id="m", role="user", references=[{"order": "by"}]))
        assert ids(store, acme, Query(Block, (equal("limit", 7),), (Order("limit"),))) == ["b"]
        assert store.select(acme, Query(Cycle, (OneOf("index", (3, 4)),)), ("index",)) == [(3,)]
        assert ids(store, acme, Query(Table, (equal("name", "group"),))) == ["t"]
        assert store.select(acme, Query(Message), ("references",)) == [([{"order": "by"}],)]
        assert search(store, acme, "group", record=Table) == ["t"]
        assert store.transact(acme, [Delete(User, "ann"), Delete(Source, "s")]).deleted == 4

    @pytest.mark.parametrize("id", HOSTILE_IDS, ids=lambda id: ascii(id)[:14])
    def test_a_hostile_id_is_an_id_like_any_other(self, store: RecordStore, acme: Scope, id: str) -> None:
        stored(store, acme, agent(acme, "bystander"), memory(acme, "bystander"))
        first = stored(store, acme, agent(acme, id, name="Odd"))
        stored(store, acme, memory(acme, id, "an anchor", agent_id=id), tag(acme, id, "sea"))
        store.transact(acme, [Update(first.changed(topic="x")), Touch(Memory, id, {"access_count": 1})])
        store.transact(acme, [Require(Agent, id, {"topic": "x"})])
        assert store.get(acme, Agent, id) == first.changed(topic="x", version=2)
        for query in (equal("agent_id", id), OneOf("id", (id,)), Linked(Tag, "memory_id")):
            assert ids(store, acme, Query(Memory, (query,))) == [id]
        assert search(store, acme, "anchor", facets={"agent_id": (id,)}) == [id]
        assert id in {change.id for change in store.changes(acme, 0)}
        assert store.transact(acme, [Delete(Agent, id)]).deleted == 3
        assert ids(store, acme, Query(Agent)) == ids(store, acme, Query(Memory)) == ["bystander"]

    def test_ids_that_look_alike_are_different(self, store: RecordStore, acme: Scope) -> None:
        alike = [
            "a",
            "A",
            "a ",
            " a",
            "á",
            "a\u0301",
            "\uff41",
            "\u0430",
            "K",
            "\u212a",
            "ß",
            "ss",
            "1",
            "01",
            "1.0",
            "\u200ba",
        ]
        stored(store, acme, *(agent(acme, id, name=f"n{number}") for number, id in enumerate(alike)))
        for number, id in enumerate(alike):
            kept = store.get(acme, Agent, id)
            assert kept is not None
            assert kept.name == f"n{number}"
        assert ids(store, acme, Query(Agent)) == sorted(alike)

    @pytest.mark.parametrize("id", REFUSED_IDS, ids=lambda id: ascii(id)[:14])
    def test_what_no_store_can_keep_is_refused_by_the_record_itself(self, acme: Scope, id: str) -> None:
        for make in (lambda: agent(acme, id), lambda: session(acme, user_id=id), lambda: agent(Scope(id))):
            with pytest.raises(ValidationError):
                make()

    @pytest.mark.parametrize("text", ["a\x00b", "\ud800", "a\udc00"], ids=ascii)
    def test_unstorable_text_is_refused_by_the_record_itself(self, acme: Scope, text: str) -> None:
        for fields in ({"text": text}, {"author": text}, {"metadata": {"k": [text]}}, {"metadata": {text: 1}}):
            with pytest.raises(ValidationError):
                memory(acme, **fields)
        for number in (float("nan"), float("inf")):
            with pytest.raises(ValidationError):
                memory(acme, metadata={"k": number})

    @pytest.mark.parametrize("id", REFUSED_IDS, ids=lambda id: ascii(id)[:14])
    def test_asking_for_an_impossible_id_is_no_driver_error(self, store: RecordStore, acme: Scope, id: str) -> None:
        stored(store, acme, agent(acme))
        questions: list[Callable[[], object]] = [
            lambda: store.get(acme, Agent, id),
            lambda: store.find(acme, Query(Agent, (equal("id", id),))).records,
            lambda: store.count(acme, Query(Agent, (OneOf("id", (id,)),))),
            lambda: store.transact(acme, [Delete(Agent, id)]).deleted,
            lambda: store.transact(acme, [Touch(Agent, id)]).deleted,
            lambda: store.changes(Scope(id), 0),
            lambda: store.get(Scope(id), Agent, "bot"),
            lambda: search(store, Scope(id), "sky"),
        ]
        for question in questions:
            with suppress(InvalidInput):
                assert not question()

    def test_what_was_committed_is_there_after_reopening(
        self, store: RecordStore, acme: Scope, reopen: Callable[[RecordStore], RecordStore] | None
    ) -> None:
        if reopen is None:
            pytest.skip("this store is not durable")
        records: list[Record] = one_of_each(acme)
        store.transact(acme, [Insert(one) for one in records[1:]])
        store.transact(acme, [Touch(Memory, "a-memory", {"access_count": 3}), Delete(Agent, "nobody")])
        before = store.changes(acme, 0)
        again = reopen(store)
        assert again.changes(acme, 0) == before
        assert again.select(acme, Query(Memory), ("access_count",)) == [(3,)]
        assert search(again, acme, "something") == ["a-memory"]
        assert again.transact(acme, [Insert(user(acme))]).seq > before[-1].seq
        assert again.verify() == []
