"""How a question is read, how a pool is ranked, and that ranking is fast, total and the same every time."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counting import steps_of
from recollect.domain.text.late_interaction import late_similarities, token_codes
from recollect.domain.text.named_times import NamedTime
from recollect.domain.text.questions import STOP_WORDS, Question, embedded_text, moment_words, read_question
from recollect.domain.text.relevance import Candidate, Ranked, Weights, rank
from recollect.domain.text.tokenizer import stem

NOW = datetime(2024, 5, 20, 12, tzinfo=UTC)


def turns(*said: tuple[str, str], session: str = "s1", at: datetime | None = None) -> list[Candidate]:
    return [Candidate(f"{session}-{i}", text, author, session, i, at) for i, (author, text) in enumerate(said)]


def ids(hits: list[Ranked]) -> list[str]:
    return [hit.id for hit in hits]


def best(question: str, pool: list[Candidate]) -> str:
    return rank(read_question(question, NOW), pool)[0].id


# --- Reading a question


def test_stop_words_are_not_searched_for() -> None:
    assert read_question("When did she go to the support group?").terms == ("go", "support", "group")


def test_a_question_of_stop_words_alone_keeps_them() -> None:
    assert read_question("Who are you?").terms == ("who", "are", "you")


@pytest.mark.parametrize("identifier", ["ERR-4012", "parse_header", "orders.created_at", "src/app.py"])
def test_an_identifier_is_searched_for_as_a_whole_and_by_its_words(identifier: str) -> None:
    terms = read_question(f"Why does {identifier}() fail?").terms
    assert identifier.casefold() in terms
    assert set(words_of(identifier)) - STOP_WORDS <= set(terms)


def words_of(identifier: str) -> list[str]:
    return "".join(ch if ch.isalnum() else " " for ch in identifier.casefold()).split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What happened on 8 May 2023?", NamedTime(date(2023, 5, 8), date(2023, 5, 8))),
        ("What happened on May 8th, 2023?", NamedTime(date(2023, 5, 8), date(2023, 5, 8))),
        ("Log of 2023-05-08", NamedTime(date(2023, 5, 8), date(2023, 5, 8))),
        ("What happened in February 2024?", NamedTime(date(2024, 2, 1), date(2024, 2, 29))),
        ("What happened in December 2023?", NamedTime(date(2023, 12, 1), date(2023, 12, 31))),
        ("What happened in 2022?", NamedTime(date(2022, 1, 1), date(2022, 12, 31))),
        ("What happened in June?", NamedTime(month=6)),
        ("What changed since June 2023?", NamedTime(first=date(2023, 6, 1))),
        ("What was planned before June 2023?", NamedTime(last=date(2023, 6, 30))),
        ("What did I buy yesterday?", NamedTime(date(2024, 5, 19), date(2024, 5, 19))),
        ("What did I buy two weeks ago?", NamedTime(date(2024, 5, 3), date(2024, 5, 9))),
    ],
)
def test_a_named_time_is_understood(text: str, expected: NamedTime) -> None:
    assert read_question(text, NOW).times == (expected,)


@pytest.mark.parametrize("text", ["May I march on?", "It may rain, march!", "On 31 February 2023", "Room 2350"])
def test_what_only_looks_like_a_time_is_none(text: str) -> None:
    assert read_question(text, NOW).times == ()


def test_relative_times_say_nothing_without_a_clock() -> None:
    assert read_question("What did I buy yesterday?").times == ()


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("What is my dog's name?", True, False),
        ("What did you recommend?", False, True),
        ("What did you recommend to me?", True, True),
        ("Can you remind me what I bought?", True, False),
        ("What was the shop in our last conversation?", False, True),
        ("Could you tell me where Jon lives?", False, False),
    ],
)
def test_a_question_knows_whom_it_speaks_of(text: str, first: bool, second: bool) -> None:
    question = read_question(text)
    assert (question.first_person, question.second_person) == (first, second)


@pytest.mark.parametrize(
    ("text", "rephrased"),
    [
        ("When did Caroline paint her sunrise?", "When did I paint my sunrise?"),
        ("What is Caroline's plan?", "What is my plan?"),
        ("what does caroline like?", "what do I like?"),
        ("Where does Ada Byron work?", "Where do I work?"),
        ("Where does Byron work?", "Where do I work?"),
    ],
)
def test_a_question_about_an_author_is_put_in_the_first_person(text: str, rephrased: str) -> None:
    assert read_question(text).rephrased(["Caroline", "Ada Byron"]) == rephrased


@pytest.mark.parametrize("text", ["When did Bob paint?", "What is the user interface?", "Which byron font?"])
def test_a_question_that_names_no_author_is_not_rephrased(text: str) -> None:
    assert read_question(text).rephrased(["Caroline", "Ada Byron", "user"]) is None


def test_a_name_that_is_also_a_stop_word_counts_when_written_as_a_name() -> None:
    assert read_question("What did Will paint?").named_authors(["Will"]) == ["Will"]
    assert read_question("Will it rain, and will it stop?").named_authors(["Will"]) == []


@pytest.mark.parametrize(
    "family", [("camp", "camped", "camping", "camps"), ("study", "studied", "studies"), ("make", "makes", "making")]
)
def test_the_forms_of_a_word_share_a_stem_that_begins_each(family: tuple[str, ...]) -> None:
    assert len({stem(word) for word in family}) == 1
    assert all(word.startswith(stem(word)) for word in family)


# --- What is written with a memory


def test_a_moment_is_written_as_questions_write_it() -> None:
    assert moment_words(datetime(2023, 5, 8, tzinfo=UTC)) == "8 May 2023"


def test_the_author_is_not_embedded() -> None:
    assert embedded_text("Caroline", "I paint.") == "I paint."


# --- Ranking


def test_a_rare_identifier_beats_a_memory_that_is_nearer_in_meaning() -> None:
    pool = [
        Candidate("a", "ERR-4012 means that the token has expired.", similarity=0.44),
        Candidate("b", "ERR-4013 means that the upload is too large.", similarity=0.46),
        Candidate("c", "An error code has a meaning.", similarity=0.5),
    ]
    assert best("What does ERR-4012 mean?", pool) == "a"


def test_a_longer_identifier_is_another_identifier() -> None:
    pool = [Candidate("a", "ERR-40125 there"), Candidate("b", "ERR-4012 there"), Candidate("c", "ERR there")]
    hits = {hit.id: hit for hit in rank(read_question("ERR-4012"), pool)}
    assert hits["b"].score > hits["a"].score
    assert hits["a"].match == hits["c"].match < hits["b"].match


def test_other_forms_and_accents_of_a_word_are_found() -> None:
    pool = [Candidate("a", "We went to a café."), Candidate("b", "They were camping."), Candidate("c", "Campaigns.")]
    assert best("cafe", pool) == "a"
    assert best("Who camped?", pool) == "b"


def test_a_named_author_is_preferred_to_who_talks_about_them() -> None:
    pool = turns(("Mel", "Caroline, how was the race?"), ("Caroline", "The race was great."))
    assert best("How was Caroline's race?", pool) == "s1-1"


def test_my_means_the_user_and_your_the_assistant() -> None:
    pool = turns(("assistant", "A good dog food is rice."), ("user", "A good dog food is beef."))
    assert best("Which is my dog food?", pool) == "s1-1"
    assert best("Which is your dog food?", pool) == "s1-0"


def test_what_was_said_between_us_prefers_no_role() -> None:
    pool = turns(("assistant", "Dog food is rice."), ("user", "Dog food is beef."))
    hits = rank(read_question("Which dog food did you recommend to me?"), pool)
    assert {hit.parts["author"] for hit in hits} == {0.0}


def test_a_named_day_is_preferred_and_the_days_around_it_come_next() -> None:
    pool = [Candidate(f"day-{day:02}", "We met.", at=datetime(2023, 5, day, tzinfo=UTC)) for day in (1, 8, 11, 25)]
    assert ids(rank(read_question("What happened on 8 May 2023?"), pool))[:2] == ["day-08", "day-11"]


def test_an_answer_is_found_by_the_question_that_was_asked_before_it() -> None:
    pool = [
        *turns(("Jo", "Any plans for the summer holiday?"), ("Al", "Sweden."), session="s1"),
        *turns(("Jo", "Do you eat meat?"), ("Al", "Never."), session="s2"),
    ]
    hits = {hit.id: hit for hit in rank(read_question("summer holiday plans"), pool)}
    assert hits["s1-1"].score > hits["s2-1"].score
    assert hits["s1-1"].parts["neighbours"] > hits["s2-1"].parts["neighbours"]


def test_neighbours_lend_only_within_their_session() -> None:
    pool = [Candidate("a", "summer holiday", session_id="s1", position=0), Candidate("b", "Yes.", None, "s2", 1)]
    assert {hit.parts["neighbours"] for hit in rank(read_question("summer holiday"), pool)} == {0.0}


def test_the_rephrased_similarity_counts_where_there_is_one() -> None:
    pool = [
        Candidate("a", "x", similarity=0.9, similarity_rephrased=0.1),
        Candidate("b", "y", similarity=0.1, similarity_rephrased=0.9),
    ]
    assert best("z", pool) == "b"


def test_late_interaction_can_turn_the_order() -> None:
    pool = [Candidate("a", "x", similarity=0.6, late=0.1), Candidate("b", "y", similarity=0.5, late=0.9)]
    assert best("z", pool) == "b"
    assert rank(read_question("z"), pool, Weights(late=0.0))[0].id == "a"


def test_words_that_only_the_full_text_index_sees_still_count() -> None:
    pool = [Candidate("a", "東京に住んでいます", lexical=3.0), Candidate("b", "大阪に住んでいます")]
    assert best("京に", pool) == "a"


def test_the_score_is_the_sum_of_its_parts() -> None:
    pool = turns(("Jo", "Any plans?"), ("Al", "Sweden plans."), ("Jo", "Nice."), at=NOW)
    for hit in rank(read_question("What plans has Al this week?", NOW), pool):
        assert math.isclose(hit.score, sum(hit.parts.values()), abs_tol=1e-9)


# --- It never fails, and never differs


def test_an_empty_pool_has_no_hits() -> None:
    assert rank(read_question("anything"), []) == []


def test_a_chance_difference_between_two_memories_weighs_little() -> None:
    pool = [Candidate("a", "x", similarity=0.50), Candidate("b", "y", similarity=0.51)]
    assert rank(read_question("z"), pool)[0].score < 0.2


def test_candidates_that_nothing_tells_apart_stand_in_order_of_id_with_score_zero() -> None:
    hits = rank(read_question("anything"), [Candidate(name, "same") for name in "cab"])
    assert [(hit.id, hit.score) for hit in hits] == [("a", 0.0), ("b", 0.0), ("c", 0.0)]


candidates = st.builds(
    Candidate,
    id=st.uuids().map(str),
    text=st.text(max_size=40) | st.sampled_from(["Jo paints a sunrise", "camping in May 2023", "ß İ é\n"]),
    author=st.none() | st.sampled_from(["Jo", "user", "assistant", ""]),
    session_id=st.none() | st.sampled_from(["s1", "s2"]),
    position=st.none() | st.integers(0, 5),
    at=st.none() | st.datetimes(timezones=st.just(UTC)),
    lexical=st.floats(0, 50),
    similarity=st.none() | st.floats(-1, 1),
    similarity_rephrased=st.none() | st.floats(-1, 1),
    late=st.none() | st.floats(-1, 1),
)
questions = st.builds(
    read_question,
    st.text(max_size=60) | st.sampled_from(["When did Jo paint in May 2023?", "What did I say 3 weeks ago?"]),
    st.none() | st.just(NOW),
)


@given(questions, st.lists(candidates, max_size=8, unique_by=lambda c: c.id), st.randoms())
def test_every_candidate_comes_out_once_with_a_finite_score_whatever_the_order_of_the_pool(
    question: Question, pool: list[Candidate], random: object
) -> None:
    hits = rank(question, pool)
    shuffled = list(pool)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert hits == rank(question, shuffled)
    assert sorted(ids(hits)) == sorted(c.id for c in pool)
    assert all(math.isfinite(hit.score) and 0 <= hit.match <= 1 for hit in hits)


@given(st.text(max_size=200))
def test_any_text_can_be_read_as_a_question(text: str) -> None:
    question = read_question(text, NOW)
    assert all(term and '"' not in term for term in question.terms)
    question.rephrased(["Jo", "Ada (ops)", "*", ""])


# --- Token codes


def test_the_memory_with_the_same_tokens_agrees_wholly_and_the_opposite_not_at_all() -> None:
    states = np.random.default_rng(0).standard_normal((5, 384)).astype(np.float32)
    same, opposite = token_codes(states), token_codes(-states[:1])
    assert same.shape == (5, 48)
    scores = late_similarities(same, [same.tobytes(), opposite])
    assert scores[0] == 1.0
    assert scores[1] is not None
    assert scores[1] < 0.2


def test_codes_score_as_the_signs_themselves_would() -> None:
    random = np.random.default_rng(1)
    question, memory = random.standard_normal((4, 24)), random.standard_normal((7, 24))
    expected = (np.sign(question) @ np.sign(memory).T / 24).max(axis=1).mean()
    (score,) = late_similarities(token_codes(question.astype(np.float32)), [token_codes(memory.astype(np.float32))])
    assert score == pytest.approx(expected)


def test_a_memory_without_tokens_has_no_late_similarity() -> None:
    codes = token_codes(np.ones((2, 16), dtype=np.float32))
    assert late_similarities(codes, [b"", codes, b""]) == [None, 1.0, None]
    assert late_similarities(codes[:0], [codes]) == [None]


# --- It is fast


def test_the_work_of_ranking_grows_with_the_candidates_and_no_faster() -> None:
    words = "the summer holiday in Sweden was a long camping trip with friends and my dog by the lake".split()
    random = np.random.default_rng(2)
    pool = [
        Candidate(f"{i:03}", " ".join(random.choice(words, 25)), "Jo", f"s{i // 20}", i % 20, NOW, similarity=i / 400)
        for i in range(400)
    ]
    question = read_question("When did Jo go camping with her dog in Sweden in May 2024?")
    few, many = (steps_of(partial(rank, question, pool[:size])) for size in (100, 400))
    assert many < 5 * few
    assert many < 400 * 2000  # measured: 480 instructions a candidate of 25 words
