"""Artifacts that name a file of a workspace are looked up; a result says which are missing."""

from __future__ import annotations

from typing import Any

import pytest

from recollect.domain.workspaces import blob_hash
from recollect.services.runs.artifacts import FilePointer, pointer_of


@pytest.mark.parametrize(
    ("artifact", "pointer"),
    [
        ("notes/plan.md", FilePointer("notes/plan.md")),
        ("報告.md", FilePointer("報告.md")),
        ("workspace:w1/notes/plan.md", FilePointer("notes/plan.md", "w1")),
        ({"path": "a.md", "version": 2}, FilePointer("a.md", None, 2)),
        ({"path": "a.md", "workspace": "w1", "hash": "b1:77"}, FilePointer("a.md", "w1", None, "b1:77")),
        ({"hash": "b1:77"}, FilePointer(None, hash="b1:77")),
        ("https://example.com/a.md", None),
        ("ticket 17", None),
        ({"hash": "77"}, None),
        ({"path": 7}, None),
        ({"path": "a.md", "hash": [7]}, FilePointer("a.md", hash="[7]")),
        (7, None),
        (None, None),
    ],
)
def test_what_an_artifact_names(artifact: object, pointer: FilePointer | None) -> None:
    assert pointer_of(artifact, has_workspace=True) == pointer


def test_without_a_workspace_a_text_is_not_taken_for_a_path() -> None:
    assert pointer_of("notes/plan.md", has_workspace=False) is None
    assert pointer_of({"path": "a.md"}, has_workspace=False) is None
    assert pointer_of({"path": "a.md", "workspace": "w1"}, has_workspace=False) == FilePointer("a.md", "w1")


def test_a_result_says_which_artifacts_are_missing(every: Any) -> None:
    every.agent.add("Bee", id="bee")
    run = every.run.start("write", agent="bee").id
    fence = every.run.claim("w").fence
    every.run.propose(run, fence, tool="write")
    assert every.run.record(run, fence, artifacts=["notes.md", "a/b"]).missing_artifacts == []  # there is no workspace

    desk = every.workspace.add("bee").id
    other = every.workspace.add(every.agent.add("Other").id).id
    every.workspace.write(desk, "notes.md", "one")
    every.workspace.write(desk, "notes.md", "two")
    every.workspace.write(other, "theirs.md", "three")
    content = blob_hash(b"two")
    there = [
        "notes.md", f"workspace:{desk}/notes.md", f"workspace:{other}/theirs.md", {"path": "notes.md", "version": 2},
        {"path": "notes.md", "hash": content}, {"path": "notes.md", "hash": content.removeprefix("b1:")},
        {"hash": content}, {"path": "theirs.md", "workspace": other}, "https://example.com/x", "42", {"rows": 3},
    ]  # fmt: skip
    gone = [
        "lost.md", "theirs.md", {"path": "notes.md", "version": 7}, {"path": "notes.md", "hash": "b1:77"},
        {"hash": "b1:77"}, {"path": "notes.md", "workspace": "no such workspace"},
    ]  # fmt: skip
    every.run.propose(run, fence, tool="write")
    recorded = every.run.record(run, fence, artifacts=[*there, *gone], number=2)
    assert recorded.missing_artifacts == gone
    again = every.run.record(run, fence, artifacts=[*there, *gone], number=2)
    assert (again.duplicate, again.missing_artifacts) == (True, gone)
    shown = every.run.show(run).timeline[1]
    assert (shown.artifacts, shown.missing_artifacts) == ([*there, *gone], gone)
