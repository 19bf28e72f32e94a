"""Every way in, as one function each: the same operation with the same fields, and what it says, as JSON.

Over all of them the caller is the organization `mine`, with every right it can have.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from recollect.catalogue import Operation
from recollect.errors import RecollectError
from recollect.interfaces.cli.arguments import option_name, shape_of
from recollect.interfaces.cli.commands import HIDDEN
from recollect.interfaces.cli.main import run
from recollect.interfaces.mcp.tools import offered
from recollect.interfaces.remote_exchange import wired

Fields = dict[str, Any]


def over_http(world: Any, operation: Operation, fields: Fields) -> Any:
    method, path, body = wired(operation, dict(fields))
    headers = {"content-type": "application/json", "authorization": f"Bearer {world.key()}"}
    answer = world.http.request(method, path, content=body, headers=headers)
    assert answer.status_code < 500, answer.text
    return answer.status_code, answer.json()


def in_process(world: Any, operation: Operation, fields: Fields) -> Any:
    return _told(lambda: world.mine.call(operation.name, **fields))


def by_remote_client(world: Any, operation: Operation, fields: Fields) -> Any:
    return _told(lambda: world.remote.call(operation.name, **fields))


def over_mcp(world: Any, operation: Operation, fields: Fields) -> Any:
    return world.tool(world.key(), operation.name, fields)


def over_stdio(world: Any, operation: Operation, fields: Fields) -> Any:
    answer = world.stdio.call(operation.name.replace(".", "_"), fields)
    return answer.structured_content["error"] if answer.is_error else answer.structured_content


def by_command(world: Any, operation: Operation, fields: Fields) -> Any:
    said, complained = io.StringIO(), io.StringIO()
    with redirect_stdout(said), redirect_stderr(complained):
        code = run(
            [*operation.command.split(), "--store", str(world.settings), "--json", *_arguments(operation, fields)]
        )
    return code, json.loads(said.getvalue() or complained.getvalue() or "null")


def _arguments(operation: Operation, fields: Fields) -> list[str]:
    made = ["--yes"] if operation.needs_confirmation else []
    for name, value in fields.items():
        field = operation.request.model_fields[name]
        kind = shape_of(field.annotation)[0]
        flag = "--" + ("cite" if name == "cites" else option_name(name, kind).replace("_", "-"))
        if isinstance(value, bool):
            made += [flag] if value else [f"--no-{flag[2:]}"] if field.default is not False else []
        elif name not in operation.positional:
            made += [part for one in _words(value) for part in (flag, one)]
    return [*made, "--", *(word for name in operation.positional if name in fields for word in _words(fields[name]))]


def _words(value: Any) -> list[str]:
    if isinstance(value, list):
        return [one if isinstance(one, str) else json.dumps(one) for one in value]
    if isinstance(value, dict):
        return [f"{name}={one if isinstance(one, str) else json.dumps(one)}" for name, one in value.items()]
    return [str(value)]


def _told(work: Callable[[], Any]) -> Any:
    try:
        return work().model_dump(mode="json")
    except RecollectError as error:
        return error.as_dict()


Door = Callable[[Any, Operation, Fields], Any]
_TOOLS = {tool.operation.name for tool in offered("all").values()}
DOORS: tuple[Door, ...] = (over_http, in_process, over_mcp, by_command, by_remote_client, over_stdio)


def doors_of(operation: Operation, fields: Fields) -> list[Door]:
    """The doors that an operation has, and that can say these fields."""
    shut = set()
    if operation.name not in _TOOLS:
        shut |= {over_mcp, over_stdio}
    if operation.group == "organization":
        shut |= {in_process, by_command}  # who opens the store reaches every organization in it
    typed = [isinstance(value, dict | list) and _is_nested(value) for value in fields.values()]
    if operation.name in HIDDEN or any(typed) or "vector" in fields:
        shut |= {by_command}
    return [door for door in DOORS if door not in shut]


def _is_nested(value: Any) -> bool:
    """What the command line has no words for."""
    inner = value.values() if isinstance(value, dict) else value
    return any(isinstance(one, dict | list) for one in inner)
