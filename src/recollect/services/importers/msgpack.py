"""MessagePack, as much as it takes to move the values of a checkpoint without reading them.

The values are a framework's own: messages and other objects, which only it can make. So a map is taken apart into the
bytes of its members, and put together again around them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import chain


@dataclass(frozen=True, slots=True)
class Packed:
    """A value that is packed already."""

    raw: bytes


def members(raw: bytes) -> dict[str, bytes]:
    """The members of a map, each as its bytes. Raises ValueError for what is not a whole map with names."""
    count, at = _map_size(raw)
    found: dict[str, bytes] = {}
    for _ in range(count):
        key_end = _end(raw, at)
        value_end = _end(raw, key_end)
        found[_name(raw[at:key_end])] = raw[key_end:value_end]
        at = value_end
    if at != len(raw):
        raise ValueError("it is not MessagePack")
    return found


def packed(value: object) -> bytes:
    """JSON, bytes and what is packed already."""
    if isinstance(value, Packed):
        return value.raw
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return struct.pack(">Bq", 0xD3, value)
    if isinstance(value, float):
        return struct.pack(">Bd", 0xCB, value)
    if isinstance(value, str):
        raw = value.encode("utf-8", "replace")
        return struct.pack(">BI", 0xDB, len(raw)) + raw
    if isinstance(value, bytes):
        return struct.pack(">BI", 0xC6, len(value)) + value
    if isinstance(value, dict):
        return struct.pack(">BI", 0xDF, len(value)) + b"".join(map(packed, chain.from_iterable(value.items())))
    if isinstance(value, list | tuple):
        return struct.pack(">BI", 0xDD, len(value)) + b"".join(map(packed, value))
    raise ValueError(f"a {type(value).__name__} cannot be packed")


_SIZES = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8} | {
    code: (1 << place) + 1 for place, code in enumerate(range(0xD4, 0xD9))
}
"""Numbers, and extensions of a fixed size, by their first byte."""
_COUNTED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""Bytes and texts: how long the number is that says how long they are."""
_EXTENSIONS = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_ARRAYS = {0xDC: 2, 0xDD: 4}
_MAPS = {0xDE: 2, 0xDF: 4}


def _end(raw: bytes, at: int) -> int:
    """Where the value that begins here ends."""
    left = 1
    while left:
        if at >= len(raw):
            raise ValueError("it was cut short")
        code = raw[at]
        at += 1
        left -= 1
        if code in _SIZES:
            at += _SIZES[code]
        elif 0xA0 <= code <= 0xBF:
            at += code & 0x1F
        elif code in _COUNTED:
            at += _COUNTED[code] + _number(raw, at, _COUNTED[code])
        elif code in _EXTENSIONS:
            at += _EXTENSIONS[code] + 1 + _number(raw, at, _EXTENSIONS[code])
        elif 0x80 <= code <= 0x8F or code in _MAPS:
            left += 2 * (code & 0x0F if code < 0x90 else _number(raw, at, _MAPS[code]))
            at += _MAPS.get(code, 0)
        elif 0x90 <= code <= 0x9F or code in _ARRAYS:
            left += code & 0x0F if code < 0xA0 else _number(raw, at, _ARRAYS[code])
            at += _ARRAYS.get(code, 0)
    if at > len(raw):
        raise ValueError("it was cut short")
    return at


def _number(raw: bytes, at: int, size: int) -> int:
    return int.from_bytes(raw[at : at + size], "big")


def _map_size(raw: bytes) -> tuple[int, int]:
    """How many members a map has, and where they begin."""
    code = raw[0] if raw else 0
    if 0x80 <= code <= 0x8F:
        return code & 0x0F, 1
    if code in _MAPS:
        return _number(raw, 1, _MAPS[code]), 1 + _MAPS[code]
    raise ValueError("it is not a map")


def _name(raw: bytes) -> str:
    code = raw[0]
    start = 1 if 0xA0 <= code <= 0xBF else 1 + _COUNTED.get(code, len(raw))
    return raw[start:].decode("utf-8", "replace")
