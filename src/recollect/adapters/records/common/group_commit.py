"""One writer thread that lets concurrent transactions share a disk sync.

A sync costs milliseconds and everything else microseconds, so whoever is waiting when a commit begins goes along
with it. Each transaction is its own savepoint: one that fails is undone alone. The caller returns only when the
shared commit is on disk; if that commit fails, every caller in it gets the error.

Where several processes write to one store, `turn` lets them take turns: who comes meanwhile goes along, too.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

from recollect.errors import Closed

T = TypeVar("T")
MOST_AT_ONCE = 256
Piece = tuple[Callable[[], Any], Future[Any]]
"""Work, and where its result goes."""
log = logging.getLogger("recollect.records")


class BatchConnection(Protocol):
    """What the thread drives: one connection's transaction."""

    def begin(self) -> None:
        """Begins anew, whatever the transaction before has left."""

    def attempt(self, work: Callable[[], T]) -> T:
        """Runs one piece of work; if it raises, undoes that piece alone and lets the error through."""

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def close(self) -> None: ...


class GroupCommit:
    def __init__(self, batches: BatchConnection, name: str) -> None:
        self._batches = batches
        self.turn: AbstractContextManager[object] = nullcontext()
        self._waiting: queue.SimpleQueue[Piece | None] = queue.SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], T]) -> T:
        """Runs the work in the next commit and returns its result when that commit is durable."""
        if self._process != os.getpid():
            raise Closed("this store was opened before a fork", remedy="open it again in the child process")
        done: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise Closed("this store is closed", remedy="open it again")
            self._waiting.put((work, done))
        return done.result()

    def close(self) -> None:
        """Returns when all that was given before is settled, also to the second who closes."""
        if self._process != os.getpid():  # the thread is not here, and the lock may be held for ever
            return
        with self._lock:
            if not self._closed:
                self._waiting.put(None)
            self._closed = True
        self._thread.join()

    def _serve(self) -> None:
        while True:
            first = self._waiting.get()
            if first is None:
                break
            with self.turn:
                batch, last = self._gather(first)
                self._settle(batch)
            if last:
                break
        self._batches.close()

    def _gather(self, first: Piece) -> tuple[list[Piece], bool]:
        batch = [first]
        while len(batch) < MOST_AT_ONCE:
            try:
                item = self._waiting.get_nowait()
            except queue.Empty:
                break
            if item is None:
                return batch, True
            batch.append(item)
        return batch, False

    def _settle(self, batch: list[Piece]) -> None:
        """Nobody is told before the commit: who was refused because of a neighbour must find that one there."""
        outcomes: list[tuple[Future[Any], object, BaseException | None]] = []
        try:
            self._batches.begin()
            for work, done in batch:
                try:
                    outcomes.append((done, self._batches.attempt(work), None))
                except Exception as error:  # noqa: BLE001 - handed to the caller that waits for this piece of work
                    outcomes.append((done, None, error))
            self._batches.commit()
        except BaseException as error:  # noqa: BLE001 - nothing was committed: every caller is told
            outcomes = [(done, None, error) for _, done in batch]
            self._undo()
        for done, result, refusal in outcomes:
            if refusal is None:
                done.set_result(result)
            else:
                done.set_exception(refusal)

    def _undo(self) -> None:
        try:
            self._batches.rollback()
        except Exception:  # the edge of the thread, which must live: the next `begin` undoes it first
            log.exception("a failed transaction could not be undone at once")
