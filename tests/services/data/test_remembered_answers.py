"""Answers as memories: said in words, citing the query, promoted by the usual rules and demoted by the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recollect.domain.answers import answer_text
from recollect.errors import InvalidInput, NotFound


def add(mem: Any, folder: Path, amount: float = 1234.5) -> Any:
    file = folder / "sales.csv"
    file.write_text(f"region,amount\nnorth,{amount}\nsouth,20\n")
    return mem.source.add(str(file))


@pytest.fixture
def sales(mem: Any, tmp_path: Path) -> Any:
    return add(mem, tmp_path)


def asked(mem: Any, sql: str, question: str) -> str:
    return str(mem.query.run(sql, question=question).run)


def test_an_answer_is_a_fact_that_cites_the_query(mem: Any, sales: Any, tmp_path: Path) -> None:
    run = asked(mem, "select amount from sales where region = 'north'", "What is the revenue of the north?")
    kept = mem.query.remember(run, tags=["revenue"])
    assert kept.text == "What is the revenue of the north: 1,234.5"
    shown = mem.show(kept.id)
    assert (shown.text, shown.kind, shown.status, shown.tags) == (kept.text, "fact", "hypothesis", ["revenue"])
    assert [one.evidence["run"] for one in shown.citations] == [run]
    assert mem.recall("revenue of the north", purpose="think")[0].id == kept.id
    assert mem.promote(kept.id).status == "verified"
    add(mem, tmp_path, amount=1300)
    mem.check()
    assert mem.show(kept.id).status == "hypothesis"
    assert mem.show(kept.id).citations[0].note == "the answer changed: was 1,234.5, is 1,300"


def test_the_same_run_is_remembered_once(mem: Any, sales: Any) -> None:
    run = asked(mem, "select count(*) from sales", "How many sales?")
    first, second = mem.query.remember(run), mem.query.remember(run)
    assert (second.id, second.duplicate, second.citations) == (first.id, True, 0)
    mem.forget(first.id)
    assert mem.query.remember(run).id != first.id


def test_ones_own_words_and_kind_are_taken(mem: Any, sales: Any) -> None:
    run = asked(mem, "select count(*) from sales", "How many sales?")
    kept = mem.query.remember(run, content="There were two sales", kind="observation")
    assert (mem.show(kept.id).kind, mem.show(kept.id).text) == ("observation", "There were two sales")


def test_a_query_without_a_question_is_told_by_its_statement(mem: Any, sales: Any) -> None:
    assert mem.query.remember(asked(mem, "select count(*) from sales", "")).text == "select count(*) from sales: 2"


def test_what_cannot_be_cited_is_not_remembered(mem: Any, sales: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot be cited"):
        mem.query.remember(asked(mem, "select 1", "What is one?"))
    run = asked(mem, "select count(*) from sales", "How many?")
    with pytest.raises(NotFound):
        mem.within("rival").query.remember(run)


MANY = [[f"c{number}", number] for number in range(200)]


@pytest.mark.parametrize(
    ("question", "columns", "rows", "count", "text"),
    [
        ("Total revenue?", ["sum"], [[1234.5]], 1, "Total revenue: 1,234.5"),
        ("总收入是多少？", ["和"], [[1000000]], 1, "总收入是多少: 1,000,000"),
        ("Any?", ["a"], [], 0, "Any: no rows"),
        ("Who?", ["name"], [[None]], 1, "Who: nothing"),
        ("Is it?", ["yes"], [[True]], 1, "Is it: yes"),
        ("Best?", ["region", "amount", "year"], [["north", 1.0, 2025]], 1, "Best: region north, amount 1, year 2025"),
        (
            "By region:",
            ["region", "sum"],
            [["north", 10], ["south", 2.25]],
            2,
            "By region:\n- north: 10\n- south: 2.25",
        ),
    ],
)
def test_answers_in_words(question: str, columns: list[str], rows: list[Any], count: int, text: str) -> None:
    assert answer_text(question, columns, rows, count) == text


def test_of_a_large_table_the_first_rows_are_told() -> None:
    told = answer_text("By customer?", ["customer", "amount"], MANY, 5000).splitlines()
    assert told[:3] == ["By customer:", "- c0: 0", "- c1: 1"]
    assert len(told) == 12
    assert told[-1] == "(5,000 rows; these are the first 10)"


def test_a_long_cell_does_not_make_a_long_memory() -> None:
    assert len(answer_text("Text?", ["text"], [["x" * 100_000]], 1)) < 300
