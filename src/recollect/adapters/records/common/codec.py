"""Records to rows and back, the same for every SQL store; also where encryption happens.

Fields named in a record's `encrypted` pass through the cipher on the way in and out: text, JSON and bytes, each stored
in a column of its own type, so that sealed JSON is a JSON string. `encrypted_texts` and `encrypted_hashes` do, too,
and are sealed where the texts of the organization are. Reading trusts what writing validated: building
records without validating them again is 6 times faster, and pages are checksummed by the store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar

from recollect.adapters.records.common.dialect import Convert, Encoding, Values, same
from recollect.adapters.records.common.field_cipher import FieldCipher, Place
from recollect.domain.record import Column, ColumnType, Record
from recollect.errors import DamagedData, WrongKey
from recollect.ports.query import Row

R = TypeVar("R", bound=Record)
_SEE = "run `recollect verify` to see what is affected, then restore a backup"


@dataclass(frozen=True, slots=True)
class UnopenedValue:
    """A sealed value, and why it could not be opened."""

    sealed: object
    problem: WrongKey


def _once(known: dict[int, Any], encode: Convert, value: Any) -> Any:
    """Encoded once for each object; the records hold them all, so none is at the place of another."""
    found = known.get(id(value))
    if found is None:
        found = known[id(value)] = encode(value)
    return found


Open = Callable[[Place, ColumnType, Any], object]
Seal = Callable[[Place, ColumnType, Any], object]


class Codec:
    """Turns records of one type into rows and back."""

    def __init__(
        self,
        record: type[Record],
        cipher: FieldCipher,
        dialect: Encoding,
        derived: Sequence[tuple[str, Convert]] = (),
    ) -> None:
        self.record_type = record
        self._table = record.shape.table
        self._cipher = cipher
        self._dialect = dialect
        self.columns: tuple[Column, ...] = record.columns()
        self.names = tuple(column.name for column in self.columns)
        self.written = (*self.names, *(name for name, _ in derived))
        self._derived = [make for _, make in derived]
        self.types: dict[str, ColumnType] = {column.name: column.type for column in self.columns}
        texts, self._hashes = record.shape.encrypted_texts, record.shape.encrypted_hashes
        if not cipher.texts:
            texts = self._hashes = frozenset()
        self._seals: dict[str, Seal] = {
            **dict.fromkeys(record.shape.encrypted, cipher.seal),
            **dict.fromkeys(texts, cipher.seal_text),
            **dict.fromkeys(self._hashes, cipher.seal_hash),
        }
        self._opens: dict[str, Open] = {
            **dict.fromkeys(record.shape.encrypted, cipher.open),
            **dict.fromkeys(texts | self._hashes, cipher.open_text),
        }
        self._held = itemgetter(*self.names)
        # Where something is to be done: most columns hold what the record holds.
        self._encoded = [
            (place, column, dialect.encode[column.type])
            for place, column in enumerate(self.columns)
            if dialect.encode[column.type] is not same or column.name in self._seals
        ]
        self._decoders = [(c.name, dialect.decode[c.type], self._opens.get(c.name)) for c in self.columns]

    def row(self, record: Record) -> list[object]:
        values = record.__dict__
        row = list(self._held(values))
        before = last = encoded = None
        for place, column, encode in self._encoded:
            value = row[place]
            if value is None:
                continue
            if column.name in self._seals:
                value = self._sealed(values["organization_id"], values["id"], column.name, value)
            if value is not before or encode is not last:  # a moment is mostly that of the next column, too
                before, last, encoded = value, encode, encode(value)
            row[place] = encoded
        row.extend(make(record) for make in self._derived)
        return row

    def rows(self, records: Sequence[Record], *before: Sequence[object]) -> Sequence[Values]:
        """The same of many, column by column; the columns `before` come first."""
        if self._derived or self._seals:
            return [(*first, *self.row(record)) for *first, record in zip(*before, records, strict=True)]
        columns: list[Sequence[Any]] = list(zip(*(self._held(record.__dict__) for record in records), strict=True))
        known: dict[int, Any] = {}  # a moment is mostly that of several columns, the very same object
        for place, column, encode in self._encoded:
            values = columns[place]
            if values.count(None) == len(values):
                continue
            if column.type == "moment":
                columns[place] = [None if value is None else _once(known, encode, value) for value in values]
            else:
                columns[place] = [None if value is None else encode(value) for value in values]
        return list(zip(*before, *columns, strict=True))

    def is_sealed(self, name: str) -> bool:
        """Whether the field may be encrypted, each record's for itself."""
        return name in self._seals

    def stored(self, organization_id: str, id: str, name: str, value: object) -> object:
        """One value of a record as it is stored."""
        if value is not None and name in self._seals:
            value = self._sealed(organization_id, id, name, value)
        return self.bound(name, value)

    def forms(self, organization_id: str, name: str, value: object) -> list[object]:
        """All that a value may be stored as at the moment, for comparing."""
        if value is None or name not in self._hashes:
            return [self.bound(name, value)]
        forms = self._cipher.hash_forms(Place(organization_id, self._table, "", name), str(value))
        return [self.bound(name, form) for form in forms]

    def _sealed(self, organization_id: str, id: str, name: str, value: object) -> object:
        if isinstance(value, UnopenedValue):
            return value.sealed
        return self._seals[name](Place(organization_id, self._table, id, name), self.types[name], value)

    def record(self, row: Values, *, or_sealed: bool = False) -> Any:
        try:
            values = self._values(row, or_sealed)
        except (ValueError, TypeError) as error:
            raise DamagedData(f"the {self._table} '{row[1]}' cannot be read", remedy=_SEE, id=row[1]) from error
        made = self.record_type.__new__(self.record_type)
        object.__setattr__(made, "__dict__", values)
        object.__setattr__(made, "__pydantic_fields_set__", set(values))
        object.__setattr__(made, "__pydantic_extra__", None)
        object.__setattr__(made, "__pydantic_private__", None)
        return made

    def record_or_sealed(self, row: Values) -> Any:
        """The same, for a store that reads whole records even where one field is wanted: what does not open with the
        key at hand stays in the record as an `UnopenedValue`, and is written back as it was.
        """
        return self.record(row, or_sealed=True)

    def _values(self, row: Values, or_sealed: bool) -> dict[str, object]:
        organization, id = row[0], row[1]
        values: dict[str, object] = {}
        for (name, decode, open), value in zip(self._decoders, row, strict=True):
            if value is not None:
                value = decode(value)
                if open is not None:
                    try:
                        value = open(Place(organization, self._table, id, name), self.types[name], value)
                    except WrongKey as problem:
                        if not or_sealed:
                            raise
                        value = UnopenedValue(value, problem)
            values[name] = value
        return values

    def fields_to_read(self, fields: Sequence[str]) -> Sequence[str]:
        """What `decoded` needs to give these: the id, too, where some are encrypted."""
        return fields if self._opens.keys().isdisjoint(fields) else (*fields, "id")

    def decoded(self, organization_id: str, rows: list[Row], fields: Sequence[str]) -> list[Row]:
        """Rows of `fields_to_read`, decoded, without what was not asked for; only columns that need it are touched."""
        decode_of = self._dialect.decode
        sealed = [(place, name, self._opens[name]) for place, name in enumerate(fields) if name in self._opens]
        types = [self.types[name] for name in fields]
        coded = [(place, decode_of[type]) for place, type in enumerate(types) if decode_of[type] is not same]
        if not rows or (not coded and not sealed):
            return rows
        # Column by column: a question reads hundreds of rows.
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        ids = columns[-1]
        try:
            for place, decode in coded:
                columns[place] = [None if value is None else decode(value) for value in columns[place]]
            for place, name, open in sealed:
                columns[place] = [
                    None if value is None else open(Place(organization_id, self._table, id, name), types[place], value)
                    for id, value in zip(ids, columns[place], strict=True)
                ]
        except (ValueError, TypeError) as error:
            raise DamagedData(f"a {self._table} cannot be read", remedy=_SEE) from error
        return list(zip(*columns[: len(fields)], strict=True))

    def bound(self, name: str, value: object) -> object:
        """One value as it is stored, for comparing and touching."""
        return None if value is None else self._dialect.encode[self.types[name]](value)
