"""The stand-in embedder behaves like one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.testing.fakes import HashEmbedder


def test_texts_that_share_words_are_nearer() -> None:
    embedder = HashEmbedder()
    near, far = embedder.embed(["The red car stopped.", "Nobody reads old poems"])
    question = embedder.embed_query("red CAR")
    assert question @ near > 0.5 > question @ far


def test_the_vector_of_a_text_never_changes() -> None:
    vector = HashEmbedder(8).embed_query("hello world")
    assert np.flatnonzero(vector).tolist() == [6, 7]


@settings(deadline=None)
@given(st.lists(st.text(st.characters())))
def test_every_text_has_a_finite_unit_vector(texts: list[str]) -> None:
    vectors = HashEmbedder().embed(texts)
    assert (vectors.shape, vectors.dtype) == ((len(texts), 64), np.dtype(np.float32))
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
