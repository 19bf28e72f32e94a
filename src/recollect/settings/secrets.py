"""Secrets that settings name, and addresses as they may be shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from recollect.errors import InvalidSettings

if TYPE_CHECKING:
    from recollect.settings.schema import VectorSettings


def secret(name: str, file: Path | None = None) -> str | None:
    """A secret from the environment, or from a file where one is named."""
    if file is None:
        return os.environ.get(name)
    try:
        return file.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise InvalidSettings(
            f"cannot read the key file '{file}'", remedy="give a text file that you may read"
        ) from None


def wants_traces() -> bool:
    """Whether the standard variables of OpenTelemetry ask for traces."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "")
    named = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return exporter != "none" and (bool(exporter) or any(os.environ.get(name) for name in named))


def secret_named(name: str) -> str | None:
    """The secret that a connection names: an environment variable, or a file after `file:`."""
    return secret("", Path(name.removeprefix("file:"))) if name.startswith("file:") else secret(name)


def shown(address: str) -> str:
    """An address without its password."""
    parts = urlsplit(address) if "://" in address else None
    if parts is None:
        return address
    masked = _OPTION.sub(lambda found: f"{found[1]}=***" if _SECRET.search(found[1]) else found[0], address)
    return masked if parts.password is None else masked.replace(f":{parts.password}@", ":***@", 1)


_OPTION = re.compile(r"([?&][^=&?]*+)=[^&#]*+")
_SECRET = re.compile("password|secret|token|key", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\$\{(file:)?([^{}]+)\}")


def secrets_in(values: Mapping[str, object], within: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from secrets_in(value, f"{within}{name}.")
            continue
        is_written = isinstance(value, str) and not _PLACEHOLDER.search(value)
        if is_written and (
            f"{within}{name}" in ("key", "api_key") or ("://" in str(value) and urlsplit(str(value)).password)
        ):
            yield f"{within}{name}"


def substituted(value: object) -> object:
    """Replace `${NAME}` and `${file:…}` in texts; in an address they are quoted, so a secret may hold any character."""
    if isinstance(value, Mapping):
        return {name: substituted(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [substituted(inner) for inner in value]
    if not isinstance(value, str):
        return value
    is_part = "://" in value
    return _PLACEHOLDER.sub(lambda found: quote(_value_of(found), safe="") if is_part else _value_of(found), value)


def _value_of(place: re.Match[str]) -> str:
    is_file, name = place.groups()
    if not is_file:
        if name not in os.environ:
            raise InvalidSettings(
                f"the settings use ${{{name}}}, but it is not set in the environment", remedy=f"export {name}=…"
            )
        return os.environ[name]
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError):
        raise InvalidSettings(
            f"cannot read the secret file '{name}'", remedy="give a text file that you may read"
        ) from None


def secret_of(settings: VectorSettings) -> str | None:
    """The password or token that the settings name; one that is named and not there is a mistake."""
    if settings.secret_env is not None:
        found = secret(settings.secret_env)
        if not found:
            raise InvalidSettings(
                f"the environment variable {settings.secret_env} is not set",
                remedy="set it, or remove vectors.secret_env",
            )
        return found
    if settings.secret_file is None:
        return None
    try:
        return settings.secret_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise InvalidSettings(
            f"cannot read '{settings.secret_file}'", remedy="give a text file in vectors.secret_file"
        ) from None
