"""The conformance kit: every rule of the sockets for records and vectors, as tests that any store can be put to.

    class TestMyStore(RecordStoreContract):
        @pytest.fixture
        def store(self, tmp_path):
            store = MyStore(tmp_path)
            yield store
            store.close()

A durable store also overrides the `reopen` fixture; for vector stores see
VectorStoreContract. Needs pytest; nothing else of Recollect imports this package.
"""

from __future__ import annotations

import pytest

_PARTS = "contract transactions references queries paging text values sharing snapshots counting capabilities vectors"
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS.split()))

from recollect.testing.conformance.contract import RecordStoreContract  # noqa: E402
from recollect.testing.conformance.vectors import VectorStoreContract  # noqa: E402

__all__ = ["RecordStoreContract", "VectorStoreContract"]
