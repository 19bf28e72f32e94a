"""The kit on a store that somebody hands in; `report.py` supplies how it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recollect.ports.records import RecordStore
from recollect.testing.conformance.contract import RecordStoreContract
from recollect.testing.conformance.report import MakeStore


class TestStore(RecordStoreContract):
    @pytest.fixture(autouse=True)
    def _rules(self, request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> None:
        """Notes which part of the kit a rule is from."""
        record_property("rules", request.function.__module__.rpartition(".")[2])

    @pytest.fixture
    def store(self, make_store: MakeStore, tmp_path: Path) -> Iterator[RecordStore]:
        store = make_store(tmp_path)
        yield store
        store.close()

    @pytest.fixture
    def reopen(
        self, store: RecordStore, make_store: MakeStore, tmp_path: Path
    ) -> Iterator[Callable[[RecordStore], RecordStore] | None]:
        opened: list[RecordStore] = []

        def again(before: RecordStore) -> RecordStore:
            before.close()
            opened.append(make_store(tmp_path))
            return opened[-1]

        yield again if store.capabilities.durable else None
        for one in opened:
            one.close()
