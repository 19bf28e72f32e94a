"""Recall quality on LoCoMo: is the evidence for a question among the first hits?

Each dialogue turn is remembered as one memory through the public API (its speaker as author, its session, its date);
each question of categories 1 to 4 is asked through `recall` within its own conversation. R@k is the mean share of a
question's evidence turns among the first k hits. Needs the data set's `locomo10.json`: in $LOCOMO, or in ../shared.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import recollect

CUTS = (5, 10, 20)
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=_default_data())
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--conversations", type=int, default=10)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if not options.data.exists():
        sys.exit(f"no data at {options.data}: set LOCOMO to the path of locomo10.json")
    samples = json.loads(options.data.read_text())[: options.conversations]
    with (
        tempfile.TemporaryDirectory() as folder,
        recollect.open(Path(folder) / "locomo.db", embedder=options.embedder) as mem,
    ):
        report = measure(mem, samples)
    show(report)
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


def _default_data() -> Path:
    shared = Path(__file__).resolve().parents[2] / "shared/data/locomo/locomo10.json"
    return Path(os.environ.get("LOCOMO", shared))


def measure(mem: Any, samples: list[dict[str, Any]]) -> dict[str, Any]:
    scores: dict[int, list[dict[int, float]]] = defaultdict(list)
    latencies: list[float] = []
    turns, started, writing = 0, time.perf_counter(), 0.0
    for number, sample in enumerate(samples, 1):
        begun = time.perf_counter()
        ids = remember_conversation(mem, sample)
        writing += time.perf_counter() - begun
        turns += len(ids)
        mem.recall("warm", user=sample["sample_id"])
        for question in questions(sample, ids):
            begun = time.perf_counter()
            hits = [hit.id for hit in mem.recall(question["question"], user=sample["sample_id"], limit=max(CUTS))]
            latencies.append((time.perf_counter() - begun) * 1000)
            scores[question["category"]].append(_shares(hits, question["evidence"], ids))
        print(f"\r{number} of {len(samples)} conversations", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    everything = [one for category in scores.values() for one in category]
    return {
        "turns": turns,
        "questions": len(everything),
        "recall": {f"R@{cut}": _mean(everything, cut) for cut in CUTS},
        "by_category": {
            CATEGORIES[category]: {"questions": len(found), **{f"R@{cut}": _mean(found, cut) for cut in CUTS}}
            for category, found in sorted(scores.items())
        },
        "latency_ms": {
            "median": round(statistics.median(latencies), 1),
            "p95": round(sorted(latencies)[int(len(latencies) * 0.95)], 1),
        },
        "turns_per_second_remembered": round(turns / writing),
        "seconds": round(time.perf_counter() - started),
    }


def remember_conversation(mem: Any, sample: dict[str, Any]) -> dict[str, str]:
    """Every turn as one memory; gives dialogue id to memory id."""
    user = sample["sample_id"]
    mem.user.add(user, id=user)
    ids: dict[str, str] = {}
    for session, at, turns in _sessions(sample["conversation"]):
        mem.session.add(id=f"{user}/{session}", user=user)
        receipts = mem.remember_many(
            [
                {
                    "content": _text(turn),
                    "kind": "conversation",
                    "author": turn["speaker"],
                    "at": at,
                    "user": user,
                    "session": f"{user}/{session}",
                    "on_duplicate": "keep",
                }
                for turn in turns
            ]
        ).receipts
        ids |= {turn["dia_id"]: receipt.id for turn, receipt in zip(turns, receipts, strict=True)}
    return ids


def _sessions(conversation: dict[str, Any]) -> Iterator[tuple[str, datetime, list[dict[str, Any]]]]:
    names = sorted((key for key in conversation if re.fullmatch(r"session_\d+", key)), key=lambda key: int(key[8:]))
    for name in names:
        at = datetime.strptime(conversation[f"{name}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        yield name, at, conversation[name]


def _text(turn: dict[str, Any]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['text']} [shares {caption}]".strip() if caption else turn["text"]


def questions(sample: dict[str, Any], ids: dict[str, str]) -> Iterator[dict[str, Any]]:
    for question in sample["qa"]:
        evidence = {one for text in question["evidence"] for one in re.findall(r"D\d+:\d+", text)} & ids.keys()
        if question["category"] in CATEGORIES and evidence:
            yield {**question, "evidence": evidence}


def _shares(hits: list[str], evidence: set[str], ids: dict[str, str]) -> dict[int, float]:
    wanted = {ids[one] for one in evidence}
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
