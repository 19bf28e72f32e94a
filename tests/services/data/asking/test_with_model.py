"""Questions read with a language model: what it sees, what is done with what it writes, and what happens without it."""

from __future__ import annotations

from datetime import date

import duckdb
import pytest

from recollect.errors import ModelFailed
from recollect.services.data.asking.candidates.verified import Verified
from recollect.services.data.asking.readings import Readings
from recollect.services.data.asking.with_model import (
    ROUNDS,
    Checked,
    ModelReadings,
    Problem,
    linked_tables,
    read_with_model,
)
from recollect.testing.fakes import Line, ScriptedModel
from services.data.asking.shop import Rows, Shop, english

QUESTION = "Which customers spent more than average?"
SQL = (
    "SELECT name FROM customers JOIN orders USING (customer_id) GROUP BY name "
    "HAVING SUM(amount) > (SELECT AVG(amount) FROM orders)"
)


@pytest.fixture(scope="module")
def shop() -> Shop:
    return english()


class Engine:
    """Checks by DuckDB's own EXPLAIN; `checked` keeps what came in, `executed` what ran."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.checked: list[str] = []
        self.executed: list[str] = []

    def check(self, sql: str) -> Checked | Problem:
        self.checked.append(sql)
        try:
            self.shop.connection.execute(f"EXPLAIN {sql}")
        except duckdb.Error as error:
            return Problem(str(error))
        return Checked(sql)

    def execute(self, sql: str) -> Rows | None:
        self.executed.append(sql)
        return self.shop.execute(sql)


def ask(
    shop: Shop, *script: Line, question: str = QUESTION, verified: tuple[Verified, ...] = ()
) -> tuple[ModelReadings, ScriptedModel, Engine]:
    model, engine = ScriptedModel(*script), Engine(shop)
    found = read_with_model(
        question, shop.prepared, model, engine.check, today=date(2025, 6, 15), verified=verified,
        execute=engine.execute,
    )  # fmt: skip
    return found, model, engine


def test_the_sql_of_the_model_comes_first_and_its_reading_is_the_reason(shop: Shop) -> None:
    found, _, _ = ask(shop, {"sql": SQL, "reading": "Customers whose orders add up to more than the average order."})
    assert found.best is not None
    assert sorted(str(row[0]) for row in found.best.rows or ()) == ["Ben Stone", "Cleo Hart"]
    assert found.best.why.startswith("Customers whose")
    assert len(found.readings) > 1
    assert found.draft  # nobody else read it so


def test_an_answer_that_both_give_is_no_draft(shop: Shop) -> None:
    found, _, _ = ask(shop, {"sql": "select count(*) from customers"}, question="How many customers are there?")
    assert found.best is not None
    assert not found.draft
    assert found.best.plan is not None
    assert found.best.confidence > 0.9


def test_the_model_sees_the_linked_tables_with_values_joins_and_examples(shop: Shop) -> None:
    known = Verified("How many orders are open?", "SELECT COUNT(*) FROM orders WHERE status = 'open'")
    _, model, _ = ask(shop, {"sql": SQL}, verified=(known,))
    (prompt,) = model.asked
    for part in ("customers (4 rows)", "city VARCHAR e.g. Berlin", "orders.customer_id = customers.customer_id",
                 known.question, "Today is 2025-06-15", QUESTION):  # fmt: skip
        assert part in prompt.material
    assert QUESTION not in prompt.instructions


def test_an_error_goes_back_to_the_model_with_what_it_wrote(shop: Shop) -> None:
    wrong = "SELECT nonsense(name) FROM customers"
    found, model, _ = ask(shop, {"sql": wrong}, {"sql": SQL})
    assert found.best is not None
    assert found.best.sql == SQL
    assert wrong.lower() in model.asked[1].material.lower()
    assert "nonsense does not exist" in model.asked[1].material
    assert len(found.usage) == 2


def test_names_that_nearly_exist_are_mended_before_anything_is_checked(shop: Shop) -> None:
    found, model, engine = ask(shop, {"sql": "SELECT c.nam FROM customer AS c WHERE c.citty = 'Berlin'"})
    assert engine.checked == ["SELECT c.name FROM customers AS c WHERE c.city = 'Berlin'"]
    assert len(model.asked) == 1
    assert found.best is not None
    assert len(found.best.rows or ()) == 2


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE customers", "SELECT 1; SELECT 2", "this is not sql at all (", "INSERT INTO customers SELECT 1",
        "COPY customers TO 'x'",
    ],
)  # fmt: skip
def test_what_is_not_one_select_is_neither_checked_nor_run(shop: Shop, sql: str) -> None:
    found, model, engine = ask(shop, {"sql": sql})
    assert engine.checked == []
    assert sql not in engine.executed
    assert len(model.asked) == ROUNDS
    assert found.notes == ("the language model wrote no SQL that can run",)


def test_sql_that_fails_the_check_is_never_run(shop: Shop) -> None:
    found, _, engine = ask(shop, {"sql": "SELECT nonsense(name) FROM customers"})
    assert len(engine.checked) == ROUNDS
    assert not any("nonsense" in sql.lower() for sql in engine.executed)
    assert found.notes


def test_a_model_that_fails_leaves_the_offline_readings(shop: Shop) -> None:
    found, _, _ = ask(shop, ModelFailed("The server is away."), question="How many customers are there?")
    assert found.best is not None
    assert found.best.rows == [(4,)]
    assert found.notes == ("read without the language model: The server is away.",)


def test_the_model_may_say_that_the_tables_cannot_answer(shop: Shop) -> None:
    found, _, _ = ask(shop, {"cannot_answer": "There are no planets here."}, question="Which planets have rings?")
    assert found.declined == "There are no planets here."
    assert found.readings == ()


def test_a_verified_question_needs_no_model(shop: Shop) -> None:
    known = Verified("How many orders are open?", "SELECT COUNT(*) FROM orders WHERE status = 'open'")
    found, model, _ = ask(shop, {"sql": SQL}, question="How many orders are shipped?", verified=(known,))
    assert model.asked == []
    assert found.best is not None
    assert found.best.rows == [(3,)]


def test_sql_that_a_plan_cannot_say_is_still_an_answer(shop: Shop) -> None:
    found, _, _ = ask(shop, {"sql": "SELECT upper(name) FROM customers WHERE city = 'Rome'", "reading": "In capitals"})
    assert found.best is not None
    assert found.best.plan is None
    assert found.best.rows == [("DAN REED",)]
    assert [part.kind for part in found.best.parts] == ["sql"]


def test_of_many_tables_only_the_likely_ones_are_shown() -> None:
    tables = {f"table_{n}": ((f"id_{n}", f"colour_{n}"), [(1, "red")]) for n in range(40)}
    tables["planets"] = (("planet_id", "rings"), [(1, "many")])
    wide = Shop(tables, [])
    chosen = linked_tables("Which planets have rings?", wide.prepared, Readings())
    assert len(chosen) <= 10
    assert chosen[0] == 40
