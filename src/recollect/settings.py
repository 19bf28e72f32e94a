"""The one settings object: from arguments, then the environment, then a YAML file, then the defaults.

This is the only place that reads the environment. `RECOLLECT_STORE=team.db` sets `store`;
`RECOLLECT_EMBEDDER__PROVIDER=none` sets `embedder.provider`. Secrets are named here, not written here: `api_key_env`
is the name of the environment variable that holds the key, and in any text `${NAME}` stands for an environment
variable, `${file:/run/secrets/name}` for what a file holds. What they stood for is never shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from importlib.metadata import entry_points
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from recollect.domain.kinds import describe
from recollect.domain.record import Id, Name
from recollect.domain.tenancy import TimeZone
from recollect.errors import InvalidSettings

PREFIX = "RECOLLECT_"
Values = dict[str, Any]
"""Settings as they were given, before they are checked."""


def _known(group: str, built_in: tuple[str, ...], given: str) -> str:
    """A provider that is built in, or that an installed package adds; it is imported when it is used, not here."""
    if given not in built_in and not entry_points(group=group, name=given):
        raise ValueError(f"is not one of {', '.join(built_in)}, and no installed package adds it to {group}")
    return given


EmbedderProvider = Annotated[
    str, AfterValidator(partial(_known, "recollect.embedders", ("minilm", "openai", "hash", "none")))
]
VectorProvider = Annotated[
    str, AfterValidator(partial(_known, "recollect.vectors", ("auto", "embedded", "pgvector", "chroma")))
]
ModelProvider = Annotated[str, AfterValidator(partial(_known, "recollect.language_models", ("none", "openai")))]


class _Settings(BaseModel):
    """A part of the settings: its repr, which ends up in logs, shows no password."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, shown(value) if isinstance(value, str) else value


class EmbedderSettings(_Settings):
    """Which model turns text into vectors."""

    provider: EmbedderProvider = Field(
        "minilm",
        description="minilm (built in), openai (any OpenAI-compatible endpoint), hash (for tests), none (words only)",
    )
    model: str | None = Field(None, description="The name of the model at the endpoint")
    base_url: str | None = Field(None, description="The URL of the endpoint, such as http://127.0.0.1:11434/v1")
    dimensions: int | None = Field(
        None, ge=1, description="The length of the vectors; by default taken from the endpoint's first answer"
    )
    api_key_env: str = Field("OPENAI_API_KEY", description="The environment variable that holds the API key")
    api_key_file: Path | None = Field(
        None, description="A file that holds the API key, instead of an environment variable"
    )
    late_interaction: bool = Field(
        True,
        description="Store 48 bytes per token with each vector of the built-in model: better ranking, more disk space",
    )
    threads: int = Field(2, ge=1, description="How many CPU cores the built-in model may use")


class VectorSettings(_Settings):
    """The vector index. It is built from the records, and can always be rebuilt from them."""

    provider: VectorProvider = Field(
        "auto", description="auto (pgvector if the database has it, else embedded), embedded, pgvector or chroma"
    )
    url: str | None = Field(
        None,
        description="The server: http://host:8000 for Chroma, postgresql://… for pgvector in a database of its own",
    )
    path: Path | None = Field(
        None, description="A folder for Chroma without a server; only one process at a time can use it"
    )
    secret_env: str | None = Field(None, description="The environment variable that holds the password or token")
    secret_file: Path | None = Field(
        None, description="A file that holds the password or token, instead of an environment variable"
    )


class LanguageModelSettings(_Settings):
    """Which model writes patterns and summaries. Without one they are extracted from the text."""

    provider: ModelProvider = Field("none", description="none, or openai: any OpenAI-compatible endpoint")
    base_url: str | None = Field(None, description="The URL of the endpoint, such as http://127.0.0.1:11434/v1")
    model: str | None = Field(None, description="The name of the model at the endpoint")
    api_key_env: str = Field("OPENAI_API_KEY", description="The environment variable that holds the API key")
    api_key_file: Path | None = Field(
        None, description="A file that holds the API key, instead of an environment variable"
    )
    timeout_seconds: float = Field(60, gt=0, description="How long to wait for one answer")
    temperature: float = Field(
        0.0, ge=0, le=2, description="The sampling temperature; 0 gives the most repeatable answers"
    )


class ServerSettings(_Settings):
    """The service that `recollect serve` starts."""

    host: str = Field("127.0.0.1", description="The address to listen on; any other than loopback requires API keys")
    port: int = Field(7070, ge=0, le=65535, description="The port to listen on; 0 picks a free one")
    threads: int = Field(8, ge=1, le=256, description="How many requests are processed at once")
    waiting: int = Field(256, ge=0, description="How many more requests may wait; further ones get 503")
    connections: int = Field(1000, ge=1, description="How many connections may be open at once; further ones get 503")
    connections_per_client: int = Field(
        256, ge=1, description="How many connections one client may have; proxies in `proxies` are not limited"
    )
    header_seconds: float = Field(
        10.0,
        gt=0,
        description="How long a client may take to send the header of a request; it may take three times as long to "
        "read the response",
    )
    rate_per_minute: int = Field(6000, ge=1, description="Requests per minute for keys without a rate of their own")
    most_body_bytes: int = Field(16 << 20, ge=1024, description="The largest request body, in bytes")
    most_upload_bytes: int = Field(
        1 << 30, ge=1024, description="The largest file that can be imported over HTTP, in bytes"
    )
    secure_cookies: bool = Field(
        False,
        description="Mark cookies as https only even if no proxy in `proxies` says that a request used https",
    )
    hosts: list[str] = Field(
        default_factory=list, description="Host names of this service, without a port; localhost always works"
    )
    proxies: list[str] = Field(
        default_factory=list,
        description="Addresses or networks of trusted proxies, such as 10.0.0.0/8",
    )
    key_file: Path | None = Field(
        None, description="Where the first start writes the owner's key; by default next to the store's file"
    )
    upkeep_seconds: float = Field(5.0, gt=0, description="How often the service looks for background work")
    passages_at_once: int = Field(
        32,
        ge=2,
        le=100_000,
        description="How many passages of a text are embedded before a call returns; the rest follow in background",
    )
    check_seconds: float | None = Field(
        60.0,
        gt=0,
        le=86_400,
        description="How often citations are checked again, the oldest first; null turns it off",
    )
    checks_at_once: int = Field(
        100, ge=1, le=10_000, description="How many citations of an organization are checked each time"
    )
    summary_seconds: float | None = Field(
        3600.0, gt=0, description="How often summaries that are due are written; null turns it off"
    )

    @field_validator("proxies")
    @classmethod
    def _networks(cls, given: list[str]) -> list[str]:
        """Written out as networks, so that a name or a network with an address inside is not overlooked."""
        return [str(ip_network(one.strip())) for one in given]


_IN_MEMORY_ADDRESSES = frozenset({":memory:", "sqlite://:memory:", "sqlite:///:memory:", "duckdb:///:memory:"})


class Settings(_Settings):
    store: str = Field(
        "recollect.db",
        description="Where memories are stored: a file, duckdb:///…, postgresql://…, dynamodb://… or memory://",
    )
    organization: Id = Field("default", description="The organization (tenant) to work in")
    actor: Id | None = Field(None, description="Who is acting; recorded with every change")
    timezone: TimeZone = Field(
        "UTC", description="The time zone for times without one, unless the user has one of their own"
    )
    embedder: EmbedderSettings = Field(EmbedderSettings(), description="The embedding model")
    incoming_embedder: EmbedderSettings | None = Field(
        None, description="The embedding model you are moving to; see `reindex`"
    )
    vectors: VectorSettings = Field(VectorSettings(), description="The vector index; see docs/vectors.md")
    kinds: list[Name] = Field(default_factory=list, description="Your own kinds of memory")
    citation_root: Path | None = Field(
        None,
        description="The folder that relative paths in file citations start from; by default the folder of the store",
    )
    citation_roots: list[Path] | None = Field(
        None,
        description="The only folders whose files can be cited and checked; by default all folders, but none over the "
        "service and in background checks",
    )
    repositories: dict[str, Path] = Field(
        default_factory=dict,
        description="Names of repositories and the paths of their local clones; the service may cite them too",
    )
    citation_stale_seconds: float = Field(
        86_400.0,
        gt=0,
        description="After how long a citation is checked again, by check=stale and by background work",
    )
    fetch: bool = Field(False, description="Whether citing or checking a url may fetch the page")
    months_ahead: int = Field(
        3, ge=0, le=120, description="PostgreSQL: how many months of partitions to create in advance"
    )
    postgres_tools: Path | None = Field(
        None, description="The folder of pg_dump and pg_restore; by default they are found on the PATH"
    )
    postgres_upkeep: str | None = Field(
        None,
        description="PostgreSQL: the address with the login that owns the tables, not through a pooler; the login of "
        "`store` then only needs the role recollect_app",
    )
    access_log_days: int | None = Field(
        None, ge=1, description="`sweep` deletes access log entries older than this; by default they are kept forever"
    )
    restore_days: float = Field(
        30, ge=0, le=36500, description="How many days a removed user, agent, session or project can be restored"
    )
    background: bool = Field(
        True,
        description="Whether programs that open the store do background work and index upkeep; the service always does",
    )
    background_seconds: float = Field(
        60.0, gt=0, description="How often a program other than the service looks for background work"
    )
    workspace_file_bytes: int = Field(100_000_000, ge=1, description="The largest file in a workspace, in bytes")
    workspace_files: int = Field(200_000, ge=1, description="How many files a workspace may have")
    workspace_bytes: int = Field(10_000_000_000, ge=1, description="The size of all files in a workspace, in bytes")
    language_model: LanguageModelSettings = Field(
        LanguageModelSettings(), description="The language model that writes patterns and summaries; optional"
    )
    server: ServerSettings = Field(ServerSettings(), description="The service; see `recollect serve`")

    @field_validator("store")
    @classmethod
    def _somewhere(cls, given: str) -> str:
        """As in sqlite3, `:memory:` is no file."""
        if not given.strip():
            raise ValueError("is empty: give a path, an address such as postgresql://…, or memory://")
        return "memory://" if given in _IN_MEMORY_ADDRESSES else given

    @field_validator("vectors", mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        return _vectors(given) if isinstance(given, str) else given


def load(source: str | Path | None = None, **given: Any) -> Settings:
    """Settings from a YAML file or a store's address, the environment and keyword arguments."""
    _check_source(source)
    values: Values = {}
    environment = _environment(os.environ)
    path = _settings_file(source, environment.pop("config", None))
    if path is not None:
        values = _from_yaml(path)
    values = _merged(values, environment)
    if source is not None and path is None:
        values["store"] = str(source)
    values = _merged(values, {name: value for name, value in given.items() if value is not None})
    for name in ("embedder", "incoming_embedder", "language_model"):
        if isinstance(values.get(name), str):
            values[name] = {"provider": values[name]}
    try:
        return Settings.model_validate(_substituted(values))
    except ValidationError as error:
        raise InvalidSettings(
            f"the settings are not valid: {describe(error)}", remedy="see docs/reference/settings.md"
        ) from None


def _check_source(source: object) -> None:
    """A path or an address; whatever else it is would become the name of a file."""
    if source is not None and not isinstance(source, str | Path):
        raise InvalidSettings(
            f"a store cannot be opened from {type(source).__name__}",
            remedy="give a path, an address such as postgresql://…, a YAML settings file or a record store",
        )


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


def _substituted(value: object) -> object:
    """Replace `${NAME}` and `${file:…}` in texts; in an address they are quoted, so a secret may hold any character."""
    if isinstance(value, Mapping):
        return {name: _substituted(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_substituted(inner) for inner in value]
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


def _vectors(short: str) -> dict[str, str]:
    """`chroma+http://host:8000`, `chroma:folder`, `pgvector+postgresql://…`, `postgresql://…` or just a provider."""
    provider, plus, url = short.partition("+")
    if plus and "://" in url and "://" not in provider:
        return {"provider": provider, "url": url}
    if short.startswith(("postgresql://", "postgres://")):
        return {"provider": "pgvector", "url": short}
    if short.startswith("chroma:"):
        return {"provider": "chroma", "path": short.removeprefix("chroma:")}
    return {"provider": short}


def _settings_file(source: str | Path | None, configured: str | None) -> Path | None:
    if source is not None and str(source).endswith((".yaml", ".yml")):
        return Path(source)
    return Path(configured) if configured and source is None else None


def _environment(variables: Mapping[str, str]) -> Values:
    values: Values = {}
    known = {*Settings.model_fields, "config"}
    for name, value in variables.items():
        path = name.removeprefix(PREFIX).lower().split("__")
        if name.startswith(PREFIX) and path[0] not in known:
            _suspect_typo(name, path[0], known)
        elif name.startswith(PREFIX):
            inner = values
            for part in path[:-1]:
                if not isinstance(inner.get(part), dict):
                    inner[part] = _shorthand(part, inner[part]) if part in inner else {}
                inner = inner[part]
            if isinstance(inner.get(path[-1]), dict):
                inner[path[-1]] |= _shorthand(path[-1], value)
                continue
            inner[path[-1]] = value if path[-1] not in _LISTS else [one for one in value.split(",") if one]
    return values


def _shorthand(name: str, value: str) -> dict[str, str]:
    return _vectors(value) if name == "vectors" else {"provider": value}


def _suspect_typo(name: str, part: str, known: set[str]) -> None:
    near = get_close_matches(part, known, n=1, cutoff=0.8)
    if near:
        raise InvalidSettings(
            f"the environment variable {name} is not a setting", remedy=f"did you mean {PREFIX}{near[0].upper()}?"
        )


_LISTS = {"kinds", "citation_roots", "hosts", "proxies"}


def _from_yaml(path: Path) -> Values:
    import yaml  # only those who have a file wait for its parser

    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSettings(f"cannot read '{path}': {error.strerror}", remedy="give an existing file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise InvalidSettings(f"'{path}' is not valid YAML{where}", remedy="see docs/reference/settings.md") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InvalidSettings(f"'{path}' contains no settings", remedy="write them as `name: value` lines")
    if "store" in values and "://" not in str(values["store"]):
        values["store"] = str(
            path.parent / Path(str(values["store"])).expanduser()
        )  # beside the settings file, wherever one stands
    if isinstance(values.get("vectors"), str):
        values["vectors"] = _vectors(values["vectors"])
    for part, name in _PATHS:
        inner = values.get(part)
        if isinstance(inner, dict) and inner.get(name):
            inner[name] = path.parent / Path(str(inner[name])).expanduser()
    return values


_PATHS = (
    ("vectors", "path"),
    ("vectors", "secret_file"),
    ("embedder", "api_key_file"),
    ("incoming_embedder", "api_key_file"),
    ("language_model", "api_key_file"),
)


def _merged(base: Values, over: Mapping[str, object]) -> Values:
    merged = dict(base)
    for name, value in over.items():
        known = merged.get(name)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            merged[name] = _merged(dict(known), value)
        else:
            merged[name] = value
    return merged
