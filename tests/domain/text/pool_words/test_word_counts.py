"""Words are counted alike in Python and by the compiled kernel, in one text of all and in each by itself."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recollect.domain.text.pool_words import pool_texts, word_counts
from recollect.domain.text.pool_words.latin_words import LatinWords
from recollect.domain.text.pool_words.pool_texts import PoolTexts
from recollect.domain.text.pool_words.word_counts import MISSPELT, occurrences
from recollect.domain.text.spelling import compounds_of, errors_in, meant
from recollect.domain.text.tokenizer import LETTERS, folded, stem, terms_asked

needs_kernel = pytest.mark.skipif(word_counts.compiled is None, reason="there is no compiled kernel here")

# Words whose endings, doubled letters and digits the stemmer treats apart, in both cases.
ROOTS = ("camp", "swim", "carry", "pass", "agree", "fly", "is", "v2", "9", "x" * 63, "die", "l", "bee", "will", "buzz")
ENDINGS = ("", "s", "es", "ed", "ing", "ings", "ies", "ied", "ly", "lys", "e", "y", "i", "ee", "mm", "ss", "2")
words = st.builds(lambda root, ending: root + ending, st.sampled_from(ROOTS), st.sampled_from(ENDINGS))
spelt = st.builds(lambda word, form: form(word), words, st.sampled_from([str.lower, str.upper, str.title]))
plain_texts = st.lists(st.one_of(spelt, st.sampled_from(" \n-_.,'/\0")), max_size=12).map(" ".join)
tight_texts = st.lists(st.one_of(spelt, st.sampled_from(" \n-_.,'/\0")), max_size=12).map("".join)
any_texts = st.one_of(plain_texts, tight_texts, st.just("жcamp campж Camp-é 海camp"), st.text(max_size=20))


@pytest.fixture
def without_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_counts, "compiled", None)


@needs_kernel
@given(st.lists(words, min_size=1, max_size=8), st.lists(any_texts, min_size=1, max_size=6))
@example(["died"], ["died dying die", "lied"])
@example([f"w{n}" for n in range(150)], ["w1 w63 W64 w65 w127 w128 w149"])
def test_the_kernel_counts_as_python_does(asked: list[str], texts: list[str]) -> None:
    terms = list(terms_asked(asked))
    compiled = occurrences(terms, PoolTexts.of(texts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_counts, "compiled", None)
        assert np.array_equal(occurrences(terms, PoolTexts.of(texts)), compiled)


@given(st.lists(words, min_size=1, max_size=4), st.lists(st.one_of(plain_texts, tight_texts), min_size=1, max_size=6))
def test_a_term_stands_where_words_have_it_for_a_stem(asked: list[str], texts: list[str]) -> None:
    irregular = {"die", "lie", "tie"}  # "died" counts for its own form and for "die", which it begins with
    terms = [term for term in terms_asked(asked) if term.isalnum() and term not in irregular]
    counts = occurrences(terms, PoolTexts.of(texts))
    for column, text in enumerate(texts):
        stems = Counter(stem(word) for word in LETTERS.findall(folded(text)))
        for row, term in enumerate(terms):
            if counts[row].any() and counts[row, column] % 1 == 0:
                assert counts[row, column] == stems[term]


def test_one_emoji_changes_nothing_for_the_other_texts() -> None:
    texts = ["Camping by the sea", "camps, camped", "no"]
    alone = occurrences(["camp", "sea"], PoolTexts.of(texts))
    beside = occurrences(["camp", "sea"], PoolTexts.of([*texts, "camp 🎉 cámp"]))
    assert np.array_equal(beside[:, :3], alone)
    assert beside[:, 3].tolist() == [2, 0]


@needs_kernel
def test_the_kernel_takes_no_buffer_that_does_not_fit() -> None:
    starts, counts = np.zeros(2, np.int64), np.zeros((1, 3))
    assert word_counts.compiled is not None
    with pytest.raises(ValueError, match="do not fit"):
        word_counts.compiled.count("a\nb", starts, ("a",), counts)
    with pytest.raises(ValueError, match="do not fit"):
        word_counts.compiled.count("a\nb", starts.view(np.uint8)[:9].copy(), ("a",), counts)
    with pytest.raises(TypeError):
        word_counts.compiled.count("a\nb", starts, (b"a",), counts[:, :2].copy())


def test_long_texts_are_looked_at_from_their_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_texts, "MOST_SCANNED", 20)
    texts = PoolTexts.of(["camp camp camp camp", "café camp camp camp"])
    assert occurrences(["camp"], texts).tolist() == [[2, 1]]
    assert not texts.is_whole
    assert texts.lengths.tolist() == [19, 19]


@given(st.lists(any_texts, max_size=5).map(tuple), st.integers(0, 60))
def test_the_beginning_is_the_texts_in_their_order(texts: tuple[str, ...], most: int) -> None:
    whole = "\n".join(map(folded, texts))
    beginning = PoolTexts.of(texts).beginning(most)
    if len(whole) > most:
        assert beginning == whole[:most]
    else:
        assert sorted(LETTERS.findall(beginning)) == sorted(LETTERS.findall(whole))


# --- Words that stand nowhere

UNKNOWN = st.one_of(st.text(alphabet="abcdey", min_size=4, max_size=10), words, st.just("dye"), st.just("campж"))
LATIN = st.one_of(
    st.lists(st.text(alphabet="abcdey", min_size=1, max_size=12), max_size=30).map(" ".join),
    any_texts.map(folded),
    st.just("dying " + "abcde" * 12 + "é lying"),
)


@given(UNKNOWN, LATIN)
@example("dyed", "dying")
@example("abcd", "x" * 26 + "abcde")
@example("lings", "camplings lingsly")
@example("diet", "dying")
@example("acmp", "camp")
@example("abcd", "axcd abxd acbd acd abd abxcd axbcd aabcd bacd")
@example("swin", "swimmingly")
def test_fewer_words_are_compared_and_the_same_are_meant(word: str, text: str) -> None:
    every = {stem(piece) for piece in _pieces(text)}
    found = LatinWords(text)
    if errors_in(word):
        assert meant(word, found.like(word, errors_in(word))) == meant(word, every)
        assert compounds_of(word, found.around(word)) == compounds_of(word, every)


def _pieces(text: str) -> list[str]:
    runs = "".join(letter if "a" <= letter <= "z" else " " for letter in text).split()
    return [run[at : at + 26] for run in runs for at in range(0, len(run), 26) if len(run[at : at + 26]) >= 3]


def test_a_word_that_is_part_of_others_counts_as_them(without_kernel: None) -> None:
    counts = occurrences(["test"], PoolTexts.of(["pytest", "nothing", "pytest and testbook"]))
    assert counts.tolist() == [[MISSPELT, 0, 2 * MISSPELT]]


def test_no_texts_have_no_words() -> None:
    assert occurrences(["test"], PoolTexts.of([])).shape == (1, 0)


@needs_kernel
@pytest.mark.parametrize("term", ["\0", "\0camp", "-", "Camp", "", "x" * 65])
def test_what_no_word_begins_with_is_nowhere(term: str) -> None:
    texts, counts = "the \0camp - Camp, xx", np.zeros((1, 1))
    assert word_counts.compiled is not None
    word_counts.compiled.count(texts, np.zeros(1, np.int64), (term,), counts)
    assert not counts.any()


@needs_kernel
def test_the_kernel_refuses_buffers_that_do_not_fit() -> None:
    assert word_counts.compiled is not None
    with pytest.raises(ValueError, match="fit"):
        word_counts.compiled.count("camp", np.zeros(1, np.int64), ("camp", "s"), np.zeros((1, 1)))
