"""`recollect hook EVENT`: what a coding agent calls at the start of a session, at a prompt and when it stops.

The host gives the event as JSON on standard input and reads JSON from standard output. A hook must never get in the way
of its host: whatever goes wrong is said on standard error and the answer is empty, with exit code 0 (`--strict` turns
that off), and it gives up before the host would. What it says is bounded in tokens, and memories in it are framed as
evidence, not as instructions.

- session-start: facts whose cited files changed since the last session are checked again; what is known of the
  project comes first, and what no longer holds.
- prompt: the memories that answer it, if any do.
- stop: what the user said of themselves, decided and planned in this session is proposed as hypotheses.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from recollect.errors import InvalidInput, NotFound, RecollectError
from recollect.interfaces.hosts.places import here, made_folder_of, users_store
from recollect.services.requests import Request

if TYPE_CHECKING:
    from recollect.app.repositories import Checkout
    from recollect.interfaces.client import Recollect

EVENTS = {"session-start": "SessionStart", "prompt": "UserPromptSubmit", "stop": "Stop"}
SECONDS = {"session-start": 10.0, "prompt": 6.0, "stop": 25.0}
CHECK_SECONDS = 3.0
MOST_INPUT = 20_000_000
LONGEST_QUESTION = 2_000
NEWEST = 40
AT_PROMPT = 6
MOST_FILES = 300
SEEN = ["recollect", "hooks", "seen"]
"""The namespace of the commit that each checkout was at when it was last looked at."""


class HookRequest(Request):
    """An event of a host."""

    event: Literal["session-start", "prompt", "stop"] = Field(description="session-start, prompt or stop")
    host: Literal["claude-code", "codex", "gemini", "cursor", "vscode"] = Field(
        "claude-code", description="Whose event it is: claude-code, codex, gemini, cursor or vscode"
    )
    store: str | None = Field(None, description="The store; by default one for all your projects")
    project: str | None = Field(None, description="The project; by default the git repository")
    tokens: int = Field(800, ge=50, le=20_000, description="The most tokens to answer with")
    seconds: float | None = Field(None, gt=0, le=600, description="Give up after so many seconds")
    strict: bool = Field(False, description="Fail if something goes wrong, instead of answering nothing")


def hook(request: HookRequest, progress: object = None) -> None:
    """Answer an event of a coding agent."""
    watch = threading.Timer(request.seconds or SECONDS[request.event], _give_up)
    watch.daemon = True
    watch.start()
    try:
        answer = _answered(request, _given())
    except Exception as error:
        if request.strict:
            raise
        told = f"{error.message} ({error.remedy})" if isinstance(error, RecollectError) else type(error).__name__
        print(f"recollect: {told}", file=sys.stderr)
        answer = {}
    watch.cancel()
    print(json.dumps(answer, ensure_ascii=True))


def _give_up() -> None:
    """From another thread, whatever the first one waits for: a store that is locked, a slow disk."""
    sys.stderr.write("recollect: gave up waiting\n")
    sys.stderr.flush()
    os.write(1, b"{}\n")
    os._exit(0)


def _given() -> Mapping[str, Any]:
    text = "" if sys.stdin.isatty() else sys.stdin.read(MOST_INPUT)
    try:
        given = json.loads(text or "{}")
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise InvalidInput("the event is not a JSON object", remedy="a host gives it on standard input")
    return given


def _answered(request: HookRequest, given: Mapping[str, Any]) -> dict[str, Any]:
    checkout = here(_folder(given))
    project = request.project or checkout.project
    if request.event == "stop":
        from recollect.interfaces.hosts.learning import learned

        return learned(request, given, project)
    question = _text(given, "prompt")[:LONGEST_QUESTION].strip()
    if request.event == "prompt" and (not question or question.startswith("/")):
        return {}
    try:
        with opened(request.store, only_reads=request.event == "prompt") as mem:
            if request.event == "prompt":
                return _in_context(request, given, _about(mem, question, project, request.tokens))
            return _in_context(request, given, _beginning(mem, checkout, project, request.tokens))
    except NotFound:  # no store yet: nothing is known
        return {}


def _folder(given: Mapping[str, Any]) -> Path:
    """Where the host works: as it says, or as it was started."""
    roots = given.get("workspace_roots")
    told = given.get("cwd") or (roots[0] if isinstance(roots, list) and roots else None)
    folder = Path(told) if isinstance(told, str) and told else Path.cwd()
    return folder if folder.is_dir() else Path.cwd()


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""


def opened(store: str | None, *, only_reads: bool = False, create: bool = False) -> Recollect:
    from recollect.app import open_for_command

    place = users_store(store)
    if create:
        made_folder_of(place)
    return open_for_command(place, None, None, create=create, create_organization=create, only_reads=only_reads)


def _about(mem: Recollect, question: str, project: str, tokens: int) -> str:
    """The memories that answer; nothing where none does, since a host calls this at every prompt."""
    found = mem.recall(question, project=project, limit=AT_PROMPT)
    return (
        _framed(((hit.id, hit.status, hit.occurred_at, hit.text) for hit in found.hits), tokens)
        if found.answered
        else ""
    )


def _beginning(mem: Recollect, checkout: Checkout, project: str, tokens: int) -> str:
    broken = _checked(mem, checkout)
    page = mem.list(project=project, limit=NEWEST)
    trusted = sorted(page.memories, key=lambda line: line.status == "hypothesis")
    gone = {line.id for line in broken}
    parts = [(line.id, "no longer holds", line.occurred_at, line.text) for line in broken]
    parts += [(line.id, line.status, line.occurred_at, line.text) for line in trusted if line.id not in gone]
    known = _framed(parts, tokens)
    if not known:
        return ""
    return f"Project {_one_line(project)}: memories are found with the tools of the MCP server recollect.\n{known}"


def _checked(mem: Recollect, checkout: Checkout) -> list[Any]:
    """Check what cites a file that changed since this checkout was last looked at; what broke, as lines of a list."""
    if checkout.head is None:
        return []
    key = str(checkout.root)
    seen = mem.call("item.get", namespace=SEEN, key=key).item
    before = (seen.value or {}).get("head") if seen is not None else None
    if before == checkout.head:
        return []
    demoted: list[str] = []
    if isinstance(before, str):
        deadline = time.monotonic() + CHECK_SECONDS
        for source in _cited_among(mem, checkout, checkout.changed_since(before)):
            demoted += mem.check(source=source).demoted
            if time.monotonic() > deadline:
                break
    mem.call("item.put", namespace=SEEN, key=key, value={"head": checkout.head}, texts={})
    return [mem.show(id) for id in dict.fromkeys(demoted)]


def _cited_among(mem: Recollect, checkout: Checkout, changed: Sequence[str] | None) -> Iterator[str]:
    """The sources to look at again: of few files each, of many or unknown ones those that are cited in this folder."""
    if changed is not None and len(changed) <= MOST_FILES:
        yield from (f"file:{checkout.root / path}" for path in changed)
        return
    wanted = None if changed is None else {f"file:{checkout.root / path}" for path in changed}
    after, told = None, set[str]()
    while True:
        page = mem.call("citation.list", limit=1000, after=after)
        for line in page.citations:
            inside = line.source.startswith(f"file:{checkout.root}{os.sep}")
            if inside and line.source not in told and (wanted is None or line.source in wanted):
                told.add(line.source)
                yield line.source
        after = page.next
        if after is None:
            return


def _framed(memories: Any, tokens: int) -> str:
    """Between marks that no text of a memory can forge, as many as fit; without secrets."""
    from recollect.domain.text.secrets import without_secrets
    from recollect.services.recall.context import FOOTER, HEADER, harmless, tokens_in

    room, lines = tokens - tokens_in(HEADER + FOOTER) - 40, list[str]()
    for id, status, at, text in memories:
        line = f"[{_one_line(id)} {status} {str(at)[:10]}] {harmless(without_secrets(_cut(text)))}\n"
        if tokens_in(line) > room:
            continue
        room -= tokens_in(line)
        lines.append(line)
    return HEADER + "".join(lines) + FOOTER if lines else ""


def _cut(text: str, most: int = 600) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()} … (read on with the tool show)"


def _one_line(text: str) -> str:
    return " ".join(text.replace("<", "‹").replace(">", "›").split())


def _in_context(request: HookRequest, given: Mapping[str, Any], text: str) -> dict[str, Any]:
    """As each host takes what is added to its context."""
    if not text:
        return {}
    if request.host == "cursor":
        return {"additional_context": text}
    name = _text(given, "hook_event_name") or EVENTS[request.event]
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}
