"""Tables, fields and values are found by words and meaning, each with its reason, on every record store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars
import pytest

import recollect
from counting import store_calls
from every_store import EMPTY_STORE, EVERY_STORE
from recollect.app.data import EngineOnDemand
from recollect.domain.sources import StoredObject, Table
from recollect.errors import EmbedderFailed, IndexFailed, InvalidInput, NotFound
from recollect.ports.models import Vectors
from recollect.ports.query import Query
from recollect.services.data import value_lists
from recollect.services.data.find import FindReply
from recollect.services.data.word_matches import search_words, spelling
from recollect.testing.fakes import HashEmbedder
from seeds import SOAK
from small_sources import add_source


@pytest.fixture(scope="module", params=tuple(EVERY_STORE))
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_engine: Any) -> Iterator[Any]:
    """Orders and customers, and two tables in other languages; for tests that only look."""
    folder = tmp_path_factory.mktemp("shop")
    address, content = EMPTY_STORE[request.param](folder), str(folder / "content")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EngineOnDemand, "__call__", lambda self: shared_engine)
        patch.setattr(EngineOnDemand, "close", lambda self: None)
        with recollect.open(address, embedder="hash", objects=content, background=False) as stored:
            _add_sources(stored)
            yield stored


def _add_sources(stored: Any) -> None:
    stored.source.add(
        polars.DataFrame(
            {
                "orderDate": ["2025-01-03", "2025-02-04", "2025-03-05", "2025-03-06"],
                "region": ["north", "south", "west", "west"],
                "amount_eur": [12.5, 9.0, 1.0, 2.0],
                "customer_id": [1, 2, 3, 4],
            }
        ),
        name="sales",
    )
    stored.source.add(
        polars.DataFrame(
            {
                "id": [1, 2, 3, 4],
                "name": ["Ann Lee", "Bo Chen", "Cy Vance", "Di Ng"],
                "city": ["Berlin", "München", "北京", "Paris"],
                "gender": ["F", "M", "M", "F"],
            }
        ),
        name="customers",
    )
    stored.source.add(
        polars.DataFrame({"Mitarbeiter": ["Anna", "Otto"], "Gehalt": [3000, 4000], "Abteilung": ["Einkauf", "Lager"]}),
        name="personal",
    )
    stored.source.add(polars.DataFrame({"产品": ["手机", "电脑"], "价格": [1, 2]}), name="商品")


def test_words_meaning_and_values_each_with_its_reason(shop: Any) -> None:
    found = shop.source.find("revenue by region")
    assert (found.tables[0].name, found.fields[0].name) == ("sales", "region")
    assert "its name is like 'revenue'" in found.tables[0].why
    assert "has region" in found.tables[0].why
    assert "its name says 'region'" in found.fields[0].why
    by_case = shop.source.find("order date")
    assert (by_case.fields[0].table, by_case.fields[0].name) == ("sales", "orderDate")
    assert 0 < by_case.fields[0].score <= 1


def test_a_value_leads_to_its_field_and_table(shop: Any) -> None:
    for query, value, why in (
        ("Berlin", "Berlin", "is the value 'Berlin'"),
        ("people in BERLIN?", "Berlin", "is written 'Berlin'"),
        ("berlni", "Berlin", "is spelled differently: 'berlni'"),
        ("women", "F", "stands for 'women'"),
        ("Muenchen", "München", "is written 'München'"),
    ):
        found = shop.source.find(query)
        assert next((one.table, one.value, one.why) for one in found.values) == ("customers", value, why), query
        assert found.tables[0].name == "customers"
        assert any(f"'{value}'" in one.why for one in found.fields if one.name in ("city", "gender"))


def test_german_and_chinese(shop: Any) -> None:
    pay = shop.source.find("salary of employees")
    assert pay.tables[0].name == "personal"
    assert {one.name for one in pay.fields[:2]} == {"Gehalt", "Mitarbeiter"}
    sold = shop.source.find("Wie hoch ist der Umsatz pro Region?")
    assert (sold.tables[0].name, sold.fields[0].name) == ("sales", "region")
    chinese = shop.source.find("北京的价格")
    assert {(one.field, one.value) for one in chinese.values} == {("city", "北京")}
    assert {"价格", "city"} <= {one.name for one in chinese.fields}
    assert shop.source.find("手机").values[0].field == "产品"
    assert shop.source.find("价").fields[0].name == "价格"


def test_what_was_not_asked_for_is_not_searched(stored: Any) -> None:
    for id in ("ann", "bo"):
        stored.user.add(id, id=id)
    stored.project.add("P", id="p")
    frame = polars.DataFrame({"city": ["Berlin", "Paris"], "people": [1, 2]})
    stored.source.add(frame, name="mine", user="ann", project="p")
    stored.source.add(frame.with_columns(people=3), name="other", user="bo")
    mine = stored.source.list(user="ann")[0].id

    def sources(**given: Any) -> set[str]:
        found = stored.source.find("people in Berlin", **given)
        return {one.source for one in (*found.tables, *found.fields, *found.values)}

    assert len(sources()) == 2
    assert sources(user="ann") == sources(project="p") == sources(sources=["mine"]) == sources(sources=[mine]) == {mine}
    assert sources(user="bo", project="p") == set()
    with pytest.raises(NotFound, match=r"source\.list"):
        stored.source.find("x", sources=["nothing"])
    stored.source.remove("mine")
    assert mine not in sources()
    stored.source.restore(mine)
    assert mine in sources()


def test_tenants_never_find_each_others(stored: Any) -> None:
    frame = polars.DataFrame({"city": ["Berlin"], "secret": ["treasure"]})
    stored.within("theirs").source.add(frame, name="theirs")
    stored.source.add(polars.DataFrame({"city": ["Paris"]}), name="mine")
    found = stored.source.find("theirs secret treasure Berlin")
    assert "theirs" not in found.model_dump_json().replace("'theirs'", "")
    assert found.values == []


def test_a_new_version_brings_its_own_values(stored: Any) -> None:
    stored.source.add(polars.DataFrame({"city": ["Berlin"]}), name="places")
    first = stored._tenant.find(Query(Table)).records[0].values_digest
    stored.source.add(polars.DataFrame({"city": ["Lisbon"]}), name="places")
    assert stored.source.find("Lisbon").values[0].value == "Lisbon"
    assert stored.source.find("Berlin").values == []
    kept = {one.digest for one in stored._tenant.find(Query(StoredObject)).records if one.purpose == "values"}
    assert len(kept) == 1
    assert first not in kept
    assert stored._core.objects.info(stored._tenant.content_place, first) is None


def test_ten_thousand_fields_take_as_few_calls_as_ten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many in a soak; else a quarter of them."""
    counts = []
    for size in (10, 10_000 if SOAK else 2_500):
        with recollect.open(tmp_path / f"{size}.db", embedder=HashEmbedder(64)) as mem:
            columns: dict[str, Sequence[object]] = {f"column {n}": [f"sample {n}"] for n in range(size - 1)}
            add_source(mem, "wide", {"wide": {**columns, "wingspan": []}, "birds": {"species": ["heron"]}})
            mem.reindex()
            calls = store_calls(mem, monkeypatch)
            found = mem.source.find("wingspan of a bird")
            counts.append(len([call for call in calls if call != "transact"]))
            assert found.fields[0].name == "wingspan"
            assert "birds" in {one.name for one in found.tables}
    assert counts[0] == counts[1]
    assert counts[1] <= 10


def test_without_a_model_or_an_index_words_still_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(HashEmbedder):
        def embed_query(self, text: str) -> Vectors:
            raise EmbedderFailed("the model does not answer")

    def away(*given: object) -> list[Any]:
        raise IndexFailed("the index is away")

    with recollect.open(tmp_path / "a.db", embedder=Failing(32)) as mem:
        add_source(mem, "shop")
        found = mem.source.find("region")
        assert found.fields[0].name == "region"
        assert "words only" in found.notes[0]
    with recollect.open(tmp_path / "b.db", embedder=HashEmbedder(32)) as mem:
        add_source(mem, "shop")
        monkeypatch.setattr(mem._core.vectors, "search", away)
        assert "the index is away" in mem.source.find("region").notes[0]
    with recollect.open(tmp_path / "c.db", embedder=None) as mem:
        add_source(mem, "shop")
        assert mem.source.find("region").fields[0].score > 0.8


def test_values_that_are_gone_or_damaged_are_said(mem: Any) -> None:
    mem.source.add(polars.DataFrame({"city": ["Berlin"]}), name="places")
    digest = mem._tenant.find(Query(Table)).records[0].values_digest
    assert mem.source.find("Berlin").values
    mem._core.objects.delete(mem._tenant.content_place, [digest])
    assert mem.source.find("Berlin").values  # kept in the process
    mem._core.value_indexes.clear()
    found = mem.source.find("cities such as Berlin")
    assert found.values == []
    assert "the values of 'places' were not searched" in found.notes[0]
    assert mem.ask("how many places are there?").rows == [[1]]


def test_what_is_kept_of_values_is_bounded(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_lists, "MOST_KEPT", 5)
    for number in range(4):
        mem.source.add(polars.DataFrame({"word": [f"w{number}{n}x" for n in range(2)]}), name=f"s{number}")
    found = mem.source.find("w01x w31x")
    assert {one.value for one in found.values} == {"w01x", "w31x"}
    assert sum(one.count for one in mem._core.value_indexes.values()) <= 5


def test_many_values_of_wide_tables_are_cut_not_refused(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_lists, "MOST_OF_A_TABLE", 40)
    frame = polars.DataFrame({f"c{n}": [f"v{n}-{row}" for row in range(100)] for n in range(4)})
    mem.source.add(frame, name="wide")
    table = mem._tenant.find(Query(Table)).records[0]
    listed = value_lists.load(mem._tenant, table)
    assert {len(values) for values in listed.values()} == {value_lists.LEAST_OF_A_COLUMN}


@pytest.mark.parametrize("query", ["?", "the of and", "'", "“" * 500, "x" * 2000, "\U0001f600", "价" * 2000, "1 2 3"])
def test_any_query_gets_an_answer(mem: Any, query: str) -> None:
    mem.source.add(polars.DataFrame({"city": ["Berlin"], "n": ["\U0001f600"]}), name="places")
    assert isinstance(mem.source.find(query), FindReply)


def test_too_long_or_empty_queries_are_refused(mem: Any) -> None:
    for query in ("", "x" * 2001):
        with pytest.raises(InvalidInput, match="query"):
            mem.source.find(query)
    assert mem.source.find("anything") == FindReply()


def test_words_of_a_search() -> None:
    said = search_words("the average price in 北京市?")
    assert [one.text for one in said.words] == ["price", "北京", "京市"]
    assert {"北京", "京市", "北京市"} <= {one.text for one in said.pieces}
    assert search_words("Umsatz der Kunden").text.startswith("Umsatz der Kunden (")
    assert spelling("berlin", "Berlin") == "is written 'Berlin'"
    assert spelling("city", "cities") == "is another form of 'city'"
