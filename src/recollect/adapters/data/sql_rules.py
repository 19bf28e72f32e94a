"""One SELECT over listed tables: read with sqlglot, so that a refusal names what is wrong and what to write instead.

Reading comes before everything else, because it says which tables are needed; `sql_leniency` then rewrites what other
databases would have understood, and `sql_wall` has the last word over DuckDB's own tree.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from recollect.adapters.data.sql_wall import TABLE_FUNCTIONS
from recollect.errors import InvalidInput, NotFound, TooLarge

LONGEST_STATEMENT = 100_000
_DIALECTS = ("duckdb", "sqlite", "postgres", "mysql")
_QUERIES = (exp.Query, exp.Values)
_SYSTEM = ("information_schema", "pg_catalog", "sqlite_master", "sqlite_schema", "sqlite_temp_master", "duckdb_", "pg_")
_ONE_SELECT = "write one SELECT (WITH, UNION and subqueries are fine)"

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # what it cannot say in SQL comes back as an error instead


@dataclass
class Parsed:
    """A statement that keeps to the rules so far. `tables` are names as listed, in the order of their first use."""

    tree: exp.Query
    text: str
    tables: list[str]
    notes: list[str] = field(default_factory=list)
    is_rewritten: bool = False

    def note(self, text: str) -> None:
        self.is_rewritten = True
        if text not in self.notes:
            self.notes.append(text)

    @property
    def sql(self) -> str:
        """As it runs: as it was written, unless something had to be rewritten."""
        return self.rewritten if self.is_rewritten else self.text

    @property
    def rewritten(self) -> str:
        return self.tree.sql("duckdb", comments=False)


def parse(sql: str, listed: Mapping[str, object]) -> Parsed:
    if len(sql) > LONGEST_STATEMENT:
        raise TooLarge("the statement is too long", remedy=f"give at most {LONGEST_STATEMENT:,} characters")
    text = sql.replace("\ufeff", "").strip()
    if "\0" in text:
        raise InvalidInput("the statement has a NUL character", remedy="remove it")
    tree, dialect = _tree(text)
    parsed = Parsed(tree, text.rstrip("; \t\r\n"), [])
    if dialect != "duckdb":
        parsed.note(f"read as SQL of {dialect}")
    _check_tables(parsed, listed)
    return parsed


def _tree(text: str) -> tuple[exp.Query, str]:
    first: SqlglotError | None = None
    for dialect in _DIALECTS:
        try:
            found = [tree for tree in sqlglot.parse(text, dialect=dialect) if tree is not None]
        except SqlglotError as error:
            first = first or error
            continue
        except RecursionError:
            raise TooLarge("the statement is nested too deeply", remedy="write it with WITH, or simpler") from None
        if not found:
            raise InvalidInput("the statement is empty", remedy=_ONE_SELECT)
        if len(found) > 1:
            raise InvalidInput(f"there are {len(found)} statements", remedy="give one at a time")
        if isinstance(tree := found[0], exp.Subquery):
            tree = exp.Select(expressions=[exp.Star()]).from_(tree)
        if not isinstance(tree, _QUERIES) or tree.find(exp.Into, exp.DML, exp.DDL, exp.Command) not in (None, tree):
            raise InvalidInput(f"{_kind(tree, text)} cannot be used here", remedy=_ONE_SELECT)
        return (tree if isinstance(tree, exp.Query) else exp.select("*").from_(tree)), dialect
    raise InvalidInput(f"the statement cannot be read: {_where(first)}", remedy=_ONE_SELECT)


def _kind(tree: exp.Expr, text: str) -> str:
    """What a statement that is not a query is called."""
    inner = tree.find(exp.Into, exp.DML, exp.DDL) if isinstance(tree, _QUERIES) else None
    if inner is not None:
        return "SELECT INTO" if isinstance(inner, exp.Into) else type(inner).__name__.upper()
    return (tree.sql(comments=False).split() or [text])[0].upper()[:40]


def _where(error: SqlglotError | None) -> str:
    found = getattr(error, "errors", None)
    if found:
        one = found[0]
        near = f" near '{str(one.get('highlight') or '')[:40]}'" if one.get("highlight") else ""
        return f"{str(one.get('description', '')).rstrip('.')}{near}, line {one.get('line')}, column {one.get('col')}"
    return str(error).splitlines()[0][:200] if error else "nothing was understood"


def _check_tables(parsed: Parsed, listed: Mapping[str, object]) -> None:
    folded = {name.lower(): name for name in listed}
    given = {cte.alias.lower() for cte in parsed.tree.find_all(exp.CTE)}
    for table in parsed.tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            _check_table_function(table)
            continue
        name = table.name
        if table.db or table.catalog:
            if table.db.lower() != "main" or table.catalog:
                raise InvalidInput(
                    f"the table {table.catalog + '.' if table.catalog else ''}{table.db}.{name}"[:200]
                    + " cannot be used here",
                    remedy=f"write a listed table without a schema: {_some(listed)}",
                )
            table.set("db", None)
            parsed.note(f"main.{name} was read as {name}")
        known = folded.get(name.lower())
        if name.lower() in given:
            continue
        if known is None:
            raise _unknown_table(name, listed)
        if known not in parsed.tables:
            parsed.tables.append(known)


def _check_table_function(table: exp.Table) -> None:
    function = table.this
    name = function.name if isinstance(function, exp.Anonymous) else function.sql_name() if function else "?"
    if str(name).lower() not in TABLE_FUNCTIONS:
        raise InvalidInput(
            f"the table function {str(name).lower()[:80]} cannot be used here",
            remedy="read from the listed tables by their names",
        )


def _unknown_table(name: str, listed: Mapping[str, object]) -> Exception:
    if name.lower().startswith(_SYSTEM):
        return InvalidInput(
            f"the system table {name[:80]} cannot be used here", remedy=f"read from the listed tables: {_some(listed)}"
        )
    close = nearest(name, listed)
    hint = f"did you mean {' or '.join(close)}?" if close else f"the tables are {_some(listed)}"
    return NotFound(f"there is no table '{name[:80]}'", remedy=hint, nearest=close)


def _some(names: Iterable[str]) -> str:
    found = list(names)
    return (", ".join(found[:12]) + (f" and {len(found) - 12} more" if len(found) > 12 else "")) or "(none)"


def nearest(name: str, names: Iterable[str], most: int = 3, alike: float = 0.6) -> list[str]:
    """The names that are most like one, whatever their case and their underscores."""
    plain = {found.lower().replace("_", " "): found for found in names}
    wanted = name.lower().replace("_", " ")
    close = difflib.get_close_matches(wanted, plain, n=most, cutoff=alike)
    inside = [key for key in plain if key not in close and alike <= 0.6 and _is_inside(key, wanted)]
    return [plain[key] for key in [*close, *inside][:most]]


def _is_inside(one: str, other: str) -> bool:
    return min(len(one), len(other)) > 2 and (one in other or other in one)
