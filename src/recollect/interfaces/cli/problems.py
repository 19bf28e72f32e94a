"""A problem on the command line: its message and remedy for people, all of it for programs, and the exit code."""

from __future__ import annotations

import json
import sys

from recollect.errors import InvalidInput, RecollectError


def exit_code(error: RecollectError) -> int:
    return 2 if isinstance(error, InvalidInput) else 1


def print_error(error: RecollectError, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"error": error.as_dict()}, ensure_ascii=False, default=str), file=sys.stderr)
        return
    print(f"error: {error.message}", file=sys.stderr)
    if error.remedy:
        print(f"       {error.remedy}", file=sys.stderr)
