"""The command line: one command per operation of the catalogue, with `--json` for programs and tables for people.

Only the command that was asked for is built, so `recollect --help` answers without loading the engine. Every
problem ends as one line with its remedy and an exit code: 2 for a wrong request, 1 for everything else.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Sequence

from recollect.catalogue import FORMER_NAMES, Operation, meant
from recollect.errors import DOCS_URL
from recollect.interfaces.cli.commands import ALSO, COMMANDS, GROUPS, HEADINGS, Program

LEADING = ("--store", "--profile", "--organization", "--actor", "--json", "--readonly", "--verbose", "-v")
"""Options that may stand before the command."""
SWITCHES = ("--json", "--readonly", "--verbose", "-v")
"""Those of them that take no value."""


def main(arguments: Sequence[str] | None = None) -> None:
    # What is imported stays until the end. To look for garbage in it, again and again while it is loaded and once more
    # at the end, took a fifth of the time of `recollect recall`. Running a command turns it on again (execution.py).
    gc.disable()
    # The library under numpy starts a thread for each core, which waits for work by spinning: a fifth of the processor
    # time of a command. What numpy multiplies here takes microseconds. Who has said how many finds that many; the
    # service shares the cores out among its workers by itself.
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "serve" not in given:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = run(given)
    gc.freeze()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command and give its exit code."""
    try:
        return _harmless_to_host(arguments, _dispatch(arguments))
    except BrokenPipeError:
        # The reader of a pipe went away: nothing is wrong, and Python must not complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _harmless_to_host(arguments: list[str], code: int) -> int:
    """A coding agent takes the exit code 2 of a hook as an order to stop: a wrong option must not be one."""
    return 0 if arguments[:1] == ["hook"] and "--strict" not in arguments else code


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
    if arguments[0] in GROUPS and not _is_command_itself(arguments):
        return _run_in_group(arguments[0], arguments[1:])
    if arguments[0] == "restore" and _names_backup(arguments[1:]):
        return _run_command(COMMANDS["backup restore"], arguments[1:])
    operation = COMMANDS.get(arguments[0])
    if operation is None:
        return _run_former(arguments)
    return _run_command(operation, arguments[1:])


def _is_command_itself(arguments: list[str]) -> bool:
    """`recollect backup PLACE` is a command; `recollect backup list` is one of the group of the same name."""
    verb = " ".join(_command_first(arguments[1:])[:1])
    return arguments[0] in COMMANDS and f"{arguments[0]} {verb}" not in COMMANDS


def _names_backup(arguments: list[str]) -> bool:
    """`recollect restore` restores a forgotten memory by its id, or a store from a backup."""
    first = "".join(_command_first(arguments)[:1])
    return "://" in first or os.path.exists(os.path.expanduser(first)) or "--to" in arguments


def _run_former(arguments: list[str]) -> int:
    """A command by the name it had one version ago, as in `recollect remove user ID`."""
    former = next((one for one in FORMER_NAMES.values() if one.command == arguments[0]), None)
    if former is None:
        return _unknown(arguments[0], COMMANDS)
    type = next((one for one in arguments if one in former.types), None)
    if former.types and type is None:
        today = ", ".join(f"recollect {operation.command}" for operation in former.operations)
        print(f"error: '{former.command}' was renamed (use {today})", file=sys.stderr)
        return 2
    left = arguments[1:]
    if type is not None:
        left.remove(type)
    operation = former.today({"type": type})[0]
    print(f"note: '{former.command}' is deprecated, use 'recollect {operation.command}'", file=sys.stderr)
    return _run_command(operation, left)


def _run_in_group(group: str, arguments: list[str]) -> int:
    """The commands of a group, as in `recollect run show`."""
    arguments = _command_first(arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"Usage: recollect {group} COMMAND [OPTIONS]\n\n{GROUPS[group]}\n")
        _list_commands([name for name, operation in COMMANDS.items() if operation.group == group])
        return 0
    if arguments[0].startswith("-"):
        return _no_command(arguments, f"{group} ")
    operation = COMMANDS.get(f"{group} {arguments[0]}")
    if operation is None and any(one.command == f"{group} {arguments[0]}" for one in FORMER_NAMES.values()):
        return _run_former([f"{group} {arguments[0]}", *arguments[1:]])
    if operation is None:
        return _unknown(f"{group} {arguments[0]}", COMMANDS)
    return _run_command(operation, arguments[1:])


def _command_first(arguments: list[str]) -> list[str]:
    """`recollect --store x list` means `recollect list --store x`."""
    leading: list[str] = []
    while arguments and arguments[0].partition("=")[0] in LEADING:
        width = 1 if arguments[0] in SWITCHES or "=" in arguments[0] else 2
        leading, arguments = leading + arguments[:width], arguments[width:]
    return [*arguments, *leading]


def _show_help() -> int:
    print("Usage: recollect COMMAND [OPTIONS]\n\nThe memory of AI agents.\n")
    for title, names in HEADINGS.items():
        print(f"{title}:")
        _list_commands(names.split())
        print()
    print("`recollect COMMAND --help` shows the options of a command. The store is recollect.db in the current folder;")
    print("--store or $RECOLLECT_STORE names another one, a service (https://…) or a YAML file with settings.")
    print(f"Ids may be given by their beginning. The documentation: {DOCS_URL}")
    return 0


def _list_commands(names: Sequence[str]) -> None:
    width = max(map(len, names), default=0)
    for name in names:
        print(f"  {name:{max(width, 12)}} {GROUPS[name] if name in GROUPS else COMMANDS[name].summary}")


def _no_command(arguments: list[str], group: str = "") -> int:
    """An option stands where the command should: it is unknown, has no value, or is all there is."""
    from difflib import get_close_matches

    option, see = arguments[0].partition("=")[0], f"see recollect {group}--help"
    last, with_value = arguments[-1], set(LEADING) - set(SWITCHES)
    if option not in LEADING:
        near = get_close_matches(option, [*LEADING, "--help", "--version"], n=1)
        hint = f"did you mean {near[0]}?" if near else f"options of a command come after it; {see}"
        print(f"error: there is no option '{option}' ({hint})", file=sys.stderr)
    elif last in LEADING and last not in SWITCHES and (len(arguments) < 2 or arguments[-2] not in with_value):
        print(f"error: {last} needs a value (write recollect {group}COMMAND {last} VALUE)", file=sys.stderr)
    else:
        print(f"error: no command was given ({see})", file=sys.stderr)
    return 2


def _unknown(name: str, known: Iterable[str]) -> int:
    near = meant(name, [*known, *GROUPS])
    hint = f"did you mean {near}?" if near else "see recollect --help"
    print(f"error: there is no command '{name}' ({hint})", file=sys.stderr)
    return 2


def _in_place(operation: Operation, arguments: list[str]) -> list[str]:
    """`show --id ID` means `show ID`: what has a place may also be given by its name."""
    left, named = list(arguments), dict[str, str]()
    for field in operation.positional:
        flag = f"--{field.replace('_', '-')}"
        for at, given in enumerate(left):
            name, joined, value = given.partition("=")
            if name == flag and (joined or at + 1 < len(left)):
                named[field] = value if joined else left[at + 1]
                del left[at : at + (1 if joined else 2)]
                break
    first: list[str] = []
    for field in operation.positional:
        if field not in named:
            break
        first.append(named.pop(field))
    return [*first, *left, *named.values()]


def _epilog(operation: Operation) -> str:
    anchor = operation.command.replace(" ", "-")
    page = f"\b\nDocumentation:\n{DOCS_URL}reference/cli.html#{anchor}"  # the first mark keeps an address in one piece
    return f"{ALSO[operation.name]}\n\n{page}" if operation.name in ALSO else page


def _run_command(operation: Operation, arguments: list[str]) -> int:
    if not isinstance(operation, Program) or operation.name == "hook":
        # pydantic would look through all installed packages for plugins of its own; no single command needs one.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    import typer

    from recollect.errors import RecollectError
    from recollect.interfaces.cli.arguments import command_function
    from recollect.interfaces.cli.problems import exit_code, print_error

    as_json = "--json" in arguments
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    arguments = _in_place(operation, arguments)
    function = command_function(operation, arguments)
    app.command(operation.command, help=operation.summary, epilog=_epilog(operation))(function)
    try:
        # Exit codes come back as values, so that nothing but our own lines reaches the terminal.
        code = app(arguments, prog_name=f"recollect {operation.command}", standalone_mode=False)
        return int(code or 0)
    except RecollectError as error:
        print_error(error, as_json)
        return exit_code(error)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the process edge: a person gets a line, not a traceback
        return _print_unexpected(error, as_json)


def _print_unexpected(error: Exception, as_json: bool) -> int:
    from recollect.errors import InvalidInput, RecollectError
    from recollect.interfaces.cli.problems import print_error

    shown = getattr(error, "format_message", None)
    if callable(shown):  # the argument parser's own complaints
        print_error(InvalidInput(str(shown()), remedy="see --help"), as_json)
        return 2
    if os.environ.get("RECOLLECT_DEBUG"):
        raise error
    print_error(
        RecollectError(f"internal error: {type(error).__name__}", remedy="run again with RECOLLECT_DEBUG=1"), as_json
    )
    return 1
