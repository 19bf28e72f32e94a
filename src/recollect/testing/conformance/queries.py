"""Every filter, and what no filter may do."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from recollect.domain.agents import Agent
from recollect.domain.memory import Memory, Tag
from recollect.domain.tenancy import User
from recollect.errors import InvalidInput
from recollect.ports.query import (
    AllOf,
    AnyOf,
    Compare,
    Filter,
    Has,
    Holds,
    IsNull,
    Linked,
    OneOf,
    Order,
    Query,
    Row,
    TextQuery,
    equal,
)
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import DeleteWhere
from recollect.testing.conformance.makers import NOON, agent, ids, memory, search, stored, tag, user

HOSTILE_KEYS = (
    'a"b',
    "a'b",
    "$",
    "$.a",
    ".",
    "a.b",
    "",
    " ",
    "[0]",
    "#",
    "\\",
    "a\nb",
    "ключ",
    "🗝",
    "\u202eabc",
    "k" * 999,
)
TYPED: dict[str, Any] = {
    "int": 1,
    "real": 1.5,
    "text": "1",
    "yes": True,
    "no": False,
    "null": None,
    "list": [1],
    "o": {},
}


def _three(scope: Scope) -> list[Memory]:
    """Three memories that differ in a field of every type."""
    return [
        memory(scope, "a", priority=1, confidence=0.1, author="Ann", occurred_at=NOON, score=None),
        memory(scope, "b", priority=5, confidence=0.5, author=None, occurred_at=NOON + timedelta(hours=1), score=0.5),
        memory(scope, "c", priority=9, confidence=0.9, author="Çelik", occurred_at=NOON + timedelta(days=1), score=2.0),
    ]


COMPARISONS: list[tuple[str, object, str, str]] = [
    # field, value, which are equal, which are less
    ("priority", 5, "b", "a"),
    ("confidence", 0.5, "b", "a"),
    ("confidence", 1, "", "abc"),
    ("author", "Ann", "a", ""),
    ("author", "Z", "", "a"),
    ("author", "", "", ""),
    ("occurred_at", NOON, "a", ""),
    ("occurred_at", datetime(2026, 1, 2, 13), "b", "a"),
    ("occurred_at", datetime(2026, 1, 2, 20, tzinfo=timezone(timedelta(hours=7))), "b", "a"),
    ("occurred_at", datetime.max.replace(tzinfo=UTC), "", "abc"),
    ("score", 0.5, "b", ""),
    ("id", "b", "b", "a"),
    ("is_deleted", False, "abc", ""),
    ("is_deleted", True, "", "abc"),
]
BAD_FILTERS: list[Filter] = [
    Compare("colour", "=", "red"),
    Compare("shape", "=", "red"),
    Compare('text" = "text', "=", "x"),
    Compare("priority", "= 1 OR 1 =", 1),  # type: ignore[arg-type]
    Compare("priority", "", 1),  # type: ignore[arg-type]
    Compare("priority", "=", "high"),
    Compare("priority", "=", True),
    Compare("priority", "=", 2**63),
    Compare("author", "=", 5),
    Compare("author", "=", "a\x00b"),
    Compare("author", "=", "\ud800"),
    Compare("occurred_at", ">", "2026-01-01"),
    Compare("occurred_at", ">", 5),
    Compare("is_deleted", "=", 0),
    Compare("score", "<", float("nan")),
    Compare("metadata", "=", {"a": 1}),
    Compare("metadata", "=", [1], key="a"),
    Compare("metadata", "=", NOON, key="a"),
    Compare("metadata", "=", 2**64, key="a"),
    Compare("metadata", "=", "\ud800", key="a"),
    Compare("metadata", "=", 1, key="\ud800"),
    Compare("text", "=", "x", key="a"),
    Compare("metadata", "=", 1, key=("a",) * 40),
    Compare("metadata", "=", 1, key=("a", 0)),  # type: ignore[arg-type]
    Has("text", "a"),
    Has("metadata", "\ud800"),
    Holds("metadata", NOON, "a"),  # type: ignore[arg-type]
    OneOf("colour", ()),
    OneOf("priority", (1, "two")),
    OneOf("author", ("Ann", "\ud800")),
    OneOf("metadata", ({},)),
    IsNull("colour"),
    Holds("colour", "red"),
    Holds("text", "sky"),
    Holds("namespaces", "\ud800"),
    AnyOf((IsNull("author"), IsNull("colour"))),
    Linked(Tag, "colour"),
    Linked(Tag, "memory_id", by="colour"),
    AllOf((IsNull("author"), IsNull("colour"))),
    Linked(Tag, "memory_id", (equal("colour", "red"),)),
]


class QueryRules:
    @pytest.mark.parametrize(("field", "value", "equals", "less"), COMPARISONS, ids=str)
    def test_compare_knows_every_operator(
        self, store: RecordStore, acme: Scope, field: str, value: object, equals: str, less: str
    ) -> None:
        three = _three(acme)
        stored(store, acme, *three)
        filled = "".join(one.id for one in three if getattr(one, field) is not None)
        more = "".join(id for id in filled if id not in equals + less)
        expected = {
            "=": equals,
            "!=": "".join(id for id in "abc" if id not in equals),
            "<": less,
            "<=": "".join(sorted(equals + less)),
            ">": more,
            ">=": "".join(sorted(equals + more)),
        }
        answers = {
            operator: "".join(ids(store, acme, Query(Memory, (Compare(field, operator, value),))))  # type: ignore[arg-type]
            for operator in expected
        }
        assert answers == expected

    def test_nothing_is_compared_with_an_empty_value(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, *_three(acme))
        for operator in ("=", "<", "<=", ">", ">="):
            assert ids(store, acme, Query(Memory, (Compare("author", operator, None),))) == []
        assert ids(store, acme, Query(Memory, (Compare("author", "!=", None),))) == ["a", "c"]
        assert ids(store, acme, Query(Memory, (equal("author", None),))) == ["b"]

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (1, ["int"]),
            (1.0, ["int"]),
            (1.5, ["real"]),
            ("1", ["text"]),
            (True, ["yes"]),
            (False, ["no"]),
            (None, ["null"]),
        ],
        ids=repr,
    )
    def test_members_are_compared_with_strict_types(
        self, store: RecordStore, acme: Scope, value: object, expected: list[str]
    ) -> None:
        stored(store, acme, *(memory(acme, name, metadata={"k": inner}) for name, inner in TYPED.items()))
        stored(store, acme, memory(acme, "none", metadata={}))
        assert ids(store, acme, Query(Memory, (Compare("metadata", "=", value, "k"),))) == expected
        others = sorted({*TYPED, "none"} - set(expected))
        assert ids(store, acme, Query(Memory, (Compare("metadata", "!=", value, "k"),))) == others

    def test_members_have_an_order_within_their_type(self, store: RecordStore, acme: Scope) -> None:
        values = [-3, 2, 2.5, 10, "10", "2", "b", True, None, [5], {"x": 5}]
        stored(store, acme, *(memory(acme, f"{n:02}", metadata={"k": value}) for n, value in enumerate(values)))

        def those(operator: str, value: object) -> list[Any]:
            query = Query(Memory, (Compare("metadata", operator, value, "k"),))  # type: ignore[arg-type]
            return [one.metadata["k"] for one in store.find(acme, query).records]

        assert those(">", 2) == [2.5, 10]
        assert those("<=", 2.5) == [-3, 2, 2.5]
        assert those("<", "2") == ["10"]
        assert those(">=", "2") == ["2", "b"]
        assert those(">", 2**62) == []

    @pytest.mark.parametrize("key", HOSTILE_KEYS, ids=lambda key: ascii(key)[:12])
    def test_a_hostile_key_finds_just_its_member(self, store: RecordStore, acme: Scope, key: str) -> None:
        stored(store, acme, memory(acme, "it", metadata={key: "here"}))
        others = {other: "here" for other in HOSTILE_KEYS if other != key}
        stored(store, acme, memory(acme, "others", metadata={**others, "deep": {key: "here"}}))
        assert ids(store, acme, Query(Memory, (Compare("metadata", "=", "here", key),))) == ["it"]
        assert ids(store, acme, Query(Memory, (Compare("metadata", "!=", "here", key),))) == ["others"]

    def test_members_of_members_are_found_by_their_path(self, store: RecordStore, acme: Scope) -> None:
        """Only through objects: a list has no members, and neither a number nor a dot is a way into anything."""
        paths = {
            "deep": {"a": {"b": {"c": 1}}},
            "dotted": {"a.b.c": 1, "a": {"b.c": 1}},
            "list": {"a": [{"b": {"c": 1}}], "0": {"b": {"c": 1}}},
            "text": {"a": {"b": {"c": "1"}}},
            "true": {"a": {"b": {"c": True}}},
            "null": {"a": {"b": {"c": None}}},
            "real": {"a": {"b": {"c": 2.5}}},
            "short": {"a": {"b": 1}},
            "none": {},
        }
        stored(store, acme, *(memory(acme, name, metadata=value) for name, value in paths.items()))
        way = ("a", "b", "c")
        expected: list[tuple[Filter, set[str]]] = [
            (Compare("metadata", "=", 1, way), {"deep"}),
            (Compare("metadata", "=", 1.0, way), {"deep"}),
            (Compare("metadata", "!=", 1, way), paths.keys() - {"deep"}),
            (Compare("metadata", "=", "1", way), {"text"}),
            (Compare("metadata", "=", True, way), {"true"}),
            (Compare("metadata", "=", None, way), {"null"}),
            (Compare("metadata", ">", 1, way), {"real"}),
            (Compare("metadata", "=", 1, ("a", "b.c")), {"dotted"}),
            (Compare("metadata", "=", 1, ("a", "0", "b", "c")), set()),
            (Compare("metadata", "=", 1, ("0", "b", "c")), {"list"}),
            (Has("metadata", way), {"deep", "text", "true", "null", "real"}),
            (Has("metadata", way, wanted=False), {"dotted", "list", "short", "none"}),
            (Has("metadata", ("a", "0")), set()),
            (Has("metadata", "a", wanted=False), {"none"}),
        ]
        for given, found in expected:
            assert set(ids(store, acme, Query(Memory, (given,)))) == found, given

    @pytest.mark.parametrize(
        "key", ['a"b', "a'b", "$", "a.b", "", "[0]", "\\", "/", "~1", "ключ", "' OR 1=1 --"], ids=ascii
    )
    def test_a_hostile_name_within_a_path_is_a_name(self, store: RecordStore, acme: Scope, key: str) -> None:
        stored(store, acme, memory(acme, "it", content={"x": {key: {key: ["here", 1]}}}))
        stored(store, acme, memory(acme, "other", content={"x": {"y": {"z": ["here", 1]}}, key: "here"}))
        for given in (Has("content", ("x", key, key)), Holds("content", "here", ("x", key, key))):
            assert ids(store, acme, Query(Memory, (given,))) == ["it"]

    def test_a_list_in_a_member_holds_values_of_any_type(self, store: RecordStore, acme: Scope) -> None:
        lists: dict[str, Any] = {"int": [1], "real": [1.5, 2.0], "text": ["1"], "yes": [True, False], "null": [None]}
        lists |= {"deep": [[1], {"k": 1}], "scalar": 1, "object": {"1": 1}, "empty": []}
        stored(store, acme, *(memory(acme, name, metadata={"k": {"l": value}}) for name, value in lists.items()))
        for value, expected in ((1, "int"), (1.0, "int"), (2, "real"), ("1", "text"), (False, "yes"), (None, "null")):
            assert ids(store, acme, Query(Memory, (Holds("metadata", value, ("k", "l")),))) == [expected]
        assert ids(store, acme, Query(Memory, (Holds("metadata", "k", "k"),))) == []

    def test_a_value_with_quotes_is_a_value(self, store: RecordStore, acme: Scope) -> None:
        hostile = ("' OR 1=1 --", '"; DROP TABLE "memory"; --', "%", "_", "\\", "a\nb", "🙂", "\u202e", "null", "true")
        for number, value in enumerate(hostile):
            stored(store, acme, memory(acme, f"{number}", author=value, metadata={"k": value}, namespaces=[value]))
        for number, value in enumerate(hostile):
            for one in (equal("author", value), Compare("metadata", "=", value, "k"), Holds("namespaces", value)):
                assert ids(store, acme, Query(Memory, (one,))) == [f"{number}"]

    @pytest.mark.parametrize(
        ("field", "values", "expected"),
        [
            ("id", (), ""),
            ("id", ("a",), "a"),
            ("id", ("c", "a", "a", "nope"), "ac"),
            ("id", (*(f"x{n}" for n in range(1000)), "b"), "b"),
            ("id", (*(f"x{n}" for n in range(40_000)), "b"), "b"),
            ("author", (None,), "b"),
            ("author", ("Ann", None), "ab"),
            ("author", (*(f"x{n}" for n in range(1000)), "Ann", None), "ab"),
            ("priority", (9, 1), "ac"),
            ("priority", tuple(range(6, 1006)), "c"),
            ("confidence", (0.5, 1), "b"),
            ("occurred_at", (NOON, NOON.replace(tzinfo=None) + timedelta(hours=1)), "ab"),
            ("is_deleted", (False,), "abc"),
        ],
        ids=lambda value: str(value)[:20],
    )
    def test_one_of_takes_any_number_of_values(
        self, store: RecordStore, acme: Scope, field: str, values: Row, expected: str
    ) -> None:
        stored(store, acme, *_three(acme))
        assert ids(store, acme, Query(Memory, (OneOf(field, values),))) == list(expected)
        others = [id for id in "abc" if id not in expected]
        assert ids(store, acme, Query(Memory, (OneOf(field, values, wanted=False),))) == others

    def test_is_null_and_is_not(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, *_three(acme), memory(acme, "d", author=""))
        assert ids(store, acme, Query(Memory, (IsNull("author"),))) == ["b"]
        assert ids(store, acme, Query(Memory, (IsNull("author", wanted=False),))) == ["a", "c", "d"]
        assert ids(store, acme, Query(Memory, (IsNull("priority"),))) == []

    def test_holds_looks_for_a_text_among_the_members_of_a_list(self, store: RecordStore, acme: Scope) -> None:
        lists = {"a": ["x", "y"], "b": ["xy"], "c": [], "d": ['"x"', '["x"]'], "e": ["1"]}
        stored(store, acme, *(memory(acme, id, namespaces=names) for id, names in lists.items()))
        for wanted, expected in (("x", ["a"]), ("xy", ["b"]), ("", []), ('["x"]', ["d"]), ("1", ["e"]), ("[]", [])):
            assert ids(store, acme, Query(Memory, (Holds("namespaces", wanted),))) == expected

    def test_holds_takes_neither_numbers_nor_inner_lists_nor_objects_for_text(
        self, store: RecordStore, acme: Scope
    ) -> None:
        stored(store, acme, memory(acme, "meta", metadata={"x": "y"}, content={"x": ["y"], "k": 1}))
        stored(store, acme, agent(acme, tool_rules=[1, True, None, ["x"], {"x": "y"}, "talk"]))
        for value, expected in (("talk", ["bot"]), ("1", []), ("true", []), ("null", []), ('["x"]', []), ("x", [])):
            assert ids(store, acme, Query(Agent, (Holds("tool_rules", value),))) == expected
        for field in ("metadata", "content"):
            for value in ("x", "y", "1", '["y"]'):
                assert ids(store, acme, Query(Memory, (Holds(field, value),))) == []

    def test_any_of_is_or_and_filters_side_by_side_are_and(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, *_three(acme))
        low, high, nobody = Compare("priority", "<", 3), Compare("priority", ">", 7), IsNull("author")
        for where, expected in (
            ((AnyOf((low, high)),), "ac"),
            ((AnyOf(()),), ""),
            ((AnyOf((AnyOf(()), nobody)),), "b"),
            ((AnyOf((low, AnyOf((high, nobody)))),), "abc"),
            ((AnyOf((low, high)), nobody), ""),
            ((AnyOf((low, nobody)), AnyOf((high, nobody))), "b"),
            ((low, high), ""),
            ((AnyOf((AllOf((low, nobody)), high)),), "c"),
            ((AnyOf((AllOf((low, IsNull("author", wanted=False))), high)),), "ac"),
            ((AllOf(()),), "abc"),
            ((), "abc"),
        ):
            assert ids(store, acme, Query(Memory, where)) == list(expected)
            assert store.count(acme, Query(Memory, where)) == len(expected)
            for most in (1, 2, 100):
                assert store.count(acme, Query(Memory, where), most) == min(most, len(expected))

    def test_linked_asks_for_another_record_that_points_here(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, *_three(acme))
        stored(store, acme, tag(acme, "a", "sea"), tag(acme, "a", "sky"), tag(acme, "b", "sky"))
        sea, sky = (equal("tag", "sea"),), (OneOf("tag", ("sky", "moon")),)
        for where, expected in (
            ((Linked(Tag, "memory_id"),), "ab"),
            ((Linked(Tag, "memory_id", wanted=False),), "c"),
            ((Linked(Tag, "memory_id", sea),), "a"),
            ((Linked(Tag, "memory_id", sea, wanted=False),), "bc"),
            ((Linked(Tag, "memory_id", sky), Linked(Tag, "memory_id", sea, wanted=False)), "b"),
            ((AnyOf((Linked(Tag, "memory_id", sea), equal("id", "c"))),), "ac"),
            ((Linked(Tag, "memory_id", (*sea, *sky)),), ""),
        ):
            assert ids(store, acme, Query(Memory, where)) == list(expected)

    def test_links_within_links(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, user(acme), user(acme, "eve"))
        stored(store, acme, memory(acme, "a", user_id="ann"), memory(acme, "b", user_id="eve"))
        stored(store, acme, tag(acme, "b", "sea"))
        tagged = Linked(Memory, "user_id", (Linked(Tag, "memory_id", (equal("tag", "sea"),)),))
        assert ids(store, acme, Query(User, (tagged,))) == ["eve"]

    def test_links_that_are_empty_lead_nowhere(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, user(acme), user(acme, "eve"), memory(acme, "a", user_id="eve"), memory(acme, "b"))
        for wanted, expected in ((True, "eve"), (False, "ann")):
            query = Query(User, (Linked(Memory, "user_id", wanted=wanted),), limit=1)
            assert ids(store, acme, query) == [expected]
            assert store.count(acme, query) == 1

    def test_linked_by_a_field_asks_for_what_the_record_refers_to(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, user(acme), user(acme, "eve"), memory(acme, "c"))
        stored(store, acme, memory(acme, "a", user_id="ann"), memory(acme, "b", user_id="eve", is_deleted=True))
        stored(store, acme, tag(acme, "a", "sea"), tag(acme, "c", "sea"))
        anns = Linked(Memory, "id", (equal("user_id", "ann"),), by="memory_id")
        assert [one.memory_id for one in store.find(acme, Query(Tag, (anns,))).records] == ["a"]
        its_user = Linked(User, "id", by="user_id")
        whose = Linked(Memory, "id", (its_user,), by="memory_id")
        assert [one.memory_id for one in store.find(acme, Query(Tag, (whose,))).records] == ["a"]
        for where, expected in (
            ((its_user,), ["a"]),
            ((Linked(User, "id", by="user_id", wanted=False),), ["c"]),
            ((AnyOf((its_user, AllOf((IsNull("user_id"), equal("id", "c"))))),), ["a", "c"]),
            ((Linked(User, "id", (equal("id", "nobody"),), by="user_id"),), []),
        ):
            assert ids(store, acme, Query(Memory, where)) == expected
        remembered = Linked(Memory, "user_id", (equal("id", "b"),))
        assert ids(store, acme, Query(User, (remembered,))) == []
        assert ids(store, acme, Query(User, (replace(remembered, deleted=True),))) == ["eve"]

    @pytest.mark.parametrize("bad", BAD_FILTERS, ids=lambda bad: ascii(bad)[:60])
    @pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
    def test_a_senseless_filter_is_refused_by_every_verb(
        self, store: RecordStore, acme: Scope, bad: Filter, filled: bool
    ) -> None:
        if filled:
            stored(store, acme, *_three(acme))
        query = Query(Memory, (bad,))
        with pytest.raises(InvalidInput):
            store.find(acme, query)
        with pytest.raises(InvalidInput):
            store.select(acme, query, ("id",))
        with pytest.raises(InvalidInput):
            store.count(acme, query)
        with pytest.raises(InvalidInput):
            store.transact(acme, [DeleteWhere(Memory, (bad,))])
        with pytest.raises(InvalidInput):
            search(store, acme, "sky", where=(bad,))
        assert store.count(acme, Query(Memory)) == (3 if filled else 0)

    @pytest.mark.parametrize("name", ["colour", "shape", "metadata", "vector", 'id" DESC --'])
    def test_records_are_put_in_order_of_their_plain_fields_only(
        self, store: RecordStore, acme: Scope, name: str
    ) -> None:
        with pytest.raises(InvalidInput):
            store.find(acme, Query(Memory, order=(Order(name),)))

    def test_select_gives_the_fields_asked_for_decoded(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, *_three(acme))
        fields = ("id", "author", "occurred_at", "is_deleted", "content", "namespaces", "score", "version")
        expected = [tuple(getattr(one, name) for name in fields) for one in _three(acme)]
        rows = store.select(acme, Query(Memory, order=(Order("priority"),)), fields)
        assert [tuple(row) for row in rows] == expected
        assert [type(value) for value in rows[1]] == [type(value) for value in expected[1]]
        for bad in ("colour", "shape", "rowid", "*"):
            with pytest.raises(InvalidInput):
                store.select(acme, Query(Memory), (bad,))

    def test_text_search_refuses_what_is_not_declared(self, store: RecordStore, acme: Scope) -> None:
        with pytest.raises(InvalidInput):
            store.search_text(acme, TextQuery(User, ("ann",), 5))
        for facets in ({"colour": ("red",)}, {"text": ("red",)}, {"kind": ("\ud800",)}, {"kind": (5,)}):
            with pytest.raises(InvalidInput):
                search(store, acme, "sky", facets=facets)
