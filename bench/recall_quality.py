"""Recall quality on LoCoMo: is the evidence for a question among the first hits?

Each dialogue turn is remembered as one memory through the public API (its speaker as author, its session, its date);
each question of categories 1 to 4 is asked through `recall` within its own conversation. R@k is the mean share of a
question's evidence turns among the first k hits. Needs the data set's `locomo10.json`: in $LOCOMO, or in ../shared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from itertools import groupby
from pathlib import Path
from typing import Any

import recollect
from recall_sets import ANSWERED, LOCOMO, Conversation, Question, Turn, locomo

CUTS = (5, 10, 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=LOCOMO)
    parser.add_argument("--embedder", default="built-in")
    parser.add_argument("--conversations", type=int, default=10)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if not options.data.exists():
        sys.exit(f"no data at {options.data}: set LOCOMO to the path of locomo10.json")
    talks = list(locomo(options.data))[: options.conversations]
    with (
        tempfile.TemporaryDirectory() as folder,
        recollect.open(Path(folder) / "locomo.db", embedder=options.embedder) as mem,
    ):
        report = measure(mem, talks)
    show(report)
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


def measure(mem: Any, talks: list[Conversation]) -> dict[str, Any]:
    scores: dict[str, list[dict[int, float]]] = defaultdict(list)
    latencies: list[float] = []
    turns, started, writing = 0, time.perf_counter(), 0.0
    for number, talk in enumerate(talks, 1):
        begun = time.perf_counter()
        ids = remember_conversation(mem, talk)
        writing += time.perf_counter() - begun
        turns += len(ids)
        mem.recall("warm", user=talk.id)
        for question in filter(_has_evidence, talk.questions):
            begun = time.perf_counter()
            hits = [hit.id for hit in mem.recall(question.text, user=talk.id, limit=max(CUTS))]
            latencies.append((time.perf_counter() - begun) * 1000)
            scores[question.kind].append(_shares(hits, {ids[row] for row in question.evidence}))
        print(f"\r{number} of {len(talks)} conversations", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    everything = [one for category in scores.values() for one in category]
    return {
        "turns": turns,
        "questions": len(everything),
        "recall": {f"R@{cut}": _mean(everything, cut) for cut in CUTS},
        "by_category": {
            category: {"questions": len(found), **{f"R@{cut}": _mean(found, cut) for cut in CUTS}}
            for category in ANSWERED.values()
            if (found := scores[category])
        },
        "latency_ms": {
            "median": round(statistics.median(latencies), 1),
            "p95": round(sorted(latencies)[int(len(latencies) * 0.95)], 1),
        },
        "turns_per_second_remembered": round(turns / writing),
        "seconds": round(time.perf_counter() - started),
    }


def remember_conversation(
    mem: Any, conversation: Conversation, user: str | None = None, *, bare: bool = False
) -> list[str]:  # fmt: skip
    """Every turn as one memory, with what is known of it or as a bare text; gives their ids in the order of turns."""
    user, ids = user or conversation.id, list[str]()
    mem.user.add(user, id=user)
    for session, turns in groupby(conversation.turns, key=lambda turn: turn.session):
        told = [
            {
                "content": turn.text.strip() or ".",
                "kind": "conversation",
                "user": user,
                "on_duplicate": "keep",
                **({} if bare else _known_of(turn, f"{user}/{session}" if session else "")),
            }
            for turn in turns
        ]
        ids += [receipt.id for receipt in mem.remember_many(told).receipts]
    return ids


def _known_of(turn: Turn, session: str) -> dict[str, Any]:
    known = {"author": turn.author, "session": session, "at": turn.at}
    return {name: value for name, value in known.items() if value}


def _has_evidence(question: Question) -> bool:
    return bool(question.evidence)


def _shares(hits: list[str], wanted: set[str]) -> dict[int, float]:
    return {cut: len(wanted & set(hits[:cut])) / len(wanted) for cut in CUTS}


def _mean(found: list[dict[int, float]], cut: int) -> float:
    return round(100 * statistics.mean(one[cut] for one in found), 1)


def show(report: dict[str, Any]) -> None:
    print(f"{report['questions']} questions over {report['turns']} turns")
    rows = {"all": {"questions": report["questions"], **report["recall"]}, **report["by_category"]}
    for name, row in rows.items():
        print(f"{name:12} {row['questions']:5}   " + "   ".join(f"R@{cut} {row[f'R@{cut}']:5.1f}" for cut in CUTS))
    print(f"recall: median {report['latency_ms']['median']} ms, p95 {report['latency_ms']['p95']} ms")
    print(f"remember: {report['turns_per_second_remembered']} turns a second, embedding included")


if __name__ == "__main__":
    main()
