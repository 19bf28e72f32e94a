"""The arguments of a command: the fields of its request as the argument parser reads them, and back."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from recollect.catalogue import Operation
from recollect.domain.provenance import ONE_LINE_FORMS
from recollect.interfaces.cli.commands import PASSWORDS, RENAMED, REPEATED, RESULTS, Program

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


LINES = "--lines"


def command_function(operation: Operation, given: Sequence[str] | None = None) -> Callable[..., int]:
    """A function whose signature is the operation's request, for the argument parser to read.

    With the arguments that were `given`, of the options only those are in it that stand there, where all are known: the
    parser takes longer for the forty others of `recall` than for all else.
    """
    from recollect.interfaces.cli.execution import execute, start

    parameters, common = all_parameters(operation, LINES in (given or ())), _common(operation)
    shown = parameters if given is None else _needed(parameters, given)

    def command(**given: Any) -> int:
        surroundings = {name: given.pop(name, False if common[name][0] is bool else None) for name in common}
        return (start if isinstance(operation, Program) else execute)(operation, given, **surroundings)

    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return command


def all_parameters(operation: Operation, by_lines: bool = False) -> list[inspect.Parameter]:
    """Every argument and option of a command. What is read from lines is not given as an argument."""
    named = [name for name in _ordered(operation) if not (by_lines and name == "content")]
    parameters = [_parameter(operation, name) for name in named]
    for name, (type, option) in _common(operation).items():
        parameters.append(_keyword(name, Annotated[type, option], False if type is bool else None))
    return parameters


def _needed(parameters: Sequence[inspect.Parameter], given: Sequence[str]) -> list[inspect.Parameter]:
    """All, where something looks like an option and is none: the parser says which may have been meant."""
    flags = {one.name: flags_of(one) for one in parameters}
    named = {argument.partition("=")[0] for argument in given if argument.startswith("-")}
    if named - {flag for some in flags.values() for flag in some}:
        return list(parameters)
    return [one for one in parameters if not flags[one.name] or named & flags[one.name]]


def flags_of(parameter: inspect.Parameter) -> set[str]:
    """How the option may be written; nothing, if it is an argument with a place."""
    from typer.models import OptionInfo

    info = get_args(parameter.annotation)[1]
    if not isinstance(info, OptionInfo):
        return set()
    first = info.default if isinstance(info.default, str) else f"--{parameter.name}"  # typer's own reading of it
    return {flag for one in (first, *(info.param_decls or ())) for flag in one.split("/")}


def _common(operation: Operation) -> dict[str, tuple[Any, Any]]:
    """The options that every command has, and some many have."""
    import typer

    common: dict[str, tuple[Any, Any]] = {
        "store": (
            str | None,
            typer.Option(
                metavar="STORE", help="The store: a file, an address, that of a service, or a YAML settings file"
            ),
        ),
        "profile": (str | None, typer.Option("--profile", metavar="NAME", help="A profile of your own settings")),
        "readonly": (bool, typer.Option("--readonly", help="Open the store to be read alone; nothing is written")),
        "organization": (
            str | None,
            typer.Option("--organization", metavar="ID", help="The organization (tenant) to work in"),
        ),
        "actor": (str | None, typer.Option("--actor", metavar="ID", help="Who is acting; recorded with every change")),
        "as_json": (bool, typer.Option("--json", help="Print the reply as JSON")),
        "verbose": (bool, typer.Option("--verbose", "-v", help="Show all of what was written, not one line")),
    }
    if isinstance(operation, Program):  # the settings that some of them name may be given as to all others
        kept = ("store", "as_json") if "settings" in operation.request.model_fields else ("as_json",)
        common = {name: common[name] for name in kept}
    if operation.name in RESULTS:
        common |= {
            "out": (
                str | None,
                typer.Option("--out", metavar="FILE", help="Save all rows: .csv, .parquet, .xlsx, .json or .arrow"),
            ),
            "format": (
                str | None,
                typer.Option("--format", metavar="csv|parquet|xlsx|json|arrow", help="The format of the file in --out"),
            ),
            "chart": (
                str | None,
                typer.Option("--chart", metavar="FILE", help="Draw a chart: .svg, .png, .pdf, .html or .json"),
            ),
        }
    common = {name: one for name, one in common.items() if name not in operation.request.model_fields}
    if operation.name == "remember":
        common["lines"] = (bool, typer.Option(LINES, help="One memory for each line of standard input"))
    if operation.needs_confirmation:
        common["yes"] = (bool, typer.Option("--yes", "-y", help="Do not ask for confirmation"))
    return common


def _keyword(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _ordered(operation: Operation) -> list[str]:
    known = operation.request.model_fields
    fields = [name for name in known if "vector" not in known or name not in ("vector", "vector_model")]
    return [*operation.positional, *(name for name in fields if name not in operation.positional)]


def _parameter(operation: Operation, name: str) -> inspect.Parameter:
    import typer

    field = operation.request.model_fields[name]
    type, how = shape_of(field.annotation)
    if operation.name in REPEATED and REPEATED[operation.name][0] == name:
        type = list[str]
    required = field.is_required() and name not in PASSWORDS
    is_open = type is bool and field.default is None  # neither yes nor no, unless it is said
    on_by_default = type is bool and field.default is True
    shown: dict[str, Any] = {"help": _help(name, field), "show_default": False}
    if name in operation.positional:
        info: Any = typer.Argument(metavar=name.upper(), **shown)
    else:
        if type is not bool:
            shown["metavar"] = _metavar(type, how, field.annotation)
        flag = RENAMED.get((operation.name, name)) or _flag(name, field.annotation)
        info = typer.Option(f"--{flag}/--no-{flag}" if on_by_default or is_open else f"--{flag}", **shown)
    is_plain = required or (type is bool and not is_open)
    annotation = type if is_plain else type | None
    default = inspect.Parameter.empty if required else (on_by_default if is_plain else None)
    return _keyword(name, Annotated[annotation, info], default)


def _help(name: str, field: FieldInfo) -> str:
    if name == "cites":
        return f"{ONE_LINE_FORMS}, or a JSON object; may be repeated"
    if name in PASSWORDS:
        return f"{field.description or ''}; asked for {'if it is not given' if field.is_required() else 'with -'}"
    several = "; may be repeated" if shape_of(field.annotation)[0] == list[str] else ""
    return f"{field.description or ''}{several}"


def _metavar(type: type, how: str, annotation: object) -> str:
    choices = _choices(annotation)
    if choices:
        return "|".join(choices)
    if how == "pairs":
        return "KEY=VALUE"
    return {int: "NUMBER", float: "NUMBER"}.get(type, "TIME" if "datetime" in str(annotation) else "TEXT")


def _choices(annotation: object) -> list[str]:
    """The words a field takes, if they are listed."""
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    inner = [one for one in get_args(annotation) if one is not type(None)] if get_origin(annotation) is not dict else []
    return _choices(inner[0]) if inner and get_origin(annotation) is not None else []


def option_name(name: str, type: type) -> str:
    """A list is given one by one, so its option is named in the singular."""
    plural = type == list[str] and name.endswith("s") and name not in ("cites",)
    return {"any_tags": "any_tag", "statuses": "status"}.get(name, name[:-1]) if plural else name


def _flag(name: str, annotation: object) -> str:
    """What the option of a field is called."""
    return "cite" if name == "cites" else option_name(name, shape_of(annotation)[0]).replace("_", "-")


def shape_of(annotation: object) -> tuple[type, str]:
    """The type the parser should read, and how to turn what it read into the field's value."""
    options = [annotation]
    if get_origin(annotation) in (Union, type(int | str)):
        options = [option for option in get_args(annotation) if option is not type(None)]
    inner = options[0]
    while get_origin(inner) is Annotated:
        inner = get_args(inner)[0]
    if get_origin(inner) is Literal:
        return str, "plain"
    if get_origin(inner) is list or inner is list:
        return list[str], "json list" if Any in get_args(inner) else "list"
    if get_origin(inner) is dict or inner is dict:
        return list[str], "pairs"
    if inner is datetime:
        return str, "plain"
    return (inner if inner in (int, float, bool) else str), "plain"


def fields_of(operation: Operation, given: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in given.items():
        field = operation.request.model_fields[name]
        is_default = isinstance(value, bool) and not field.is_required() and value == field.default
        if value in (None, [], ()) or is_default:
            continue
        how = shape_of(field.annotation)[1]
        if name == "cites":
            fields[name] = [_json_or_text(one) if one.lstrip().startswith("{") else one for one in value]
        elif how == "pairs":
            fields[name] = dict(_pair(one, name, field.annotation) for one in value)
        elif how == "json list":
            fields[name] = [_json_or_text(one) for one in value]
        else:
            fields[name] = _content(value) if name == "content" else value
    return fields


_EXAMPLES = {"metadata": "colour=blue", "boost": "recency=0.5", "relates": "MEMORY_ID=contradicts"}


def _pair(text: str, name: str, annotation: object) -> tuple[str, object]:
    from recollect.errors import InvalidInput

    key, separator, value = text.partition("=")
    if not separator or not key:
        example = f"--{_flag(name, annotation)} {_EXAMPLES.get(name, 'NAME=VALUE')}"
        words = _choices(get_args(annotation)[0]) if get_origin(annotation) is dict else []
        known = f"; KEY is one of {', '.join(words)}" if words else ""
        raise InvalidInput(f"'{text[:80]}' is not of the form KEY=VALUE", remedy=f"write {example}{known}")
    return key, _json_or_text(value)


def _json_or_text(value: str) -> object:
    try:
        found: object = json.loads(value)
        return found
    except ValueError:
        return value


def _content(text: str) -> object:
    """`-` reads standard input, `@file` a file (`@@` is an @); a JSON object is the typed content of a kind."""
    from recollect.errors import InvalidInput

    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@@"):
            return text[1:]
        elif text.startswith("@") and " " not in text:
            text = Path(text[1:]).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(f"'{text[1:]}' is not a text file", remedy="give a file of UTF-8 text") from None
    except OSError as error:
        raise InvalidInput(f"cannot read '{text[1:]}': {error.strerror}", remedy="give an existing file") from None
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except ValueError:
            return text
        return found if isinstance(found, dict) else text
    return text
