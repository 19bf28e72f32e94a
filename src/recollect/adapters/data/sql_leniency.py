"""SQL as people and models write it, for SQLite, PostgreSQL or MySQL, made to run on DuckDB as it was meant.

Each rewriting is one function on the parsed statement; each leaves a note that says what was changed. Only what DuckDB
would refuse is rewritten, but for one thing: LIKE does not look at case, as in SQLite and MySQL.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.time import format_time

from recollect.adapters.data.sql_rules import Parsed, nearest
from recollect.errors import InvalidInput
from recollect.ports.data import Column

Schema = Mapping[str, list[Column]]
"""The columns of each table that a statement reads."""

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
            "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL")  # fmt: skip
_OTHER_ORDERS = ("%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%m/%d/%Y %H:%M", "%d %b %Y", "%b %d, %Y", "%B %d, %Y")
_PREDICATES = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.ILike, exp.In, exp.Between)
_AROUND = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
"""What stands around an aggregate and belongs to it: FILTER (WHERE …), WITHIN GROUP (ORDER BY …)."""
_SHIFT = re.compile(r"([+-]?\d+)\s*(second|minute|hour|day|month|year)s?")
_START = re.compile(r"start of (day|month|year)")
_STRFTIME_SHIFTED = re.compile(r"\bstrftime\s*\(\s*'[^']*'\s*,\s*[^(),]+,", re.IGNORECASE)
"""With a third argument, which the parser loses."""
_MOMENTS = {"date": "DATE", "datetime": "TIMESTAMP", "julianday": "TIMESTAMP", "time": "TIME"}


@dataclass
class Names:
    """What the names of a statement mean."""

    schema: Schema
    aliases: dict[str, str]
    given: set[str]
    """Every name that the statement itself gives: aliases of columns and tables, names of WITH."""

    @classmethod
    def of(cls, tree: exp.Expr, schema: Schema) -> Names:
        folded = {name.lower(): name for name in schema}
        aliases = {}
        for table in tree.find_all(exp.Table):
            if table.name.lower() in folded:
                aliases[(table.alias or table.name).lower()] = folded[table.name.lower()]
        given = {
            node.alias.lower() for node in tree.find_all(exp.Alias, exp.CTE, exp.Table, exp.Subquery) if node.alias
        }
        given |= {name.name.lower() for alias in tree.find_all(exp.TableAlias) for name in alias.columns}
        return cls(schema, aliases, given)

    @property
    def columns(self) -> set[str]:
        return {column.name.lower() for columns in self.schema.values() for column in columns}

    def family(self, node: object) -> str:
        """text, number, moment, flag or "" (not known) of what a column holds."""
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return ""
        if not node.table and node.name.lower() in self.given:
            return ""
        tables = [self.aliases[node.table.lower()]] if node.table.lower() in self.aliases else list(self.schema)
        if node.table and node.table.lower() not in self.aliases:
            return ""
        found = {
            _family(column.type)
            for table in tables
            for column in self.schema[table]
            if column.name.lower() == node.name.lower()
        }
        return found.pop() if len(found) == 1 else ""


def _family(type: str) -> str:
    if type.startswith(_NUMBERS):
        return "number"
    if type.startswith(("DATE", "TIMESTAMP")):
        return "moment"
    return {"VARCHAR": "text", "BOOLEAN": "flag"}.get(type, "")


def make_lenient(parsed: Parsed, schema: Schema, aggregates: Collection[str]) -> None:
    names = Names.of(parsed.tree, schema)
    if re.search(r"\blimit\s+\d+\s*,\s*\d", parsed.text, re.IGNORECASE):
        parsed.note("LIMIT a, b was read as LIMIT b OFFSET a")
    _quoted_text(parsed, names)
    _times_as_text(parsed, names)
    _moments(parsed)
    _likes(parsed, names)
    _comparisons(parsed, names)
    _sums_of_text(parsed, names)
    for select in list(parsed.tree.find_all(exp.Select)):
        _ungrouped(parsed, select, names, aggregates)


def _quoted_text(parsed: Parsed, names: Names) -> None:
    """In double quotes stands a name; where there is no such name and a value is expected, a text was meant."""
    known = names.columns | names.given | set(names.aliases)
    for column in list(parsed.tree.find_all(exp.Column)):
        name = column.name
        if (
            not isinstance(column.this, exp.Identifier)
            or not column.this.quoted
            or column.table
            or name.lower() in known
        ):
            continue
        is_value = column.find_ancestor(*_PREDICATES, exp.Select)
        is_argument = isinstance(column.parent, exp.Func | exp.Case | exp.If)
        if (isinstance(is_value, _PREDICATES) or is_argument) and not (
            names.family(_other_side(column)) == "" and nearest(name, names.columns, 1, 0.8)
        ):
            column.replace(exp.Literal.string(name))
            parsed.note(f"\"{name[:60]}\" was read as a text, '{name[:60]}': there is no such column")


def _other_side(node: exp.Expr) -> object:
    parent = node.parent
    if isinstance(parent, exp.Binary):
        return parent.left if parent.right is node else parent.right
    return parent.this if isinstance(parent, exp.In | exp.Between) else None


def _likes(parsed: Parsed, names: Names) -> None:
    for like in list(parsed.tree.find_all(exp.Like, exp.ILike)):
        if names.family(like.this) not in ("", "text"):
            parsed.note(f"{like.this.sql('duckdb')} was compared as text")
            like.set("this", exp.cast(like.this.copy(), "VARCHAR"))
        pattern = like.expression
        letters = not pattern.is_string or pattern.name.lower() != pattern.name.upper()
        if isinstance(like, exp.Like) and letters:
            like.replace(exp.ILike(**like.args))  # with NOT, where it has one
            parsed.note("LIKE was read without regard to case (ILIKE)")


def _comparisons(parsed: Parsed, names: Names) -> None:
    """A number beside a text, and the like: DuckDB would try to make numbers of the texts, and fail on the first."""
    for node in list(parsed.tree.find_all(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)):
        for side, other in ((node.left, node.right), (node.right, node.left)):
            _compare(parsed, names, node, side, other)
        families = {names.family(node.left), names.family(node.right)}
        if families == {"text", "number"} and isinstance(node, exp.EQ | exp.NEQ):
            number = node.left if names.family(node.left) == "number" else node.right
            number.replace(exp.cast(number.copy(), "VARCHAR"))
            parsed.note(f"{number.sql('duckdb')} was compared as text")
    for test in list(parsed.tree.find_all(exp.In, exp.Between)):
        values = test.expressions if isinstance(test, exp.In) else [test.args["low"], test.args["high"]]
        for value in list(values):
            _compare(parsed, names, test, test.this, value)


def _compare(parsed: Parsed, names: Names, node: exp.Expr, column: exp.Expr, value: exp.Expr) -> None:
    family = names.family(column)
    if not family or not isinstance(value.unnest(), exp.Literal | exp.Neg):
        return
    value = value.unnest()
    if family == "text" and (isinstance(value, exp.Neg) or value.is_number):
        if isinstance(node, exp.EQ | exp.NEQ | exp.In):
            value.replace(exp.Literal.string(value.sql("duckdb")))
            parsed.note(f"{value.sql('duckdb')[:40]} was compared as text, as {column.sql('duckdb')} is")
        else:
            column.replace(exp.TryCast(this=column.copy(), to=exp.DataType.build("DOUBLE")))
            parsed.note(f"{column.sql('duckdb')} is text and was compared as a number")
    elif family == "moment" and value.is_string and (moment := _moment(value.name)):
        if moment != value.name:
            value.replace(exp.Literal.string(moment))
            parsed.note(f"'{value.name[:40]}' was read as {moment}")
    elif family in ("number", "moment", "flag") and value.is_string and not _fits(value.name, family):
        column.replace(exp.cast(column.copy(), "VARCHAR"))
        parsed.note(f"{column.sql('duckdb')} was compared as text with '{value.name[:40]}'")


def _fits(text: str, family: str) -> bool:
    if family == "flag":
        return text.lower() in ("true", "false", "t", "f", "yes", "no", "1", "0", "y", "n")
    if family == "moment":
        return bool(re.fullmatch(r"\s*-?\d{1,6}-\d{1,2}-\d{1,2}.*", text))
    try:
        float(text)
    except ValueError:
        return False
    return True


def _moment(text: str) -> str | None:
    for form in _OTHER_ORDERS:
        try:
            found = datetime.strptime(text.strip(), form)
        except ValueError:
            continue  # another form may fit
        return found.isoformat(" ") if "%H" in form else found.date().isoformat()
    return None


def _sums_of_text(parsed: Parsed, names: Names) -> None:
    for node in list(parsed.tree.find_all(exp.Sum, exp.Avg, exp.Add, exp.Sub, exp.Mul, exp.Div)):
        for column in [node.this, node.args.get("expression")]:
            if names.family(column) == "text":
                column.replace(exp.TryCast(this=column.copy(), to=exp.DataType.build("DOUBLE")))
                parsed.note(f"{column.sql('duckdb')} is text and was read as a number")


def _times_as_text(parsed: Parsed, names: Names) -> None:
    """PostgreSQL's to_char, and SQLite's strftime of texts and of 'now'."""
    for shown in list(parsed.tree.find_all(exp.ToChar)):
        said = shown.args.get("format")
        if names.family(shown.this) == "number" or said is None or not said.is_string:
            raise InvalidInput("to_char is known here for times only", remedy="use format('{:.2f}', x) for numbers")
        form = exp.Literal.string(format_time(said.name, Postgres.TIME_MAPPING, Postgres.TIME_TRIE) or "")
        shown.replace(exp.Anonymous(this="strftime", expressions=[shown.this.copy(), form]))
        parsed.note(f"to_char was read as strftime with {form.sql('duckdb')}")
    if _STRFTIME_SHIFTED.search(parsed.text):
        raise InvalidInput("strftime takes two values here", remedy="change the time first: strftime(format, date(…))")
    for call in list(parsed.tree.find_all(exp.TimeToStr)):
        form, value = call.args["format"], call.this
        if value.is_string and "%" in value.name:  # SQLite has the format first, DuckDB last
            form, value = value, form
        now = value.is_string and value.name.lower() == "now"
        if now or value.is_string or names.family(value) == "text":
            moment = exp.CurrentTimestamp() if now else _as_moment(value, "TIMESTAMP")
            call.replace(exp.Anonymous(this="strftime", expressions=[moment, form.copy()]))
            parsed.note(f"strftime was given {value.sql('duckdb')} as a time")


def _moments(parsed: Parsed) -> None:
    """SQLite's functions of time: of texts, and of 'now'."""
    for part in list(parsed.tree.find_all(exp.Date, exp.Datetime, exp.TsOrDsToDate, exp.Anonymous)):
        name = (
            part.name.lower()
            if isinstance(part, exp.Anonymous)
            else "datetime"
            if isinstance(part, exp.Datetime)
            else "date"
        )
        arguments = part.expressions if isinstance(part, exp.Anonymous) else list(part.iter_expressions())
        if name not in _MOMENTS or not arguments:
            continue
        value, *modifiers = arguments
        moment = exp.CurrentTimestamp() if value.is_string and value.name.lower() == "now" else value.copy()
        found = _as_moment(_shifted(moment, modifiers), _MOMENTS[name])
        part.replace(exp.Anonymous(this="julian", expressions=[found]) if name == "julianday" else found)
        parsed.note(f"{name}(…) was read as a {_MOMENTS[name].lower()}")


def _shifted(moment: exp.Expr, modifiers: Sequence[exp.Expr]) -> exp.Expr:
    """The moment, changed as the modifiers of SQLite say: '-5 years', 'start of month'."""
    for modifier in modifiers:
        said = modifier.name.strip().lower() if modifier.is_string else ""
        moment = _as_moment(moment, "TIMESTAMP")
        if found := _SHIFT.fullmatch(said):
            span = exp.Interval(this=exp.Literal.string(found[1]), unit=exp.var(found[2].upper()))
            moment = exp.Add(this=moment, expression=span)
        elif found := _START.fullmatch(said):
            moment = exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(found[1]), moment])
        else:
            raise InvalidInput(
                f"{modifier.sql('duckdb')[:40]} is not known here as a change of a date",
                remedy="write it as in current_date - INTERVAL 5 YEAR",
            )
    return moment


def _as_moment(value: exp.Expr, type: str) -> exp.Expr:
    return exp.TryCast(this=value.copy(), to=exp.DataType.build(type))


def _ungrouped(parsed: Parsed, select: exp.Select, names: Names, aggregates: Collection[str]) -> None:
    """Columns that are neither grouped by nor aggregated: SQLite takes them from some row of the group.

    Beside a single min() or max() it takes them from the row that has it; so do we.
    """
    group, having, order = select.args.get("group"), select.args.get("having"), select.args.get("order")
    shown = list(select.expressions)
    found = [node for item in [*shown, having, order] if item is not None for node in _own(item)]
    used = [node for node in found if _is_aggregate(node, aggregates)]
    if not used and not (group and group.expressions):
        return
    if group and any(group.args.get(kind) for kind in ("all", "cube", "rollup", "grouping_sets")):
        return
    for item in shown:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            _expand(select, item, names)
    keys = Keys.of(select, group)
    aliases = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
    ends = [node for node in used if isinstance(node, exp.Min | exp.Max) and node.find_ancestor(exp.Select) is select]
    at = ends[0] if len({end.sql() for end in ends}) == 1 else None
    for item in [*select.expressions, having, order]:
        if item is None:
            continue
        visible = aliases if item in (having, order) else set()
        for column in list(_bare(item, keys, visible, aggregates)):
            if at is None:
                value: exp.Expr = exp.Anonymous(this="first", expressions=[column.copy()])
            else:
                extreme = "arg_max_null" if isinstance(at, exp.Max) else "arg_min_null"
                value = exp.Anonymous(this=extreme, expressions=[column.copy(), at.this.copy()])
            if column is item:
                value = exp.alias_(value, column.name, quoted=True)
            column.replace(value)
            which = (
                "of the row with the " + ("largest" if isinstance(at, exp.Max) else "smallest") if at else "of one row"
            )
            parsed.note(f"{column.sql('duckdb')} is not in GROUP BY: its value {which} of each group is shown")


def _expand(select: exp.Select, star: exp.Expr, names: Names) -> None:
    of = star.table.lower() if isinstance(star, exp.Column) else ""
    columns = []
    for table in [found for found in _own(select) if isinstance(found, exp.Table)]:
        alias = (table.alias or table.name).lower()
        if alias in names.aliases and of in ("", alias):
            columns += [exp.column(c.name, table=alias, quoted=True) for c in names.schema[names.aliases[alias]]]
    if columns:
        rest = select.expressions
        at = next(index for index, item in enumerate(rest) if item is star)
        select.set("expressions", [*rest[:at], *columns, *rest[at + 1 :]])


def _own(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of an expression that belong to its own SELECT: what is in a subquery is left out."""
    yield from node.walk(prune=lambda part: isinstance(part, exp.Query) and part is not node)


def _is_aggregate(node: exp.Expr, aggregates: Collection[str]) -> bool:
    over = node.parent
    while isinstance(over, _AROUND):
        over = over.parent
    if isinstance(over, exp.Window):
        return False
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in aggregates
    return isinstance(node, exp.AggFunc)


@dataclass
class Keys:
    """What a SELECT groups by. A column may be written with its table in one place and without it in another."""

    exact: set[str]
    without_tables: set[str]
    never_with_tables: set[str]

    @classmethod
    def of(cls, select: exp.Select, group: exp.Expr | None) -> Keys:
        found, shown = [], select.expressions
        for key in group.expressions if group else ():
            if key.is_int and 0 < int(key.name) <= len(shown):
                key = shown[int(key.name) - 1].unalias()
            found.append(key)
            for item in shown:
                if (
                    isinstance(item, exp.Alias)
                    and isinstance(key, exp.Column)
                    and item.alias.lower() == key.name.lower()
                ):
                    found.append(item.this)
        bare = {_plain(key, False) for key in found if not _has_tables(key)}
        return cls({_plain(key, True) for key in found}, {_plain(key, False) for key in found}, bare)

    def has(self, node: exp.Expr) -> bool:
        plain = _plain(node, False)
        if plain not in self.without_tables:
            return False
        return not _has_tables(node) or plain in self.never_with_tables or _plain(node, True) in self.exact


def _has_tables(node: exp.Expr) -> bool:
    return any(column.table for column in node.find_all(exp.Column))


def _plain(node: exp.Expr, with_tables: bool) -> str:
    """An expression as text in which case and quotes make no difference."""
    copy = node.copy()
    for column in list(copy.find_all(exp.Column)):
        if isinstance(column.this, exp.Identifier):
            table = column.table.lower() if with_tables else ""
            column.set("table", exp.to_identifier(table, quoted=True) if table else None)
            column.set("this", exp.to_identifier(column.name.lower(), quoted=True))
    return copy.sql("duckdb")


def _bare(node: exp.Expr, keys: Keys, visible: set[str], aggregates: Collection[str]) -> Iterator[exp.Column]:
    if keys.has(node) or isinstance(node, (exp.Query, exp.Window, *_AROUND)) or _is_aggregate(node, aggregates):
        return
    if isinstance(node, exp.Column):
        if not isinstance(node.this, exp.Star) and not (not node.table and node.name.lower() in visible):
            yield node
        return
    for child in node.iter_expressions():
        yield from _bare(child, keys, visible, aggregates)
