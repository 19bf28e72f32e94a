"""The default embedder on its real weights, against vectors that the graph before it was fused made."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from recollect.adapters.models.memory_encoder import MemoryEncoder
from recollect.errors import DamagedData
from recollect.ports.models import Vectors

FORMER = Path(__file__).with_name("former_vectors.json")
"""Texts and their vectors by the file before (sha256 2f6a44a7…), each number times 127 / the largest."""


@pytest.fixture(scope="module")
def embedder() -> MemoryEncoder:
    return MemoryEncoder()


@pytest.fixture(scope="module")
def former() -> dict[str, Vectors]:
    return {text: np.array(numbers, np.float32) for text, numbers in json.loads(FORMER.read_text("utf-8")).items()}


def _cosines(some: Vectors, others: Vectors) -> Vectors:
    lengths = np.linalg.norm(some, axis=1) * np.linalg.norm(others, axis=1)
    return np.asarray((some * others).sum(axis=1) / lengths)


def test_vectors_stored_before_the_graph_was_fused_stay_valid(
    embedder: MemoryEncoder, former: dict[str, Vectors]
) -> None:
    assert embedder.model == "recollect-memory-l6-int8@2f6a44a7"
    assert len(former) >= 30
    assert _cosines(embedder.embed(list(former)), np.stack(list(former.values()))).min() > 0.999


def test_a_text_gives_the_same_vector_whatever_it_is_batched_with(
    embedder: MemoryEncoder, former: dict[str, Vectors]
) -> None:
    together = embedder.embed(list(former))
    alone = np.stack([embedder.embed([text])[0] for text in former])
    padded = embedder.embed(["Yes!", "Yes! " * 20])[0]
    assert _cosines(together, alone).min() > 0.99999
    assert padded @ embedder.embed(["Yes!"])[0] > 0.99999


def test_the_longest_text_fits(embedder: MemoryEncoder) -> None:
    start = "word " * 254
    assert embedder.embed([start])[0] @ embedder.embed([start + "and more"])[0] > 0.99999


def test_loading_it_takes_no_unfolded_weights() -> None:
    """float32 weights would be 90 MB, the whole file 25 more; what is used of the int8 weights is 26."""
    code = (
        "import onnxruntime\n"
        "from recollect.adapters.models.memory_encoder import MemoryEncoder\n"
        "def most():\n"
        "    with open('/proc/self/status') as status:\n"
        "        return next(int(line.split()[1]) / 1024 for line in status if line.startswith('VmHWM'))\n"
        "before = most()\n"
        "MemoryEncoder(threads=1).embed_query('where is the key?')\n"
        "print(most() - before)"
    )
    if sys.platform != "linux":
        pytest.skip("read from /proc")
    grown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert float(grown) < 60


@pytest.mark.parametrize("name", ["memory_encoder.onnx", "memory_encoder.weights"])
def test_another_graph_and_other_weights_are_refused(tmp_path: Path, name: str) -> None:
    graph = MemoryEncoder()._installed_weights()
    for file in (graph, graph.with_suffix(".weights")):
        shutil.copy(file, tmp_path)
    with (tmp_path / name).open("r+b") as changed:
        changed.seek(5000)
        changed.write(b"other")
    with pytest.raises(DamagedData, match="wrong checksum"):
        MemoryEncoder(weights=tmp_path / graph.name).embed(["a"])
