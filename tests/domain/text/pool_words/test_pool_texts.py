"""What ranking reads off the texts of a pool, whatever is asked."""

from __future__ import annotations

import pytest

from recollect.domain.text.pool_words.pool_texts import PoolTexts, bytes_of, questions_in


@pytest.mark.parametrize(
    ("text", "size", "asks", "has_question"),
    [
        ("At the sea", 10, 0, 0),
        ("At the sea?", 11, 1, 1),
        ("At the sea? \n", 13, 1, 1),
        ("Why? Because.", 13, 0, 1),
        ("健身房", 9, 0, 0),
        ("", 0, 0, 0),
    ],
)
def test_the_size_in_bytes_and_what_is_asked(text: str, size: int, asks: int, has_question: int) -> None:
    texts = ["Other?", text]
    assert bytes_of(texts)[1] == size
    assert [told[1] for told in questions_in(texts)] == [asks, has_question]


def test_texts_of_ascii_stand_apart_from_the_others_which_are_folded() -> None:
    texts = PoolTexts.of(["Plain TEXT", "Ёлка и ﬁne café", "other"])
    assert texts.plain.text == "plain text\n\nother"
    assert texts.other is not None
    assert texts.other.text == "\nелка и fine cafe\n"
    assert (texts.rows, texts.is_whole) == ([1], True)
    assert texts.beginning(1000) == "plain text\n\nother\n\nелка и fine cafe\n"
    assert texts.beginning(12) == "plain text\nе"
