"""Small makers of records for the rules, and one record of every declared type."""

from __future__ import annotations

import types
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import recollect.domain  # registers the records
from recollect.domain.agents import Agent
from recollect.domain.conversations import Session
from recollect.domain.memory import Embedding, Memory, Tag
from recollect.domain.record import RECORDS, Record
from recollect.domain.tenancy import Organization, User
from recollect.ports.query import Query, TextQuery
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Insert

R = TypeVar("R", bound=Record)
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def found(store: RecordStore, name: str) -> Scope:
    """A new tenant."""
    scope = Scope(name, actor="tester")
    store.transact(scope, [Insert(Organization(organization_id=name, id=name, name=name))])
    return scope


def user(scope: Scope, id: str = "ann", **fields: Any) -> User:
    return User(organization_id=scope.organization_id, id=id, **{"name": "Ann", **fields})


def agent(scope: Scope, id: str = "bot", **fields: Any) -> Agent:
    return Agent(organization_id=scope.organization_id, id=id, **{"name": "Bot", **fields})


def session(scope: Scope, id: str = "talk", **fields: Any) -> Session:
    return Session(organization_id=scope.organization_id, id=id, **fields)


def memory(scope: Scope, id: str = "fact", text: str = "the sky", **fields: Any) -> Memory:
    made = {"content": {"text": text}, "content_hash": f"m1:{id}", "identity": f"i1:{id}", "occurred_at": NOON}
    return Memory(organization_id=scope.organization_id, id=id, text=text, **{**made, **fields})


def embedding(scope: Scope, memory_id: str, vector: bytes, **fields: Any) -> Embedding:
    made = {"id": "vector", "memory_id": memory_id, "model": "m", "dimensions": 1, "text_hash": "h", "vector": vector}
    return Embedding(organization_id=scope.organization_id, **{**made, **fields})


def tag(scope: Scope, memory_id: str, name: str, **fields: Any) -> Tag:
    return Tag(organization_id=scope.organization_id, memory_id=memory_id, tag=name, **fields)


def stored(store: RecordStore, scope: Scope, *records: R) -> R:
    """Insert all of them; gives the first."""
    store.transact(scope, [Insert(record) for record in records])
    return records[0]


def ids(store: RecordStore, scope: Scope, query: Query[Record]) -> list[str]:
    return [record.id for record in store.find(scope, query).records]


def search(store: RecordStore, scope: Scope, *terms: str, record: type[Record] = Memory, **options: Any) -> list[str]:
    query = TextQuery(record, terms, **{"limit": 100, **options})
    return [hit.id for hit in store.search_text(scope, query)]


def every_type() -> list[type[Record]]:
    """The types of the one model, each after those it refers to."""
    waiting = [record for record in RECORDS.values() if record.__module__.startswith(recollect.domain.__name__)]
    done: list[type[Record]] = []
    while waiting:
        tables = {record.shape.table for record in done}
        ready = [record for record in waiting if {one.to for one in record.shape.references.values()} <= tables]
        assert ready, f"references go in a circle: {waiting}"
        done += ready
        waiting = [record for record in waiting if record not in ready]
    return done


def one_of_each(scope: Scope) -> list[Record]:
    """One record of every type, each referring to the others in every way it can; ids are `a-table`."""
    return list(_one_of_each(scope))


def _one_of_each(scope: Scope) -> Iterator[Record]:
    for record in every_type():
        fields: dict[str, Any] = {"organization_id": scope.organization_id, "id": f"a-{record.shape.table}"}
        if record is Organization:
            fields["id"] = scope.organization_id
        for name, info in record.model_fields.items():
            if info.is_required() and name not in fields:
                fields[name] = _filler(info.annotation)
        for name, reference in record.shape.references.items():
            fields[name] = scope.organization_id if reference.to == "organization" else f"a-{reference.to}"
        yield record(**fields)


def _filler(annotation: Any) -> Any:
    """A value for a required field of this type."""
    while get_origin(annotation) in (Annotated, Union, types.UnionType):
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is Literal:
        return get_args(annotation)[0]
    fillers: dict[Any, Any] = {str: "something", int: 1, float: 0.5, bool: True, datetime: NOON, bytes: b"\x00\x3c"}
    return fillers.get(annotation, [] if get_origin(annotation) is list else {})
