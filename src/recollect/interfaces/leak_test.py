"""A leak test for a store of one's own: every operation is tried with the ids of others, on a copy.

Two strangers ask: an organization that has nothing, and a user who has nothing, with a key that is restricted to them.
Each operation gets the ids of others in every field that takes one, and once an id that nobody has.
It leaks if the two answers differ in kind, if an answer names anything of others, or if something of theirs changed.

Ids are unique within an organization: a stranger may take an id that others have, as a name for something of their own.
From then on that id proves nothing, so another one is tried; what makes new things is tried last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from recollect.catalogue import Operation, invoke
from recollect.domain.access import PERMISSIONS, RESTRICTED, Restriction
from recollect.domain.record import RECORDS, new_id
from recollect.domain.tenancy import Organization, User
from recollect.errors import RecollectError
from recollect.interfaces.probing import id_fields, operations, sample
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Insert
from recollect.services.tenant import Core

STRANGER = "leak-test"
WHOLE_STORE = "operate"
"""What this permission is for concerns all organizations of a store, and their ids may be named."""
SHORTEST_ID = 12
"""Shorter ids are words: they may be in an answer by chance."""
_WORDS = re.compile(r"[\w.:@-]{12,}")


@dataclass(slots=True)
class Tried:
    """What came of one operation: how often it was tried, and each leak in words."""

    operation: str
    caller: str
    tries: int = 0
    leaks: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Caller:
    """A stranger, and the ids that are none of theirs, by table."""

    name: str
    scope: Scope
    others: Scope
    """Whose the ids are."""
    ids: Mapping[str, list[str]]
    marks: set[str]
    """Ids of others that can be recognised in an answer."""
    taken: set[str] = field(default_factory=set)
    """Those that the stranger now has, too."""
    asked: set[str] = field(default_factory=set)
    """Those that the stranger asked for: the log of their own requests names them."""

    def may(self, operation: Operation) -> bool:
        return self.scope.granted is not None and operation.permission in self.scope.granted


def leak_test(
    core: Core, per_table: int = 1, progress: Callable[[int, int], None] = lambda done, total: None
) -> Iterator[Tried]:
    """Try every operation on this store, which is a copy: it is changed. How many ids of each type, by `per_table`."""
    callers = [*_organizations(core), *_users(core)]
    others = [one for one in operations() if one.name not in _OWN_LOG]
    first = [one for name in _OWN_LOG for one in operations() if one.name == name]
    in_order = [*first, *sorted(others, key=lambda one: _ORDER.index(one.access))]
    total, done = len(callers) * len(in_order), 0
    for caller in callers:
        seq = _last_seq(core, caller)
        for operation in in_order:
            tried = Tried(operation.name, caller.name)
            if caller.may(operation):
                _try(core, caller, operation, per_table, tried)
                seq, changed = _changed(core, caller, seq)
                tried.leaks += [f"it changed a {table} of others" for table in changed]
            done += 1
            progress(done, total)
            if tried.tries:
                yield tried


_ORDER = ("read", "update", "delete", "create")
_OWN_LOG = ("privacy.find", "log")
"""They show what the stranger asked for, by id: tried before anything else is asked."""


def _organizations(core: Core) -> Iterator[_Caller]:
    """A stranger among organizations, once for each of the others."""
    organizations = core.store.tenants()
    scope = Scope(STRANGER, STRANGER, frozenset(PERMISSIONS) - {WHOLE_STORE})
    core.store.transact(scope, [Insert(Organization(organization_id=STRANGER, id=STRANGER, name=STRANGER))])
    for organization in organizations:
        others = Scope(organization)
        yield _caller(f"another organization than '{organization}'", scope, others, _ids(core, others))


def _users(core: Core) -> Iterator[_Caller]:
    """A stranger in each organization, restricted to themself."""
    for organization in core.store.tenants():
        if organization == STRANGER:
            continue
        name = f"{STRANGER}-{new_id()}"
        core.store.transact(
            Scope(organization), [Insert(User(organization_id=organization, id=name, name="leak test"))]
        )
        scope = Scope(organization, name, RESTRICTED, restriction=Restriction(user=name))
        ids = _ids_of_users(core, Scope(organization))
        yield _caller(f"another user of '{organization}'", scope, Scope(organization), ids)


def _ids(core: Core, scope: Scope) -> dict[str, list[str]]:
    rows = {table: core.store.select(scope, Query(one, deleted="yes"), ("id",)) for table, one in RECORDS.items()}
    return {table: [id for (id,) in found] for table, found in rows.items()}


def _ids_of_users(core: Core, scope: Scope) -> dict[str, list[str]]:
    """What names a user, and what refers to that: told by the references alone, whatever the rules of access say."""
    named: dict[str, set[str]] = {}
    links: list[tuple[str, str, str, str]] = []
    for table, record in RECORDS.items():
        fields = [name for name, one in record.shape.references.items() if one.to not in _PARTIES]
        own = ["user_id"] if "user_id" in record.model_fields else []
        for id, *values in core.store.select(scope, Query(record, deleted="yes"), ("id", *own, *fields)):
            if own and values[0] is not None:
                named.setdefault(table, set()).add(id)
            refers = zip(fields, values[len(own) :], strict=True)
            links += [(table, id, record.shape.references[name].to, value) for name, value in refers if value]
    while True:
        found = [(table, id) for table, id, to, value in links if value in named.get(to, ())]
        fresh = [(table, id) for table, id in found if id not in named.get(table, ())]
        if not fresh:
            return {table: sorted(ids) for table, ids in named.items()}
        for table, id in fresh:
            named.setdefault(table, set()).add(id)


_PARTIES = frozenset({"organization", "user", "agent", "project"})


def _caller(name: str, scope: Scope, others: Scope, ids: Mapping[str, list[str]]) -> _Caller:
    return _Caller(name, scope, others, ids, {id for table in ids.values() for id in table if len(id) >= SHORTEST_ID})


def _try(core: Core, caller: _Caller, operation: Operation, per_table: int, tried: Tried) -> None:
    _, answer = _asked(core, caller, operation, "", False, "")
    tried.tries += 1
    tried.leaks += [f"names '{one}'" for one in _named(caller, answer, operation, "")]
    for place, several in id_fields(operation):
        if place == "id" and operation.access == "create":
            continue  # an id of one's own: whether it is taken is told
        if_absent, _ = _asked(core, caller, operation, place, several, new_id())
        for table in sorted(_likely(operation, place) & caller.ids.keys()):
            free = (id for id in caller.ids[table] if id not in caller.taken)
            for id in islice(free, per_table):
                said, answer = _asked(core, caller, operation, place, several, id)
                tried.tries += 1
                if said != if_absent:
                    tried.leaks.append(f"{place} with the id of a {table}: {said}, and {if_absent} if absent")
                named = _named(caller, answer, operation, id)
                tried.leaks += [f"{place} with the id of a {table}: names '{one}'" for one in named]
                if operation.access != "read" and said == "done":
                    caller.taken.add(id)


def _named(caller: _Caller, answer: str, operation: Operation, given: str) -> list[str]:
    """An id of others that an answer names, and that was not in the question."""
    said = caller.asked if operation.name in _OWN_LOG else {given}
    return sorted((caller.marks & set(_WORDS.findall(answer))) - caller.taken - said)[:1]


def _asked(core: Core, caller: _Caller, operation: Operation, place: str, several: bool, id: str) -> tuple[str, str]:
    """How it ended, and all that was said."""
    given = {place: [id] if several else id} if place else {}
    caller.asked.add(id)
    try:
        reply = invoke(operation, core, caller.scope, sample(operation, **given))
    except RecollectError as error:
        return error.code, json.dumps(error.as_dict())
    return "done", reply.model_dump_json()


def _likely(operation: Operation, place: str) -> set[str]:
    """The tables that an id in this field is most likely looked for in, and some that are in most stores."""
    words = {_OTHERWISE.get(word, word) for word in (operation.group, place.rstrip("s"))}
    return {*_ALWAYS} | {table for table in RECORDS for word in words if word and word in table}


_ALWAYS = frozenset({"memory", "user", "session"})
_OTHERWISE = {"run": "execution", "parent": "execution", "since": "snapshot", "key": "api_key"}


def _last_seq(core: Core, caller: _Caller) -> int:
    seq = 0
    while changes := core.store.changes(caller.others, seq):
        seq = changes[-1].seq
    return seq


def _changed(core: Core, caller: _Caller, seq: int) -> tuple[int, list[str]]:
    """The last change of all, and the tables of the others' records among what changed after `seq`."""
    found: set[str] = set()
    while changes := core.store.changes(caller.others, seq):
        seq = changes[-1].seq
        found |= {one.table for one in changes if one.id in caller.ids.get(one.table, ())}
    return seq, sorted(found)
