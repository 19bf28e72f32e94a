"""What holds for every outside database: the same questions get the same answers, nothing is changed, limits hold."""

from __future__ import annotations

import threading
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from adapters.connections.conftest import ODD_TABLE, SECRET, SECRET_TEXT, Shop, opened
from recollect.errors import Cancelled, InvalidInput, NotFound, RecollectError, TooLarge
from recollect.ports.connections import FetchLimits

SLOW = (
    "SELECT count(*) FROM orders a, orders b, orders c, orders d, orders e, orders f, orders g, orders h, orders i,"
    " orders j, orders k, orders l, orders m, orders n, orders o, orders p"
)


def rows_of(path: Path, order: str = "") -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        return [tuple(row) for row in connection.execute(f"SELECT * FROM read_parquet('{path}') {order}").fetchall()]


def test_the_server_says_who_it_is(shop: Shop) -> None:
    facts = shop.database.check()
    assert facts.engine == shop.database.engine
    assert facts.version
    assert facts.tables >= 4
    assert facts.is_read_only or facts.engine == "sqlite"


def test_the_schema_has_tables_views_columns_and_keys(shop: Shop) -> None:
    names = {table.name for table in shop.tables}
    assert {"customers", "orders", "big_orders", ODD_TABLE} <= names
    orders = shop.table("orders")
    assert [column.name for column in orders.columns] == ["id", "customer_id", "amount", "day", "note"]
    assert orders.primary_key == ["id"]
    assert [(key.column, key.to_table, key.to_column) for key in orders.foreign_keys] == [
        ("customer_id", "customers", "id")
    ]
    assert shop.table("big_orders").kind == "view"
    assert [column.name for column in shop.table(ODD_TABLE).columns] == ["Größe", "select"]


def test_a_schema_with_too_many_tables_says_how_many_were_left_out(shop: Shop) -> None:
    schema = shop.database.schema(most_tables=2)
    assert len(schema.tables) == 2
    assert schema.left_out >= 2


def test_every_table_can_be_sampled(shop: Shop, tmp_path: Path) -> None:
    for table in shop.tables:
        found = shop.database.sample(table, tmp_path / "sample.parquet", rows=2)
        assert found.rows == min(2, {ODD_TABLE: 1}.get(table.name, 2))
        assert [column.name for column in found.columns] == [column.name for column in table.columns]
    assert rows_of(tmp_path / "sample.parquet")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*), sum(amount) FROM orders", [(4, 35.75)]),
        ("SELECT COUNT(*) FROM Orders WHERE AMOUNT > 6", [(2,)]),
        ("SELECT c.name, sum(o.amount) AS Total FROM orders o JOIN customers c ON o.customer_id = c.id "
         "GROUP BY c.name HAVING sum(o.amount) > 6 ORDER BY total DESC", [("Ann", 30.5)]),
        ('WITH x AS (SELECT customer_id, amount FROM orders) SELECT count(DISTINCT X.customer_id) FROM X', [(3,)]),
        ("SELECT name FROM customers WHERE city = '上海' UNION ALL SELECT 'it''s' ORDER BY 1", [("Béa",), ("it's",)]),
        ("SELECT name FROM customers WHERE name LIKE '%\\' ORDER BY id", [("O'Hara \\",)]),
        ("SELECT count(*) FILTER (WHERE amount > 6) AS n FROM orders", [(2,)]),
        (f'SELECT "größe", "Select" FROM "{ODD_TABLE.replace(chr(34), 2 * chr(34))}"', [(7, "x")]),
        ("SELECT id FROM big_orders ORDER BY id", [(1,), (2,)]),
        ("SELECT id, row_number() OVER (ORDER BY amount DESC NULLS LAST) FROM orders ORDER BY id",
         [(1, 2), (2, 1), (3, 3), (4, 4)]),
        ("SELECT note FROM orders WHERE id IN (SELECT max(id) FROM orders)", [("c",)]),
        ("SELECT CASE WHEN amount IS NULL THEN 'none' ELSE 'some' END AS what, count(*) FROM orders GROUP BY 1 "
         "ORDER BY 1", [("none", 1), ("some", 3)]),
        ("SELECT sum(amount) / count(*) FROM orders WHERE amount > 6", [(15.25,)]),
    ],
)  # fmt: skip
def test_the_same_question_has_the_same_answer_everywhere(
    shop: Shop, tmp_path: Path, sql: str, expected: list[tuple[object, ...]]
) -> None:
    found = shop.database.select(sql, shop.tables, tmp_path / "r.parquet")
    rows = [tuple(float(v) if isinstance(v, Decimal) else v for v in row) for row in rows_of(found.path)]
    assert rows == expected
    assert found.rows == len(expected)
    assert not found.is_cut


def test_columns_with_one_name_stay_apart(shop: Shop, tmp_path: Path) -> None:
    sql = "SELECT o.id, c.id FROM orders o JOIN customers c ON c.id = o.customer_id"
    found = shop.database.select(sql, shop.tables, tmp_path / "r.parquet")
    assert [column.name for column in found.columns] == ["id", "id_2"]


def test_an_empty_result_has_its_columns(shop: Shop, tmp_path: Path) -> None:
    found = shop.database.select("SELECT id, note FROM orders WHERE id < 0", shop.tables, tmp_path / "r.parquet")
    assert found.rows == 0
    assert [column.name for column in found.columns] == ["id", "note"]
    assert rows_of(found.path) == []


def test_rows_beyond_the_limit_are_cut_and_noted(shop: Shop, tmp_path: Path) -> None:
    found = shop.database.select(
        "SELECT id FROM orders ORDER BY id", shop.tables, tmp_path / "r.parquet", limits=FetchLimits(rows=3)
    )
    assert rows_of(found.path) == [(1,), (2,), (3,)]
    assert found.is_cut
    assert any("more rows" in note for note in found.notes)
    whole = shop.database.select(
        "SELECT id FROM orders", shop.tables, tmp_path / "r.parquet", limits=FetchLimits(rows=4)
    )
    assert not whole.is_cut


def test_a_late_query_ends_at_its_limit_and_leaves_no_file(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match=r"within 0\.5 seconds"):
        shop.database.select(SLOW, shop.tables, tmp_path / "r.parquet", limits=FetchLimits(seconds=0.5))
    assert list(tmp_path.iterdir()) == []


def test_a_result_of_too_many_bytes_is_refused(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match="MB"):
        shop.database.select("SELECT * FROM orders", shop.tables, tmp_path / "r", limits=FetchLimits(megabytes=0))
    assert list(tmp_path.iterdir()) == []


def test_a_running_query_can_be_cancelled(shop: Shop, tmp_path: Path) -> None:
    ended: list[BaseException] = []

    def ask() -> None:
        try:
            shop.database.select(SLOW, shop.tables, tmp_path / "r", limits=FetchLimits(seconds=60), job="slow")
        except RecollectError as error:
            ended.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while thread.is_alive():
        shop.databases.cancel("slow")
        thread.join(0.1)
    assert [type(error) for error in ended] == [Cancelled]
    assert not shop.databases.cancel("slow")
    assert list(tmp_path.iterdir()) == []


def test_unknown_names_are_told_with_the_nearest(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="did you mean orders"):
        shop.database.select("SELECT * FROM ordres", shop.tables, tmp_path / "r")
    with pytest.raises((NotFound, InvalidInput), match=r"(?i)nosuch"):
        shop.database.select("SELECT nosuch FROM orders", shop.tables, tmp_path / "r")


def test_what_is_not_listed_cannot_be_read(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        shop.database.select("SELECT * FROM hidden", shop.tables, tmp_path / "r")
    listed = [shop.table("customers")]
    with pytest.raises(NotFound):
        shop.database.select("SELECT * FROM orders", listed, tmp_path / "r")


def test_a_wrong_secret_is_refused_without_showing_anything(shop: Shop) -> None:
    if shop.database.engine == "sqlite":
        pytest.skip("a file has no secret")
    # The tests' PostgreSQL trusts everybody, so there a user that does not exist has to do.
    address = shop.address.replace("shop_reader", "nobody_such")
    with pytest.raises(RecollectError) as caught:
        opened(address, secret="SHOP").check()
    shown = f"{caught.value} {caught.value.as_dict()} {caught.value.__cause__} {shop.database!r}"
    assert "login" in shown
    assert SECRET not in shown
    assert "geheim" not in shown


def test_nothing_of_a_failure_shows_stored_text(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(RecollectError) as caught:
        shop.database.select("SELECT CAST(secret AS INTEGER) / 0 FROM hidden", shop.tables, tmp_path / "r")
    assert SECRET_TEXT not in str(caught.value)
