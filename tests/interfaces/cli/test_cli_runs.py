"""Runs on the command line: listed, drawn, resumed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import recollect
from recollect import Act, Done, Runner, Task
from recollect.interfaces.cli.main import run as run_command

Say = Callable[..., str]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """What a command prints, its code checked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOLLECT_EMBEDDER__PROVIDER", "hash")

    def call(*arguments: str, code: int = 0) -> str:
        ended = run_command(list(arguments))
        shown = capsys.readouterr()
        assert ended == code, shown.err
        return shown.out + shown.err

    return call


@pytest.fixture
def runs(say: Say) -> dict[str, str]:
    """One that ended, with an error on its way, and one that asks."""
    with recollect.open("recollect.db", embedder="hash") as mem:
        mem.agent.add("Bee", id="bee")
        ended = Runner(mem, think, {"fly": fly}).run("collect [honey]", agent="bee").id
        asking = mem.run.start("sting the bear", agent="bee").id
        held = mem.run.claim("w", id=asking, seconds=1e-6)
        mem.run.propose(asking, held.fence, tool="sting", arguments={"whom": "bear"})
        assert mem.run.claim("w2").run is None
    return {"ended": ended, "asking": asking}


def think(task: Task) -> Act | Done:
    return Done({"jars": 1}, "a jar") if len(task.history) == 2 else Act("fly", {"to": len(task.history)})


def fly(to: int) -> str:
    if to:
        raise RuntimeError("too much [wind]")
    return "landed on a rose"


def test_runs_are_listed_with_what_comes_next(say: Say, runs: dict[str, str]) -> None:
    out = say("run", "list")
    assert "collect [honey]" in out
    assert "paused needs an answer" in out
    assert "may have happened" in out
    assert runs["asking"] in out
    assert "2 of 2" in out
    assert runs["ended"] not in say("run", "list", "--status", "paused")


def test_a_timeline_is_drawn(say: Say, runs: dict[str, str]) -> None:
    out = say("run", "show", runs["ended"])
    assert "succeeded  collect [honey]" in out
    assert "1 ●" in out
    assert "landed on a rose" in out
    assert "2 ✗" in out
    assert "too much [wind]" in out
    assert 'result: {"jars": 1}' in out
    assert json.loads(say("run", "show", runs["ended"], "--json"))["timeline"][0]["arguments"] == {"to": 0}


def test_a_run_that_asks_is_settled_and_goes_on(say: Say, runs: dict[str, str]) -> None:
    assert "1 ?" in say("run", "resume", runs["asking"])
    out = say("run", "settle", runs["asking"], "happened", "--output", "swollen=true", "--summary", "the bear ran")
    assert "when a worker claims it: thinks about step 2" in out
    claimed = json.loads(say("run", "claim", "hand", "--json"))
    assert claimed["last"]["output"] == {"swollen": True}
    assert "There is no run to claim." in say("run", "claim", "other")
    fence = str(claimed["fence"])
    say("run", "propose", runs["asking"], fence, "--tool", "rest", "--argument", "minutes=5")
    recorded = json.loads(say("run", "record", runs["asking"], fence, "--output", "rested=true", "--json"))
    assert recorded["number"] == 2
    assert "succeeded" in say("run", "finish", runs["asking"], fence)
    assert "lease on" in say("run", "record", runs["asking"], "99", code=1)


def test_what_was_given_up_and_forked_is_drawn(say: Say, runs: dict[str, str]) -> None:
    fork = json.loads(say("run", "fork", runs["ended"], "--after", "1", "--json"))["id"]
    out = say("run", "rewind", runs["ended"], "1", "--why", "wind")
    assert "abandoned" in out
    assert f"forked as {fork}" in out
    assert "note: wind" in out
    assert f"forked from {runs['ended']} after step 1" in say("run", "show", fork)


def test_what_waits_is_shown_approved_and_rejected(say: Say, runs: dict[str, str]) -> None:
    assert "Nothing waits for approval." in say("run", "waiting")
    run = json.loads(say("run", "start", "wake the bear", "--agent", "bee", "--approve", "tools", "--json"))["id"]
    fence = str(json.loads(say("run", "claim", "hand", "--json"))["fence"])
    say("run", "propose", run, fence, "--tool", "sting", "--argument", "whom=[bear]")
    out = say("run", "waiting")
    assert 'sting(whom="[bear]")' in out
    assert f"recollect run approve {run} --step 1" in out
    assert "waits for approval" in say("run", "show", run)
    assert "waiting" in say("run", "list", "--status", "waiting")
    assert "let it [sleep]" in say("run", "reject", run, "let it [sleep]", "--step", "1")
    assert "was already rejected" in say("run", "approve", run, code=1)
    out = say("cycle", "list", "--agent", "bee")
    assert "let it [sleep]" in out
    assert "4 of 4" in out
    assert "let it [sleep]" in say("cycle", "show", "bee", "3")


def test_a_run_that_is_not_there_is_said_so(say: Say, runs: dict[str, str]) -> None:
    assert "there is no run" in say("run", "show", "nothing", code=1)
