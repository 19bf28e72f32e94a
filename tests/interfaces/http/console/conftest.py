"""The console of an empty store that Maya owns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from console_pages import PASSWORD
from recollect.interfaces.serve import application
from recollect.settings import Settings


@pytest.fixture
def console(mem: Any) -> Iterator[Any]:
    user = mem.user.add("Maya", email="maya@example.com")
    mem.user.revise(user.id, role="owner", password=PASSWORD)
    settings = Settings(store="postgresql://me:hidden@host/db", server={"upkeep_seconds": 1e6})
    app = application(mem._core, settings)
    with TestClient(app, "http://127.0.0.1", raise_server_exceptions=False, follow_redirects=False) as client:
        yield client
