"""On which stores `make test` tries a service: on SQLite and PostgreSQL, and on DuckDB or DynamoDB, test by test.

These two take a seventh of the time of all tests. What every store has to do is tried on both of them every day
(tests/adapters, tests/crash, tests/property); for what services do with a store one of the two is enough, which the
seed chooses. A soak tries both, and so does whoever runs a file by itself. Tried by tests/test_everyday_stores.py.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable

import pytest

from seeds import SEED, SOAK

FOLDERS = ("tests/services/", "tests/integrations/", "tests/interfaces/")
_EITHER = re.compile("duckdb|dynamodb")


def left_out(tests: Iterable[str], seed: int) -> set[str]:
    """Of the tests that are the same but for these two stores, all but one."""
    alike: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        name, _, given = test.partition("[")
        if test.startswith(FOLDERS) and _EITHER.search(given):
            alike[f"{name}[{_EITHER.sub('*', given)}"].append(test)
    return {
        test
        for name, variants in alike.items()
        for test in set(variants) - {random.Random(f"{seed} {name}").choice(variants)}
    }


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if SOAK or not config.option.workers:
        return
    without = left_out((item.nodeid for item in items), SEED)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in without])
    items[:] = [item for item in items if item.nodeid not in without]
