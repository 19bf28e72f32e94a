"""A model's HTTP endpoint in the OpenAI format: one POST of JSON, tried again while trying again can help.

Promise: the body of an answer, or a typed error of the kind the caller names; a busy or broken server is tried
again, after the time it asks for; a refusal is not; the key goes to the configured host only and into no error,
repr or log; no answer takes longer or gets larger than allowed.
Shape: the HTTP client of http_client.py. What is asked and how the answer is read is up to the embedder and the
language model.
Proof: `tests/adapters/models/test_openai_compatible.py` and `test_language_model.py` talk to a real server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NoReturn

from recollect.errors import RecollectError, TooLarge
from recollect.http_client import HttpClient, NoReply, bearer, checked_url
from recollect.retry import Retry

_BUSY = (408, 429)


class Endpoint:
    """Where a model answers; threads may share it. `what` names it in errors, `failed` is their type."""

    def __init__(
        self,
        base_url: str,
        what: str,
        failed: type[RecollectError],
        api_key: str | None = None,
        *,
        timeout_seconds: float = 30,
        retries: int = 3,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self._what = what
        self._failed = failed
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers |= bearer(api_key) if api_key is not None else {}
        address = checked_url(base_url, f"{what} endpoint", "http://localhost:11434/v1")
        self._client = HttpClient(address, headers, timeout_seconds=timeout_seconds)
        self._timeout_seconds = timeout_seconds
        self._retry = Retry(retries + 1, sleep=sleep)

    def post(self, path: str, question: Mapping[str, object], most_bytes: int) -> bytes:
        """The answer's body. The error's details have the HTTP `status`, if there was one."""
        body = json.dumps(question).encode()
        try:
            return self._retry.run(lambda tries: self._post(path, body, most_bytes, tries), self._failed, _asked_pause)
        except TooLarge:
            raise self._failed("The endpoint's answer is too large.", limit_bytes=most_bytes) from None

    def _post(self, path: str, body: bytes, most_bytes: int, tries: int) -> bytes:
        try:
            reply = self._client.send("POST", path, body, most_bytes=most_bytes, within_seconds=self._timeout_seconds)
        except NoReply as broken:
            self._fail(broken.reason, tries=tries)
        if not 200 <= reply.status < 300:
            # Only the status: the body may repeat the key or stored text.
            self._fail(f"HTTP {reply.status}", reply.status, retry_after=reply.retry_after_seconds or None, tries=tries)
        return reply.body

    def _fail(self, why: str, status: int | None = None, **details: object) -> NoReturn:
        message = f"The {self._what} endpoint failed: {why}."
        raise self._failed(message, remedy=_remedy(status), status=status, **details)


def _asked_pause(error: RecollectError) -> float | None:
    status = error.details["status"]
    if status is not None and status not in _BUSY and status < 500:
        return None
    return error.details.get("retry_after") or 0.0


def _remedy(status: int | None) -> str:
    if status in (401, 403):
        return "check the API key"
    if status is not None and status < 500 and status not in _BUSY:
        return "check the endpoint's URL and the model's name"
    return "check that the endpoint is up, then try again"
