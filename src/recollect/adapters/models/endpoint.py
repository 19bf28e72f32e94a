"""A model's HTTP endpoint in the OpenAI format: one POST of JSON, tried again while trying again can help.

Promise: the body of an answer, or a typed error of the kind the caller names; a busy or broken server is tried
again, after the time it asks for; a refusal is not; the key goes to the configured host only and into no error,
repr or log; no answer takes longer or gets larger than allowed.
Shape: the standard library only. What is asked and how the answer is read is up to the embedder and the language model.
Proof: `tests/unit/test_openai_compatible.py` and `tests/unit/test_language_model.py` talk to a real server.
"""

from __future__ import annotations

import http.client
import json
import random
import time
from collections.abc import Callable
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from recollect.errors import InvalidInput, RecollectError

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 60.0


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
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._base_url = _checked_url(base_url, what)
        self._what = what
        self._failed = failed
        self._headers = _headers(api_key)
        self._timeout_seconds = timeout_seconds
        self._retries = retries
        self._sleep = sleep
        self._opener = build_opener(_NoRedirects)

    def post(self, path: str, question: dict[str, Any], most_bytes: int) -> bytes:
        """The answer's body. The error's details have the HTTP `status`, if there was one."""
        body = json.dumps(question).encode()
        for attempt in range(self._retries + 1):
            try:
                return self._post_once(path, body, most_bytes)
            except HTTPError as refusal:
                refusal.close()
                failure, status = f"HTTP {refusal.code}", refusal.code
                asked_pause = _retry_after(refusal.headers)
            except (OSError, http.client.HTTPException) as trouble:
                failure, status, asked_pause = type(trouble).__name__, None, None
            if status is not None and status not in (408, 429) and status < 500:
                break
            if attempt < self._retries:
                self._sleep(_pause(attempt, asked_pause))
        # Only the status and the exception's type: bodies and messages may repeat the key or stored text.
        raise self._failed(
            f"The {self._what} endpoint failed: {failure}.", remedy=_remedy(status), status=status, tries=attempt + 1
        )

    def _post_once(self, path: str, body: bytes, most_bytes: int) -> bytes:
        # The socket's timeout bounds each read only; a server that drips bytes is caught by the deadline.
        deadline = time.monotonic() + self._timeout_seconds
        request = Request(self._base_url + path, data=body, headers=self._headers, method="POST")
        with self._opener.open(request, timeout=self._timeout_seconds) as response:
            answer = bytearray()
            while part := response.read1(65_536):
                answer += part
                if time.monotonic() > deadline:
                    raise TimeoutError
                if len(answer) > most_bytes:
                    raise self._failed("The endpoint's answer is too large.", limit_bytes=most_bytes)
        return bytes(answer)


class _NoRedirects(HTTPRedirectHandler):
    """A redirect is an error: following it would hand the key and the texts to a host nobody configured."""

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str) -> None:
        return None


def _checked_url(base_url: str, what: str) -> str:
    try:
        parts = urlsplit(base_url)
        complete = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        complete = False
    # The URL itself stays out of the message: people paste keys into it.
    if not complete or parts.username is not None or parts.query or parts.fragment:
        raise InvalidInput(
            f"The {what} endpoint must be an http or https URL without user, query or fragment.",
            remedy="for example http://localhost:11434/v1",
        )
    return base_url.rstrip("/")


def _headers(api_key: str | None) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "recollect"}
    if api_key is None:
        return headers
    # http.client quotes a malformed header in its exception, so such a key must not get that far.
    if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise InvalidInput("The API key is empty or has white space or unprintable characters.")
    return headers | {"Authorization": f"Bearer {api_key}"}


def _retry_after(headers: Message) -> float | None:
    """Seconds from now; the header may hold seconds or a date."""
    value = str(headers.get("Retry-After", "")).strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return parsedate_to_datetime(value).timestamp() - time.time()
    except ValueError:
        return None


def _pause(attempt: int, asked_seconds: float | None) -> float:
    # Jitter keeps the callers that a server turned away together from coming back together.
    usual: float = _FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1.0)
    return min(max(usual, asked_seconds or 0.0), _LONGEST_PAUSE_SECONDS)


def _remedy(status: int | None) -> str:
    if status in (401, 403):
        return "check the API key"
    if status is not None and status < 500 and status not in (408, 429):
        return "check the endpoint's URL and the model's name"
    return "check that the endpoint is up, then try again"
