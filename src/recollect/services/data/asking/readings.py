"""The entry point: a question to readings, best first, each with its SQL, its parts in plain words and a confidence.

Candidates are ranked by the learned part; the best few are run where an `execute` is handed in. Those that fail are
dropped, those that come back empty lose, and those that give the same rows count as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from recollect.services.data.asking.analysis import Analysis, Evidence, Prepared, analyse, evidence_of
from recollect.services.data.asking.candidates.generation import Candidate, candidates
from recollect.services.data.asking.candidates.time_groups import grouped_by_time, time_grouping
from recollect.services.data.asking.candidates.verified import Recollection, Verified, template_of
from recollect.services.data.asking.follow_up import followed, is_follow_up
from recollect.services.data.asking.language.linking import Matrix, in_total
from recollect.services.data.asking.plans.plan import Plan
from recollect.services.data.asking.plans.schema import Scalar
from recollect.services.data.asking.ranking.confidence import Outcome, answerable, calibrated
from recollect.services.data.asking.ranking.model import Model, log_softmax, shipped
from recollect.services.data.asking.ranking.scores import features_of, features_of_memory, scores
from recollect.services.data.asking.wording import Part, parts_of, reason_of

Rows = Sequence[Sequence[Scalar]]
Execute = Callable[[str], Rows | None]  # None: the statement failed


@runtime_checkable
class ExecutesMany(Protocol):
    """An `Execute` that is quicker when it is told beforehand what it will be asked for."""

    def expect(self, statements: Sequence[str]) -> None: ...


COMPARED = 10  # candidates that are compared with the question as a whole
MOST_CALLS = 10
_ALIKE = 0.6  # to a verified question: then the data can answer it
_SAME = 0.88  # to a verified question, but for its literals: its plan goes first
_FIRST = 10.0
_UNSAID = 4.0  # what going against the words costs
_TOTALS = frozenset({"total", "sum", "overall"})
_AVERAGES = frozenset({"average", "mean", "avg", "typical"})
_EMPTY = 2.0  # what an empty result costs, in log-odds


@dataclass(frozen=True)
class Reading:
    """One way to read the question."""

    sql: str
    plan: Plan | None  # none where a language model wrote SQL that a plan cannot say
    parts: tuple[Part, ...]
    confidence: float
    why: str
    tables: tuple[str, ...]
    fields: tuple[tuple[str, str], ...]
    rows: Rows | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Readings:
    """Best first. A `draft` is shown for choosing, not given as the answer; `declined` says why there is none."""

    readings: tuple[Reading, ...] = ()
    draft: bool = True
    declined: str | None = None
    is_verified: bool = False  # the best is the query of a verified question, with other values

    @property
    def best(self) -> Reading | None:
        return self.readings[0] if self.readings else None


@dataclass
class Result:
    """A ranked candidate with its rows; `share` is its part of the probability of all candidates.

    `position` is where it stood before the candidates were compared with the question.
    """

    candidate: Candidate
    sql: str
    share: float
    rows: Rows | None = None
    position: int = 0


def read(
    question: str,
    prepared: Prepared,
    *,
    today: date | None = None,
    zone: str = "",
    verified: Sequence[Verified] = (),
    previous: Reading | None = None,
    execute: Execute | None = None,
    limit: int = 5,
    model: Model | None = None,
) -> Readings:
    """Readings of a question over a prepared source. `today` is the asker's date, for words like "last month".

    `zone` is the asker's time zone by its IANA name: the days and months of times that know their zone are its own.

    `previous` is the reading that the question may follow up on; in another process it is made again by `reading_of`
    from the stored plan.
    """
    model, schema = model or shipped(), prepared.schema
    question = in_total(question, schema)
    evidence = evidence_of(question, prepared, today)
    recollection = _recalled(question, evidence, prepared, verified) if verified else None
    analysis = analyse(evidence, model, prepared, recollection)
    if not any(token.kind != "mark" for token in evidence.links.tokens):
        return Readings(declined="The question has no words.")
    if previous is not None and previous.plan is not None and is_follow_up(analysis):
        plan = followed(previous.plan, analysis, prepared)
        if plan is not None:
            plan = plan.in_zone(zone)
            reading = reading_of(plan, prepared, 0.9 * previous.confidence, execute, reason_of(plan, analysis, schema))
            if reading is not None:
                return Readings((reading,), draft=reading.confidence < model.threshold)
    if (timed := _by_time(question, prepared, recollection, today, zone, execute, model)) is not None:
        return timed
    results = ranked(analysis, prepared, model, execute, recollection, zone)
    if not results:
        return Readings(declined="No table or column of this source fits the question.")
    outcome = outcome_of(analysis, prepared, results, recollection)
    is_known = recollection is not None and recollection.likeness.max(initial=0.0) > _ALIKE
    if not is_known and not answerable(outcome, model):
        return Readings(declined="The data do not seem to have what the question asks for.")
    confidence = calibrated(outcome, model)
    total = sum(each.share for each in results) or 1.0
    made = []
    for at, each in enumerate(results[:limit]):
        sure = confidence if at == 0 else min(confidence, 1 - confidence) * each.share / total
        plan = each.candidate.plan
        reading = reading_of(plan, prepared, sure, why=reason_of(plan, analysis, schema))
        if reading is not None:
            made.append(replace(reading, rows=each.rows))
    verified_best = any(likeness >= _SAME and item.template == template_of(results[0].candidate.plan)
                        for likeness, item in (recollection.nearest if recollection else ()))  # fmt: skip
    return Readings(tuple(made), draft=confidence < model.threshold and not verified_best, is_verified=verified_best)


def _by_time(
    question: str,
    prepared: Prepared,
    recollection: Recollection | None,
    today: date | None,
    zone: str,
    execute: Execute | None,
    model: Model,
) -> Readings | None:
    """A question for each month or year: what it asks for without these words, grouped. None if it is not one."""
    asked = time_grouping(question)
    if asked is None or (recollection is not None and recollection.likeness.max(initial=0.0) > _ALIKE):
        return None
    rest, part = asked
    found = read(rest, prepared, today=today, zone=zone, execute=execute, model=model) if rest else Readings()
    made: list[Reading] = []
    for each in found.readings:
        plan = grouped_by_time(each.plan, part, prepared) if each.plan is not None else None
        plan = plan.in_zone(zone) if plan is not None else None
        why = f"{each.why} For each {part}."
        reading = reading_of(plan, prepared, each.confidence, execute, why) if plan is not None else None
        if reading is not None and reading.sql not in {known.sql for known in made}:
            made.append(reading)
    return Readings(tuple(made), draft=made[0].confidence < model.threshold) if made else None


def outcome_of(
    analysis: Analysis, prepared: Prepared, results: Sequence[Result], recollection: Recollection | None
) -> Outcome:
    return Outcome.of(
        analysis,
        prepared,
        [each.candidate for each in results],
        [each.share for each in results],
        [each.rows for each in results],
        results[0].position,
        float(recollection.likeness.max(initial=0.0)) if recollection is not None else 0.0,
    )


def _recalled(question: str, evidence: Evidence, prepared: Prepared, verified: Sequence[Verified]) -> Recollection:
    said = [str(literal.value) for literal in evidence.literals if literal.kind == "text"]
    return prepared.memory.recall(question, verified, said)


def reading_of(
    plan: Plan, prepared: Prepared, confidence: float = 1.0, execute: Execute | None = None, why: str = ""
) -> Reading | None:
    """A plan that is known already as a reading; None where its tables cannot be joined, or where it fails."""
    sql = prepared.composer.sql(plan)
    rows = execute(sql) if sql is not None and execute is not None else None
    if sql is None or (execute is not None and rows is None):
        return None
    schema, fields = prepared.schema, sorted(plan.all_fields())
    tables = {schema.table_of[f] for f in fields} | {t for level in plan.levels() for t in level.tables}
    names = tuple(schema.tables[t].name for t in sorted(tables))
    shown = tuple(schema.name_of(f) for f in fields)
    return Reading(sql, plan, parts_of(plan, schema), confidence, why, names, shown, rows)


def ranked(
    analysis: Analysis,
    prepared: Prepared,
    model: Model,
    execute: Execute | None,
    recollection: Recollection | None = None,
    zone: str = "",
) -> list[Result]:
    """The best candidates, one for each different result."""
    found = candidates(analysis, prepared, model, recollection)
    if not found:
        return []
    features = features_of(found, analysis, prepared)
    own, weights = scores(features, model.ranking), model.comparing[0]
    first = -_UNSAID * _contradicts(found, analysis)
    if recollection is not None and recollection.items:
        remembered = features_of_memory(found, recollection)
        recalled = scores(np.hstack((features, remembered)), model.recalled)
        own = own + recollection.trust * (recalled - own)
        weights = weights + recollection.trust * (model.comparing[1] - weights)
        is_same = remembered[:, 0] >= _SAME
        first = np.where(is_same & _grounded(found, analysis), _FIRST, first).astype(np.float32)
    best = _distinct(found, own + first, prepared)
    values = own[best]
    if prepared.compare is not None:
        texts = [prepared.describer.text(found[at].plan) for at in best]
        compared = prepared.compare(analysis.evidence.links.text, texts)
        values = np.asarray(weights[0] * values + weights[1] * compared, np.float32)
    logs = log_softmax(values + first[best])
    results: list[Result] = []
    for at in np.argsort(-logs, kind="stable").tolist():
        candidate = found[best[at]]
        if zone and any(prepared.schema.fields[field].has_zone for field in candidate.plan.all_fields()):
            candidate = replace(candidate, plan=candidate.plan.in_zone(zone))
        sql = prepared.composer.sql(candidate.plan)
        if sql is None:
            continue
        results.append(Result(candidate, sql, float(np.exp(logs[at])), position=at))
        if len(results) == MOST_CALLS:
            break
    return _tried(results, execute) if execute is not None else results


def _contradicts(found: Sequence[Candidate], analysis: Analysis) -> NDArray[np.float32]:
    """Whether candidates go against the words: an average where a total is asked for, or no use of a value of the data
    that is written in a script which the encoder cannot read.
    """
    words = {token.word for token in analysis.evidence.links.tokens}
    wants_total = bool(words & _TOTALS) and not words & _AVERAGES
    values = {
        at
        for at, literal in enumerate(analysis.evidence.literals)
        if literal.kind == "text" and not str(literal.value).isascii() and any(hit.score >= 1 for hit in literal.hits)
    }
    return np.array(
        [
            (wants_total and any(item.aggregate == "avg" for item in one.plan.select))
            or bool(values & set(one.assignment.unused))
            for one in found
        ],
        np.float32,
    )


def _grounded(found: Sequence[Candidate], analysis: Analysis) -> NDArray[np.bool_]:
    """Whether the data have every text that is compared, in that field; or in none, and it was said."""
    literals = analysis.evidence.literals
    known = {(hit.field, hit.value) for each in literals for hit in each.hits}
    elsewhere = {str(each.value).lower() for each in literals if each.hits}
    return np.array([
        all(
            (c.item.field, c.value) in known or str(c.value).lower() not in elsewhere
            for level in each.plan.levels() for c in level.where if c.operator == "=" and isinstance(c.value, str)
        )
        for each in found
    ])  # fmt: skip


def _distinct(found: Sequence[Candidate], values: Matrix, prepared: Prepared) -> list[int]:
    """The best candidates by a first rank, without those that read the same."""
    texts: dict[str, int] = {}
    for at in np.argsort(-values, kind="stable").tolist():
        texts.setdefault(prepared.describer.text(found[at].plan), at)
        if len(texts) == COMPARED:
            break
    return list(texts.values())


def _tried(results: list[Result], execute: Execute) -> list[Result]:
    if isinstance(execute, ExecutesMany):
        execute.expect([each.sql for each in results])
    distinct: dict[object, Result] = {}
    for each in results:
        each.rows = execute(each.sql)
        if each.rows is None:
            continue
        if is_empty(each.rows):
            each.share *= np.exp(-_EMPTY)
        key = _result_key(each)
        known = distinct.get(key)
        if known is None:
            distinct[key] = each
        else:
            known.share += each.share
    return sorted(distinct.values(), key=lambda each: -each.share)


def is_empty(rows: Rows) -> bool:
    return not rows or all(value is None for row in rows for value in row)


def same_rows(one: Rows, other: Rows, ordered: bool = False) -> bool:
    """Whether two results are the same but for the order of columns and, unless `ordered`, of rows."""
    return len(one) == len(other) and _rows_key(one, ordered) == _rows_key(other, ordered)


def _result_key(result: Result) -> object:
    rows, ordered = result.rows or (), bool(result.candidate.plan.order)
    return result.sql if is_empty(rows) else (ordered, _rows_key(rows, ordered))


def _rows_key(rows: Rows, ordered: bool) -> object:
    columns = [tuple(str(row[at]) for row in rows) for at in range(len(rows[0]))] if rows else []
    return tuple(sorted(columns if ordered else [tuple(sorted(column)) for column in columns]))
