"""The log of the service: one line per event, as text or as JSON. Never stored text, never a secret."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Literal

log = logging.getLogger("recollect.requests")
LogFormat = Literal["text", "json"]


def log_request(operation: str, method: str, status: int, ms: float, **facts: str | None) -> None:
    """One line per request: what was asked for, by whom, how it ended and how long it took."""
    if log.isEnabledFor(logging.INFO):
        known = {name: value for name, value in facts.items() if value is not None}
        told = {"operation": operation, "method": method, "status": status, "ms": ms, **known}
        log.info("%s %s %d in %s ms", method, operation, status, ms, extra={"facts": told})


def show_logs(form: LogFormat) -> None:
    """Write what Recollect logs to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logger = logging.getLogger("recollect")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


class JsonLines(logging.Formatter):
    """An object per line. What a request has to say is in its own fields, other events are in `message`."""

    def format(self, record: logging.LogRecord) -> str:
        facts = getattr(record, "facts", None) or {"message": record.getMessage()}
        line = {"time": _time(record), "level": record.levelname.lower(), "logger": record.name, **facts}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class TextLines(logging.Formatter):
    """A line for people."""

    def format(self, record: logging.LogRecord) -> str:
        facts = getattr(record, "facts", {})
        more = [f"{name}={facts[name]}" for name in ("request_id", "organization", "key", "address") if name in facts]
        line = " ".join([_time(record), record.levelname.lower(), record.getMessage().replace("\n", " "), *more])
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
