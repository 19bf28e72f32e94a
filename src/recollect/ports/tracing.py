"""The port for traces: what is done is told as spans, each within the one that is under way."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from recollect.ports.records import RecordStore


class Span(Protocol):
    def note(self, name: str, value: str | int | float | bool) -> None:
        """Add an attribute: never stored text, nor the id of a person."""


class Tracing(Protocol):
    def operation(self, name: str) -> AbstractContextManager[object]:
        """The span of an operation of the catalogue. An error gives it a code, and no message."""

    def request(self, name: str, method: str, headers: Mapping[str, str]) -> AbstractContextManager[Span]:
        """The span of a request to the service, within the trace that its headers name, if any."""

    def watch(self, store: RecordStore) -> None:
        """Have each call of this store told as a span."""

    def close(self) -> None:
        """Send what is left."""


class _NoSpan:
    def note(self, name: str, value: str | int | float | bool) -> None:
        """Nobody asked."""


_NO_SPAN = _NoSpan()


class NoTracing:
    """Traces nothing, and costs next to nothing."""

    def operation(self, name: str) -> AbstractContextManager[object]:
        return nullcontext()

    def request(self, name: str, method: str, headers: Mapping[str, str]) -> AbstractContextManager[Span]:
        return nullcontext(_NO_SPAN)

    def watch(self, store: RecordStore) -> None:
        """Nobody asked."""

    def close(self) -> None:
        """Nothing is held."""
