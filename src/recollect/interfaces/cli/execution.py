"""Running a command: on an open store or on its own, with the reply for people or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.catalogue import Operation, validated
from recollect.interfaces.cli.arguments import fields_of
from recollect.interfaces.cli.commands import BEGINNING

if TYPE_CHECKING:
    from recollect.interfaces.cli.render.replies import Renderer
    from recollect.services.admin.removal import Removal
    from recollect.services.requests import Reply


def execute(
    operation: Operation, given: dict[str, str | None], store: str | None, organization: str | None, actor: str | None,
    as_json: bool, yes: bool = False,
) -> int:  # fmt: skip
    from recollect.app import open_for_command
    from recollect.interfaces.cli.render.replies import Renderer

    fields = fields_of(operation, given)
    validated(operation, fields)  # a wrong request is wrong wherever the store is
    if operation.name == "import_":
        _expect_file(fields["path"])
    begins = operation.name in BEGINNING
    makes = begins or operation.permission == "write"
    with open_for_command(store, organization, actor, create=begins, create_organization=makes) as mem:
        renderer = Renderer(mem.timezone)
        if operation.needs_confirmation and not yes and not fields.get("dry_run"):
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


def _ask(renderer: Renderer, operation: Operation, preview: Removal, fields: Mapping[str, object]) -> None:
    """Show a person what would be done, and wait for a yes. A program is not asked, but must mean what is final."""
    from recollect.errors import InvalidInput

    if sys.stdin.isatty():
        if not preview.refused:
            renderer.show(operation, preview)
            print("Continue? [y/N] ", end="", file=sys.stderr, flush=True)
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                raise KeyboardInterrupt
    elif fields.get("for_good"):
        raise InvalidInput("this needs a confirmation", remedy="look with --dry-run first, then repeat it with --yes")


def start(program: Operation, given: dict[str, str | None], as_json: bool, store: str | None = None) -> int:
    from recollect.errors import InvalidInput
    from recollect.interfaces.cli.render.replies import Renderer

    if store is not None:
        if (named := given.get("settings")) is not None:
            raise InvalidInput("two stores were given", remedy=f"give '{named[:80]}' or --store, not both")
        given["settings"] = store
    request, renderer = validated(program, fields_of(program, given)), Renderer()
    with renderer.progress(program.summary, shown=program.progress and not as_json) as progress:
        reply = program.function(request, progress)
    if reply is None:  # it has said all it had to say
        return 0
    return _answer(renderer, program, reply, as_json)


def _answer(renderer: Renderer, operation: Operation, reply: Reply, as_json: bool) -> int:
    if as_json:
        print(reply.model_dump_json(indent=1))
    else:
        renderer.show(operation, reply)
    return 1 if _found_trouble(reply) else 0


def _found_trouble(reply: Reply) -> bool:
    """Checks end with 1 when they find something, so that a script or a CI job can tell."""
    if getattr(reply, "broken", 0):
        return True
    return not getattr(reply, "well", getattr(reply, "sound", True))
