"""What Citus asks of a schema and of every statement, as a function that names the rules a statement breaks.

A cluster keeps each organization's rows on one machine. So every key, reference and condition names the organization;
what a cluster refuses (triggers, MERGE, moving a row to another organization, locking or recursive queries over all
machines) is refused here, long before anybody runs a cluster.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg

from recollect.adapters.postgres.connection import Database, is_for_one_server
from recollect.adapters.records.postgres.schema import BY_MONTH
from recollect.domain.record import RECORDS

TENANT_TABLES = (*RECORDS, "recollect_gone")
_TABLE = r'"?(' + "|".join(sorted(TENANT_TABLES, key=len, reverse=True)) + r')"?(?![\w"])'
_READ = re.compile(r"\b(?:FROM|JOIN)\s+" + _TABLE)
_TENANT = re.compile(r'(?:\w+\.)?"?organization_id"?\s*(?:=|,)\s*')
_FORBIDDEN = {
    r"\bMERGE\s+INTO\b": "MERGE",
    r"\bCREATE\s+(?:OR REPLACE\s+)?(?:CONSTRAINT\s+)?TRIGGER\b": "a trigger",
    r"\bset_config\s*\(": "set_config, which does not reach the workers",
    r"\bON\s+DELETE\s+SET\s+NULL\b": "ON DELETE SET NULL would empty the organization",
    r"\bTABLESAMPLE\b": "TABLESAMPLE",
    r"\bADD\s+(?:CONSTRAINT\s+\S+\s+)?FOREIGN\s+KEY\b": "a reference that is not declared with its table",
    r"\b(?:BIG)?SERIAL\b|\bGENERATED\s+\w+(?:\s+\w+)?\s+AS\s+IDENTITY\b": "a sequence of a table of its own",
}


def broken(statement: str, upkeep: bool = False) -> list[str]:
    """The rules that a statement breaks; `upkeep` may read across organizations."""
    text = " ".join(statement.split())
    found = [what for pattern, what in _FORBIDDEN.items() if re.search(pattern, text, re.IGNORECASE)]
    head = text.split(" ", 1)[0].upper()
    found += _CHECKS.get(head, lambda *_: [])(text, upkeep)
    if re.search(r"\bFOR (?:NO KEY )?(?:UPDATE|SHARE)\b|\bWITH RECURSIVE\b", text) and not _TENANT.search(text):
        found.append("a locking or recursive query without the organization")
    if "recollect.organization" in text and head == "SET" and not re.search(r"= (?:E| E)?'", text):
        found.append("the organization must be bound as a literal")
    return found


def _select(text: str, upkeep: bool) -> list[str]:
    reads = len(_READ.findall(text))
    if upkeep or reads <= len(_TENANT.findall(text)):
        return []
    return ["reads a table without naming the organization"]


def _update(text: str, upkeep: bool) -> list[str]:
    changed, _, where = text.partition(" SET ")[2].partition(" WHERE ")
    wrong = ["changes the organization"] if re.search(r'"?organization_id"?\s*=', changed) else []
    return wrong if _TENANT.search(where) else [*wrong, "updates without naming the organization"]


def _delete(text: str, upkeep: bool) -> list[str]:
    if not re.match(r"DELETE FROM " + _TABLE, text) or _TENANT.search(text.partition(" WHERE ")[2]):
        return []
    return ["deletes without naming the organization"]


def _insert(text: str, upkeep: bool) -> list[str]:
    table = re.match(r"INSERT INTO " + _TABLE, text)
    if not table:
        return []
    columns, _, values = text.partition("(")[2].partition(")")
    wrong = [] if "organization_id" in columns else ["inserts without the organization"]
    return [*wrong, "inserts what a query gives"] if "SELECT" in values else wrong


def _create(text: str, upkeep: bool) -> list[str]:
    made = re.match(r"CREATE TABLE " + _TABLE + r"\s*\(", text)
    wrong = []
    if made and "PRIMARY KEY (organization_id" not in text:
        wrong.append("a primary key that does not begin with the organization")
    if made and re.search(r"\bUNIQUE\b", text):
        wrong.append("a unique key outside its index")
    for keys, targets in re.findall(r"FOREIGN KEY \(([^)]*)\) REFERENCES \S+?\s*\(([^)]*)\)", text):
        if not (_begins(keys) and _begins(targets)):
            wrong.append("a reference that does not begin with the organization")
    index = re.match(r"CREATE UNIQUE INDEX \S+ ON " + _TABLE + r"\s*\(([^)]*)\)", text)
    if index and not _begins(index[2]):
        wrong.append("a unique key that does not begin with the organization")
    if index and index[1] in BY_MONTH and "id" not in [part.strip(' "') for part in index[2].split(",")]:
        wrong.append("a unique key over months without the id")
    return wrong


def _begins(columns: str) -> bool:
    return columns.split(",")[0].strip(' "') == "organization_id"


def _lock(text: str, upkeep: bool) -> list[str]:
    return ["locks a distributed table"] if re.match(r"LOCK TABLE " + _TABLE, text) else []


_CHECKS: dict[str, Any] = {
    "SELECT": _select,
    "WITH": _select,
    "UPDATE": _update,
    "DELETE": _delete,
    "INSERT": _insert,
    "CREATE": _create,
    "LOCK": _lock,
}


class Watched(psycopg.Cursor[Any]):
    """A cursor that holds every statement against the rules, with the role that it runs as."""

    seen: dict[str, list[str]] = {}
    count = 0

    def execute(self, query: Any, *given: Any, **named: Any) -> Any:
        if is_for_one_server(str(query)):
            self.connection.__dict__["role"] = given[0][0]
        else:
            self._watch(query)
        return super().execute(query, *given, **named)

    def executemany(self, query: Any, *given: Any, **named: Any) -> None:
        self._watch(query)
        super().executemany(query, *given, **named)

    def _watch(self, query: Any) -> None:
        for one in str(query).split("; "):
            role = re.match(r"SET LOCAL ROLE (\w+)", one.strip())
            if role:
                self.connection.__dict__["role"] = role[1]
            Watched.count += 1
            wrong = broken(one, self.connection.__dict__.get("role") == "recollect_upkeep")
            if wrong:
                Watched.seen[one] = wrong


def watch(patch: Any) -> None:
    """From now on, every statement of a store is held against the rules."""
    patch.setattr(Database, "cursor_factory", Watched)
    Watched.seen = {}
