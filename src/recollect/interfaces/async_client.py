"""The Python client for programs with an event loop: one awaitable method per operation of the catalogue.

A veneer: a method runs the one of the synchronous client in a thread. `async_client.pyi` beside this file spells them
out for editors and type checkers, and a test keeps it up to date.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from recollect.catalogue import GROUPS, OPERATIONS, Operation
from recollect.interfaces.async_threads import OperationThreads, on_this_loop
from recollect.interfaces.client import OpenMemory, OperationGroup, OperationSignature, Progress, Recollect, attach

T = TypeVar("T")


class AsyncRecollect(OpenMemory):
    """An open memory, seen from one organization, whose operations are awaited."""

    def __init__(self, sync: Recollect, threads: OperationThreads, *, owns: bool = True) -> None:
        self._sync = sync
        self._threads = threads
        self._owns = owns

    @property
    def _organization(self) -> str:
        return self._sync._organization

    async def _run(self, work: Callable[[Recollect], T]) -> T:
        return await self._threads.run(partial(work, self._sync))

    async def timezone(self) -> str:
        """The zone of times without one: of the user on whose behalf it is, else the store's."""
        return await self._run(lambda sync: sync.timezone)

    async def within(self, organization: str | None = None, actor: str | None = None) -> AsyncRecollect:
        """The same store as another organization or another actor. Close only the one you opened."""
        return self._seen(await self._run(lambda sync: sync.within(organization, actor)))

    async def restricted(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        namespace: str | None = None,
    ) -> AsyncRecollect:
        """The same store for one user, agent, project or namespace: it reaches only what is theirs.

        What is stored without an owner can be read, and what is stored from here belongs to them. Close only the one
        you opened.
        """
        named = {"user": user, "agent": agent, "project": project, "namespace": namespace}
        return self._seen(await self._run(lambda sync: sync.restricted(**named)))

    def _seen(self, sync: Recollect) -> AsyncRecollect:
        return type(self)(sync, self._threads, owns=False)

    async def call(self, operation: str, /, *, progress: Progress = None, **fields: Any) -> Any:
        """Any operation by name. A function given as `progress` is called by the event loop; True shows a bar."""
        heard = on_this_loop(progress) if callable(progress) else progress
        return await self._run(lambda sync: sync.call(operation, progress=heard, **fields))

    async def aclose(self) -> None:
        """Let end what is running, write what is pending, and close the store."""
        if self._owns:
            await asyncio.wrap_future(self._threads.close(self._sync.close))

    close = aclose

    async def __aenter__(self) -> AsyncRecollect:
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self.aclose()

    def __enter__(self) -> AsyncRecollect:
        raise TypeError("this memory is closed by awaiting: write `async with`")

    def __exit__(self, *problem: object) -> None:
        """Python looks for it before it calls the other."""

    def __repr__(self) -> str:
        return f"<Async{repr(self._sync).removeprefix('<')}"


def _method(operation: Operation) -> Callable[..., Any]:
    find = attrgetter(operation.name)

    async def method(self: AsyncRecollect | OperationGroup, /, *given: Any, **fields: Any) -> Any:
        mem = self._mem if isinstance(self, OperationGroup) else self
        if callable(fields.get("progress")):
            fields["progress"] = on_this_loop(fields["progress"])
        return await mem._run(lambda sync: find(sync)(*given, **fields))

    method.__name__ = operation.verb
    method.__qualname__ = f"AsyncRecollect.{operation.name}"
    method.__doc__ = operation.summary
    method.__signature__ = OperationSignature(operation)  # type: ignore[attr-defined]
    return method


attach(AsyncRecollect, OPERATIONS.values(), GROUPS, _method, former={})
