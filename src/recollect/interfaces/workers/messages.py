"""What a worker and who watches over it tell each other: lines of JSON over a pair of sockets, one pair per worker.

A worker is told its settings there, keys included: the list of processes and their environment show none of them.
When the pair breaks, the other end is gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from socket import socket
from typing import Any, Literal, TypedDict

from recollect import errors
from recollect.errors import RecollectError, Unavailable

Order = Literal["stop", "now"]
"""Stop in order; do not wait for those who balance load any longer."""


class Start(TypedDict):
    """What a worker needs to know: its settings, the inherited files by their numbers, and which one it is."""

    settings: dict[str, Any]
    listener: int
    board: int
    places: int
    place: int
    metrics: str
    holder: str
    is_first: bool


class News(TypedDict, total=False):
    """What a worker says: that it serves, or why it cannot."""

    is_ready: bool
    error: dict[str, Any]


def send(to: socket, message: Start | News | Order) -> None:
    to.sendall(json.dumps(message).encode() + b"\n")


def lines(received: socket) -> Iterator[Any]:
    """Every message until the other end is gone."""
    with received.makefile("rb") as file:
        for line in file:
            yield json.loads(line)


def error_of(told: dict[str, Any]) -> RecollectError:
    """The error that a worker had."""
    kinds = dict(_kinds(errors.RecollectError))
    kind = kinds.get(told["code"], Unavailable)
    return kind(told["message"], remedy=told["remedy"], **told["details"])


def _kinds(error: type[RecollectError]) -> Iterator[tuple[str, type[RecollectError]]]:
    yield error.code, error
    for inner in error.__subclasses__():
        yield from _kinds(inner)
