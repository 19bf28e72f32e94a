"""What is kept of a text between questions, and that a pool ranks the same with it and without."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.text.questions import read_question
from recollect.domain.text.relevance import Candidate, Ranking
from recollect.domain.text.tokenizer import folded
from recollect.domain.text.traits import LONGEST_KEPT, numbers_of, traits_of

NOW = datetime(2024, 5, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("At the sea", [10, 0, 0]),
        ("At the sea?", [11, 1, 1]),
        ("At the sea? \n", [13, 1, 1]),
        ("Why? Because.", [13, 0, 1]),
        ("健身房", [9, 0, 0]),
        ("", [0, 0, 0]),
    ],
)
def test_the_size_in_bytes_and_what_is_asked(text: str, numbers: list[float]) -> None:
    assert numbers_of([traits_of("Other?"), traits_of(text)])[:, 1].tolist() == numbers


def test_a_text_is_kept_folded_only_where_folding_it_takes_time() -> None:
    assert traits_of("Naïve CAFÉ").folded == "naive cafe"
    assert traits_of("Plain TEXT").folded is None
    assert traits_of("é" * (LONGEST_KEPT + 1)).folded is None


@given(st.lists(st.text(alphabet="Ann café?!,海\n ", max_size=30), min_size=1, max_size=30), st.data())
def test_a_pool_ranks_the_same_whoever_keeps_traits(texts: list[str], data: st.DataObject) -> None:
    question = read_question("Did Ann go to the café?", NOW)
    kept = data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts)))
    plain = [Candidate(f"m{n:02}", text, "Ann" if n % 3 else "Bob") for n, text in enumerate(texts)]
    with_traits = [
        Candidate(one.id, one.text, one.author, traits=traits_of(one.text) if is_kept else None)
        for one, is_kept in zip(plain, kept, strict=True)
    ]
    assert Ranking(question, with_traits).best() == Ranking(question, plain).best()


def test_the_leading_are_the_best_without_their_parts() -> None:
    pool = [Candidate(f"m{n}", text, similarity=n / 10) for n, text in enumerate(["tea", "camp", "a camp by the sea"])]
    ranking = Ranking(read_question("Which camp?", NOW), pool)
    for limit in (None, 0, 2):
        assert ranking.leading(limit) == [hit.id for hit in ranking.best(limit)]
    assert Ranking(read_question("Which camp?", NOW), []).leading(5) == []


def test_what_is_kept_folded_is_what_words_are_compared_with() -> None:
    text = "Ёлка и ﬁne café"
    assert traits_of(text).folded == folded(text)
