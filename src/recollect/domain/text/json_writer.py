"""JSON as text, written by Python's own encoder without the setting up that `json.dumps` does for each value.

Records hold many small objects: a memory and what is written beside it are seven, and to prepare an encoder took twice
as long as to write one. What is written is the same to the byte; where Python has no compiled encoder, its plain one
writes. Proof: tests/domain/text/test_json_writer.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from json import encoder as _encoder


def json_writer(*, sort_keys: bool = False) -> Callable[[object], str]:
    """A function that writes a value without spaces, letters as they are. It does not look for circles: it ends in a
    RecursionError where there is one.
    """
    plain = json.JSONEncoder(sort_keys=sort_keys, ensure_ascii=False, check_circular=False, separators=(",", ":"))
    make = getattr(_encoder, "c_make_encoder", None)
    if make is None:
        return plain.encode
    write = make(None, plain.default, _encoder.encode_basestring, None, ":", ",", sort_keys, False, True)
    join = "".join

    def written(value: object) -> str:
        return join(write(value, 0))

    return written
