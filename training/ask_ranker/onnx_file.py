"""Writes the trained ranker as an ONNX file with int8 weights. The format is written by hand: it takes no package.

Each linear layer is a DynamicQuantizeMatMul of onnxruntime: int8 weights with a scale per output, activations quantised
as they come. Words are int8 with a scale per row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

HEADS, WIDTH = 12, 384
_TYPES = {np.dtype(np.float32): 1, np.dtype(np.int8): 3, np.dtype(np.int64): 7}
Arrays = Mapping[str, NDArray[np.generic]]


def _varint(value: int) -> bytes:
    made = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _tensor(name: str, array: NDArray[np.generic]) -> bytes:
    dims = b"".join(_number(1, size) for size in array.shape)
    raw = np.ascontiguousarray(array).tobytes()
    return dims + _number(2, _TYPES[array.dtype]) + _bytes(8, name) + _bytes(9, raw)


def _attribute(name: str, value: int | float | Sequence[int]) -> bytes:
    if isinstance(value, float):
        return _bytes(1, name) + _varint(2 << 3 | 5) + np.float32(value).tobytes() + _number(20, 1)
    if isinstance(value, int):
        return _bytes(1, name) + _number(3, value) + _number(20, 2)
    return _bytes(1, name) + b"".join(_number(8, each) for each in value) + _number(20, 7)


def _value(name: str, type_: int, shape: Sequence[str]) -> bytes:
    dims = b"".join(_bytes(1, _bytes(2, each)) for each in shape)
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, type_) + _bytes(2, dims)))


class Graph:
    """Nodes and weights, added in order."""

    def __init__(self) -> None:
        self.nodes: list[bytes] = []
        self.weights: dict[str, NDArray[np.generic]] = {}

    def add(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: object) -> str:
        """The name of the output; of the first where there are several: the others end in .1, .2"""
        name = f"n{len(self.nodes)}"
        made = [name, *(f"{name}.{at}" for at in range(1, outputs))]
        parts = [*(_bytes(1, each) for each in inputs), *(_bytes(2, each) for each in made), _bytes(4, kind)]
        parts += [_bytes(5, _attribute(key, value)) for key, value in attributes.items()]  # type: ignore[arg-type]
        self.nodes.append(b"".join(parts) + (_bytes(7, domain) if domain else b""))
        return name

    def weight(self, name: str, array: NDArray[np.generic]) -> str:
        self.weights[name] = array.astype(np.float32) if array.dtype.kind == "f" else array
        return name

    def linear(self, x: str, name: str, weight: NDArray[np.generic], bias: NDArray[np.generic]) -> str:
        """`weight` is outputs x inputs, as PyTorch has it."""
        full = weight.astype(np.float32)
        scale = np.abs(full).max(axis=1) / 127 + 1e-12
        whole = np.round(full / scale[:, None]).astype(np.int8).T
        names = [self.weight(f"{name}.q", np.ascontiguousarray(whole)), self.weight(f"{name}.s", scale)]
        return self.add("DynamicQuantizeMatMul", x, *names, "", self.weight(f"{name}.b", bias), domain="com.microsoft")

    def file(self, inputs: Sequence[bytes], output: bytes) -> bytes:
        graph = b"".join(_bytes(1, node) for node in self.nodes) + _bytes(2, "ranker")
        graph += b"".join(_bytes(5, _tensor(name, array)) for name, array in self.weights.items())
        graph += b"".join(_bytes(11, each) for each in inputs) + _bytes(12, output)
        opsets = _bytes(8, _bytes(1, "") + _number(2, 17)) + _bytes(8, _bytes(1, "com.microsoft") + _number(2, 1))
        return _number(1, 8) + _bytes(2, "recollect") + _bytes(7, graph) + opsets


def ranker(state: Arrays, words: NDArray[np.int8], scales: NDArray[np.float32], places: NDArray[np.generic]) -> bytes:
    """The whole network: ids, types and positions in, one score per row out. `state` is as train.py writes it."""
    g = Graph()
    gathered = g.add("Cast", g.add("Gather", g.weight("words", words), "ids"), to=1)
    scaled = g.add("Mul", gathered, g.add("Gather", g.weight("scales", scales.reshape(-1, 1)), "ids"))
    kinds = g.add("Gather", g.weight("kinds", state["bert.typ.weight"]), "types")
    placed = g.add("Gather", g.weight("places", places), "positions")
    x = _normal(g, g.add("Add", g.add("Add", scaled, kinds), placed), "bert.ln", state)
    bias = g.add("Mul", g.add("Sub", "mask", g.weight("one", np.ones(1))), g.weight("far", np.full(1, 1e4)))
    bias = g.add("Unsqueeze", bias, g.weight("axes", np.array([1, 2], np.int64)))
    g.weight("cut", np.array([0, 0, HEADS, WIDTH // HEADS], np.int64))
    g.weight("joined", np.array([0, 0, WIDTH], np.int64))
    g.weight("root", np.full(1, (WIDTH // HEADS) ** -0.5))
    depth = 1 + max(int(name.split(".")[2]) for name in state if name.startswith("bert.layers."))
    for at in range(depth):
        x = _layer(g, x, bias, f"bert.layers.{at}", state)
    first = g.add("Gather", x, g.weight("zero", np.array(0, np.int64)), axis=1)
    column = g.add("Unsqueeze", "mask", g.weight("last", np.array([2], np.int64)))
    along = g.weight("along", np.array([1], np.int64))
    summed = g.add("ReduceSum", g.add("Mul", x, column), along, keepdims=0)
    mean = g.add("Div", summed, g.add("ReduceSum", "mask", along, keepdims=1))
    both = g.add("Concat", first, mean, axis=1)
    out = g.add("MatMul", both, g.weight("out", np.ascontiguousarray(state["out.weight"].T)))
    score = g.add("Add", out, g.weight("out.b", state["out.bias"]))
    wide = ("rows", "tokens")
    inputs = [_value("ids", 7, wide), _value("types", 7, wide), _value("mask", 1, wide),
              _value("positions", 7, ("tokens",))]  # fmt: skip
    return g.file(inputs, _value(score, 1, ("rows", "one")))


def _normal(g: Graph, x: str, name: str, state: Arrays) -> str:
    weight, bias = g.weight(f"{name}.w", state[f"{name}.weight"]), g.weight(f"{name}.b", state[f"{name}.bias"])
    return g.add("LayerNormalization", x, weight, bias, axis=-1, epsilon=1e-12)


def _layer(g: Graph, x: str, bias: str, name: str, state: Arrays) -> str:
    def linear(value: str, *parts: str) -> str:
        weight = np.concatenate([state[f"{name}.{part}.weight"] for part in parts])
        return g.linear(value, f"{name}.{parts[0]}", weight, np.concatenate([state[f"{name}.{p}.bias"] for p in parts]))

    def heads(value: str, order: Sequence[int]) -> str:
        return g.add("Transpose", g.add("Reshape", value, "cut"), perm=order)

    both = g.add("Split", linear(x, "q", "k", "v"), outputs=3, axis=2)
    query, key, value = heads(both, (0, 2, 1, 3)), heads(f"{both}.1", (0, 2, 3, 1)), heads(f"{both}.2", (0, 2, 1, 3))
    alike = g.add("Add", g.add("Mul", g.add("MatMul", query, key), "root"), bias)
    mixed = g.add("MatMul", g.add("Softmax", alike, axis=-1), value)
    mixed = g.add("Reshape", g.add("Transpose", mixed, perm=(0, 2, 1, 3)), "joined")
    x = _normal(g, g.add("Add", x, linear(mixed, "o")), f"{name}.ln1", state)
    inner = g.add("Gelu", linear(x, "i"), domain="com.microsoft")
    return _normal(g, g.add("Add", x, linear(inner, "f")), f"{name}.ln2", state)
