"""All the rules together, and the fixtures they share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recollect.ports.records import RecordStore, Scope
from recollect.testing.conformance.capabilities import CapabilityRules
from recollect.testing.conformance.counting import CountingRules
from recollect.testing.conformance.makers import found
from recollect.testing.conformance.paging import PagingRules
from recollect.testing.conformance.queries import QueryRules
from recollect.testing.conformance.references import ReferenceRules
from recollect.testing.conformance.sharing import SharingRules
from recollect.testing.conformance.snapshots import SnapshotRules
from recollect.testing.conformance.text import TextRules
from recollect.testing.conformance.transactions import TransactionRules
from recollect.testing.conformance.values import ValueRules


class RecordStoreContract(
    TransactionRules,
    ReferenceRules,
    QueryRules,
    PagingRules,
    TextRules,
    ValueRules,
    SharingRules,
    SnapshotRules,
    CountingRules,
    CapabilityRules,
):
    @pytest.fixture
    def store(self) -> RecordStore:
        raise NotImplementedError("give a `store` fixture that yields an empty store and closes it")

    @pytest.fixture
    def reopen(self) -> Callable[[RecordStore], RecordStore] | None:
        """For durable stores: closes a store and opens the same data again."""
        return None

    @pytest.fixture
    def acme(self, store: RecordStore) -> Scope:
        return found(store, "acme")

    @pytest.fixture
    def globex(self, store: RecordStore) -> Scope:
        return found(store, "globex")
