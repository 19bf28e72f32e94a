"""Episodes become patterns, patterns are put to use and judged by what comes of it."""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.domain.learning import PatternUse
from recollect.errors import Conflict, IllegalTransition, ModelFailed, VersionConflict
from recollect.ports.query import Query
from recollect.ports.steps import Update
from recollect.services.learning.episodes import RecordEpisodeRequest
from recollect.services.memories.draft import RememberRequest
from recollect.testing.fakes import ScriptedModel

ALICE = recollect.cite.user("alice", "was there")
FAMILIES = {
    "rename": ("Rename column {a} to {b} in {a}.csv", ["Open {a}.csv", "Rename {a} to {b}", "Run the tests"]),
    "upgrade": ("Upgrade the dependency {a} to version {n}", ["Change {a} in pyproject.toml", "Install version {n}"]),
    "login": ("Fix the 401 error of login for {a}", ["Read the log of {a}", "Renew the token", "Sign in as {a}"]),
    "deploy": ("Deploy the service {a} to {b}", ["Build the image of {a}", "Push it to {b}", "Restart {a}"]),
    "restore": ("Restore the database {a} from the backup", ["Stop the writers of {a}", "Load the dump into {a}"]),
    "report": ("Send the weekly report about {a} to {b}", ["Collect the figures of {a}", "Mail them to {b}"]),
    "speed": ("Find out why the query on {a} is slow", ["Explain the query on {a}", "Add an index", "Measure again"]),
    "docs": ("Write the documentation page of {a}", ["Read the code of {a}", "Write an example", "Run it"]),
}
WORDS = "alpha beta gamma delta omega sigma kappa price cost title amount orders books stock users billing cart".split()


def paint(mem: Any, *colours: str, success: bool = True, **fields: Any) -> list[str]:
    return [
        mem.episode.record(
            f"paint the wall {colour}", success, action_plan=["wash the wall", f"put {colour} on the wall"], **fields
        ).id
        for colour in colours
    ]


def learned(mem: Any, **fields: Any) -> str:
    paint(mem, "red", "blue", "green", **fields)
    (id,) = mem.pattern.learn().founded
    return str(id)


def tried(mem: Any, pattern: str, *outcomes: bool) -> Any:
    for success in outcomes:
        last = mem.pattern.report(mem.pattern.apply(pattern, "paint the wall pink").application, success)
    return last


def test_an_episode_takes_the_fields_that_memories_have_in_common(mem: Any) -> None:
    first = mem.episode.record("look at the roof", True).id
    id = mem.episode.record(
        "mend the roof", True, confidence=0.9, scope="project", priority=8, importance=2.5, author="ann", level="day",
        namespaces=["long_term", "roofs"], valid_to="2999-01-01", ttl_seconds=3600, derived_from=[first],
        relates={first: "follows"}, source_agent="roofer",
    ).id  # fmt: skip
    shown = mem.show(id)
    fields = shown.fields
    assert (fields["confidence"], fields["scope"], fields["priority"], fields["importance"]) == (0.9, "project", 8, 2.5)
    assert (fields["author"], fields["level"], fields["source_agent"]) == ("ann", "day", "roofer")
    assert sorted(fields["namespaces"]) == ["long_term", "roofs"]
    assert fields["expires_at"] is not None
    assert {link.type for link in shown.links} == {"derived_from", "follows"}
    own = set(RecordEpisodeRequest.model_fields) - {"task", "success", "action_plan", "action_output", "critique"}
    for_importers = {"vector", "vector_model", "created_at", "score"}
    assert set(RememberRequest.model_fields) - own - for_importers == {"content", "kind", "on_duplicate"}


def test_an_episode_carries_every_field(mem: Any) -> None:
    id = mem.episode.record(
        "mend the roof", False, action_plan=["climb", "nail"], action_output="it leaks", critique="too few nails",
        initial_state_snapshot="hole of 2 m", tags=["roof"], cites=[ALICE],
    ).id  # fmt: skip
    shown = mem.show(id)
    assert shown.fields["content"] == {
        "task_description": "mend the roof", "success": False, "action_plan": "climb\nnail",
        "action_output": "it leaks", "critique": "too few nails", "initial_state_snapshot": "hole of 2 m",
    }  # fmt: skip
    assert (shown.kind, shown.tags, shown.citations[0].source) == ("episode", ["roof"], "user:alice")
    assert mem.promote(id).status == "verified"


def run_of(mem: Any, status: Any = "succeeded") -> str:
    """A run with a step that failed, one that was given up, and one that worked."""
    mem.agent.add("Worker", id="worker")
    run = mem.run.start("sweep the hall", agent="worker").id
    fence = mem.run.claim("w", id=run).fence

    def step(speed: int, **said: Any) -> None:
        arguments = {"room": "hall", "speed": speed}
        mem.run.propose(run, fence, tool="sweep", arguments=arguments, snapshot={"dust": 3})
        mem.run.record(run, fence, **said)

    step(0, outcome="error", error={"message": "no broom"})
    step(7, summary="a mistake")
    mem.run.release(run, fence)
    mem.run.rewind(run, 1)
    mem.run.resume(run)
    fence = mem.run.claim("w", id=run).fence
    step(1, summary="clean")
    if status == "succeeded":
        mem.run.finish(run, fence)
    return str(run)


def test_a_run_becomes_one_episode_that_cites_it(mem: Any) -> None:
    run = run_of(mem)
    first = mem.episode.from_run(run, tags=["cleaning"])
    again = mem.episode.from_run(run, tags=["cleaning"])
    assert (again.id, again.duplicate) == (first.id, True)
    shown = mem.show(first.id)
    assert shown.fields["content"]["action_plan"] == "sweep room=hall, speed=0\nsweep room=hall, speed=1"
    assert shown.fields["content"]["action_output"] == "no broom\nclean"
    assert shown.fields["content"]["success"] is True
    assert shown.citations[0].source == f"log:{run}"
    assert mem.promote(first.id).status == "verified"


def test_a_run_that_goes_on_is_no_episode_yet(mem: Any) -> None:
    run = run_of(mem, "running")
    with pytest.raises(Conflict, match="running"):
        mem.episode.from_run(run)
    assert mem.show(mem.episode.from_run(run, success=False).id).fields["content"]["success"] is False


def test_200_episodes_of_8_families_become_8_pure_patterns(mem: Any) -> None:
    chance, family = random.Random(5), {}
    for number in range(200):
        name = list(FAMILIES)[number % 8]
        task, steps = FAMILIES[name]
        values = {"a": f"{chance.choice(WORDS)}{number}", "b": chance.choice(WORDS), "n": f"{number % 7}.{number % 5}"}
        plan = [step.format(**values) for step in steps]
        family[mem.episode.record(task.format(**values), chance.random() < 0.8, action_plan=plan).id] = name
    report = mem.pattern.learn()
    shown = [mem.pattern.show(id) for id in report.founded]
    commonest = [Counter(family[one.id] for one in view.episodes).most_common(1)[0][1] for view in shown]
    purity = sum(commonest) / sum(len(view.episodes) for view in shown)
    assert (len(shown), purity, report.left) == (8, 1.0, 0)
    assert all(family[one.id] == family[view.episodes[0].id] for view in shown for one in view.counter_examples)
    assert sum(len(view.counter_examples) for view in shown) == report.counter_examples > 20


def test_learning_twice_changes_nothing_and_new_episodes_join(mem: Any) -> None:
    id = learned(mem)
    before = mem.show(id)
    again = mem.pattern.learn()
    assert (again.episodes, again.founded, again.grown) == (0, [], [])
    assert mem.show(id) == before
    paint(mem, "white")
    paint(mem, "grey", success=False)
    grown = mem.pattern.learn()
    assert (grown.founded, grown.grown, grown.counter_examples, grown.left) == ([], [id], 1, 0)
    view = mem.pattern.show(id)
    assert (len(view.episodes), len(view.counter_examples), view.rate.successes, view.rate.failures) == (4, 1, 4, 1)


def test_two_successes_are_too_few_and_a_stranger_stays_alone(mem: Any) -> None:
    paint(mem, "red", "blue")
    mem.episode.record("sing a song about whales", True)
    report = mem.pattern.learn()
    assert (report.founded, report.left) == ([], 3)


def test_episodes_of_different_users_are_not_mixed_unless_asked(mem: Any) -> None:
    for name in ("ann", "bob"):
        mem.user.add(name, id=name)
        paint(mem, *(["red", "blue"] if name == "ann" else ["green"]), user=name)
    assert mem.pattern.learn().founded == []
    (id,) = mem.pattern.learn(across_users=True).founded
    assert "user_id" not in mem.show(id).fields


def test_a_trusted_pattern_keeps_its_wording_and_counts_what_joins(mem: Any) -> None:
    id = learned(mem, cites=[ALICE])
    mem.cite(id, [ALICE])
    with pytest.raises(IllegalTransition, match="3 of the 3"):
        mem.promote(id)
    for episode in mem.pattern.show(id).episodes:
        mem.promote(episode.id)
    assert mem.promote(id).status == "verified"
    before = mem.show(id).text
    paint(mem, "white")
    assert mem.pattern.learn().grown == [id]
    assert (mem.show(id).text, mem.show(id).status, mem.pattern.show(id).rate.successes) == (before, "verified", 4)
    mem.demote(mem.pattern.show(id).episodes[0].id)
    assert mem.show(id).status == "hypothesis"
    assert "rests on" in mem.history(id).entries[-2].why


def test_a_pattern_is_suggested_filled_in_and_judged(mem: Any) -> None:
    id = learned(mem)
    best = mem.pattern.suggest("paint the wall yellow")[0]
    assert (best.id, best.rate.successes) == (id, 3)
    assert best.score == pytest.approx(best.match * best.rate.low, abs=1e-3)
    used = mem.pattern.apply(id, "paint the wall yellow")
    assert used.text == "1. wash the wall\n2. put yellow on the wall"
    assert used.missing == []
    assert mem.pattern.apply(id).missing == ["1"]
    first = mem.pattern.report(used.application, True)
    again = mem.pattern.report(used.application, True)
    assert (first.rate.successes, again.rate.successes, again.repeated) == (4, 4, True)
    with pytest.raises(Conflict, match="reported as a success"):
        mem.pattern.report(used.application, False)
    assert mem.pattern.show(id).usage_count == 2


def test_the_same_key_applies_once(mem: Any) -> None:
    id = learned(mem)
    one = mem.pattern.apply(id, "paint the wall pink", idempotency_key="k")
    two = mem.pattern.apply(id, "paint the wall pink", idempotency_key="k")
    assert one.application == two.application
    with pytest.raises(Conflict, match="another application"):
        mem.pattern.apply(id, "paint the wall black", idempotency_key="k")


def test_what_is_proven_ranks_above_what_only_fits(mem: Any) -> None:
    content = {"problem_space": "paint the wall {1}", "solution_template": "paint it {1}"}
    weak = mem.remember({**content, "text": "roller"}, kind="pattern").id
    strong = mem.remember({**content, "text": "sprayer"}, kind="pattern").id
    tried(mem, weak, True, True, True)
    tried(mem, strong, *[True] * 9, False)
    untried = mem.remember({**content, "text": "brush"}, kind="pattern").id
    found = mem.pattern.suggest("paint the wall red")
    assert [one.id for one in found.suggestions] == [strong, weak]
    assert found.notes == ["1 left out: tried fewer than 3 times"]
    assert untried in [one.id for one in mem.pattern.suggest("paint the wall red", min_evidence=0).suggestions]
    assert mem.pattern.suggest("paint the wall red", purpose="act").suggestions == []
    assert mem.pattern.suggest("cook some soup").suggestions == []


def test_counts_that_nobody_observed_are_shown_as_stated_and_move_nothing(mem: Any) -> None:
    content = {"problem_space": "paint the wall {1}", "solution_template": "paint it {1}"}
    boasts = mem.remember({**content, "usage_count": 80, "success_rate": 0.9}, kind="pattern").id
    counts = mem.remember({**content, "usage_count": 8, "success_count": 8}, kind="pattern").id
    modest = mem.remember({**content, "text": "brush"}, kind="pattern").id
    rate = mem.pattern.show(boasts).rate
    assert (rate.successes, rate.failures, rate.stated, rate.stated_uses) == (0, 0, 0.9, 80)
    assert str(rate) == "50% (5% to 95%; 0 of 0 worked; 90% stated of 80)"
    assert (mem.pattern.show(counts).rate.stated, mem.pattern.show(modest).rate.stated) == (1.0, None)
    assert not mem.pattern.show(boasts).offered
    assert mem.pattern.suggest("paint the wall red").notes == ["3 left out: tried fewer than 3 times"]
    tried(mem, modest, True, True, True)
    tried(mem, boasts, True, True, False)
    found = mem.pattern.suggest("paint the wall red").suggestions
    assert [one.id for one in found] == [modest, boasts]
    assert tried(mem, boasts, *[False] * 7).status == "archived"  # what is stated does not save it


def test_a_pattern_that_fails_loses_its_trust_then_its_place(mem: Any) -> None:
    content = {"problem_space": "paint the wall {1}", "solution_template": "paint it {1}"}
    id = mem.remember(content, kind="pattern", cites=[ALICE]).id
    mem.promote(id)
    assert tried(mem, id, False, False).status == "verified"
    assert tried(mem, id, False).consequence == "it is now hypothesis"
    assert tried(mem, id, False).status == "archived"
    assert mem.pattern.suggest("paint the wall red").suggestions == []
    assert "0 of 4 uses worked" in mem.history(id).entries[-2].why
    told = mem.log(memory=id, action="pattern.report").entries
    assert {"demoted", "archived"} <= {entry.request.get("change") for entry in told}
    with pytest.raises(Conflict, match="is archived"):
        mem.pattern.apply(id)


def test_a_query_pattern_falls_out_when_the_tables_change(mem: Any) -> None:
    content: dict[str, Any] = {
        "question": "orders per month?",
        "sql": "SELECT month, count(*) FROM orders GROUP BY month",
    }
    content |= {"schema_fingerprint": "v1"}
    id = mem.remember(content, kind="query_pattern").id
    tried(mem, id, True, True, True)
    asked = {"task": "how many orders per month?", "kind": "query_pattern"}
    assert mem.pattern.suggest(**asked, schema_fingerprint="v1")[0].id == id
    drifted = mem.pattern.suggest(**asked, schema_fingerprint="v2")
    assert (len(drifted), drifted.notes) == (0, ["1 left out: made for tables that have changed since"])
    assert mem.pattern.apply(id, schema_fingerprint="v1").text == content["sql"]
    with pytest.raises(Conflict, match="changed"):
        mem.pattern.apply(id, schema_fingerprint="v2")


def test_a_report_that_others_keep_overtaking_pauses_and_gives_up(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    use, pauses = mem.pattern.apply(learned(mem), "paint the wall pink").application, list[float]()
    store = mem._core.store
    transact = store.transact

    def overtaken(scope: Any, steps: Any) -> Any:
        record = store.get(scope, PatternUse, use)
        transact(scope, [Update(record.changed(note=f"{len(pauses)}"))])
        return transact(scope, steps)

    monkeypatch.setattr(store, "transact", overtaken)
    monkeypatch.setattr("recollect.retry.time.sleep", pauses.append)
    with pytest.raises(VersionConflict):
        mem.pattern.report(use, True)
    assert len(pauses) > 10
    monkeypatch.setattr(store, "transact", transact)
    assert mem.pattern.report(use, True).rate.successes == 4


def test_reports_at_once_all_count(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "a.db", embedder="hash") as mem:
        id = learned(mem)
        uses = [mem.pattern.apply(id, "paint the wall pink").application for _ in range(24)]
        others = [recollect.open(tmp_path / "a.db", embedder="hash") for _ in range(3)]

        def report(number: int) -> None:
            for use in (*uses[number::3], uses[0]):  # the first one by everybody
                others[number].pattern.report(use, True)

        threads = [threading.Thread(target=report, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for other in others:
            other.close()
        assert mem.pattern.show(id).rate.successes == 3 + 24
        assert mem.verify().sound


def test_learners_at_once_found_each_pattern_once(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "a.db", embedder="hash") as mem:
        paint(mem, "red", "blue", "green")
        barrier, reports = threading.Barrier(3), []

        def learn() -> None:
            barrier.wait()
            reports.append(mem.pattern.learn())

        threads = [threading.Thread(target=learn) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(len(report.founded) for report in reports) == 1
        assert mem.list(kinds=["pattern"]).total == 1


def test_rolling_back_a_source_quarantines_its_patterns(mem: Any) -> None:
    id = learned(mem, cites=[ALICE])
    assert mem.roll_back("user:alice").derived == [id]
    assert mem.show(id).status == "archived"
    assert mem.pattern.suggest("paint the wall red").suggestions == []


def test_erasing_an_episode_leaves_no_word_of_it_in_a_pattern(mem: Any) -> None:
    keep = paint(mem, "red", "blue")
    secret = mem.episode.record("paint the wall xyzzy", True, action_plan=["wash the wall", "put xyzzy on the wall"]).id
    (id,) = mem.pattern.learn().founded
    for word in ("xyzzy", "sand", "xyzzy"):  # now, and in its history
        mem.revise(id, {"problem_space": word, "solution_template": word, "generalized_from": [*keep, secret]})
    mem.erase(secret)
    view = mem.pattern.show(id)
    assert "xyzzy" not in view.problem + view.template + str(mem.history(id))
    assert [one.id for one in view.episodes] == sorted(keep)
    for episode in keep:
        mem.erase(episode)
    assert mem.list(kinds=["pattern"]).total == 0
    assert mem.verify().sound


WORDED = {"problem_space": "Painting a wall {colour}", "solution_template": "1. Wash it\n2. Paint it {colour}"}


def test_a_language_model_words_the_pattern_and_its_cost_is_recorded(tmp_path: Path) -> None:
    model = ScriptedModel(WORDED)
    with recollect.open(tmp_path / "a.db", embedder="hash", language_model=model) as mem:
        id = learned(mem)
        view = mem.pattern.show(id)
        assert (view.problem, view.template, view.slots) == (*WORDED.values(), ["colour"])
        metadata = mem.show(id).fields["metadata"]
        assert metadata["made_by"] == view.made_by == "scripted"
        assert metadata["usage"]["prompt_tokens"] > 20
        assert "put blue on the wall" in model.asked[0].material
        mem.pattern.learn()
        assert len(model.asked) == 1


@pytest.mark.parametrize(
    ("line", "note"),
    [
        (ModelFailed("The model is away."), "written without the language model: The model is away."),
        ({"problem_space": " ", "solution_template": "x"}, "was not used: a text is empty"),
        ({"nonsense": True}, "does not fit"),
    ],
)
def test_without_its_language_model_learning_goes_on(tmp_path: Path, line: Any, note: str) -> None:
    with recollect.open(tmp_path / "a.db", embedder="hash", language_model=ScriptedModel(line)) as mem:
        paint(mem, "red", "blue", "green")
        report = mem.pattern.learn()
        view = mem.pattern.show(report.founded[0])
        assert (view.problem, view.made_by) == ("paint the wall {1}", "extract")
        assert note in report.notes[0]


def test_other_tenants_do_not_see_learn_or_report(mem: Any) -> None:
    id = learned(mem)
    use = mem.pattern.apply(id).application
    other = mem.within("other")
    assert other.pattern.learn().episodes == 0
    assert other.pattern.suggest("paint the wall red").suggestions == []
    for call in (lambda: other.pattern.show(id), lambda: other.pattern.report(use, True)):
        with pytest.raises(recollect.errors.NotFound):
            call()
    assert mem._core.store.count(mem._scope, Query(PatternUse)) == 1


def test_very_long_tasks_are_learned_from_too(mem: Any) -> None:
    for number in range(4):
        mem.episode.record("mend the roof " + "very long " * 300 + str(number), True, action_plan=["nail " * 2100])
    mem.pattern.learn(min_episodes=2)
    (pattern,) = mem.list(kinds=["pattern"]).memories
    content = mem.show(pattern.id).fields["content"]
    assert len(content["problem_space"]) <= 2000
    assert content["problem_space"].endswith("…")
