"""Adapters that are made when they are first used."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from recollect.app.on_demand import OnDemand


class Engine:
    made = 0
    closed = 0

    def __init__(self) -> None:
        Engine.made += 1

    def answer(self) -> int:
        return 42

    def close(self) -> None:
        Engine.closed += 1


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Engine.made = Engine.closed = 0


def test_what_is_not_used_is_neither_made_nor_closed() -> None:
    OnDemand(Engine).close()
    assert (Engine.made, Engine.closed) == (0, 0)


def test_it_is_made_once_by_all_threads_and_closed() -> None:
    one = OnDemand(Engine)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: one.answer(), range(50))) == {42}
    one.close()
    assert (Engine.made, Engine.closed) == (1, 1)


def test_what_it_has_not_is_missing() -> None:
    with pytest.raises(AttributeError):
        _ = OnDemand(Engine).nothing
