"""A short question before the whole one changes no answer, and mostly spares the whole one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from recollect.adapters.records.common.sql_tables import SqlTables
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.domain.memory import Memory
from recollect.errors import InvalidInput, RequirementFailed
from recollect.ports.query import AnyOf, Compare, Filter, IsNull, OneOf, Query, equal
from recollect.ports.records import Scope
from recollect.ports.steps import Absent, Insert
from recollect.testing.conformance.makers import NOON, found, memory

ACME, OTHER = Scope("acme"), Scope("other")
ALIVE: tuple[Filter, ...] = (
    AnyOf((IsNull("expires_at"), Compare("expires_at", ">", NOON))),
    Compare("status", "!=", "archived"),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    with closing(SqliteStore(Path(tmp_path_factory.mktemp("absences")) / "m.db")) as opened:
        fields: list[dict[str, Any]] = [
            {},
            {"expires_at": NOON - timedelta(days=1)},
            {"expires_at": NOON + timedelta(days=1)},
            {"status": "archived"},
            {"is_deleted": True},
        ]
        for scope in (ACME, OTHER):
            found(opened, scope.organization_id)
        mine = [memory(ACME, f"m{n}", f"{n}", identity=f"i1:{n}", **given) for n, given in enumerate(fields)]
        opened.transact(ACME, [Insert(one) for one in (*mine, memory(ACME, "ü", "umlaut", identity="i1:ü"))])
        opened.transact(OTHER, [Insert(memory(OTHER, "theirs", "theirs", identity="i1:theirs"))])
        yield opened


def asked(store: SqliteStore, query: Query[Any], *, whole: bool) -> Any:
    tables = store._tables

    def answer() -> Any:
        tables.serve(ACME)
        return SqlTables.ids(tables, query) if whole else tables.ids(query)

    return store._writer.run(answer)


def test_the_answer_is_the_same(store: SqliteStore) -> None:
    chance = random.Random(2)
    values = [*(f"i1:{n}" for n in range(7)), "i1:theirs", "i1:ü", "", "' OR 1=1 --", "a\tb"]
    fields = ("identity", "status", "kind", "id", "text", "session_id")
    answers = set()
    for _ in range(300):
        first: Filter = Compare(chance.choice(fields), chance.choice(["=", "!="]), chance.choice(values))
        if chance.random() < 0.1:
            first = OneOf("identity", tuple(chance.sample(values, 2)))
        rest = ALIVE if chance.random() < 0.5 else ()
        query = Query(Memory, (first, *rest), limit=chance.choice([1, 1, 5]), deleted=chance.choice(["no", "yes"]))
        answer = asked(store, query, whole=False)
        assert answer == asked(store, query, whole=True), query
        answers.add(tuple(answer))
    assert len(answers) > 4


def test_what_is_wrong_with_a_question_is_still_said(store: SqliteStore) -> None:
    for where in (equal("identity", "\ud800"), equal("identity", 7), equal("nonsense", "x"), equal("identity", "a\0b")):
        with pytest.raises(InvalidInput):
            store.transact(ACME, [Absent(Memory, (where, *ALIVE))])
    with pytest.raises(RequirementFailed):
        store.transact(ACME, [Absent(Memory, (equal("identity", "i1:0"), *ALIVE))])


def test_one_short_question_is_enough_for_what_is_new(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    run, statements = store._tables.run, list[str]()
    monkeypatch.setattr(store._tables, "run", lambda text, values=(): (statements.append(text), run(text, values))[1])
    store.transact(ACME, [Absent(Memory, (equal("identity", "i1:new"), *ALIVE))])
    assert [text for text in statements if '"memory"' in text] == [
        'SELECT 1 FROM "memory" WHERE organization_id = ? AND "identity" = ? LIMIT 1'
    ]
