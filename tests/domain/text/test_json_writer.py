"""The quick writer writes what Python's own encoder writes, to the byte, and refuses what that refuses."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from recollect.domain.memory import canonical, content_hash
from recollect.domain.text.json_writer import json_writer

_LETTERS = 'az AZ09 "\\/\b\n\t\x00\x1f\x7f\x80é\u0301İK漢字학교ไทย😀\u2028\u2029\ufeff\ud800\udfff'
_SCALARS = (None, True, False, 0, -1, 10**30, 0.1, -0.0, 1e300, 5e-324, float("inf"), float("nan"), "", "text")


class Name(str):
    pass


def drawn(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.random()
    if depth < 4 and kind < 0.25:
        return {text(chance): drawn(chance, depth + 1) for _ in range(chance.randrange(4))}
    if depth < 4 and kind < 0.45:
        some = [drawn(chance, depth + 1) for _ in range(chance.randrange(4))]
        return tuple(some) if chance.random() < 0.2 else some
    return text(chance) if kind < 0.7 else chance.choice(_SCALARS)


def text(chance: random.Random) -> str:
    made = "".join(chance.choices(_LETTERS, k=chance.randrange(12)))
    return Name(made) if chance.random() < 0.1 else made


@pytest.mark.parametrize("sort_keys", [False, True])
def test_it_writes_the_same(sort_keys: bool) -> None:
    plain = json.JSONEncoder(sort_keys=sort_keys, ensure_ascii=False, separators=(",", ":"))
    written, chance = json_writer(sort_keys=sort_keys), random.Random(7)
    values = [drawn(chance) for _ in range(3000)]
    assert [written(one) for one in values] == [plain.encode(one) for one in values]
    assert len({type(one) for one in values}) > 5


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, {"a": object()}, {(1, 2): 3}])
def test_it_refuses_the_same(value: object) -> None:
    refusals = []
    for written in (json.JSONEncoder(separators=(",", ":")).encode, json_writer()):
        with pytest.raises(TypeError) as caught:
            written(value)
        refusals.append(str(caught.value))
    assert refusals[0] == refusals[1]


def test_after_a_refusal_it_goes_on() -> None:
    written = json_writer()
    inner: list[object] = [object()]
    with pytest.raises(TypeError):
        written({"a": inner})
    inner[0] = 1
    assert written({"a": inner}) == '{"a":[1]}'


def test_a_value_that_holds_itself_is_named_as_such() -> None:
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(ValueError, match="Circular"):
        canonical(circle)


def test_hashes_of_contents_stay_what_they_were() -> None:
    assert canonical({"b": [1, None, 0.5], "a": {"é": "\u2028"}}) == '{"a":{"é":"\u2028"},"b":[1,null,0.5]}'.encode()
    made = content_hash("fact", {"text": "Ada likes tea", "é": [1, None, 0.5, -0.0, "\u2028"]})
    assert made == "m1:81e2d93d11c8142d75f0fc198c8b10ecfc8256db3c00ae54aa8ec4d619b82cdb"
