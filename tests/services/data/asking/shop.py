"""Small sources for the tests of asking: a shop with English names and the same with German ones, in DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from recollect.services.data.asking.analysis import Compare, Prepared
from recollect.services.data.asking.language.linking import Encode
from recollect.services.data.asking.plans.schema import Field, Join, Kind, Scalar, Schema, Table

Rows = list[tuple[Scalar, ...]]

CUSTOMERS = [
    (1, "Ada Young", "Berlin", "Germany", "f", "1980-05-01"),
    (2, "Ben Stone", "Paris", "France", "m", "1975-02-11"),
    (3, "Cleo Hart", "Berlin", "Germany", "f", "1991-09-30"),
    (4, "Dan Reed", "Rome", "Italy", "m", "1969-12-24"),
]
PRODUCTS = [(1, "Lamp", "Home", 40.0), (2, "Desk", "Office", 250.0), (3, "Pen", "Office", 2.5), (4, "Mug", "Home", 9.0)]
ORDERS = [
    (1, 1, 1, 2, 80.0, "2024-03-05", "shipped"),
    (2, 1, 3, 10, 25.0, "2024-04-17", "shipped"),
    (3, 2, 2, 1, 250.0, "2025-01-20", "open"),
    (4, 3, 2, 2, 500.0, "2025-05-02", "shipped"),
    (5, 3, 4, 1, 9.0, "2025-05-28", "cancelled"),
]


class Shop:
    """A prepared source over an in-memory DuckDB; `statements` counts what was run."""

    def __init__(
        self,
        tables: Mapping[str, tuple[Sequence[str], Sequence[tuple[Scalar, ...]]]],
        joins: Sequence[tuple[str, str]],
        encode: Encode | None = None,
        compare: Compare | None = None,
    ) -> None:
        self.connection = duckdb.connect(":memory:")
        self.statements = 0
        made, values = [], {}
        number = 0
        for name, (columns, rows) in tables.items():
            fields = []
            for at, column in enumerate(columns):
                field, texts = _field(name, column, [row[at] for row in rows], at == 0)
                if texts:
                    values[number] = texts
                fields.append(field)
                number += 1
            made.append(Table(name, tuple(fields), len(rows)))
            types = ", ".join(f'"{f.name}" {f.sql_type}' for f in fields)
            self.connection.execute(f'create table "{name}" ({types})')
            marks = ", ".join("?" * len(columns))
            self.connection.executemany(f'insert into "{name}" values ({marks})', rows)
        bare = Schema(tuple(made))
        found = [(bare.number(*a.split(".")), bare.number(*b.split("."))) for a, b in joins]
        self.schema = Schema(tuple(made), tuple(Join(a, b) for a, b in found if a is not None and b is not None))
        self.values = values
        self.prepared = Prepared(self.schema, values, encode, compare)

    def execute(self, sql: str) -> Rows | None:
        self.statements += 1
        try:
            rows: Rows = self.connection.execute(sql).fetchall()
        except duckdb.Error:
            return None
        return rows

    def number(self, name: str) -> int:
        found = self.schema.number(*name.split("."))
        assert found is not None
        return found


def _field(table: str, name: str, column: Sequence[Any], is_key: bool) -> tuple[Field, list[str]]:
    sql_type = "VARCHAR" if isinstance(column[0], str) else "DOUBLE" if isinstance(column[0], float) else "BIGINT"
    kind: Kind = "number"
    if sql_type == "VARCHAR":
        kind = "date" if column[0][:4].isdigit() else "text"
    texts = sorted({str(each) for each in column}) if kind == "text" else []
    field = Field(
        table, name, kind, rows=len(column), distinct=len(set(column)), low=min(column), high=max(column),
        top=tuple(dict.fromkeys(column)), is_key=is_key, sql_type=sql_type,
    )  # fmt: skip
    return field, texts


def english(encode: Encode | None = None, compare: Compare | None = None) -> Shop:
    return Shop(
        {
            "customers": (("customer_id", "name", "city", "country", "gender", "birth_date"), CUSTOMERS),
            "products": (("product_id", "product_name", "category", "price"), PRODUCTS),
            "orders": (("order_id", "customer_id", "product_id", "quantity", "amount", "order_date", "status"), ORDERS),
        },
        [("orders.customer_id", "customers.customer_id"), ("orders.product_id", "products.product_id")],
        encode,
        compare,
    )


def german(encode: Encode | None = None, compare: Compare | None = None) -> Shop:
    return Shop(
        {
            "kunden": (("kunden_id", "name", "stadt", "land", "geschlecht", "geburtsdatum"), CUSTOMERS),
            "produkte": (("produkt_id", "bezeichnung", "kategorie", "preis"), PRODUCTS),
            "bestellungen": (
                ("bestell_id", "kunden_id", "produkt_id", "menge", "betrag", "bestelldatum", "status"),
                ORDERS,
            ),
        },
        [("bestellungen.kunden_id", "kunden.kunden_id"), ("bestellungen.produkt_id", "produkte.produkt_id")],
        encode,
        compare,
    )
