"""What the tests of integrations share."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator

import pytest

from serving import served


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """The asynchronous tests of other packages' suites run without a plugin, which would change how all others run."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    named = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in named}))
    return True


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address and the owner's key of a running service, for all of them: starting one takes seconds."""
    with served(tmp_path_factory.mktemp("service")) as running:
        yield running
