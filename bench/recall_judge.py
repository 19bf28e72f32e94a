"""Recall on every set there is: one table, with errors, and what changed since the figures that are stored.

Each set is stored through the public API twice: with what is known of each turn (author, session, date), and as bare
texts. R@k is the mean share of a question's evidence among the first k hits; its error is half the 95% interval of the
mean. Questions with typing errors are LoCoMo's with a tenth of their letters wrong. Where a set has questions that
nothing answers, `told apart` is how often the confidence in an answered one is higher. Ends with 1 where a set lost
more than its error. Sets that are not there are left out (recall_sets.py).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import string
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import recollect
from recall_quality import remember_conversation
from recall_sets import Conversation, conversations

CUTS = (5, 10, 20)
JUDGED = "R@10"
BARE, NOISY = " (bare)", " (typing errors)"
BARE_SETS = ("locomo", "stories", "documents", "tasks", "chat", "remarks")
NOISE, NOISY_TALKS, SEED = 0.1, 3, 5


@dataclass
class Found:
    """What was found for the questions of one set."""

    shares: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    sure: dict[bool, list[float]] = field(default_factory=lambda: defaultdict(list))

    def figures(self) -> dict[str, float]:
        judged = self.shares[10]
        if not judged:
            return {}
        told = {f"R@{cut}": round(100 * statistics.mean(self.shares[cut]), 1) for cut in CUTS}
        spread = statistics.stdev(judged) if len(judged) > 1 else 0.0
        told |= {"questions": len(judged), "error": round(196 * spread / math.sqrt(len(judged)), 1)}
        if self.sure[False]:
            told["told_apart"] = round(_higher(self.sure[True], self.sure[False]), 3)
        return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--embedder", default="built-in")
    parser.add_argument("--sets", default="", help="only these, with commas")
    parser.add_argument("--stored", type=Path, default=Path(__file__).parent / "results" / "recall_sets.json")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    before = json.loads(options.stored.read_text()) if options.stored.exists() else {}
    found = measure(conversations(filter(None, options.sets.split(","))), options.embedder)
    figures = {name: one.figures() for name, one in found.items() if one.shares[10]}
    show(figures, before)
    if options.out:
        options.out.write_text(json.dumps(figures, indent=1) + "\n")
    lost = worse(figures, before)
    if lost:
        sys.exit(f"lost more than the error: {', '.join(lost)}")


def measure(talks: list[Conversation], embedder: str) -> dict[str, Found]:
    found: dict[str, Found] = defaultdict(Found)
    with tempfile.TemporaryDirectory() as folder:
        for bare in (False, True):
            with recollect.open(Path(folder) / f"bare-{bare}.db", embedder=embedder) as mem:
                some = [talk for talk in talks if not bare or talk.set in BARE_SETS]
                for number, talk in enumerate(some, 1):
                    _ask(mem, talk, bare, found)
                    kind = "bare texts" if bare else "with author, session and date"
                    print(f"\r{kind}: {number} of {len(some)}   ", end="", file=sys.stderr, flush=True)
            print(file=sys.stderr)
    return found


def _ask(mem: Any, talk: Conversation, bare: bool, found: dict[str, Found]) -> None:
    user = f"{talk.set}-{talk.id}"
    ids = remember_conversation(mem, talk, user, bare=bare)
    asked = found[talk.set + BARE if bare else talk.set]
    is_noisy = talk.set == "locomo" and not bare and len(found[talk.set + NOISY].shares[10]) < NOISY_TALKS * 150
    noise = random.Random(f"{SEED} {talk.id}")
    for question in talk.questions:
        wanted = {ids[row] for row in question.evidence}
        reply = mem.recall(question.text, user=user, limit=max(CUTS), include_messages=False)
        asked.sure[bool(wanted)].append(reply.confidence or 0.0)
        if wanted:
            _note(asked, [hit.id for hit in reply], wanted)
        if wanted and is_noisy:
            mistyped = mem.recall(typed_badly(question.text, noise), user=user, limit=max(CUTS), include_messages=False)
            _note(found[talk.set + NOISY], [hit.id for hit in mistyped], wanted)


def _note(found: Found, hits: list[str], wanted: set[str]) -> None:
    for cut in CUTS:
        found.shares[cut].append(len(wanted & set(hits[:cut])) / len(wanted))


def typed_badly(text: str, noise: random.Random) -> str:
    """A tenth of the letters left out, doubled, replaced or swapped with the one before."""
    typed: list[str] = []
    for letter in text:
        how = noise.randrange(4) if letter.isalpha() and noise.random() < NOISE else None
        if how == 3:
            typed.insert(max(len(typed) - 1, 0), letter)
        else:
            typed += {None: [letter], 0: [], 1: [letter, letter], 2: [noise.choice(string.ascii_lowercase)]}[how]
    return "".join(typed)


def _higher(ones: Iterable[float], others: Iterable[float]) -> float:
    """How often one of the first is above one of the others."""
    below = sorted(others)
    pairs = [(sum(other < one for other in below) + sum(other == one for other in below) / 2) for one in ones]
    return statistics.mean(pairs) / len(below) if pairs and below else 0.0


def worse(figures: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """The sets that lost more than their error since the stored figures."""
    both = [(name, now, before[name]) for name, now in figures.items() if name in before]
    return [name for name, now, then in both if then[JUDGED] - now[JUDGED] > max(now["error"], 0.1)]


def show(figures: dict[str, Any], before: dict[str, Any]) -> None:
    print(f"{'':34}{'questions':>9}  {'R@5':>5}  {'R@10':>5}  {'±':>4}  {'R@20':>5}  {'change':>6}")
    for name, now in sorted(figures.items()):
        print(f"{name:34}{now['questions']:9}  {now['R@5']:5.1f}  {now[JUDGED]:5.1f}  {now['error']:4.1f}  "
              f"{now['R@20']:5.1f}  {_change(now, before.get(name)):>6}{_told_apart(now)}")  # fmt: skip


def _change(now: dict[str, float], then: dict[str, float] | None) -> str:
    return f"{now[JUDGED] - then[JUDGED]:+.1f}" if then else ""


def _told_apart(now: dict[str, float]) -> str:
    return f"   told apart {now['told_apart']:.3f}" if "told_apart" in now else ""


if __name__ == "__main__":
    main()
