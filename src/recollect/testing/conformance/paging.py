"""Order and pages."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta

import pytest

from recollect.domain.agents import Agent
from recollect.domain.memory import Memory
from recollect.domain.record import Record
from recollect.errors import InvalidInput
from recollect.ports.query import Beside, Compare, Filter, Order, Query, Row, TextQuery, equal
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Delete, Insert, Update
from recollect.testing.conformance.makers import NOON, agent, ids, memory, session, stored

ORDERS: list[tuple[Order, ...]] = [
    (),
    (Order("id", descending=True),),
    (Order("author"),),
    (Order("author", descending=True),),
    (Order("priority"), Order("author", descending=True)),
    (Order("priority", descending=True), Order("author")),
    (Order("score", descending=True), Order("occurred_at"), Order("priority", descending=True)),
    (Order("is_deleted"), Order("score")),
    (Order("occurred_at"),),
    (Order("priority", descending=True), Order("occurred_at", descending=True)),
    (Order("author"), Order("id", descending=True)),
]
BAD_CURSORS = ["x", "", "é", "!!!!", "AAAA", "bnVsbA", "NQ", "W10", "A" * 10_000]


def cursor(*values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def pages(store: RecordStore, scope: Scope, query: Query[Record]) -> list[list[str]]:
    found, after = [], None
    while True:
        page = store.find(scope, Query(query.record, query.where, query.order, query.limit, after, query.deleted))
        found.append([record.id for record in page.records])
        if page.next is None:
            return found
        after = page.next


def _mixed(scope: Scope) -> list[Memory]:
    """With ties and empty fields in every combination."""
    authors, scores = (None, "", "Ann", "ann", "É", "🙂"), (None, -1.5, 0.0, 1e300)
    return [
        memory(
            scope,
            f"{number:02}",
            author=authors[number % 6],
            score=scores[number % 4],
            priority=1 + number % 3,
            occurred_at=NOON + timedelta(microseconds=number % 5),
            is_deleted=number % 7 == 0,
        )
        for number in range(60)
    ]


def _expected(records: list[Memory], order: tuple[Order, ...]) -> list[str]:
    by_id = not order or order[-1].descending is False
    ordered = sorted(records, key=lambda one: one.id, reverse=not by_id)
    for one in reversed(order):
        ordered.sort(
            key=lambda record, name=one.field: (
                ((value := getattr(record, name)) is not None, value or 0)  # type: ignore[misc]
                if not isinstance(getattr(record, name), str)
                else (True, getattr(record, name))
            ),
            reverse=one.descending,
        )
    return [record.id for record in ordered]


class PagingRules:
    @pytest.mark.parametrize("order", ORDERS, ids=str)
    def test_empty_fields_come_first_going_up_and_ties_go_by_id(
        self, store: RecordStore, acme: Scope, order: tuple[Order, ...]
    ) -> None:
        records = _mixed(acme)
        stored(store, acme, *records)
        assert ids(store, acme, Query(Memory, order=order, deleted="yes")) == _expected(records, order)

    @pytest.mark.parametrize("order", ORDERS, ids=str)
    @pytest.mark.parametrize("limit", [1, 7, 60])
    def test_pages_are_the_whole_cut_in_pieces(
        self, store: RecordStore, acme: Scope, order: tuple[Order, ...], limit: int
    ) -> None:
        records = _mixed(acme)
        stored(store, acme, *records)
        found = pages(store, acme, Query(Memory, order=order, limit=limit, deleted="yes"))
        assert max(map(len, found)) == limit
        assert [id for page in found for id in page] == _expected(records, order)

    def test_a_limit_of_nought_gives_nothing(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, agent(acme))
        page = store.find(acme, Query(Agent, limit=0))
        assert (page.records, page.next) == ([], None)

    def test_a_limit_below_nought_is_refused(self, store: RecordStore, acme: Scope) -> None:
        with pytest.raises(InvalidInput):
            store.find(acme, Query(Agent, limit=-1))
        with pytest.raises(InvalidInput):
            store.search_text(acme, TextQuery(Memory, ("sky",), -1))

    def test_count_counts_all_pages(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, *(agent(acme, f"{number}") for number in range(9)))
        first = store.find(acme, Query(Agent, limit=4))
        assert store.count(acme, Query(Agent, limit=4, after=first.next)) == 9

    def test_in_any_order_the_same_are_found(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, *_mixed(acme))
        some: tuple[Filter, ...] = (Compare("priority", ">", 1),)
        found = store.select(acme, Query(Memory, some, any_order=True), ("id",))
        assert sorted(found) == store.select(acme, Query(Memory, some), ("id",))
        few = store.select(acme, Query(Memory, some, limit=3, any_order=True), ("id",))
        assert len(set(few)) == 3
        assert set(few) <= set(found)

    def test_select_takes_limits_and_cursors(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, *(agent(acme, f"{number}") for number in range(9)))
        first = store.find(acme, Query(Agent, limit=4))
        assert store.select(acme, Query(Agent, limit=2, after=first.next), ("id",)) == [("4",), ("5",)]

    @pytest.mark.parametrize(
        "order", [(), (Order("topic"),), (Order("topic", descending=True), Order("name"))], ids=str
    )
    def test_what_stays_is_seen_once_while_others_come_and_go(
        self, store: RecordStore, acme: Scope, order: tuple[Order, ...]
    ) -> None:
        def one(number: int, kind: str) -> Agent:
            topic = None if number % 11 == 0 else f"topic{number * 7919 % 13}"
            return agent(acme, f"{number * 7919 % 10_007:05}{kind}", name=f"n{number % 5}", topic=topic)

        stays = [one(number, "s") for number in range(300)]
        leaves = [one(number, "l") for number in range(100)]
        stored(store, acme, *stays, *leaves)
        seen: list[str] = []
        after, turn = None, 0
        while True:
            page = store.find(acme, Query(Agent, order=order, limit=31, after=after))
            seen += [record.id for record in page.records]
            if page.next is None:
                break
            after = page.next
            gone = [Delete(Agent, record.id) for record in leaves[turn * 8 : turn * 8 + 8]]
            store.transact(acme, [*gone, *(Insert(one(5000 + turn * 8 + n, "c")) for n in range(8))])
            turn += 1
        assert len(seen) == len(set(seen))
        assert [id for id in seen if id.endswith("s")] == [
            id for id in ids(store, acme, Query(Agent, order=order)) if id.endswith("s")
        ]

    def test_a_page_may_begin_at_a_record_that_is_gone(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, *(agent(acme, f"{number}") for number in range(6)))
        page = store.find(acme, Query(Agent, limit=3))
        store.transact(acme, [Delete(Agent, "2"), Delete(Agent, "3")])
        assert ids(store, acme, Query(Agent, after=page.next)) == ["4", "5"]

    @pytest.mark.parametrize("bad", BAD_CURSORS, ids=lambda bad: bad[:10])
    def test_a_foreign_cursor_is_refused(self, store: RecordStore, acme: Scope, bad: str) -> None:
        with pytest.raises(InvalidInput):
            store.find(acme, Query(Memory, after=bad))

    @pytest.mark.parametrize(
        "values",
        [
            (5, "x"),
            ("x", "x"),
            (["t", "x"], "x"),
            (["t"], "x"),
            ({}, "x"),
            (True, "x"),
            (2**80, "x"),
            (None, "x", "y"),
            ("x",),
        ],
        ids=str,
    )
    def test_a_forged_cursor_is_refused(self, store: RecordStore, acme: Scope, values: Row) -> None:
        stored(store, acme, memory(acme))
        with pytest.raises(InvalidInput):
            store.find(acme, Query(Memory, order=(Order("occurred_at"),), after=cursor(*values)))

    def test_a_cursor_of_one_tenant_shows_nothing_of_it_to_another(
        self, store: RecordStore, acme: Scope, globex: Scope
    ) -> None:
        stored(store, acme, *(agent(acme, f"a{number}") for number in range(4)))
        stored(store, globex, *(agent(globex, f"g{number}") for number in range(4)))
        page = store.find(acme, Query(Agent, (equal("name", "Bot"),), limit=2))
        assert ids(store, globex, Query(Agent, after=page.next)) == ["g0", "g1", "g2", "g3"]

    def test_what_stands_beside_a_record_is_found_on_either_side(self, store: RecordStore, acme: Scope) -> None:
        _told(store, acme)
        places = [("talk", NOON + timedelta(seconds=at), id) for at, id in ((2, "m2"), (0, "m0"), (4, "m4"))]
        assert store.beside(acme, _beside(*places)) == [
            ["m0", "m1", "m2", "m3", "m4"],
            ["m0", "m1", "m2"],
            ["m2", "m3", "m4"],
        ]
        assert store.beside(acme, _beside()) == []

    def test_what_stands_at_one_moment_goes_by_id(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, session(acme, "talk"))
        stored(store, acme, *(memory(acme, f"é{number:03}", session_id="talk") for number in range(50)))
        assert store.beside(acme, _beside(("talk", NOON, "é020"))) == [["é018", "é019", "é020", "é021", "é022"]]

    def test_who_does_not_pass_stands_beside_nothing(self, store: RecordStore, acme: Scope, globex: Scope) -> None:
        _told(store, acme)
        _told(store, globex)
        known = store.get(acme, Memory, "m3")
        assert known is not None
        store.transact(acme, [Update(known.changed(is_deleted=True)), Delete(Memory, "m1")])
        facts = (Compare("kind", "!=", "rumour"),)
        place = ("talk", NOON + timedelta(seconds=2), "m2")
        assert store.beside(acme, _beside(place)) == [["m0", "m2", "m4"]]
        assert store.beside(acme, _beside(place, where=facts)) == [["m0", "m4"]]
        assert store.beside(globex, _beside(place)) == [["m0", "m1", "m2", "m3", "m4"]]
        assert store.beside(acme, _beside(("other", NOON, "m2"))) == [[]]

    @pytest.mark.parametrize(
        "wrong",
        [
            Beside(Memory, "author", "occurred_at", (), 2),
            Beside(Memory, "session_id", "occurred_at", ((None, NOON, "m"),), 2),
            Beside(Memory, "session_id", "occurred_at", (("talk", "noon", "m"),), 2),
            Beside(Memory, "session_id", "occurred_at", (), -1),
        ],
        ids=str,
    )
    def test_what_no_index_leads_to_is_refused(self, store: RecordStore, acme: Scope, wrong: Beside[Record]) -> None:
        with pytest.raises(InvalidInput):
            store.beside(acme, wrong)


def _told(store: RecordStore, scope: Scope) -> None:
    """Five memories of one session, a second apart, told in another order; the third is a rumour."""
    stored(store, scope, session(scope, "talk"), session(scope, "other"))
    for number in (3, 0, 4, 1, 2):
        at = NOON + timedelta(seconds=number)
        kind = "rumour" if number == 2 else "fact"
        stored(store, scope, memory(scope, f"m{number}", session_id="talk", occurred_at=at, kind=kind))


def _beside(*places: tuple[str, datetime, str], where: tuple[Filter, ...] = ()) -> Beside[Memory]:
    return Beside(Memory, "session_id", "occurred_at", places, 2, where)
