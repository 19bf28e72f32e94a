"""Steps that are written together leave what they leave one by one, and fail as they fail one by one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from recollect.adapters.records.common.transaction import references_of, referred_to
from recollect.adapters.records.sqlite import step_runs
from recollect.adapters.records.sqlite.connection import connect
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.domain.memory import Embedding, Memory
from recollect.domain.record import Record
from recollect.errors import DuplicateKey, InvalidInput, RecollectError, ReferenceMissing
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Delete, Insert, Step, Touch
from recollect.testing.conformance.makers import NOON, agent, embedding, found, memory, search, session, tag, user

ACME = Scope("acme")
WHEN: dict[str, Any] = {"created_at": NOON, "updated_at": NOON}
ONE_BY_ONE = 10**9


def records(count: int = 30) -> list[Record]:
    """Of several types, mixed as services mix them; one is soft-deleted, some have empty fields."""
    made: list[Record] = [user(ACME, "ann", **WHEN), agent(ACME, "bot", **WHEN), session(ACME, "talk", **WHEN)]
    for number in range(count):
        id = f"m{number:02d}"
        fields: dict[str, Any] = {"metadata": {"n": [number, None, 0.5]}, "user_id": "ann"} if number % 3 else {}
        text = f"naïve err-4012 number {number}"
        made.append(memory(ACME, id, text, is_deleted=number == 7, occurred_at=NOON, **fields, **WHEN))
        made.append(tag(ACME, id, "blue", id=f"t{number:02d}", **WHEN))
        made.append(embedding(ACME, id, b"\x00\x3c", id=f"v{number:02d}", tokens=b"x" if number % 2 else None, **WHEN))
    # What is soft-deleted may only be referred to by what restores it.
    return [one for one in made if getattr(one, "memory_id", None) != "m07"]


def steps(of: Sequence[Record]) -> list[Step]:
    return [Insert(record) for record in of]


def held(path: Path) -> dict[str, list[Any]]:
    """Every row of every table, with its seq, and every word of the text index."""
    with closing(connect(path, writable=False)) as connection:
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
        names = [str(name) for (name,) in connection.execute(tables) if "_text" not in str(name)]
        rows = {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}
        rows["recollect_store"] = [row for row in rows["recollect_store"] if row[0] not in ("incarnation", "row_marks")]
        del rows["recollect_migrations"], rows["organization"]
        with closing(apsw.Connection(f"file:{path}?mode=ro", flags=apsw.SQLITE_OPEN_READWRITE | 0x40)) as reader:
            reader.execute("CREATE VIRTUAL TABLE temp.words USING fts5vocab('main', 'memory_text', 'instance')")
            rows["words"] = reader.execute("SELECT term, doc, col FROM temp.words ORDER BY 1, 2, 3").fetchall()
    return rows


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with closing(SqliteStore(tmp_path / "run.db")) as opened:
        found(opened, "acme")
        yield opened


def written(path: Path, *batches: list[Step]) -> dict[str, list[Any]]:
    with closing(SqliteStore(path)) as opened:
        found(opened, "acme")
        for batch in batches:
            opened.transact(ACME, batch)
    return held(path)


def test_a_run_leaves_the_same_rows_and_seqs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again: list[Step] = [Delete(Memory, "m01"), Delete(Memory, "m02")]
    back = steps([memory(ACME, f"m{number:02d}", "said again", **WHEN) for number in (1, 2, *range(40, 50))])
    mixed = [*steps(records()), Touch(Memory, "m03", {"access_count": 2})]
    together = written(tmp_path / "run.db", mixed, again, back)
    monkeypatch.setattr(step_runs, "FEWEST", ONE_BY_ONE)
    assert written(tmp_path / "single.db", mixed, again, back) == together
    assert len(together["memory"]) == 40
    assert len(together["words"]) > 100


def touches(count: int = 40) -> list[Step]:
    """Of the same fields and of others, of one memory several times, of none that is there, and of a deleted one."""
    read: dict[str, Any] = {"last_accessed": NOON}
    some: list[Step] = [Touch(Memory, f"m{number % 30:02d}", {"access_count": number}, read) for number in range(count)]
    some += [Touch(Memory, "nowhere", {"access_count": 1}, read), Touch(Memory, "m03", {"score": 0.5})]
    some += [Touch(Memory, f"m{number:02d}", {"access_count": 1}, {"last_accessed": None}) for number in range(9)]
    some += [Touch(Embedding, f"v{number:02d}", put={"tokens": b"y"}) for number in range(12)]
    return [*some, Touch(Memory, "m04", {"access_count": 5}, read), Touch(Memory, "m05")]


def test_a_run_of_touches_leaves_what_single_ones_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = written(tmp_path / "run.db", steps(records()), touches())
    untouched = written(tmp_path / "untouched.db", steps(records()))
    monkeypatch.setattr(step_runs, "FEWEST", ONE_BY_ONE)
    assert written(tmp_path / "single.db", steps(records()), touches()) == together
    assert untouched["memory"] != together["memory"]
    assert untouched["embedding"] != together["embedding"]


@pytest.mark.parametrize(
    "wrong",
    [{"add": {"access_count": "many"}}, {"add": {"identity": 1}}, {"put": {"text": "other"}}, {"put": {"nothing": 1}}],
)
def test_a_run_of_touches_is_refused_as_single_ones_are(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any]
) -> None:
    store.transact(ACME, steps(records()))
    bad: list[Step] = [
        *(Touch(Memory, f"m{n:02d}", {"access_count": 1}) for n in range(20)),
        *(Touch(Memory, f"m{n:02d}", **wrong) for n in range(10)),
    ]
    together = refusal(store, bad)
    assert together[0] is InvalidInput
    monkeypatch.setattr(step_runs, "FEWEST", ONE_BY_ONE)
    assert refusal(store, bad) == together
    counts = store.select(ACME, Query(Memory), ("access_count",))
    assert set(counts) == {(0,)}


def test_one_of_a_run_of_touches_that_is_wrong_is_found(store: SqliteStore) -> None:
    store.transact(ACME, steps(records()))
    bad: list[Step] = [Touch(Memory, f"m{n:02d}", {"access_count": 1 if n < 15 else True}) for n in range(20)]
    assert refusal(store, bad)[0] is InvalidInput


def test_touched_vectors_are_read_anew(store: SqliteStore) -> None:
    """Who keeps what was read is told, of a run as of a single touch."""
    store.transact(ACME, steps(records()))
    before = store.stored_vectors(ACME, "long_term/m", ["m00", "m02"])
    store.transact(ACME, [Touch(Embedding, f"v{n:02d}", put={"tokens": b"new"}) for n in range(20) if n != 7])
    after = store.stored_vectors(ACME, "long_term/m", ["m00", "m02"])
    assert len(before) == len(after) == 2
    assert before != after


def test_long_runs_are_taken_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = written(tmp_path / "run.db", steps(records()))
    monkeypatch.setattr(step_runs, "AT_ONCE", 11)
    assert written(tmp_path / "pieces.db", steps(records())) == whole
    monkeypatch.undo()
    touched = written(tmp_path / "touched.db", steps(records()), touches())
    monkeypatch.setattr(step_runs, "AT_ONCE", 11)
    assert written(tmp_path / "touched pieces.db", steps(records()), touches()) == touched


def refusal(store: SqliteStore, some: list[Step]) -> tuple[type, str, object]:
    with pytest.raises(RecollectError) as caught:
        store.transact(ACME, some)
    return type(caught.value), caught.value.message, caught.value.details


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ([memory(ACME, "m05", "another")], DuplicateKey),
        ([tag(ACME, "m05", "blue", id="t99")], DuplicateKey),
        ([tag(ACME, "nowhere", "red")], ReferenceMissing),
        # Two are wrong: the first counts, though the second is found first when references are looked at together.
        ([memory(ACME, "m05", "another"), tag(ACME, "nowhere", "red")], DuplicateKey),
        ([tag(ACME, "nowhere", "red"), memory(ACME, "m05", "another")], ReferenceMissing),
        ([memory(Scope("other"), "m90", "of somebody else")], InvalidInput),
        ([memory(ACME, "m05", "another"), memory(Scope("other"), "m90", "of somebody else")], DuplicateKey),
    ],
)
def test_a_run_that_fails_says_what_a_single_step_says_and_leaves_nothing(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, wrong: list[Record], error: type[RecollectError]
) -> None:
    bad = steps([*records(), *wrong])
    together = refusal(store, bad)
    assert together[0] is error
    assert store.tenants() == ["acme"]
    assert search(store, ACME, "number") == []
    monkeypatch.setattr(step_runs, "FEWEST", ONE_BY_ONE)
    assert refusal(store, bad) == together


def test_after_a_run_that_failed_the_store_counts_on_as_if_it_had_not_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqliteStore(tmp_path / "run.db")) as opened:
        found(opened, "acme")
        refusal(opened, steps([*records(), memory(ACME, "m05", "another")]))
        opened.transact(ACME, steps(records()))
        assert list(opened.verify()) == []
    monkeypatch.setattr(step_runs, "FEWEST", ONE_BY_ONE)
    assert held(tmp_path / "run.db") == written(tmp_path / "single.db", steps(records()))


def test_what_a_run_refers_to_is_what_each_of_its_records_refers_to() -> None:
    of_message = embedding(ACME, "message:n1", b"\x00\x3c", message_id="n1", **WHEN)
    some = [*records(), memory(ACME, "m90", "x", session_id="elsewhere", agent_id="bot", **WHEN), of_message]
    each = {(target, id) for record in some for _, target, id in referred_to(record)}
    inserted = {(record.shape.table, record.id) for record in some}
    asked = references_of([*steps(some), Delete(Memory, "m01"), Touch(Memory, "m03", {"access_count": 2})])
    assert {(target, id) for target, ids in asked.items() for id in ids} == each - inserted
    assert ("message", "n1") in each
    assert ("session", "elsewhere") in each - inserted
    assert ("memory", "message:n1") not in each
