"""`recollect.aopen` and `recollect.aconnect`: a memory for programs with an event loop.

    async with recollect.aopen("team.db") as mem:
        await mem.remember("Alice prefers pytest")

Nothing of ours is imported here that takes long to import: that happens in a thread, with the opening.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from recollect.interfaces.async_threads import THREADS, OperationThreads

if TYPE_CHECKING:
    from pathlib import Path

    from recollect.interfaces.async_client import AsyncRecollect
    from recollect.interfaces.client import Recollect
    from recollect.ports.models import Embedder, LanguageModel
    from recollect.ports.records import RecordStore
    from recollect.settings import EmbedderSettings, LanguageModelSettings


class Opening:
    """A memory that is about to be opened, once: `await` it, or enter it with `async with`."""

    def __init__(self, make: Callable[[], Recollect], threads: int) -> None:
        self._make = make
        self._threads = OperationThreads(threads)
        self._is_begun = False
        self._mem: AsyncRecollect | None = None

    def __await__(self) -> Generator[Any, None, AsyncRecollect]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncRecollect:
        self._mem = await self
        return self._mem

    async def __aexit__(self, *problem: object) -> None:
        if self._mem is not None:
            await self._mem.aclose()

    if not TYPE_CHECKING:  # a type checker shall find a forgotten await

        def __getattr__(self, name: str) -> Any:
            hint = "" if name.startswith("_") else ": await it first, as in `mem = await recollect.aopen(...)`"
            raise AttributeError(f"a memory that is being opened has no attribute '{name}'{hint}", name=name)

    async def _open(self) -> AsyncRecollect:
        if self._is_begun:
            raise RuntimeError("this memory was awaited before: keep what the first await gave, or open it again")
        self._is_begun = True
        opened = self._threads.submit(partial(_opened, self._make, self._threads))
        try:
            return await asyncio.wrap_future(opened)
        except BaseException:  # also cancelled: what is opened nonetheless is nobody's
            self._threads.close(partial(_close_opened, opened))
            raise


def _opened(make: Callable[[], Recollect], threads: OperationThreads) -> AsyncRecollect:
    from recollect.interfaces.async_client import AsyncRecollect

    return AsyncRecollect(make(), threads)


def _close_opened(opened: Future[AsyncRecollect]) -> None:
    """Called when the threads have ended, so it is known what became of the opening."""
    if not opened.cancelled() and opened.exception() is None:
        opened.result()._sync.close()


def _call(module: str, name: str, *given: Any, **named: Any) -> Recollect:
    """A function of a module that is imported for it."""
    mem: Recollect = getattr(import_module(module), name)(*given, **named)
    return mem


def aopen(
    source: str | Path | RecordStore | None = None,
    *,
    create: bool = True,
    readonly: bool | None = None,
    profile: str | None = None,
    embedder: Embedder | EmbedderSettings | dict[str, Any] | str | None = None,
    language_model: LanguageModel | LanguageModelSettings | dict[str, Any] | str | None = None,
    threads: int = THREADS,
    **settings: Any,
) -> Opening:
    """Open a memory whose operations are awaited: `mem = await aopen(...)` or `async with aopen(...) as mem`.

    Everything as for `recollect.open`. At most `threads` operations run at once, in threads of their own; the others
    wait their turn.
    """
    which = {"create": create, "readonly": readonly, "profile": profile}
    named = {**which, "embedder": embedder, "language_model": language_model, **settings}
    return Opening(partial(_call, "recollect.app", "open", source, **named), threads)


def aconnect(
    url: str,
    key: str | None = None,
    *,
    timeout: float = 60.0,
    connect_timeout: float = 10.0,
    total_timeout: float | None = None,
    retries: int = 3,
    timezone: str | None = None,
    readonly: bool = False,
    threads: int = THREADS,
) -> Opening:
    """A memory behind a service, with operations that are awaited: `mem = await aconnect(url, key)`.

    Everything as for `recollect.connect`. At most `threads` requests are sent at once.
    """
    times = {"timeout": timeout, "connect_timeout": connect_timeout, "total_timeout": total_timeout}
    named = {**times, "retries": retries, "timezone": timezone, "readonly": readonly}
    return Opening(partial(_call, "recollect.interfaces.remote", "connect", url, key, **named), threads)
