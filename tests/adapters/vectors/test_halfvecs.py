"""How a search in PostgreSQL chooses between scoring a scope and walking an index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recollect.adapters.ttl_cache import TtlCache
from recollect.adapters.vectors.halfvec_sql import Halfvecs, RowFilter, Server


def test_a_scope_that_was_too_broad_is_looked_at_again_however_often_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moment, asked = [0.0], []
    monkeypatch.setattr("recollect.adapters.ttl_cache.time.monotonic", lambda: moment[0])

    def ask(text: str, values: Any) -> list[tuple[Any, ...]]:
        asked.append(moment[0])
        return [(None, None, 11)]

    server, noted = Server(ask, lambda settings, text, values: [("a", -1.0, 0)]), TtlCache[bool]()
    for second in range(150):
        moment[0] = float(second)
        found = Halfvecs("t", "k").nearest(RowFilter("x", []), np.ones(2), 1, 10, noted, server)
        assert found == [("a", -1.0)]
    assert asked == [0.0, 60.0, 120.0]
