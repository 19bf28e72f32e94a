"""A fact anywhere in a long item is found by its meaning, on every store; its vectors come and go with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EVERY_STORE
from long_texts import ASKED, FACT, LONG, ShortSighted, prose
from recollect import app
from recollect.domain.key_value import Item, ItemVector
from recollect.domain.record import new_id
from recollect.domain.text.passages import MOST_PASSAGES, passages
from recollect.ports.query import Compare, Query
from recollect.ports.steps import DeleteWhere, Insert
from recollect.testing.fakes import HashEmbedder

STORES = {**EVERY_STORE, "memory": lambda folder: "memory://"}
TEXT = LONG["end of 350 words"]
FILLERS = [
    *(f"note{n} on drainage, thing{n % 31} and subject{n % 37}" for n in range(60)),
    *(text.replace(FACT, "") for text in LONG.values()),
]
OF_FILLERS = sum(len(passages(text)) for text in FILLERS)


def put(mem: Any, key: str, text: str, **given: Any) -> Any:
    return mem.item.put(["notes"], key, value={"text": text}, texts={"text": text}, **given)


def found(mem: Any, limit: int = 3) -> list[str]:
    return [one.key for one in mem.item.search(["notes"], query=ASKED, limit=limit).items]


def vectors(mem: Any) -> list[ItemVector]:
    return list(mem._core.store.find(mem._scope, Query(ItemVector)).records)


@pytest.mark.parametrize("kind", STORES)
def test_a_fact_deep_in_a_long_item_is_found_on_every_store(kind: str, tmp_path: Path) -> None:
    with recollect.open(STORES[kind](tmp_path), embedder=ShortSighted(256)) as mem:
        fillers: list[Any] = [
            {"namespace": ["notes"], "key": f"filler {n}", "value": {"text": text}, "texts": {"text": text}}
            for n, text in enumerate(FILLERS)
        ]
        assert mem.item.put_many(fillers).vectors == OF_FILLERS
        for key, text in LONG.items():
            assert put(mem, key, text).vectors == len(passages(text)) > 1
        assert set(found(mem)) == set(LONG)
        every = found(mem, limit=100)
        assert len(every) == len(set(every)) == len(FILLERS) + len(LONG)
        hits = mem.item.search(["notes"], query=ASKED, filter={"text": TEXT}).items
        assert [one.key for one in hits] == ["end of 350 words"]
        first, second = (mem.item.search(["notes"], query=ASKED, limit=2, offset=at).items for at in (0, 2))
        assert [one.key for one in (*first, *second)] == every[:4]
        _replaced_deleted_and_swept(mem)
        assert mem.verify().sound
        assert mem.doctor().well


def _replaced_deleted_and_swept(mem: Any) -> None:
    """Whatever becomes of an item, none of its passages outlives it."""
    put(mem, "end of 2000 words", "short now")
    mem.item.put(["notes"], "middle of 2000 words", value=None)
    put(mem, "end of 350 words", TEXT, ttl_minutes=1e-9)
    assert not set(found(mem)) & set(LONG)
    assert mem.item.sweep().expired == 1
    assert len(vectors(mem)) == OF_FILLERS + 1


@pytest.mark.parametrize("kind", STORES)
def test_an_export_a_replacing_import_and_a_copy_take_all_passages_and_leave_none(kind: str, tmp_path: Path) -> None:
    address = STORES[kind](tmp_path)
    with recollect.open("memory://", embedder="hash") as source:
        put(source, "long", TEXT)
        put(source, "short", "short")
        source.export(str(tmp_path / "all.jsonl"))
        wanted = sorted(one.id for one in vectors(source))
    with recollect.open(address, embedder="hash") as mem:
        put(mem, "long", LONG["middle of 2000 words"])
        put(mem, "short", LONG["end of 2000 words"])
        before = [(one.id, one.vector) for one in vectors(mem)]
        mem.import_(str(tmp_path / "all.jsonl"))
        assert [(one.id, one.vector) for one in vectors(mem)] == before, "what is here stays whole"
        mem.import_(str(tmp_path / "all.jsonl"), existing="replace")
        assert sorted(one.id for one in vectors(mem)) == wanted
        assert found(mem)[0] == "long"
        assert mem.verify().sound
    if kind != "memory":
        app.copy(address, str(tmp_path / "copied.db"))
        with recollect.open(tmp_path / "copied.db", embedder="hash") as mem:
            assert sorted(one.id for one in vectors(mem)) == wanted


def test_the_built_in_model_finds_it_too(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "x.db", embedder="minilm") as mem:
        for number in range(20):
            put(mem, str(number), f"note {number}: the committee talked about stairs and silver paint")
        put(mem, "long", TEXT)
        hits = mem.item.search(["notes"], query="Where did grandma put the locket?").items
        assert hits[0].key == "long"


def test_an_item_from_before_passages_is_found_by_its_beginning_and_doctor_tells(mem: Any) -> None:
    """As a store of an earlier version has it: one vector of the beginning, under an id of its own."""
    put(mem, "old", LONG["end of 2000 words"])
    store, scope = mem._core.store, mem._scope
    old = next(one for one in vectors(mem) if one.part == 0).changed(id=new_id(), start=None, end=None)
    store.transact(scope, [DeleteWhere(ItemVector, (Compare("part", ">=", 0),)), Insert(old)])
    put(mem, "other", "gravel")
    assert mem.verify().sound
    hits = mem.item.search(["notes"], query=LONG["end of 2000 words"][:200]).items
    assert (hits[0].key, hits[0].score is not None) == ("old", True)
    told = [finding for finding in mem.doctor().findings if finding.name == "items"]
    assert "1 items have vectors from before passages" in told[0].says
    put(mem, "old", LONG["end of 2000 words"])
    assert found(mem)[0] == "old"
    assert len(vectors(mem)) == len(passages(LONG["end of 2000 words"])) + 1
    assert [finding for finding in mem.doctor().findings if finding.name == "items"] == []


def test_doctor_tells_of_items_that_only_another_model_knows(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "x.db", embedder="hash") as mem:
        put(mem, "k", "gravel")
        mem.item.put(["notes"], "no texts", value={"n": 1})
    with recollect.open(tmp_path / "x.db", embedder=HashEmbedder(128)) as mem:
        told = [finding for finding in mem.doctor().findings if finding.name == "items"]
        assert told[0].says.startswith("1 items have vectors by another model only")
        put(mem, "k", "gravel")
        assert [finding for finding in mem.doctor().findings if finding.name == "items"] == []


def test_of_two_who_put_a_new_key_at_once_only_the_last_leaves_vectors(tmp_path: Path) -> None:
    class Slow(HashEmbedder):
        meanwhile: Any = None

        def embed(self, texts: Any) -> Any:
            while self.meanwhile is not None:
                self.meanwhile, quicker = None, self.meanwhile
                quicker()
            return super().embed(texts)

    embedder = Slow(256)
    with recollect.open(tmp_path / "x.db", embedder=embedder) as mem:
        embedder.meanwhile = lambda: put(mem, "k", TEXT)
        put(mem, "k", "short")
        assert mem.item.get(["notes"], "k").item.value == {"text": "short"}
        assert [(one.part, one.end) for one in vectors(mem)] == [(0, len("short"))]


def test_a_text_beyond_the_bound_gets_vectors_evenly_and_the_receipt_says_so(mem: Any) -> None:
    receipt = put(mem, "k", prose(60_000, 1.0))
    assert receipt.vectors == MOST_PASSAGES
    assert f"k, text: {MOST_PASSAGES} of its" in receipt.notes[0]
    put(mem, "other", "gravel")
    assert found(mem)[0] == "k"
    assert mem._core.store.count(mem._scope, Query(Item)) == 2
