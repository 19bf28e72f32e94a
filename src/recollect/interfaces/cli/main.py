"""The command line: one command per operation of the catalogue, with `--json` for programs and tables for people.

Only the command that was asked for is built, so `recollect --help` answers without loading the engine. Every
problem ends as one line with its remedy and an exit code: 2 for a wrong request, 1 for everything else.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from recollect.catalogue import FORMER_NAMES, OPERATIONS, Operation, validated
from recollect.catalogue import ROOMS as OPERATION_ROOMS

if TYPE_CHECKING:
    from recollect.errors import RecollectError
    from recollect.interfaces.cli.render.replies import Renderer

GROUPS = {
    "Memories": "remember recall context show list why-not history",
    "Changing them": "revise cite uncite relate",
    "Trust": "citation check confirm promote demote archive merge unmerge roll-back",
    "Letting go": "forget restore erase sweep prune",
    "Whose they are": "user agent session project",
    "Agents at work": "block tool state workspace message",
    "Runs of agents": "run",
    "Learning": "episode pattern summary",
    "Frameworks": "checkpoint item",
    "The service": "serve mcp key audit",
    "The store": "stats activity sql log verify doctor reindex config",
    "Moving": "export import backup restore-backup copy partitions migrate",
}
# What may be the first thing done with a store. All others ask about what is there, and in the wrong folder nothing is.
BEGINNING = frozenset(
    "remember user.add agent.add session.add project.add message.add episode.record block.add tool.add item.put key.add"
    " import_ migrate".split()
)
HIDDEN = frozenset({"remember_many", "message.add_many", "checkpoint.put", "checkpoint.write", "item.put_many"})


LEADING = ("--store", "--organization", "--actor", "--json")
"""Options that may stand before the command."""


class Program(Operation):
    """A command that is no operation of one open store: its function opens what it needs."""

    package = "recollect.interfaces"


_BETWEEN = ("source", "target")
PROGRAMS = (
    Program("copy", "cli.commands:copy", "admin", "", _BETWEEN, "Copy a store into another of any kind.", True),
    Program("restore_backup", "cli.commands:restore_backup", "admin", "", _BETWEEN, "Make a store from a backup."),
    Program("serve", "serve:serve", "operate", "", ("settings",), "Serve the API, the console and MCP."),
    Program("mcp", "mcp.stdio:serve", "operate", "", (), "Serve MCP over standard input and output, for one host."),
    Program("config.check", "cli.commands:config_check", "admin", "", ("settings",), "Try all that the settings name."),
)
ROOMS = {**OPERATION_ROOMS, "config": "The settings: what is wrong with them, and how to mend it."}
COMMANDS = {one.command: one for one in (*OPERATIONS.values(), *PROGRAMS) if one.name not in HIDDEN}


def main(arguments: Sequence[str] | None = None) -> None:
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: list[str]) -> int:
    """Run one command and give its exit code."""
    try:
        return _dispatch(arguments)
    except BrokenPipeError:
        # The reader of a pipe went away: nothing is wrong, and Python must not complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _dispatch(arguments: list[str]) -> int:
    arguments = _command_first(arguments)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        return _show_help()
    if arguments[0] in ("-V", "--version", "version"):
        from recollect import __version__

        print(f"recollect {__version__}")
        return 0
    if arguments[0].startswith("-"):
        return _no_command(arguments)
    if arguments[0] in ROOMS:
        return _enter(arguments[0], arguments[1:])
    operation = COMMANDS.get(arguments[0])
    if operation is None:
        return _run_former(arguments)
    return _run_command(operation, arguments[1:])


def _run_former(arguments: list[str]) -> int:
    """A command by the name it had one version ago, as in `recollect remove user ID`."""
    former = next((one for one in FORMER_NAMES.values() if one.command == arguments[0]), None)
    if former is None:
        return _unknown(arguments[0], COMMANDS)
    type = next((one for one in arguments if one in former.types), None)
    if former.types and type is None:
        today = ", ".join(f"recollect {operation.command}" for operation in former.operations)
        print(f"error: '{former.command}' has other names now (use {today})", file=sys.stderr)
        return 2
    left = arguments[1:]
    if type is not None:
        left.remove(type)
    operation = former.today({"type": type})[0]
    print(f"note: '{former.command}' is called 'recollect {operation.command}' now", file=sys.stderr)
    return _run_command(operation, left)


def _enter(room: str, arguments: list[str]) -> int:
    """The commands of a room, as in `recollect run show`."""
    arguments = _command_first(arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"Usage: recollect {room} COMMAND [OPTIONS]\n\n{ROOMS[room]}\n")
        _list_commands([name for name, operation in COMMANDS.items() if operation.room == room])
        return 0
    if arguments[0].startswith("-"):
        return _no_command(arguments, f"{room} ")
    operation = COMMANDS.get(f"{room} {arguments[0]}")
    if operation is None:
        return _unknown(f"{room} {arguments[0]}", COMMANDS)
    return _run_command(operation, arguments[1:])


def _command_first(arguments: list[str]) -> list[str]:
    """`recollect --store x list` means `recollect list --store x`."""
    leading: list[str] = []
    while arguments and arguments[0].partition("=")[0] in LEADING:
        width = 1 if arguments[0] == "--json" or "=" in arguments[0] else 2
        leading, arguments = leading + arguments[:width], arguments[width:]
    return [*arguments, *leading]


def _show_help() -> int:
    print("Usage: recollect COMMAND [OPTIONS]\n\nThe memory of AI agents.\n")
    for title, names in GROUPS.items():
        print(f"{title}:")
        _list_commands(names.split())
        print()
    print("`recollect COMMAND --help` tells more. The store is recollect.db in this folder, or --store, or")
    print("$RECOLLECT_STORE; settings may also stand in a YAML file: --store settings.yaml.")
    return 0


def _list_commands(names: Sequence[str]) -> None:
    width = max(map(len, names), default=0)
    for name in names:
        print(f"  {name:{max(width, 12)}} {ROOMS[name] if name in ROOMS else COMMANDS[name].summary}")


def _no_command(arguments: list[str], room: str = "") -> int:
    """An option stands where the command should: it is unknown, has no value, or is all there is."""
    from difflib import get_close_matches

    option, see = arguments[0].partition("=")[0], f"see recollect {room}--help"
    last = arguments[-1]
    if option not in LEADING:
        near = get_close_matches(option, [*LEADING, "--help", "--version"], n=1)
        hint = f"did you mean {near[0]}?" if near else f"options of a command come after it; {see}"
        print(f"error: there is no option '{option}' ({hint})", file=sys.stderr)
    elif last in LEADING and last != "--json" and (len(arguments) < 2 or arguments[-2] not in LEADING[:3]):
        print(f"error: {last} needs a value (write recollect {room}COMMAND {last} VALUE)", file=sys.stderr)
    else:
        print(f"error: no command was given ({see})", file=sys.stderr)
    return 2


def _unknown(name: str, known: Iterable[str]) -> int:
    from difflib import get_close_matches

    near = get_close_matches(name, [*known, *ROOMS], n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "see recollect --help"
    print(f"error: there is no command '{name}' ({hint})", file=sys.stderr)
    return 2


def _run_command(operation: Operation, arguments: list[str]) -> int:
    import typer

    from recollect.errors import InvalidInput, RecollectError

    as_json = "--json" in arguments
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(operation.command, help=operation.summary)(_command(operation))
    try:
        # Exit codes come back as values, so that nothing but our own lines reaches the terminal.
        code = app(arguments, prog_name=f"recollect {operation.command}", standalone_mode=False)
        return int(code or 0)
    except RecollectError as error:
        _complain(error, as_json)
        return 2 if isinstance(error, InvalidInput) else 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the process edge: a person gets a line, not a traceback
        return _edge(error, as_json)


def _edge(error: Exception, as_json: bool) -> int:
    from recollect.errors import InvalidInput, RecollectError

    shown = getattr(error, "format_message", None)
    if callable(shown):  # the argument parser's own complaints
        _complain(InvalidInput(str(shown()), remedy="see --help"), as_json)
        return 2
    if os.environ.get("RECOLLECT_DEBUG"):
        raise error
    _complain(
        RecollectError(f"internal error: {type(error).__name__}", remedy="run again with RECOLLECT_DEBUG=1"), as_json
    )
    return 1


def _complain(error: RecollectError, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"error": error.as_dict()}, ensure_ascii=False, default=str), file=sys.stderr)
        return
    print(f"error: {error.message}", file=sys.stderr)
    if error.remedy:
        print(f"       {error.remedy}", file=sys.stderr)


def _command(operation: Operation) -> Callable[..., Any]:
    """A function whose signature is the operation's request, for the argument parser to read."""
    import typer

    parameters = [_parameter(operation, name) for name in _ordered(operation)]
    common = {
        "store": (str | None, typer.Option(help="The store: a file, an address, or a YAML settings file")),
        "organization": (str | None, typer.Option("--organization", help="The tenant to work in")),
        "actor": (str | None, typer.Option("--actor", help="On whose behalf")),
        "as_json": (bool, typer.Option("--json", help="Answer in JSON")),
    }
    if isinstance(operation, Program):  # the settings that some of them name may be given as to all others
        kept = ("store", "as_json") if "settings" in operation.request.model_fields else ("as_json",)
        common = {name: common[name] for name in kept}
    if operation.asks:
        common["yes"] = (bool, typer.Option("--yes", "-y", help="Do not ask first"))
    for name, (type, option) in common.items():
        default = False if type is bool else None
        parameters.append(_keyword(name, Annotated[type, option], default))

    def command(**given: Any) -> int:
        surroundings = {name: given.pop(name) for name in common}
        return (_start if isinstance(operation, Program) else _execute)(operation, given, **surroundings)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _ordered(operation: Operation) -> list[str]:
    fields = [name for name in operation.request.model_fields if name not in ("vector", "vector_model")]
    return [*operation.positional, *(name for name in fields if name not in operation.positional)]


def _parameter(operation: Operation, name: str) -> inspect.Parameter:
    import typer

    field = operation.request.model_fields[name]
    type, how = shape_of(field.annotation)
    required = field.is_required()
    on_by_default = type is bool and field.default is True
    shown: dict[str, Any] = {"help": _help(name, field), "show_default": False}
    if name in operation.positional:
        info: Any = typer.Argument(**shown)
    else:
        if type is not bool:
            shown["metavar"] = _metavar(type, how, field.annotation)
        flag = _flag(name, field.annotation)
        info = typer.Option(f"--{flag}/--no-{flag}" if on_by_default else f"--{flag}", **shown)
    annotation = type if required or type is bool else type | None
    default = inspect.Parameter.empty if required else (on_by_default if type is bool else None)
    return _keyword(name, Annotated[annotation, info], default)


def _help(name: str, field: Any) -> str:
    if name == "cites":
        return "user:NAME:COMMENT, file:PATH:FIRST-LAST, commit:HASH@REPO, log:ID or url:ADDRESS; may be repeated"
    several = "; may be repeated" if shape_of(field.annotation)[0] == list[str] else ""
    return f"{field.description or ''}{several}"


def _metavar(type: Any, how: str, annotation: Any) -> str:
    choices = _choices(annotation)
    if choices:
        return "|".join(choices)
    if how == "pairs":
        return "KEY=VALUE"
    return {int: "NUMBER", float: "NUMBER"}.get(type, "TIME" if "datetime" in str(annotation) else "TEXT")


def _choices(annotation: Any) -> list[str]:
    """The words a field takes, if they are listed."""
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    inner = [one for one in get_args(annotation) if one is not type(None)] if get_origin(annotation) is not dict else []
    return _choices(inner[0]) if inner and get_origin(annotation) is not None else []


def _option_name(name: str, type: Any) -> str:
    """A list is given one by one, so its option is named in the singular."""
    plural = type == list[str] and name.endswith("s") and name not in ("cites",)
    return {"any_tags": "any_tag", "statuses": "status"}.get(name, name[:-1]) if plural else name


def shape_of(annotation: Any) -> tuple[Any, str]:
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


def _execute(
    operation: Operation, given: dict[str, Any], store: str | None, organization: str | None, actor: str | None,
    as_json: bool, yes: bool = False,
) -> int:  # fmt: skip
    import recollect
    from recollect.interfaces.cli.render.replies import Renderer

    fields = _fields(operation, given)
    validated(operation, fields)  # a wrong request is wrong wherever the store is
    if operation.name == "import_":
        _expect_file(fields["path"])
    begins = operation.name in BEGINNING
    makes = begins or operation.permission == "write"
    seen = {"organization": organization, "actor": actor}
    with recollect.open(store, create=begins, create_organization=makes, is_long_lived=False, **seen) as mem:
        renderer = Renderer(mem.timezone)
        if operation.asks and not yes and not fields.get("dry_run"):
            _ask(renderer, operation, mem.call(operation.name, **fields, dry_run=True), fields)
        with renderer.progress(operation.summary, shown=operation.progress and not as_json) as progress:
            reply = mem.call(operation.name, progress=progress, **fields)
    return _answer(renderer, operation, reply, as_json)


def _expect_file(path: str) -> None:
    """Before a store is made for what is in it."""
    from recollect.errors import InvalidInput

    try:
        Path(path).open("rb").close()
    except OSError as error:
        raise InvalidInput(f"cannot read '{path}': {error.strerror}", remedy="give an exported file") from None


def _ask(renderer: Renderer, operation: Operation, preview: Any, fields: dict[str, Any]) -> None:
    """Show a person what would be done, and wait for a yes. A program is not asked, but must mean what is final."""
    from recollect.errors import InvalidInput

    if sys.stdin.isatty():
        if not preview.refused:
            renderer.show(operation, preview)
            print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                raise KeyboardInterrupt
    elif fields.get("for_good"):
        raise InvalidInput("nobody is there to say yes", remedy="look with --dry-run, then repeat it with --yes")


def _start(program: Operation, given: dict[str, Any], as_json: bool, store: str | None = None) -> int:
    from recollect.errors import InvalidInput
    from recollect.interfaces.cli.render.replies import Renderer

    if store is not None:
        if given.get("settings") is not None:
            raise InvalidInput("two stores are named", remedy=f"give '{given['settings'][:80]}' or --store, not both")
        given["settings"] = store
    request, renderer = validated(program, _fields(program, given)), Renderer()
    with renderer.progress(program.summary, shown=program.progress and not as_json) as progress:
        reply = program.function(request, progress)
    if reply is None:  # it has said all it had to say
        return 0
    return _answer(renderer, program, reply, as_json)


def _answer(renderer: Renderer, operation: Operation, reply: Any, as_json: bool) -> int:
    if as_json:
        print(reply.model_dump_json(indent=1))
    else:
        renderer.show(operation, reply)
    return 1 if _found_trouble(reply) else 0


def _found_trouble(reply: Any) -> bool:
    """Checks end with 1 when they find something, so that a script or a CI job can tell."""
    if getattr(reply, "broken", 0):
        return True
    return not getattr(reply, "well", getattr(reply, "sound", True))


def _fields(operation: Operation, given: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in given.items():
        field = operation.request.model_fields[name]
        is_default = isinstance(value, bool) and not field.is_required() and value == bool(field.default)
        if value in (None, [], ()) or is_default:
            continue
        how = shape_of(field.annotation)[1]
        if name == "cites":
            fields[name] = list(value)
        elif how == "pairs":
            fields[name] = dict(_pair(one, name, field.annotation) for one in value)
        elif how == "json list":
            fields[name] = [_json_or_text(one) for one in value]
        else:
            fields[name] = _content(value) if name == "content" else value
    return fields


_EXAMPLES = {"metadata": "colour=blue", "boost": "recency=0.5", "relates": "MEMORY_ID=contradicts"}


def _pair(text: str, name: str, annotation: Any) -> tuple[str, Any]:
    from recollect.errors import InvalidInput

    key, separator, value = text.partition("=")
    if not separator or not key:
        example = f"--{_flag(name, annotation)} {_EXAMPLES.get(name, 'NAME=VALUE')}"
        words = _choices(get_args(annotation)[0]) if get_origin(annotation) is dict else []
        known = f"; KEY is one of {', '.join(words)}" if words else ""
        raise InvalidInput(f"'{text[:80]}' is not KEY=VALUE", remedy=f"write {example}{known}")
    return key, _json_or_text(value)


def _flag(name: str, annotation: Any) -> str:
    """What the option of a field is called."""
    return "cite" if name == "cites" else _option_name(name, shape_of(annotation)[0]).replace("_", "-")


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _content(text: str) -> Any:
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


if __name__ == "__main__":
    main()
