"""Questions of a set with their databases, plans, features and labels: what the asking package is trained on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ask_sets import Database, Question, database, questions
from recollect.adapters.models.minilm import MiniLM
from recollect.services.data.asking.analysis import Evidence, Prepared, evidence_of
from recollect.services.data.asking.language.literals import Literal
from recollect.services.data.asking.plans.parsing import parse
from recollect.services.data.asking.plans.plan import ANY, Condition, Plan, tables_of
from recollect.services.data.asking.plans.schema import Schema
from recollect.services.data.asking.plans.sketch import ROLES, USES, Sketch, sketch_of

SEED = 7
FOLDS = 4


@dataclass
class Example:
    question: Question
    plan: Plan
    sketch: Sketch
    evidence: Evidence


@dataclass
class Source:
    data: Database
    prepared: Prepared


def load(folder: Path, names: Sequence[str] | None = None, encoder: MiniLM | None = None) -> dict[str, Source]:
    encoder = encoder or MiniLM(threads=1)
    found = {}
    for name in names or list(dict.fromkeys(q["db"] for q in questions(folder))):
        data = database(folder, name)
        found[name] = Source(data, Prepared(data.schema, data.values, encoder.embed))
    return found


def examples(asked: Sequence[Question], sources: dict[str, Source]) -> list[Example]:
    made = []
    for question in asked:
        source = sources[question["db"]]
        plan = parse(question["gold_sql"], source.data.schema, "sqlite")
        if plan is not None:
            evidence = evidence_of(question["question"], source.prepared)
            made.append(Example(question, plan, sketch_of(plan), evidence))
    return made


def role_labels(plan: Plan, schema: Schema) -> NDArray[np.float32]:
    labels = np.zeros((len(schema.fields), len(ROLES)), np.float32)

    def mark(role: str, field: int) -> None:
        if field != ANY:
            labels[field, ROLES.index(role)] = 1

    for level in plan.levels():
        for item in level.select:
            if level is plan or item.aggregate:
                mark("aggregate" if item.aggregate else "select", item.field)
        for condition in level.where:
            if not (condition.nested and condition.operator in ("in", "not in")):
                mark("where", condition.item.field)
        for condition in level.having:
            mark("aggregate", condition.item.field)
        for item in level.group:
            mark("group", item.field)
        for order in level.order:
            mark("aggregate" if order.item.aggregate else "order", order.item.field)
    return labels


def table_labels(plan: Plan, schema: Schema) -> NDArray[np.float32]:
    labels = np.zeros((len(schema.tables), 2), np.float32)
    for level in plan.levels():
        for table in tables_of(level, schema):
            labels[table, 0 if level is plan else 1] = 1
    return labels


def _same_value(literal: Literal, condition: Condition) -> bool:
    values = [condition.value, condition.upper]
    if condition.operator in ("like", "not like"):
        values = [str(condition.value).strip("%")]
    own = [str(literal.value).lower(), *(hit.value.lower() for hit in literal.hits)]
    for value in values:
        if value is None or isinstance(value, Plan):
            continue
        if str(value).lower().strip() in [each.strip() for each in own]:
            return True
        if isinstance(literal.value, int | float):
            try:
                if float(str(value)) == float(literal.value):
                    return True
            except ValueError:
                continue
    return False


def literal_labels(plan: Plan, literal: Literal) -> tuple[int, int | None]:
    """What the literal is for, and of which field it is a value."""
    for level in plan.levels():
        for condition in level.where:
            if not condition.nested and _same_value(literal, condition):
                return USES.index("where"), condition.item.field
    for level in plan.levels():
        for condition in level.having:
            if not condition.nested and _same_value(literal, condition):
                return USES.index("having"), None
            both = isinstance(condition.value, int) and isinstance(literal.value, int) and literal.kind == "number"
            if both and abs(int(str(condition.value)) - int(str(literal.value))) == 1:
                return USES.index("having"), None
        if level.limit is not None and level.limit == literal.value and literal.kind == "number":
            return USES.index("limit"), None
    return USES.index("none"), None


def folds(names: Sequence[str]) -> dict[str, int]:
    order = sorted(names)
    random.Random(SEED).shuffle(order)
    return {name: at % FOLDS for at, name in enumerate(order)}
