"""The sets that recall is judged on, each read into the same shape: what is stored, and the questions to it.

Our own are in `sets/`, one JSON object a line. LoCoMo and the questions about talk, stories, meetings and tasks are
read where they lie: LoCoMo in $LOCOMO, or both in ../shared; what is not there is left out. A question's evidence is
the numbers of the turns that answer it, counted from 0; none means that nothing stored does.
"""

from __future__ import annotations

import json
import lzma
import os
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[1] / "shared" / "data"
LOCOMO = Path(os.environ.get("LOCOMO", SHARED / "locomo" / "locomo10.json"))
GROUPS = SHARED / "memory-questions" / "groups.jsonl.xz"

ANSWERED = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
ADVERSARIAL = "adversarial"  # category 5 of LoCoMo: worded as if the conversation answered it

# The set that a source of the groups belongs to; a source not named here is talk.
SET_OF = {
    "fairytale": "stories",
    "qmsum": "meetings",
    "sgd": "tasks",
    "squad": "documents",
    "qamr": "documents",
    "general": "documents",
    "molweni": "chat",
}
ENOUGH_TURNS, FEWEST_TURNS = 400, 60
# Meetings are long and few questions are asked about each: more than a dozen would cost thousands of turns.
MOST_QUESTIONS, MOST_OF = 100, {"qmsum": 12, "squad": 34, "qamr": 33, "general": 33}
SEED = 3


class Turn(NamedTuple):
    author: str  # empty: not known
    text: str
    session: str  # empty: none
    at: datetime | None


class Question(NamedTuple):
    text: str
    evidence: tuple[int, ...]
    kind: str


@dataclass(frozen=True)
class Conversation:
    """What one store holds, and the questions that are asked of it alone."""

    set: str
    id: str
    turns: list[Turn]
    questions: list[Question]


def conversations(names: Iterable[str] = ()) -> list[Conversation]:
    """All sets that are there, or those named."""
    wanted = set(names)
    return [one for one in (*ours(), *locomo(), *groups()) if not wanted or one.set in wanted]


def ours(folder: Path = HERE / "sets") -> Iterator[Conversation]:
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            yield from (_one_of_ours(json.loads(line)) for line in lines)


def _one_of_ours(line: dict[str, Any]) -> Conversation:
    return Conversation(
        line["set"],
        line["id"],
        [Turn(author, text, session, _moment(at)) for author, text, session, at in line["turns"]],
        [Question(text, tuple(evidence), kind) for text, evidence, kind in line["qas"]],
    )


def _moment(at: str | None) -> datetime | None:
    if at is None:
        return None
    moment = datetime.fromisoformat(at)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def locomo(path: Path = LOCOMO) -> Iterator[Conversation]:
    if path.exists():
        yield from map(_talk, json.loads(path.read_text(encoding="utf-8")))


def _talk(sample: dict[str, Any]) -> Conversation:
    turns: list[Turn] = []
    numbers: dict[str, int] = {}
    for session, at, said in _sessions(sample["conversation"]):
        for turn in said:
            numbers[turn["dia_id"]] = len(turns)
            turns.append(Turn(turn["speaker"], _with_picture(turn), session, at))
    return Conversation("locomo", sample["sample_id"], turns, list(_asked(sample["qa"], numbers)))


def _sessions(conversation: dict[str, Any]) -> Iterator[tuple[str, datetime, list[dict[str, Any]]]]:
    names = sorted((key for key in conversation if re.fullmatch(r"session_\d+", key)), key=lambda key: int(key[8:]))
    for name in names:
        at = datetime.strptime(conversation[f"{name}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        yield name, at, conversation[name]


def _with_picture(turn: dict[str, Any]) -> str:
    text: str = turn["text"]
    caption = turn.get("blip_caption")
    return f"{text} [shares {caption}]".strip() if caption else text


def _asked(qa: list[dict[str, Any]], numbers: dict[str, int]) -> Iterator[Question]:
    for asked in qa:
        named = {one for text in asked["evidence"] for one in re.findall(r"D\d+:\d+", text)}
        evidence = tuple(sorted(numbers[one] for one in named & numbers.keys()))
        if asked["category"] not in ANSWERED:
            yield Question(asked["question"], (), ADVERSARIAL)
        elif evidence:
            yield Question(asked["question"], evidence, ANSWERED[asked["category"]])


def groups(path: Path = GROUPS) -> Iterator[Conversation]:
    """The held-out groups, put together by source, so that a question has as many rivals as in a real store."""
    if not path.exists():
        return
    chosen, asked = random.Random(SEED), Counter[str]()
    for source, turns, questions in _put_together(path):
        room = MOST_OF.get(source, MOST_QUESTIONS) - asked[source]
        if len(turns) < FEWEST_TURNS or not questions or room <= 0:
            continue
        kept = sorted(chosen.sample(range(len(questions)), min(room, len(questions))))
        asked[source] += len(kept)
        name = SET_OF.get(source, f"talk-{source}")
        yield Conversation(name, f"{source}-{asked[source]}", turns, [questions[number] for number in kept])


def _put_together(path: Path) -> Iterator[tuple[str, list[Turn], list[Question]]]:
    """Runs of groups of one source, each group a session of its own."""
    waiting: dict[str, tuple[list[Turn], list[Question]]] = defaultdict(lambda: ([], []))
    for number, group in enumerate(_held_out(path)):
        turns, questions = waiting[group["src"]]
        first = len(turns)
        questions += [Question(text, tuple(first + row for row in rows), kind) for text, rows, kind in group["qas"]]
        turns += [Turn(_name(speaker), text, str(number), None) for speaker, text in group["units"]]
        if len(turns) >= ENOUGH_TURNS:
            yield group["src"], *waiting.pop(group["src"])
    for source, (turns, questions) in waiting.items():
        yield source, turns, questions


def _held_out(path: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            group = json.loads(line)
            if group["split"] == "dev":
                yield group


def _name(speaker: str) -> str:
    return "" if speaker.startswith("User") else speaker


if __name__ == "__main__":
    sizes: dict[str, Counter[str]] = defaultdict(Counter)
    for one in conversations():
        unanswered = sum(not question.evidence for question in one.questions)
        sizes[one.set].update(stores=1, turns=len(one.turns), questions=len(one.questions), unanswered=unanswered)
    for name, size in sizes.items():
        print(f"{name:26} " + "  ".join(f"{count:5} {what}" for what, count in size.items()))
