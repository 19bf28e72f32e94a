"""Who is told of: the same whether texts are looked through joined or one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.text.pool_words import pool_texts
from recollect.domain.text.pool_words.mentions import telling
from recollect.domain.text.pool_words.pool_texts import PoolTexts

PIECES = (
    "Ann",
    "ANN",
    "Annabel",
    "_Ann",
    "Lee",
    "ann's",
    "thanks",
    "Hi",
    "told me",
    ",",
    "!",
    "?",
    ".",
    "\n",
    " ",
    "x",
    "é",
)
said = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)


@given(st.lists(said, min_size=1, max_size=8))
def test_the_same_texts_tell_joined_and_one_by_one(texts: list[str]) -> None:
    joined = telling({"Ann", "Lee"}, texts, PoolTexts.of(texts))
    assert joined == {
        row for row, text in enumerate(texts) if telling({"Ann", "Lee", "Ünal"}, [text], PoolTexts.of([text]))
    }


@pytest.mark.parametrize(
    ("texts", "rows"),
    [
        (["thanks", "Ann went home"], {1}),  # the end of one text calls nobody in the next
        (["I saw Ann", "and Bob"], set()),  # what ends with a name calls
        (["I saw Ann\nand Bob"], {0}),
        (["Thanks,\nAnn went home"], set()),
        (["Annabel, _Ann and Ann_ went"], set()),
    ],
)
def test_a_text_begins_and_ends_where_it_does(texts: list[str], rows: set[int]) -> None:
    assert telling({"Ann"}, texts, PoolTexts.of(texts)) == rows


def test_who_is_told_of_at_the_end_of_a_long_text_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_texts, "MOST_SCANNED", 20)
    texts = ["It was a long day and then Ann came", "no"]
    assert telling({"Ann"}, texts, PoolTexts.of(texts)) == {0}
