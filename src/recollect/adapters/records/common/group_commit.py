"""One writer thread that lets concurrent transactions share a disk sync.

A sync costs milliseconds and everything else microseconds, so whoever is waiting when a commit begins goes along
with it. Each transaction is its own savepoint: one that fails is undone alone. The caller returns only when the
shared commit is on disk; if that commit fails, every caller in it gets the error.

Where several processes write to one store, `turn` lets them take turns: who comes meanwhile goes along, too.

Upkeep that follows from a commit and is no part of its promise comes after the callers were told: to move SQLite's log
into its file takes as long as ten memories, and one in thirty that were added waited for it.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, Protocol, TypeVar, cast

from recollect.errors import Closed, RecollectError

T = TypeVar("T")
MOST_AT_ONCE = 256
log = logging.getLogger("recollect.records")


class BatchConnection(Protocol):
    """What the thread drives: one connection's transaction."""

    def begin(self) -> None:
        """Begins anew, whatever the transaction before has left."""

    def attempt(self, work: Callable[[], T]) -> T:
        """Runs one piece of work; if it raises, undoes that piece alone and lets the error through."""

    def commit(self) -> None: ...

    def tidy(self) -> None:
        """Upkeep after a commit, for which nobody waits but who comes next."""

    def rollback(self) -> None: ...

    def close(self) -> None: ...


class _Piece(Generic[T]):
    """Work that somebody waits for. A plain lock is enough for one who waits, and takes a third of the time of a
    `Future`, which a single write waits for.
    """

    __slots__ = ("_is_open", "_refusal", "_result", "_work")

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work
        self._result: T | None = None
        self._refusal: BaseException | None = None
        self._is_open = threading.Lock()
        self._is_open.acquire()

    def work(self) -> T:
        assert self._work is not None, "done already"
        return self._work()

    def settle(self, result: T | None, refusal: BaseException | None) -> None:
        self._result, self._refusal = result, refusal
        self._work = None  # what it holds may be large, and ends with the caller
        self._is_open.release()

    def outcome(self) -> T:
        self._is_open.acquire()
        try:
            if self._refusal is not None:
                raise self._refusal
            return cast(T, self._result)
        finally:
            del self  # the error's traceback holds this frame, and the piece the error


class GroupCommit:
    def __init__(self, batches: BatchConnection, name: str) -> None:
        self._batches = batches
        self.turn: AbstractContextManager[object] = nullcontext()
        self._waiting: queue.SimpleQueue[_Piece[Any] | None] = queue.SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], T]) -> T:
        """Runs the work in the next commit and returns its result when that commit is durable."""
        if self._process != os.getpid():
            raise Closed("this store was opened before a fork", remedy="open it again in the child process")
        piece = _Piece(work)
        with self._lock:
            if self._closed:
                raise Closed("this store is closed", remedy="open it again")
            self._waiting.put(piece)
        return piece.outcome()

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
                if self._settle(batch):
                    self._tidy()
            if last:
                break
        self._batches.close()

    def _gather(self, first: _Piece[Any]) -> tuple[list[_Piece[Any]], bool]:
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

    def _settle(self, batch: list[_Piece[Any]]) -> bool:
        """Whether it was committed. Nobody is told before: who was refused because of a neighbour must find that one
        there.
        """
        outcomes: list[tuple[object, BaseException | None]] = []
        try:
            self._batches.begin()
            for piece in batch:
                try:
                    outcomes.append((self._batches.attempt(piece.work), None))
                except Exception as error:  # noqa: BLE001 - handed to the caller that waits for this piece of work
                    outcomes.append((None, error))
            self._batches.commit()
            is_committed = True
        except BaseException as error:  # noqa: BLE001 - nothing was committed: every caller is told
            outcomes = [(None, error)] * len(batch)
            is_committed = False
            self._undo()
        for piece, (result, refusal) in zip(batch, outcomes, strict=True):
            piece.settle(result, refusal)
        return is_committed

    def _tidy(self) -> None:
        try:
            self._batches.tidy()
        except BaseException as error:
            log.warning("upkeep after a commit failed: %s", error, exc_info=not isinstance(error, RecollectError))
            self._undo()  # others must not wait for what it has begun

    def _undo(self) -> None:
        try:
            self._batches.rollback()
        except Exception:  # the edge of the thread, which must live: the next `begin` undoes it first
            log.exception("a failed transaction could not be undone at once")
