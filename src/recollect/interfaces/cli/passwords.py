"""Passwords on the command line: asked for without echo, or a line of standard input; never an argument by need.

What is given as an argument stays in the history of the shell, and others see it in the list of processes.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Mapping
from typing import Any

from recollect.catalogue import Operation
from recollect.errors import InvalidInput
from recollect.interfaces.cli.commands import PASSWORDS

ASK = "-"


def with_passwords(operation: Operation, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with the passwords that are to be asked for: those given as `-`, and required ones not given."""
    asked = dict(given)
    for name in PASSWORDS:
        field = operation.request.model_fields.get(name)
        if field is not None and (asked.get(name) == ASK or (field.is_required() and asked.get(name) is None)):
            is_new = name == "new_password" or not field.is_required()
            asked[name] = _asked("New password" if is_new else "Password", twice=is_new)
    return asked


def _asked(prompt: str, *, twice: bool) -> str:
    if not sys.stdin.isatty():
        line = sys.stdin.readline().rstrip("\r\n")
        if not line:
            raise InvalidInput(
                f"no {prompt.lower()} was given", remedy="write it to standard input, a line for each password"
            )
        return line
    given = getpass.getpass(f"{prompt}: ")
    if twice and getpass.getpass("The same again: ") != given:
        raise InvalidInput("the two are not the same", remedy="try again; nothing was changed")
    return given
