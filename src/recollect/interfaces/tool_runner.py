"""The tools of a runner: what may be called, how long it may take, and what came of it as it is recorded.

A tool is any callable. One with a parameter `idempotency_key` gets the key of the step and must do nothing a second
time for the same key; one declared `idempotent` does no harm when called again. Only these are ever called again for a
step. A call runs in a thread of its own. One that takes too long is recorded as timed out and left behind, because
Python cannot end a thread: what it does may still happen. A tool that must really end should start a process and end
that.
"""

from __future__ import annotations

import inspect
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from recollect.domain.record import storable_json
from recollect.errors import InvalidInput

MESSAGE_LIMIT = 2000
SUMMARY_LIMIT = 20_000
REPR_LIMIT = 10_000
KEY = "idempotency_key"


@dataclass(frozen=True, slots=True)
class Tool:
    """A callable with what a runner must know of it."""

    call: Callable[..., object]
    idempotent: bool = False
    timeout_seconds: float | None = None
    retries: int = 0
    retry_seconds: float = 0.5

    @property
    def takes_key(self) -> bool:
        try:
            return KEY in inspect.signature(self.call).parameters
        except ValueError:
            return False  # some of Python's own functions do not say what they take

    @property
    def is_repeatable(self) -> bool:
        return self.idempotent or self.takes_key

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.call(*given, **named)


def tool(
    call: Callable[..., object] | None = None, *, idempotent: bool = False, timeout_seconds: float | None = None,
    retries: int = 0, retry_seconds: float = 0.5,
) -> Any:  # fmt: skip
    """Say more about a tool: `@recollect.tool(idempotent=True, timeout_seconds=30, retries=2)`."""
    if call is None:
        return lambda function: tool(
            function, idempotent=idempotent, timeout_seconds=timeout_seconds, retries=retries,
            retry_seconds=retry_seconds,
        )  # fmt: skip
    if timeout_seconds is not None:
        positive_seconds(timeout_seconds, "timeout_seconds")
    if retries < 0 or retry_seconds < 0:
        raise InvalidInput("retries cannot be negative", remedy="give retries of 0 or more")
    made = Tool(call, idempotent, timeout_seconds, retries, retry_seconds)
    if retries and not made.is_repeatable:
        raise InvalidInput(
            "only an idempotent tool can be retried",
            remedy=f"declare it idempotent, or give it a parameter {KEY}",
        )
    return made


def positive_seconds(given: object, what: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= threading.TIMEOUT_MAX:
        raise InvalidInput(f"{what} is not a number of seconds above 0", remedy="give a number such as 30")
    return float(given)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one call, as `run.record` takes it."""

    outcome: Literal["success", "error", "timeout"]
    summary: str = ""
    output: dict[str, object] | None = None
    error: dict[str, object] | None = None
    artifacts: list[object] = field(default_factory=list)
    seconds: float = 0.0

    def fields(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


class Toolbox:
    def __init__(self, tools: Mapping[str, Callable[..., object]], timeout_seconds: float) -> None:
        self._tools = {name: one if isinstance(one, Tool) else Tool(one) for name, one in tools.items()}
        self._timeout_seconds = timeout_seconds

    def is_repeatable(self, name: str | None) -> bool:
        """Whether a step may be carried out again; one that names no tool of ours has no effect at all."""
        found = self._tools.get(name) if name is not None else None
        return found is None or found.is_repeatable

    def carry_out(
        self, name: str | None, arguments: Mapping[str, object], key: str, stopping: threading.Event
    ) -> Outcome:
        if name is None:
            return Outcome("success")
        found = self._tools.get(name)
        if found is None:
            message = f"there is no tool '{name}'; there are {', '.join(sorted(self._tools)) or 'none'}"
            return Outcome("error", error={"code": "unknown_tool", "message": message})
        for attempt in range(found.retries + 1):
            outcome = self._called(found, arguments, key)
            if outcome.outcome == "success" or attempt == found.retries:
                break
            stopping.wait(found.retry_seconds * 2**attempt)
        if outcome.error is not None and found.retries:
            outcome = replace(outcome, error={**outcome.error, "attempts": attempt + 1})
        return outcome

    def _called(self, called: Tool, arguments: Mapping[str, object], key: str) -> Outcome:
        given = {**arguments, KEY: key} if called.takes_key else dict(arguments)
        answers: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        thread = threading.Thread(target=_answer, args=(called.call, given, answers), daemon=True)
        began = time.monotonic()
        thread.start()
        limit = called.timeout_seconds or self._timeout_seconds
        try:
            outcome = answers.get(timeout=limit)
        except queue.Empty:
            said = {"code": "timeout", "message": f"no answer within {limit:g} seconds", "may_have_happened": True}
            outcome = Outcome("timeout", error=said)
        return replace(outcome, seconds=time.monotonic() - began)


def _answer(call: Callable[..., object], given: Mapping[str, object], answers: queue.SimpleQueue[Outcome]) -> None:
    """Whatever it raises is its result, `sys.exit()` too: nobody else would hear of it, and the runner would wait."""
    try:
        value = call(**given)
    except BaseException as error:  # noqa: BLE001 - handed to the runner, which records it as the result of the step
        answers.put(Outcome("error", error=error_fields("tool_failed", error)))
        return
    try:
        answers.put(_succeeded(value))
    except Exception as error:  # noqa: BLE001 - it happened, but what it gave cannot even be shown
        answers.put(Outcome("success", error=error_fields("output_not_recorded", error)))


def error_fields(code: str, error: BaseException) -> dict[str, object]:
    """An exception as it is recorded: without what no store can keep."""
    message = str(error).replace("\x00", "").encode("utf-8", "replace").decode()[:MESSAGE_LIMIT]
    return {"code": code, "type": type(error).__name__, "message": message}


def _succeeded(value: object) -> Outcome:
    """A text is its own summary; a dictionary may bring `summary` and `artifacts`."""
    try:
        storable_json(value)
    except ValueError:
        shown = ascii(value)[:REPR_LIMIT]
        return Outcome("success", output={"repr": shown})
    output = value if isinstance(value, dict) or value is None else {"value": value}
    summary = value if isinstance(value, str) else (output or {}).get("summary", "")
    artifacts = (output or {}).get("artifacts", [])
    return Outcome(
        "success",
        summary=summary[:SUMMARY_LIMIT] if isinstance(summary, str) else "",
        output=output,
        artifacts=artifacts if isinstance(artifacts, list) else [],
    )
