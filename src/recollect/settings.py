"""The one settings object: from arguments, then the environment, then a YAML file, then the defaults.

This is the only place that reads the environment. `RECOLLECT_STORE=team.db` sets `store`;
`RECOLLECT_EMBEDDER__PROVIDER=none` sets `embedder.provider`. Secrets are named here, not written here: `api_key_env`
is the name of the environment variable that holds the key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recollect.domain.kinds import describe
from recollect.domain.record import Id, Name
from recollect.domain.tenancy import TimeZone
from recollect.errors import InvalidSettings

PREFIX = "RECOLLECT_"
Provider = Literal["minilm", "openai", "hash", "none"]


class EmbedderSettings(BaseModel):
    """Which model turns text into vectors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: Provider = Field(
        "minilm",
        description="minilm (built in), openai (any OpenAI-compatible endpoint), hash (for tests), none (words only)",
    )
    model: str | None = Field(None, description="The endpoint's model name")
    base_url: str | None = Field(None, description="The endpoint, such as http://127.0.0.1:11434/v1")
    dimensions: int | None = Field(None, ge=1, description="Learned from the first answer if left out")
    api_key_env: str = Field("OPENAI_API_KEY", description="The environment variable that holds the key")
    late_interaction: bool = Field(
        True, description="Keep 48 bytes a token beside each vector of the built-in model: better ranking, more disk"
    )
    threads: int = Field(2, ge=1, description="How many cores the built-in model may use")


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    store: str = Field(
        "recollect.db", description="Where memories live: a file, postgresql://…, dynamodb://… or memory://"
    )
    organization: Id = Field("default", description="The tenant to work in")
    actor: Id | None = Field(None, description="On whose behalf; recorded with every change")
    timezone: TimeZone = Field("UTC", description="The zone times are shown in")
    embedder: EmbedderSettings = Field(EmbedderSettings(), description="The model that serves recall")
    incoming_embedder: EmbedderSettings | None = Field(None, description="A model being moved to; see `reindex`")
    kinds: list[Name] = Field(default_factory=list, description="Kinds of memory of your own")
    citation_root: Path | None = Field(
        None, description="Where relative paths of file citations start; the folder of the store if left out"
    )
    citation_roots: list[Path] | None = Field(None, description="Cite files only inside these folders")
    repositories: dict[str, Path] = Field(default_factory=dict, description="Repository names to local clones")
    fetch: bool = Field(False, description="Whether checking a url citation may fetch the page again")
    background: bool = Field(True, description="Whether index upkeep runs in a background thread")


def load(source: str | Path | None = None, **given: Any) -> Settings:
    """Settings from a YAML file or a store's address, the environment and keyword arguments."""
    values: dict[str, Any] = {}
    environment = _environment(os.environ)
    path = _settings_file(source, environment.pop("config", None))
    if path is not None:
        values = _from_yaml(path)
    values = _merged(values, environment)
    if source is not None and path is None:
        values["store"] = str(source)
    values = _merged(values, {name: value for name, value in given.items() if value is not None})
    for name in ("embedder", "incoming_embedder"):
        if isinstance(values.get(name), str):
            values[name] = {"provider": values[name]}
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise InvalidSettings(
            f"the settings are not valid: {describe(error)}", remedy="see docs/reference/settings.md"
        ) from None


def secret(name: str) -> str | None:
    """A secret from the environment."""
    return os.environ.get(name)


def _settings_file(source: str | Path | None, configured: str | None) -> Path | None:
    if source is not None and str(source).endswith((".yaml", ".yml")):
        return Path(source)
    return Path(configured) if configured and source is None else None


def _environment(variables: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    known = {*Settings.model_fields, "config"}
    for name, value in variables.items():
        path = name.removeprefix(PREFIX).lower().split("__")
        if name.startswith(PREFIX) and path[0] not in known:
            _suspect_typo(name, path[0], known)
        elif name.startswith(PREFIX):
            inner = values
            for part in path[:-1]:
                if not isinstance(inner.get(part), dict):
                    inner[part] = {"provider": inner[part]} if part in inner else {}
                inner = inner[part]
            if isinstance(inner.get(path[-1]), dict):
                inner, path = inner[path[-1]], ["provider"]
            inner[path[-1]] = value if path[-1] not in _LISTS else [one for one in value.split(",") if one]
    return values


def _suspect_typo(name: str, part: str, known: set[str]) -> None:
    near = get_close_matches(part, known, n=1, cutoff=0.8)
    if near:
        raise InvalidSettings(
            f"the environment has {name}, which is no setting", remedy=f"did you mean {PREFIX}{near[0].upper()}?"
        )


_LISTS = {"kinds", "citation_roots"}


def _from_yaml(path: Path) -> dict[str, Any]:
    import yaml  # only those who have a file wait for its parser

    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSettings(f"cannot read '{path}': {error.strerror}", remedy="give an existing file") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise InvalidSettings(f"'{path}' is not YAML", remedy="see docs/reference/settings.md") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InvalidSettings(f"'{path}' holds no settings", remedy="write `name: value` lines")
    if "store" in values and "://" not in str(values["store"]):
        values["store"] = str(
            path.parent / Path(str(values["store"])).expanduser()
        )  # beside the settings file, wherever one stands
    return values


def _merged(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = _merged(dict(merged[name]), value) if both else value
    return merged
