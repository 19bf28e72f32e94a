"""Questions in German and Chinese, and times in the zone of the person who asks."""

from __future__ import annotations

from datetime import date

import pytest

from recollect.adapters.models.minilm import MiniLM
from recollect.adapters.models.query_ranker import QueryRanker
from recollect.services.data.asking.analysis import Prepared
from recollect.services.data.asking.language.words import name_words, tokens
from recollect.services.data.asking.plans.parsing import parse
from recollect.services.data.asking.plans.schema import Field, Scalar, Schema, Table
from recollect.services.data.asking.readings import Reading, read
from services.data.asking.shop import Shop, english, german

TODAY = date(2025, 6, 15)
ENCODER, RANKER = MiniLM(threads=1), QueryRanker()
CUSTOMERS: list[tuple[Scalar, ...]] = [(1, "王伟", "北京", "女"), (2, "李娜", "上海", "男"), (3, "张敏", "北京", "女")]
ORDERS: list[tuple[Scalar, ...]] = [(1, 1, 80.0, "2024-03-05"), (2, 1, 25.0, "2024-04-17"), (3, 2, 250.0, "2025-01-20")]


@pytest.fixture(scope="module")
def shop() -> Shop:
    return english(ENCODER.embed, RANKER.compare)


@pytest.fixture(scope="module")
def laden() -> Shop:
    return german(ENCODER.embed, RANKER.compare)


@pytest.fixture(scope="module")
def chinese() -> Shop:
    tables = {
        "客户": (("客户编号", "姓名", "城市", "性别"), CUSTOMERS),
        "订单": (("订单编号", "客户编号", "金额", "日期"), ORDERS),
    }
    return Shop(tables, [("订单.客户编号", "客户.客户编号")], ENCODER.embed, RANKER.compare)


def ask(shop: Shop, question: str) -> Reading:
    found = read(question, shop.prepared, today=TODAY, execute=shop.execute)
    assert found.best is not None, found.declined
    return found.best


def answer(shop: Shop, question: str) -> list[tuple[Scalar, ...]]:
    return sorted((tuple(row) for row in ask(shop, question).rows or ()), key=str)


GERMAN: list[tuple[str, list[tuple[Scalar, ...]]]] = [
    ("Wie viele Kunden gibt es?", [(4,)]),
    ("Wie viele Kunden wohnen in Berlin?", [(2,)]),
    ("Wie viele Kunden kommen aus Deutschland?", [(2,)]),
    ("Wie hoch ist der durchschnittliche Preis der Produkte?", [(75.375,)]),
    ("Wie viele Kunden gibt es pro Stadt?", [("Berlin", 2), ("Paris", 1), ("Rome", 1)]),
    ("Was ist der höchste Preis?", [(250.0,)]),
    ("Wie viele Bestellungen gab es im März 2024?", [(1,)]),
    ("Wie viele Bestellungen gab es letzten Monat?", [(2,)]),
]


@pytest.mark.parametrize(("question", "rows"), GERMAN)
def test_a_german_question_is_answered_over_german_and_english_names(
    shop: Shop, laden: Shop, question: str, rows: list[tuple[Scalar, ...]]
) -> None:
    assert answer(laden, question) == rows
    assert answer(shop, question) == rows


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("有多少客户？", [(3,)]),
        ("北京有多少客户？", [(2,)]),
        ("每个城市有多少客户？", [("上海", 1), ("北京", 2)]),
        ("总金额", [(355.0,)]),
    ],
)
def test_a_chinese_question_is_linked_by_characters(
    chinese: Shop, question: str, rows: list[tuple[Scalar, ...]]
) -> None:
    assert answer(chinese, question) == rows


def test_chinese_is_split_into_characters_and_its_question_words_are_known() -> None:
    assert name_words("客户编号") == ("客", "户", "编", "号")
    assert [token.word for token in tokens("金额大于100的订单")] == ["金", "额", "more", "than", "100", "订", "单"]


@pytest.mark.parametrize(
    "question",
    [
        "你好",
        "???",
        "Какие клиенты живут в Берлине?",
        "كم عدد العملاء؟",
        "顧客は何人いますか",
        "고객은 몇 명입니까?",
        "🙂",
        "ß",
    ],
)
def test_any_script_is_read_or_declined_without_an_error(shop: Shop, chinese: Shop, question: str) -> None:
    for source in (shop, chinese):
        found = read(question, source.prepared, today=TODAY, execute=source.execute)
        assert found.declined or found.readings


def test_values_in_another_script_are_found_as_they_are_written() -> None:
    places = Shop({"places": (("place_id", "city"), [(1, "Москва"), (2, "القاهرة"), (3, "東京")])}, [])
    for value in ("Москва", "القاهرة", "東京"):
        hits = places.prepared.values.find(tokens(f"How many places are in {value}?"))
        assert value in [hit.value for hit in hits]


@pytest.fixture(scope="module")
def moments() -> Shop:
    """Two visits, both at the end of May in UTC; in Berlin the second was in June."""
    visits = Shop({"visits": (("visit_id", "place"), [(1, "Rome"), (2, "Oslo")])}, [], ENCODER.embed, RANKER.compare)
    visits.connection.execute("ALTER TABLE visits ADD COLUMN visited_at TIMESTAMP WITH TIME ZONE")
    visits.connection.execute("UPDATE visits SET visited_at = TIMESTAMPTZ '2025-05-31 12:00+00' WHERE visit_id = 1")
    visits.connection.execute("UPDATE visits SET visited_at = TIMESTAMPTZ '2025-05-31 23:30+00' WHERE visit_id = 2")
    zoned = Field("visits", "visited_at", "date", rows=2, distinct=2, sql_type="TIMESTAMP WITH TIME ZONE")
    visits.schema = Schema((Table("visits", (*visits.schema.tables[0].fields, zoned), 2),))
    visits.prepared = Prepared(visits.schema, visits.values, ENCODER.embed, RANKER.compare)
    return visits


@pytest.mark.parametrize(("zone", "count"), [("Europe/Berlin", 1), ("America/New_York", 2)])
def test_a_day_begins_where_the_asker_is(moments: Shop, zone: str, count: int) -> None:
    found = read("How many visits were there last month?", moments.prepared, today=TODAY, zone=zone,
                 execute=moments.execute)  # fmt: skip
    assert found.best is not None
    assert found.best.rows == [(count,)]
    assert parse(found.best.sql, moments.schema) is not None


def test_a_follow_up_keeps_the_zone(moments: Shop) -> None:
    first = read("How many visits are there?", moments.prepared, today=TODAY, zone="Europe/Berlin",
                 execute=moments.execute).best  # fmt: skip
    second = read("and by month?", moments.prepared, today=TODAY, zone="Europe/Berlin", previous=first,
                  execute=moments.execute).best  # fmt: skip
    assert second is not None
    assert [row[1] for row in second.rows or ()] == [1, 1]
