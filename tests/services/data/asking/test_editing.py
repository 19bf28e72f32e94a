"""Readings changed by hand, part by part, and plans that are stored and read again."""

from __future__ import annotations

import json
from datetime import date

import pytest

from recollect.errors import InvalidInput, NotFound, RecollectError
from recollect.services.data.asking.editing import Change, edited
from recollect.services.data.asking.plans.parsing import parse
from recollect.services.data.asking.plans.plan import Plan
from recollect.services.data.asking.plans.plan_json import plan_from_json, plan_to_json
from recollect.services.data.asking.plans.schema import Scalar
from recollect.services.data.asking.readings import Reading, read, reading_of
from services.data.asking.shop import Shop, english

TOTALS = (
    "SELECT customers.city, SUM(orders.amount) FROM orders "
    "JOIN customers ON orders.customer_id = customers.customer_id "
    "WHERE orders.status = 'shipped' GROUP BY customers.city ORDER BY customers.city LIMIT 3"
)
NESTED = "SELECT name FROM customers WHERE NOT customer_id IN (SELECT customer_id FROM orders WHERE amount > 100)"
COMBINED = "SELECT city FROM customers WHERE gender = 'f' EXCEPT SELECT city FROM customers WHERE country = 'Italy'"
DATED = "SELECT date_trunc('month', order_date) FROM orders"


@pytest.fixture(scope="module")
def shop() -> Shop:
    return english()


def plan_of(shop: Shop, sql: str) -> Plan:
    plan = parse(sql, shop.schema)
    assert plan is not None
    return plan


def change(shop: Shop, sql: str, *changes: Change) -> Reading:
    return edited(plan_of(shop, sql), changes, shop.prepared, shop.execute)


def rows(reading: Reading) -> list[tuple[Scalar, ...]]:
    return sorted((tuple(row) for row in reading.rows or ()), key=str)


def keys(reading: Reading) -> list[str]:
    return [part.key for part in reading.parts]


def test_every_part_has_a_key_that_names_it(shop: Shop) -> None:
    assert keys(change(shop, TOTALS)) == [
        "show:customers.city", "show:sum(orders.amount)", "from", "where:orders.status", "each:customers.city",
        "order:customers.city", "limit",
    ]  # fmt: skip


def test_a_part_is_removed_and_the_others_keep_their_keys(shop: Shop) -> None:
    reading = change(shop, TOTALS, Change("where:orders.status", "remove"), Change("limit", "remove"))
    assert rows(reading) == [("Berlin", 614.0), ("Paris", 250.0)]
    assert set(keys(reading)) < set(keys(change(shop, TOTALS)))
    assert reading.confidence == 1.0


def test_a_value_and_an_operator_are_replaced(shop: Shop) -> None:
    assert change(shop, TOTALS, Change("where:orders.status", value="open")).rows == [("Paris", 250.0)]
    reading = change(shop, TOTALS, Change("where:orders.status", operator="!="))
    assert rows(reading) == [("Berlin", 9.0), ("Paris", 250.0)]


def test_another_field_to_group_by_is_shown_and_ordered_by_too(shop: Shop) -> None:
    reading = change(shop, TOTALS, Change("each:customers.city", field=("products", "category")))
    assert reading.rows == [("Home", 80.0), ("Office", 525.0)]
    assert "order:products.category" in keys(reading)
    assert "city" not in reading.sql


def test_what_is_no_longer_grouped_by_is_no_longer_shown(shop: Shop) -> None:
    gone = (Change("each:customers.city", "remove"), Change("order:customers.city", "remove"))
    assert change(shop, TOTALS, *gone).rows == [(605.0,)]


def test_a_column_to_order_by_may_go_while_it_is_shown(shop: Shop) -> None:
    reading = change(shop, TOTALS, Change("order:customers.city", "remove"))
    assert "ORDER BY" not in reading.sql
    assert "show:customers.city" in keys(reading)


def test_an_aggregate_and_an_order_are_replaced(shop: Shop) -> None:
    reading = change(
        shop, TOTALS, Change("show:sum(orders.amount)", aggregate="max"),
        Change("order:customers.city", field=("orders", "amount"), aggregate="max", descending=True),
    )  # fmt: skip
    assert reading.rows == [("Berlin", 500.0)]


def test_parts_are_added(shop: Shop) -> None:
    reading = change(
        shop, "SELECT name FROM customers", Change("where", "add", ("customers", "city"), operator="=", value="Berlin"),
        Change("show", "add", ("customers", "birth_date")), Change("order", "add", ("customers", "name")),
        Change("limit", "add", value=1),
    )  # fmt: skip
    assert reading.rows == [("Ada Young", "1980-05-01")]


def test_rows_are_counted_by_month(shop: Shop) -> None:
    month = Change("show", "add", ("orders", "order_date"), date_part="month")
    group = Change("each", "add", ("orders", "order_date"), date_part="month")
    count = Change("show:orders.order_id", aggregate="count")
    reading = change(shop, "SELECT order_id FROM orders WHERE status <> 'open'", month, group, count)
    assert [row[0] for row in rows(reading)] == [1, 1, 2]


def test_a_part_of_a_nested_query_is_changed(shop: Shop) -> None:
    key = "where:customers.customer_id/where:orders.amount"
    assert rows(change(shop, NESTED)) == [("Ada Young",), ("Dan Reed",)]
    assert rows(change(shop, NESTED, Change(key, value="300"))) == [("Ada Young",), ("Ben Stone",), ("Dan Reed",)]
    (outer,) = [part for part in change(shop, NESTED).parts if part.kind == "where"]
    assert key in [part.key for part in outer.inner]


def test_both_sides_of_a_combination_show_the_same(shop: Shop) -> None:
    reading = change(shop, COMBINED, Change("show:customers.city", field=("customers", "name")))
    assert rows(reading) == [("Ada Young",), ("Cleo Hart",)]
    alone = change(shop, COMBINED, Change("except", "remove"))
    assert "EXCEPT" not in alone.sql
    italian = change(shop, COMBINED, Change("except/where:customers.country", value="Germany"))
    assert italian.rows == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Change("where:orders.colour", value="red"), "no part 'where:orders.colour'"),
        (Change("colour", "add"), "no part 'colour'"),
        (Change("where:orders.status", field=("orders", "statsu")), "Did you mean 'status'"),
        (Change("where:orders.status", field=("order", "status")), "Did you mean 'orders'"),
        (Change("where:orders.status", field=("orders", "amount"), value="much"), "is not a number"),
        (Change("where:orders.status", operator="between", value="a"), "two values"),
        (Change("where:orders.status", operator="in"), "one condition for each value"),
        (Change("where", "add", ("orders", "status")), "no value"),
        (Change("where", "add", value=3), "needs a column"),
        (Change("limit", value="many"), "whole number"),
        (Change("limit", value=0), "whole number"),
        (Change("order", "add"), "needs a column"),
        (Change("show:customers.city", date_part="month"), "Only a date"),
        (Change("show", "add", aggregate="sum"), "needs a column"),
    ],
)
def test_a_change_that_does_not_fit_says_what_would(shop: Shop, wrong: Change, said: str) -> None:
    with pytest.raises((InvalidInput, NotFound)) as caught:
        change(shop, TOTALS, wrong)
    assert said in str(caught.value)
    assert isinstance(caught.value, RecollectError)
    assert caught.value.remedy


def test_a_query_must_show_something(shop: Shop) -> None:
    with pytest.raises(InvalidInput, match="shows nothing"):
        change(shop, "SELECT name FROM customers", Change("show:customers.name", "remove"))


def test_tables_that_cannot_be_joined_are_refused() -> None:
    apart = Shop({"cats": (("id", "name"), [(1, "Tom")]), "cars": (("id", "brand"), [(1, "Audi")])}, [])
    with pytest.raises(InvalidInput, match="cannot be joined"):
        change(apart, "SELECT name FROM cats", Change("show", "add", ("cars", "brand")))


@pytest.mark.parametrize("sql", [TOTALS, NESTED, COMBINED, "SELECT COUNT(*) FROM orders", "SELECT * FROM products"])
def test_a_plan_is_stored_and_read_again(shop: Shop, sql: str) -> None:
    plan = plan_of(shop, sql)
    stored = json.loads(json.dumps(plan_to_json(plan, shop.schema)))
    assert plan_from_json(stored, shop.schema) == plan


def test_a_stored_plan_is_followed_up_in_another_process(shop: Shop) -> None:
    first = read("How many customers live in Berlin?", shop.prepared, execute=shop.execute).best
    assert first is not None
    assert first.plan is not None
    stored = json.dumps(plan_to_json(first.plan, shop.schema))
    fresh = english()
    previous = reading_of(plan_from_json(json.loads(stored), fresh.schema), fresh.prepared, first.confidence)
    second = read("and in Paris?", fresh.prepared, today=date(2025, 6, 15), execute=fresh.execute, previous=previous)
    assert second.best is not None
    assert second.best.rows == [(1,)]


def test_a_stored_plan_names_what_the_schema_no_longer_has(shop: Shop) -> None:
    stored = plan_to_json(plan_of(shop, "SELECT price FROM products"), shop.schema)
    with pytest.raises(NotFound, match="There is no table 'products'"):
        plan_from_json(stored, Shop({"cats": (("id", "name"), [(1, "Tom")])}, []).schema)


def _deep(levels: int) -> object:
    plan: dict[str, object] = {"select": [{}]}
    for _ in range(levels):
        plan = {"select": [{}], "second": plan, "combination": "union"}
    return plan


@pytest.mark.parametrize(
    "content",
    [
        None, 1, "x", [], {}, {"select": []}, {"select": [{"field": ["products"]}]},
        {"select": [{"aggregate": "drop"}]}, {"select": [{}], "limit": -1}, {"select": [{}], "more": 1},
        {"select": [{"aggregate": "sum"}]}, {"select": [{}] * 1000}, _deep(200),
    ],
)  # fmt: skip
def test_what_is_not_a_plan_is_refused(shop: Shop, content: object) -> None:
    with pytest.raises(InvalidInput):
        plan_from_json(content, shop.schema)
