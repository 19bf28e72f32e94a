"""Write the pages that follow from the code: `python docs/generate.py`, or `--check` to fail if one is stale.

The reference pages, the type stubs of the client and the measured figures in README.md. What is written depends on
the code and on bench/results alone: no time, no path of this machine, no order of a set.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import recollect.domain  # noqa: F401 - registers the records
from recollect import errors
from recollect.catalogue import GROUPS, OPERATIONS, SYNONYMS, Operation
from recollect.domain.kinds import KINDS, Content
from recollect.domain.memory import TRANSITIONS
from recollect.domain.provenance import AnyCitation, CitationState, cite
from recollect.domain.record import RECORDS, Record
from recollect.interfaces.cli import arguments
from recollect.interfaces.cli import commands as cli
from recollect.interfaces.client import Progress, signature
from recollect.services.requests import Reply, Request
from recollect.settings import PREFIX, Settings

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SOURCE = ROOT / "src" / "recollect"
README = ROOT / "README.md"
RESULTS = ROOT / "bench" / "results"
BEGIN, END = "<!-- measured: written by docs/generate.py from bench/results -->", "<!-- /measured -->"
WRITTEN = "<!-- Written by docs/generate.py from the code: change the code, then run `make docs`. -->"
SETTINGS_EXAMPLE = """\
store: team.db
organization: acme
timezone: Asia/Bangkok
embedder:
  provider: minilm
  threads: 4
"""
COMMON_FIELDS = tuple(Record.model_fields)


def pages() -> dict[Path, str]:
    """Every generated file and what it should say."""
    reference = HERE / "reference"
    made = {
        reference / "operations.md": operations_page(),
        reference / "cli.md": cli_page(),
        reference / "settings.md": settings_page(),
        reference / "errors.md": errors_page(),
        reference / "records.md": records_page(),
        reference / "kinds.md": kinds_page(),
        reference / "citations.md": citations_page(),
        HERE / "measured.md": measured_page(),
        HERE / "growth.md": sibling("figures").growth_page(),
        HERE / "mcp.md": sibling("figures").with_tokens((HERE / "mcp.md").read_text(encoding="utf-8")),
        HERE / "scale.md": sibling("figures").with_capacity((HERE / "scale.md").read_text(encoding="utf-8")),
        SOURCE / "interfaces" / "client.pyi": client_stubs(),
        SOURCE / "interfaces" / "async_client.pyi": async_client_stubs(),
    }
    if README.exists():
        made[README] = with_figures(README.read_text(encoding="utf-8"))
    return made


# Types, as a reader would write them


def type_text(annotation: Any, name_of: Callable[[type], str] = lambda cls: cls.__name__) -> str:
    """An annotation in words of the language, without the constraints that hang on it."""
    if annotation is None or annotation is type(None):
        return "None"
    if annotation is Any:
        return "Any"
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_text(inner[0], name_of)
    if origin in (Union, types.UnionType):
        options = dict.fromkeys(type_text(one, name_of) for one in inner)
        return " | ".join(sorted(options, key=lambda option: option == "None"))
    if origin is Literal:
        return f"Literal[{', '.join(json.dumps(one) for one in inner)}]"
    if origin is not None:
        return f"{name_of(origin)}[{', '.join(type_text(one, name_of) for one in inner)}]"
    return name_of(annotation)


def default_text(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "see below"
    return "" if value is None or value in ([], {}, "") else f"`{json.dumps(value, ensure_ascii=False, default=str)}`"


def bounds_text(field: FieldInfo) -> str:
    """The limits of a number, in words."""
    found = {type(one).__name__: one for one in field.metadata}
    words = {"Ge": "at least", "Gt": "more than", "Le": "at most", "Lt": "less than"}
    limits = [f"{said} {next(iter(vars_of(found[name])))}" for name, said in words.items() if name in found]
    return ", ".join(limits)


def about_text(field: FieldInfo) -> str:
    limits = bounds_text(field)
    return " ".join(part for part in (field.description or "", f"({limits})" if limits else "") if part)


def vars_of(limit: Any) -> list[Any]:
    return [getattr(limit, name) for name in ("ge", "gt", "le", "lt") if hasattr(limit, name)]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(heads), ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def sentence(documented: Any) -> str:
    """The docstring of a class itself (not an inherited one), on one line."""
    return " ".join((documented.__dict__.get("__doc__") or "").split())


def field_rows(model: type[BaseModel], names: Iterable[str] | None = None) -> Iterator[tuple[str, str, str, str]]:
    for name in names or model.model_fields:
        field = model.model_fields[name]
        about = about_text(field)
        yield f"`{name}`", f"`{type_text(field.annotation)}`", default_text(field), about


# Operations


def operations_page() -> str:
    parts = [
        f"# Operations\n\n{WRITTEN}\n",
        "Everything Recollect does, from one catalogue. Each operation is a method of the object that"
        " `recollect.open(...)` gives, and a [command](cli.md) with the same fields. Fields before `*` may be given"
        " without their name. Unknown fields are refused, so a misspelt filter is never silently ignored.\n",
        "The permission says what an operation needs where access is checked. The Python client and the command line"
        " open the file itself: they check none.\n",
        "What it answers stands under [replies](#replies); where [secrets](../guides/secrets.md) were masked in a"
        " request, any reply also has `masked`. A problem is raised as one of the [errors](errors.md).\n",
        "## What an operation costs\n",
        "How many SQL statements one call runs on SQLite, the default store, for the operations that agents call often:"
        " counted on a small store from which something was deleted before, as in any that is used. The statements that"
        " begin and end a transaction are not counted, nor is the log of reads, which is written later, many reads at"
        " once.\n",
        table(("operation", "statements"), _cost_rows()),
    ]
    parts += [_operation(operation) for operation in OPERATIONS.values()]
    parts.append("## Replies\n")
    parts += [_reply(model) for model in _reply_models()]
    return "\n".join(parts)


def _cost_rows() -> Iterator[tuple[str, str]]:
    costs = sibling("costs")
    counted = costs.statements()
    for name in filter(counted.__contains__, OPERATIONS):
        amount = f" ({costs.AMOUNTS[name]})" if name in costs.AMOUNTS else ""
        yield f"[`{name}`](#{name.replace('.', '')}){amount}", str(counted[name])


def _operation(operation: Operation) -> str:
    doc = inspect.getdoc(operation.function) or operation.summary
    lines = [
        f"## {operation.name}\n",
        f"{' '.join(doc.split())}\n",
        f"`{_call(operation)}` → [`{operation.reply.__name__}`](#{operation.reply.__name__.lower()})"
        f" · permission `{operation.permission}`\n",
    ]
    costs = sibling("costs")
    if (count := costs.statements().get(operation.name)) is not None:
        amount = f" for {costs.AMOUNTS[operation.name]}" if operation.name in costs.AMOUNTS else ""
        lines.append(f"Costs {count} statement{'s' if count != 1 else ''} on SQLite{amount}.\n")
    if operation.request.model_fields:
        lines.append(
            table(("field", "type", "default", "what it is"), field_rows(operation.request, _ordered(operation)))
        )
    return "\n".join(lines)


def _ordered(operation: Operation) -> list[str]:
    rest = [name for name in operation.request.model_fields if name not in operation.positional]
    return [*operation.positional, *rest]


def _call(operation: Operation) -> str:
    required = [name for name, field in operation.request.model_fields.items() if field.is_required()]
    named = [name for name in required if name not in operation.positional]
    others = ["…"] if len(operation.request.model_fields) > len({*operation.positional, *required}) else []
    star = ["*"] if named or others else []
    return f"{operation.name}({', '.join([*operation.positional, *star, *named, *others])})"


def _reply_models() -> list[type[BaseModel]]:
    """The replies and every model inside them, by name."""
    found: dict[str, type[BaseModel]] = {}
    waiting = [operation.reply for operation in OPERATIONS.values()]
    while waiting:
        model = waiting.pop()
        if model.__name__ not in found:
            found[model.__name__] = model
            waiting += [one for field in model.model_fields.values() for one in _models_in(field.annotation)]
    return [found[name] for name in sorted(found)]


def _models_in(annotation: Any) -> Iterator[type[Reply]]:
    if isinstance(annotation, type) and issubclass(annotation, Reply):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _reply(model: type[BaseModel]) -> str:
    names = model.own_fields() if issubclass(model, Reply) else tuple(model.model_fields)
    rows = [(f"`{name}`", f"`{type_text(model.model_fields[name].annotation)}`") for name in names]
    about = f"{text}\n" if (text := sentence(model)) else ""
    return "\n".join(part for part in (f"### {model.__name__}\n", about, table(("field", "type"), rows)) if part)


# Command line


def cli_page() -> str:
    parts = [
        f"# Command line\n\n{WRITTEN}\n",
        "`recollect COMMAND [ARGUMENTS] [OPTIONS]`; `recollect COMMAND --help` says the same in the terminal. An option"
        " that takes a list is given once for each member. `--json` answers in JSON, problems included.\n",
        "Text to remember may be `-` for standard input or `@FILE` for a file; a JSON object is the typed content of a"
        " kind. `--metadata`, `--boost` and `--relate` take `KEY=VALUE`, the value as JSON if it is that. A citation is"
        " written as [one line](citations.md), or as a JSON object. Times are written as in ISO 8601.\n",
        "Exit codes: 0 when all is well, 1 for a failure (also when `verify` or `doctor` finds something), 2 for a"
        " request that is wrong, 130 when interrupted.\n",
        "Every command also takes (`copy` and `config` name their stores themselves and take `--json` alone):\n",
        table(("option", "what it is"), _options(next(iter(cli.COMMANDS.values())), common=True)),
    ]
    for title, names in cli.HEADINGS.items():
        parts.append(f"## {title}\n")
        parts += [_command(operation) for name in names.split() for operation in _commands(name)]
    return "\n".join(parts)


def _commands(name: str) -> list[Operation]:
    """The command, or all of a group."""
    if name in cli.GROUPS:
        own = [cli.COMMANDS[name]] if name in cli.COMMANDS else []
        return [*own, *(operation for operation in cli.COMMANDS.values() if operation.group == name)]
    return [cli.COMMANDS[name]]


def _command(operation: Operation) -> str:
    arguments = [
        name if operation.request.model_fields[name].is_required() else f"[{name}]" for name in operation.positional
    ]
    usage = " ".join(["recollect", operation.command, *(name.upper() for name in arguments)])
    rows = [*_arguments(operation), *_options(operation)]
    lines = [f"### {operation.command}\n", f"{operation.summary} `{usage}`\n"]
    return "\n".join([*lines, table(("option", "what it is"), rows)] if rows else lines)


def _arguments(operation: Operation) -> Iterator[tuple[str, str]]:
    for name in operation.positional:
        yield f"`{name.upper()}`", operation.request.model_fields[name].description or ""


def _options(operation: Operation, *, common: bool = False) -> Iterator[tuple[str, str]]:
    """The options as the argument parser knows them: those of the request, or those that every command has."""
    app = typer.Typer(add_completion=False)
    app.command(operation.command)(arguments.command_function(operation))
    for parameter in typer.main.get_command(app).params:
        is_own = operation.name in cli.RESULTS and parameter.name in ("out", "format", "chart")
        is_own |= operation.name == "remember" and parameter.name == "lines"
        is_common = parameter.name not in operation.request.model_fields and not is_own
        if parameter.param_type_name == "option" and is_common == common:
            names = [*parameter.opts, *parameter.secondary_opts]
            flags = " ".join(f"`{name}{_value(operation, parameter)}`" for name in names)
            yield flags, getattr(parameter, "help", None) or ""


def _value(operation: Operation, parameter: Any) -> str:
    """What follows a flag: nothing, a number or a text, once or several times."""
    if parameter.is_flag:
        return ""
    field = operation.request.model_fields.get(parameter.name)
    is_number = field is not None and arguments.shape_of(field.annotation)[0] in (int, float)
    return f" {'NUMBER' if is_number else 'TEXT'}{' …' if parameter.multiple else ''}"


# Settings


_ALSO = {
    "embedder": " `incoming_embedder` takes the same.",
    "language_model": "",
    "vectors": " A text is short for it: `chroma+http://host:8000`, `chroma:folder`, `postgresql://…`, or a provider.",
}


def settings_page() -> str:
    parts = [
        f"# Settings\n\n{WRITTEN}\n",
        "From keyword arguments of `recollect.open`, then the environment, then a YAML file, then the defaults: the"
        ' first that says something wins. `recollect.open("settings.yaml")`, `--store settings.yaml` or'
        f" `{PREFIX}CONFIG=settings.yaml` reads a file; a relative `store` in it lies beside the file. In the"
        " environment a list is written with commas.\n",
        f"```yaml\n{SETTINGS_EXAMPLE}```\n",
        table(("setting", "type", "default", "variable", "what it is"), _setting_rows(Settings)),
    ]
    inner = {
        name: Settings.model_fields[name].annotation
        for name in ("embedder", "vectors", "language_model", "remote", "server")
    }
    for name, model in inner.items():
        assert isinstance(model, type)
        parts.append(f"## {name}\n\n{sentence(model)}{_ALSO.get(name, '')}\n")
        parts.append(table(("setting", "type", "default", "variable", "what it is"), _setting_rows(model, name)))
    return "\n".join(parts)


def _setting_rows(model: type[BaseModel], inside: str = "") -> Iterator[Sequence[str]]:
    for name, field in model.model_fields.items():
        variable = PREFIX + (f"{inside}__{name}" if inside else name).upper()
        nested = any(isinstance(one, type) and issubclass(one, BaseModel) for one in _flat(field.annotation))
        is_table = name == "repositories"
        shown = f"`{variable}__…`" if nested else ("" if is_table else f"`{variable}`")
        path = f"{inside}.{name}" if inside else name
        about = about_text(field)
        yield f"`{path}`", f"`{type_text(field.annotation)}`", default_text(field), shown, about


def _flat(annotation: Any) -> list[Any]:
    return [annotation, *(one for inner in get_args(annotation) for one in _flat(inner))]


# Errors


def errors_page() -> str:
    said = _said()
    tree = _error_tree(errors.RecollectError)
    parts = [
        f"# Errors\n\n{WRITTEN}\n",
        "Every error is a `recollect.RecollectError` with a stable `code`, a `message` that says what is wrong, a"
        " `remedy` that says what to do next and `details` that hold ids and names, never stored text. `as_dict()` is"
        " the shape in which the command line shows it with `--json`. The classes live in `recollect.errors`; catch a"
        " branch of the tree to catch all below it.\n",
        "```text\n" + "\n".join(f"{'  ' * depth}{error.__name__}" for depth, error in tree) + "\n```\n",
        table(
            ("error", "code", "HTTP status"),
            [(f"[`{e.__name__}`](#{e.__name__.lower()})", f"`{e.code}`", str(e.http_status)) for _, e in tree],
        ),
    ]
    for _, error in tree:
        rows = said.get(error.__name__, [])
        about = table(("what it says", "what to do"), rows) if rows else "Nothing raises it as such in this version.\n"
        parts.append(f"## {error.__name__}\n\n`{error.code}`, HTTP {error.http_status}\n\n{about}")
    return "\n".join(parts)


def _error_tree(error: type[errors.RecollectError], depth: int = 0) -> list[tuple[int, type[errors.RecollectError]]]:
    own = sorted(
        (one for one in error.__subclasses__() if one.__module__ == "recollect.errors"),
        key=lambda one: inspect.getsourcelines(one)[1],
    )
    return [(depth, error), *(found for one in own for found in _error_tree(one, depth + 1))]


def _said() -> dict[str, list[tuple[str, str]]]:
    """What each error says and advises, wherever the code makes one."""
    names = {error.__name__ for _, error in _error_tree(errors.RecollectError)}
    found: dict[str, set[tuple[str, str]]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names and node.args:
                remedy = next((word.value for word in node.keywords if word.arg == "remedy"), None)
                message = _words(node.args[0])
                if message.strip("… "):
                    found.setdefault(node.func.id, set()).add((message, _words(remedy) if remedy else ""))
    return {name: sorted(pairs) for name, pairs in found.items()}


def _words(node: ast.expr) -> str:
    """A message with its values left open; `a if b else c` gives both."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return " ".join(node.value.split())
    if isinstance(node, ast.JoinedStr):
        parts = [one.value if isinstance(one, ast.Constant) else "…" for one in node.values]
        return " ".join("".join(str(part) for part in parts).split())
    if isinstance(node, ast.IfExp):
        return " / ".join(part for part in (_words(node.body), _words(node.orelse)) if part)
    return "…"


# Records


def records_page() -> str:
    common = table(
        ("field", "type", "what it is"),
        [
            ("`organization_id`", "`text`", "the tenant; part of every key"),
            ("`id`", "`text`", "made by the client (UUIDv7, so ids sort by time) or your own; never reused"),
            ("`version`", "`integer`", "counts the writes; guards against lost updates"),
            ("`created_at`, `updated_at`", "`moment`", "in UTC"),
            ("`created_by`, `updated_by`", "`text?`", "the actor"),
            ("`is_deleted`", "`boolean`", "forgotten, but restorable"),
        ],
    )
    parts = [
        f"# Records\n\n{WRITTEN}\n",
        "What is stored. A record type declares its shape once; tables, indexes, cascades, migrations and this page"
        " follow from it. The key of every record is `(organization_id, id)`; every unique key, index and reference"
        " holds within one organization. A `?` marks a field that may be empty.\n",
        "Fields marked *sensitive* are declared for encryption at rest. It is not built yet: today they are stored as"
        " they are.\n",
        f"Every record has:\n\n{common}",
    ]
    return "\n".join([*parts, *(_record(record) for _, record in sorted(RECORDS.items()))])


def _record(record: type[Record]) -> str:
    shape = record.shape
    rows = [
        (f"`{column.name}`", f"`{column.type}{'?' if column.nullable else ''}`", ", ".join(_marks(record, column.name)))
        for column in record.columns()
        if column.name not in COMMON_FIELDS
    ]
    lines = [f"## {shape.table}\n"]
    if text := sentence(record):
        lines.append(f"{text}\n")
    if rows:
        lines.append(table(("field", "type", ""), rows))
    listed = [
        f"- unique: {_fields(key.fields)}{' (empty counts as a value)' if key.nulls_equal else ''}"
        for key in shape.unique
    ]
    listed += [f"- index: {_fields(fields)}" for fields in shape.indexes]
    listed += [f"- index of those without: {_fields((field,))}" for field in shape.unset]
    if shape.text:
        narrowed = f", narrowed by {_fields(shape.text.facets)}" if shape.text.facets else ""
        listed.append(f"- searched as text: {_fields(shape.text.fields)}{narrowed}")
    return "\n".join([*lines, *listed, ""] if listed else lines)


def _fields(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _marks(record: type[Record], name: str) -> Iterator[str]:
    reference = record.shape.references.get(name)
    if reference is not None:
        gone = "goes with it" if reference.on_delete == "cascade" else "emptied when it goes"
        yield f"refers to [{reference.to}](#{reference.to}), {gone}"
    field = record.model_fields[name]
    choices = next((one for one in _flat(field.annotation) if get_origin(one) is Literal), None)
    if choices is not None:
        yield "one of " + ", ".join(get_args(choices))
    if limits := bounds_text(field):
        yield limits
    if name in record.shape.encrypted:
        yield "*sensitive*"
    elif name in record.shape.sealable:
        yield "*text*"


# Kinds and citations


def kinds_page() -> str:
    parts = [
        f"# Kinds of memory\n\n{WRITTEN}\n",
        "The kind says what a memory is, and what content it must have. Plain text is content for any kind without"
        " required fields; a dictionary gives the fields. Further JSON beside the fields is kept. What is searched is"
        " the content read as text.\n",
        '```python\nimport recollect\n\nrecollect.define_kind("incident")\nmem = recollect.open("kinds.db")\n'
        'mem.remember("The disk of db-2 was full", kind="incident")\n'
        'mem.remember({"task_description": "deploy", "success": False}, kind="episode")\nmem.close()\n```\n',
        "On the command line a kind of your own stands in the settings: `kinds: [incident]`, or"
        f" `{PREFIX}KINDS=incident`.\n",
    ]
    for name, content in KINDS.items():
        own = [field for field in content.model_fields if field not in Content.model_fields]
        listed = table(("field", "type", "default", ""), field_rows(content, ["text", *own]))
        parts.append(f"## {name}\n\n{sentence(content)}\n\n{listed}")
    return "\n".join(parts)


SHORTHANDS = {
    "commit": "`commit:HASH` or `commit:HASH@REPOSITORY`",
    "log": "`log:ID`",
    "user": "`user:NAME:COMMENT`",
    "file": "`file:PATH`, `file:PATH:LINE` or `file:PATH:FIRST-LAST`",
    "url": "`url:ADDRESS`",
    "query": "`query:RUN`",
}


def citations_page() -> str:
    states = ", ".join(f"`{state}`" for state in get_args(CitationState))
    moves = "; ".join(f"{status} → {', '.join(sorted(to))}" for status, to in TRANSITIONS.items())
    parts = [
        f"# Citations\n\n{WRITTEN}\n",
        "Where a memory comes from. Made with `recollect.cite`, or written on one line as on the command line"
        " (`--cite`, or `recollect.cite.parse`). What each type is checked against, and what a check finds:"
        " [concepts](../concepts.md#citations-and-statuses).\n",
        f"A citation is {states}. A memory moves: {moves}.\n",
    ]
    for model in get_args(AnyCitation):
        name = model.model_fields["type"].default
        maker = inspect.signature(getattr(cite, name))
        shown = ", ".join(str(parameter).split(":")[0] for parameter in maker.parameters.values())
        about = f"{text}\n\n" if (text := sentence(model)) else ""
        rows = field_rows(model, [field for field in model.model_fields if field != "type"])
        parts.append(
            f"## {name}\n\n{about}`cite.{name}({shown})`, or {SHORTHANDS[name]}\n\n"
            + table(("field", "type", "default", ""), rows)
        )
    return "\n".join(parts)


# The client's type stubs


STUB_HEAD = '''\
"""The Python client, spelt out for editors and type checkers. Written by docs/generate.py: run `make docs`."""

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from inspect import Signature
from typing import Any, Literal

from recollect.catalogue import FormerName, Operation
from recollect.ports.records import RecordStore, Scope
from recollect.services.tenant import Core, Tenant
{imports}

Prepare = Callable[[RecordStore, Scope], None]
Progress = bool | Callable[[int, int], None] | None

class Recollect(OpenMemory):
    """An open memory, seen from one organization."""

    _core: Core
    _scope: Scope
    @property
    def _tenant(self) -> Tenant: ...
    def __init__(self, core: Core, scope: Scope, prepare: Prepare, *, owns: bool = True) -> None: ...
    @property
    def timezone(self) -> str: ...
    @property
    def shown_zone(self) -> str | None: ...
    def within(self, organization: str | None = None, actor: str | None = None) -> Recollect:
        """The same store as another organization or another actor. Close only the one you opened."""

    def restricted(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        namespace: str | None = None,
    ) -> Recollect:
        """The same store for one user, agent, project or namespace: it reaches only what is theirs."""

    def call(self, operation: str, /, *, progress: Progress = None, **fields: Any) -> Any:
        """Any operation by name: what every method here does."""

    def close(self) -> None:
        """Write what is pending, and close the store."""

    def __enter__(self) -> Recollect: ...
    def __exit__(self, *problem: object) -> None: ...
'''
STUB_GROUP = '''
class OperationGroup:
    """The operations of one group, on an open memory: `mem.run.show(...)`."""

    def __init__(self, mem: Recollect) -> None: ...
    def call(self, operation: str, /, **fields: Any) -> Any: ...
'''
STUB_TAIL = '''
class OpenMemory:
    """What every open memory does, whether it is awaited or not."""

class OperationSignature(Signature):
    """What a method takes, read off the request when somebody looks at it."""

    def __init__(self, operation: Operation) -> None: ...

def no_attribute(asked: object, name: str, known: Sequence[str], by_habit: str = "") -> AttributeError:
    """The error for a name that is not there, with the one that may have been meant."""

def attach(
    client: type,
    operations: Iterable[Operation],
    groups: Mapping[str, str],
    method: Callable[[Operation], Callable[..., Any]] = ...,
    former: Mapping[str, FormerName] = ...,
) -> None:
    """Give the client a method for each operation and for each name it had, and an attribute for each group."""

def signature(operation: Operation) -> Signature:
    """What a method takes: the positional fields, then the others by name."""
'''

ASYNC_STUB_HEAD = '''\
"""The awaitable client, spelt out for editors and type checkers. Written by docs/generate.py: run `make docs`."""

import builtins
from datetime import datetime
from typing import Any, Literal

from recollect.interfaces.async_threads import OperationThreads
from recollect.interfaces.client import OpenMemory, OperationGroup, Progress, Recollect
{imports}

class AsyncRecollect(OpenMemory):
    """An open memory, seen from one organization, whose operations are awaited."""

    _sync: Recollect
    def __init__(self, sync: Recollect, threads: OperationThreads, *, owns: bool = True) -> None: ...
    async def timezone(self) -> str:
        """The zone of times without one: of the user on whose behalf it is, else the store's."""

    async def within(self, organization: str | None = None, actor: str | None = None) -> AsyncRecollect:
        """The same store as another organization or another actor. Close only the one you opened."""

    async def restricted(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        namespace: str | None = None,
    ) -> AsyncRecollect:
        """The same store for one user, agent, project or namespace: it reaches only what is theirs."""

    async def call(self, operation: str, /, *, progress: Progress = None, **fields: Any) -> Any:
        """Any operation by name. A function given as `progress` is called by the event loop; True shows a bar."""

    async def aclose(self) -> None:
        """Let end what is running, write what is pending, and close the store."""

    async def close(self) -> None:
        """Let end what is running, write what is pending, and close the store."""

    async def __aenter__(self) -> AsyncRecollect: ...
    async def __aexit__(self, *problem: object) -> None: ...
'''


def client_stubs() -> str:
    imports, front, groups = _stubbed_methods("def")
    return STUB_HEAD.replace("{imports}", imports) + front + STUB_GROUP + groups + STUB_TAIL


def async_client_stubs() -> str:
    imports, front, groups = _stubbed_methods("async def")
    return ASYNC_STUB_HEAD.replace("{imports}", imports) + front + groups


def _stubbed_methods(define: str) -> tuple[str, str, str]:
    """The imports they need, the methods of the client, and the classes of the groups."""
    used: dict[str, set[str]] = {}

    def name_of(cls: type) -> str:
        if cls is datetime:
            return "datetime | str"
        if cls is list:
            return "builtins.list"  # `list` is an operation, so within the class it means that
        if cls.__module__ not in ("builtins", "typing"):
            used.setdefault(cls.__module__, set()).add(cls.__name__)
        if issubclass(cls, Request):
            return f"{cls.__name__} | dict[str, Any] | str"
        return cls.__name__

    def methods(group: str) -> str:
        found = [one for one in OPERATIONS.values() if one.group == group and one.name not in GROUPS]
        return "\n".join(_stub(operation, name_of, define) for operation in found)

    def itself(group: str) -> str:
        """The operation that has the name of a group: calling the group carries it out."""
        if group not in OPERATIONS:
            return ""
        return _stub(replace(OPERATIONS[group], name="__call__"), name_of, define) + "\n"

    groups = "".join(
        f"\nclass {name.capitalize()}(OperationGroup{', str' if name == 'organization' else ''}):\n"
        f'    """{about}"""\n\n{itself(name)}{methods(name)}'
        for name, about in GROUPS.items()
    )
    front = "".join(f"    @property\n    def {name}(self) -> {name.capitalize()}: ...\n" for name in GROUPS)
    front += methods("")
    front += "".join(_stub(replace(OPERATIONS[today], name=name), name_of, define) for name, today in SYNONYMS.items())
    imports = "\n".join(_import(module, sorted(names)) for module, names in sorted(used.items()))
    return imports, front, groups


def _import(module: str, names: Sequence[str]) -> str:
    """One line, or one a name where that gets too long: as the formatter writes it."""
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= 120:
        return line
    return f"from {module} import (\n{''.join(f'    {name},{chr(10)}' for name in names)})"


def _stub(operation: Operation, name_of: Callable[[type], str], define: str) -> str:
    made = signature(operation)
    lines: list[str] = []
    starred = False
    for parameter in made.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            lines.append("*")
            starred = True
        if parameter.name == "self":
            lines.append("self")
        elif parameter.annotation == Progress:
            lines.append("progress: Progress = None")
        else:
            default = "" if parameter.default is parameter.empty else f" = {_stub_default(parameter.default)}"
            lines.append(f"{parameter.name}: {type_text(parameter.annotation, name_of)}{default}")
    answer = type_text(made.return_annotation, name_of)
    short = f"    {define} {operation.verb}({', '.join(lines)}) -> {answer}:\n"
    if len(short) > 120:
        inner = "".join(f"        {line},\n" for line in lines)
        short = f"    {define} {operation.verb}(\n{inner}    ) -> {answer}:\n"
    return f'{short}        """{operation.summary}"""\n'


def _stub_default(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value) if value is None or isinstance(value, bool | int | float) else "..."


# Measured figures


def with_figures(readme: str) -> str:
    """The README with its measured section made anew: nothing at all where nothing was measured."""
    if BEGIN not in readme or END not in readme:
        return readme
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = _rows(IN_SHORT)
    section = ""
    if rows:
        section = (
            "\n## Measured\n\n"
            + table(_HEADINGS, rows)
            + "\nMore, also where we are slower: [measured](docs/measured.md).\n"
        )
    return f"{before}{BEGIN}\n{section}{END}{after}"


def measured_page() -> str:
    said = (
        "# Measured\n\nWritten by `make docs` from the last run of each benchmark (bench/results, which say on what "
        "machine). Others stand beside us in the same run, with the same data. Times are medians.\n\n"
    )
    year = sibling("figures").year_section()
    return said + table(_HEADINGS, _rows(_READERS)) + (f"\n{year}" if year else "")


_HEADINGS = ("what", "figure", "measured by")
IN_SHORT = ("peers", "recall_quality", "checkpoints", "runtime", "scale")


def _rows(names: Iterable[str]) -> list[tuple[str, str, str]]:
    found = [RESULTS / f"{name}.json" for name in names]
    read = [row for path in found if path.exists() for row in _figures(path.stem, json.loads(path.read_text()))]
    return [(what, _NUMBER.sub(_in_short, figure), by) for what, figure, by in read]


_NUMBER = re.compile(r"(?<![\w@.])\d[\d,]*(?:\.\d+)?")


def _in_short(number: re.Match[str]) -> str:
    """With three digits, since no measurement is worth more; what is below one does not become one."""
    said, value = number[0], float(number[0].replace(",", ""))
    if sum(digit.isdigit() for digit in said.lstrip("0.")) <= 3:
        return said
    rounded = float(f"{value:.3g}")
    if value < 1 <= rounded:
        rounded = 0.999
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def _figures(name: str, report: Any) -> Iterator[tuple[str, str, str]]:
    """Rows of one report, told apart by the name of its file; a file unknown here gives none."""
    reader = _READERS.get(name)
    return iter(()) if reader is None else reader(report)


def _recall_figures(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    asked = f"LoCoMo, {report['questions']:,} questions over {report['turns']:,} turns"
    shares = ", ".join(f"{cut} {value}" for cut, value in report["recall"].items())
    times = report["latency_ms"]
    yield f"evidence among the first hits, % ({asked})", shares, "`make bench-recall`"
    yield "one recall on that set", f"median {times['median']} ms, p95 {times['p95']} ms", "`make bench-recall`"


def _set_figures(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """One row for each set, with its error: half the 95% interval of the mean."""
    for name, one in sorted(report.items()):
        share = f"{one['R@10']} ± {one['error']} of {one['questions']:,} questions"
        told = f"; told from unanswered ones {one['told_apart']}" if "told_apart" in one else ""
        yield f"evidence among the first ten hits, %: {name}", share + told, "`make bench-recall`"


def _peer_figures(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    size = max(report["sizes"], key=int)
    cells = report["sizes"][size]
    recalls, adds = cells["recall"], cells["add"]
    peers = ", ".join(f"{_PEERS[name]} {recalls[name]['p50_ms']} ms" for name in adds if name in _PEERS)
    ours = {"recollect-vectors": "vector index", "recollect-meaning": 'by="meaning"', "recollect": "full recall"}
    figures = ", ".join(f"{ours[name]} {recalls[name]['p50_ms']} ms" for name in ours if name in recalls)
    yield f"one user's ten nearest of {int(size):,} memories, median", f"{figures}; {peers}", "`make bench`"
    synced = ", ".join(f"{_PEERS.get(name, 'Recollect')} {adds[name]['p50_ms']} ms" for name in adds)
    yield f"one durable add at {int(size):,}, median", synced, "`make bench`"


def _runtime_figures(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    alone, many = report["step"]["per_second"], report["many_workers_steps_per_second"]
    yield "durable steps of agents per second", f"one worker {alone:.0f}, eight workers {many:.0f}", "`make bench`"
    resume = f"median {report['long_run']['claim']['p50_ms']} ms"
    yield f"taking up a run of {report['cycles']:,} steps again", resume, "`make bench`"


def _secret_figures(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    by = "`make bench-secrets`"
    shares = report["found"].values()
    yield f"secrets found, of {len(shares)} formats", f"{100 * sum(shares) / len(shares):.1f} %", by
    cells = report["corpora"].items()
    yield "found in ordinary text, per megabyte", ", ".join(f"{name} {one['per_megabyte']}" for name, one in cells), by
    yield "looking, µs per kilobyte", ", ".join(f"{name} {one['us_per_kilobyte']}" for name, one in cells), by
    times = report["remember"]
    figures = f"masked {times['mask']['p50_ms']} ms, kept {times['keep']['p50_ms']} ms"
    yield "one remember of a kilobyte, median", figures, by


_PEERS = {"langgraph": "LangGraph's SqliteStore", "chroma": "Chroma"}


def _scale_figures(reports: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for report in reports:
        for scope, cell in report.get("scopes", {}).items():
            figures = f"median {cell['p50_ms']} ms, recall@10 {cell['recall_at_10']}"
            yield f"vector search, {report['rows']:,} x {report['dimensions']}, {scope}", figures, "`make bench-scale`"


def _service_figures(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for operation, by_clients in report["cells"].items():
        figures = ", ".join(
            f"{count}: {by_name['recollect']['per_second']}/s, p99 {by_name['recollect']['p99_ms']} ms"
            for count, by_name in by_clients.items()
        )
        yield f"{operation} over HTTP by number of clients, {report['rows']:,} memories", figures, "`make bench`"
        ratios = {count: one["workers"] for count, one in report["ratios"][operation].items() if "workers" in one}
        if ratios:
            figures = ", ".join(f"{count}: {ratio} times one" for count, ratio in ratios.items())
            yield (
                f"{operation} over HTTP with two workers on {report['machine']['cores']} cores",
                figures,
                "`make bench`",
            )


def _postgres_figures(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    among = f"PostgreSQL, {report['rows']:,} memories"
    for scope, cells in report["recall"].items():
        figures = ", ".join(
            f"{name} {cell['p50_ms']} ms (recall@10 {cell['recall_at_10']})"
            for name, cell in cells.items()
            if name != "Recollect"  # ranked by more than nearness, so it is not the same question
        )
        yield (
            f"{among}, ten nearest, {scope}",
            f"{figures}; full recall {cells['Recollect']['p50_ms']} ms",
            "`make bench`",
        )
    adds = ", ".join(f"{name} {cell['p50_ms']} ms" for name, cell in report["add"].items())
    yield f"{among}, one durable add", adds, "`make bench`"


def _stores_figures(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, cells in report["stores"].items():
        figures = ", ".join(
            f"{what} {cells[what]['p50_ms']} ms" for what in ("add", "get", "find", "text search", "recall")
        )
        bulk = f"bulk {cells['bulk']['rows_per_second']:,}/s"
        yield f"the {name} store with {report['rows']:,} memories", f"{bulk}, {figures}", "`make bench`"


def _checkpoint_figures(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    figures = "; ".join(
        f"{name} {cell['steps_per_second']:.0f}/s, {cell['bytes_per_step']:,} bytes a step"
        for name, cell in report["savers"].items()
    )
    yield f"LangGraph checkpoints over {report['steps']} steps", figures, "`make bench`"


def _workspace_figures(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    what = f"snapshot of {report['files']:,} files, {report['changes']} of them changed"
    yield what, f"median {report['snapshot_ms_median']} ms, {report['snapshot_bytes_median']:,} bytes", "`make bench`"


_READERS: dict[str, Callable[[Any], Iterator[tuple[str, str, str]]]] = {
    "recall_quality": _recall_figures,
    "recall_sets": _set_figures,
    "peers": _peer_figures,
    "checkpoints": _checkpoint_figures,
    "postgres": _postgres_figures,
    "runtime": _runtime_figures,
    "stores": _stores_figures,
    "workspaces": _workspace_figures,
    "scale": _scale_figures,
    "service": _service_figures,
    "secrets": _secret_figures,
}


# The whole


@cache
def sibling(name: str) -> Any:
    """Another script of this folder, which can be imported by name only when this one is run as a program."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def stale() -> list[Path]:
    return [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def main(arguments: Sequence[str]) -> int:
    source_map = sibling("source_map")
    if "--check" in arguments:
        found = stale()
        for path in found:
            print(f"{path.relative_to(ROOT)} is stale: run make docs", file=sys.stderr)
        return 1 if found or source_map.main(["--check"]) else 0
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return int(source_map.main([]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
