"""What MySQL sends as text, as columns of Arrow.

Zero dates and days that do not exist are empty. Times of day may be longer than a day there, so they stay text; BIT
is a number; TIMESTAMP is a moment (the session is in UTC), DATETIME is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc
from pymysql.constants import FIELD_TYPE, FLAG
from pymysql.cursors import SSCursor

_BINARY_CHARSET = 63
_INTEGERS = {FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.LONG, FIELD_TYPE.INT24, FIELD_TYPE.YEAR}
_DATES = {
    FIELD_TYPE.DATE: pa.date32(),
    FIELD_TYPE.NEWDATE: pa.date32(),
    FIELD_TYPE.DATETIME: pa.timestamp("us"),
    FIELD_TYPE.TIMESTAMP: pa.timestamp("us", "UTC"),
}
_BYTES = {
    FIELD_TYPE.TINY_BLOB,
    FIELD_TYPE.MEDIUM_BLOB,
    FIELD_TYPE.LONG_BLOB,
    FIELD_TYPE.BLOB,
    FIELD_TYPE.VAR_STRING,
    FIELD_TYPE.STRING,
    FIELD_TYPE.VARCHAR,
    FIELD_TYPE.GEOMETRY,
}
_IS_DATE = r"^(?:[1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"


@dataclass
class MySqlColumn:
    name: str
    type: pa.DataType
    is_bits: bool = False
    emptied: int = 0

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.type)

    def array(self, values: list[object]) -> pa.Array:
        if self.is_bits:
            numbers = [None if one is None else int.from_bytes(_bytes(one), "big") for one in values]
            return pa.array(numbers, pa.uint64())
        if pa.types.is_binary(self.type):
            return pa.array([None if one is None else _bytes(one) for one in values], self.type)
        texts = pa.array([one if one is None or isinstance(one, str) else _text(one) for one in values], pa.string())
        if pa.types.is_temporal(self.type):
            return self._moments(texts)
        return texts if pa.types.is_string(self.type) else texts.cast(self.type)

    def _moments(self, texts: pa.Array) -> pa.Array:
        kept = pc.if_else(pc.match_substring_regex(texts, _IS_DATE), texts, pa.scalar(None, pa.string()))
        naive = self.type if pa.types.is_date(self.type) else pa.timestamp("us")
        try:
            found = kept.cast(naive)
        except pa.ArrowInvalid:  # 30 February, where a server lets it in: value by value
            found = pa.array([_moment(one, pa.types.is_date(naive)) for one in kept.to_pylist()], naive)
        self.emptied += found.null_count - texts.null_count
        return found if naive == self.type else found.cast(self.type)


def columns_of(cursor: SSCursor) -> list[MySqlColumn]:
    result = cursor._result
    return [_column(one) for one in result.fields] if result is not None else []


def _column(described: object) -> MySqlColumn:
    name, code = str(getattr(described, "name", "")), int(getattr(described, "type_code", 0))
    flags, scale = int(getattr(described, "flags", 0)), int(getattr(described, "scale", 0))
    length, charset = int(getattr(described, "length", 0)), int(getattr(described, "charsetnr", 0))
    is_unsigned = bool(flags & FLAG.UNSIGNED)
    if code in _INTEGERS:
        return MySqlColumn(name, pa.int64())
    if code == FIELD_TYPE.LONGLONG:
        return MySqlColumn(name, pa.uint64() if is_unsigned else pa.int64())
    if code in (FIELD_TYPE.NEWDECIMAL, FIELD_TYPE.DECIMAL):
        precision = length - (scale > 0) - (not is_unsigned)
        fits = 0 < precision <= 38 and 0 <= scale <= precision
        return MySqlColumn(name, pa.decimal128(precision, scale) if fits else pa.float64())
    if code in (FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE):
        return MySqlColumn(name, pa.float64())
    if code in _DATES:
        return MySqlColumn(name, _DATES[code])
    if code == FIELD_TYPE.BIT:
        return MySqlColumn(name, pa.uint64(), is_bits=True)
    is_bytes = code == FIELD_TYPE.GEOMETRY or (code in _BYTES and charset == _BINARY_CHARSET)
    return MySqlColumn(name, pa.binary() if is_bytes else pa.string())


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _moment(text: str | None, is_date: bool) -> date | datetime | None:
    try:
        return None if text is None else date.fromisoformat(text) if is_date else datetime.fromisoformat(text)
    except ValueError:
        return None
