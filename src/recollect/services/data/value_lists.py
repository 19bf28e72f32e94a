"""The values of text columns: listed when a table is read whole, stored as one object per table, searched by words.

An object holds the most frequent values of each text column with their counts, as compressed JSON. The index over them
is made when a table is searched for the first time, and kept in the process for the next searches.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recollect.domain.sources import Table
from recollect.domain.text.secrets import find
from recollect.errors import DamagedData
from recollect.ports.data import DEFAULT_LIMITS, Limits, ValueCount
from recollect.services.data.asking.language.values import ValueIndex
from recollect.services.data.asking.plans.schema import Field as AskedField
from recollect.services.data.asking.plans.schema import Schema
from recollect.services.data.asking.plans.schema import Table as AskedTable
from recollect.services.data.contents import Kept, keep
from recollect.services.secrets import masked_value
from recollect.services.tenant import Tenant

MOST_OF_A_COLUMN = 1000
MOST_OF_A_TABLE = 200_000
LEAST_OF_A_COLUMN = 20
MOST_KEPT = 100_000
"""Values of all indexes that a process keeps; each takes about a kilobyte."""
_LARGEST = 256 << 20  # of an object when unpacked: no list is as large
_FORMAT = "recollect-values-1"
Values = Mapping[str, Sequence[ValueCount]]
"""By the names of the columns; the most frequent first."""


@dataclass(frozen=True, slots=True)
class TableValues:
    """The values of a table, ready to be searched: fields are numbered in the order of `columns`."""

    columns: tuple[str, ...]
    index: ValueIndex
    count: int


def build(tenant: Tenant, rows: Path, *, source_id: str, columns: int, limits: Limits = DEFAULT_LIMITS) -> Kept | None:
    """List the values of a table and store the list; of very wide tables fewer of each column. None without text."""
    most = max(LEAST_OF_A_COLUMN, min(MOST_OF_A_COLUMN, MOST_OF_A_TABLE // max(columns, 1)))
    values = tenant.data_engine().values(rows, most=most, limits=limits)
    if not any(values.values()):
        return None
    listed = {name: [[one.value, one.count] for one in counts] for name, counts in values.items()}
    content = _content(listed)
    if find(content):  # looked at as one text, since there may be many values
        content = _content(masked_value(tenant, listed))
    packed = zlib.compress(content.encode("utf-8", "replace"))
    return keep(tenant, [packed], source_id=source_id, purpose="values", media_type="application/zlib")


def _content(listed: Mapping[str, list[list[object]]]) -> str:
    return json.dumps({"format": _FORMAT, "columns": listed}, ensure_ascii=False, separators=(",", ":"))


def load(tenant: Tenant, table: Table) -> Values | None:
    """The values of a table; None where they were not listed. Raises NotFound or DamagedData."""
    if table.values_digest is None:
        return None
    packed = b"".join(tenant.objects.read(tenant.content_place, table.values_digest))
    try:
        content = json.loads(zlib.decompressobj().decompress(packed, _LARGEST))
        return {name: [ValueCount(*one) for one in counts] for name, counts in content["columns"].items()}
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError):
        raise DamagedData(
            f"the list of values of the table '{table.name}' is damaged", remedy="add the file again"
        ) from None


def index_of(tenant: Tenant, table: Table) -> TableValues | None:
    """The values of a table, ready to be searched; None where they were not listed."""
    key = (tenant.scope.organization_id, table.values_digest or "")
    kept = tenant.value_indexes.pop(key, None)  # and put back, so that the first is the one unused for longest
    made = kept if isinstance(kept, TableValues) else _indexed(tenant, table)
    if made is not None:
        tenant.value_indexes[key] = made
        _drop_oldest(tenant)
    return made


def _indexed(tenant: Tenant, table: Table) -> TableValues | None:
    values = load(tenant, table)
    if values is None:
        return None
    texts = {name: [str(one.value) for one in counts if one.value is not None] for name, counts in values.items()}
    fields = tuple(AskedField(table.name, name, distinct=len(listed)) for name, listed in texts.items())
    index = ValueIndex(Schema((AskedTable(table.name, fields),)), dict(enumerate(texts.values())))
    return TableValues(tuple(texts), index, sum(map(len, texts.values())))


def _drop_oldest(tenant: Tenant) -> None:
    """Threads share what is kept, so each looks at a copy."""
    sizes = [(key, one.count) for key, one in list(tenant.value_indexes.items()) if isinstance(one, TableValues)]
    total = sum(count for _, count in sizes)
    for key, count in sizes[:-1]:
        if total <= MOST_KEPT:
            return
        tenant.value_indexes.pop(key, None)
        total -= count
