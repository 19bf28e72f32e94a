"""The journal of accesses: counts and logs reads, many of them in one write.

A read must not wait for a disk sync, so reads are noted in memory and written together by a thread of their own: after
a second, after a few hundred notes, or when the store is closed. Only where far more wait than that thread can write
does who makes a note write them. A crash can lose the last second of read statistics; it cannot lose
a change, since the audit entry of a change commits with the change.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from recollect.domain.audit import AccessLog, AccessOperation
from recollect.domain.memory import Memory
from recollect.domain.record import now, random_bytes
from recollect.errors import Conflict, DuplicateKey, InvalidInput, RecollectError
from recollect.ports.query import OneOf, Query
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Insert, Step, Touch

FLUSH_SECONDS = 1.0
FLUSH_NOTES = 256
MOST_WAITING = 4 * FLUSH_NOTES
MOST_KEPT = 16 * FLUSH_NOTES  # while they cannot be written
WRITTEN_AT_ONCE = 32
"""In one transaction, for which others who write wait: of 200 recalls, which touch what they have shown, 45 ms."""
BUSY_SECONDS = 0.25  # after an operation: the next one of the same caller may be on its way
Note = tuple[Scope, AccessLog, tuple[str, ...]]
log = logging.getLogger("recollect.journal")


@dataclass(slots=True, eq=False)
class _RunningOperation:
    """The operation that is running, and whether it has written its log entry yet."""

    name: str
    session: str | None = None
    agent: str | None = None
    is_logged: bool = False


_under_way: ContextVar[_RunningOperation | None] = ContextVar("under_way", default=None)
# What `audit verify` looks for by name, whichever operation deleted or changed entries; that operation has its own
# entry as well.
RETENTION_NAMES = frozenset({"retention", "drop partition"})
PSEUDONYMISED = "pseudonymise"
KEPT_NAMES = RETENTION_NAMES | {PSEUDONYMISED}
SALT_BYTES = 8


def named(action: str) -> dict[str, Any]:
    """The action of a log entry: the running operation, with the more specific change if it has its own name; and the
    session and agent of the request."""
    known = _under_way.get()
    if known is None or action in KEPT_NAMES:
        return {"action": action}
    known.is_logged = True
    finer = {"change": action} if action != known.name else {}
    return {"action": known.name, "session_id": known.session, "agent_id": known.agent, "request_data": finer}


CONCERNED = frozenset({"id", "session", "agent"})
"""The fields of a request that tell whom it concerns."""


def _owners(action: str, request: Mapping[str, Any]) -> dict[str, str | None]:
    """The session and the agent of a request, if it names them."""
    room = action.rpartition(".")[0]
    found = {name: request.get("id") if room == name else request.get(name) for name in ("session", "agent")}
    return {name: value if isinstance(value, str) else None for name, value in found.items()}


def entry_of(
    scope: Scope, operation: AccessOperation, action: str, request: dict[str, Any], **fields: Any
) -> AccessLog:  # fmt: skip
    return AccessLog(
        organization_id=scope.organization_id,
        actor_id=scope.actor,
        operation=_as_seen(scope, operation),
        action=action,
        request_data=request,
        ip_address=scope.address,
        salt=new_salt(),
        **fields,
    )


def _as_seen(scope: Scope, operation: AccessOperation) -> AccessOperation:
    """A person who looks through the console does not use what they see: it would rank what nobody needs."""
    return "view" if scope.reading != "use" and operation in ("read", "search") else operation


def new_salt() -> str:
    return random_bytes(SALT_BYTES).hex()


class Journal:
    def __init__(self, store: RecordStore, *, flush_seconds: float = FLUSH_SECONDS, readonly: bool = False) -> None:
        """With `readonly` nothing is counted or logged: the store takes no writes."""
        self._store = store
        self._readonly = readonly
        self._flush_seconds = flush_seconds
        self._notes: list[Note] = []
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._timer: threading.Timer | None = None
        self._attended: set[_RunningOperation] = set()
        self._ended_at = -math.inf

    def is_attending(self) -> bool:
        """Whether an operation runs, or did a moment ago."""
        return bool(self._attended) or time.monotonic() - self._ended_at < BUSY_SECONDS

    @contextmanager
    def attend(
        self,
        scope: Scope,
        operation: AccessOperation,
        action: str,
        request: dict[str, Any],
        *,
        failures_only: bool = False,
        refused: Callable[[], dict[str, Any]] | None = None,
        whole: Callable[[], dict[str, Any]] | None = None,
    ) -> Iterator[None]:
        """Log what is done in the block: by its own entry, or else by one made here; failures always.

        `refused` gives the request as logged if it fails; `whole` all of it, where `request` is only whom it concerns:
        most changes log themselves, and to hash their texts once more is for nothing.
        """
        concerned = _owners(action, request)
        known = _RunningOperation(action, session=concerned["session"], agent=concerned["agent"])
        token = _under_way.set(known)
        try:
            self._attended.add(known)
            yield
        except RecollectError as error:
            self.failed(scope, operation, action, request if refused is None else refused(), error.code)
            raise
        finally:
            _under_way.reset(token)
            self._attended.discard(known)
            self._ended_at = time.monotonic()
        if not known.is_logged and not failures_only:
            owners = {"session_id": known.session, "agent_id": known.agent}
            told = request if whole is None else whole()
            self._add(scope, entry_of(scope, operation, action, told, **owners), ())

    def failed(self, scope: Scope, operation: AccessOperation, action: str, request: dict[str, Any], code: str) -> None:
        """Log an operation that was refused."""
        self._add(scope, entry_of(scope, operation, action, request, success=False, error_message=code), ())

    def note(self, scope: Scope, operation: AccessOperation, action: str, ids: Sequence[str], **request: Any) -> None:
        """Note that these memories were read; written soon after."""
        about = named(action)
        session, agent = request.pop("session", None), request.pop("agent", None)
        entry = AccessLog(
            organization_id=scope.organization_id,
            memory_id=ids[0] if operation == "read" and ids else None,
            session_id=session or about.get("session_id"),
            agent_id=agent or about.get("agent_id"),
            actor_id=scope.actor,
            operation=_as_seen(scope, operation),
            action=about["action"],
            request_data={**about.get("request_data", {}), **request, "memory_ids": list(ids)},
            ip_address=scope.address,
            salt=new_salt(),
        )
        self._add(scope, entry, tuple(ids) if scope.reading == "use" else ())

    def _add(self, scope: Scope, entry: AccessLog, ids: tuple[str, ...]) -> None:
        if self._readonly or (
            scope.reading == "poll" and entry.success
        ):  # a page that stays open would fill the log with itself
            return
        with self._lock:
            self._notes.append((scope, entry, ids))
            count = len(self._notes)
            if count % FLUSH_NOTES == 0:
                self._flush_in(0.0)
            elif self._timer is None:
                self._flush_in(self._flush_seconds)
            is_left_alone = self._timer is None and count % FLUSH_NOTES == 0
        if is_left_alone or count % MOST_WAITING == 0:
            self.flush_quietly()

    def _flush_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(seconds, self.flush_quietly)
        self._timer.daemon = True
        try:
            self._timer.start()
        except RuntimeError:  # no more threads are to be had, or the program is ending: who notes writes
            self._timer = None

    def flush(self) -> None:
        """Write the notes of one tenant after the other, some at a time."""
        with self._writing:
            with self._lock:
                notes, self._notes = self._notes, []
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
            by_tenant: dict[str, list[Note]] = {}
            for note in notes:
                by_tenant.setdefault(note[0].organization_id, []).append(note)
            try:
                for organization_id, waiting in by_tenant.items():
                    while waiting:
                        self._write(Scope(organization_id), waiting[:WRITTEN_AT_ONCE])
                        del waiting[:WRITTEN_AT_ONCE]
            finally:  # whatever went wrong, Ctrl-C too
                unwritten = [note for notes in by_tenant.values() for note in notes]
                with self._lock:
                    self._notes = [*unwritten, *self._notes][-MOST_KEPT:] if unwritten else self._notes

    def _write(self, scope: Scope, notes: list[Note]) -> None:
        try:
            try:
                self._store.transact(scope, _steps(notes))
            except DuplicateKey:  # some were already written: only the answer was lost
                ids = tuple(entry.id for _, entry, _ in notes)
                known = {id for (id,) in self._store.select(scope, Query(AccessLog, (OneOf("id", ids),)), ("id",))}
                self._store.transact(scope, _steps([note for note in notes if note[1].id not in known]))
        except (Conflict, InvalidInput) as error:
            # The tenant was deleted meanwhile, for example: its notes must not keep those of others from being written.
            log.warning("%d notes that cannot be written were dropped: %s", len(notes), error.code)

    def close(self) -> None:
        self.flush_quietly()

    def flush_quietly(self) -> None:
        """Statistics must not break reads: errors are logged, and the next flush tries again."""
        try:
            self.flush()
        except RecollectError as error:
            log.warning("could not write the access journal: %s", error.code)


def _steps(notes: list[Note]) -> list[Step]:
    counts: Counter[str] = Counter(id for _, _, ids in notes for id in ids)
    accessed = {"last_accessed": now()}
    touches: list[Step] = [Touch(Memory, id, {"access_count": count}, accessed) for id, count in counts.items()]
    return [*(Insert(entry) for _, entry, _ in notes), *touches]
