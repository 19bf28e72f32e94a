"""How the engine and its children talk: one JSON object after another, each after its length in four bytes.

JSON and nothing else: a child that was taken over can send wrong data, but no code.
"""

from __future__ import annotations

import json
import struct
from typing import IO

from recollect import errors
from recollect.errors import RecollectError

Message = dict[str, object]

LONGEST = 512 << 20
_LENGTH = struct.Struct("<I")
_ERRORS = {
    found.code: found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, RecollectError)
}


def write_message(file: IO[bytes], message: Message) -> None:
    data = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    file.write(_LENGTH.pack(len(data)) + data)
    file.flush()


def read_message(file: IO[bytes]) -> Message | None:
    """The next message, or None when the other side has ended."""
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > LONGEST:
        return None
    data = file.read(length)
    return json.loads(data.decode("utf-8", "surrogatepass")) if len(data) == length else None


def error_message(error: RecollectError) -> Message:
    return {"error": error.as_dict()}


def received_error(sent: object) -> RecollectError:
    """The error that a child has sent, as what it is."""
    assert isinstance(sent, dict)
    error = _ERRORS.get(sent["code"], errors.StoreError)(str(sent["message"]), remedy=str(sent["remedy"]))
    error.details.update(sent["details"])
    return error
