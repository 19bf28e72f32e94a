"""The HTTP embedder against a real server on the loopback."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import numpy as np
import pytest

from recollect.adapters.models.openai_embeddings import OpenAICompatibleEmbedder
from recollect.errors import EmbedderFailed, InvalidInput, RecollectError

KEY = "sk-very-secret-123"


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    drip_seconds: float = 0.0


@dataclass
class Asked:
    path: str
    key: str | None
    question: dict[str, Any]


def vector_of(text: str) -> list[float]:
    return [float(len(text)), 1.0, 0.0]


def good(question: dict[str, Any], order: int = 1) -> Answer:
    entries = [{"index": i, "embedding": vector_of(text)} for i, text in enumerate(question["input"])]
    return Answer(body=json.dumps({"data": entries[::order]}).encode())


def data(*embeddings: Any) -> Answer:
    entries = [{"index": i, "embedding": each} for i, each in enumerate(embeddings)]
    return Answer(body=json.dumps({"data": entries}).encode())


@dataclass
class Endpoint:
    url: str
    asked: list[Asked]
    pauses: list[float]

    def embedder(self, **options: Any) -> OpenAICompatibleEmbedder:
        return OpenAICompatibleEmbedder(self.url, "toy", sleep=self.pauses.append, **options)


@contextmanager
def serving(*answers: Answer | Callable[[dict[str, Any]], Answer]) -> Iterator[Endpoint]:
    """A server that gives the answers in turn, the last one for ever."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(Asked(self.path, self.headers["Authorization"], question))
            answer = answers[min(len(asked), len(answers)) - 1]
            self.give(answer(question) if callable(answer) else answer)

        def do_GET(self) -> None:
            asked.append(Asked(self.path, self.headers["Authorization"], {}))
            self.give(Answer(404))

        def give(self, answer: Answer) -> None:
            time.sleep(answer.delay_seconds)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            try:
                for byte in answer.body if answer.drip_seconds else ():
                    self.wfile.write(bytes([byte]))
                    time.sleep(answer.drip_seconds)
                self.wfile.write(b"" if answer.drip_seconds else answer.body)
            except OSError:
                return  # the caller has hung up, as the tests about slowness want

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Endpoint(f"http://127.0.0.1:{server.server_port}/v1", asked, [])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def test_texts_come_back_as_unit_vectors_in_order() -> None:
    with serving(good) as endpoint:
        vectors = endpoint.embedder().embed(["a", "bbb"])
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert np.allclose(vectors[:, 0] / vectors[:, 1], [1, 3])


def test_the_index_decides_not_the_order_of_arrival() -> None:
    with serving(lambda question: good(question, order=-1)) as endpoint:
        vectors = endpoint.embedder().embed(["a", "bbb", "cc"])
    assert np.allclose(vectors[:, 0] / vectors[:, 1], [1, 3, 2])


def test_many_texts_are_sent_in_batches() -> None:
    with serving(good) as endpoint:
        vectors = endpoint.embedder(batch=2).embed(["a", "bb", "ccc", "dddd", "eeeee"])
    assert [len(each.question["input"]) for each in endpoint.asked] == [2, 2, 1]
    assert np.allclose(vectors[:, 0] / vectors[:, 1], [1, 2, 3, 4, 5])


def test_the_request_names_the_model_and_carries_the_key() -> None:
    with serving(good) as endpoint:
        endpoint.embedder(api_key=KEY, dimensions=3).embed(["a"])
    assert endpoint.asked == [
        Asked("/v1/embeddings", f"Bearer {KEY}", {"model": "toy", "input": ["a"], "dimensions": 3})
    ]


def test_dimensions_are_learnt_from_the_first_answer() -> None:
    with serving(good) as endpoint:
        embedder = endpoint.embedder()
        embedder.embed(["a"])
        assert (embedder.dimensions, embedder.model) == (3, "toy")
    assert len(endpoint.asked) == 1
    assert "dimensions" not in endpoint.asked[0].question


def test_dimensions_are_asked_for_when_nothing_was_embedded_yet() -> None:
    with serving(good) as endpoint:
        assert endpoint.embedder().dimensions == 3


def test_the_model_is_named_while_the_server_is_away() -> None:
    assert OpenAICompatibleEmbedder("http://127.0.0.1:9/v1", "toy", retries=0).model == "toy"


def test_the_model_is_named_without_a_request_when_dimensions_are_given() -> None:
    embedder = OpenAICompatibleEmbedder("http://127.0.0.1:9/v1", "text-embedding-3-small", dimensions=1536)
    assert embedder.model == "text-embedding-3-small/1536"


def test_the_text_prefix_is_part_of_the_models_name() -> None:
    plain, marked = (
        OpenAICompatibleEmbedder("http://127.0.0.1:9", "toy", dimensions=3, text_prefix=prefix)
        for prefix in ("", "passage: ")
    )
    assert plain.model != marked.model


def test_questions_and_texts_get_their_prefixes() -> None:
    with serving(good) as endpoint:
        embedder = endpoint.embedder(query_prefix="query: ", text_prefix="passage: ")
        embedder.embed(["a"])
        assert embedder.embed_query("b").shape == (3,)
    assert [each.question["input"] for each in endpoint.asked] == [["passage: a"], ["query: b"]]


def test_empty_texts_are_not_sent_and_get_a_fixed_vector() -> None:
    with serving(good) as endpoint:
        vectors = endpoint.embedder(text_prefix="passage: ").embed(["", "a", " \n"])
    assert [each.question["input"] for each in endpoint.asked] == [["passage: a"]]
    assert vectors.tolist()[0] == vectors.tolist()[2] == [1.0, 0.0, 0.0]


def test_a_zero_vector_becomes_the_fixed_vector() -> None:
    with serving(data([0, 0, 0])) as endpoint:
        assert endpoint.embedder().embed(["a"]).tolist() == [[1.0, 0.0, 0.0]]


def test_huge_numbers_do_not_overflow() -> None:
    with serving(data([1e300, 1e300, 0])) as endpoint:
        assert np.allclose(endpoint.embedder().embed(["a"]), [[0.5**0.5, 0.5**0.5, 0]])


def test_no_texts_give_no_vectors() -> None:
    assert OpenAICompatibleEmbedder("http://127.0.0.1:9", "toy", dimensions=3).embed([]).shape == (0, 3)


def test_a_busy_server_is_asked_again_after_the_time_it_names() -> None:
    with serving(Answer(429, headers={"Retry-After": "7"}), good) as endpoint:
        assert endpoint.embedder().embed(["a"]).shape == (1, 3)
    assert endpoint.pauses == [7.0]


def test_retry_after_may_be_a_date() -> None:
    soon = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 20))
    with serving(Answer(503, headers={"Retry-After": soon}), good) as endpoint:
        endpoint.embedder().embed(["a"])
    assert 10 < endpoint.pauses[0] <= 20


def test_a_server_cannot_ask_for_an_endless_pause() -> None:
    with serving(Answer(429, headers={"Retry-After": "99999"}), good) as endpoint:
        endpoint.embedder().embed(["a"])
    assert endpoint.pauses == [60.0]


def test_a_server_that_keeps_failing_is_given_up_with_growing_pauses() -> None:
    with serving(Answer(500)) as endpoint, pytest.raises(EmbedderFailed, match="HTTP 500") as caught:
        endpoint.embedder(retries=3).embed(["a"])
    assert len(endpoint.asked) == 4
    assert caught.value.details["tries"] == 4
    assert endpoint.pauses == sorted(endpoint.pauses)
    assert len(endpoint.pauses) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_refusal_is_not_tried_again(status: int) -> None:
    with serving(Answer(status)) as endpoint, pytest.raises(EmbedderFailed, match=f"HTTP {status}"):
        endpoint.embedder().embed(["a"])
    assert len(endpoint.asked) == 1


def test_a_slow_server_times_out_and_is_tried_again() -> None:
    with serving(Answer(delay_seconds=1.5), good) as endpoint:
        assert endpoint.embedder(timeout_seconds=0.5).embed(["a"]).shape == (1, 3)
    assert len(endpoint.asked) == 2


def test_a_server_that_drips_its_answer_times_out() -> None:
    dripping = Answer(body=b" " * 200, drip_seconds=0.02)
    with serving(dripping) as endpoint, pytest.raises(EmbedderFailed, match="no answer in time"):
        endpoint.embedder(timeout_seconds=0.2, retries=0).embed(["a"])


def test_an_absent_server_is_a_typed_error() -> None:
    with serving(good) as endpoint:
        pass
    with pytest.raises(EmbedderFailed):
        endpoint.embedder(retries=1).embed(["a"])
    assert len(endpoint.pauses) == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(data([1, 2, 3]), id="too few"),
        pytest.param(data([1, 2, 3], [1, 2, 3], [1, 2, 3]), id="too many"),
        pytest.param(Answer(body=b'{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}'), id="twice"),
        pytest.param(
            Answer(
                body=b'{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1]},{"index":1,"embedding":[2]}]}'
            ),
            id="one twice",
        ),
        pytest.param(data([1, 2, 3], [float("nan"), 2, 3]), id="NaN"),
        pytest.param(data([1, 2, 3], [float("inf"), 2, 3]), id="infinite"),
        pytest.param(data([1, 2, 3], [1, 2]), id="ragged"),
        pytest.param(data([], []), id="no numbers"),
        pytest.param(data([[1]], [[1]]), id="too deep"),
        pytest.param(data("text", None), id="not numbers"),
        pytest.param(data([1, 2], [3, 4]), id="other dimensions"),
        pytest.param(Answer(body=b"<html>"), id="not JSON"),
        pytest.param(Answer(body=b"[]"), id="no object"),
    ],
)
def test_a_wrong_answer_is_refused_at_once(answer: Answer) -> None:
    with serving(answer) as endpoint, pytest.raises(EmbedderFailed):
        endpoint.embedder(dimensions=3).embed(["a", "b"])
    assert len(endpoint.asked) == 1


def test_an_endless_answer_is_cut_off() -> None:
    endless = Answer(body=b" " * 1_000_000)
    with serving(endless) as endpoint, pytest.raises(EmbedderFailed, match="too large"):
        endpoint.embedder().embed(["a"])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_refused_and_the_key_stays_at_home(status: int) -> None:
    with serving(good) as elsewhere:
        moved = Answer(status, headers={"Location": f"{elsewhere.url}/embeddings"})
        with serving(moved) as endpoint, pytest.raises(EmbedderFailed, match=f"HTTP {status}"):
            endpoint.embedder(api_key=KEY).embed(["a"])
    assert elsewhere.asked == []


def everything_said(error: BaseException | None) -> str:
    said = ""
    while error is not None:
        said += f"{error!r} {error} {vars(error)}"
        error = error.__cause__ or error.__context__
    return said


@pytest.mark.parametrize("status", [200, 401, 500])
def test_the_key_is_in_no_error_even_if_the_server_repeats_it(status: int) -> None:
    echo = Answer(status, body=f"invalid key {KEY}".encode(), headers={"X-Key": KEY})
    with serving(echo) as endpoint, pytest.raises(RecollectError) as caught:
        endpoint.embedder(api_key=KEY, retries=0).embed(["a"])
    assert KEY not in everything_said(caught.value)
    assert KEY not in repr(endpoint.embedder(api_key=KEY))


@pytest.mark.parametrize("key", ["", "two words", f"{KEY}\n", "schlüssel"])
def test_a_malformed_key_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        OpenAICompatibleEmbedder("http://127.0.0.1:9", "toy", key)
    assert key == "" or key not in everything_said(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://host/v1",
        "localhost:11434",
        "http://",
        "http://user:pass@host",
        "http://[::1",
        "http://h/v1?key=1",
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        OpenAICompatibleEmbedder(url, "toy")


def test_a_password_in_the_url_is_not_repeated() -> None:
    with pytest.raises(InvalidInput) as caught:
        OpenAICompatibleEmbedder(f"http://user:{KEY}@host", "toy")
    assert KEY not in everything_said(caught.value)


def test_one_text_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(InvalidInput):
        OpenAICompatibleEmbedder("http://127.0.0.1:9", "toy", dimensions=3).embed("abc")
