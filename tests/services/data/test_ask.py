"""Questions in plain words over sources: answered, followed up, changed by hand, declined; on every record store."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import polars
import pytest

from recollect.errors import InvalidInput, NotFound
from recollect.services.data.ask import MOST_TABLES


@pytest.fixture
def shop(mem: Any, sales: Path) -> Any:
    mem.source.add(sales)
    managers = polars.DataFrame({"region": ["north", "south", "west"], "manager": ["Ann", "Bob", "朱"]})
    mem.source.add(managers, name="managers")
    return mem


def test_a_question_is_answered_on_every_store(stored: Any, sales: Path) -> None:
    stored.source.add(sales)
    reply = stored.ask("how many sales are there in the north?")
    assert reply.rows == [[334]]
    assert "region" in reply.sql
    assert {part.kind for part in reply.reading} >= {"show", "where"}
    kept = stored.query.show(reply.run)
    assert (kept.question, kept.rows, kept.confidence) == (reply.question, reply.rows, reply.confidence)


def test_groups_come_with_a_chart_and_the_sql(shop: Any) -> None:
    reply = shop.ask("total amount by region")
    assert sorted(reply.rows) == [["north", 250_249.5], ["south", 249_250.5], ["west", 249_750.0]]
    assert reply.chart is not None
    assert reply.chart["usermeta"]["recollect"]["sql"] == reply.sql
    assert shop.query.show(reply.run).chart == reply.chart


def test_tables_are_joined_and_values_found_in_any_script(shop: Any) -> None:
    assert shop.ask("total amount of sales for 朱").rows == [[249_750.0]]


def test_a_question_in_a_session_follows_up(shop: Any) -> None:
    session = shop.session.add("asking").id
    shop.ask("average amount per region", session=session)
    reply = shop.ask("and by month?", session=session)
    assert "month" in reply.sql.lower()
    assert "avg" in reply.sql.lower()


def test_a_reading_is_changed_by_hand_and_another_is_chosen(shop: Any) -> None:
    reply = shop.ask("total amount by region")
    total = next(part for part in reply.reading if part.aggregate == "sum")
    changed = shop.ask(reply.question, follows=reply.run, changes=[{"key": total.key, "aggregate": "avg"}])
    assert "AVG" in changed.sql
    assert not changed.draft
    other = shop.ask(reply.question, follows=reply.run, choose=0)
    assert other.sql == reply.others[0].sql
    with pytest.raises(InvalidInput, match="no part"):
        shop.ask(reply.question, follows=reply.run, changes=[{"key": "show:nothing", "aggregate": "avg"}])
    with pytest.raises(InvalidInput, match="no reading"):
        shop.ask("what?", changes=[{"key": "limit", "value": 3}])


def test_what_the_data_cannot_answer_is_declined(shop: Any) -> None:
    reply = shop.ask("who won the world cup?")
    assert reply.declined
    assert (reply.run, reply.rows, reply.draft) == (None, [], True)


def test_without_sources_there_is_nothing_to_ask(mem: Any) -> None:
    with pytest.raises(NotFound, match="no sources"):
        mem.ask("how many?")


def test_a_new_version_of_a_source_is_asked_at_once(shop: Any, sales: Path) -> None:
    assert shop.ask("how many sales are there?").rows == [[1000]]
    sales.write_text("id,region,amount,day\n1,north,2,2025-01-01\n")
    shop.source.add(sales)
    assert shop.ask("how many sales are there?").rows == [[1]]


def test_a_verified_question_goes_first_with_other_values_bound(shop: Any) -> None:
    question = "how much did we sell in the {}?"
    right = shop.query.run("SELECT SUM(amount) FROM sales WHERE region = 'north'", question=question.format("north"))
    shop.query.judge(right.run, "right")
    reply = shop.ask(question.format("south"))
    assert reply.rows == [[249_250.5]]
    assert not reply.draft


def test_of_very_many_tables_the_question_picks_its_own(mem: Any, sales: Path) -> None:
    path = sales.parent / "many.sqlite"
    with sqlite3.connect(path) as database:
        for at in range(MOST_TABLES + 5):
            database.execute(f"CREATE TABLE part_{at} (code TEXT, weight INTEGER)")
            database.execute(f"INSERT INTO part_{at} VALUES ('a', {at})")
    mem.source.add(path)
    mem.source.add(sales)
    assert mem.ask("total amount of sales by region").rows
