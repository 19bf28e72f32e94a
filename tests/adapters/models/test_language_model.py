"""The language model over HTTP, against a real server on the loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pydantic import BaseModel

import recollect
from recollect.adapters.models.openai_chat import OpenAICompatibleModel
from recollect.errors import InvalidInput, InvalidSettings, ModelFailed
from recollect.ports.models import Prompt
from recollect.testing.fakes import ScriptedModel

KEY = "sk-very-secret-123"
PROMPT = Prompt("Name a fruit.", "bananas are yellow", most_tokens=50)


class Fruit(BaseModel):
    fruit: str
    ripe: bool = True


@dataclass
class Answer:
    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def said(text: Any, reason: str | None = "stop", **more: Any) -> Answer:
    usage = {"prompt_tokens": 12, "completion_tokens": 5}
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": reason}
    return Answer({"model": "/somewhere/toy.gguf", "choices": [choice], "usage": usage, **more})


Way = Callable[[dict[str, Any]], Answer]


@dataclass
class Server:
    url: str
    asked: list[dict[str, Any]]
    keys: list[str | None]
    pauses: list[float] = field(default_factory=list)

    def model(self, **options: Any) -> OpenAICompatibleModel:
        return OpenAICompatibleModel(self.url, "toy", sleep=self.pauses.append, **options)


@contextmanager
def serving(*answers: Answer | Way) -> Iterator[Server]:
    """A server that gives the answers in turn, the last one for ever."""
    asked: list[dict[str, Any]] = []
    keys: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            keys.append(self.headers["Authorization"])
            answer = answers[min(len(asked), len(answers)) - 1]
            given = answer(asked[-1]) if callable(answer) else answer
            body = given.body if isinstance(given.body, bytes) else json.dumps(given.body).encode()
            self.send_response(given.status)
            for name, value in given.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Server(f"http://127.0.0.1:{server.server_port}/v1", asked, keys)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_answer_comes_back_in_the_asked_shape_with_what_it_cost() -> None:
    with serving(said('{"fruit": "banana", "ripe": false}')) as server:
        answer = server.model(api_key=KEY, temperature=0.5).ask(PROMPT, Fruit)
    assert answer.value == Fruit(fruit="banana", ripe=False)
    assert (answer.usage.model, answer.usage.prompt_tokens, answer.usage.completion_tokens) == ("toy", 12, 5)
    (asked,) = server.asked
    assert server.keys == [f"Bearer {KEY}"]
    assert (asked["model"], asked["max_tokens"], asked["temperature"]) == ("toy", 50, 0.5)
    assert asked["messages"][1] == {"role": "user", "content": "bananas are yellow"}
    schema = asked["response_format"]["json_schema"]
    assert schema["strict"] is True
    assert (schema["schema"]["required"], schema["schema"]["additionalProperties"]) == (["fruit", "ripe"], False)


def takes(*ways: str) -> Way:
    """A server that refuses every way of asking for JSON but these."""

    def answer(question: dict[str, Any]) -> Answer:
        way = question.get("response_format", {}).get("type") or ("grammar" if "grammar" in question else "plain")
        return said('Sure! {"fruit": "fig"} Enjoy.') if way in ways else Answer({"error": "unknown field"}, 400)

    return answer


@pytest.mark.parametrize(("way", "tries"), [("json_schema", 1), ("json_object", 2), ("grammar", 3), ("plain", 4)])
def test_what_a_server_refuses_is_asked_for_less_strictly_and_remembered(way: str, tries: int) -> None:
    with serving(takes(way)) as server:
        model = server.model()
        assert [model.ask(PROMPT, Fruit).value.fruit for _ in range(2)] == ["fig", "fig"]
    assert len(server.asked) == tries + 1


def test_a_server_that_refuses_everything_is_not_asked_for_ever() -> None:
    with serving(takes()) as server:
        model = server.model()
        for _ in range(2):
            with pytest.raises(ModelFailed, match="HTTP 400"):
                model.ask(PROMPT, Fruit)
    assert len(server.asked) == 8  # from the strictest on again: the server may have been mended


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (said('{"fruit": "ban', "length"), "cut off"),
        (said('{"fruit": "x"}', "content_filter"), "did not finish"),
        (said("no idea"), "does not fit"),
        (said('{"vegetable": "leek"}'), "does not fit"),
        (said(None), "empty"),
        (said(""), "empty"),
        (Answer({"choices": []}), "OpenAI format"),
        (Answer(b"<html>"), "OpenAI format"),
        (Answer(b"[" * 100_000), "OpenAI format"),
    ],
)
def test_an_answer_that_is_none_is_a_typed_error_that_repeats_nothing(answer: Answer, match: str) -> None:
    with serving(answer) as server, pytest.raises(ModelFailed, match=match) as caught:
        server.model(api_key=KEY).ask(PROMPT, Fruit)
    told = repr(caught.value.as_dict()) + str(caught.value) + repr(caught.value.__cause__)
    assert not any(secret in told for secret in (KEY, "banana", "leek", "no idea"))


def test_missing_usage_and_reason_are_no_reason_to_fail() -> None:
    with serving(said('{"fruit": "fig"}', None, usage=None)) as server:
        assert server.model().ask(PROMPT, Fruit).usage.prompt_tokens == 0


def test_a_busy_server_is_asked_again_when_it_says() -> None:
    busy = Answer({}, 429, {"Retry-After": "7"})
    with serving(busy, Answer({}, 503), said('{"fruit": "fig"}')) as server:
        assert server.model().ask(PROMPT, Fruit).value.fruit == "fig"
    assert server.pauses[0] == 7
    assert 0.5 <= server.pauses[1] <= 1.0
    assert all("response_format" in asked for asked in server.asked)


def test_retries_are_bounded() -> None:
    with serving(Answer({}, 500)) as server, pytest.raises(ModelFailed, match="HTTP 500"):
        server.model(retries=2).ask(PROMPT, Fruit)
    assert len(server.asked) == 3


def test_settings_choose_the_model_and_the_key_may_stand_in_a_file(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(f"{KEY}\n")
    with serving(said('{"summary": "Ann likes figs."}')) as server:
        chosen = {"provider": "openai", "base_url": server.url, "model": "toy", "api_key_file": str(key)}
        with recollect.open("memory://", embedder="hash", language_model=chosen) as mem:
            made = mem.summary.make(ids=[mem.remember("I like figs", author="Ann").id])
            assert (made.text, made.notes) == ("Ann likes figs.", [])
            assert mem.show(made.id).fields["metadata"]["usage"]["completion_tokens"] == 5
    assert server.keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"provider": "openai"},
        {"provider": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "m", "api_key_file": "/no/such/file"},
        {"provider": "nobody"},
        42,
    ],
)
def test_wrong_settings_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidSettings):
        recollect.open("memory://", embedder="hash", language_model=wrong)


def test_wrong_options_are_refused() -> None:
    mistakes: list[dict[str, Any]] = [{"timeout_seconds": 0}, {"retries": -1}, {"temperature": -1}]
    for wrong in mistakes:
        with pytest.raises(InvalidInput):
            OpenAICompatibleModel("http://127.0.0.1:1/v1", "m", **wrong)


def test_the_scripted_model_follows_its_script() -> None:
    away = ModelFailed("away")
    model = ScriptedModel(away, lambda prompt: {"fruit": prompt.material.split()[0]}, {"fruit": 7})
    with pytest.raises(ModelFailed, match="away"):
        model.ask(PROMPT, Fruit)
    assert model.ask(PROMPT, Fruit).value.fruit == "bananas"
    with pytest.raises(ModelFailed, match="does not fit"):
        model.ask(PROMPT, Fruit)
    assert model.asked == [PROMPT] * 3


def test_facts_are_extracted_from_talk_over_the_wire() -> None:
    """What a server is asked for by `session.extract`: a strict JSON schema, the talk as data."""
    fact = {"text": "The user lives in Porto.", "category": "fact", "message": 2, "quote": "I moved to Porto"}
    with serving(said(json.dumps({"facts": [fact]}))) as server:
        with recollect.open("memory://", embedder="hash", language_model=server.model()) as mem:
            mem.session.add(id="s")
            talk: Any = [{"role": "assistant", "text": "Hi"}, {"role": "user", "text": "I moved to Porto."}]
            mem.message.add_many(talk, session="s")
            reply = mem.session.extract("s")
        assert [(one.text, one.finding) for one in reply.proposals] == [("The user lives in Porto.", "new")]
        assert (reply.made_by, reply.usage["prompt_tokens"]) == ("toy", 12)
        (asked,) = server.asked
    schema = asked["response_format"]["json_schema"]
    assert (schema["name"], schema["strict"]) == ("ExtractedFacts", True)
    (one,) = schema["schema"]["$defs"].values()
    assert one["required"] == ["text", "category", "message", "quote"]
    assert one["additionalProperties"] is False
    assert "[2] user (user)" in asked["messages"][1]["content"]
