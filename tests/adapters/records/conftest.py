"""Which cases of the contract run every day."""

from __future__ import annotations

from collections import defaultdict

import pytest

from seeds import SOAK, some


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a rule with many cases SQLite tries all, each other store six; all of them in a soak.

    An encrypted SQLite file tries one: it is the same code, on other pages.
    """
    cases: dict[tuple[str, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        given = getattr(item, "callspec", None)
        if item.path.name == "test_record_stores.py" and given is not None:
            store = str(given.id).split("-")[0]
            cases[getattr(item, "originalname", ""), store].append(item)
    left_out: set[pytest.Item] = set()
    for (rule, store), those in cases.items():
        if store != "sqlite" and not SOAK:
            left_out |= set(those) - set(some(1 if store == "sqlite encrypted" else 6, those, f"{rule} {store}"))
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=list(left_out))
