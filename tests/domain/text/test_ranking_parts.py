"""What is weighed beside words and meaning: who is told of, what asks and answers, typing errors, notes, remarks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from recollect.domain.text.questions import Question, read_question
from recollect.domain.text.relevance import ANSWERED, Candidate, Ranked, Ranking, confidence, rank

NOW = datetime(2024, 5, 20, 12, tzinfo=UTC)


def ranked(question: str | Question, pool: list[Candidate]) -> dict[str, Ranked]:
    asked = read_question(question, NOW) if isinstance(question, str) else question
    return {hit.id: hit for hit in rank(asked, pool)}


def first(question: str | Question, pool: list[Candidate]) -> str:
    return next(iter(ranked(question, pool)))


# --- Who is told of


def test_what_somebody_else_tells_of_a_person_counts_nearly_as_what_they_say() -> None:
    own = [Candidate(f"x{n}", f"Note {n} about my garden and the food there", "Ann", similarity=0.3) for n in range(15)]
    told = Candidate("told", "Ann told me that she is allergic to peanuts", "Bob", similarity=0.5)
    assert first("Which food must Ann avoid?", [*own, told]) == "told"


@pytest.mark.parametrize("called", ["Thanks, Ann!", "Hey Ann, how are you", "See you then, Ann.", "Ann?"])
def test_who_is_only_called_is_not_told_of(called: str) -> None:
    pool = [Candidate("called", called, "Bob"), Candidate("own", "I like tea", "Ann"), Candidate("z", "Rain", "Bob")]
    hits = ranked("What does Ann like?", pool)
    assert hits["called"].parts["author"] == 0.0 < hits["own"].parts["author"]


# --- What asks and what answers


def talk(*said: str) -> list[Candidate]:
    return [Candidate(f"t{n}", text, "Ann", "s", n, similarity=0.4) for n, text in enumerate(said)]


def test_what_follows_a_question_answers_and_what_asks_does_not() -> None:
    parts = {id: hit.parts["asking"] for id, hit in ranked("holidays", talk("Holidays?", "At the sea", "Fine")).items()}
    assert parts["t0"] < 0 < parts["t1"]
    assert parts["t2"] == 0


def test_the_nearer_the_question_before_it_the_more_it_answers() -> None:
    near = talk("Where do you spend the holidays?", "At the sea", "Fine", "Do you cook?", "At times")
    near[0].similarity = 0.9
    parts = {id: hit.parts["asking"] for id, hit in ranked("holidays", near).items()}
    assert parts["t1"] > parts["t4"]


def test_a_word_of_thanks_says_little_in_any_script() -> None:
    pool = [
        Candidate("a", "Yes!"),
        Candidate("b", "The gym opens at six on weekdays"),
        Candidate("c", "健身房早上六点开门"),
    ]
    parts = {id: hit.parts["length"] for id, hit in ranked("anything", pool).items()}
    assert parts["a"] < parts["c"]
    assert parts["a"] < parts["b"]


# --- Typing errors


def test_a_misspelt_word_is_found() -> None:
    pool = [Candidate("a", "She plays the guitar"), Candidate("b", "She plays chess"), Candidate("c", "She swims")]
    assert first("who plays guiter", pool) == "a"


def test_a_misspelt_name_is_its_bearer() -> None:
    asked = read_question("What does Melanei paint?", NOW)
    assert asked.named_authors({"Melanie", "Caroline"}) == ["Melanie"]
    assert asked.rephrased({"Melanie"}) == "What do I paint?"
    assert read_question("What does Melanie paint?", NOW).named_authors({"Melanie", "Melania"}) == ["Melanie"]


# --- Notes without an author

OWN = ["I work at a mill.", "My sister came over.", "The clutch is gone."]


@pytest.mark.parametrize(
    ("question", "speaker", "put"),
    [
        ("Where does Tom work?", "Tom", "Where do I work?"),
        ("What is wrong with Tom's car?", "Tom", "What is wrong with my car?"),
        ("What did Tom see in Paris?", "Tom", "What did I see in Paris?"),
        ("Who went to Berlin?", None, None),
    ],
)
def test_notes_in_the_first_person_are_asked_in_the_first_person(
    question: str, speaker: str | None, put: str | None
) -> None:  # fmt: skip
    asked = read_question(question, NOW).in_own_voice(OWN, ())
    assert (asked.speaker, asked.rephrased(())) == (speaker, put)


@pytest.mark.parametrize(
    ("question", "texts", "authors"),
    [
        ("Where does Tom work?", ["Tom works at a mill.", "The mill is old.", "I saw it."], ()),
        ("Where does Tom work?", OWN, ("Tom", "Ann")),  # it is known who says what
        ("Where do I work?", OWN, ()),
        ("Where does Tom work?", [], ()),
    ],
)
def test_other_notes_are_asked_as_the_question_was_put(
    question: str, texts: list[str], authors: tuple[str, ...]
) -> None:  # fmt: skip
    assert read_question(question, NOW).in_own_voice(texts, authors).speaker is None


def test_a_user_without_a_name_is_whoever_is_asked_about() -> None:
    asked = read_question("Where does Tom work?", NOW).in_own_voice(OWN, ("user", "assistant"))
    pool = [Candidate("a", "I work at a mill", "user"), Candidate("b", "I work for you", "assistant")]
    hits = ranked(asked, pool)
    assert hits["a"].parts["author"] > hits["b"].parts["author"] == 0


# --- Remarks


@pytest.mark.parametrize(
    "text", ["Where is it?", "what is the plan", "tea at four", "渡轮几点开", "list all open points of the plan"]
)
def test_questions_and_searches_trust_their_words(text: str) -> None:
    assert read_question(text).is_asked


def test_a_remark_trusts_its_words_less_the_fewer_a_memory_shares() -> None:
    pool = [Candidate("a", "the weekend was long"), Candidate("b", "a new bike"), Candidate("c", "tea")]
    remark = "I am so tired of this rain and cannot wait for another weekend at home"
    asked, said = ranked(f"{remark}?", pool)["a"], ranked(remark, pool)["a"]
    assert 0 < said.parts["words"] < asked.parts["words"]


# --- Whether anything answers


def test_confidence_rises_with_the_match_and_with_a_named_author() -> None:
    def sure(match: float, author: float = 0.0) -> float:
        return confidence([Ranked("a", 1.0, match, {"author": author}), Ranked("b", 0.5, 0.05, {})])

    assert confidence([]) == 0.0
    assert sure(0.1) < 0.1 < sure(0.3) < ANSWERED < sure(0.6) < 1
    assert sure(0.3, author=6.0) > sure(0.3)
    below = Ranked("b", 0.5, 0.6, {})
    assert confidence([Ranked("a", 1.0, 0.1, {}), below]) == sure(0.6)  # the second answers


# --- Scripts that the model does not read


def test_where_the_model_does_not_read_the_script_words_decide() -> None:
    asked = read_question("渡轮几点出发去岛上？", NOW)
    near = [Candidate(f"n{n}", f"今天天气很好{n}", similarity=0.6 + n / 100, late=0.6) for n in range(12)]
    told = Candidate("told", "渡轮九点出发", similarity=0.2, late=0.1)
    assert first(asked, [*near, told]) != "told"
    assert first(replace(asked, is_understood=False), [*near, told]) == "told"


# --- What was said together


def test_the_nearer_neighbour_lends_more() -> None:
    hits = ranked("pottery", talk("Nothing", "Tea", "Pottery", "Fine"))
    assert hits["t1"].parts["neighbours"] == hits["t3"].parts["neighbours"] > hits["t0"].parts["neighbours"]


def test_what_has_no_session_stands_between_the_sessions_that_have_the_matter_and_those_that_have_not() -> None:
    sessions = [("s1", "Pottery"), ("s1", "Tea"), (None, "Rain"), ("s2", "Wind"), ("s2", "Fog")]
    pool = [Candidate(f"c{n}", text, session_id=session) for n, (session, text) in enumerate(sessions)]
    parts = {id: hit.parts["session"] for id, hit in ranked("pottery", pool).items()}
    assert parts["c1"] > parts["c2"] > parts["c3"]


def test_the_leading_are_the_best_without_their_parts() -> None:
    pool = [Candidate(f"m{n}", text, similarity=n / 10) for n, text in enumerate(["tea", "camp", "a camp by the sea"])]
    ranking = Ranking(read_question("Which camp?", NOW), pool)
    for limit in (None, 0, 2):
        assert ranking.leading(limit) == [hit.id for hit in ranking.best(limit)]
    assert Ranking(read_question("Which camp?", NOW), []).leading(5) == []
