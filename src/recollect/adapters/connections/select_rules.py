"""One SELECT over listed tables, in the language of an outside database.

The statement is read with sqlglot, checked, and written anew from the tree that was checked: comments, hints and
whatever another parser might read differently do not reach the server. Tables and columns get the exact names that
the database knows, in quotes. Functions are looked for in the text that will run: those not known to be harmless are
refused, so it makes no difference how sqlglot names them.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from recollect.adapters.connections.harmless_functions import BARE, HARMLESS, KEYWORDS, TABLE_FUNCTIONS
from recollect.domain.database_address import DatabaseEngine
from recollect.errors import InvalidInput, NotFound, TooLarge
from recollect.ports.connections import OutsideTable, SqlDialect

LONGEST_STATEMENT = 100_000
SQLGLOT_NAMES: dict[DatabaseEngine, str] = {"postgresql": "postgres", "mysql": "mysql", "sqlite": "sqlite"}
_ONE_SELECT = "write one SELECT (WITH, UNION and subqueries are fine)"
_REMEDY = "write one SELECT over the listed tables with functions that compute from their arguments"
# Nodes that write, lock, set, or depend on something beside the data.
_FORBIDDEN: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Into, "SELECT INTO"),
    (exp.Lock, "locking rows"),
    (exp.DML, "changing data"),
    (exp.DDL, "changing tables"),
    (exp.Command, "such a command"),
    (exp.Set, "SET"),
    (exp.Pragma, "PRAGMA"),
    (exp.Parameter, "a variable"),
    (exp.SessionParameter, "a variable"),
    (exp.PropertyEQ, "an assignment"),
    (exp.Placeholder, "a placeholder"),
    (exp.Operator, "OPERATOR()"),
    (exp.TableSample, "TABLESAMPLE"),
    (exp.Version, "a table of another time"),
    (exp.PseudoType, "such a type"),
    (exp.ObjectIdentifier, "such a type"),
)
_TYPES_REFUSED = frozenset({exp.DType.USERDEFINED, exp.DType.UNKNOWN, exp.DType.NULL})

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # what it cannot say in SQL comes back as an error instead


@dataclass(frozen=True, slots=True)
class NativeSelect:
    """A statement that may run. `tables` are the names of those it reads, in the order of their first use."""

    sql: str
    tables: list[str]
    has_limit: bool
    notes: list[str] = field(default_factory=list)


def native_select(
    sql: str, listed: Sequence[OutsideTable], engine: DatabaseEngine, dialect: SqlDialect = "duckdb"
) -> NativeSelect:
    tree = parsed(sql, "duckdb" if dialect == "duckdb" else SQLGLOT_NAMES[engine])
    _check_nodes(tree)
    used = _name_tables(tree, listed)
    _name_columns(tree, used)
    _quote_aliases(tree)
    if dialect == "duckdb" and engine != "sqlite":
        tree = _keeping_meaning(tree, engine)
    try:
        text = tree.sql(SQLGLOT_NAMES[engine], comments=False, unsupported_level=sqlglot.ErrorLevel.RAISE)
        _check_text(text, engine)
    except SqlglotError as error:
        raise InvalidInput(
            f"the statement cannot be said in the SQL of {engine}: {str(error).splitlines()[0][:160]}",
            remedy="write it in another way, or in the SQL of that database",
        ) from None
    return NativeSelect(text, [table.name for table in used], isinstance(tree.args.get("limit"), exp.Expr))


def whole_table(table: OutsideTable, engine: DatabaseEngine, columns: Mapping[str, str] | None = None) -> exp.Select:
    """All columns of a table; `columns` says how some are written instead, in the language of the database."""
    written = [
        exp.alias_(sqlglot.parse_one(columns[one.name], dialect=SQLGLOT_NAMES[engine]), one.name, quoted=True)
        if columns and one.name in columns
        else exp.column(exp.to_identifier(one.name, quoted=True))
        for one in table.columns
    ]
    return exp.Select(expressions=written).from_(table_node(table))


def table_node(table: OutsideTable, alias: str | None = None) -> exp.Table:
    node = exp.Table(this=exp.to_identifier(table.table, quoted=True))
    if table.schema:
        node.set("db", exp.to_identifier(table.schema, quoted=True))
    if alias is not None:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    return node


def parsed(sql: str, dialect: str) -> exp.Query:
    if len(sql) > LONGEST_STATEMENT:
        raise TooLarge("the statement is too long", remedy=f"give at most {LONGEST_STATEMENT:,} characters")
    if "\0" in sql:
        raise InvalidInput("the statement has a NUL character", remedy="remove it")
    try:
        found = [tree for tree in sqlglot.parse(sql.replace("\ufeff", ""), dialect=dialect) if tree is not None]
    except SqlglotError as error:
        raise InvalidInput(f"the statement cannot be read: {_where(error)}", remedy=_ONE_SELECT) from None
    except RecursionError:
        raise TooLarge("the statement is nested too deeply", remedy="write it with WITH, or simpler") from None
    if len(found) != 1:
        what = f"there are {len(found)} statements" if found else "the statement is empty"
        raise InvalidInput(what, remedy=_ONE_SELECT)
    tree = found[0]
    if isinstance(tree, exp.Subquery):
        tree = exp.Select(expressions=[exp.Star()]).from_(tree)
    if not isinstance(tree, exp.Query):
        raise InvalidInput(f"{_kind(tree)} cannot be used here", remedy=_ONE_SELECT)
    return tree


def _kind(tree: exp.Expr) -> str:
    words = tree.sql(comments=False).split()
    return words[0].upper()[:40] if words else "this"


def _where(error: SqlglotError) -> str:
    found = getattr(error, "errors", None)
    if not found:
        return str(error).splitlines()[0][:160]
    one = found[0]
    near = f" near '{str(one['highlight'])[:40]}'" if one.get("highlight") else ""
    return f"{str(one.get('description', '')).rstrip('.')}{near}, line {one.get('line')}, column {one.get('col')}"


def _check_nodes(tree: exp.Query) -> None:
    for node in tree.walk():
        for kind, what in _FORBIDDEN:
            if isinstance(node, kind):
                raise _refused(what)
        if isinstance(node, exp.Hint):
            raise _refused("a hint")
        if isinstance(node, exp.DataType) and node.this in _TYPES_REFUSED and not isinstance(node.parent, exp.Null):
            raise _refused("a type of the database's own")
        if isinstance(node, exp.Anonymous) and not isinstance(node.this, str):
            raise _refused("a function with its name in quotes")
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
            raise _refused("a function of a schema")
        if node.args.get("operation_modifiers") or node.args.get("kind") in ("STRUCT", "VALUE"):
            raise _refused("such a SELECT")


def _name_tables(tree: exp.Query, listed: Sequence[OutsideTable]) -> list[OutsideTable]:
    """Give every table its exact name; refuse those that are not listed. Returns the tables that are read."""
    known: dict[str, list[OutsideTable]] = {}
    for one in listed:
        for name in {one.name.lower(), one.table.lower(), f"{one.schema}.{one.table}".lower()}:
            known.setdefault(name, []).append(one)
    given = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    if clash := given & known.keys():
        raise InvalidInput(f"WITH gives a table's name to something else: {min(clash)[:80]}", remedy="choose another")
    used: list[OutsideTable] = []
    for node in list(tree.find_all(exp.Table)):
        if not isinstance(node.this, exp.Identifier):
            _check_table_function(node)
            continue
        if not node.db and node.name.lower() in given:
            continue
        table = _listed_table(node, known, listed)
        if not node.alias:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
        node.set("this", exp.to_identifier(table.table, quoted=True))
        node.set("db", exp.to_identifier(table.schema, quoted=True) if table.schema else None)
        node.set("catalog", None)
        if table not in used:
            used.append(table)
    return used


def _listed_table(
    node: exp.Table, known: Mapping[str, list[OutsideTable]], listed: Sequence[OutsideTable]
) -> OutsideTable:
    spelt = f"{node.db}.{node.name}" if node.db else node.name
    found = known.get(spelt.lower(), []) if not node.catalog else []
    exact = [one for one in found if spelt in (one.name, one.table, f"{one.schema}.{one.table}")] or found
    own = [one for one in exact if one.name.lower() == spelt.lower()] or exact
    if len(own) == 1:
        return own[0]
    names = [one.name for one in (own or listed)]
    if own:
        raise InvalidInput(f"the table '{spelt[:80]}' is not clear", remedy=f"write one of {', '.join(names[:5])}")
    close = difflib.get_close_matches(spelt, names, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else f"the tables are {', '.join(names[:12]) or '(none)'}"
    raise NotFound(f"there is no table '{spelt[:80]}'", remedy=hint, nearest=close)


def _check_table_function(node: exp.Table) -> None:
    function = node.this
    name = function.name if isinstance(function, exp.Anonymous) else function.sql_name() if function else "?"
    names = {str(name).lower(), *(one.lower() for one in getattr(type(function), "_sql_names", ()))}
    if not names & TABLE_FUNCTIONS:
        raise _refused(f"the table function {str(name).lower()[:80]}")


def _name_columns(tree: exp.Query, used: Sequence[OutsideTable]) -> None:
    """Columns and the names given to results get one spelling, that of the database, in quotes.

    Names over uploads do not depend on case, so names over outside tables do not either. Two columns that differ only
    in case, and names that are not known, stay as they were written.
    """
    found: dict[str, set[str]] = {}
    for table in used:
        for column in table.columns:
            found.setdefault(column.name.lower(), set()).add(column.name)
    spellings = {lowered: min(names) for lowered, names in found.items() if len(names) == 1}
    for alias in tree.find_all(exp.Alias, exp.TableAlias):
        given = [alias.args.get("alias")] if isinstance(alias, exp.Alias) else alias.args.get("columns") or []
        for name in given:
            if isinstance(name, exp.Identifier) and name.name.lower() not in found:
                spellings.setdefault(name.name.lower(), name.name)
    for name in tree.find_all(exp.Identifier):
        place = type(name.parent), name.arg_key
        is_table = place[0] is exp.Table or place == (exp.TableAlias, "this")
        is_qualifier = place[0] is exp.Column and place[1] != "this"
        if not is_table and not is_qualifier and name.name.lower() in spellings:
            name.set("this", spellings[name.name.lower()])
            name.set("quoted", True)
        elif name.name in found.get(name.name.lower(), ()):
            name.set("quoted", True)


def _quote_aliases(tree: exp.Query) -> None:
    """Names that the statement gives to tables get quotes and one spelling: none can be taken for a function."""
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    spellings: dict[str, str] = {}
    for alias in tree.find_all(exp.TableAlias):
        if isinstance(alias.this, exp.Identifier):
            spelt = spellings.setdefault(alias.name.lower(), alias.name)
            alias.set("this", exp.to_identifier(spelt, quoted=True))
    for node in tree.find_all(exp.Column):
        if node.table and node.table.lower() in spellings:
            node.set("table", exp.to_identifier(spellings[node.table.lower()], quoted=True))
            node.set("db", None)
    for table in tree.find_all(exp.Table):
        if not table.db and table.name.lower() in ctes:
            table.set("this", exp.to_identifier(spellings[table.name.lower()], quoted=True))


def _keeping_meaning(tree: exp.Query, engine: DatabaseEngine) -> exp.Query:
    """What DuckDB means where the servers mean something else, as far as sqlglot does not see to it."""
    for like in list(tree.find_all(exp.Like, exp.ILike)):
        if not isinstance(like.parent, exp.Escape) and "\\" in like.expression.name:
            like.replace(exp.Escape(this=like.copy(), expression=exp.Literal.string("")))
    if engine == "mysql":
        for order in tree.find_all(exp.Ordered):
            is_set = isinstance(order.parent and order.parent.parent, exp.SetOperation)
            if is_set or order.this.is_int:  # there a place in the list cannot be part of an expression
                order.set("nulls_first", not order.args.get("desc"))
        for one in list(tree.find_all(exp.Filter)):
            one.replace(_without_filter(one))
    return tree


def _without_filter(node: exp.Filter) -> exp.Expr:
    """MySQL has no FILTER: count(*) FILTER (WHERE x) is count(CASE WHEN x THEN 1 END) there."""
    function: exp.Expr = node.this.copy()
    condition = node.expression.this
    value = function.this
    inner = value.expressions[0] if isinstance(value, exp.Distinct) else value
    chosen = exp.Case().when(condition.copy(), exp.Literal.number(1) if isinstance(inner, exp.Star) else inner.copy())
    function.set("this", exp.Distinct(expressions=[chosen]) if isinstance(value, exp.Distinct) else chosen)
    return function


def _check_text(text: str, engine: DatabaseEngine) -> None:
    """The functions of the statement as it will run: whatever stands before a bracket must be known."""
    tokens = sqlglot.tokenize(text, dialect=SQLGLOT_NAMES[engine])
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if token.token_type == TokenType.SEMICOLON:
            raise InvalidInput("there is more than one statement", remedy=_ONE_SELECT)
        if token.text.lower() in BARE and _is_word(token) and (before is None or before.text.upper() != "AS"):
            raise _refused(f"the function {token.text.lower()}")
        if after is None or after.token_type != TokenType.L_PAREN or not _is_word(token):
            continue
        name = token.text.lower()
        if name not in HARMLESS[engine] and name not in KEYWORDS:
            raise _refused(f"the function {name[:80]}")
        if before is not None and before.token_type == TokenType.DOT and name not in KEYWORDS:
            raise _refused(f"the function {name[:80]} of a schema")


def _is_word(token: Token) -> bool:
    """A name or keyword without quotes. Names in quotes stand before a bracket as aliases with columns only."""
    return token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING) and token.text[:1].isidentifier()


def _refused(what: str) -> InvalidInput:
    return InvalidInput(f"{what} cannot be used here", remedy=_REMEDY)
