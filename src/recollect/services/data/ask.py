"""Ask: a question in plain words becomes SQL that is run; the reply shows how it was read, and how sure that is.

Below the threshold the reply is a draft with the next best readings to choose from. A question in a session may follow
up the one before ("and by month?"); a reading may be changed part by part. The date of words like "last month" is that
of the asker's time zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal
from zoneinfo import ZoneInfo

from pydantic import Field as Having

from recollect.domain.charts.chart import chart_of
from recollect.domain.charts.columns import ChartColumn
from recollect.domain.memory import canonical
from recollect.domain.record import Id, JsonObject, QueryText, Text, clipped, now
from recollect.domain.sources import QueryRun
from recollect.errors import InvalidInput, NotFound, RecollectError, TooLarge
from recollect.ports.data import DEFAULT_LIMITS, QueryResult, Tables
from recollect.ports.query import Compare, Order, Query, equal
from recollect.ports.steps import Insert
from recollect.services import notebook
from recollect.services.data.asking.analysis import Prepared
from recollect.services.data.asking.candidates.verified import Verified
from recollect.services.data.asking.editing import Change, edited
from recollect.services.data.asking.plans.plan_json import plan_from_json, plan_to_json
from recollect.services.data.asking.readings import Reading, Readings, Rows, read, reading_of
from recollect.services.data.asking.wording import Part
from recollect.services.data.find import FindRequest, find
from recollect.services.data.patterns import verified_for
from recollect.services.data.prepared import prepared_for
from recollect.services.data.queries import DataRequest, recorded_run, reply_fields, statement_over
from recollect.services.data.results import QueryReply
from recollect.services.data.tables import KnownTable, local_files, sources_named, tables_of
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.times import zone_for
from recollect.services.transaction import commit, load, logged

if TYPE_CHECKING:
    from recollect.services.data.asking.with_model import Checked, Problem

MOST_TABLES = 60
LIKELY_TABLES = 20
TRIAL = replace(DEFAULT_LIMITS, seconds=5, cpu_seconds=5, rows=100, hashed_rows=20_000)
FOLLOWED_FOR = timedelta(hours=4)
KEPT_CHART_BYTES = 128_000
"""A larger chart is not stored with its run; it can be drawn again."""


class PartChange(Request):
    """A change to one part of a reading."""

    key: Text = Having(description="The part, by its `key`; to add one, its kind: show, where, each, order or limit")
    action: Literal["replace", "remove", "add"] = "replace"
    column: Text | None = Having(None, description="Another column, as table.column")
    aggregate: Text | None = Having(None, description="count, sum, avg, min, max, or empty for none")
    date_part: Text | None = Having(None, description="year, month, day, … of a date, or empty for the whole")
    operator: Text | None = Having(None, description="=, !=, <, <=, >, >=, between, like, in, …")
    value: str | int | float | bool | None = None
    upper: str | int | float | bool | None = Having(None, description="The upper end of a range")
    descending: bool | None = None


class AskRequest(DataRequest):
    """A question in plain words."""

    question: QueryText = Having(min_length=1, description="The question")
    follows: Id | None = Having(
        None, description="The run it follows up; in a session the one before it, if it reads like a follow-up"
    )
    changes: list[PartChange] = Having(
        default_factory=list, max_length=50, description="Changes to how the run in `follows` was read"
    )
    choose: int | None = Having(None, ge=0, le=20, description="One of the other readings of the run in `follows`")


class ReadingPart(Reply):
    """One part of how a question was read."""

    key: str
    kind: str
    text: str
    column: str | None = None
    aggregate: str = ""
    date_part: str = ""
    operator: str | None = None
    value: str | int | float | bool | None = None
    upper: str | int | float | bool | None = None
    descending: bool | None = None
    inner: list[ReadingPart] = Having(default_factory=list)


class OtherReading(Reply):
    """Another way to read the question; `choose` it by its number."""

    number: int
    sql: str
    reading: list[ReadingPart]
    confidence: float


class AskReply(QueryReply):
    """The answer, how the question was read, and how sure that is."""

    reading: list[ReadingPart] = Having(default_factory=list)
    why: str = ""
    confidence: float = 0.0
    draft: bool = Having(True, description="Too unsure to be given as the answer: check the reading, or choose another")
    others: list[OtherReading] = Having(default_factory=list, description="The next best readings")
    declined: str | None = Having(None, description="Why there is no answer")

    def _repr_html_(self) -> str:
        """How a notebook shows it: how the question was read and how sure that is, then the rows."""
        if self.declined is not None:
            return notebook.facts([f"No answer: {self.declined}"])
        sure = f"{self.confidence:.0%} sure" + (" (a draft: check how it was read)" if self.draft else "")
        others = [f"{one.number}: {', '.join(part.text for part in one.reading)}" for one in self.others]
        told = [f"other readings: {' | '.join(others)}"] if self.draft and others else []
        return (
            notebook.chips([part.text for part in self.reading]) + notebook.facts([sure, *told]) + super()._repr_html_()
        )


@dataclass(frozen=True)
class Trials:
    """Runs candidates under small limits, several at a time; what was run before is known."""

    tenant: Tenant
    files: Tables
    known: dict[str, Rows | None] = field(default_factory=dict)

    def expect(self, statements: Sequence[str]) -> None:
        new = [sql for sql in dict.fromkeys(statements) if sql not in self.known]
        try:
            found = self.tenant.data_engine().trials(new, self.files, limits=TRIAL)
        except TooLarge:  # one of them is too much: each gets limits of its own
            return
        self.known.update(zip(new, map(_scalars, found), strict=True))

    def __call__(self, sql: str) -> Rows | None:
        """The rows of a statement; None if it fails."""
        if sql not in self.known:
            self.known[sql] = self._alone(sql)
        return self.known[sql]

    def _alone(self, sql: str) -> Rows | None:
        try:
            return _scalars(self.tenant.data_engine().query(sql, self.files, limits=TRIAL).rows)
        except (InvalidInput, NotFound, TooLarge):
            return None


@dataclass(frozen=True)
class _Asked:
    """A question with all that it is asked of."""

    tenant: Tenant
    request: AskRequest
    known: Sequence[KnownTable]
    files: Tables
    prepared: Prepared
    execute: Trials
    before: QueryRun | None

    def check(self, sql: str) -> Checked | Problem:
        """Whether a statement of a language model may run."""
        from recollect.services.data.asking.with_model import Checked, Problem  # here, for it needs sqlglot

        try:
            return Checked(self.tenant.data_engine().check(sql, self.files, limits=TRIAL).sql)
        except (InvalidInput, NotFound, TooLarge) as error:
            return Problem(f"{error.message}; {error.remedy}")


def ask(tenant: Tenant, request: AskRequest) -> AskReply:
    """Answer a question about your data: the SQL, its rows, how it was read, and how sure that is."""
    tenant.data_engine()  # where its packages are missing, that is said first
    known = tables_of(tenant, sources_named(tenant, request.sources, request.project, request.user))
    if not known:
        raise NotFound("there are no sources to ask", remedy="add a file first: source.add")
    before = _run_before(tenant, request)
    known = _narrowed(tenant, request, before, [one for one in known if one.table.digest or one.sample])
    with local_files(tenant, known, samples=True) as files:
        prepared = prepared_for(tenant, known, files)
        asked = _Asked(tenant, request, known, files, prepared, Trials(tenant, files), before)
        readings = _readings(asked)
        if readings.best is None:
            return AskReply(run=None, question=request.question, sql="", declined=readings.declined)
    with statement_over(tenant, readings.best.sql, known, request.limits()) as statement:
        result = statement.run(request.limits(), request.job)
    return _answered(asked, readings, result)


def _narrowed(
    tenant: Tenant, request: AskRequest, before: QueryRun | None, known: list[KnownTable]
) -> list[KnownTable]:
    """Of very many tables those that the question seems to be about, and those that they join."""
    if len(known) <= MOST_TABLES:
        return known
    wanted = FindRequest(
        query=clipped(request.question, 2000), sources=request.sources, project=request.project, user=request.user,
        limit=LIKELY_TABLES,
    )  # fmt: skip
    likely = {one.id for one in find(tenant, wanted).tables}
    likely |= set(before.metadata.get("tables", {}).values()) if before is not None else set()
    joined = {join["to_table"] for one in known if one.table.id in likely for join in one.table.joins}
    chosen = [one for one in known if one.table.id in likely]
    chosen += [one for one in known if one.table.id in joined - likely]
    return (chosen or list(known))[:MOST_TABLES]


def _run_before(tenant: Tenant, request: AskRequest) -> QueryRun | None:
    if request.follows is not None:
        return load(tenant, QueryRun, request.follows)
    if request.changes or request.choose is not None:
        raise InvalidInput("there is no reading to change", remedy="give the run in `follows`")
    if request.session is None:
        return None
    where = (equal("session_id", request.session), Compare("created_at", ">", now() - FOLLOWED_FOR))
    found = tenant.find(Query(QueryRun, where, (Order("id", descending=True),), limit=1)).records
    return found[0] if found else None


def _readings(asked: _Asked) -> Readings:
    request, before = asked.request, asked.before
    if request.choose is not None and before is not None:
        return _chosen(asked, before, request.choose)
    if request.changes and before is not None:
        plan = plan_from_json(_plan_of(before), asked.prepared.schema)
        changed = edited(plan, [_change(one) for one in request.changes], asked.prepared, asked.execute)
        return Readings((changed,), draft=False)
    zone, previous = zone_for(asked.tenant, request.user), _previous(asked, before)
    today = datetime.now(ZoneInfo(zone)).date()
    known = verified_for(asked.tenant, asked.known, request.user, request.project)
    verified = [Verified(one.question, one.sql) for one in known]
    question, prepared, execute, model = request.question, asked.prepared, asked.execute, asked.tenant.language_model
    if model is None:
        return read(question, prepared, today=today, zone=zone, verified=verified, previous=previous, execute=execute)
    from recollect.services.data.asking.with_model import read_with_model

    return read_with_model(
        question, prepared, model, asked.check, today=today, zone=zone, verified=verified, previous=previous,
        execute=execute,
    )  # fmt: skip


def _chosen(asked: _Asked, before: QueryRun, number: int) -> Readings:
    others = before.metadata.get("others", [])
    if number >= len(others):
        raise InvalidInput(f"there is no reading {number}", remedy=f"give a number below {len(others)}")
    plan = plan_from_json(others[number]["plan"], asked.prepared.schema)
    reading = reading_of(plan, asked.prepared, 1.0, asked.execute, "Chosen.")
    if reading is None:
        raise InvalidInput("this reading fits the tables no longer", remedy="ask again")
    return Readings((reading,), draft=False)


def _plan_of(run: QueryRun) -> JsonObject:
    if run.plan is None:
        raise InvalidInput("this run was SQL, not a question", remedy="change its SQL, and run that")
    return run.plan


def _previous(asked: _Asked, before: QueryRun | None) -> Reading | None:
    """The reading that a question may follow up; None if the tables have changed too much."""
    if before is None or before.plan is None:
        return None
    try:
        plan = plan_from_json(before.plan, asked.prepared.schema)
    except RecollectError:
        return None
    return reading_of(plan, asked.prepared, before.confidence or 0.5, None, "")


def _change(given: PartChange) -> Change:
    fields = {name: value for name, value in given.model_dump(exclude={"column"}).items() if value is not None}
    if given.column is not None:
        table, _, column = given.column.partition(".")
        fields["field"] = (table, column)
    return Change(**fields)


def _answered(asked: _Asked, readings: Readings, result: QueryResult) -> AskReply:
    """The run is kept with its reading, so that it can be judged, changed and followed up."""
    tenant, request, best = asked.tenant, asked.request, readings.readings[0]
    schema = asked.prepared.schema
    others = [
        {"sql": one.sql, "plan": one.plan and plan_to_json(one.plan, schema), "confidence": one.confidence,
         "reading": [part_view(part).model_dump(exclude_defaults=True) for part in one.parts]}
        for one in readings.readings[1:]
    ]  # fmt: skip
    read_tables = [one for one in asked.known if one.sql_name in result.tables]
    chart = chart_of(
        [ChartColumn(name, type) for name, type in zip(result.columns, result.types, strict=True)],
        result.rows,
        title=request.question,
        sql=result.sql,
        row_count=result.row_count,
        is_cut=result.is_cut,
    )
    run = recorded_run(
        tenant,
        request,
        result,
        read_tables,
        question=request.question,
        plan=best.plan and plan_to_json(best.plan, schema),
        reading=[part_view(part).model_dump(exclude_defaults=True) for part in best.parts],
        confidence=best.confidence,
        is_draft=readings.draft,
        previous_id=asked.before.id if asked.before else None,
        chart=chart.spec if len(canonical(chart.spec)) <= KEPT_CHART_BYTES else None,
    )
    notes = getattr(readings, "notes", ())  # of readings with a language model
    run = run.changed(metadata={**run.metadata, "others": others}, notes=[*run.notes, *notes])
    commit(tenant, [Insert(run), logged(tenant, "search", "ask", None, id=run.id, rows=result.row_count)])
    return AskReply(
        **{**reply_fields(run), "chart": chart.spec},
        rows=result.rows,
        is_cut=result.is_cut,
        seconds=result.cost.seconds,
        reading=[part_view(part) for part in best.parts],
        why=best.why,
        confidence=best.confidence,
        draft=readings.draft,
        others=[
            OtherReading(
                number=at, sql=one.sql, reading=[part_view(part) for part in one.parts], confidence=one.confidence
            )
            for at, one in enumerate(readings.readings[1:])
        ],
    )


def part_view(part: Part) -> ReadingPart:
    return ReadingPart(
        key=part.key,
        kind=part.kind,
        text=part.text,
        column=".".join(part.field) if part.field else None,
        aggregate=part.aggregate,
        date_part=part.date_part,
        operator=part.operator,
        value=part.value,
        upper=part.upper,
        descending=part.descending,
        inner=[part_view(inner) for inner in part.inner],
    )


def _scalars(rows: Sequence[Sequence[object]] | None) -> Rows | None:
    return None if rows is None else [tuple(_scalar(cell) for cell in row) for row in rows]


def _scalar(value: object) -> str | int | float | bool | None:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
