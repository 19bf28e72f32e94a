"""Names from elsewhere: whoever calls `search` or gives `top_k` is told what that is called here."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from recollect.errors import InvalidInput
from recollect.interfaces.cli.main import run


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("search", "recall"), ("retrieve", "recall"), ("add", "remember"), ("delete", "forget, or erase for good"),
        ("update", "revise"), ("get_all", "list"), ("remembr", "remember"),
    ],
)  # fmt: skip
def test_a_method_of_others_says_what_it_is_here(mem: Any, name: str, meant: str) -> None:
    assert not hasattr(mem, name)
    with pytest.raises(AttributeError, match=f"did you mean {meant}"):
        getattr(mem, name)
    with pytest.raises(InvalidInput) as refused:
        mem.call(name)
    assert meant in refused.value.remedy


@pytest.mark.parametrize(
    ("room", "name", "meant"), [("user", "create", "add"), ("agent", "get", "show"), ("session", "delete", "remove")]
)
def test_a_verb_of_others_says_what_it_is_here(mem: Any, room: str, name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; did you mean {meant}"):
        getattr(getattr(mem, room), name)


@pytest.mark.parametrize(
    ("operation", "field", "meant"),
    [
        ("recall", "n_results", "limit"), ("recall", "top_k", "limit"), ("recall", "k", "limit"),
        ("recall", "user_id", "user"), ("recall", "where", "metadata"), ("remember", "text", "content"),
        ("remember", "agent_id", "agent"), ("message.add", "thread_id", "session"), ("show", "memory_id", "id"),
    ],
)  # fmt: skip
def test_a_field_of_others_says_what_it_is_here(mem: Any, operation: str, field: str, meant: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        mem.call(operation, **{field: "x"})
    assert f"give {meant} instead of {field}" in refused.value.remedy


def test_a_field_of_others_in_a_thousand_memories_is_told_once(mem: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        mem.remember_many([{"text": f"fact {n}", "created_at": "2026-01-01"} for n in range(1000)])
    assert refused.value.remedy.startswith("give content instead of memories.0.text")
    assert "memories takes content" in refused.value.remedy
    assert len(str(refused.value)) < 2000


@pytest.mark.parametrize(("word", "meant"), [("search", "recall"), ("add", "remember"), ("get_all", "list")])
def test_a_command_of_others_says_what_it_is_here(word: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([word, "tea"]) == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


def test_what_is_asked_by_machinery_is_simply_not_there(mem: Any) -> None:
    assert not hasattr(mem, "__len__")
    assert copy.copy(mem) is mem
    assert copy.deepcopy(mem.user) is not None
