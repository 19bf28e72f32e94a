"""How often PostgreSQL is waited for, and that what is read ahead is what would have been read one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import recollect
from pgbouncer import PgBouncer, needs_pgbouncer
from postgres_server import server
from recollect.adapters import ttl_cache
from recollect.adapters.postgres.connection import Database
from recollect.adapters.records.common import data_keys
from recollect.adapters.records.postgres import copying, fulltext, read_ahead
from recollect.adapters.records.postgres.store import PostgresStore
from recollect.adapters.ttl_cache import TtlCache
from recollect.adapters.vectors import pgvector
from recollect.adapters.vectors.pgvector import PgVectorStore
from recollect.domain.memory import Memory
from recollect.domain.record import now
from recollect.errors import DamagedData
from recollect.ports.query import OneOf, Query
from recollect.ports.records import Scope
from recollect.ports.steps import Touch
from recollect.services import times
from recollect.services.access_journal import Journal
from round_trips import Talk, watched

LONG = "The ferry leaves the pier at noon, and the crew has lunch on deck. " * 60


def fill(mem: Any) -> None:
    """Sessions with neighbours, memories without one, tags, citations, texts of several passages."""
    mem.user.add("Ann", id="ann")
    mem.agent.add("Bee", id="bee")
    for number in range(3):
        mem.session.add(id=f"s{number}", user="ann", agent="bee")
    told: list[dict[str, Any]] = [
        {
            "content": f"{'the harbour is quiet' if number % 3 else 'nothing of note'}, day {number}",
            "author": "Ann" if number % 2 else "Bob",
            "user": "ann" if number % 4 else None,
            "session": f"s{number % 3}" if number % 4 else None,
            "agent": "bee" if number % 8 == 0 else None,
            "tags": ["day", f"t{number % 4}"],
            "cites": [recollect.cite.user("ann", f"said so {number}")] if number % 5 == 0 else [],
        }
        for number in range(150)
    ]
    long: list[dict[str, Any]] = [
        {"content": f"{LONG} number {number}", "user": "ann", "tags": ["long"]} for number in range(3)
    ]
    mem.remember_many([{name: value for name, value in one.items() if value is not None} for one in [*told, *long]])


# The questions, and the most round trips: the pool, then what is shown of the best. Whom a question names is known
# only when its words were searched, and a filter that no index knows is asked for by itself.
QUESTIONS: dict[str, tuple[dict[str, Any], int]] = {
    "everything": ({}, 2),
    "a user": ({"user": "ann"}, 2),
    "a session": ({"session": "s1"}, 2),
    "many": ({"limit": 50}, 2),
    "long": ({"query": "when does the ferry leave the pier"}, 2),
    "words": ({"by": "words"}, 2),
    "meaning": ({"by": "meaning"}, 1),
    "meaning of a user": ({"by": "meaning", "user": "ann"}, 1),
    "named": ({"query": "What did Bob say of the harbour?"}, 3),
    "tags": ({"tags": ["day"]}, 7),
}


@pytest.fixture(scope="module", params=["server", pytest.param("pooler", marks=needs_pgbouncer)])
def filled(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Talk]]:
    patch = pytest.MonkeyPatch()
    patch.setattr(Journal, "_add", lambda *given, **named: None)  # written later, with others
    patch.setattr(ttl_cache, "time", SimpleNamespace(monotonic=lambda: 0.0))  # nothing expires between two questions
    patch.setattr(times, "KNOWN_SECONDS", 3600.0)
    patch.setattr(data_keys, "_BELIEVED_SECONDS", 3600.0)
    address, pooler = server().new_store(), PgBouncer(server()) if request.param == "pooler" else None
    if pooler is not None:
        address = pooler.before(address)
    with watched(patch) as talk, recollect.open(address, embedder="hash") as mem:
        store: Any = mem._core.store
        assert store.database.is_pooled == (pooler is not None)
        fill(mem)
        yield mem, talk
    patch.undo()
    if pooler is not None:
        pooler.stop()


def asked(mem: Any, question: dict[str, Any]) -> Any:
    return mem.recall(**{"query": "quiet days in the harbour", **question})


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_recall_is_a_round_trip_or_two(filled: tuple[Any, Talk], name: str) -> None:
    mem, talk = filled
    question, most = QUESTIONS[name]
    asked(mem, question)  # what is prepared is prepared now
    asked(mem, question)
    talk.clear()
    assert len(asked(mem, question)) >= 3
    assert talk.round_trips <= most, "\n".join(map(str, talk.lines()))


@pytest.mark.parametrize(("name", "most"), [("meaning", 5), ("meaning of a user", 7)])
def test_a_recall_by_meaning_is_few_statements(filled: tuple[Any, Talk], name: str, most: int) -> None:
    """Who asks and how, the nearest, their records, citations and tags; of a user also whether there are messages."""
    mem, talk = filled
    for _ in range(3):
        talk.clear()
        asked(mem, QUESTIONS[name][0])
    assert sum(one.startswith("Execute") for sent in talk.lines() for one in sent) == most


def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scope is too broad to be read whole: terms are counted first, and vectors are walked to."""
    for module in (fulltext, read_ahead):
        monkeypatch.setattr(module, "FEW", 10)


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("prepare", [lambda patch: None, few_are_many], ids=["few", "many"])
def test_what_is_read_ahead_is_what_would_have_been_read(
    filled: tuple[Any, Talk], monkeypatch: pytest.MonkeyPatch, name: str, prepare: Callable[..., None]
) -> None:
    mem, _ = filled
    question = QUESTIONS[name][0]
    prepare(monkeypatch)
    monkeypatch.setattr(mem._core.vectors, "_broad", TtlCache[bool]())  # what another test found broad is so no longer
    if prepare is few_are_many:
        monkeypatch.setattr(mem._core.vectors, "_exact_rows", 20)
    ahead = [asked(mem, question).model_dump() for _ in range(2)]  # the second knows which scopes are broad
    monkeypatch.setattr(PgVectorStore, "read_ahead", lambda *given: None)
    one_by_one = asked(mem, question).model_dump()
    assert ahead == [one_by_one, one_by_one]


@pytest.mark.parametrize("name", ["meaning", "meaning of a user"])
def test_of_many_as_near_the_same_are_found_whether_the_scope_is_known_to_be_broad_or_not(
    filled: tuple[Any, Talk], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    mem, _ = filled
    found: list[list[str]] = []
    for exact_rows in (20, 20, 5_000):  # scored and found too many, walked at once, scored
        if exact_rows > 20 or not found:
            monkeypatch.setattr(mem._core.vectors, "_broad", TtlCache[bool]())
        monkeypatch.setattr(mem._core.vectors, "_exact_rows", exact_rows)
        found.append([hit.id for hit in asked(mem, {**QUESTIONS[name][0], "limit": 20})])
    assert found[0] == found[1] == found[2]


def test_messages_are_found_with_what_was_read_ahead(filled: tuple[Any, Talk], monkeypatch: pytest.MonkeyPatch) -> None:
    mem, _ = filled
    mem.session.add(id="talk", user="ann")
    for number in range(20):
        mem.message.add("user", f"the harbour was quiet on day {number}", session="talk")
    for question in ({"user": "ann"}, {"session": "talk"}, {"user": "ann", "by": "meaning"}):
        ahead = asked(mem, question).model_dump()
        with monkeypatch.context() as patch:
            patch.setattr(PgVectorStore, "read_ahead", lambda *given: None)
            assert asked(mem, question).model_dump() == ahead
        assert any(hit["type"] == "message" for hit in ahead["hits"])


def test_a_memory_that_cannot_be_read_does_not_hide_the_others(
    filled: tuple[Any, Talk], monkeypatch: pytest.MonkeyPatch
) -> None:
    mem, _ = filled
    chained = read_ahead.Chain.run

    def damaged(chain: Any) -> Any:
        chained(chain)
        raise DamagedData("a memory cannot be read")

    one_by_one = asked(mem, {}).model_dump()
    monkeypatch.setattr(read_ahead.Chain, "run", damaged)
    assert asked(mem, {}).model_dump() == one_by_one


def test_a_check_reads_the_vectors_a_part_at_a_time_and_names_those_that_differ(
    filled: tuple[Any, Talk], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All together they may be more than the memory: of a year on one machine they were."""
    mem, talk = filled
    monkeypatch.setattr(pgvector, "CHECKED_AT_ONCE", 50)
    database = mem._core.store.database
    talk.clear()
    assert mem._core.vectors.verify() == []
    assert sum("FETCH FORWARD 50" in one for one in talk.statements) >= 4
    first = "WHERE id = (SELECT id FROM embedding ORDER BY id LIMIT 1)"
    for other in ("_halfvec * _halfvec", "NULL"):
        statement = f"UPDATE embedding SET _halfvec = {other} {first}"
        database.write("default", lambda connection, statement=statement: connection.execute(statement))
        assert mem._core.vectors.verify() == ["a vector is another one in the vector index"]
    mem._core.vectors._fill()
    assert mem._core.vectors.verify() == []


def test_a_write_is_two_round_trips(filled: tuple[Any, Talk]) -> None:
    """The number of the transaction must be known before it commits: should the line be lost then, it can be told."""
    mem, talk = filled
    for number in range(2):
        talk.clear()
        mem.remember(f"the harbour opens at {number}", user="ann", session="s1", tags=["day"], cites=["user:ann"])
    assert talk.round_trips == 2


def test_what_was_shown_is_counted_in_one_statement(filled: tuple[Any, Talk]) -> None:
    mem, talk = filled
    ids = [receipt.id for receipt in mem.remember_many([{"content": f"seen {n}"} for n in range(20)]).receipts]
    store, scope, at = mem._core.store, Scope("default"), now()
    store.transact(scope, [Touch(Memory, "nobody", {"access_count": 1}, {"last_accessed": at})])
    talk.clear()
    touches = [
        Touch(Memory, id, {"access_count": n, "importance": 0.5}, {"last_accessed": at}) for n, id in enumerate(ids)
    ]
    store.transact(
        scope, [*touches, Touch(Memory, "nobody", {"access_count": 1, "importance": 0.5}, {"last_accessed": at})]
    )
    assert talk.round_trips <= 2
    assert sum(one.count('UPDATE "memory"') for one in talk.statements) <= 1
    found = store.select(scope, Query(Memory, (OneOf("id", tuple(ids)),)), ("id", "access_count", "last_accessed"))
    assert {row[0]: row[1:] for row in found} == {id: (n, at) for n, id in enumerate(ids)}
    twice = [Touch(Memory, ids[0], {"access_count": 5}), Touch(Memory, ids[0], {"access_count": 5})]
    store.transact(scope, twice)
    assert store.get(scope, Memory, ids[0]).access_count == 10


def test_many_are_copied_all_or_none(filled: tuple[Any, Talk], monkeypatch: pytest.MonkeyPatch) -> None:
    mem, talk = filled
    copied: list[str] = []
    copy_rows = copying.copy_rows

    def noted(connection: Any, table: str, *given: Any) -> None:
        copied.append(table)
        copy_rows(connection, table, *given)

    monkeypatch.setattr("recollect.adapters.records.postgres.store.copy_rows", noted)
    many = [
        {"content": f"copied {number} \\ \t \n 'é🙂", "tags": ["a\tb", "\\N"], "metadata": {"n": 1e300, "z": -0.0}}
        for number in range(600)
    ]
    talk.clear()
    receipts = mem.remember_many([*many, {"content": "the last", "id": "copied-last"}]).receipts
    assert {"memory", "access_log", "tag"} <= set(copied)
    assert talk.round_trips <= 40
    shown = mem.get(receipts[7].id)
    assert (shown.text, shown.tags) == (many[7]["content"], ["\\N", "a\tb"])
    assert str(shown.metadata) == str(many[7]["metadata"])
    before = mem.stats().memories
    with pytest.raises(recollect.errors.RecollectError):
        mem.remember_many(
            [{"content": f"not copied {number}"} for number in range(600)] + [{"content": "no", "id": "copied-last"}]
        )
    assert mem.stats().memories == before
    assert mem.verify().sound


def test_without_the_right_to_make_temporary_tables_rows_are_inserted() -> None:
    address = server().new_store()
    name = address.rpartition("/")[2]
    server().admin(f'REVOKE TEMPORARY ON DATABASE "{name}" FROM PUBLIC')
    with recollect.open(address, embedder="hash") as mem:
        store: Any = mem._core.store
        assert not store._may_copy
        assert len(mem.remember_many([{"content": f"inserted {number}"} for number in range(600)]).receipts) == 600


def test_a_serving_login_is_asked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not search by words itself: another line does."""
    store = PostgresStore(server().new_store())
    monkeypatch.setattr(store.database, "upkeep", Database(store.database.conninfo))
    assert store.read_ahead(None, None, []) is None  # type: ignore[arg-type]
    store.close()
