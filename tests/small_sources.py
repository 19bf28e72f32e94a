"""Sources made by hand: a table of sales and one of customers, with vectors, as adding a file makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recollect.domain.sources import Field, Source, Table, sample_text
from recollect.ports.steps import Insert
from recollect.services.memories.data_vectors import embedding_steps

Columns = Mapping[str, Sequence[object]]
"""Names of columns, with some values of each."""
SALES: Mapping[str, Columns] = {
    "sales": {"orderDate": ["2025-01-03"], "region": ["North", "South"], "amount_eur": [12.5, 9.0]},
    "customers": {"name": ["Ann Lee", "Bo Chen"], "city": ["Berlin", "München", "北京"]},
}


def tenant_of(mem: Any) -> Any:
    return mem._core.for_scope(mem._scope)


def records_of(
    mem: Any, name: str, tables: Mapping[str, Columns] = SALES, **fields: Any
) -> list[Source | Table | Field]:
    """A source with ids made of its name: `sales/sales`, `sales/sales/region`."""
    told = {"organization_id": mem._scope.organization_id}
    made: list[Source | Table | Field] = [
        Source(**told, id=name, name=name, path=f"{name}.csv", content_hash=f"hash of {name}", **fields)
    ]
    for table, columns in tables.items():
        made.append(Table(**told, id=f"{name}/{table}", source_id=name, name=table))
        made += [
            Field(
                **told,
                id=f"{name}/{table}/{column}",
                table_id=f"{name}/{table}",
                name=column,
                type="VARCHAR",
                position=place,
                sample_values=list(values),
                sample_text=sample_text(column, values),
                statistics={"distinct": len(values)},
            )
            for place, (column, values) in enumerate(columns.items())
        ]
    return made


def add_source(mem: Any, name: str, tables: Mapping[str, Columns] = SALES, **fields: Any) -> list[Any]:
    made = records_of(mem, name, tables, **fields)
    tenant = tenant_of(mem)
    tenant.transact([*(Insert(one) for one in made), *embedding_steps(tenant, made)])
    return made
