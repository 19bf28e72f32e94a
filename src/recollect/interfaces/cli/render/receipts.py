"""What was written, in one line: `remembered 01a1… · hypothesis`. All of it is shown with --verbose."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from recollect.catalogue import Operation
from recollect.domain.text.shown import clean
from recollect.services.requests import Reply

_PAST = {
    "forget": "forgot", "forget_many": "forgot", "set": "set", "put": "put", "put_many": "put", "write": "wrote",
    "tag": "tagged", "cite": "cited", "uncite": "removed a citation of", "relate": "linked", "unrelate": "unlinked",
    "undo": "undid", "roll_back": "rolled back", "roll_up": "rolled up", "drop": "dropped", "prune": "pruned",
    "remove_file": "removed a file of", "add_member": "added a member to", "remove_member": "removed a member from",
    "export": "exported", "move": "moved in", "pop": "popped", "end": "ended",
    "change_password": "changed the password",
    "save_search": "saved a search", "remove_search": "removed a search", "in_context": "changed the context of",
    "apply": "applied", "copy": "copied", "plan": "planned", "begin": "began", "sweep": "swept", "make": "made",
    "replace": "replaced in", "append": "appended to", "rewrap": "rewrapped", "verify": "verified",
    "cancel": "cancelled",
}  # fmt: skip
_NAMES = ("name", "title", "label", "goal", "path")
_PARTS = ("role", "kind", "status")
_COUNTS = ("tags", "citations", "links")
_PLAIN = {*_NAMES, *_PARTS, *_COUNTS, "id", "version", "duplicate", "notes"}
LONGEST_NAME = 60


def line_of(operation: Operation, reply: BaseModel) -> str:
    """One line for what an operation wrote."""
    values = reply.model_dump(mode="json", exclude=set(Reply.model_fields))
    id = values.get("id") or values.get("run")
    if not isinstance(id, str):
        counted = [f"{name.replace('_', ' ')} {_short(value)}" for name, value in values.items() if _is_told(value)]
        return " · ".join([f"{_past(operation.verb)} {operation.group}".rstrip(), *(counted or ["nothing to do"])])
    what = f"{operation.group} " if operation.group not in ("", "tag", "embedding") else ""
    return " · ".join([f"{_past(operation.verb)} {what}{id}", *_details(values)])


def _past(verb: str) -> str:
    verb = verb.rstrip("_")
    if verb in _PAST:
        return _PAST[verb]
    first, _, rest = verb.partition("_")
    if first.endswith("e"):
        past = f"{first}d"
    elif first.endswith("y") and first[-2] not in "aeiou":
        past = f"{first[:-1]}ied"
    else:
        past = f"{first}ed"
    return f"{past} {rest.replace('_', ' ')}".rstrip()


def _details(values: dict[str, object]) -> Iterator[str]:
    if values.get("duplicate"):
        yield "known already"
    name = next((str(values[one]) for one in _NAMES if values.get(one)), "")
    if name and name != values.get("id"):
        yield _short(name)
    yield from (str(values[one]) for one in _PARTS if isinstance(values.get(one), str) and values[one])
    for one in _COUNTS:
        if isinstance(count := values.get(one), int) and count:
            yield f"{count} {one if count > 1 else one.removesuffix('s')}"
        elif isinstance(count, list) and count:
            yield ", ".join(map(str, count))
    if isinstance(version := values.get("version"), int) and version > 1:
        yield f"version {version}"


def _is_told(value: object) -> bool:
    return value not in (None, "", [], {}, 0, False) and not isinstance(value, dict)


def _short(value: object) -> str:
    text = clean(str(len(value)) if isinstance(value, list) else str(value))
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"
