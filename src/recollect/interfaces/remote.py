"""The Python client against a service: the same surface as in process, over HTTP.

    mem = recollect.connect("http://127.0.0.1:7070", key="rk.…")
    mem.remember("Alice prefers pytest")

A problem comes back as the same error that it would be in process. Whatever the service turned away undone is tried
again after the time it names. When the connection breaks, only reads are, and writes that carry an idempotency key:
another write may have been carried out, and is not sent twice.
"""

from __future__ import annotations

import base64
from typing import Any

from recollect.catalogue import GROUPS, OPERATIONS, Operation, find_operation, refuse_writing, validated
from recollect.errors import InvalidInput
from recollect.interfaces.client import Progress, Recollect, attach
from recollect.interfaces.remote_exchange import LONGEST_WORK_SECONDS, Exchange, Patience, wired
from recollect.services.times import RequestTimeZone, in_zone

WITH_FILES = frozenset(
    {"export", "import_", "workspace.write", "workspace.read", "source.add", "query.export", "query.chart"}
)
"""Operations that may have to do with files of this machine: see `remote_files.py`."""


class RemoteRecollect(Recollect):
    """A memory behind a service."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        patience: Patience | None = None,
        timezone: str | None = None,
        readonly: bool = False,
    ) -> None:
        self.exchange = Exchange(url, key, patience or Patience())
        self._key, self._zone, self._readonly = key, timezone, readonly

    @property
    def _organization(self) -> str:
        """The organization that the key names; AttributeError for a key that names none, as `hasattr` expects."""
        try:
            tenant = self._key.split(".")[1]
            return base64.urlsafe_b64decode(tenant + "=" * (-len(tenant) % 4)).decode()
        except (IndexError, ValueError):
            raise AttributeError("the key does not say which organization it is of") from None

    @property
    def timezone(self) -> str:
        return self._zone or "UTC"

    @property
    def shown_zone(self) -> str | None:
        """What times are shown in: as the service sent them, which knows the user's zone, if none was named here."""
        return self._zone

    def within(self, organization: str | None = None, actor: str | None = None) -> Recollect:
        raise InvalidInput("a key belongs to one organization", remedy="connect with a key of the other organization")

    def restricted(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        namespace: str | None = None,
    ) -> Recollect:
        raise InvalidInput("a key says what it reaches", remedy="connect with a restricted key: see key.add")

    def call(self, operation: str, /, *, progress: Progress = None, **fields: Any) -> Any:
        """Any operation by name, on the service. It tells how much of a file was sent, and of nothing else how far it
        is: a bar only shows that it goes on.
        """
        chosen, fields = find_operation(operation, fields)
        if progress is None or not chosen.progress:
            return self._call(operation, chosen, None, fields)
        from recollect.interfaces.progress import reporting

        with reporting(progress, chosen.summary) as report:
            return self._call(operation, chosen, report, fields)

    def _call(self, operation: str, chosen: Operation, progress: Any, fields: dict[str, Any]) -> Any:
        if chosen.local and operation not in ("export", "import_"):
            raise InvalidInput(
                f"'{operation}' does not work over the service", remedy="run it on the machine of the store"
            )
        if self._readonly:
            refuse_writing(chosen, fields)
        request = validated(chosen, fields, RequestTimeZone(zone=self._zone))
        if chosen.name in WITH_FILES:
            from recollect.interfaces.remote_files import carrying

            carry = carrying(self, chosen, request, progress)
            if carry is not None:
                return carry()
        given = request.model_dump(mode="json", include=set(fields), by_alias=True)
        method, path, body = wired(chosen, given)
        safe = chosen.access == "read" or bool(fields.get("idempotency_key"))
        wait = LONGEST_WORK_SECONDS if chosen.progress else None
        return self.read(chosen, self.exchange.repeated(method, path, body, safe, wait=wait).body)

    def read(self, operation: Operation, body: bytes) -> Any:
        """The reply of an operation, as the service sent it."""
        reply = operation.reply.model_validate_json(body)
        return in_zone(reply, self._zone) if self._zone is not None else reply

    def close(self) -> None:
        self.exchange.close()

    def __enter__(self) -> RemoteRecollect:
        return self

    def __repr__(self) -> str:
        return f"<Recollect at {self.exchange.url}>"


attach(RemoteRecollect, OPERATIONS.values(), GROUPS)


def connect(
    url: str,
    key: str | None = None,
    *,
    timeout: float = Patience.read,
    connect_timeout: float = Patience.connect,
    total_timeout: float | None = None,
    retries: int = Patience.retries,
    timezone: str | None = None,
    readonly: bool = False,
) -> Recollect:
    """A memory behind a service, with the same methods as one that `recollect.open` gives.

    Without a `key`, the one that the settings name for this address: `RECOLLECT_API_KEY`, or a profile of yours.

    In seconds: `connect_timeout` bounds the wait for a connection, `timeout` that for each next piece of an answer, and
    `total_timeout` a whole call, with all that is tried again and the pauses between; it has no end by default.

    What failed for now is tried up to `retries` times more, after pauses that grow, are never quite the same and are
    at least as long as the service asks for: whatever it turned away undone or never got; after a broken connection
    only reads and writes with an `idempotency_key`. Nothing waits longer than ten seconds at once.

    Times without a zone are in `timezone`; in the user's, as the service knows it, if none is named. With `readonly`,
    whatever writes is refused here.
    """
    if key is None:
        from recollect.settings import load, service_key

        key = service_key(load(url))
    patience = Patience(connect_timeout, timeout, total_timeout, retries)
    return RemoteRecollect(url, key, patience=patience, timezone=timezone, readonly=readonly)
