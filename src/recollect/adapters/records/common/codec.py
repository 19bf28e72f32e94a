"""Records to rows and back, the same for every SQL store; also where encryption happens.

Fields named in a record's `encrypted` pass through the cipher on the way in and out. The default cipher keeps them
as they are; a real one is given to the store when it is opened. Reading trusts what writing validated: building
records without validating them again is 6 times faster, and pages are checksummed by the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from recollect.adapters.records.common.dialect import Convert, Encoding, Values, same
from recollect.domain.record import Column, ColumnType, Record
from recollect.errors import DamagedData
from recollect.ports.query import Row

R = TypeVar("R", bound=Record)
_SEE = "run `recollect verify` to see what is affected, then restore a backup"


class Cipher(Protocol):
    def seal(self, organization_id: str, text: str) -> str: ...

    def open(self, organization_id: str, text: str) -> str: ...


class NoCipher:
    """No encryption."""

    def seal(self, organization_id: str, text: str) -> str:
        return text

    def open(self, organization_id: str, text: str) -> str:
        return text


class Codec:
    """Turns records of one type into rows and back."""

    def __init__(
        self,
        record: type[Record],
        cipher: Cipher,
        dialect: Encoding,
        derived: Sequence[tuple[str, Convert]] = (),
    ) -> None:
        self._record = record
        self._cipher = cipher
        self._dialect = dialect
        self.columns: tuple[Column, ...] = record.columns()
        self.names = tuple(column.name for column in self.columns)
        self.written = (*self.names, *(name for name, _ in derived))
        self._derived = [make for _, make in derived]
        self.types: dict[str, ColumnType] = {column.name: column.type for column in self.columns}
        secret = record.shape.encrypted if not isinstance(cipher, NoCipher) else frozenset()
        self._encoders = [(c.name, dialect.encode[c.type], c.name in secret) for c in self.columns]
        self._decoders = [(c.name, dialect.decode[c.type], c.name in secret) for c in self.columns]

    def row(self, record: Record) -> list[object]:
        values = record.__dict__
        organization = values["organization_id"]
        row = []
        for name, encode, secret in self._encoders:
            value = values[name]
            if value is not None:
                value = encode(value)
                if secret:
                    value = self._cipher.seal(organization, value)
            row.append(value)
        row.extend(make(record) for make in self._derived)
        return row

    def record(self, row: Values) -> Any:
        try:
            values = self._values(row)
        except (ValueError, TypeError) as error:
            table = self._record.shape.table
            raise DamagedData(f"the {table} '{row[1]}' cannot be read", remedy=_SEE, id=row[1]) from error
        made = self._record.__new__(self._record)
        object.__setattr__(made, "__dict__", values)
        object.__setattr__(made, "__pydantic_fields_set__", set(values))
        object.__setattr__(made, "__pydantic_extra__", None)
        object.__setattr__(made, "__pydantic_private__", None)
        return made

    def _values(self, row: Values) -> dict[str, object]:
        organization = row[0]
        values: dict[str, object] = {}
        for (name, decode, secret), value in zip(self._decoders, row, strict=True):
            if value is not None:
                if secret:
                    value = self._cipher.open(organization, value)
                value = decode(value)
            values[name] = value
        return values

    def decoded(self, rows: list[Row], fields: Sequence[str]) -> list[Row]:
        """Rows of some fields, decoded; only the columns that need it are touched."""
        if not isinstance(self._cipher, NoCipher) and self._record.shape.encrypted & set(fields):
            raise NotImplementedError("encrypted fields are read with whole records")
        decode_of = self._dialect.decode
        types = [self.types[name] for name in fields]
        coded = [(place, decode_of[type]) for place, type in enumerate(types) if decode_of[type] is not same]
        if not coded:
            return rows
        made = []
        for row in rows:
            values = list(row)
            try:
                for place, decode in coded:
                    if values[place] is not None:
                        values[place] = decode(values[place])
            except (ValueError, TypeError) as error:
                raise DamagedData(f"a {self._record.shape.table} cannot be read", remedy=_SEE) from error
            made.append(tuple(values))
        return made

    def bound(self, name: str, value: object) -> object:
        """One value as it is stored, for comparing and touching."""
        return None if value is None else self._dialect.encode[self.types[name]](value)
