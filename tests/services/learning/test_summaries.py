"""Conversations roll up into summaries that stay true to what they cover."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recollect
from recollect.domain.conversations import Message
from recollect.domain.memory import Memory
from recollect.domain.text.extractive import extract, sentences
from recollect.errors import InvalidInput, ModelFailed
from recollect.ports.steps import Insert
from recollect.testing.fakes import ScriptedModel

TURNS = [
    ("Ann", "Hello Bob!"),
    ("Ann", "We decided to fly to Lisbon on 3 May."),
    ("Bob", "How is the weather?"),
    ("Bob", "The hotel costs 420 euros and I will book it."),
    ("Ann", "I am allergic to peanuts."),
]


def talk(mem: Any, session: str = "s", day: str = "2024-05-08", turns: Any = TURNS, **fields: Any) -> list[str]:
    """A session that is over, with these turns."""
    mem.session.add(session, id=session, **fields)
    owners = {name: fields[name] for name in fields if name in ("user", "project")}
    ids = [
        mem.remember(text, kind="conversation", author=by, session=session, at=f"{day}T10:{minute:02}:00Z", **owners).id
        for minute, (by, text) in enumerate(turns)
    ]
    mem.session.end(session)
    return ids


def levels(mem: Any, **fields: Any) -> list[str]:
    return [line.level for line in mem.summary.tree(depth=9, **fields).lines if line.kind == "summary"]


def test_a_session_rolls_up_through_every_level(mem: Any) -> None:
    mem.project.add("Trip", id="trip")
    ids = talk(mem, project="trip")
    talk(mem, "later", "2024-05-09", project="trip")
    report = mem.summary.roll_up()
    assert report.written == {"stretch": 2, "project": 1}  # the only one of a session and a day stands for these, too
    assert levels(mem) == ["project", "day", "day"]
    (stretch,) = [line for line in mem.summary.tree(session="s", depth=1).lines if line.level == "day"]
    view = mem.summary.show(stretch.id)
    assert [part.id for part in view.parts] == ids
    assert (view.stale, view.made_by, len(view.above)) == (False, "extract", 1)
    assert "Ann: We decided to fly to Lisbon on 3 May." in view.text
    assert {
        link.id for link in mem.show(stretch.id).links if link.type == "summarizes" and link.direction == "to"
    } == set(ids)


def test_a_list_leaves_out_what_was_rolled_up_when_asked_to(mem: Any) -> None:
    ids = talk(mem)
    own = mem.remember("In short: Lisbon, and no peanuts", kind="summary").id
    mem.summary.roll_up()
    assert mem.list().total == len(ids) + 1 + 1
    assert {line.id for line in mem.list(rolled_up=False).memories} == {*ids, own}
    assert mem.list(rolled_up=False, kinds=["summary"]).total == 2


def test_rolling_up_twice_changes_nothing(mem: Any) -> None:
    talk(mem)
    mem.summary.roll_up()
    first = mem.list(kinds=["summary"]).memories
    again = mem.summary.roll_up()
    assert (again.written, again.dropped) == ({}, 0)
    assert mem.list(kinds=["summary"]).memories == first


def test_a_long_session_is_cut_into_stretches_and_an_open_one_waits(mem: Any) -> None:
    mem.session.add("long", id="long")
    said = [{"content": f"Point {n} costs {n} euros.", "kind": "conversation", "session": "long"} for n in range(45)]
    ids = [receipt.id for receipt in mem.remember_many(said).receipts]
    assert mem.summary.roll_up().written == {"stretch": 2}
    assert mem.summary.roll_up().written == {}
    mem.session.end("long")
    assert mem.summary.roll_up().written == {"stretch": 1, "session": 1}
    tops = [line.id for line in mem.summary.tree(session="long", depth=9).lines if line.level == "stretch"]
    covered = [part.id for id in tops for part in mem.summary.show(id).parts]
    assert covered == ids


def test_more_on_the_same_day_writes_the_day_again(mem: Any) -> None:
    talk(mem)
    mem.summary.roll_up()
    talk(mem, "again", turns=[("Bob", "The flight is at 7 in the morning.")])
    report = mem.summary.roll_up()
    assert (report.written, report.dropped) == ({"stretch": 1, "day": 1}, 0)
    talk(mem, "once more", turns=[("Bob", "The hotel has a garden.")])
    report = mem.summary.roll_up()
    assert (report.written, report.dropped) == ({"stretch": 1, "day": 1}, 1)


def test_no_summary_says_what_another_says_and_every_level_is_found(mem: Any) -> None:
    mem.project.add("Trip", id="trip")
    talk(mem, "a", "2024-05-08", project="trip")
    talk(mem, "b", "2024-05-09", [("Ann", f"Number {n} of the list is worth {n * 7} euros.") for n in range(30)])
    talk(mem, "c", "2024-05-10", [("Bob", "The train leaves at 8.")], project="trip")
    talk(mem, "d", "2024-05-10", [("Bob", "Our bags weigh 19 kilos.")], project="trip")
    written = mem.summary.roll_up().written
    assert written == {"stretch": 5, "session": 1, "day": 1, "project": 1}
    texts = [line.text for line in mem.list(kinds=["summary"], limit=100).memories]
    assert len(texts) == len(set(texts)) == sum(written.values())
    found = {level: mem.list(levels=[level], limit=100).total for level in ("stretch", "session", "day", "project")}
    assert found == {"stretch": 5, "session": 4, "day": 3, "project": 1}
    for session in "abcd":
        assert len(mem.list(levels=["session"], session=session).memories) == 1
    assert mem.summary.roll_up().written == {}


def test_a_summary_that_gets_company_no_longer_stands_for_the_level_above(mem: Any) -> None:
    talk(mem)
    mem.summary.roll_up()
    (alone,) = mem.list(levels=["day"]).memories
    assert mem.show(alone.id).version == 1  # what it says did not change
    talk(mem, "again", turns=[("Bob", "The flight is at 7 in the morning.")])
    mem.summary.roll_up()
    (day,) = mem.list(levels=["day"]).memories
    assert day.id != alone.id
    assert alone.id in [part.id for part in mem.summary.show(day.id).parts]


def test_what_changes_makes_its_summaries_stale_and_they_are_written_again(mem: Any) -> None:
    ids = talk(mem)
    mem.summary.roll_up()
    mem.revise(ids[1], {"text": "We decided to fly to Porto on 9 June."})
    (stretch,) = [line for line in mem.summary.tree(session="s", depth=9).lines if line.kind == "summary"]
    assert stretch.stale
    assert "Lisbon" in mem.summary.show(stretch.id).text
    report = mem.summary.roll_up()
    assert (report.written, report.dropped) == ({"stretch": 1}, 1)
    texts = [line.text for line in mem.summary.tree(depth=9).lines if line.kind == "summary"]
    assert all("Porto" in text and "Lisbon" not in text for text in texts)


@pytest.mark.parametrize("letting_go", ["forget", "erase"])
def test_what_is_let_go_of_stays_in_no_summary(mem: Any, letting_go: str) -> None:
    ids = talk(mem)
    mem.summary.roll_up()
    assert mem.recall("peanuts", kinds=["summary"]).hits
    mem.call(letting_go, id=ids[4])
    assert mem.list(kinds=["summary"]).total == 0
    assert mem.summary.roll_up().written == {"stretch": 1}
    assert not any("peanuts" in hit.text for hit in mem.recall("peanuts", kinds=["summary"]))
    assert mem.verify().sound


def test_erased_words_are_in_no_byte_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with recollect.open(path, embedder="hash") as mem:
        ids = talk(mem, turns=[*TURNS, ("Ann", "The password is xyzzyplugh9000.")])
        mem.summary.roll_up()
        assert any("xyzzyplugh9000" in hit.text for hit in mem.recall("password", kinds=["summary"]))
        mem.erase(ids[-1])
        mem.summary.roll_up()
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"xyzzyplugh9000" not in file.read_bytes(), file.name


def test_expiry_and_removal_take_the_copies_along(mem: Any) -> None:
    mem.user.add("Ann", id="ann")
    talk(mem, user="ann")
    mem.summary.roll_up()
    mine = {"organization_id": mem.organization}
    mem.session.add("m", id="m")
    message = Message(session_id="m", user_id="ann", role="user", text="My number is 5550100.", **mine)
    mem._core.store.transact(mem._scope, [Insert(message)])
    made = mem.summary.make("m")
    assert (made.covers, "5550100" in made.text) == ([message.id], True)
    assert mem.show(made.id).citations[0].source == f"log:{message.id}"
    mem.user.remove("ann", for_good=True)
    assert mem.list(kinds=["summary"]).total == 0


def test_undoing_takes_the_summary_and_those_above_and_nothing_else(mem: Any) -> None:
    ids = talk(mem)
    talk(mem, "again", turns=[("Bob", "The flight is at 7 in the morning.")])
    mem.summary.roll_up()
    before = {id: mem.show(id).version for id in ids}
    stretch, other = (mem.list(levels=["stretch"], session=session).memories[0].id for session in ("s", "again"))
    undone = mem.summary.undo(stretch)
    assert (undone.covers, len(undone.also)) == (ids, 1)
    mem.summary.undo(other)
    assert mem.list(kinds=["summary"]).total == 0
    assert {id: mem.show(id).version for id in ids} == before
    with pytest.raises(InvalidInput, match="not a summary"):
        mem.summary.undo(ids[0])


def test_a_stretch_by_hand_is_made_once(mem: Any) -> None:
    ids = talk(mem)
    one = mem.summary.make(session="s", since="2024-05-08T10:01:00Z", until="2024-05-08T10:04:00Z")
    assert (one.covers, one.existing) == (ids[1:4], False)
    assert mem.summary.make(session="s", since="2024-05-08T10:01:00Z", until="2024-05-08T10:04:00Z").id == one.id
    assert mem.summary.make(ids=[ids[0], ids[4]]).covers == [ids[0], ids[4]]
    for wrong in ({}, {"session": "s", "ids": ids}, {"session": "s", "until": "2020-01-01"}):
        with pytest.raises(InvalidInput):
            mem.summary.make(**wrong)


def test_two_users_words_belong_to_neither(mem: Any) -> None:
    for name in ("ann", "bob"):
        mem.user.add(name, id=name)
    mem.session.add("both", id="both", user="ann")
    for user in ("ann", "bob"):
        mem.remember(f"{user} has 3 cats", kind="conversation", session="both", user=user)
    mem.session.end("both")
    mem.summary.roll_up()
    assert mem.recall("cats", user="ann", kinds=["summary"]).hits == []
    assert mem.recall("cats", kinds=["summary"]).hits


def test_recall_is_the_same_with_and_without_summaries(mem: Any) -> None:
    talk(mem)
    before = mem.recall("what does the hotel cost?")
    mem.summary.roll_up()
    assert mem.recall("what does the hotel cost?").hits == before.hits
    summary = mem.recall("what does the hotel cost?", kinds=["summary"])[0]
    reasons = mem.why_not("what does the hotel cost?", summary.id).reasons
    assert reasons == ["it is a summary of others: ask for kinds=['summary']"]
    packed = mem.context("what does the hotel cost?", summaries=True, tokens=2000, min_match=0)
    assert packed.used[0] in {hit.id for hit in mem.recall("what does the hotel cost?", kinds=["summary"])}
    assert {hit.id for hit in before.hits} <= set(packed.used)
    assert mem.recall("hotel", levels=["day"]).hits


def test_rolling_back_a_source_quarantines_its_summaries(mem: Any) -> None:
    mem.session.add("s", id="s")
    bad = mem.remember("Buy shares of X at 9.", session="s", cites=[recollect.cite.user("mallory", "hm")]).id
    good = mem.remember("It rains in Rome on 5 May.", session="s").id
    mem.session.end("s")
    mem.summary.roll_up()
    assert len(mem.roll_back("user:mallory").derived) == 1
    assert mem.recall("shares", kinds=["summary"]).hits == []
    mem.summary.roll_up()
    (stretch,) = mem.list(kinds=["summary"], levels=["stretch"]).memories
    assert [part.id for part in mem.summary.show(stretch.id).parts] == [good]
    assert bad != good


def test_a_summary_is_trusted_no_further_than_what_it_covers(mem: Any) -> None:
    ids = talk(mem)
    made = mem.summary.make(session="s").id
    mem.cite(made, [recollect.cite.user("ann", "read it")])
    with pytest.raises(recollect.errors.IllegalTransition, match="5 of the 5"):
        mem.promote(made)
    for id in ids:
        mem.cite(id, [recollect.cite.user("ann", "said it")])
        mem.promote(id)
    assert mem.promote(made).status == "verified"
    mem.archive(ids[0])
    assert mem.show(made).status == "hypothesis"


def test_a_language_model_writes_and_its_cost_is_recorded(tmp_path: Path) -> None:
    model = ScriptedModel({"summary": "Ann and Bob fly to Lisbon on 3 May; the hotel costs 420 euros."})
    with recollect.open(tmp_path / "a.db", embedder="hash", language_model=model) as mem:
        talk(mem)
        view = mem.summary.show(mem.summary.make("s").id)
        assert view.text.startswith("Ann and Bob fly")
        assert (view.made_by, view.usage["model"], view.usage["milliseconds"]) == ("scripted", "scripted", 1)
        assert "Bob: The hotel costs 420 euros" in model.asked[0].material


@pytest.mark.parametrize(
    ("line", "note"),
    [
        (ModelFailed("The model is away."), "without the language model"),
        ({"summary": "They fly on 3\x00 May."}, "does not fit"),
        ({"summary": "They fly on 4 May."}, "1 numbers that are not in what it read"),
        ({"summary": "word " * 400}, "400 words instead of at most 80"),
    ],
)
def test_a_model_that_fails_or_makes_things_up_is_not_used(tmp_path: Path, line: Any, note: str) -> None:
    with recollect.open(tmp_path / "a.db", embedder="hash", language_model=ScriptedModel(line)) as mem:
        talk(mem)
        made = mem.summary.make("s")
        assert note in made.notes[0]
        assert "We decided to fly to Lisbon on 3 May." in made.text


def test_a_summary_of_a_session_with_messages_is_the_sessions(mem: Any) -> None:
    mem.session.add("talk", id="talk")
    mem.message.add("user", "We leave on 3 May.", session="talk")
    mem.remember("The hotel costs 420 euros.", session="talk")
    made = mem.summary.make(session="talk")
    assert [line.id for line in mem.summary.tree(session="talk", depth=1).lines][:1] == [made.id]
    mem.session.remove("talk", for_good=True)
    assert mem.list(kinds=["summary"]).memories == []


def test_what_is_erased_while_it_is_summed_up_is_in_no_summary(each: Any, meanwhile: Any) -> None:
    each.session.add("s", id="s")
    message = each.message.add("user", "The code is 4711.", session="s").id
    meanwhile(each, "transact", Message, lambda: each.summary.make(session="s"))
    each.message.remove(message)
    assert each.list(kinds=["summary"]).memories == []
    memory = each.remember("The code is 4712.", session="s").id
    meanwhile(each, "transact", Memory, lambda: each.summary.roll_up(include_open=True))
    each.erase(memory)
    assert each.list(kinds=["summary"]).memories == []


def test_what_is_said_while_messages_are_cleared_stays(each: Any, meanwhile: Any) -> None:
    each.session.add("s", id="s")
    each.message.add("user", "old", session="s")
    meanwhile(each, "transact", Message, lambda: each.message.add("user", "new", session="s"))
    assert each.message.clear(session="s").removed == 1
    assert [one.text for one in each.message.list(session="s").messages] == ["new"]


def test_summaries_go_with_all_that_was_said_in_a_session_that_goes(each: Any) -> None:
    each.user.add("ann", id="ann")
    each.project.add("house", id="house", owner="ann")
    each.session.add("talk", id="s", project="house")
    each.message.add("user", "The code is 4711.", session="s")
    note = each.remember("a note of nobody's").id
    each.summary.make(session="s")
    each.user.remove("ann", for_good=True)
    assert [one.id for one in each.list().memories] == [note]


def test_rolling_up_twice_at_once_covers_everything_once(each: Any, meanwhile: Any) -> None:
    each.session.add("s", id="s")
    each.message.add("user", "The first of 5 May.", session="s")

    def more() -> None:
        each.message.add("user", "The second of 6 May.", session="s")
        each.summary.roll_up(include_open=True)

    meanwhile(each, "transact", Memory, more)
    each.summary.roll_up(include_open=True)
    each.summary.roll_up(include_open=True)
    stretches = each.list(kinds=["summary"], levels=["stretch"]).memories
    covered = [part.id for one in stretches for part in each.summary.show(one.id).parts]
    assert len(covered) == len(set(covered)) == 2


THINGS = "gravel drainage parking lamps benches fences hedges ponds paths bins signs gates".split()
LONG_TURN = " ".join(f"Somebody spoke of {one} and of {other} for a while." for one, other in permutations(THINGS, 2))


def test_what_stands_at_the_end_of_a_long_turn_reaches_the_summary(tmp_path: Path) -> None:
    """The extract reads it whole; the language model is shown what fits of its beginning and its end."""
    turns = [("Ann", f"{LONG_TURN * 6} We decided that Ann will fly to Lisbon on 3 May because of Bob.")]
    with recollect.open(tmp_path / "a.db", embedder="hash") as mem:
        talk(mem, turns=turns)
        mem.summary.roll_up()
        (line,) = [line for line in mem.summary.tree(depth=9).lines if line.kind == "summary"]
        assert "fly to Lisbon" in mem.summary.show(line.id).text
    model = ScriptedModel({"summary": "Ann flies to Lisbon."})
    with recollect.open(tmp_path / "b.db", embedder="hash", language_model=model) as mem:
        talk(mem, turns=turns)
        mem.summary.roll_up()
    assert "fly to Lisbon" in model.asked[0].material
    assert " … " in model.asked[0].material
    assert len(model.asked[0].material) <= 40_000 + len("Ann: ")


def test_the_end_of_what_is_written_without_sentences_can_be_extracted() -> None:
    spaceless = "".join(chr(0x4E00 + n * 7 % 5000) for n in range(2000))
    for text in (spaceless, " ".join(f"gravel{n}" for n in range(500))):
        found = sentences(text)
        assert "".join("".join(one.text.split()) for one in found) == "".join(text.split())
        assert sum(len(one.text) for one in extract(found, 80)) <= 1000


def test_a_sentence_has_the_vector_of_the_passage_it_stands_in() -> None:
    vectors = {0: np.array([1, 0], np.float32), 30: np.array([0, 1], np.float32)}
    text = "One stands at the beginning. Another stands at the end of it. Third."
    found = sentences(text, "Ann", lambda place: vectors[0 if place < 30 else 30])
    assert [(one.text, one.vector.tolist()) for one in found if one.vector is not None] == [
        ("One stands at the beginning.", [1, 0]),
        ("Another stands at the end of it.", [1, 0]),
        ("Third.", [0, 1]),
    ]
