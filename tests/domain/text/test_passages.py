"""A long text is cut into passages that cover it, fit, and end where the text does."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from recollect.adapters.models.wordpiece import bert_uncased
from recollect.domain.text.passages import MOST_PASSAGES, PASSAGE_TOKENS, Passage, cut, passages

PROSE = " ".join(f"Sentence number {n} tells of the harbour, the boats and the weather of day {n}." for n in range(400))
CODE = "\n".join(f"def handle_{n}(request):\n    return parse(request.body)[{n}] or None\n" for n in range(300))
MARKDOWN = "\n\n".join(f"## Heading {n}\n\n- a point with `code`\n- another one, *stressed*" for n in range(200))
CHINESE = "我们在湖边吃了汤。天气很好，大家都很高兴！" * 200
TEXTS = {
    "prose": PROSE,
    "code": CODE,
    "markdown": MARKDOWN,
    "chinese": CHINESE,
    "chinese without stops": "汤" * 5000,
    "thai": "เราไปเที่ยวทะเล" * 300,
    "one line of letters": "a" * 200_000,
    "one line of digits": "7" * 20_000,
    "one line of marks": "-" * 5_000,
    "emoji": "🙂" * 3000,
    "spaces between": ("word" + " " * 5000) * 600,
    "mixed": PROSE[:3000] + CHINESE[:1500] + CODE[:3000],
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_passages_cover_the_text_overlap_a_little_and_go_forward(text: str) -> None:
    found = passages(text)
    assert len(found) > 1
    assert found[0].start == 0
    assert text[found[-1].end :].strip() == ""
    for one, after in pairwise(found):
        assert one.start < after.start <= one.end
        assert one.end < after.end


@pytest.mark.parametrize("name", ["prose", "code", "markdown", "chinese", "chinese without stops", "mixed"])
def test_the_model_reads_a_passage_whole(name: str) -> None:
    text, encode = TEXTS[name], bert_uncased().encode
    assert max(len(encode(text[one.start : one.end], 10_000)) for one in passages(text)[:60]) <= 256


@pytest.mark.parametrize(("name", "ends"), [("prose", "."), ("code", "\n"), ("markdown", "\n"), ("chinese", "。！，")])
def test_passages_end_where_the_text_does(name: str, ends: str) -> None:
    text = TEXTS[name]
    assert all(text[one.start : one.end].rstrip(" ")[-1] in ends for one in passages(text)[:-1])


def test_words_stay_whole() -> None:
    for one in passages(PROSE):
        assert one.start == 0 or PROSE[one.start - 1].isspace()


@pytest.mark.parametrize("text", ["", "short", "汤" * PASSAGE_TOKENS, "word " * PASSAGE_TOKENS])
def test_what_fits_is_one_passage(text: str) -> None:
    assert passages(text) == [Passage(0, len(text))]


def test_of_a_very_long_text_passages_are_taken_evenly() -> None:
    text = PROSE * 40
    whole, some = passages(text), cut(text)
    assert some.of == len(whole) > MOST_PASSAGES
    assert len(some.passages) == MOST_PASSAGES
    assert (some.passages[0], some.passages[-1]) == (whole[0], whole[-1])
    gaps = [whole.index(after) - whole.index(one) for one, after in pairwise(some.passages)]
    assert max(gaps) - min(gaps) <= 1


def test_a_smaller_window_makes_smaller_passages() -> None:
    encode = bert_uncased().encode
    assert all(len(encode(PROSE[one.start : one.end], 10_000)) <= 66 for one in passages(PROSE, 60))


@pytest.mark.parametrize("unit", ["a", "a-", "1.", "May ", "汤。", "\n", " "])
def test_cutting_is_linear(unit: str) -> None:
    def spent(length: int) -> float:
        text = (unit * length)[:length]
        best = float("inf")
        for _ in range(3):
            begun = time.process_time()
            passages(text)
            best = min(best, time.process_time() - begun)
        return best

    assert spent(200_000) < 8 * spent(50_000) + 0.02
