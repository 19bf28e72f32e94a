"""Kinds of memory: built in, declared in the settings, or declared in the store, so that every process knows them.

A kind of the store is read from it by every call that uses one: another process may have declared or removed it since.
What is built in costs no reading.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from recollect.domain.json_schema import schema_problems, unchecked_words
from recollect.domain.kinds import BUILT_IN, KINDS, MemoryKind, kind_name
from recollect.domain.memory import Memory
from recollect.domain.record import Json, JsonObject, Name, Text
from recollect.errors import Conflict, DuplicateKey, InvalidInput, RequirementFailed, VersionConflict
from recollect.ports.query import OneOf, Query, equal
from recollect.ports.steps import Absent, Delete, Insert, Require, Step, Update
from recollect.retry import retry
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, made, rewritten

MOST_KINDS = 1000
LONGEST_SCHEMA = 20_000


class KindView(Reply):
    """A kind of memory."""

    name: str
    declared: Literal["built in", "program", "store"] = Field(
        description="Where: by Recollect, by the settings or the code of this process, or in the store"
    )
    description: str = ""
    json_schema: JsonObject = Field(default_factory=dict, description="What its content must be like")
    memories: int = Field(0, description="How many memories are of this kind, forgotten ones too")


class KindList(PageReply[KindView]):
    """Kinds, by name."""

    kinds: list[KindView]


class AddKindRequest(Request):
    """A kind of your own."""

    name: Name = Field(description="Lower-case letters, digits and _")
    description: Text = Field("", max_length=2000, description="What memories of this kind are")
    json_schema: Json = Field(
        default_factory=dict, description="The JSON Schema of its content; any text or JSON object fits without one"
    )
    replace: bool = Field(False, description="Change it if it is declared already; stored memories stay as they are")


def add_kind(tenant: Tenant, request: AddKindRequest) -> KindView:
    """Declare a kind in the store. Declaring the same again changes nothing."""
    name = kind_name(request.name)
    if name in KINDS:
        raise Conflict(f"'{name}' is a kind already", remedy="choose another name")
    _refuse_bad_schema(request.json_schema)

    def attempt() -> None:
        known = tenant.get(MemoryKind, name)
        fields = {"description": request.description, "json_schema": request.json_schema}
        if known is None:
            if tenant.count(Query(MemoryKind)) >= MOST_KINDS:
                raise InvalidInput(f"there are {MOST_KINDS} kinds already", remedy="remove some that are not used")
            entry = logged(tenant, "create", "kind.add", None, kind=name)
            commit(tenant, [Insert(made(MemoryKind, tenant, id=name, **fields)), entry])
        elif any(getattr(known, field) != value for field, value in fields.items()):
            if not request.replace:
                raise Conflict(f"'{name}' is declared otherwise", remedy="give replace=True to change it", id=name)
            entry = logged(tenant, "update", "kind.add", None, kind=name)
            commit(tenant, [Update(rewritten(known, tenant, **fields)), entry])

    retry(attempt, DuplicateKey, VersionConflict)
    return _view(load(tenant, MemoryKind, name), _counts(tenant, (name,)))


def _refuse_bad_schema(schema: JsonObject) -> None:
    problem = next(schema_problems(schema), None)
    if problem is not None:
        raise InvalidInput(f"that is not a JSON Schema: {problem}", remedy="see json-schema.org")
    if len(str(schema)) > LONGEST_SCHEMA:
        raise InvalidInput(f"the schema is longer than {LONGEST_SCHEMA} characters", remedy="describe less of it")
    word = next(unchecked_words(schema), None)
    if word is not None:
        remedy = "use type, properties, required, additionalProperties, items, enum, const, anyOf and limits of size"
        raise InvalidInput(f"'{word[:50]}' in a schema of a kind is not checked", remedy=remedy)


class ListKindsRequest(Request):
    """Which kinds to list."""


def list_kinds(tenant: Tenant, request: ListKindsRequest) -> KindList:
    """Every kind that can be remembered here, by name, and how many memories are of it."""
    stored = {one.id: one for one in tenant.find(Query(MemoryKind)).records}
    counts = _counts(tenant)
    own = [
        KindView(name=name, declared=_declared(name), description=_described(name), memories=counts.get(name, 0))
        for name in KINDS
    ]
    others = [_view(one, counts) for name, one in stored.items() if name not in KINDS]
    return KindList(kinds=sorted([*own, *others], key=lambda one: one.name))


class RemoveKindRequest(Request):
    """A kind that is not used."""

    name: Name = Field(description="The kind to remove")


def remove_kind(tenant: Tenant, request: RemoveKindRequest) -> KindView:
    """Remove a kind that no memory is of, not even a forgotten one."""
    kind = load(tenant, MemoryKind, request.name)
    counts = _counts(tenant.unrestricted, (kind.id,))
    if counts:
        raise _used(kind.id, counts[kind.id])
    unused = [Absent(Memory, (equal("kind", kind.id),))]
    try:
        commit(
            tenant, [*unused, Delete(MemoryKind, kind.id), logged(tenant, "delete", "kind.remove", None, kind=kind.id)]
        )
    except RequirementFailed:
        raise _used(kind.id, 1) from None
    return _view(kind, {})


def _used(name: str, count: int) -> Conflict:
    remedy = "erase them first, or keep the kind: forgotten memories count, too"
    return Conflict(f"{count} memories are of the kind '{name}'", remedy=remedy, id=name)


def declared_kinds(tenant: Tenant, names: Iterable[str]) -> dict[str, MemoryKind]:
    """Those of these kinds that no class is for, as the store declares them or, where the settings accept any, free."""
    unknown = tuple(dict.fromkeys(name for name in names if name not in KINDS))
    if not unknown:
        return {}
    found = {one.id: one for one in tenant.find(Query(MemoryKind, (OneOf("id", unknown),))).records}
    if tenant.accepts_unknown_kinds:
        found |= {name: _free(tenant, name) for name in unknown if name not in found}
    return found


def _free(tenant: Tenant, name: str) -> MemoryKind:
    return MemoryKind(organization_id=tenant.scope.organization_id, id=kind_name(name), version=0)


def is_undeclared(kind: MemoryKind | None) -> bool:
    """Whether nobody declared it: the settings accept it nevertheless."""
    return kind is not None and kind.version == 0


def still_declared(kinds: Iterable[MemoryKind]) -> list[Step]:
    """Steps that fail a transaction if one of these kinds is removed meanwhile."""
    return [Require(MemoryKind, kind.id) for kind in kinds if not is_undeclared(kind)]


def _counts(tenant: Tenant, names: tuple[str, ...] = ()) -> dict[str, int]:
    where = (OneOf("kind", names),) if names else ()
    return {kind: count for (kind,), count in tenant.count_by(Query(Memory, where, deleted="yes"), ("kind",)).items()}


def _declared(name: str) -> Literal["built in", "program"]:
    return "built in" if name in BUILT_IN else "program"


def _described(name: str) -> str:
    return (KINDS[name].__doc__ or "").partition("\n")[0]


def _view(kind: MemoryKind, counts: dict[str, int]) -> KindView:
    return KindView(
        name=kind.id,
        declared="store",
        description=kind.description,
        json_schema=kind.json_schema,
        memories=counts.get(kind.id, 0),
    )
