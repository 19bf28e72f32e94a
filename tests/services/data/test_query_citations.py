"""A fact learned from data knows when it is out of date: its citation runs the query again."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from counting import store_calls
from recollect import cite
from recollect.app.data import EngineOnDemand
from recollect.domain.provenance import Citation, QueryCitation
from recollect.domain.sources import QueryRun
from recollect.errors import IllegalTransition, InvalidInput, MissingExtra, NotFound, TooLarge, Unavailable
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Delete
from recollect.services.data.query_citations import due_steps
from recollect.services.trust.rechecks import check_oldest

TOTAL = "select sum(amount) as total from sales"


def add(mem: Any, folder: Path, rows: str, name: str = "sales", header: str = "region,amount") -> Any:
    file = folder / f"{name}.csv"
    file.write_text(f"{header}\n{rows}\n", encoding="utf-8")
    return mem.source.add(str(file))


def learned(mem: Any, sql: str = TOTAL, **fields: Any) -> str:
    run = mem.query.run(sql).run
    id = mem.remember("Total revenue is 30", cites=[cite.query(run)], **fields).id
    mem.promote(id)
    return str(id)


def state(mem: Any, id: str) -> tuple[str, str]:
    cited = mem.show(id).citations[0]
    return cited.state, cited.note


def test_a_fact_learned_from_data_is_demoted_when_the_data_change_the_answer(stored: Any, tmp_path: Path) -> None:
    mem = stored
    added = add(mem, tmp_path, "north,10\nsouth,20")
    id = learned(mem)
    assert (mem.show(id).status, state(mem, id)) == ("verified", ("holds", "the query gives the same result"))

    again = add(mem, tmp_path, "north,15\nsouth,15")  # a new version, and the same total
    assert again.notes == ["answers that cite it are checked again soon: 1"]
    check_oldest(mem._tenant, 10)
    assert state(mem, id) == ("holds", "the query gives the same result with version 2 of sales")
    assert mem.show(id).status == "verified"

    add(mem, tmp_path, "north,15\nsouth,1285.5")
    check_oldest(mem._tenant, 10)
    assert state(mem, id) == ("broken", "the answer changed: was 30, is 1,300.5")
    assert mem.show(id).status == "hypothesis"
    reasons = [entry.why for entry in mem.history(id).entries]
    assert "no longer holds: the answer changed: was 30, is 1,300.5" in reasons
    with pytest.raises(IllegalTransition, match=r"was 30, is 1,300\.5"):
        mem.promote(id)

    add(mem, tmp_path, "north,10\nsouth,20")  # as it was: the fact can be trusted again
    mem.promote(id)
    mem.source.remove(added.id)
    check_oldest(mem._tenant, 10)
    assert state(mem, id) == ("broken", "the query can no longer be run: the source 'sales' was removed")
    mem.source.restore(added.id)
    check_oldest(mem._tenant, 10)
    assert state(mem, id)[0] == "holds"


@pytest.fixture
def sales(mem: Any, tmp_path: Path) -> Any:
    return add(mem, tmp_path, "north,10\nsouth,20")


def test_what_is_acted_on_is_checked_then(mem: Any, sales: Any, tmp_path: Path) -> None:
    id = learned(mem)
    add(mem, tmp_path, "north,11\nsouth,20")
    assert mem.recall("total revenue")[0].status == "verified"  # nobody asked to look
    found = mem.recall("total revenue", purpose="act")
    assert len(found) == 0
    assert found.notes == [f"memory {id} is a hypothesis now: the answer changed: was 30, is 31"]


def test_what_is_due_is_not_too_fresh_to_be_looked_at(mem: Any, sales: Any, tmp_path: Path) -> None:
    learned(mem)
    add(mem, tmp_path, "north,11\nsouth,20")
    assert mem.recall("total revenue", check="stale")[0].status == "hypothesis"


def test_only_citations_that_name_the_source_are_due(mem: Any, sales: Any, tmp_path: Path) -> None:
    customers = add(mem, tmp_path, "north,Ann", name="customers", header="region,name")
    other = add(mem, tmp_path, "1", name="other", header="id")
    joined = "select name, sum(amount) from sales join customers using (region) group by 1"
    learned(mem)
    mem.remember("Ann bought for 10", cites=[cite.query(mem.query.run(joined).run)])
    mem.remember("The sky is blue", cites=[cite.user("ann", "said so")])
    found = {name: due_steps(mem._tenant, source.id) for name, source in
             {"sales": sales, "customers": customers, "other": other}.items()}  # fmt: skip
    assert {name: len(steps) for name, steps in found.items()} == {"sales": 2, "customers": 1, "other": 0}
    assert len(mem.citation.list(source=f"query:{','.join(sorted([sales.id, customers.id]))}").citations) == 1


def test_finding_what_is_due_takes_two_statements(mem: Any, sales: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    learned(mem)
    for number in range(20):
        mem.remember(f"fact {number}", cites=[cite.user("ann", "said so")])
    calls = store_calls(mem, monkeypatch)
    assert len(due_steps(mem._tenant, sales.id)) == 1
    assert calls == ["count_by", "select"]


def test_chinese_values_are_told_as_they_are(mem: Any, tmp_path: Path) -> None:
    add(mem, tmp_path, "北方,10\n南方,20", name="销售", header="地区,金额")
    run = mem.query.run('select 地区 from "销售" order by 金额 desc limit 1').run
    id = mem.remember("销售最好的地区是南方", cites=[f"query:{run}"]).id
    add(mem, tmp_path, "北方,30\n南方,20", name="销售", header="地区,金额")
    mem.check(id)
    assert state(mem, id) == ("broken", "the answer changed: was 南方, is 北方")


def test_a_column_that_is_gone_breaks_it(mem: Any, sales: Any, tmp_path: Path) -> None:
    id = learned(mem)
    add(mem, tmp_path, "north,10", header="region,revenue")
    mem.check(id)
    found, note = state(mem, id)
    assert found == "broken"
    assert "amount" in note


@pytest.mark.parametrize(
    "failure",
    [MissingExtra("DuckDB is not installed"), Unavailable("the bucket is away"), TooLarge("it took too long")],
)
def test_what_cannot_be_run_here_proves_nothing(
    mem: Any, sales: Any, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = learned(mem)

    def away(self: object) -> None:
        raise failure

    monkeypatch.setattr(EngineOnDemand, "__call__", away)
    report = mem.check(id)
    assert (report.unreachable, report.broken, report.demoted) == (1, 0, [])
    assert mem.show(id).status == "verified"


def test_content_that_was_lost_proves_nothing(mem: Any, sales: Any, tmp_path: Path) -> None:
    id = learned(mem)
    shutil.rmtree(tmp_path / "data.db-objects")
    assert (mem.check(id).unreachable, mem.show(id).status) == (1, "verified")


def test_an_outside_database_is_asked_again(mem: Any, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.executescript("create table sales (region text, amount int); insert into sales values ('north', 30);")
        mem.connection.add("shop", f"sqlite:///{tmp_path}/shop.db")
        id = learned(mem)
        assert state(mem, id) == ("holds", "the query gives the same result")
        shop.executescript("insert into sales values ('south', 5);")
        mem.check(id)
        assert state(mem, id) == ("broken", "the answer changed: was 30, is 35")
    (tmp_path / "shop.db").unlink()
    assert mem.check(id).unreachable == 1


def test_a_citation_given_as_json_is_taken_from_the_run(mem: Any, sales: Any) -> None:
    run = mem.query.run(TOTAL).run
    forged = {"type": "query", "run": run, "sql": "select 1", "values": [[99]], "sources": {}}
    evidence = mem.show(mem.remember("x", cites=[forged]).id).citations[0].evidence
    assert (evidence["sql"], evidence["values"]) == (TOTAL, [[30.0]])
    assert list(evidence["sources"]) == [sales.id]
    with pytest.raises(InvalidInput, match="another result"):
        mem.remember("y", cites=[cite.query(run, result_hash="0" * 64)])
    with pytest.raises(InvalidInput, match="there is no run"):
        mem.remember("y", cites=["query:nobody"])
    with pytest.raises(InvalidInput, match="cannot be cited"):
        mem.remember("y", cites=[cite.query(mem.query.run("select 1").run)])


@contextmanager
def at_the_door(mem: Any, *granted: str) -> Iterator[Any]:
    """The same tenant, as a request over the network."""
    yield mem._core.for_scope(Scope(mem.organization, "bob", granted=frozenset(granted)))


def test_another_tenant_can_neither_cite_a_run_nor_have_it_run(mem: Any, sales: Any) -> None:
    run = mem.query.run(TOTAL).run
    other = mem.within("rival")
    with pytest.raises(InvalidInput, match="there is no run"):
        other.remember("their total", cites=[cite.query(run)])
    cited = mem._core.citation_lookup(Scope(mem.organization), None).query_run(run)
    with pytest.raises(NotFound, match="was removed"):
        mem._core.citation_lookup(Scope("rival"), None).query_result(cited)


def test_over_the_network_only_a_run_can_be_cited(mem: Any, sales: Any) -> None:
    run = mem.query.run(TOTAL).run
    with at_the_door(mem, "write") as tenant:
        lookup = tenant.citation_lookup(tenant.scope, None)
        given = QueryCitation(run=run, sql="select * from sales", sources={})
        assert given.sealed(lookup).sql == TOTAL
        with pytest.raises(InvalidInput, match="there is no run"):
            QueryCitation(run="x", sql="select * from sales").sealed(lookup)


def test_a_run_that_is_deleted_leaves_the_citation_checkable(mem: Any, sales: Any, tmp_path: Path) -> None:
    mem.user.add("Ann", id="ann")
    run = mem.query.run(TOTAL, sources=[sales.id]).run
    id = mem.remember("Total revenue is 30", cites=[cite.query(run)]).id
    store = mem._core.store
    stored = store.find(mem._scope, Query(Citation)).records[0]
    store.transact(mem._scope, [Delete(QueryRun, run)])
    assert stored.source == f"query:{sales.id}"
    assert mem.check(id).holds == 1
