"""The sets that judge recall are sound, and the public ones are read into the same shape."""

from __future__ import annotations

import json
import lzma
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return __import__("recall_sets")


def test_evidence_of_our_sets_is_among_their_turns(sets: Any) -> None:
    for one in sets.ours():
        for question in one.questions:
            assert list(question.evidence) == sorted(set(question.evidence)), question.text
            assert all(0 <= row < len(one.turns) for row in question.evidence), question.text


def test_no_turn_and_no_question_comes_twice_in_a_store(sets: Any) -> None:
    for one in sets.ours():
        assert len({turn.text for turn in one.turns}) == len(one.turns), one.set
        assert len({question.text for question in one.questions}) == len(one.questions), one.set


def test_every_store_of_ours_has_a_name_of_its_own(sets: Any) -> None:
    names = [(one.set, one.id) for one in sets.ours()]
    assert len(set(names)) == len(names)
    assert len({name for name, _ in names}) == 15


def test_a_question_that_the_conversation_does_not_answer_has_no_evidence(sets: Any, tmp_path: Path) -> None:
    said = [{"speaker": "Ann", "dia_id": "D1:1", "text": "I sail.", "blip_caption": "a boat"}]
    asked = [
        {"question": "What does Ann do?", "evidence": ["D1:1"], "category": 4},
        {"question": "What does Bob do?", "evidence": ["D1:1"], "category": 5},
        {"question": "Evidence lost", "evidence": ["D9:9"], "category": 4},
    ]
    conversation = {"session_1": said, "session_1_date_time": "1:56 pm on 8 May, 2023"}
    path = tmp_path / "locomo10.json"
    path.write_text(json.dumps([{"sample_id": "conv-1", "conversation": conversation, "qa": asked}]))
    (one,) = sets.locomo(path)
    assert one.turns == [("Ann", "I sail. [shares a boat]", "session_1", datetime(2023, 5, 8, 13, 56, tzinfo=UTC))]
    assert one.questions == [("What does Ann do?", (0,), "single-hop"), ("What does Bob do?", (), "adversarial")]


def test_groups_of_one_source_are_put_together_and_training_groups_left_out(sets: Any, tmp_path: Path) -> None:
    units = [["User 1", f"turn {number}"] for number in range(250)]
    group = {"src": "sgd", "split": "dev", "units": units, "qas": [["which?", [3], "first"]]}
    path = tmp_path / "groups.jsonl.xz"
    with lzma.open(path, "wt") as out:
        out.writelines(json.dumps(one) + "\n" for one in (group, group | {"split": "train"}, group))
    (one,) = sets.groups(path)
    assert one.set == "tasks"
    assert [question.evidence for question in one.questions] == [(3,), (253,)]
    assert {turn.session for turn in one.turns} == {"0", "1"}
    assert one.turns[0].author == ""
