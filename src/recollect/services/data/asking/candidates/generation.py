"""Queries that a question may mean: likely forms, filled with likely fields and values. Wide, to be ranked later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from recollect.services.data.asking.analysis import Analysis, Prepared
from recollect.services.data.asking.candidates.conditions import Assignment, assignments
from recollect.services.data.asking.candidates.nesting import nested
from recollect.services.data.asking.candidates.rebinding import rebound
from recollect.services.data.asking.candidates.verified import Recollection
from recollect.services.data.asking.plans.plan import ANY, Aggregate, Condition, Item, Operator, Order, Plan, tables_of
from recollect.services.data.asking.plans.sketch import ASPECTS, ROLES, Sketch, sketch_of
from recollect.services.data.asking.ranking.model import Model

MOST = 400
_PER_SKETCH = 24
_COMBINATIONS = 60  # of selection, order and literals that are looked at for one form
_SKETCHES = 60
_UNSEEN = -2.5  # what a form that never occurred in training loses
_AGGREGATES: dict[str, Aggregate] = {"avg": "avg", "sum": "sum", "min": "min", "max": "max", "countd": "count"}


@dataclass(frozen=True)
class Candidate:
    plan: Plan
    sketch: Sketch
    form: float  # log-probability of the form
    fill: float  # of the fields
    literal: float  # of what the literals are for
    assignment: Assignment

    @property
    def rough(self) -> float:
        return self.form + self.fill + self.literal


def candidates(
    analysis: Analysis, prepared: Prepared, model: Model, recollection: Recollection | None = None
) -> list[Candidate]:
    """Best first by a rough score; with those of verified questions like this one."""
    best: dict[Plan, Candidate] = {}
    uses = assignments(analysis, prepared)
    via = _via(analysis, prepared)
    for form, sketch in sketches(analysis, model):
        made = sorted(_filled(sketch, form, analysis, prepared, uses, via), key=lambda each: -each.rough)
        for each in made[:_PER_SKETCH]:
            known = best.get(each.plan)
            if known is None or known.rough < each.rough:
                best[each.plan] = each
    made = sorted(best.values(), key=lambda each: -each.rough)[:MOST]
    if recollection is not None:
        plans = {each.plan for each in made}
        for plan, use in rebound(recollection, analysis, prepared):
            if plan not in plans and prepared.graph.tree(tables_of(plan, prepared.schema)) is not None:
                plans.add(plan)
                made.append(candidate_of(plan, use, analysis, model))
    return made


def candidate_of(plan: Plan, use: Assignment, analysis: Analysis, model: Model) -> Candidate:
    """A plan that came from elsewhere, scored as if it had been built here."""
    sketch = sketch_of(plan)
    labels = tuple(sketch.label(aspect) for aspect in ASPECTS)
    form = sum(analysis.aspects[a].get(label, -6.0) for a, label in zip(ASPECTS, labels, strict=True))
    form += 0.5 * model.together.get(labels, _UNSEEN)
    gain = analysis.roles - analysis.not_roles
    fill = 0.0
    for item in (*plan.select, *(order.item for order in plan.order)):
        if item.field != ANY:
            role = "aggregate" if item.aggregate else "select" if item in plan.select else "order"
            fill += float(gain[item.field, ROLES.index(role)])
    return Candidate(plan, sketch, form, fill, use.score, use)


def _via(analysis: Analysis, prepared: Prepared) -> frozenset[int]:
    """Where tables join in several ways: the key that the question names best."""
    chosen = set()
    for joins in prepared.graph.parallel:
        named = [(max((m.mass for m in analysis.evidence.links.fields[j.left]), default=0.0), j.left) for j in joins]
        chosen.add(max(named, key=lambda each: each[0])[1])
    return frozenset(chosen)


def sketches(analysis: Analysis, model: Model) -> list[tuple[float, Sketch]]:
    beams: list[tuple[float, tuple[str, ...]]] = [(0.0, ())]
    for aspect in ASPECTS:
        likely = sorted(analysis.aspects[aspect].items(), key=lambda each: -each[1])[:8]
        likely = [each for each in likely if each[1] > -5.0]
        beams = [(score + more, (*labels, label)) for score, labels in beams for label, more in likely]
        beams.sort(key=lambda each: -each[0])
        beams = beams[:200]
    scored = [(score + 0.5 * model.together.get(labels, _UNSEEN), Sketch(*labels)) for score, labels in beams]
    return sorted(((s, k) for s, k in scored if _is_sound(k)), key=lambda each: -each[0])[:_SKETCHES]


def _is_sound(sketch: Sketch) -> bool:
    simple = sketch.select.split("+")[0]
    aggregated = "+" in sketch.select
    if sketch.nest in ("other", "in") or sketch.having == "other":
        return False
    if sketch.having != "none" and sketch.group == "no":
        return False
    if sketch.order.split(":")[0] not in ("none", "col") and sketch.group == "no":
        return False
    return not (aggregated and simple not in ("0", "all") and sketch.group == "no")


@dataclass(frozen=True)
class _Filling:
    select: tuple[Item, ...]
    score: float


def _filled(
    sketch: Sketch,
    form: float,
    analysis: Analysis,
    prepared: Prepared,
    uses: Sequence[Assignment],
    via: frozenset[int],
) -> Iterator[Candidate]:
    selects = list(_selects(sketch, analysis, prepared))
    orders = list(_orders(sketch, analysis, prepared))
    fitting = [each for each in uses if _fits(each, sketch)][:8]
    combined = sorted(product(selects, orders, fitting), key=lambda e: -(e[0].score + e[1][1] + e[2].score))
    for filling, (order, order_score), use in combined[:_COMBINATIONS]:
        limit = _limit(sketch, use)
        if sketch.order.endswith(":n") and limit is None:
            continue
        having, having_score = _having(sketch, use, analysis, prepared)
        if sketch.having != "none" and having is None:
            continue
        for group, group_score in _groups(sketch, filling, analysis, prepared):
            plan = Plan(
                select=filling.select,
                where=use.conditions,
                group=group,
                having=(having,) if having else (),
                order=order,
                limit=limit,
                distinct=sketch.distinct == "yes",
                via=via,
            )
            fill = filling.score + order_score + group_score + having_score
            for whole, more in nested(sketch.nest, plan, use, analysis, prepared):
                for full, extra in _with_tables(whole, analysis, prepared):
                    yield Candidate(full, sketch, form, fill + more + extra, use.score, use)


def _fits(use: Assignment, sketch: Sketch) -> bool:
    if (use.limit is not None) != sketch.order.endswith(":n"):
        return False
    if use.having is not None and sketch.having == "none":
        return False
    return sketch.nest not in ("or", "intersect", "union") or len(use.conditions) >= 2


def odds(analysis: Analysis, role: str) -> list[tuple[float, int]]:
    """Every field with its log-odds for a role, best first."""
    at = ROLES.index(role)
    scores = analysis.roles[:, at] - analysis.not_roles[:, at]
    return sorted(((float(score), number) for number, score in enumerate(scores)), reverse=True)


def _selects(sketch: Sketch, analysis: Analysis, prepared: Prepared) -> Iterator[_Filling]:
    if sketch.select == "all":
        yield _Filling((Item(ANY),), 0.0)
        return
    simple, *aggregates = sketch.select.split("+")
    count = int(simple)
    plain_sets: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    if count:
        ranked = odds(analysis, "select")[: count + 4]
        sets = [(sum(s for s, _ in each), tuple(sorted(n for _, n in each))) for each in combinations(ranked, count)]
        plain_sets = sorted(sets, reverse=True)[:8]
    for score, fields in plain_sets:
        for items, more in _aggregated(aggregates, analysis, prepared):
            yield _Filling((*(Item(n) for n in fields), *items), score + more)


def _aggregated(
    labels: Sequence[str], analysis: Analysis, prepared: Prepared
) -> Iterator[tuple[tuple[Item, ...], float]]:
    valued = [label for label in labels if label != "count*"]
    count = tuple(Item(ANY, "count") for label in labels if label == "count*")
    if not valued:
        yield count, 0.0
        return
    arguments = [aggregate_fields(label, analysis, prepared, 3) for label in valued]
    for chosen in product(*arguments):
        numbers = [number for _, number in chosen]
        if len(set(labels)) == len(labels) and len(set(numbers)) not in (1, len(numbers)):
            continue
        items = tuple(Item(n, _AGGREGATES[label], label == "countd") for n, label in zip(numbers, valued, strict=True))
        if len(set(items)) < len(items):
            continue
        different = {number: score for score, number in chosen}
        yield (*items, *count), sum(different.values())


def aggregate_fields(label: str, analysis: Analysis, prepared: Prepared, most: int) -> list[tuple[float, int]]:
    fields, joined = prepared.schema.fields, prepared.schema.joined_fields
    found = []
    for score, number in odds(analysis, "aggregate"):
        numeric = fields[number].kind == "number" and not fields[number].is_key and number not in joined
        if label in ("avg", "sum") and not numeric:
            score -= 2.0
        found.append((score, number))
    return sorted(found, reverse=True)[:most]


def _orders(sketch: Sketch, analysis: Analysis, prepared: Prepared) -> Iterable[tuple[tuple[Order, ...], float]]:
    if sketch.order == "none":
        return [((), 0.0)]
    kind, direction, _ = sketch.order.split(":")
    descending = direction == "desc"
    if kind == "count":
        return [((Order(Item(ANY, "count"), descending),), 0.0)]
    if kind == "col":
        return [((Order(Item(n), descending),), score) for score, n in odds(analysis, "order")[:4]]
    ranked = aggregate_fields(kind, analysis, prepared, 3)
    return [((Order(Item(n, _AGGREGATES[kind]), descending),), score) for score, n in ranked]


def _limit(sketch: Sketch, use: Assignment) -> int | None:
    if sketch.order.endswith(":1"):
        return 1
    return use.limit if sketch.order.endswith(":n") else None


_HAVING: tuple[Operator, ...] = (">=", "<=", "!=", ">", "<", "=")


def _having(sketch: Sketch, use: Assignment, analysis: Analysis, prepared: Prepared) -> tuple[Condition | None, float]:
    if sketch.having == "none" or (use.having is None and not sketch.having.startswith("count")):
        return None, 0.0
    operator = next(each for each in _HAVING if sketch.having.endswith(each))
    aggregate = sketch.having[: -len(operator)]
    value = use.having if use.having is not None else 1
    if aggregate == "count":
        score = 0.0 if use.having is not None else -1.0
        said = use.having_operator
        if said is not None and said != operator and said != "=":
            score -= 3.0
        return Condition(Item(ANY, "count"), operator, value), score
    if aggregate not in _AGGREGATES:
        return None, 0.0
    score, number = aggregate_fields(aggregate, analysis, prepared, 1)[0]
    return Condition(Item(number, _AGGREGATES[aggregate]), operator, value), score


def _groups(
    sketch: Sketch, filling: _Filling, analysis: Analysis, prepared: Prepared
) -> Iterator[tuple[tuple[Item, ...], float]]:
    if sketch.group == "no":
        yield (), 0.0
        return
    plain = tuple(item for item in filling.select if not item.aggregate and item.field != ANY)
    if not plain:
        for score, number in odds(analysis, "group")[:3]:
            yield (Item(number),), score
        return
    yield plain, 0.0
    schema = prepared.schema
    key = schema.key_of[schema.table_of[plain[0].field]]
    if key is not None and not any(schema.fields[item.field].is_unique for item in plain):
        yield (Item(key),), -0.7


def _with_tables(plan: Plan, analysis: Analysis, prepared: Prepared) -> Iterator[tuple[Plan, float]]:
    """The plan as it is, and with a table more that the question names but no field brings in."""
    used = tables_of(plan, prepared.schema)
    if used:
        if prepared.graph.tree(used) is None:
            return
        yield plan, 0.0
    if plan.tables:
        return
    scores = sorted(((float(s), n) for n, s in enumerate(analysis.tables[:, 0]) if n not in used), reverse=True)
    for score, table in scores[: 2 if used else 4]:
        if (used and score < -2.5) or prepared.graph.tree(used | {table}) is None:
            continue
        second = plan.second
        if second is not None and plan.combination in ("intersect", "union"):
            second = second.changed(tables=(table,)) if table not in tables_of(second, prepared.schema) else second
        yield plan.changed(tables=(table,), second=second), score
