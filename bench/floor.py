"""What a floor on `match` keeps of the evidence and leaves out of what does not answer, measured on LoCoMo.

Three kinds of questions are asked with the fifty hits that `context` considers: those that the conversation answers
(categories 1 to 4), those that it does not (category 5, worded to sound as if it did), and those of the next
conversation, of which this one knows nothing at all. For each floor, and for the one that recall sets by its confidence
in an answer (`least_match`): the share of the evidence that is kept of what is found without a floor, and how many
memories are left of those fifty. Needs the data set, as recall_quality.py does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import recollect
from recall_quality import remember_conversation
from recall_sets import LOCOMO, Conversation, locomo
from recollect.domain.text.relevance import least_match

FLOORS = (0.0, 0.06, 0.1, 0.15, 0.2, 0.3)
OURS = "least_match"
CONSIDERED = 50
ANSWERED, UNANSWERED, FOREIGN = "answered", "unanswered", "foreign"
Hits = list[tuple[float, bool]]  # match, and whether it is evidence; best first
Asked = tuple[float, Hits]  # the confidence, and what was found


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
    ids = {talk.id: remember_conversation(mem, talk) for talk in talks}
    found: dict[str, list[Asked]] = {ANSWERED: [], UNANSWERED: [], FOREIGN: []}
    for number, talk in enumerate(talks):
        for kind, text, evidence in _asked(talk, talks[(number + 1) % len(talks)], ids[talk.id]):
            reply = mem.recall(text, user=talk.id, limit=CONSIDERED, min_match=0)
            found[kind].append((reply.confidence, [(hit.match, hit.id in evidence) for hit in reply]))
    return {
        "questions": {kind: len(asked) for kind, asked in found.items()},
        "floors": {
            **{str(floor): _at(lambda sure, floor=floor: floor, found) for floor in FLOORS},  # type: ignore[misc]
            OURS: _at(least_match, found),
        },
    }


def _asked(talk: Conversation, other: Conversation, ids: list[str]) -> Iterator[tuple[str, str, set[str]]]:
    for question in talk.questions:
        kind = ANSWERED if question.evidence else UNANSWERED
        yield kind, question.text, {ids[row] for row in question.evidence}
    for question in other.questions[:100]:
        if question.evidence:
            yield FOREIGN, question.text, set()


def _at(floor: Callable[[float], float], found: dict[str, list[Asked]]) -> dict[str, float]:
    left = {
        kind: [[hit for hit in hits if hit[0] >= floor(sure)] for sure, hits in asked] for kind, asked in found.items()
    }
    kept = [
        sum(is_evidence for _, is_evidence in some) / evidence
        for some, (_, hits) in zip(left[ANSWERED], found[ANSWERED], strict=True)
        if (evidence := sum(is_evidence for _, is_evidence in hits))
    ]
    return {
        "evidence_kept": round(100 * statistics.mean(kept), 1),
        **{f"left_{kind}": round(statistics.mean(map(len, asked)), 1) for kind, asked in left.items()},
        **{f"nothing_{kind}": round(100 * statistics.mean(not some for some in asked)) for kind, asked in left.items()},
    }


def show(report: dict[str, Any]) -> None:
    print(", ".join(f"{count} {kind}" for kind, count in report["questions"].items()))
    print("floor         evidence kept   left of 50, and questions with nothing left:  answered  unanswered  foreign")
    for floor, row in report["floors"].items():
        cells = "  ".join(
            f"{row[f'left_{kind}']:5.1f} {row[f'nothing_{kind}']:3} %" for kind in (ANSWERED, UNANSWERED, FOREIGN)
        )
        print(f"{floor:12}  {row['evidence_kept']:10.1f} %   {cells}")


if __name__ == "__main__":
    main()
