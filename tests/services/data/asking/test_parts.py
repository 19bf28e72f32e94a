"""Words, values, literals and plans of the asking package, each on its own."""

from __future__ import annotations

import pytest

from recollect.services.data.asking.language.literals import literals
from recollect.services.data.asking.language.words import german_words, name_words, related, stem, tokens
from recollect.services.data.asking.plans.parsing import parse
from recollect.services.data.asking.plans.plan import ANY, Condition, Item, Order, Plan
from recollect.services.data.asking.plans.schema import Scalar
from services.data.asking.shop import Shop, english


@pytest.fixture(scope="module")
def shop() -> Shop:
    return english()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("StuFName", ("student", "f", "name")),
        ("dept_code", ("department", "code")),
        ("CustomerId", ("customer", "id")),
        ("birthdate", ("birth", "date")),
        ("flno", ("fl", "number")),
        ("candidate", ("candidate",)),
    ],
)
def test_a_name_is_split_into_its_words(name: str, words: tuple[str, ...]) -> None:
    assert name_words(name) == words


def test_a_german_question_is_read_as_english_words() -> None:
    words = [token.word for token in tokens("Wie viele Kunden gibt es pro Stadt?")]
    assert words == ["how", "many", "customer", "are", "there", "per", "city", "?"]


def test_a_german_compound_is_read_by_its_parts() -> None:
    assert german_words("Kundennummer") == ("customer", "number")
    assert german_words("Quatschwort") is None


def test_an_english_question_stays_as_it_is() -> None:
    assert [token.word for token in tokens("Which students die in war?")][:4] == ["which", "students", "die", "in"]


def test_inflected_words_share_a_stem_and_synonyms_are_related() -> None:
    assert stem("cities") == stem("city")
    assert related(stem("customers"), stem("client")) > 0.8
    assert related(stem("customer"), stem("price")) == 0


@pytest.mark.parametrize(
    ("question", "field", "value"),
    [
        ("customers in Berlin", "customers.city", "Berlin"),
        ("customers in berlin", "customers.city", "Berlin"),
        ("customers in Berlim", "customers.city", "Berlin"),
        ("orders of Ada Young", "customers.name", "Ada Young"),
        ('orders of "ada young"', "customers.name", "Ada Young"),
        ("female customers", "customers.gender", "f"),
        ("French customers", "customers.country", "France"),
        ("How many lamps were sold?", "products.product_name", "Lamp"),
        ("Kunden aus Deutschland", "customers.country", "Germany"),
    ],
)
def test_a_value_is_found_however_it_is_worded(shop: Shop, question: str, field: str, value: str) -> None:
    hits = shop.prepared.values.find(tokens(question))
    assert (shop.number(field), value) in [(hit.field, hit.value) for hit in hits[:3]]


@pytest.mark.parametrize(
    ("question", "operator", "value", "upper"),
    [
        ("orders of more than 100", ">", 100, None),
        ("orders of at least 1,000", ">=", 1000, None),
        ("orders under 12.5", "<", 12.5, None),
        ("orders of 5 or more", ">=", 5, None),
        ("orders between 10 and 20", "between", 10, 20),
        ("Bestellungen mit mehr als 100", ">", 100, None),
        ("Bestellungen mit mindestens drei Artikeln", ">=", 3, None),
        ("orders of no more than 7", "<=", 7, None),
    ],
)
def test_a_number_is_compared_as_the_words_say(question: str, operator: str, value: Scalar, upper: Scalar) -> None:
    (literal,) = literals(tokens(question), [])
    assert (literal.operator, literal.value, literal.upper) == (operator, value, upper)


def test_two_comparisons_in_one_question_are_told_apart() -> None:
    found = literals(tokens("cities with more than 1500 or less than 500 people"), [])
    assert [(each.operator, each.value) for each in found] == [(">", 1500), ("<", 500)]


def test_a_plan_becomes_sql_that_runs(shop: Shop) -> None:
    name, amount = shop.number("customers.name"), shop.number("orders.amount")
    plan = Plan(
        select=(Item(name), Item(amount, "sum")),
        where=(Condition(Item(shop.number("orders.status")), "=", "shipped"),),
        group=(Item(name),),
        order=(Order(Item(amount, "sum"), descending=True),),
        limit=1,
    )
    sql = shop.prepared.composer.sql(plan)
    assert sql is not None
    assert shop.execute(sql) == [("Cleo Hart", 500.0)]


def test_sql_is_read_back_into_the_same_plan(shop: Shop) -> None:
    sql = (
        "SELECT city, COUNT(*) FROM customers WHERE NOT customer_id IN (SELECT customer_id FROM orders) "
        "GROUP BY city HAVING COUNT(*) > 1 ORDER BY COUNT(*) DESC LIMIT 3"
    )
    plan = parse(sql, shop.schema)
    assert plan is not None
    assert plan.limit == 3
    assert plan.having[0].item == Item(ANY, "count")
    again = shop.prepared.composer.sql(plan)
    assert again is not None
    assert parse(again, shop.schema) == plan


def test_a_span_of_time_is_read_back_as_one_condition(shop: Shop) -> None:
    day, status = Item(shop.number("orders.order_date")), Item(shop.number("orders.status"))
    plan = Plan(
        select=(Item(ANY, "count"),),
        where=(Condition(day, "within", "2024-01-01", "2025-01-01"), Condition(status, "=", "open")),
    )
    sql = shop.prepared.composer.sql(plan)
    assert sql is not None
    assert parse(sql, shop.schema) == plan


def test_what_a_plan_cannot_say_is_not_read(shop: Shop) -> None:
    assert parse("SELECT city || country FROM customers", shop.schema) is None
    assert parse("SELECT x FROM elsewhere", shop.schema) is None
    assert parse("this is not sql", shop.schema) is None


def test_a_name_that_is_no_identifier_is_quoted() -> None:
    odd = Shop({"my table": (("the id", "order"), [(1, "a"), (2, "b")])}, [])
    sql = odd.prepared.composer.sql(Plan((Item(1),), where=(Condition(Item(1), "=", "a' OR 1=1 --"),)))
    assert sql is not None
    assert odd.execute(sql) == []


def test_a_query_by_month_is_read_back(shop: Shop) -> None:
    key = Item(shop.number("orders.order_date"), part="month")
    plan = Plan((key, Item(ANY, "count")), group=(key,), order=(Order(key),))
    sql = shop.prepared.composer.sql(plan)
    assert sql is not None
    assert parse(sql, shop.schema) == plan
