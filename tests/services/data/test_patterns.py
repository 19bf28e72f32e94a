"""Verdicts make and move query patterns: counted once for each run, whoever judges when, and used while they fit."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recollect
from counting import store_calls
from every_store import EMPTY_STORE
from recollect.domain.learning import PatternUse
from recollect.domain.sources import QueryRun
from recollect.errors import InvalidInput, NotFound
from recollect.ports.query import Query
from recollect.ports.steps import Update
from recollect.services.data.patterns import verified_for
from recollect.services.data.tables import schema_fingerprint, sources_named, tables_of

TOTAL = "select sum(amount) from sales"
QUESTION = "What is the total revenue?"


def add(mem: Any, folder: Path, text: str = "region,amount\nnorth,10\nsouth,20\n", name: str = "sales") -> Any:
    file = folder / f"{name}.csv"
    file.write_text(text, encoding="utf-8")
    return mem.source.add(str(file))


def asked(mem: Any, sql: str = TOTAL, question: str = QUESTION, **fields: Any) -> str:
    return str(mem.query.run(sql, question=question, **fields).run)


def verified(mem: Any, **owner: Any) -> list[tuple[str, str]]:
    tenant = mem._tenant
    return [(one.question, one.sql) for one in verified_for(tenant, tables_of(tenant, sources_named(tenant)), **owner)]


@pytest.fixture
def sales(mem: Any, tmp_path: Path) -> Any:
    return add(mem, tmp_path)


def test_a_verdict_makes_a_pattern_that_cites_its_run(stored: Any, tmp_path: Path) -> None:
    mem = stored
    add(mem, tmp_path)
    run = asked(mem)
    made = mem.query.judge(run, "right")
    assert (made.status, made.is_used, made.rate.successes, made.repeated) == ("hypothesis", True, 1, False)
    shown = mem.show(made.pattern)
    assert shown.content == {
        "question": QUESTION,
        "sql": TOTAL,
        "tables": ["sales"],
        "schema_fingerprint": mem._tenant.get(QueryRun, run).fingerprint,
    }
    assert [(one.type, one.evidence["run"]) for one in shown.citations] == [("query", run)]
    assert mem.query.show(run).verdict == "right"
    assert mem.query.show(run).pattern == made.pattern
    assert verified(mem) == [(QUESTION, TOTAL)]

    again = mem.query.judge(asked(mem), "right")  # the same question, another run
    assert (again.pattern, again.rate.successes) == (made.pattern, 2)
    assert mem.query.judge(asked(mem), "wrong").rate.failures == 1
    other = mem.query.judge(asked(mem), "wrong")
    assert (other.is_used, other.status) == (False, "hypothesis")  # two for it, two against it
    last = mem.query.judge(asked(mem), "wrong")
    assert (last.is_used, last.status) == (False, "archived")
    assert "2 of 5 verdicts say that it is right" in [entry.why for entry in mem.history(made.pattern).entries]
    assert verified(mem) == []


def test_changing_ones_mind_corrects_the_counts(mem: Any, sales: Any) -> None:
    run = asked(mem)
    first = mem.query.judge(run, "wrong")
    assert (first.status, first.rate.failures, first.is_used) == ("archived", 1, False)
    second = mem.query.judge(run, "right")
    assert (second.pattern, second.status) == (first.pattern, "hypothesis")
    assert (second.rate.successes, second.rate.failures) == (1, 0)
    assert verified(mem) == [(QUESTION, TOTAL)]
    repeated = mem.query.judge(run, "right")
    assert (repeated.repeated, repeated.rate) == (True, second.rate)
    assert mem.query.judge(run, "wrong").rate.failures == 1
    assert verified(mem) == []
    assert mem._tenant.count(Query(PatternUse)) == 1


def test_a_promoted_pattern_loses_its_status_in_doubt(mem: Any, sales: Any) -> None:
    pattern = mem.query.judge(asked(mem), "right").pattern
    mem.promote(pattern)
    assert mem.query.judge(asked(mem), "wrong").status == "hypothesis"
    assert mem.show(pattern).status == "hypothesis"


def test_the_right_statement_makes_the_pattern(mem: Any, sales: Any) -> None:
    run = asked(mem, "select count(amount) from sales")
    judged = mem.query.judge(run, "wrong", sql=TOTAL)
    assert mem.query.show(judged.corrected).rows == [[30]]
    assert mem.query.show(judged.corrected).verdict == "right"
    assert verified(mem) == [(QUESTION, TOTAL)]
    again = mem.query.judge(run, "wrong", sql=TOTAL)  # the same correction is one run
    assert (again.repeated, again.corrected) == (True, judged.corrected)
    assert mem._tenant.count(Query(QueryRun)) == 2
    assert [one.rate.successes + one.rate.failures for one in mem.query.patterns().patterns] == [1, 1]


def test_of_two_right_statements_the_better_proven_answers(mem: Any, sales: Any) -> None:
    other = "select total from (select sum(amount) as total from sales)"
    mem.query.judge(asked(mem, other), "right")
    for _ in range(3):
        mem.query.judge(asked(mem, TOTAL, QUESTION.upper()), "right")
    assert verified(mem) == [(QUESTION.upper(), TOTAL)]


def test_what_no_longer_fits_falls_out_and_says_why(mem: Any, sales: Any, tmp_path: Path) -> None:
    mem.query.judge(asked(mem), "right")
    add(mem, tmp_path, "region,amount\nnorth,99\n")  # other rows, the same columns
    assert verified(mem) == [(QUESTION, TOTAL)]
    add(mem, tmp_path, "region,revenue\nnorth,99\n")
    assert verified(mem) == []
    assert [one.reason for one in mem.query.patterns()] == ["the columns of sales have changed since"]
    add(mem, tmp_path, "amount,region\n99,north\n")  # another order of columns is no other table
    assert verified(mem) == [(QUESTION, TOTAL)]
    mem.source.remove(sales.id)
    assert verified(mem) == []
    assert [one.reason for one in mem.query.patterns()] == ["the table 'sales' is not there"]


def test_a_pattern_made_by_hand_is_used_when_it_names_its_tables_and_was_judged(mem: Any, sales: Any) -> None:
    content = {"question": QUESTION, "sql": TOTAL, "usage_count": 3, "success_count": 3}
    mem.remember(content, kind="query_pattern")
    assert verified(mem) == []
    assert [one.reason for one in mem.query.patterns()] == ["it does not say which tables it reads"]
    known = tables_of(mem._tenant, sources_named(mem._tenant))
    fit = {"tables": ["sales"], "schema_fingerprint": schema_fingerprint(one.table for one in known)}
    id = mem.remember({**content, **fit}, kind="query_pattern").id
    assert verified(mem) == []  # what it says of itself is nobody's verdict
    assert mem.query.patterns()[0].reason == "nobody has judged it yet"
    mem.pattern.report(mem.pattern.apply(id).application, success=True)
    assert verified(mem) == [(QUESTION, TOTAL)]


def test_patterns_belong_to_their_user_and_project(mem: Any, tmp_path: Path) -> None:
    for user in ("ann", "bob"):
        mem.user.add(user.title(), id=user)
    mem.project.add("House", id="house")
    add(mem, tmp_path)
    mem.query.judge(mem.query.run(TOTAL, question=QUESTION).run, "right")
    tenant = mem._tenant
    run = tenant.get(QueryRun, asked(mem, TOTAL, "Anns?"))
    tenant.transact([Update(run.changed(user_id="ann", project_id="house"))])
    assert mem.show(mem.query.judge(run.id, "right").pattern).user == "ann"
    assert {question for question, _ in verified(mem)} == {QUESTION, "Anns?"}
    assert {question for question, _ in verified(mem, user="ann", project="house")} == {QUESTION, "Anns?"}
    assert {question for question, _ in verified(mem, user="bob")} == {QUESTION}
    assert [one.question for one in mem.query.patterns(user="ann")] == ["Anns?"]


def test_another_tenant_sees_and_judges_nothing(mem: Any, sales: Any, tmp_path: Path) -> None:
    run = asked(mem)
    mem.query.judge(run, "right")
    rival = mem.within("rival")
    add(rival, tmp_path)
    assert verified(rival) == []
    with pytest.raises(NotFound):
        rival.query.judge(run, "wrong")
    assert verified(mem) == [(QUESTION, TOTAL)]


def test_the_plan_comes_along(mem: Any, sales: Any) -> None:
    tenant = mem._tenant
    run = tenant.get(QueryRun, asked(mem))
    tenant.transact([Update(run.changed(plan={"select": ["sum"]}))])
    mem.query.judge(run.id, "right")
    assert [one.plan for one in verified_for(tenant, tables_of(tenant, sources_named(tenant)))] == [{"select": ["sum"]}]


def test_finding_the_verified_takes_few_statements(mem: Any, sales: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(12):
        mem.query.judge(asked(mem, f"select sum(amount) + {number} from sales", f"Number {number}?"), "right")
    tenant = mem._tenant
    tables = tables_of(tenant, sources_named(tenant))
    calls = store_calls(mem, monkeypatch)
    assert len(verified_for(tenant, tables)) == 12
    assert len(calls) <= 3


def test_a_forgotten_pattern_is_made_anew(mem: Any, sales: Any) -> None:
    first = mem.query.judge(asked(mem), "right").pattern
    mem.forget(first)
    assert verified(mem) == []
    second = mem.query.judge(asked(mem), "right")
    assert (second.pattern != first, second.rate.successes) == (True, 1)


def test_a_question_in_chinese(mem: Any, tmp_path: Path) -> None:
    add(mem, tmp_path, "地区,金额\n北方,10\n", name="销售")
    mem.query.judge(asked(mem, "select sum(金额) from 销售", "总收入是多少？"), "right")
    assert verified(mem) == [("总收入是多少？", "select sum(金额) from 销售")]


REFUSED: list[tuple[str, str, dict[str, str], str]] = [
    (TOTAL, "", {"verdict": "right"}, "has no question"),
    ("select 1", QUESTION, {"verdict": "right"}, "read no source"),
    (TOTAL, QUESTION, {"verdict": "right", "sql": "select 1"}, "needs no other statement"),
    (TOTAL, QUESTION, {"verdict": "wrong", "sql": TOTAL}, "not another statement"),
    (TOTAL, QUESTION, {"verdict": "wrong", "sql": "select 1"}, "not another statement"),
    (TOTAL, QUESTION, {"verdict": "wrong", "sql": "drop table sales"}, "SELECT"),
    (TOTAL, QUESTION, {"verdict": "maybe"}, "right"),
]


def test_what_cannot_be_judged_is_refused(mem: Any, sales: Any) -> None:
    for sql, question, given, message in REFUSED:
        run = asked(mem, sql, question)
        with pytest.raises(InvalidInput, match=message):
            mem.query.judge(run, **given)
        assert mem.query.show(run).verdict == "unjudged"
    assert mem.query.patterns().patterns == []


def test_the_question_may_come_with_the_verdict(mem: Any, sales: Any) -> None:
    run = asked(mem, question="")
    mem.query.judge(run, "right", question=QUESTION)
    assert mem.query.show(run).question == QUESTION


def _judging(store: str, same: str, others: list[str]) -> None:
    with recollect.open(store, embedder="hash", background=False) as mem:
        for _ in range(3):
            mem.call("query.judge", run=same, verdict="right")
        for run in others:
            mem.call("query.judge", run=run, verdict="wrong")


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_two_processes_that_judge_the_same_run_count_it_once(store: str, tmp_path: Path) -> None:
    address = EMPTY_STORE[store](tmp_path)
    opened: Any = recollect.open(address, embedder="hash", objects=str(tmp_path / "objects"), background=False)
    with opened as mem:
        add(mem, tmp_path)
        same, others = asked(mem), [asked(mem) for _ in range(4)]
        spawned = multiprocessing.get_context("spawn")
        judges = [spawned.Process(target=_judging, args=(address, same, others[at::2])) for at in range(2)]
        for one in judges:
            one.start()
        for one in judges:
            one.join(120)
        assert [one.exitcode for one in judges] == [0, 0]
        found = mem.query.patterns().patterns
        assert [(one.rate.successes, one.rate.failures, one.status) for one in found] == [(1, 4, "archived")]


KILLED = """
import os, signal, sys, recollect
from recollect.services.data import patterns
with recollect.open(sys.argv[1], background=False) as mem:
    step, seen = int(sys.argv[3]), 0
    commit = patterns.commit
    def dying(tenant, steps):
        global seen
        seen += 1
        if seen == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return commit(tenant, steps)
    patterns.commit = dying
    mem.call("query.judge", run=sys.argv[2], verdict="wrong", sql=sys.argv[4])
"""


@pytest.mark.parametrize("step", [1, 2])
def test_a_judge_that_is_killed_leaves_the_counts_right(mem: Any, sales: Any, step: int, tmp_path: Path) -> None:
    run = asked(mem, "select count(amount) from sales")
    mem.query.judge(run, "right")
    arguments = [str(tmp_path / "data.db"), run, str(step), TOTAL]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], timeout=120, env=dict(os.environ), check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [(one.rate.successes, one.rate.failures) for one in mem.query.patterns()] == [(1, 0)]
    mem.query.judge(run, "wrong", sql=TOTAL)
    counts = {one.sql: (one.rate.successes, one.rate.failures) for one in mem.query.patterns()}
    assert counts == {TOTAL: (1, 0), "select count(amount) from sales": (0, 1)}
    assert mem._tenant.count(Query(QueryRun)) == 2
