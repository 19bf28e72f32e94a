"""The Python client: one method per operation of the catalogue, in process.

The methods are made from the catalogue, so an operation added there is here at once; `client.pyi` beside this file
spells them out for editors and type checkers, and a test keeps it up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, Signature
from types import MappingProxyType
from typing import Any, Self, get_type_hints

from recollect.catalogue import (
    FORMER_NAMES,
    GROUPS,
    OPERATIONS,
    SYNONYMS,
    FormerName,
    Operation,
    find_operation,
    invoke,
    meant,
    refuse_writing,
)
from recollect.errors import InvalidInput, StoreBusy
from recollect.ports.records import RecordStore, Scope
from recollect.retry import retry
from recollect.services.requests import checked_id
from recollect.services.tenant import Core, Tenant
from recollect.services.times import zone_for

READ_AGAIN = 5
Prepare = Callable[[RecordStore, Scope], None]
Progress = bool | Callable[[int, int], None] | None
"""Whether to show a bar, or what to call with how much is done and how much there is."""


class OpenMemory:
    """What every open memory does, whether it is awaited or not."""

    def __copy__(self) -> Self:
        """An open memory is one thing: who copies what holds it holds the same."""
        return self

    def __deepcopy__(self, known: object) -> Self:
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("an open memory cannot be pickled: open it again where it is needed")

    def __getattr__(self, name: str) -> Any:
        """Only asked for what is not there: say what may have been meant."""
        if isinstance(getattr(type(self), name, None), property):
            return object.__getattribute__(self, name)  # it is there, and its own AttributeError says more
        raise no_attribute(self, name, [*OPERATIONS, *GROUPS])


class Recollect(OpenMemory):
    """An open memory, seen from one organization."""

    def __init__(self, core: Core, scope: Scope, prepare: Prepare, *, owns: bool = True) -> None:
        self._core = core
        self._scope = scope
        self._prepare = prepare
        self._owns = owns

    @property
    def _tenant(self) -> Tenant:
        return self._core.for_scope(self._scope)

    @property
    def _organization(self) -> str:
        return self._scope.organization_id

    @property
    def timezone(self) -> str:
        """The zone of times without one: of the user on whose behalf it is, else the store's."""
        return zone_for(self._tenant)

    @property
    def shown_zone(self) -> str | None:
        """What times are shown in to people; None where those of a reply are in the right zone already."""
        return self.timezone

    def within(self, organization: str | None = None, actor: str | None = None) -> Recollect:
        """The same store as another organization or another actor. Close only the one you opened."""
        tenant = self._scope.organization_id if organization is None else checked_id(organization, "organization")
        scope = Scope(tenant, self._scope.actor if actor is None else checked_id(actor, "actor"))
        self._prepare(self._core.store, scope)
        return type(self)(self._core, scope, self._prepare, owns=False)

    def restricted(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        namespace: str | None = None,
    ) -> Recollect:
        """The same store for one user, agent, project or namespace: it reaches only what is theirs.

        What is stored without an owner can be read, and what is stored from here belongs to them. Close only the one
        you opened.
        """
        given = {"user": user, "agent": agent, "project": project, "namespace": namespace}
        named = {name: checked_id(id, name) for name, id in given.items() if id is not None}
        if not named:
            raise InvalidInput("nothing to restrict it to", remedy="give user, agent, project or namespace")
        from recollect.services.access.keys import reach_of

        restriction = reach_of(self._core, self._scope.organization_id, **named)
        scope = replace(self._scope, restriction=restriction, actor=user or self._scope.actor)
        return type(self)(self._core, scope, self._prepare, owns=False)

    def call(self, operation: str, /, *, progress: Progress = None, **fields: Any) -> Any:
        """Any operation by name: what every method here does.

        With `progress`, what may take long shows a bar (True), or calls a function with how much is done and how much
        there is.
        """
        chosen, given = find_operation(operation, fields)
        if self._core.readonly:
            refuse_writing(chosen, given)
        if progress is None or not chosen.progress:
            # Who only reads has no lock on a file: what others wrote over meanwhile is read again.
            tries = READ_AGAIN if self._core.readonly else 0
            return retry(lambda: invoke(chosen, self._core, self._scope, given), StoreBusy, tries=tries)
        from recollect.interfaces.progress import reporting

        with reporting(progress, chosen.summary) as report:
            return invoke(chosen, self._core, self._scope, given, report)

    def close(self) -> None:
        """Write what is pending, and close the store."""
        if self._owns:
            from recollect.app import close

            close(self._core)

    def __enter__(self) -> Recollect:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Recollect {self._core.store.capabilities.name} organization={self._scope.organization_id!r}>"


class OperationGroup:
    """The operations of one group, on an open memory: `mem.run.show(...)`."""

    def __init__(self, mem: Recollect) -> None:
        self._mem = mem

    def call(self, operation: str, /, **fields: Any) -> Any:
        return self._mem.call(operation, **fields)

    def __getattr__(self, name: str) -> Any:
        group = type(self).__name__.lower()
        verbs = [operation.verb for operation in OPERATIONS.values() if operation.group == group]
        raise no_attribute(self, name, verbs, GROUP_HABITS.get(name, ""))

    def __deepcopy__(self, known: object) -> OperationGroup:
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        return self._mem.__reduce__()


class OrganizationGroup(OperationGroup, str):
    """The operations on organizations; as text, the id of the one that the memory is of."""

    def __new__(cls, mem: Recollect) -> OrganizationGroup:
        return str.__new__(cls, mem._organization)


GROUP_HABITS = {
    "create": "add",
    "get": "show",
    "update": "revise",
    "delete": "remove",
    "get_all": "list",
    "find": "list",
}


def no_attribute(asked: object, name: str, known: Sequence[str], by_habit: str = "") -> AttributeError:
    """The error for a name that is not there, with the one that may have been meant."""
    near = by_habit if by_habit in known else meant(name, known)
    hint = f"; did you mean {near}?" if near and not name.startswith("_") else ""
    return AttributeError(f"{type(asked).__name__} has no attribute '{name}'{hint}", name=name, obj=None)


def _method(operation: Operation) -> Callable[..., Any]:
    def method(self: Recollect | OperationGroup, /, *given: Any, **fields: Any) -> Any:
        return self.call(operation.name, **_by_name(operation, given, fields))

    method.__name__ = operation.verb
    method.__qualname__ = f"Recollect.{operation.name}"
    method.__doc__ = operation.summary
    method.__signature__ = OperationSignature(operation)  # type: ignore[attr-defined]
    return method


class OperationSignature(Signature):
    """What a method takes, for `help`, notebooks and editors; read off the request when somebody looks at it, since to
    import the requests of all operations takes half a second.
    """

    __slots__ = ("_operation",)

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    @property
    def _read(self) -> Signature:
        return signature(self._operation)

    @property
    def parameters(self) -> MappingProxyType[str, Parameter]:
        return self._read.parameters

    @property
    def return_annotation(self) -> Any:
        return self._read.return_annotation

    # Under these names the methods of Signature look for the two above.
    _parameters = parameters
    _return_annotation = return_annotation

    def replace(self, **changes: Any) -> Signature:  # type: ignore[override]
        return self._read.replace(**changes)

    def __reduce__(self) -> Any:
        return self._read.__reduce__()


def _former_method(former: FormerName) -> Callable[..., Any]:
    def method(self: Recollect | OperationGroup, /, *given: Any, **fields: Any) -> Any:
        mem = self._mem if isinstance(self, OperationGroup) else self
        return mem.call(former.name, **_by_name(former, given, fields))

    method.__name__ = former.verb
    method.__doc__ = f"Deprecated: {former.advice}."
    return method


def _by_name(operation: Operation | FormerName, given: tuple[Any, ...], fields: dict[str, Any]) -> dict[str, Any]:
    """All fields by their names, those that were given without one too."""
    if len(given) > len(operation.positional):
        others = operation.request.model_fields if isinstance(operation, Operation) else operation.positional
        raise InvalidInput(
            f"{operation.name} takes {len(operation.positional)} positional arguments, {len(given)} were given",
            remedy=f"give the others by name: {', '.join(others)}",
        )
    for name, value in zip(operation.positional, given, strict=False):
        if name in fields:
            raise InvalidInput(f"{operation.name} was given '{name}' twice", remedy="give it once")
        fields[name] = value
    return fields


def signature(operation: Operation) -> Signature:
    """What a method takes: the positional fields, then the others by name."""
    fields, plain = operation.request.model_fields, get_type_hints(operation.request)
    ordered = [*operation.positional, *(name for name in fields if name not in operation.positional)]
    parameters = [Parameter("self", Parameter.POSITIONAL_ONLY)]
    for name in ordered:
        field = fields[name]
        kind = Parameter.POSITIONAL_OR_KEYWORD if name in operation.positional else Parameter.KEYWORD_ONLY
        default = Parameter.empty if field.is_required() else field.get_default(call_default_factory=True)
        annotation = operation.request.in_python.get(name, plain[name])
        parameters.append(Parameter(name, kind, default=default, annotation=annotation))
    if operation.progress:
        parameters.append(Parameter("progress", Parameter.KEYWORD_ONLY, default=None, annotation=Progress))
    return Signature(parameters, return_annotation=operation.reply)


def attach(
    client: type,
    operations: Iterable[Operation],
    groups: Mapping[str, str],
    method: Callable[[Operation], Callable[..., Any]] = _method,
    former: Mapping[str, FormerName] = FORMER_NAMES,
) -> None:
    """Give the client a method for each operation and for each name it had, and an attribute for each group."""
    homes: dict[str, Any] = {"": client}
    for name, about in groups.items():
        base = OrganizationGroup if name == "organization" else OperationGroup
        homes[name] = type(name.capitalize(), (base,), {"__doc__": about})
        setattr(client, name, property(homes[name], doc=about))
    for operation in operations:
        if operation.name in homes:  # `mem.backup(...)`, beside `mem.backup.list()`
            homes[operation.name].__call__ = method(operation)
        else:
            setattr(homes[operation.group], operation.verb, method(operation))
    for name, known_as in SYNONYMS.items():
        setattr(client, name, getattr(client, known_as))
    for name_it_had in former.values():
        if name_it_had.group in homes:
            setattr(homes[name_it_had.group], name_it_had.verb, _former_method(name_it_had))


attach(Recollect, OPERATIONS.values(), GROUPS)
