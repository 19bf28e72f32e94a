"""The threads that awaited operations run in.

Promise: the event loop never waits for a store. Whoever is cancelled hears it at once: what had not begun does not
begin, what had begun ends as if nobody had been cancelled, so it is stored whole or not at all. Closing waits for it.
Shape: a pool of our own, since in the loop's default one a few slow recalls would hold up name lookups and files of
the whole program. It belongs to no loop: those of several may come one after another, or at once.
Proof: `tests/interfaces/test_async_client.py`.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from recollect.errors import Closed, InvalidInput

THREADS = 8
T = TypeVar("T")


class OperationThreads:
    """At most so many operations at once; the others wait their turn, and no thread is started before it is needed."""

    def __init__(self, count: int = THREADS) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InvalidInput("threads must be a number of at least 1", remedy=f"leave it out for {THREADS}")
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="recollect-async")
        self._lock = threading.Lock()
        self._closing: Future[None] | None = None
        self._process = os.getpid()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Begin it in a thread, with the context variables of the caller."""
        if self._process != os.getpid():
            raise Closed("this memory was opened before a fork", remedy="open it again in the child process")
        with self._lock:
            if self._closing is not None:
                raise Closed("this memory is closed", remedy="open it again")
            return self._pool.submit(contextvars.copy_context().run, work)

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self.submit(work))

    def close(self, last: Callable[[], object]) -> Future[None]:
        """Take no more, let end what was begun, then do the last thing. Who closes again waits for the same."""
        with self._lock:
            if self._closing is not None:
                return self._closing
            closing: Future[None] = Future()
            self._closing = closing
        closing.set_running_or_notify_cancel()  # from here on, who stops waiting for it does not stop it
        # Not a thread of the pool, which would wait for itself; not a daemon, so that the program ends after it.
        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(self._end, last, closing), name="recollect-async-close").start()
        return closing

    def _end(self, last: Callable[[], object], closing: Future[None]) -> None:
        try:
            if self._process == os.getpid():  # else the threads were not forked with us
                self._pool.shutdown(wait=True)
            last()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the closing
            closing.set_exception(error)
        else:
            closing.set_result(None)


def on_this_loop(progress: Callable[[int, int], None]) -> Callable[[int, int], None]:
    """The same function, called from a thread, run by the loop: it may touch what belongs to the loop."""
    loop = asyncio.get_running_loop()

    def told(done: int, total: int) -> None:
        with suppress(RuntimeError):  # the loop has ended: the operation goes on, and nobody is left to be told
            loop.call_soon_threadsafe(progress, done, total)

    return told
