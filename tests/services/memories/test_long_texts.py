"""A fact anywhere in a long memory is found by its meaning, and shown: on every store and every vector index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recollect
from every_store import VECTOR_SEARCH, searched
from long_texts import ASKED, FACT, LONG, ShortSighted, prose
from recollect.domain.memory import Embedding
from recollect.domain.text.passages import MOST_PASSAGES, passages
from recollect.ports.query import Query, equal
from recollect.ports.steps import DeleteWhere, Put
from recollect.services.memories.embeddings import question_vector, whole_vectors
from recollect.testing.fakes import HashEmbedder


def opened(kind: str, folder: Path, **settings: Any) -> Any:
    where = searched(kind, folder)
    return recollect.open(where.pop("store"), **{"embedder": HashEmbedder(256), **where, **settings})


@pytest.mark.parametrize("kind", VECTOR_SEARCH)
def test_a_fact_deep_in_a_long_memory_is_among_the_first_hits(kind: str, tmp_path: Path) -> None:
    with opened(kind, tmp_path) as mem:
        mem.remember_many([f"note{n} on drainage, thing{n % 31} and subject{n % 37}" for n in range(150)])
        for text in LONG.values():
            receipt = mem.remember(text)
            assert receipt.vectors == len(passages(text)) > 1
        for by in ("meaning", "everything"):
            found = mem.recall(ASKED, by=by, limit=5)
            assert {hit.text for hit in found[:3]} == set(LONG.values()), by
            assert all("silver locket" in hit.passage.text for hit in found[:3])
        assert len({hit.id for hit in mem.recall(ASKED, by="meaning", limit=100)}) == 100
        assert mem.verify().sound
        mem.erase(found[0].id)
        left = {hit.text for hit in mem.recall(ASKED, by="meaning", limit=2)}
        assert left == set(LONG.values()) - {found[0].text}
        assert mem.doctor().well


def test_the_built_in_model_finds_it_too(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "x.db", embedder="minilm") as mem:
        mem.remember_many([f"note {n}: the committee talked about stairs and silver paint" for n in range(30)])
        mem.remember(LONG["end of 350 words"])
        mem.remember(LONG["middle of 2000 words"])
        found = mem.recall("Where did grandma put the locket?", by="meaning", limit=2)
        assert all("silver locket" in hit.passage.text for hit in found)


def test_a_hit_shows_the_passage_and_where_it_stands(mem: Any) -> None:
    text = LONG["middle of 2000 words"]
    mem.remember(text)
    mem.remember("a short one about a silver locket")
    for by in ("everything", "meaning", "words"):
        hits = {hit.text: hit for hit in mem.recall(ASKED, by=by)}
        shown = hits[text].passage
        assert "silver locket" in shown.text
        assert text[shown.start : shown.end].strip() == shown.text
        assert hits["a short one about a silver locket"].passage is None


def test_context_packs_the_passage_where_the_whole_would_not_fit(mem: Any) -> None:
    text = LONG["end of 2000 words"]
    mem.remember(text)
    little = mem.context(ASKED, tokens=600)
    assert "silver locket" in little.text
    assert f"of {len(text)}" in little.text
    assert little.tokens <= 600
    assert text in mem.context(ASKED, tokens=100_000).text.replace("\n  | ", "\n")


def test_a_text_beyond_the_bound_gets_vectors_evenly_and_the_receipt_says_so(mem: Any) -> None:
    receipt = mem.remember(prose(60_000, 1.0))
    assert receipt.vectors == MOST_PASSAGES
    assert f"{MOST_PASSAGES} of its" in receipt.notes[0]
    assert mem.verify().sound
    assert "silver locket" in mem.recall(ASKED, by="meaning")[0].passage.text


def test_revising_forgetting_and_restoring_follow_all_passages(mem: Any) -> None:
    id = mem.remember(LONG["end of 350 words"]).id

    def vectors() -> int:
        return int(mem._core.store.count(mem._scope, Query(Embedding, (equal("memory_id", id),))))

    before = vectors()
    assert before > 1
    mem.revise(id, priority=9, metadata={"a": 1})
    assert vectors() == before
    mem.forget(id)
    assert vectors() == 0
    mem.restore(id)
    assert vectors() == before
    receipt = mem.revise(id, "short now")
    assert (vectors(), receipt.vectors) == (1, 1)
    assert mem.verify().sound


def test_a_vector_from_before_passages_stays_valid_is_owed_the_rest_and_gets_it(mem: Any) -> None:
    """As a store of an earlier version has it: one vector, of the beginning."""
    long, short = mem.remember(LONG["end of 2000 words"]).id, mem.remember("short").id
    store, scope = mem._core.store, mem._scope
    for old in store.find(scope, Query(Embedding)).records:
        if old.part:
            store.transact(scope, [DeleteWhere(Embedding, (equal("id", old.id),))])
        else:
            store.transact(scope, [Put(old.changed(start=None, end=None))])
    checked = mem.verify()
    assert (checked.sound, checked.partly) == (True, 1)
    diagnosis = {finding.name: finding for finding in mem.doctor().findings}
    assert not diagnosis["passages"].well
    assert "1 long" in diagnosis["passages"].says
    assert mem.recall(LONG["end of 2000 words"][:200], by="meaning")[0].id == long
    done = mem.reindex()
    assert (done.made, done.vectors) == (1, len(passages(LONG["end of 2000 words"])))
    assert mem.reindex().made == 0
    assert mem.doctor().well
    assert mem.recall(ASKED, by="meaning")[0].id == long
    marked = store.select(scope, Query(Embedding, (equal("memory_id", short),)), ("start", "end"))
    assert marked == [(0, len("short"))]


def test_a_lost_passage_is_noticed_and_mended(mem: Any) -> None:
    id = mem.remember(LONG["end of 2000 words"]).id
    store, scope = mem._core.store, mem._scope
    store.transact(scope, [DeleteWhere(Embedding, (equal("memory_id", id), equal("part", 3)))])
    assert "vectors by hash-64" in mem.verify().problems[0].what
    assert mem.doctor(fix=True).well


def test_an_export_of_before_is_read_and_a_copy_takes_all_passages(mem: Any, tmp_path: Path) -> None:
    mem.remember(LONG["end of 350 words"])
    mem.export(str(tmp_path / "now.jsonl"))
    lines = (tmp_path / "now.jsonl").read_text().splitlines()
    assert sum('"part"' in line for line in lines) > 1
    with recollect.open(tmp_path / "second.db", embedder="hash") as other:
        other.import_(str(tmp_path / "now.jsonl"))
        assert other.verify().sound
        assert "silver locket" in other.recall(ASKED, by="meaning")[0].passage.text


def test_a_model_with_a_small_window_gets_small_passages(tmp_path: Path) -> None:
    class Narrow(HashEmbedder):
        window = 64

        def embed(self, texts: Any) -> Any:
            assert all(len(text.split()) < 64 for text in texts)
            return super().embed(texts)

    with recollect.open(tmp_path / "x.db", embedder=Narrow(256)) as mem:
        assert mem.remember(LONG["end of 350 words"]).vectors > 7
        assert "silver locket" in mem.recall(ASKED, by="meaning")[0].passage.text
        assert mem.doctor().well


def test_the_end_of_a_long_question_counts(tmp_path: Path) -> None:
    """A page was pasted before it; the model reads the first 240 words."""
    fact = "Silver locket: grandmother, lighthouse stair"
    with recollect.open(tmp_path / "x.db", embedder=ShortSighted(4096)) as mem:
        texts: list[Any] = [f"umbrella{n} janitor{n} roof{n} school{n}" for n in range(30)]
        texts.insert(15, fact)
        mem.remember_many(texts)
        for number, text in enumerate(texts):
            mem.item.put(["notes"], str(number), value={"text": text}, texts={"text": text})
        asked = f"{prose(300, 1.0).replace(FACT, '')} {ASKED}"
        assert mem.recall(asked, by="meaning")[0].text == fact
        assert mem.item.search(["notes"], query=asked).items[0].value == {"text": fact}


def test_the_built_in_model_reads_a_long_question_to_its_end(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "x.db", embedder="minilm") as mem:
        asked = f"{prose(300, 1.0).replace(FACT, '')} {ASKED}"
        embedder: Any = mem._core.embedder
        alone, after = (question_vector(embedder, text, coded=True) for text in (ASKED, asked))
        before, _ = question_vector(embedder, asked.removesuffix(ASKED))
        assert alone[0] @ after[0] > alone[0] @ before + 0.02
        assert np.linalg.norm(after[0]) == pytest.approx(1, abs=1e-3)
        assert after[1] is not None
        assert len(after[1]) <= 256
        assert embedder.embed_query(ASKED) @ alone[0] == pytest.approx(1, abs=1e-3)


def test_texts_that_begin_alike_and_end_otherwise_are_not_the_same(tmp_path: Path) -> None:
    begin = prose(300, 1.0).replace(FACT, "")
    gravel, locket = f"{begin} {'Order more gravel for the parking. ' * 40}", f"{begin} {FACT * 20}"
    embedder = ShortSighted(256)
    one, other, again = whole_vectors(embedder, [gravel, locket, gravel])
    assert one @ other < 0.97 < one @ again
    short = ["short", "", " " * 5000]
    assert np.allclose(whole_vectors(embedder, short), embedder.embed(short))
