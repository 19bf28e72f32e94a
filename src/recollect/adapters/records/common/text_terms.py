"""What the text indexes of all stores hold: the terms that `domain/text/tokenizer.py` makes of a record.

Where the texts of an organization are encrypted one by one, a keyed hash stands for each term (a blind index): the
store sees which records share a term and how many have it, but not which term it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from recollect.adapters.records.common.codec import UnopenedValue
from recollect.adapters.records.common.field_cipher import DataKey, FieldCipher
from recollect.domain.record import Record
from recollect.domain.text import tokenizer

READ_OTHERWISE = "the text index was made by another version of the words"
MOST_KEYED = 60_000  # of one record: as many as fit into the megabyte that PostgreSQL takes


def terms_of(record: Record) -> dict[str, None]:
    shape = record.shape.text
    assert shape is not None
    texts = [getattr(record, name) or "" for name in shape.fields]
    for text in texts:
        if isinstance(text, UnopenedValue):
            raise text.problem
    return tokenizer.terms_of(texts)


def indexed_terms(record: Record, cipher: FieldCipher) -> list[str]:
    """What a record is found by from now on."""
    key = cipher.term_key(record.organization_id) if record.shape.has_keyed_terms else None
    return keyed(terms_of(record), key)


def term_forms(record: type[Record], organization_id: str, term: str, cipher: FieldCipher) -> list[str]:
    """All that a term may be in the index at the moment."""
    keys = cipher.term_keys(organization_id) if record.shape.has_keyed_terms else (None,)
    return [term if key is None else key.term(term) for key in keys]


def keyed(terms: Iterable[str], key: DataKey | None) -> list[str]:
    return list(terms) if key is None else [key.term(term) for term in terms][:MOST_KEYED]
