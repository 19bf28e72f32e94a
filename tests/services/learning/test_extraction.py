"""Memories proposed from talk: each cites its messages, nothing twice, contradictions proposed and not carried out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EMPTY_STORE, EVERY_STORE
from recollect.domain.conversations import Session
from recollect.domain.memory import Memory
from recollect.errors import ModelFailed, NotFound
from recollect.ports.query import Query
from recollect.testing.fakes import HashEmbedder, ScriptedModel
from small_sources import tenant_of

SAID = (
    ("user", "Hi, how are you?"),
    ("assistant", "Fine! I live in a data centre and I love electricity."),
    ("user", "I moved to Porto and I love green tea."),
    ("user", "What should I cook? I really love green tea!"),
)


def opened(store: Any, **settings: Any) -> Any:
    return recollect.open(store, **settings)


def talk(mem: Any, *said: tuple[str, str], session: str = "s") -> list[str]:
    added = mem.message.add_many([{"role": role, "text": text} for role, text in said], session=session).messages
    return [one.id for one in added]


def begin(mem: Any) -> None:
    mem.user.add("Ann", id="ann")
    mem.agent.add("Bee", id="bee")
    mem.project.add("Trip", id="trip")
    mem.session.add(id="s", user="ann", agent="bee", project="trip")


@pytest.fixture
def mem() -> Iterator[Any]:
    with opened("memory://", embedder=HashEmbedder(64)) as mem:
        begin(mem)
        yield mem


def found(reply: Any, finding: str = "new") -> list[str]:
    return [one.text for one in reply.proposals if one.finding == finding]


@pytest.mark.parametrize("kind", EVERY_STORE)
def test_what_was_stated_is_proposed_once_with_its_messages(kind: str, tmp_path: Path) -> None:
    with opened(EMPTY_STORE[kind](tmp_path), embedder=HashEmbedder(64)) as mem:
        begin(mem)
        ids = talk(mem, *SAID)
        tried = mem.session.extract("s", dry_run=True)
        assert (tried.dry_run, tried.read, [one.id for one in tried.proposals]) == (True, 4, [None, None])
        assert mem.list(statuses=["hypothesis"]).total == 0
        reply = mem.session.extract("s")
        assert found(reply) == ["I moved to Porto", "I love green tea"]
        assert (reply.read, reply.remaining, reply.made_by) == (4, 0, "extract")
        tea = next(one for one in reply.proposals if "tea" in one.text)
        assert (tea.category, tea.kind, tea.messages) == ("preference", "user_preference", ids[2:])
        kept = mem.show(tea.id)
        assert (kept.status, kept.user, kept.agent, kept.project, kept.author) == (
            "hypothesis", "ann", "bee", "trip", "user"
        )  # fmt: skip
        assert {one.evidence["log_id"] for one in kept.citations} == set(ids[2:])
        assert {line.id for line in mem.list(statuses=["hypothesis"])} == {one.id for one in reply.proposals}
        assert mem.promote(tea.id, "verified").status == "verified"  # the messages are the evidence
        assert mem.session.extract("s").read == 0  # read already
        again = mem.session.extract("s", again=True)
        assert (again.read, found(again), len(found(again, "duplicate"))) == (4, [], 2)
        talk(mem, ("user", "I'm vegetarian."))
        assert (mem.session.extract("s").read, mem.list(statuses=["hypothesis"]).total) == (1, 2)
        assert [hit.text for hit in mem.recall("green tea", user="ann")].count("I love green tea") == 1
        assert mem.verify().sound


def test_a_contradiction_is_proposed_and_takes_effect_when_it_is_promoted(mem: Any) -> None:
    home = mem.remember("The user lives in Berlin", user="ann").id
    mem.remember("I like tea", user="ann")
    other = mem.remember("The user lives in Oslo", user=mem.user.add("Bob").id).id
    talk(mem, ("user", "I live in Porto now. I don't like tea."))
    reply = mem.session.extract("s")
    assert found(reply, "contradiction") == ["I live in Porto now", "I don't like tea"]
    moved = reply.proposals[0]
    assert (moved.known, moved.known_text) == ([home], "The user lives in Berlin")
    texts = [hit.text for hit in mem.recall("where does the user live", user="ann", include_messages=False)]
    assert {"The user lives in Berlin", "I live in Porto now"} <= set(texts)  # not carried out
    mem.promote(moved.id, "verified")
    texts = [hit.text for hit in mem.recall("where does the user live", include_messages=False)]
    assert "The user lives in Berlin" not in texts
    assert "The user lives in Oslo" in texts
    assert mem.show(other).status == "hypothesis"
    mem.forget(moved.id)
    assert "The user lives in Berlin" in [hit.text for hit in mem.recall("where does the user live")]


def test_what_is_said_later_counts_and_old_talk_replaces_nothing_newer(mem: Any) -> None:
    talk(mem, ("user", "I live in Rome."), ("user", "Well, I moved to Porto."))
    mem.session.add(id="late", user="ann")
    reply = mem.session.extract("s")
    assert (found(reply), found(reply, "outdated")) == (["I moved to Porto"], ["I live in Rome"])
    old = talk(mem, ("user", "I live in Madrid."), session="late")
    mem.remember("I live in Vienna", user="ann", at="2100-01-01")
    late = mem.session.extract("late")
    assert found(late, "outdated") == ["I live in Madrid"]
    assert late.proposals[0].messages == old


def test_several_people_in_one_session_are_kept_apart(mem: Any) -> None:
    mem.user.add("Bob", id="bob")
    mem.remember("I live in Rome", user="ann")
    mem.message.add("user", "I live in Oslo.", session="s", user="bob", name="Bob")
    reply = mem.session.extract("s")
    assert found(reply) == ["I live in Oslo"]
    assert (mem.show(reply.proposals[0].id).user, mem.show(reply.proposals[0].id).author) == ("bob", "Bob")


def test_a_long_session_is_read_in_several_calls(mem: Any) -> None:
    talk(mem, *(("user", f"I love the number {number}.") for number in range(25)))
    first = mem.session.extract("s", limit=10)
    assert (first.read, first.remaining, len(found(first))) == (10, 15, 10)
    assert [mem.session.extract("s", limit=10).read for _ in range(3)] == [10, 5, 0]
    assert mem.list(tags=["preference"]).total == 25
    with pytest.raises(NotFound):
        mem.session.extract("nothing")


def test_two_at_once_propose_everything_once(mem: Any, meanwhile: Any) -> None:
    talk(mem, *SAID)
    meanwhile(mem, "transact", Session, lambda: mem.session.extract("s"))
    assert mem.session.extract("s").read == 0
    assert mem.list(statuses=["hypothesis"]).total == 2


def test_erased_messages_take_along_what_nobody_confirmed(mem: Any) -> None:
    ids = talk(mem, ("user", "I live in Porto."), ("user", "I love green tea."), ("user", "I really love green tea"))
    home, tea = (one.id for one in mem.session.extract("s").proposals)
    mem.message.remove(ids[1])
    assert mem.show(tea).status == "hypothesis"  # it has another message
    mem.promote(home, "verified")
    mem.message.clear("s")
    with pytest.raises(NotFound):
        mem.show(tea)
    assert mem.show(home).text == "I live in Porto"  # somebody stood by it
    assert tenant_of(mem).count(Query(Memory, deleted="yes")) == 1


def test_what_was_extracted_stays_when_its_session_goes_cold(tmp_path: Path) -> None:
    with opened(tmp_path / "store.db", embedder=HashEmbedder(64)) as mem:
        begin(mem)
        talk(mem, *SAID)
        mem.session.extract("s")
        mem.session.end("s")
        mem.cold.store(session="s")
        assert "I moved to Porto" in [hit.text for hit in mem.recall("Porto", user="ann")]
        kept = next(hit for hit in mem.recall("Porto", user="ann") if hit.text == "I moved to Porto")
        assert mem.promote(kept.id, "verified").status == "verified"  # what it cites is in cold storage
        mem.cold.restore("s")
        assert mem.verify().sound
        assert len(list(mem.message.search("how are you", session="s", by="meaning"))) == len(SAID)


# --- With a language model -------------------------------------------------------------------------------------


def fact(text: str, message: int, quote: str, category: str = "fact") -> dict[str, Any]:
    return {"text": text, "category": category, "message": message, "quote": quote}


PROPOSED = (
    fact("The user lives in Porto.", 3, "I moved to  Porto"),
    fact("The user loves green tea.", 3, "I love green tea", "preference"),
    fact("The user lives in Rome.", 3, "I moved to Rome"),  # said by nobody
    fact("The assistant loves electricity.", 2, "I love electricity"),  # no person
    fact("The user is 34.", 3, "I moved to Porto"),  # a number out of nowhere
    fact("The user cooks.", 9, "What should I cook?"),  # no such message
    fact("", 1, "Hi, how are you?"),
)


def with_model(*script: Any) -> Any:
    return opened("memory://", embedder=HashEmbedder(64), language_model=ScriptedModel(*script, model="toy"))


def test_what_a_model_proposes_must_quote_what_a_person_said() -> None:
    with with_model({"facts": list(PROPOSED)}) as mem:
        begin(mem)
        ids = talk(mem, *SAID)
        reply = mem.session.extract("s")
        assert found(reply) == ["The user lives in Porto.", "The user loves green tea."]
        assert [one.messages for one in reply.proposals] == [[ids[2]], [ids[2]]]
        assert reply.made_by == "toy"
        assert reply.notes == ["5 proposals of the language model were left out: they do not quote what a person said"]
        kept = mem.show(reply.proposals[0].id)
        assert kept.metadata["made_by"] == "toy"
        assert kept.citations[0].evidence["context"] == "I moved to  Porto"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (ModelFailed("the model is away"), "written without the language model: the model is away"),
        ({"facts": [PROPOSED[2]]}, "the answer of the language model was not used: none of what it proposes quotes"),
    ],
)
def test_where_the_model_is_of_no_use_the_rules_answer(line: Any, told: str) -> None:
    with with_model(line) as mem:
        begin(mem)
        talk(mem, *SAID)
        reply = mem.session.extract("s")
        assert found(reply) == ["I moved to Porto", "I love green tea"]
        assert reply.made_by == "extract"
        assert reply.notes[0].startswith(told)


def test_a_model_that_finds_nothing_is_believed_and_long_talk_is_read_in_pieces() -> None:
    with with_model({"facts": []}) as mem:
        begin(mem)
        talk(mem, *(("user", f"I live in {'Porto ' * 500}{number}.") for number in range(10)))
        reply = mem.session.extract("s")
        model = mem._core.language_model
        assert (reply.proposals, len(model.asked)) == ([], 4)
        assert all(len(prompt.material) < 14_000 for prompt in model.asked)
        assert mem.session.extract("s").read == 0
        assert len(model.asked) == 4
