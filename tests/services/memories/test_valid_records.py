"""What is built without being validated again is what validation makes of it; what is not valid is still refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.domain.audit import AccessLog
from recollect.domain.memory import Embedding, Memory
from recollect.domain.record import Record, of_valid
from recollect.errors import InvalidInput
from recollect.ports.query import Query, equal
from recollect.ports.records import Scope
from recollect.services.memories.draft import RememberRequest
from recollect.services.memories.remember import remember
from recollect.services.memories.revise import Receipt
from recollect.services.requests import Reply

SECRET = "ghp_" + "x7Kq" * 9
built: Counter[type] = Counter()


@pytest.fixture
def mem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A memory in which everything that is built unvalidated is compared with what validation makes."""
    built.clear()

    def compared(cls: Any, fields: dict[str, Any]) -> Any:
        made, checked = of_valid(cls, fields), cls(**fields)
        drawn = {name for name, info in cls.model_fields.items() if info.default_factory and name not in fields}
        known = [(name, type(value), value) for name, value in made.__dict__.items() if name not in drawn]
        assert known == [(name, type(value), value) for name, value in checked.__dict__.items() if name not in drawn]
        assert list(made.__dict__) == list(checked.__dict__)
        assert [type(getattr(made, name)) for name in drawn] == [type(getattr(checked, name)) for name in drawn]
        assert made.model_fields_set == checked.model_fields_set
        assert made.model_dump(exclude=drawn) == checked.model_dump(exclude=drawn)
        built[cls] += 1
        return made

    monkeypatch.setattr(Record, "of_valid", classmethod(compared))
    monkeypatch.setattr(Reply, "of_valid", classmethod(compared))
    with recollect.open(tmp_path / "m.db", embedder="hash") as opened:
        yield opened


def given() -> list[Any]:
    """As users give them: each field that a memory copies from its request, alone and together."""
    whose = {"user": "ann", "agent": "bot", "session": "talk", "project": "moon"}
    return [
        "plain",
        "  spaces around  ",
        {"content": "naïve café ☕", "author": "Zoë", "at": "2024-05-08", **whose},
        {"content": "with a zone", "at": "2024-05-08T12:00:00+07:00", "importance": 3, "confidence": 1, "priority": 10},
        {"content": "json", "metadata": {"a": [1, 2.5, None, True], "b": {"c": "ü"}}, "tags": ["one", " two "]},
        {"content": {"text": "typed", "role": "user"}, "kind": "conversation"},
        {"content": {"key": "colour", "value": 7}, "kind": "user_preference"},
        {"content": "ends", "ttl_seconds": 3600, "level": "day", "scope": "task", "source_agent": "bot"},
        {"content": "holds", "valid_from": "2024-01-01", "valid_to": "2025-01-01"},
        {"content": "vectors", "vector": [0.1, 0.2, 0.3], "vector_model": "other", "namespaces": ["mine", "long_term"]},
        {"content": f"my key is {SECRET}", "author": SECRET, "metadata": {"token": SECRET}},
        {"content": "word " * 3000, "idempotency_key": "long"},
        {"content": "imported", "created_at": "2020-02-02T02:02:02", "score": 1},
    ]


def test_what_is_built_is_what_validation_makes(mem: Any) -> None:
    mem.remember_many(given())
    for one in given()[:3]:
        mem.remember(**({"content": one} if isinstance(one, str) else one))
    mem.revise(mem.list(limit=1)[0].id, "revised text")
    assert built[Memory] >= 8
    assert built[AccessLog] >= 13
    assert built[Embedding] >= 14
    assert built[Receipt] >= 13


def test_the_organization_may_be_named_by_what_a_memory_says_it_is(mem: Any) -> None:
    """`mem.organization` is a text with operations: no record keeps these."""
    tenant = mem._core.for_scope(Scope(mem.organization, "ann"))
    receipt = remember(tenant, RememberRequest(content="from a program's own scope"))
    assert type(mem.organization) is not str
    assert mem.show(receipt.id).text == "from a program's own scope"


@pytest.mark.parametrize(
    "wrong",
    [
        {"content": "x", "valid_from": "2025-01-01", "valid_to": "2024-01-01"},
        {"content": "x\0y"},
        {"content": "x\ud800"},
        {"content": {"text": "x\0y"}},
        {"content": "   "},
        {"content": "x", "tags": ["t" * 65]},
        # Short enough when it came, and too long since the secret in it was masked.
        {"content": "x", "user": "u" * 200 + " password: Zx9!kQ2v " + "u" * 30},
    ],
)
def test_what_is_not_valid_is_refused_in_a_bulk_as_ever(mem: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        mem.remember_many(["fine", wrong])
    assert mem.stats().memories == 0


def test_vectors_turned_together_are_stored_as_each_alone(mem: Any) -> None:
    embedder = mem._core.embedder
    texts = ["short", "naïve café", "word " * 900, "日本語のテキスト"]
    ids = [receipt.id for receipt in mem.remember_many(texts).receipts]
    for text, id in zip(texts, ids, strict=True):
        found = mem._core.store.find(Scope(mem.organization), Query(Embedding, (equal("memory_id", id),))).records
        whole = text.strip()
        alone = {one.part: embedder.embed([whole[one.start : one.end]])[0] for one in found}
        assert {one.part: one.vector for one in found} == {
            part: vector.astype("<f2").tobytes() for part, vector in alone.items()
        }
        assert len(found) == (1 if len(whole) < 900 else len(alone) > 1 and len(alone))
