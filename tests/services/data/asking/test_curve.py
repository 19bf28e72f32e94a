"""Verified questions help or do nothing: as they grow, no class of questions is answered worse."""

from __future__ import annotations

import pytest

from recollect.adapters.models.minilm import MiniLM
from recollect.adapters.models.query_ranker import QueryRanker
from recollect.services.data.asking.candidates.verified import Verified
from recollect.services.data.asking.readings import Rows, read, same_rows
from services.data.asking.shop import Shop, english

JOINED = "FROM orders JOIN customers ON orders.customer_id = customers.customer_id"
PRODUCTS = "FROM orders JOIN products ON orders.product_id = products.product_id"

ASKED: dict[str, list[tuple[str, str]]] = {
    "easy": [
        ("How many products are there?", "SELECT COUNT(*) FROM products"),
        ("What are the cities of the customers?", "SELECT city FROM customers"),
        ("What is the highest price of the products?", "SELECT MAX(price) FROM products"),
        ("How many orders are cancelled?", "SELECT COUNT(*) FROM orders WHERE status = 'cancelled'"),
    ],
    "medium": [
        ("How many orders are there for each status?", "SELECT status, COUNT(*) FROM orders GROUP BY status"),
        ("What is the average price for each category?", "SELECT category, AVG(price) FROM products GROUP BY category"),
        ("List the names of customers from Berlin.", "SELECT name FROM customers WHERE city = 'Berlin'"),
        ("What is the total amount of orders for each city?", f"SELECT city, SUM(amount) {JOINED} GROUP BY city"),
    ],
    "hard": [
        ("What is the name of the cheapest product?", "SELECT product_name FROM products ORDER BY price LIMIT 1"),
        ("Which customers have no orders? Show their names.",
         "SELECT name FROM customers WHERE customer_id NOT IN (SELECT customer_id FROM orders)"),
        ("Which products cost more than the average price? Show their names.",
         "SELECT product_name FROM products WHERE price > (SELECT AVG(price) FROM products)"),
    ],
    "extra": [
        ("What is the category with the highest total amount of orders?",
         f"SELECT category {PRODUCTS} GROUP BY category ORDER BY SUM(amount) DESC LIMIT 1"),
        ("Which city has the most customers?",
         "SELECT city FROM customers GROUP BY city ORDER BY COUNT(*) DESC LIMIT 1"),
    ],
}  # fmt: skip

VERIFIED = [
    ("How many customers are there?", "SELECT COUNT(*) FROM customers"),
    ("What are the names of the products?", "SELECT product_name FROM products"),
    ("What is the lowest amount of the orders?", "SELECT MIN(amount) FROM orders"),
    ("How many customers are there in each country?", "SELECT country, COUNT(*) FROM customers GROUP BY country"),
    ("List the names of customers from France.", "SELECT name FROM customers WHERE country = 'France'"),
    ("What is the total quantity for each product?",
     f"SELECT product_name, SUM(quantity) {PRODUCTS} GROUP BY product_name"),
    ("What is the name of the oldest customer?", "SELECT name FROM customers ORDER BY birth_date LIMIT 1"),
    ("Which products were never ordered? Show their names.",
     "SELECT product_name FROM products WHERE product_id NOT IN (SELECT product_id FROM orders)"),
    ("Which status has the most orders?", "SELECT status FROM orders GROUP BY status ORDER BY COUNT(*) DESC LIMIT 1"),
    ("Which customers bought a lamp?", f"SELECT name {JOINED} JOIN products ON orders.product_id = products.product_id "
     "WHERE product_name = 'Lamp'"),
    ("How many orders did Ada Young make?", f"SELECT COUNT(*) {JOINED} WHERE name = 'Ada Young'"),
    ("What is the average amount of shipped orders?", "SELECT AVG(amount) FROM orders WHERE status = 'shipped'"),
]  # fmt: skip
SHARES = (0, 5, 10, 25, 50)  # per cent of all questions


@pytest.fixture(scope="module")
def shop() -> Shop:
    return english(MiniLM(threads=1).embed, QueryRanker().compare)


def is_right(shop: Shop, question: str, sql: str, verified: list[Verified]) -> bool:
    found = read(question, shop.prepared, verified=verified, execute=shop.execute)
    gold: Rows | None = shop.execute(sql)
    return found.best is not None and found.best.rows is not None and gold is not None and same_rows(
        gold, found.best.rows, "ORDER BY" in sql and "LIMIT" not in sql
    )  # fmt: skip


def test_no_class_is_answered_worse_as_verified_questions_grow(shop: Shop) -> None:
    total = len(VERIFIED) + sum(len(each) for each in ASKED.values())
    assert len(VERIFIED) >= total * SHARES[-1] // 100 - 1
    right: dict[str, list[int]] = {}
    for share in SHARES:
        known = [Verified(*each) for each in VERIFIED[: round(total * share / 100)]]
        for hardness, asked in ASKED.items():
            right.setdefault(hardness, []).append(sum(is_right(shop, *each, known) for each in asked))
    for hardness, counts in right.items():
        assert counts == sorted(counts), (hardness, right)
    assert sum(counts[-1] for counts in right.values()) >= 0.75 * sum(len(each) for each in ASKED.values()), right
