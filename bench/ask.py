"""Plain questions to SQL, offline, on a set of databases and questions: `python bench/ask.py` or `make bench-ask`.

Reports execution match (all and by hardness), `robust` where asked for, synonyms, with memory (half of each database's
other groups verified first; and as that share grows), what is right at the answer threshold and how much is answered,
value linking, and the processor time of a question.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from zlib import crc32

import numpy as np

from ask_sets import SHARED, Database, Question, database, questions, scorer
from recollect.adapters.models.minilm import MiniLM
from recollect.adapters.models.query_ranker import QueryRanker
from recollect.services.data.asking.analysis import Prepared
from recollect.services.data.asking.candidates.verified import Verified
from recollect.services.data.asking.language.words import tokens
from recollect.services.data.asking.plans.parsing import parse
from recollect.services.data.asking.readings import Readings, read

HARDNESS = ("easy", "medium", "hard", "extra")
TODAY = date(2025, 6, 15)


@dataclass
class Answer:
    question: Question
    found: Readings
    is_right: bool
    cpu_ms: float


class Bench:
    def __init__(self, folder: Path, encode: bool = True) -> None:
        self.folder = folder
        self.encoder = MiniLM(threads=1) if encode else None
        self.ranker = QueryRanker() if encode else None
        self.sources: dict[str, tuple[Database, Prepared]] = {}
        self.same = scorer(folder).same

    def source(self, name: str) -> tuple[Database, Prepared]:
        if name not in self.sources:
            data = database(self.folder, name)
            encode = self.encoder.embed if self.encoder else None
            compare = self.ranker.compare if self.ranker else None
            self.sources[name] = data, Prepared(data.schema, data.values, encode, compare)
        return self.sources[name]

    def ask(self, asked: Sequence[Question], memory: dict[str, list[Question]] | None = None) -> list[Answer]:
        answers = []
        for question in asked:
            data, prepared = self.source(question["db"])
            if self.encoder is not None:
                self.encoder.embed([question["question"]])  # its cost is the encoder's, not ours
            verified = _verified(memory[question["db"]], question) if memory else []
            start = time.process_time()
            found = read(question["question"], prepared, today=TODAY, execute=data.execute, verified=verified)
            spent = 1000 * (time.process_time() - start)
            answers.append(Answer(question, found, self._is_right(question, data, found), spent))
        return answers

    def _is_right(self, question: Question, data: Database, found: Readings) -> bool:
        if found.best is None or found.best.rows is None:
            return False
        gold = data.gold.run(question["gold_sql"])
        return bool(self.same(gold, found.best.rows, question["order_matters"]))


def _verified(known: Sequence[Question], question: Question) -> list[Verified]:
    return [Verified(q["question"], q["gold_duckdb"]) for q in known if q["group"] != question["group"]]


def halves(asked: Iterable[Question]) -> tuple[list[Question], list[Question]]:
    """By group: what is verified first, and what is asked."""
    first: list[Question] = []
    second: list[Question] = []
    for question in asked:
        (first if crc32(f"{question['db']} {question['group']}".encode()) % 2 else second).append(question)
    return first, second


SHARES = (0, 5, 10, 25, 50)


def curve(bench: Bench, first: Sequence[Question], second: Sequence[Question]) -> None:
    """The same questions with more and more of the others verified: no class should fall."""
    every = len({(q["db"], q["group"]) for q in (*first, *second)})
    order = sorted({(q["db"], q["group"]) for q in first}, key=lambda each: crc32(f"curve {each}".encode()))
    print(f"\nwith more and more verified questions: {len(second)} questions")
    for share in SHARES:
        known = set(order[: every * share // 100])
        memory: dict[str, list[Question]] = {q["db"]: [] for q in second}
        for question in first:
            if (question["db"], question["group"]) in known:
                memory.setdefault(question["db"], []).append(question)
        answers = bench.ask(second, memory)
        parts = [("all", answers), *((h, [a for a in answers if a.question["hardness"] == h]) for h in HARDNESS)]
        shown = ", ".join(
            f"{name} {100 * sum(a.is_right for a in part) / max(1, len(part)):.1f}" for name, part in parts
        )
        print(f"  {share:2d}%: {shown}", flush=True)


def report(title: str, answers: Sequence[Answer]) -> None:
    print(f"\n{title}: {len(answers)} questions")
    for name, part in [("all", answers), *((h, [a for a in answers if a.question["hardness"] == h]) for h in HARDNESS)]:
        if not part:
            continue
        firm = [a for a in part if not a.found.draft]
        right = sum(a.is_right for a in part)
        firm_right = sum(a.is_right for a in firm)
        print(
            f"  {name:8s} n={len(part):5d}  match {100 * right / len(part):5.1f}%  "
            f"at the threshold: answered {100 * len(firm) / len(part):5.1f}%, "
            f"right {100 * firm_right / max(1, len(firm)):5.1f}%"
        )
    spent = [a.cpu_ms for a in answers]
    declined = sum(a.found.declined is not None for a in answers)
    median, high = np.percentile(spent, 50), np.percentile(spent, 95)
    print(f"  CPU ms a question: p50 {median:.0f}, p95 {high:.0f}; declined {declined}")


def value_linking(bench: Bench, asked: Sequence[Question]) -> None:
    """The right field and value among the first three for the text literals of the gold queries."""
    total = found = 0
    for question in asked:
        data, prepared = bench.source(question["db"])
        plan = parse(question["gold_sql"], data.schema, "sqlite")
        if plan is None:
            continue
        hits = prepared.values.find(tokens(question["question"]))
        for level in plan.levels():
            for condition in level.where:
                value = condition.value
                if not isinstance(value, str) or condition.operator not in ("=", "!="):
                    continue
                if value not in data.values.get(condition.item.field, ()):
                    continue
                total += 1
                ranks: dict[tuple[int, int], int] = {}
                for hit in hits:
                    rank = ranks[hit.start, hit.end] = ranks.get((hit.start, hit.end), 0) + 1
                    if rank <= 3 and hit.field == condition.item.field and hit.value == value:
                        found += 1
                        break
    print(f"\nvalue linking: {100 * found / max(1, total):.1f}% of {total} text literals of the data")


def scored(folder: Path, answers: Sequence[Answer], variants: int) -> None:
    """The set's own score.py over the same answers, with perturbed copies."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "predictions.jsonl"
        lines = [{"id": a.question["id"], "sql": a.found.best.sql if a.found.best else None} for a in answers]
        file.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf8")
        score = folder / "score.py" if (folder / "score.py").exists() else SHARED / "nlsql" / "score.py"
        command = [
            sys.executable,
            str(score),
            str(folder),
            str(file),
            "--engine",
            "duckdb",
            "--variants",
            str(variants),
        ]
        print("\nscore.py:\n" + subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=SHARED / "nlsql")
    parser.add_argument("--variants", type=int, default=0, help="perturbed copies for `robust`")
    parser.add_argument("--part", choices=("plain", "synonyms", "memory", "curve", "values"), action="append")
    parser.add_argument("--every", type=int, default=1, help="ask only every nth group of questions")
    parser.add_argument("--no-encoder", action="store_true")
    chosen = parser.parse_args()
    parts = chosen.part or ["plain", "synonyms", "memory", "curve", "values"]
    bench = Bench(chosen.data, not chosen.no_encoder)
    asked = [q for q in questions(chosen.data) if crc32(q["group"].encode()) % chosen.every == 0]
    if "plain" in parts:
        answers = bench.ask(asked)
        report("without memory", answers)
        if chosen.variants:
            scored(chosen.data, answers, chosen.variants)
    if "synonyms" in parts:
        ids = {q["id"] for q in asked}
        renamed = [q for q in questions(chosen.data, "questions_synonyms.jsonl") if q["of"] in ids]
        report("synonyms", bench.ask(renamed))
        originals = {each["of"] for each in renamed}
        if "plain" in parts:
            report("the same without synonyms", [a for a in answers if a.question["id"] in originals])
    first, second = halves(q for q in asked if q.get("gold_duckdb"))
    if "memory" in parts:
        memory: dict[str, list[Question]] = {}
        for question in first:
            memory.setdefault(question["db"], []).append(question)
        report("with memory", bench.ask(second, memory))
        if "plain" in parts:
            ids = {q["id"] for q in second}
            report("the same without memory", [a for a in answers if a.question["id"] in ids])
    if "curve" in parts:
        curve(bench, first, second)
    if "values" in parts:
        value_linking(bench, asked)


if __name__ == "__main__":
    main()
