"""Asked about what nobody knows, an agent gets little or nothing to act on, and is told how to get the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.adapters.models.minilm import MiniLM
from recollect.domain.text.relevance import ANSWERED, DOUBT, LEAST_MATCH, least_match

KNOWN = [
    "Caroline adopted a grey kitten named Miso",
    "The ferry to the island leaves at nine",
    "Grandfather's watch is at the repair shop",
    "Our choir sings in the old chapel on Fridays",
    "The recipe needs two cups of barley flour",
    "Melanie painted the fence by the lake green",
]


@pytest.fixture
def minds(tmp_path: Path) -> Any:
    """Sixty memories of everyday life, of the real model, all of them verified."""
    with recollect.open(tmp_path / "x.db", embedder="minilm", citation_root=tmp_path) as mem:
        (tmp_path / "notes.md").write_text("as told\n")
        told = [f"{text}, said on day {day}" for day in range(10) for text in KNOWN]
        for receipt in mem.remember_many([{"content": one, "cites": ["file:notes.md:1"]} for one in told]).receipts:
            mem.promote(receipt.id)
        yield mem


NOBODY_KNOWS = "quarterly depreciation schedule of the Frankfurt data centre's transformers"
SOMEBODY_KNOWS = "which pet did Caroline adopt?"


def test_what_nobody_knows_packs_no_unrelated_memories(minds: Any) -> None:
    packed = minds.context(NOBODY_KNOWS, tokens=4000)
    assert len(packed.used) == 3, "a few of the best are kept, should the words of the question meet nothing"
    assert packed.left_out == 47
    assert "47 that hardly answer were left out" in packed.notes[0]
    assert "min_match=0" in packed.notes[0]
    assert len(minds.context(NOBODY_KNOWS, tokens=4000, min_match=0).used) == 50
    acted = minds.recall(NOBODY_KNOWS, purpose="act")
    assert (len(acted.hits), acted.left_out) == (0, 10)
    assert len(minds.recall(NOBODY_KNOWS, purpose="act", min_match=0)) == 10
    assert "min_match=0" in minds.why_not(NOBODY_KNOWS, minds.recall("kitten")[0].id, purpose="act").reasons[0]


def test_thinking_is_not_held_back(minds: Any) -> None:
    found = minds.recall(NOBODY_KNOWS)
    assert len(found.hits) == 10
    assert (found.left_out, found.notes) == (0, [])


def test_what_is_known_is_packed_and_acted_on(minds: Any) -> None:
    assert "kitten named Miso" in minds.context(SOMEBODY_KNOWS, tokens=500).text
    assert "kitten" in minds.recall(SOMEBODY_KNOWS, purpose="act")[0].text
    assert minds.context("the ferry to the island", tokens=300, min_match=0.9).used == []


def test_by_words_alone_a_shared_word_is_enough(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "w.db", embedder="none") as mem:
        mem.remember_many([*KNOWN])
        packed = mem.context("what does the barley cost these days?")
        assert "barley" in packed.text
        assert mem.context(NOBODY_KNOWS).used == []


def test_the_floor_rises_as_it_gets_less_likely_that_anything_answers() -> None:
    assert least_match(0.9) == least_match(ANSWERED) == LEAST_MATCH
    assert least_match(ANSWERED - 0.1) == pytest.approx(LEAST_MATCH + 0.1 * DOUBT)
    assert least_match(0.0) > 0.3


def test_a_reply_says_how_likely_it_answers(minds: Any) -> None:
    known, unknown = minds.recall(SOMEBODY_KNOWS), minds.recall(NOBODY_KNOWS)
    assert known.answered is True
    assert unknown.answered is False
    assert 0 <= unknown.confidence < 0.5 <= known.confidence <= 1
    by_meaning = minds.recall(SOMEBODY_KNOWS, by="meaning")
    assert (by_meaning.confidence, by_meaning.answered) == (None, None)


def test_a_question_in_a_script_that_the_model_does_not_read_says_so(minds: Any) -> None:
    assert any("reads English" in note for note in minds.recall("渡轮几点开？").notes)
    assert minds.recall("Wann fährt die Fähre?").notes == []


def test_of_such_a_script_words_decide_unless_a_vector_is_given(minds: Any) -> None:
    for text in ("渡轮九点出发去岛上", "教堂里的合唱团周五唱歌"):
        minds.remember(text)
    hit = minds.recall("渡轮几点出发？")[0]
    assert hit.text == "渡轮九点出发去岛上"
    assert abs(hit.parts["similarity"]) < hit.parts["words"]
    vector = MiniLM().embed_query("渡轮几点出发？").tolist()
    given = minds.recall("渡轮几点出发？", vector=vector, vector_model=MiniLM.model)[0]
    assert given.parts["similarity"] > 3 * hit.parts["similarity"]
