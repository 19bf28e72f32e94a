"""The last questions that were embedded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import recollect
from recollect.adapters.models.memory_encoder import MemoryEncoder
from recollect.adapters.models.recent_questions import RecentQuestions
from recollect.ports.models import Vectors


class Counting:
    """Gives every question a vector of its own, and says how often it was asked."""

    def __init__(self, dimensions: int = 4) -> None:
        self.asked: list[str] = []
        self._dimensions = dimensions

    def __call__(self, question: str) -> tuple[Vectors]:
        self.asked.append(question)
        return (np.full(self._dimensions, len(self.asked), np.float32),)


def test_a_question_asked_again_is_not_embedded_again() -> None:
    recent, embed = RecentQuestions(8), Counting()
    first = recent.answer("where?", embed)
    assert recent.answer("where?", embed) is first
    assert recent.answer("Where?", embed) is not first  # by the exact text
    assert embed.asked == ["where?", "Where?"]


def test_what_everyone_gets_cannot_be_changed() -> None:
    with pytest.raises(ValueError):
        RecentQuestions(8).answer("where?", Counting())[0][0] = 7


def test_the_question_asked_longest_ago_goes_first() -> None:
    recent, embed = RecentQuestions(2), Counting()
    for question in ("a", "b", "a", "c", "a", "b"):
        recent.answer(question, embed)
    assert embed.asked == ["a", "b", "c", "b"]


def test_many_bytes_are_not_kept_even_of_few_questions() -> None:
    recent, embed = RecentQuestions(100, most_bytes=3 * 400), Counting(100)
    for question in ("a", "b", "c", "d", "d", "a"):
        recent.answer(question, embed)
    assert embed.asked == ["a", "b", "c", "d", "a"]
    huge = Counting(1000)
    recent.answer("huge", huge)
    recent.answer("huge", huge)
    assert huge.asked == ["huge", "huge"]


def test_none_are_kept_where_none_shall_be() -> None:
    recent, embed = RecentQuestions(0), Counting()
    recent.answer("a", embed)
    recent.answer("a", embed)
    assert embed.asked == ["a", "a"]


def test_what_failed_is_tried_again() -> None:
    def away(question: str) -> tuple[Vectors]:
        raise OSError("away")

    recent, embed = RecentQuestions(8), Counting()
    with pytest.raises(OSError):
        recent.answer("a", away)
    assert recent.answer("a", embed)[0][0] == 1


def test_forgetting_drops_all_and_the_question_that_is_being_embedded() -> None:
    recent, embed = RecentQuestions(8), Counting()
    recent.answer("before", embed)

    def erased_meanwhile(question: str) -> tuple[Vectors]:
        recent.forget()
        return embed(question)

    recent.answer("meanwhile", erased_meanwhile)
    for question in ("before", "meanwhile"):
        recent.answer(question, embed)
    assert embed.asked == ["before", "meanwhile", "before", "meanwhile"]


def test_the_words_of_a_question_are_not_kept() -> None:
    recent = RecentQuestions(8)
    recent.answer("what does Mallory owe?", Counting())
    assert "Mallory" not in repr(vars(recent))


def test_threads_that_ask_at_once_stay_within_the_bounds() -> None:
    recent = RecentQuestions(5, most_bytes=400 * 5)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda at: recent.answer(f"question {at % 20}", Counting(100)), range(2000)))
    assert all(len(one[0]) == 100 for one in answers)
    assert len(recent._answers) <= 5
    assert recent._bytes == sum(one[0].nbytes for one in recent._answers.values())


def test_erasing_forgets_the_questions_of_the_embedder(tmp_path: Path) -> None:
    class Watched(MemoryEncoder):
        runs = 0

        def _run(self, *given: Vectors) -> Vectors:  # type: ignore[override]
            Watched.runs += 1
            return super()._run(*given)  # type: ignore[arg-type]

    with recollect.open(tmp_path / "m.db", embedder=Watched(), background=False) as mem:
        id = mem.remember("Mallory owes Alice a book").id
        mem.recall("what does Mallory owe?")
        asked_once = Watched.runs
        mem.recall("what does Mallory owe?")
        assert Watched.runs == asked_once
        mem.erase(id)
        mem.recall("what does Mallory owe?")
        assert Watched.runs == asked_once + 1
