"""The cross-encoder that compares a question with descriptions of queries."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from recollect.adapters.models.query_ranker import WEIGHTS, QueryRanker
from recollect.errors import EmbedderFailed

QUESTION = "What is the average price of the products in each category?"
DESCRIPTIONS = [
    "show product name from product",
    "show product category, average product price from product for each product category",
    "show number of rows from customer where customer city is Berlin",
]


@pytest.fixture(scope="module")
def ranker() -> QueryRanker:
    return QueryRanker()


def test_the_description_that_fits_has_the_highest_score(ranker: QueryRanker) -> None:
    scores = ranker.compare(QUESTION, DESCRIPTIONS)
    assert scores.dtype == np.float32
    assert scores.argmax() == 1


def test_nothing_to_compare_gives_nothing(ranker: QueryRanker) -> None:
    assert ranker.compare(QUESTION, []).shape == (0,)


def test_long_and_odd_texts_are_cut_and_compared(ranker: QueryRanker) -> None:
    scores = ranker.compare("word " * 5_000, ["", "客户 🙂", "x " * 5_000])
    assert np.isfinite(scores).all()


def test_threads_share_one_ranker() -> None:
    ranker = QueryRanker()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: ranker.compare(QUESTION, DESCRIPTIONS), range(8)))
    assert all(np.array_equal(each, found[0]) for each in found)


def test_what_ships_is_small() -> None:
    assert WEIGHTS.stat().st_size < 25_000_000


def test_missing_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(EmbedderFailed, match="query ranker"):
        QueryRanker(weights=tmp_path / "none.onnx").compare(QUESTION, DESCRIPTIONS)
