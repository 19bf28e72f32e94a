"""Tables and fields have vectors like memories: by every model, owed where one fails, made again, deleted with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EMPTY_STORE, EVERY_STORE, VECTOR_SEARCH, searched
from recollect.domain.memory import DATA, Embedding, IndexTask, owner_key
from recollect.domain.sources import Field, Source, Table, field_text, table_text
from recollect.domain.text.names import in_words
from recollect.errors import EmbedderFailed, InvalidInput
from recollect.ports.models import Vectors
from recollect.ports.query import Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Delete, Insert, Update
from recollect.services.memories.data_vectors import DATA_AT_ONCE, embedding_steps, gone_steps, moved_steps
from recollect.services.memories.indexing import make_owed
from recollect.testing.fakes import HashEmbedder
from small_sources import SALES, add_source, records_of, tenant_of

IN_SALES = 7  # tables and fields
BOTH: dict[str, Any] = {"embedder": HashEmbedder(32), "incoming_embedder": {"provider": "hash", "dimensions": 64}}


class UnavailableEmbedder(HashEmbedder):
    """A model that does not answer until it is repaired."""

    fails = True

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self.fails:
            raise EmbedderFailed("the model does not answer", remedy="start it")
        return super().embed(texts)


class CountingEmbedder(HashEmbedder):
    calls = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        return super().embed(texts)


@pytest.fixture(params=EVERY_STORE)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with recollect.open(EMPTY_STORE[request.param](tmp_path), embedder=HashEmbedder(32)) as mem:
        yield mem


def count(mem: Any, record: Any, **where: Any) -> int:
    found: int = tenant_of(mem).count(Query(record, tuple(equal(name, value) for name, value in where.items())))
    return found


def near(mem: Any, text: str, where: dict[str, tuple[str, ...]] | None = None, model: int = 32) -> list[str]:
    tenant = tenant_of(mem)
    vector = HashEmbedder(model).embed_query(text)
    hits = tenant.vectors.search(tenant.scope.organization_id, f"{DATA}/hash-{model}", vector, 20, where)
    return [hit.memory_id for hit in hits]


@pytest.mark.parametrize("kind", VECTOR_SEARCH)
def test_every_index_finds_tables_and_fields_within_what_was_asked(kind: str, tmp_path: Path) -> None:
    settings = searched(kind, tmp_path)
    with recollect.open(settings.pop("store"), embedder=HashEmbedder(32), **settings) as mem:
        mem.project.add("P", id="p")
        add_source(mem, "shop")
        add_source(mem, "kiosk", project_id="p")
        assert len(near(mem, "region of sales")) == 2 * IN_SALES
        fields = near(mem, "region of sales. For example North, South", {"kind": ("field",), "project_id": ("p",)})
        assert fields[0] == "field:kiosk/sales/region"
        assert len(fields) == 5
        assert set(near(mem, "sales", {"scope": ("shop",), "kind": ("table",)})) == {
            "table:shop/sales",
            "table:shop/customers",
        }
        assert mem.verify().sound


def test_texts_say_what_they_are_about() -> None:
    table, field = Table(organization_id="o", source_id="s", name="orderItems"), None
    assert table_text(table, ["unitPrice", "QTY"]) == "order items. Columns: unit price, qty"
    field = Field(organization_id="o", table_id="t", name="HTTPStatus_code", type="BIGINT", meaning="category")
    assert field_text(field, "webRequests") == "http status code of web requests (category)"
    described = field.changed(description="what the server said", sample_values=[200, "x" * 100])
    assert field_text(described, "log").endswith(f": what the server said. For example 200, {'x' * 39}…")
    assert field_text(field.changed(name="城市"), "客户") == "城市 of 客户 (category)"
    assert in_words("Straßenname ÄÖÜWert 2x_y") == "straßenname äöü wert 2x y"
    assert len(table_text(table, ["c" * 200] * 10_000)) < 1_600


def test_recall_never_finds_them_and_their_namespace_is_reserved(stored: Any) -> None:
    add_source(stored, "shop")
    memory = stored.remember("The region of sales is North").id
    assert [hit.id for hit in stored.recall("region of sales", by="meaning")] == [memory]
    assert [hit.id for hit in stored.recall("region of sales")] == [memory]
    for refused in (
        lambda: stored.remember("x", namespaces=[DATA]),
        lambda: stored.revise(memory, namespaces=["recollect:other"]),
        lambda: stored.recall("region", namespaces=[DATA]),
    ):
        with pytest.raises(InvalidInput, match="reserved"):
            refused()


def test_moving_to_a_new_model_takes_them_along(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with recollect.open(path, embedder=HashEmbedder(32)) as mem:
        add_source(mem, "shop")
    with recollect.open(path, **BOTH) as mem:
        add_source(mem, "kiosk")
        assert count(mem, Embedding) == 3 * IN_SALES
        done = mem.reindex()
        assert (done.made, done.remaining) == (IN_SALES, 0)
        assert mem.reindex().made == 0
        assert mem.verify().sound
    with recollect.open(path, embedder=HashEmbedder(64)) as mem:
        assert mem.reindex(retire=True).dropped == 2 * IN_SALES
        assert near(mem, "sales", model=64)
        assert mem.reindex(everything=True).made == 2 * IN_SALES
        assert mem.stats().vectors == 2 * IN_SALES
        assert mem.verify().sound


def test_what_a_failing_model_owes_is_made_when_it_answers(tmp_path: Path) -> None:
    embedder = UnavailableEmbedder(32)
    with recollect.open(tmp_path / "m.db", embedder=embedder) as mem:
        add_source(mem, "shop")
        mem.remember("one more that waits")
        assert count(mem, Embedding) == 0
        assert count(mem, IndexTask, source_id="shop") == IN_SALES
        assert mem.stats().queued == IN_SALES + 1
        assert "owed" in next(one.says for one in mem.doctor().findings if one.name == "queue")
        embedder.fails = False
        assert make_owed(tenant_of(mem), embedder, 256) == IN_SALES + 1
        assert count(mem, IndexTask) == 0
        assert mem.doctor().well
        assert near(mem, "sales")


def test_many_fields_are_embedded_later_and_together(tmp_path: Path) -> None:
    embedder = CountingEmbedder(32)
    with recollect.open(tmp_path / "m.db", embedder=embedder) as mem:
        add_source(mem, "wide", {"wide": {f"column {n}": [] for n in range(3 * DATA_AT_ONCE)}})
        assert embedder.calls == 0
        assert count(mem, IndexTask) == 3 * DATA_AT_ONCE + 1
        assert make_owed(tenant_of(mem), embedder, 1000) == 3 * DATA_AT_ONCE + 1
        assert embedder.calls == 4
        assert mem.reindex().made == 0
        assert mem.verify().sound


def test_vectors_go_with_their_source_table_or_field(stored: Any) -> None:
    made = add_source(stored, "shop")
    add_source(stored, "kiosk")
    tenant = tenant_of(stored)
    region = next(one for one in made if one.id == "shop/sales/region")
    tenant.transact([Delete(Field, region.id), *gone_steps([region])])
    assert owner_key(region) not in near(stored, "region of sales")
    tenant.transact([Delete(Source, "shop")])
    assert count(stored, Embedding) == IN_SALES
    assert stored.verify().sound
    assert all("/kiosk/" in f"/{key.partition(':')[2]}" for key in near(stored, "region of sales"))


def test_what_is_gone_without_its_vector_is_found_and_dropped(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "m.db", embedder=HashEmbedder(32)) as mem:
        add_source(mem, "shop")
        tenant_of(mem).transact([Delete(Field, "shop/sales/region")])
        problems = {one.id: one.what for one in mem.verify().problems}
        assert problems == {
            "field:shop/sales/region": "has a vector, and is gone",
            "shop/sales": "its vector belongs to another version of it",  # one with that column
        }
        assert mem.doctor(fix=True).well
        assert count(mem, Embedding) == IN_SALES - 1


def test_a_changed_field_gets_another_vector(stored: Any) -> None:
    made = add_source(stored, "shop")
    tenant = tenant_of(stored)
    region = next(one for one in made if one.id == "shop/sales/region")
    changed = revised(region, tenant.scope, description="where the buyer lives")
    tenant.transact([Update(changed)])
    assert "another version" in stored.verify().problems[0].what
    tenant.transact(embedding_steps(tenant, [changed], replacing=True))
    assert stored.verify().sound
    table = next(one for one in made if one.id == "shop/sales")
    tenant.transact([Update(revised(table, tenant.scope, description="what was sold"))])
    assert stored.reindex().made == 1
    assert stored.verify().sound
    assert count(stored, Embedding) == IN_SALES


def test_vectors_follow_whose_the_source_is(stored: Any) -> None:
    for id in ("ann", "bo"):
        stored.user.add(id, id=id)
    for id in ("old", "new"):
        stored.project.add(id, id=id, owner="bo")
    made = add_source(stored, "shop", project_id="old", user_id="ann")
    tenant = tenant_of(stored)
    source = revised(made[0], tenant.scope, project_id="new")
    tenant.transact([Update(source), *moved_steps(tenant, source)])
    assert len(near(stored, "sales", {"project_id": ("new",)})) == IN_SALES
    assert near(stored, "sales", {"project_id": ("old",)}) == []
    assert stored.verify().sound
    stored.project.remove("new", hand_over_to="old")
    assert len(near(stored, "sales", {"project_id": ("old",), "user_id": ("ann",)})) == IN_SALES
    assert stored.verify().sound


def test_of_a_removed_source_vectors_are_made_as_of_others(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "m.db", embedder=HashEmbedder(32)) as mem:
        mem.project.add("P", id="p")
        add_source(mem, "shop", project_id="p")
        mem.project.remove("p")
        assert mem.reindex(everything=True).made == IN_SALES
        mem.project.restore("p")
        assert mem.verify().sound
        mem.project.remove("p", for_good=True)
        assert count(mem, Embedding) == 0


@pytest.mark.parametrize("kind", EVERY_STORE)
def test_an_export_takes_them_along(kind: str, tmp_path: Path) -> None:
    path = str(tmp_path / "all.jsonl")
    with recollect.open(tmp_path / "from.db", embedder=HashEmbedder(32)) as mem:
        add_source(mem, "shop")
        tenant_of(mem).transact([Insert(IndexTask(
            organization_id=mem._scope.organization_id, memory_id="field:shop/sales/region", source_id="shop",
            namespace=DATA, model="another",
        ))])  # fmt: skip
        mem.export(path)
    with recollect.open(EMPTY_STORE[kind](tmp_path), embedder=HashEmbedder(32)) as mem:
        first = mem.import_(path)
        assert mem.verify().sound
        assert len(near(mem, "sales")) == IN_SALES
        assert mem.import_(path).records == 0
        mem.reindex(everything=True)  # other ids for the same vectors
        assert mem.import_(path).records == 0
        assert mem.import_(path, existing="replace").records == first.records
        assert count(mem, Embedding) == IN_SALES
        assert mem.verify().sound


def test_two_tenants_never_find_each_others(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "m.db", embedder=HashEmbedder(32)) as mem:
        mine, theirs = mem.within("mine"), mem.within("theirs")
        for each in (mine, theirs):
            add_source(each, "shop", SALES if each is mine else {"sales": {"region": ["West"]}})
        assert len(near(mine, "sales")) == IN_SALES
        assert len(near(theirs, "sales")) == 2
        assert embedding_steps(tenant_of(mine), records_of(mine, "new")) != []
