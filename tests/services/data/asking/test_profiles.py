"""Profiles of the data engine become a schema that can be asked."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.ports.data import ColumnProfile, ForeignKey, Join, Meaning, Plain, TableProfile, ValueCount
from recollect.services.data.asking.analysis import Prepared
from recollect.services.data.asking.profiles import schema_of, value_lists
from recollect.services.data.asking.readings import read


def column(name: str, type: str, meaning: Meaning, *values: Plain) -> ColumnProfile:
    distinct = list(dict.fromkeys(values))
    top = [ValueCount(each, values.count(each)) for each in distinct]
    unique = len(distinct) == len(values)
    return ColumnProfile(name, type, meaning, len(values), 0, len(distinct), True, top=top, samples=list(distinct),
                         is_key=unique)  # fmt: skip


def table(keys: Sequence[str], *columns: ColumnProfile) -> TableProfile:
    return TableProfile(3, 3, list(columns), list(keys), 100)


PROFILES = {
    "people": table(
        ["id"], column("id", "BIGINT", "id", 1, 2, 3), column("name", "VARCHAR", "name", "Ada", "Ben", "Cleo"),
        column("born", "DATE", "date", "1980-05-01", "1975-02-11", "1991-09-30"),
        column("joined", "VARCHAR", "date", "2020-01-01", "2021-01-01"),
        column("left", "VARCHAR", "date", "1.5.2020", "2.6.2021"),
        column("active", "BOOLEAN", "flag", True, False, True),
        column("income", "DECIMAL(10,2)", "money", 10, 20, 30),
        column("tags", "INTEGER[]", "nested", "[1]"),
    ),
    "visits": table(["visit_id"], column("visit_id", "INTEGER", "id", 1, 2, 3),
                    column("person_id", "BIGINT", "id", 1, 1, 2), column("place", "VARCHAR", "category", "Rome")),
}  # fmt: skip


def test_types_and_meanings_become_kinds() -> None:
    kinds = {each.name: each.kind for each in schema_of(PROFILES).tables[0].fields}
    assert kinds == {
        "id": "number", "name": "text", "born": "date", "joined": "date", "left": "text", "active": "boolean",
        "income": "number", "tags": "text",
    }  # fmt: skip


def test_a_declared_key_is_preferred_to_a_likely_join() -> None:
    likely = [Join("visits", "person_id", "people", "id", 1.0, "names"),
              Join("visits", "visit_id", "people", "id", 0.95, "values")]  # fmt: skip
    schema = schema_of(PROFILES, likely, {"visits": [ForeignKey("person_id", "people", "id")]})
    assert [join.weight for join in schema.joins] == [1.0, 1.23]
    assert schema.name_of(schema.joins[0].left) == ("visits", "person_id")


def test_a_profiled_source_is_asked() -> None:
    schema = schema_of(PROFILES, [Join("visits", "person_id", "people", "id", 1.0, "names")])
    values = value_lists(schema, {"people": {"name": [ValueCount("Ada", 1), ValueCount(None, 2)], "gone": []}})
    found = read("What is the average income of people named Ada?", Prepared(schema, values))
    assert found.best is not None
    assert "AVG(income)" in found.best.sql
    assert "'Ada'" in found.best.sql
