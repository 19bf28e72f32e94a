"""What the text indexes of all stores hold: the terms that `domain/text/tokenizer.py` makes of a record."""

from __future__ import annotations

from recollect.domain.record import Record
from recollect.domain.text import tokenizer

READ_OTHERWISE = "the text index was made by another version of the words"


def terms_of(record: Record) -> dict[str, None]:
    shape = record.shape.text
    assert shape is not None
    return tokenizer.terms_of(getattr(record, name) or "" for name in shape.fields)
