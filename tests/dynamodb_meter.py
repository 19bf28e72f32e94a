"""Counts what a store asks of DynamoDB: requests, and the capacity units that the server says it took for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from recollect.adapters.records.dynamodb.store import DynamoStore

_WRITES = frozenset({"TransactWriteItems", "BatchWriteItem", "PutItem", "UpdateItem", "DeleteItem"})


@dataclass
class Cost:
    """What some work took. Units are those of on-demand billing; a write in a transaction counts twice."""

    requests: int = 0
    read_units: float = 0
    write_units: float = 0
    by_operation: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    """Write units by partition key, reckoned from the sizes of what is sent: the server says only the sum."""

    got: Counter[str] = field(default_factory=Counter)
    """How many items were asked for by their keys, by partition key: a unit each, if they are small."""

    def send(self, operation: str, params: dict[str, Any]) -> None:
        if operation == "BatchGetItem":
            for asked in params["RequestItems"].values():
                self.got.update(key["p"]["S"] for key in asked["Keys"])
        if operation == "TransactWriteItems":
            for write in params["TransactItems"]:
                ((kind, given),) = write.items()
                self.written[_partition(given)] += 2 * _units(kind, given)
        if operation == "BatchWriteItem":
            for write in (one for some in params["RequestItems"].values() for one in some):
                ((kind, given),) = write.items()
                self.written[_partition(given)] += _units(kind, given)

    def take(self, operation: str, answer: dict[str, Any]) -> None:
        self.requests += 1
        self.by_operation[operation] += 1
        consumed = answer.get("ConsumedCapacity", [])
        for one in consumed if isinstance(consumed, list) else [consumed]:
            if operation in _WRITES:
                self.write_units += one["CapacityUnits"]
            else:
                self.read_units += one["CapacityUnits"]


class Meter:
    """Follows the requests of one store for as long as the store is open."""

    def __init__(self, store: DynamoStore) -> None:
        self._open: list[Cost] = []
        events = store.dynamo.client.meta.events
        events.register("provide-client-params.dynamodb", _ask_for_units)
        events.register("before-parameter-build.dynamodb", self._send)
        events.register("after-call.dynamodb", self._take)

    @contextmanager
    def cost(self) -> Iterator[Cost]:
        """What is asked within the block, by this store alone."""
        made = Cost()
        self._open.append(made)
        try:
            yield made
        finally:
            self._open.remove(made)

    def _send(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        for cost in self._open:
            cost.send(model.name, params)

    def _take(self, model: Any, parsed: dict[str, Any], **_: Any) -> None:
        for cost in self._open:
            cost.take(model.name, parsed)


def _ask_for_units(params: dict[str, Any], model: Any, **_: Any) -> dict[str, Any] | None:
    if model.input_shape is not None and "ReturnConsumedCapacity" in model.input_shape.members:
        return {**params, "ReturnConsumedCapacity": "TOTAL"}
    return None


def _partition(given: dict[str, Any]) -> str:
    return str((given.get("Item") or given["Key"])["p"]["S"])


def _units(kind: str, given: dict[str, Any]) -> int:
    """For each begun kilobyte one; of what is deleted or changed only what the request says of it is known."""
    sent = {**given.get("Item", {}), **given.get("Key", {}), **given.get("ExpressionAttributeValues", {})}
    size = sum(len(name) + _size(value) for name, value in sent.items())
    return max(1, -(-size // 1024))


def _size(typed: dict[str, Any]) -> int:
    ((kind, value),) = typed.items()
    return len(value.encode() if kind == "S" else value) if kind in "SB" else 8
