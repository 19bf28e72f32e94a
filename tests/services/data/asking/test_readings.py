"""Questions read whole, over small hand-made sources, with the weights that are shipped."""

from __future__ import annotations

from datetime import date

import pytest

from recollect.adapters.models.minilm import MiniLM
from recollect.adapters.models.query_ranker import QueryRanker
from recollect.services.data.asking.candidates.time_groups import time_grouping
from recollect.services.data.asking.candidates.verified import Verified
from recollect.services.data.asking.plans.schema import Scalar
from recollect.services.data.asking.readings import MOST_CALLS, Reading, read
from services.data.asking.shop import Shop, english

TODAY = date(2025, 6, 15)


ENCODER = MiniLM(threads=1)
RANKER = QueryRanker()


@pytest.fixture(scope="module")
def shop() -> Shop:
    return english(ENCODER.embed, RANKER.compare)


def test_without_an_encoder_it_works_by_words() -> None:
    assert answer(english(), "How many customers live in Berlin?") == [(2,)]


def ask(shop: Shop, question: str, previous: Reading | None = None, verified: tuple[Verified, ...] = ()) -> Reading:
    found = read(question, shop.prepared, today=TODAY, execute=shop.execute, previous=previous, verified=verified)
    assert found.best is not None, found.declined
    return found.best


def answer(shop: Shop, question: str) -> list[tuple[Scalar, ...]]:
    return sorted(tuple(row) for row in ask(shop, question).rows or ())


QUESTIONS: list[tuple[str, list[tuple[Scalar, ...]]]] = [
    ("How many customers are there?", [(4,)]),
    ("How many customers live in Berlin?", [(2,)]),
    ("What are the names of all customers?", [("Ada Young",), ("Ben Stone",), ("Cleo Hart",), ("Dan Reed",)]),
    ("What is the average price of the products?", [(75.375,)]),
    ("List the names of products with a price above 30.", [("Desk",), ("Lamp",)]),
    ("How many customers are there in each city?", [("Berlin", 2), ("Paris", 1), ("Rome", 1)]),
    ("How many customers are there per city?", [("Berlin", 2), ("Paris", 1), ("Rome", 1)]),
    ("What is the total amount by status?", [("cancelled", 9.0), ("open", 250.0), ("shipped", 605.0)]),
    ("What is the name of the most expensive product?", [("Desk",)]),
    ("Which customers have no orders? Show their names.", [("Dan Reed",)]),
    ("How many orders were made last month?", [(2,)]),
    ("How many orders were made in March 2024?", [(1,)]),
    ("What is the total amount of orders in 2025?", [(759.0,)]),
    ("What is the number of different categories of products?", [(2,)]),
]


@pytest.mark.parametrize(("question", "rows"), QUESTIONS)
def test_a_question_is_answered(shop: Shop, question: str, rows: list[tuple[Scalar, ...]]) -> None:
    assert answer(shop, question) == rows


@pytest.mark.parametrize(
    "question",
    ["What is the boiling point of mercury?", "Which planets have rings?", "Who won the world cup in chess?"],
)
def test_what_the_data_cannot_answer_is_declined_or_a_draft(shop: Shop, question: str) -> None:
    found = read(question, shop.prepared, today=TODAY, execute=shop.execute)
    assert found.draft
    assert found.declined or (found.best is not None and found.best.confidence < 0.5)


def test_an_empty_question_is_declined(shop: Shop) -> None:
    assert read("", shop.prepared, today=TODAY).declined


def test_readings_come_with_their_parts_in_words(shop: Shop) -> None:
    reading = ask(shop, "How many customers live in Berlin?")
    assert [(part.kind, part.text) for part in reading.parts] == [
        ("show", "number of rows"),
        ("from", "customers"),
        ("where", "city of customers is Berlin"),
    ]
    assert reading.tables == ("customers",)
    assert reading.fields == (("customers", "city"),)


def test_no_more_statements_are_run_than_allowed(shop: Shop) -> None:
    before = shop.statements
    read("How many orders does each customer have?", shop.prepared, today=TODAY, execute=shop.execute)
    assert 0 < shop.statements - before <= MOST_CALLS


def test_without_a_place_to_run_it_the_question_is_still_read(shop: Shop) -> None:
    found = read("How many customers are there?", shop.prepared, today=TODAY)
    assert found.best is not None
    assert found.best.rows is None
    assert "COUNT(*)" in found.best.sql


def test_a_follow_up_by_month_groups_what_was_asked_before(shop: Shop) -> None:
    first = ask(shop, "What is the total amount of orders in 2025?")
    second = ask(shop, "and by month?", previous=first)
    assert [float(str(row[1])) for row in second.rows or ()] == [250.0, 509.0]


def test_a_follow_up_changes_the_value(shop: Shop) -> None:
    first = ask(shop, "How many customers live in Berlin?")
    assert ask(shop, "and in Paris?", previous=first).rows == [(1,)]
    assert ask(shop, "und in Rome?", previous=first).rows == [(1,)]


def test_a_whole_question_is_no_follow_up(shop: Shop) -> None:
    first = ask(shop, "How many customers live in Berlin?")
    assert ask(shop, "How many products are there?", previous=first).rows == [(4,)]


def test_a_verified_question_is_reused_with_other_literals(shop: Shop) -> None:
    verified = Verified(
        "Who bought at least one thing of the kind Home?",
        "SELECT DISTINCT customers.name FROM customers JOIN orders ON orders.customer_id = customers.customer_id "
        "JOIN products ON orders.product_id = products.product_id WHERE products.category = 'Home'",
    )
    reading = ask(shop, "Who bought at least one thing of the kind Office?", verified=(verified,))
    assert sorted(str(row[0]) for row in reading.rows or ()) == ["Ada Young", "Ben Stone", "Cleo Hart"]


def test_a_time_that_was_said_is_kept_however_many_columns_are_called_like_it() -> None:
    numbers = ("march_id", "march_count", "month_number", "date_count", "march_rate")
    rows = [(n, f"2025-{n % 12 + 1:02}-11", ("Köln", "Ulm")[n % 2], n * 1.5, *[1] * len(numbers)) for n in range(1, 40)]
    source = Shop({"verkauf": (("nr", "datum", "filiale", "umsatz", *numbers), rows)}, [])
    reading = ask(source, "total umsatz by filiale in March 2025")
    assert "datum >= '2025-03-01' AND datum < '2025-04-01'" in reading.sql


@pytest.mark.parametrize(
    ("question", "span"),
    [
        ("What is the total amount by status in 2024?", ("2024-01-01", "2025-01-01")),
        ("What is the total amount by status in 2025?", ("2025-01-01", "2026-01-01")),
        ("What is the total amount by status last month?", ("2025-05-01", "2025-06-01")),
        ("What is the total amount by status?", None),
    ],
)
@pytest.mark.parametrize("said", ["in 2023", "last month"])
def test_a_verified_question_takes_the_time_that_is_asked_for(
    shop: Shop, said: str, question: str, span: tuple[str, str] | None
) -> None:
    verified = Verified(
        f"What is the total amount by status {said}?",
        "SELECT status, SUM(amount) FROM orders WHERE order_date >= '2023-01-01' AND order_date < '2024-01-01' "
        "GROUP BY status",
    )
    reading = ask(shop, question, verified=(verified,))
    assert reading.plan is not None
    assert [(one.value, one.upper) for one in reading.plan.where] == ([span] if span else [])


def test_a_verified_question_is_answered_as_such_when_it_is_asked_again(shop: Shop) -> None:
    question = "What is the total amount by status in 2024?"
    sql = ask(shop, question).sql
    again = read(question, shop.prepared, today=TODAY, execute=shop.execute, verified=(Verified(question, sql),))
    assert again.best is not None
    assert (again.best.sql, again.is_verified, again.draft) == (sql, True, False)


@pytest.mark.parametrize(
    ("question", "rest", "part"),
    [
        ("total amount by month", "total amount", "month"),
        ("how many orders per week in 2025?", "how many orders in 2025?", "week"),
        ("monthly revenue", "total revenue", "month"),
        ("sales by region and quarter", "sales by region", "quarter"),
        ("Umsatz pro Monat", "total Umsatz", "month"),
        ("jährliche Kosten", "total Kosten", "year"),
        ("who works day and night?", None, None),
    ],
)
def test_groups_of_time_are_read_apart(question: str, rest: str | None, part: str | None) -> None:
    assert time_grouping(question) == ((rest, part) if rest else None)
