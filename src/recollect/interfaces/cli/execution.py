"""Running a command: on an open store or on its own, with the reply for people or as JSON."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recollect.catalogue import Operation, validated
from recollect.errors import InvalidInput, InvalidSettings, RecollectError
from recollect.interfaces.cli.arguments import fields_of
from recollect.interfaces.cli.commands import BEGINNING, IDS, PASSWORDS, REPEATED
from recollect.interfaces.cli.problems import exit_code, print_error
from recollect.settings_files import is_service

if TYPE_CHECKING:
    from recollect.interfaces.cli.render.replies import Renderer
    from recollect.interfaces.client import Recollect
    from recollect.services.admin.bulk_changes import BulkReply
    from recollect.services.admin.removal import Removal
    from recollect.services.privacy.erase import ErasureReply
    from recollect.services.requests import Reply


def execute(
    operation: Operation, given: dict[str, Any], store: str | None, organization: str | None, actor: str | None,
    as_json: bool, profile: str | None = None, readonly: bool = False, verbose: bool = False, yes: bool = False,
    lines: bool = False, **result_files: str | None,
) -> int:  # fmt: skip
    from recollect.app import open_for_command
    from recollect.interfaces.cli.render.replies import Renderer

    given = _with_passwords(operation, given)
    requests = [fields_of(operation, one) for one in _requests(operation, given)]
    for fields in [{**one, "content": "a line"} for one in requests] if lines else requests:
        validated(operation, fields)  # a wrong request is wrong wherever the store is
    if operation.name == "import_":
        _expect_file(requests[0]["path"], also_folder="source" in requests[0])
    _expect_files_to_be_saved(result_files)
    begins = operation.name in BEGINNING
    makes = begins or operation.permission == "write"
    only_reads = operation.permission == "read"
    which = {"create": begins, "create_organization": makes, "only_reads": only_reads}
    with open_for_command(store, organization, actor, profile=profile, readonly=readonly or None, **which) as mem:
        gc.enable()  # all is imported: see main.py
        renderer = Renderer(mem.shown_zone, verbose=verbose)
        if lines:
            return _remember_lines(mem, renderer, requests[0], as_json)
        requests = [_with_whole_ids(mem, operation, one) for one in requests]
        if len(requests) > 1:
            return _for_each(mem, renderer, operation, requests, as_json)
        fields = requests[0]
        if operation.needs_confirmation and not yes and not fields.get("dry_run"):
            _ask(renderer, operation, mem.call(operation.name, **fields, dry_run=True), fields)
        with renderer.progress(operation.summary, shown=operation.progress and not as_json) as progress:
            reply = mem.call(operation.name, progress=progress, **fields)
        code = _answer(renderer, operation, reply, as_json)
        _save(mem, renderer, reply, **result_files)
    return code


def _remember_lines(mem: Recollect, renderer: Renderer, fields: dict[str, Any], as_json: bool) -> int:
    from recollect.interfaces.cli.lines import remember_lines

    return remember_lines(mem, renderer, fields, as_json)


def _with_passwords(operation: Operation, given: dict[str, Any]) -> dict[str, Any]:
    if not operation.request.model_fields.keys() & set(PASSWORDS):
        return given
    from recollect.interfaces.cli.passwords import with_passwords

    return with_passwords(operation, given)


def _with_whole_ids(mem: Recollect, operation: Operation, fields: dict[str, Any]) -> dict[str, Any]:
    if not IDS.intersection(operation.positional):
        return fields
    from recollect.interfaces.cli.short_ids import with_whole_ids

    return with_whole_ids(mem, operation, fields)


def _requests(operation: Operation, given: dict[str, Any]) -> list[dict[str, Any]]:
    """One request; of a command that takes several of an argument, one for each."""
    if operation.name not in REPEATED:
        return [given]
    name, _ = REPEATED[operation.name]
    return [{**given, name: one} for one in given[name] or [None]]


def _for_each(
    mem: Recollect, renderer: Renderer, operation: Operation, requests: list[dict[str, Any]], as_json: bool
) -> int:
    """One after the other, each with its own progress; what fails is said, and the others are done all the same."""
    (name, shown_by), replies, code = REPEATED[operation.name], [], 0
    for fields in requests:
        try:
            with renderer.progress(fields[name], shown=operation.progress and not as_json) as progress:
                reply = mem.call(operation.name, progress=progress, **fields)
        except RecollectError as error:
            error.message = f"{fields[name]}: {error.message}"
            print_error(error, as_json)
            code = code or exit_code(error)
            continue
        replies.append(reply)
    if as_json:
        print(f"[{', '.join(reply.model_dump_json(indent=1) for reply in replies)}]")
        return code
    for reply in replies:
        renderer.show(operation, mem.call(shown_by, id=reply.id))
        renderer.notes(reply.notes)
        print()
    return code


def _expect_files_to_be_saved(files: Mapping[str, str | None]) -> None:
    """Before anything is run for them."""
    if files.get("format") and not files.get("out"):
        raise InvalidInput("--format says how to save the rows, but not where", remedy="name the file with --out FILE")
    for name in ("out", "chart"):
        path = files.get(name)
        if path and not Path(path).expanduser().absolute().parent.is_dir():
            raise InvalidInput(f"there is no folder for '{path}'", remedy="make the folder first, or give another path")


def _save(
    mem: Recollect, renderer: Renderer, reply: Reply, out: str | None = None,
    format: str | None = None, chart: str | None = None,
) -> None:  # fmt: skip
    """The rows and the chart of an answer as files."""
    run = getattr(reply, "run", None)
    if run is None:
        return
    if out:
        asked: dict[str, Any] = {"run": run, "path": out} | ({"format": format} if format else {})
        saved = mem.call("query.export", **asked)
        renderer.aside(f"saved {saved.rows:,} rows to {saved.path}")
    if chart:
        drawn = mem.call("query.chart", run=run, path=chart)
        if drawn.path is None:
            raise InvalidInput(f"there is no chart of this: {drawn.reason}", remedy="see recollect query chart --help")
        renderer.aside(f"saved the chart to {drawn.path}")


def _expect_file(path: str, also_folder: bool) -> None:
    """Before a store is made for what is in it."""
    place = Path(path).expanduser()
    if also_folder and place.is_dir():
        return
    try:
        place.open("rb").close()
    except OSError as error:
        raise InvalidInput(f"cannot read '{path}': {error.strerror}", remedy="give an exported file") from None


def _ask(
    renderer: Renderer, operation: Operation, preview: Removal | ErasureReply | BulkReply, fields: Mapping[str, object]
) -> None:
    """Show a person what would be done, and wait for a yes. A program is not asked, but must mean what is final."""
    from recollect.services.admin.bulk_changes import BulkReply
    from recollect.services.privacy.erase import ErasureReply

    if sys.stdin.isatty():
        if isinstance(preview, BulkReply) or not preview.refused:
            renderer.show(operation, preview)
            print("Continue? [y/N] ", end="", file=sys.stderr, flush=True)
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                raise KeyboardInterrupt
    elif fields.get("for_good") or isinstance(preview, ErasureReply) or operation.name == "erase_many":
        raise InvalidInput("this needs a confirmation", remedy="look with --dry-run first, then repeat it with --yes")


def start(program: Operation, given: dict[str, str | None], as_json: bool, store: str | None = None) -> int:
    from recollect.interfaces.cli.render.replies import Renderer

    if store is not None:
        if (named := given.get("settings")) is not None:
            raise InvalidInput("two stores were given", remedy=f"give '{named[:80]}' or --store, not both")
        given["settings"] = store
    _refuse_service(program, given)
    request, renderer = validated(program, fields_of(program, given)), Renderer()
    with renderer.progress(program.summary, shown=program.progress and not as_json) as progress:
        gc.enable()
        reply = program.function(request, progress)
    if reply is None:  # it has said all it had to say
        return 0
    return _answer(renderer, program, reply, as_json)


def _refuse_service(program: Operation, given: Mapping[str, object]) -> None:
    """These commands work on a store itself; a service is asked by the others."""
    named = next((one for one in given.values() if isinstance(one, str) and is_service(one)), None)
    if named is None or program.group == "config" or program.name == "ci":
        return
    here = "do it on the machine of the service, with the store that it serves"
    remedy = f"give your host the address {named.rstrip('/')}/mcp, or {here}" if program.name == "mcp" else here
    raise InvalidSettings(f"'{program.command}' needs a store itself, not a service", remedy=remedy)


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
