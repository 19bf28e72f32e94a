"""No text makes an operation expensive: four times the input takes at most six times the process's own time.

The requests are made from the catalogue: every field of every operation that takes text is filled with texts that are
bad for patterns and for comparisons. An operation that needs records to work on finds them by its route; where that is
not enough the test fails until CASES says what it needs.
"""

from __future__ import annotations

import base64
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import recollect
from probing import operations, sample
from recollect.catalogue import OPERATIONS, Operation
from recollect.domain.record import new_id
from recollect.errors import RecollectError
from seeds import SOAK, some

HOSTILE: dict[str, Callable[[int], str]] = {
    "letters": lambda size: "a" * size,
    "hyphens": lambda size: ("a-" * size)[:size],
    "numbers": lambda size: ("1." * size)[:size],
    "months": lambda size: ("in May since " * size)[:size],
    "dates": lambda size: ("21.1.24-5/3 last week before the 3 to " * size)[:size],
    "spaces": lambda size: "x" + " " * (size - 2) + "x",
    "lines": lambda size: ("```a\n" * size)[:size],
    "words": lambda size: " ".join(f"w{number}" for number in range(size // 8))[:size],
    "sentences": lambda size: " ".join(f"S{number}. " for number in range(size // 8))[:size],
    "Chinese": lambda size: "".join(chr(0x4E00 + number * 7 % 20000) for number in range(size)),
    "keys": lambda size: ("key=eyJaaaaaaaa.://a:-----BEGIN PRIVATE KEY----- " * size)[:size],
    "marks": lambda size: ("e\u0301\u0301" * size)[:size],
}
UNBOUNDED = 40_000
CHEAP, LEAST = 0.1, 0.05  # seconds: what takes less is not looked at, or counts as this much
MOST_GROWTH = 6
# Every new word of a question is embedded, which takes many seconds for thousands of them: all of them in a soak.
ASKED = UNBOUNDED if SOAK else 6_000


def _branches(schema: dict[str, Any], definitions: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "$ref" in schema:
        yield from _branches(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    elif "anyOf" in schema or "oneOf" in schema:
        for one in schema.get("anyOf", schema.get("oneOf", [])):
            yield from _branches(one, definitions)
    else:
        yield schema


Fill = Callable[[str], Any]


def fills(schema: dict[str, Any], definitions: dict[str, Any]) -> Iterator[tuple[int | None, Fill]]:
    """The ways in which a field takes text: how long it may be, and how a text is put into it."""
    for one in _branches(schema, definitions):
        kind = one.get("type")
        if kind is None and "const" not in one and "enum" not in one:
            yield None, lambda text: text
        elif kind == "string" and not {"const", "enum", "format", "pattern"} & one.keys():
            yield one.get("maxLength"), lambda text: text
        elif kind == "array" and "items" in one:
            for bound, inner in fills(one["items"], definitions):
                yield bound, lambda text, inner=inner: [inner(text)]  # type: ignore[misc]
        elif kind == "object" and "properties" not in one:
            yield None, lambda text: {"key": text}


@cache
def text_fields(operation: Operation) -> list[tuple[str, int, Fill]]:
    schema = operation.request.model_json_schema()
    most = ASKED if operation.name == "ask" else UNBOUNDED
    taken = []
    for name, field in schema.get("properties", {}).items():
        found = list(fills(field, schema.get("$defs", {})))
        long = [(bound or UNBOUNDED, fill) for bound, fill in found if bound is None or bound > 1000]
        if long:
            bound, fill = max(long, key=lambda one: one[0])
            taken.append((name, min(bound, most), fill))
    return taken


def text_taking() -> list[str]:
    """`sql` is left to the contract tests of DuckDB, the only store that takes it."""
    return sorted(one.name for one in operations() if one.name != "sql" and text_fields(one))


# --- what operations work on ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("growth") / "store.db"
    with recollect.open(path, embedder="hash", citation_roots=[]) as made:
        made.user.add("Ann", id="ann")  # whom memories cite
        session = made.session.add("Talk").id
        for number in range(30):
            made.remember(f"Ann said {number} in May: the a-b-c pool waits 30 s.", author="a", session=session)
    return path


@pytest.fixture
def mem(template: Path, tmp_path: Path, one_engine: None) -> Iterator[Any]:
    """One of its own for each operation: what others stored must not weigh in. The engine keeps nothing of them."""
    with recollect.open(shutil.copy(template, tmp_path / "store.db"), embedder="hash", citation_roots=[]) as made:
        yield made


def _memory(mem: Any) -> str:
    return str(mem.remember("the sky is blue", author="a").id)


def _agent(mem: Any) -> str:
    return str(mem.agent.add("Bot").id)


def _run(mem: Any, agent: str | None = None) -> dict[str, Any]:
    run = mem.run.start("go", agent=agent or _agent(mem))
    held = mem.run.claim("worker", id=run.id)
    return {"id": run.id, "fence": held.fence}


BY_ROUTE: dict[str, Callable[[Any], str]] = {
    "/memories/{id}": _memory,
    "/sessions/{id}": lambda mem: mem.session.add("Talk").id,
    "/messages/{id}": lambda mem: mem.message.add("user", "hello").id,
    "/agents/{id}": _agent,
    "/blocks/{id}": lambda mem: mem.block.add("persona", "kind").id,
    "/tools/{id}": lambda mem: mem.tool.add(f"look_{new_id()}", "looks").id,
    "/projects/{id}": lambda mem: mem.project.add("House").id,
    "/users/{id}": lambda mem: mem.user.add("Ann").id,
    "/workspaces/{id}": lambda mem: mem.workspace.add(_agent(mem)).id,
    "/sources/{id}": lambda mem: _source(mem),
    "/connections/{id}": lambda mem: mem.connection.add(**_outside(mem)).id,
}


def _outside(mem: Any) -> dict[str, Any]:
    """A small database beside the store, to connect to."""
    path = mem._core.store.path.with_name("outside.db")
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE IF NOT EXISTS sales (id INTEGER PRIMARY KEY, region TEXT)")
    return {"name": f"shop {new_id()}", "address": f"sqlite:///{path}"}


def _proposed(mem: Any) -> dict[str, Any]:
    driven = _run(mem)
    mem.run.propose(**driven, tool="look")
    return driven


def _uncertain(mem: Any) -> dict[str, Any]:
    driven = _proposed(mem)
    mem.run.release(**driven)
    with pytest.raises(RecollectError, match="may or may not have happened"):
        mem.run.claim("another worker", id=driven["id"])
    return {"id": driven["id"], "verdict": "happened"}


def _waiting(mem: Any) -> str:
    run = mem.run.start("go", agent=_agent(mem), approve="always").id
    mem.run.propose(run, mem.run.claim("worker", id=run).fence, tool="look")
    return str(run)


def _cited(mem: Any, note: str = "said so") -> str:
    return str(mem.remember("the sky is grey", cites=[f"user:ann:{note}"]).id)


def _finished(mem: Any) -> str:
    driven = _run(mem)
    mem.run.finish(**driven)
    return str(driven["id"])


def _paused(mem: Any) -> str:
    id = mem.run.start("go", agent=_agent(mem)).id
    mem.run.pause(id)
    return str(id)


def _member(mem: Any) -> dict[str, Any]:
    project, user = mem.project.add("House").id, mem.user.add("Ann").id
    mem.project.add_member(project, user)
    return {"id": project, "user": user}


def _stepped(mem: Any) -> str:
    driven = _proposed(mem)
    mem.run.record(**driven, output={"found": 1})
    mem.run.release(**driven)
    return str(driven["id"])


def _promoted(mem: Any) -> str:
    id = _cited(mem)
    mem.promote(id)
    return id


def _forgotten(mem: Any) -> str:
    id = _memory(mem)
    mem.forget(id)
    return id


def _merged(mem: Any) -> str:
    id = _memory(mem)
    mem.merge(_cited(mem), [id])
    return id


def _pattern(mem: Any) -> str:
    content = {"problem_space": "mend the {1} pool", "solution_template": "1. look at {1}"}
    return str(mem.remember(content, kind="pattern").id)


def _snapshots(mem: Any) -> dict[str, Any]:
    id = mem.workspace.add(_agent(mem)).id
    mem.workspace.write(id, "notes.txt", "one\n")
    since = mem.workspace.snapshot(id, "first").id
    mem.workspace.write(id, "notes.txt", "two\n")
    return {"id": id, "since": since}


def _file(mem: Any) -> dict[str, Any]:
    return {"id": _snapshots(mem)["id"], "path": "notes.txt"}


def _source(mem: Any) -> str:
    """Without rows: what is tried is the text of the request."""
    return str(mem.source.add(base64=CSV, name="sales").id)


def _asked(mem: Any) -> dict[str, Any]:
    _source(mem)
    return {"run": mem.query.run("select sum(amount) from sales", question="how much was sold?").run}


def _person(mem: Any) -> str:
    user: str = mem.user.add("Ann Lee", id=new_id()).id
    mem.remember("She likes tea", user=user)
    return user


CSV = base64.b64encode(b"region,amount\nnorth,10\nsouth,20\n").decode()


def _cold(mem: Any) -> str:
    session: str = mem.session.add("Talk").id
    mem.cold.store(session=session)
    return session


CASES: dict[str, Callable[[Any], dict[str, Any]]] = {
    **{f"{verb}_many": lambda mem: {"all": True} for verb in ("forget", "erase", "archive", "promote", "demote")},
    "agent.revise": lambda mem: {"description": "new"},
    "ask": lambda mem: {"question": "how many sales?", "sources": [_source(mem)]},
    "block.add": lambda mem: {"label": "human"},
    "block.replace": lambda mem: {"old": "kind", "new": "stern"},
    "block.revise": lambda mem: {"description": "new"},
    "checkpoint.delete": lambda mem: {"thread": "a thread"},
    "checkpoint.write": lambda mem: {"slots": [[0, "channel"]], "values": ["AAAA"]},
    "cold.show": lambda mem: {"id": _cold(mem)},
    "cold.restore": lambda mem: {"id": _cold(mem)},
    "cold.store": lambda mem: {"session": mem.session.add("Talk").id},
    "connection.add": _outside,
    "demote": lambda mem: {"id": _promoted(mem)},
    "episode.from_run": lambda mem: {"run": _finished(mem)},
    "hold.place": lambda mem: {"session": mem.session.add("Talk").id},
    "hold.release": lambda mem: {"id": mem.hold.place(session=mem.session.add("Talk").id, reason="x").id},
    "merge": lambda mem: {"others": [_cited(mem)]},
    "message.add": lambda mem: {"session": mem.session.add("Talk").id, "text": "hello"},
    "message.revise": lambda mem: {"text": "hello again"},
    "pattern.apply": lambda mem: {"id": _pattern(mem)},
    "pattern.report": lambda mem: {"application": mem.pattern.apply(_pattern(mem), "mend the old pool").application},
    "privacy.erase": lambda mem: {"user": _person(mem)},
    "privacy.export": lambda mem: {"user": _person(mem)},
    "privacy.find": lambda mem: {"user": _person(mem)},
    "privacy.verify": lambda mem: {"certificate": mem.privacy.erase(user=_person(mem)).certificate},
    "project.revise": lambda mem: {"description": "new"},
    "promote": lambda mem: {"id": _cited(mem)},
    "query.chart": _asked,
    "query.export": _asked,
    "query.judge": lambda mem: {**_asked(mem), "verdict": "right"},
    "query.remember": _asked,
    "query.run": lambda mem: {"sql": "select 1", "sources": [_source(mem)]},
    "relate": lambda mem: {"to": _cited(mem)},
    "restore": lambda mem: {"id": _forgotten(mem)},
    "retention.remove": lambda mem: {"id": mem.retention.set(keep_days=9, then="archive").id},
    "retention.set": lambda mem: {"keep_days": 36500, "then": "archive"},
    "revise": lambda mem: {"content": "the sky is red"},
    "roll_back": lambda mem: {"source": mem.show(_cited(mem)).citations[0].source},
    "run.approve": lambda mem: {"id": _waiting(mem)},
    "run.cancel": lambda mem: {"id": _run(mem)["id"]},
    "run.fail": _run,
    "run.finish": _run,
    "run.fork": lambda mem: {"id": _run(mem)["id"]},
    "run.pause": lambda mem: {"id": _run(mem)["id"]},
    "run.propose": _run,
    "run.record": _proposed,
    "run.reject": lambda mem: {"id": _waiting(mem)},
    "run.release": _run,
    "run.resume": lambda mem: {"id": _paused(mem)},
    "run.rewind": lambda mem: {"id": _stepped(mem), "to": 0},
    "run.settle": _uncertain,
    "run.start": lambda mem: {"agent": _agent(mem)},
    "session.revise": lambda mem: {"title": "new"},
    "source.add": lambda mem: {"base64": CSV, "name": "sales"},
    "source.revise": lambda mem: {"description": "new"},
    "state.save": lambda mem: {"agent": _agent(mem)},
    "tool.revise": lambda mem: {"description": "new"},
    "unmerge": lambda mem: {"id": _merged(mem)},
    "why_not": lambda mem: {"id": _memory(mem)},
    "workspace.add": lambda mem: {"agent": _agent(mem)},
    "workspace.diff": _snapshots,
    "workspace.move": _file,
    "workspace.read": _file,
    "agent.add": lambda mem: {"name": "Bee"},
    "project.add": lambda mem: {"name": "House"},
    "user.add": lambda mem: {"name": "Ann"},
    "organization.revise": lambda mem: {"name": "Ours", "id": None},
    "organization.suspend": lambda mem: {"id": mem.organization.add(id=new_id()).id},
    "organization.resume": lambda mem: {"id": mem.organization.add(id=new_id()).id},
    "organization.remove": lambda mem: {"id": mem.organization.add(id=new_id()).id},
    "organization.show": lambda mem: {"id": None},
    "project.add_member": lambda mem: {"user": mem.user.add("Ann").id},
    "project.remove_member": _member,
    "workspace.remove": _file,
    "workspace.remove_file": _file,
    "workspace.write": lambda mem: {"text": "hello"},
}


def case(operation: Operation, mem: Any) -> dict[str, Any]:
    given = CASES[operation.name](mem) if operation.name in CASES else {}
    for prefix, make in BY_ROUTE.items():
        if operation.route.partition(" ")[2].startswith(prefix) and "id" not in given:
            given["id"] = make(mem)
    return sample(operation, **given)


def test_every_text_taking_operation_has_a_case_that_works(mem: Any) -> None:
    lacking = {}
    for name in text_taking():
        try:
            _ask(mem, OPERATIONS[name], case(OPERATIONS[name], mem))
        except RecollectError as error:
            lacking[name] = str(error)
    assert not lacking, f"say in CASES what these need: {lacking}"


def _ask(mem: Any, operation: Operation, fields: dict[str, Any]) -> float:
    begun = time.process_time()
    mem.call(operation.name, **fields)
    return time.process_time() - begun


def _cost(mem: Any, operation: Operation, field: str, value: Any) -> float:
    fields = {**case(operation, mem), field: value}
    begun = time.process_time()
    with suppress(RecollectError):  # refused, which must not take long either
        mem.call(operation.name, **fields)
    return time.process_time() - begun


@pytest.mark.parametrize("name", text_taking())
def test_four_times_the_text_takes_at_most_six_times_the_time(name: str, mem: Any) -> None:
    """With every hostile text in a soak; else with one in each field, another for each and with each seed."""
    operation = OPERATIONS[name]
    for field, size, fill in text_fields(operation):
        for what, text in some(1, HOSTILE.items(), f"{name} {field}"):
            large = _cost(mem, operation, field, fill(text(size)))
            if large < CHEAP:
                continue
            small = min(_cost(mem, operation, field, fill(text(size // 4))) for _ in range(4))
            most = MOST_GROWTH * max(small, LEAST)
            for _ in range(4):  # the least of them counts: once it is small enough the others say nothing more
                if large > most:
                    large = min(large, _cost(mem, operation, field, fill(text(size))))
            assert large <= most, f"{field} with {what}: {small:.3f} s, then {large:.3f} s"


@pytest.mark.parametrize("name", sorted(one.name for one in operations() if one.permission == "read"))
def test_whatever_only_reads_bounds_every_text(name: str) -> None:
    schema = OPERATIONS[name].request.model_json_schema()
    for field, one in schema.get("properties", {}).items():
        for bound, fill in fills(one, schema.get("$defs", {})):
            if isinstance(fill("x"), str | list):
                assert bound is not None, field
                assert bound <= 20_000, field


def test_long_memories_slow_a_recall_down_no_more_than_their_length(mem: Any) -> None:
    """Up to a bound: beyond it each is looked at as far as its share goes."""
    costs = []
    for length in (4_000, 16_000, 64_000):
        for number in range(40):
            mem.remember(f"{length} {number} harbour " + "anchor lantern " * (length // 15))
        asked = {"query": "which harbour has an anchor, a lantern or a lighthouse?", "limit": 20}
        costs.append(min(_ask(mem, OPERATIONS["recall"], asked) for _ in range(4)))
    assert costs[1] <= MOST_GROWTH * max(costs[0], LEAST)
    assert costs[2] <= MOST_GROWTH * max(costs[1], LEAST)
