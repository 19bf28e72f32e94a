"""Ids by their beginning: `recollect show 01a1eb70` is the one memory whose id begins so.

Promise: only what the caller may see is looked at, by what the caller may do: in an open store the records of the
organization, over a service what its lists show. One that fits is taken, several are named, none is left as it was
given, and the operation says that there is no such thing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from recollect.catalogue import Operation
from recollect.errors import InvalidInput, RecollectError

if TYPE_CHECKING:
    from recollect.interfaces.client import Recollect

_BEGINNING = re.compile(r"[0-9a-f]{4,8}|[0-9a-f]{8}-[0-9a-f-]{0,26}")
MOST_NAMED = 10
MOST_LISTED = 1000  # of a service, the newest


class _Kind(NamedTuple):
    table: str
    lists: str
    """The operation that lists them."""
    name: str = "name"


_MEMORY = _Kind("memory", "list", "text")
_KINDS = {
    **dict.fromkeys(("", "tag", "embedding", "relations", "pattern", "summary"), _MEMORY),
    "user": _Kind("user", "user.list"),
    "agent": _Kind("agent", "agent.list"),
    "session": _Kind("session", "session.list", "title"),
    "project": _Kind("project", "project.list"),
    "run": _Kind("execution", "run.list", "goal"),
    "message": _Kind("message", "message.list", "text"),
    "block": _Kind("block", "block.list", "label"),
    "tool": _Kind("tool", "tool.list"),
    "workspace": _Kind("workspace", "workspace.list"),
    "source": _Kind("source", "source.list"),
    "connection": _Kind("connection", "connection.list"),
    "key": _Kind("api_key", "key.list"),
    "query": _Kind("query_run", "query.list", "question"),
    "hold": _Kind("legal_hold", "hold.list"),
    "retention": _Kind("retention_rule", "retention.list"),
    "cold": _Kind("cold_archive", "cold.list"),
    "backup": _Kind("backup", "backup.list"),
}


_OWN: tuple[str, ...] = ("id", "run")
_OWNERS: tuple[str, ...] = ("agent", "user", "session")


def with_whole_ids(mem: Recollect, operation: Operation, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with whole ids where a beginning was given that fits one."""
    kinds = _kinds_of(operation)
    whole = dict(fields)
    for name, kind in kinds.items():
        value = fields.get(name)
        if isinstance(value, list):
            whole[name] = [_whole(mem, kind, one) for one in value]
        elif isinstance(value, str):
            whole[name] = _whole(mem, kind, value)
    return whole


def _kinds_of(operation: Operation) -> dict[str, _Kind]:
    """Which arguments with a place are ids, and of what."""
    kinds: dict[str, _Kind] = {name: _KINDS[name] for name in _OWNERS if name in operation.positional}
    kind = _KINDS.get(operation.group)
    if kind is not None:
        kinds |= {name: kind for name in _OWN if name in operation.positional}
    if operation.name in ("relate", "unrelate", "merge"):
        kinds |= dict.fromkeys(("to", "others"), _MEMORY)
    if operation.name.startswith("relations"):
        kinds["of"] = _MEMORY
    if operation.name == "episode.from_run":
        kinds["run"] = _KINDS["run"]
    return kinds


def _whole(mem: Recollect, kind: _Kind, given: str) -> str:
    if not isinstance(given, str) or not _BEGINNING.fullmatch(given.lower()):
        return given
    found = _candidates(mem, kind, given.lower())
    if given in found:
        return given
    if len(found) > 1:
        named = "; ".join(f"{id} {text}".rstrip() for id, text in list(found.items())[:MOST_NAMED])
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        raise InvalidInput(f"several ids begin with '{given}'", remedy=f"give more of one of them: {named}{more}")
    return next(iter(found), given)


def _candidates(mem: Recollect, kind: _Kind, beginning: str) -> dict[str, str]:
    """What begins so, with a few words about each."""
    if hasattr(mem, "exchange"):
        return _listed(mem, kind, beginning)
    from recollect.domain.record import RECORDS
    from recollect.ports.query import Compare, Query

    record = RECORDS[kind.table]
    within = (Compare("id", ">=", beginning), Compare("id", "<", beginning + "g"))
    query = Query(record, within, limit=MOST_NAMED + 1, deleted="yes")  # what is to be restored, too
    return {one.id: _about(one, kind) for one in mem._tenant.find(query).records}


def _listed(mem: Recollect, kind: _Kind, beginning: str) -> dict[str, str]:
    """Over a service: of the newest that its list shows."""
    found: dict[str, str] = {}
    seen, after = 0, None
    while seen < MOST_LISTED:
        try:
            page = mem.call(kind.lists, **({"after": after} if after else {}))
        except RecollectError:  # who may not list them must give whole ids
            return {}
        rows = _rows(page)
        seen += len(rows)
        found |= {row.id: _about(row, kind) for row in rows if str(row.id).startswith(beginning)}
        after = getattr(page, "next", None)
        if not after or not rows:
            break
    return found


def _rows(page: Any) -> list[Any]:
    lists: Iterable[Any] = (getattr(page, name) for name in type(page).model_fields)
    return next((one for one in lists if isinstance(one, list) and one and hasattr(one[0], "id")), [])


def _about(record: Any, kind: _Kind) -> str:
    text = str(getattr(record, kind.name, "") or "").replace("\n", " ")
    return text if len(text) <= 40 else text[:39] + "…"
