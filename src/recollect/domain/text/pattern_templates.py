"""One way of doing something, read off several tries: the steps they share, with slots where they differ.

Offline wording of a pattern. The steps of all tries are matched with each other; a step that most tries have stays, in
the words of the try that is most like the others, and a word in it that differs from try to try becomes a slot such as
`{1}`. What differs in the same way, in the task and in the steps, is the same slot, so a new task worded like the old
ones fills the slots by itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from recollect.domain.text.alignment import changes
from recollect.domain.text.similarity import every_word

_NUMBERING = re.compile(r"^\s*(?:[-*•]|\(?\d{1,3}[.):])\s+")
_BREAK = re.compile(r"(?<=[^\d\s][.;])\s+(?=[A-Z0-9])|;\s+")
_SLOT = re.compile(r"\{([A-Za-z0-9_]{1,40})\}")
_EDGES = ".,;:!?()[]'\"`"
LEAST_STEP_OVERLAP = 0.5
MOST_STEPS = 12
# Steps are compared with steps and words with words, which grows with the square of both: a plan is read this far.
MOST_READ_STEPS = 60
MOST_READ_WORDS = 300


@dataclass(frozen=True, slots=True)
class TaskExample:
    task: str
    plan: str


@dataclass(frozen=True, slots=True)
class Template:
    problem: str
    solution: str


def steps_of(plan: str) -> list[str]:
    """A plan's first steps: its lines, or its sentences if it is written in one go; without their numbers."""
    lines = plan.splitlines() if "\n" in plan.strip() else _BREAK.split(plan)
    parts = (_NUMBERING.sub("", line).strip() for line in lines)
    return list(islice((_read(part).rstrip(".;") for part in parts if part.rstrip(".; ")), MOST_READ_STEPS))


def _read(text: str) -> str:
    """So much of a text as is compared; one that is short enough stays as it stands."""
    words = text.split(maxsplit=MOST_READ_WORDS)
    return text if len(words) <= MOST_READ_WORDS else " ".join([*words[:MOST_READ_WORDS], "…"])


def generalized(tries: Sequence[TaskExample]) -> Template:
    """What the tries have in common."""
    slots = _Slots()
    problem = _worded([(number, _read(one.task.strip())) for number, one in enumerate(tries)], slots)
    shared = [_worded(group, slots) for group in _shared_steps([steps_of(one.plan) for one in tries])]
    if not shared:  # nothing in common: the shortest plan that says something is the easiest to follow
        plans = sorted((one.plan.strip() for one in tries if one.plan.strip()), key=lambda plan: (len(plan), plan))
        return Template(problem, plans[0] if plans else problem)
    return Template(problem, "\n".join(f"{number}. {step}" for number, step in enumerate(shared, 1)))


def slots_of(template: str) -> list[str]:
    return list(dict.fromkeys(_SLOT.findall(template)))


def filled(template: str, values: Mapping[str, str]) -> str:
    """The template with what is known put in; slots without a value stay, so that nobody takes them for done."""
    return _SLOT.sub(lambda found: str(values.get(found[1], found[0])), template)


def read_slots(problem: str, task: str) -> dict[str, str]:
    """The values of a problem's slots in a task that is worded like it; those that cannot be told are left out."""
    pattern, given = _read(problem).split(), _read(task).split()
    values: dict[str, str] = {}
    told = changes([_bare(word) for word in pattern], [_bare(word) for word in given])
    for change, start, end, first, last in told:
        names = [_SLOT.fullmatch(word.strip(_EDGES)) for word in pattern[start:end]]
        if change == "replace" and len(names) == 1 and names[0] and last > first:
            values[names[0][1]] = " ".join(given[first:last]).strip(_EDGES)
        elif change == "replace" and end - start == last - first:
            pairs = zip(names, given[first:last], strict=True)
            values |= {name[1]: word.strip(_EDGES) for name, word in pairs if name}
    return values


class _Slots:
    """Names of slots: what takes the same values in the same tries has the same name."""

    def __init__(self) -> None:
        self._known: list[tuple[dict[int, str], str]] = []

    def name(self, values: dict[int, str]) -> str:
        for known, name in self._known:
            common = known.keys() & values.keys()
            if common and all(known[number] == values[number] for number in common):
                return name
        self._known.append((values, str(len(self._known) + 1)))
        return self._known[-1][1]


Line = tuple[int, str]


def _shared_steps(plans: Sequence[Sequence[str]]) -> list[list[Line]]:
    """Groups of like steps that at least half of the tries have, two at least, in the order they usually come."""
    groups: list[list[tuple[int, str, float]]] = []
    for number, plan in enumerate(plans):
        taken: set[int] = set()
        for place, step in enumerate(plan):
            best = max(
                (which for which in range(len(groups)) if which not in taken),
                key=lambda which: (_overlap(groups[which][0][1], step), -which),
                default=None,
            )
            if best is None or _overlap(groups[best][0][1], step) < LEAST_STEP_OVERLAP:
                groups.append([])
                best = len(groups) - 1
            taken.add(best)
            groups[best].append((number, step, place / len(plan)))
    needed = max(2, -(-sum(1 for plan in plans if plan) // 2)) if len(plans) > 1 else 1
    kept = [group for group in groups if len(group) >= needed]
    kept.sort(key=lambda group: sum(place for _, _, place in group) / len(group))
    return [[(number, step) for number, step, _ in group] for group in kept[:MOST_STEPS]]


def _overlap(one: str, other: str) -> float:
    """Share of words in common, of the longer text. In a short step "to" and "from" say a lot, so they count too."""
    first, second = Counter(every_word(one)), Counter(every_word(other))
    longer = max(first.total(), second.total())
    return (first & second).total() / longer if longer else float(one.strip() == other.strip())


def _worded(lines: Sequence[Line], slots: _Slots) -> str:
    """The line most like the others, with slots where the others differ from it."""
    texts = sorted({text for _, text in lines}, key=lambda text: (len(text), text))
    middle = max(texts, key=lambda text: (sum(_overlap(text, other) for _, other in lines), -texts.index(text)))
    model = middle.split()
    differing: list[dict[int, str]] = [{} for _ in model]
    for number, text in lines:
        for place, word in _aligned(model, text.split()).items():
            differing[place][number] = word.strip(_EDGES)
    # The first word says what to do; a step whose verb is open is no step.
    varying = [place for place, values in enumerate(differing) if place and _varies(values, len(lines))]
    if 2 * len(varying) > len(model):
        return middle  # nothing of the wording would be left
    for place in varying:
        bare = model[place].strip(_EDGES)
        model[place] = model[place].replace(bare, "{" + slots.name(differing[place]) + "}")
    return " ".join(model)


def _aligned(model: Sequence[str], line: Sequence[str]) -> dict[int, str]:
    """Which word of a line stands for which word of the model."""
    found: dict[int, str] = {}
    for change, start, end, first, last in changes([_bare(word) for word in model], [_bare(word) for word in line]):
        if change in ("equal", "replace") and end - start == last - first:
            found |= {start + step: line[first + step] for step in range(end - start)}
    return found


def _varies(values: Mapping[int, str], lines: int) -> bool:
    """A slot has a value in most lines, and hardly two alike."""
    known = [value for value in values.values() if value]
    if 2 * len(known) <= lines or len(known) < 2:
        return False
    return max(Counter(value.casefold() for value in known).values()) * 2 <= len(known)


def _bare(word: str) -> str:
    return word.strip(_EDGES).casefold()
