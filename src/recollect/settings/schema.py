"""What can be set, with its default and what it means; docs/reference/settings.md is made of this.

Secrets are named here, not written here: `api_key_env` is the name of the environment variable that holds the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from importlib.metadata import entry_points
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, StringConstraints, field_validator

from recollect.domain.provenance import ENOUGH_EVIDENCE, EvidenceKind
from recollect.domain.record import Id, Name
from recollect.domain.retention import RetentionTerms
from recollect.domain.tenancy import TimeZone
from recollect.settings.secrets import shown


def _known(group: str, built_in: tuple[str, ...], given: str) -> str:
    """A provider that is built in, or that an installed package adds; it is imported when it is used, not here."""
    if given not in built_in and not entry_points(group=group, name=given):
        raise ValueError(f"is not one of {', '.join(built_in)}, and no installed package adds it to {group}")
    return given


EmbedderProvider = Annotated[
    str, AfterValidator(partial(_known, "recollect.embedders", ("built-in", "minilm", "openai", "hash", "none")))
]
VectorProvider = Annotated[
    str, AfterValidator(partial(_known, "recollect.vectors", ("auto", "embedded", "pgvector", "chroma")))
]
ModelProvider = Annotated[str, AfterValidator(partial(_known, "recollect.language_models", ("none", "openai")))]


class _Settings(BaseModel):
    """A part of the settings: its repr, which ends up in logs, shows no password."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, shown(value) if isinstance(value, str) else value


IndexedMember = Annotated[str, StringConstraints(pattern=r"^(content|metadata)(\.[A-Za-z_][A-Za-z0-9_]*){1,10}$")]


class EmbedderSettings(_Settings):
    """Which model turns text into vectors."""

    provider: EmbedderProvider = Field(
        "built-in",
        description="built-in (no key, no download), minilm (the model that was built in before 0.6), openai (any"
        " OpenAI-compatible endpoint), hash (for tests), none (words only)",
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
    threads: int = Field(
        2,
        ge=1,
        description="How many CPU cores the built-in model may use for one call; with 1 a question takes longer, but a"
        " sixth less of the processor's time",
    )
    cached_questions: int = Field(
        512,
        ge=0,
        le=100_000,
        description="How many questions are kept in memory with their vectors, at most 16 MB, for when they are asked"
        " again; 0 keeps none",
    )


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


class ConnectionSettings(_Settings):
    """What connections to outside databases may use over the service. In process nothing is closed."""

    hosts: list[str] = Field(
        default_factory=list,
        description="Hosts that can be reached: names (also name:port), addresses or networks; this machine and "
        "link-local addresses only if listed as such",
    )
    folders: list[Path] = Field(
        default_factory=list, description="Folders whose SQLite files and TLS certificates can be read"
    )
    secrets: list[str] = Field(
        default_factory=list,
        description="Environment variables and files (file:/path) that can be named as the password of a connection",
    )


_OBJECT_STORAGES = ("file", "s3", "gs", "az")


class KeepSettings(_Settings):
    """How many backups are kept: the newest of each of the last days, weeks and months that have one."""

    daily: int = Field(7, ge=0, le=3660, description="For how many days one backup is kept")
    weekly: int = Field(4, ge=0, le=1000, description="For how many weeks one backup is kept")
    monthly: int = Field(12, ge=0, le=1000, description="For how many months one backup is kept")


class BackupSettings(_Settings):
    """Backups of the store, which the service makes by itself; see docs/guides/backup-and-upgrade.md."""

    to: str | None = Field(
        None, description="Where backups are stored: a folder, s3://bucket/prefix, gs://… or az://…; of this store only"
    )
    every_hours: float | None = Field(
        None, gt=0, le=8760, description="How often the service makes one; by default never"
    )
    keep: KeepSettings = Field(KeepSettings(), description="How many are kept; older ones are deleted")
    verify: bool = Field(True, description="Read each backup back, open it and check every record")

    @field_validator("to")
    @classmethod
    def _storage(cls, given: str | None) -> str | None:
        return None if given is None else checked_storage(given)


class EvidenceSettings(_Settings):
    """Which kinds of citations are enough to promote a memory. One that holds is needed; of any other kind, more may
    be cited. `attested_log` is the log of another system, which only whoever recorded it vouches for."""

    verified: list[EvidenceKind] = Field(
        sorted(ENOUGH_EVIDENCE["verified"]), min_length=1, description="The kinds of which one is enough for verified"
    )
    published: list[EvidenceKind] = Field(
        sorted(ENOUGH_EVIDENCE["published"]), min_length=1, description="The kinds of which one is enough for published"
    )


class ServerSettings(_Settings):
    """The service that `recollect serve` starts."""

    host: str = Field("127.0.0.1", description="The address to listen on; any other than loopback requires API keys")
    port: int = Field(7070, ge=0, le=65535, description="The port to listen on; 0 picks a free one")
    workers: int = Field(
        1,
        ge=0,
        le=64,
        description="How many processes serve on the one port, on Unix; 0: one per CPU core. Not for DuckDB and memory://",
    )
    threads: int = Field(8, ge=1, le=256, description="How many requests each worker processes at once")
    waiting: int = Field(256, ge=0, description="How many more requests may wait for a worker; further ones get 503")
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
    organizations: bool = Field(
        False,
        description="Whether owners of the organization that runs the service may add, list, suspend and remove other "
        "organizations over HTTP and MCP",
    )
    mem0: bool = Field(
        False,
        description="Whether the service also answers mem0's REST requests, under /mem0, with the same keys and "
        "permissions",
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
    log_format: Literal["json", "text"] = Field(
        "json", description="How the service writes its log: a JSON object per line, or text for people"
    )
    drain_seconds: float = Field(
        0.0,
        ge=0,
        le=300,
        description="How long the service goes on answering after it was asked to stop, when it is no longer ready",
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


class RemoteSettings(_Settings):
    """How long a client waits for a service, and how often it asks again; where `store` is the address of one."""

    connect_seconds: float = Field(10.0, gt=0, le=86_400, description="How long to wait for a connection")
    read_seconds: float = Field(60.0, gt=0, le=86_400, description="How long to wait for each piece of an answer")
    total_seconds: float | None = Field(
        None, gt=0, description="How long a whole call may take, with all that is tried again; by default without end"
    )
    retries: int = Field(3, ge=0, le=20, description="How often more than once what failed for now is tried")


_IN_MEMORY_ADDRESSES = frozenset({":memory:", "sqlite://:memory:", "sqlite:///:memory:", "duckdb:///:memory:"})


def checked_storage(given: str) -> str:
    """An address for files that stay, or ValueError."""
    scheme, separator, rest = given.partition("://")
    if not given.strip():
        raise ValueError("is empty: give a folder or an address such as s3://bucket/prefix")
    if separator and scheme not in _OBJECT_STORAGES:
        known = ", ".join(f"{one}://" for one in _OBJECT_STORAGES)
        raise ValueError(f"'{scheme}://' is not a place for content that stays: give a folder or one of {known}")
    if separator and (not rest.strip("/") or (scheme == "file" and not rest.startswith("/"))):
        raise ValueError("names no folder or bucket: write file:///folder or s3://bucket/prefix")
    return given


class ColdSettings(_Settings):
    """Cold storage: where old sessions are moved to."""

    to: str | None = Field(
        None,
        description="Where `cold.store` moves sessions if it is not told: a folder, file:///…, s3://bucket/prefix, "
        "gs://… or az://…; by default where `objects` are stored",
    )
    addresses: list[str] = Field(
        default_factory=list,
        description="Addresses that callers over the service may name, with everything below them; in process and on "
        "the command line all can be named",
    )

    @field_validator("to")
    @classmethod
    def _place(cls, given: str | None) -> str | None:
        return None if given is None else checked_storage(given)

    @field_validator("addresses")
    @classmethod
    def _places(cls, given: list[str]) -> list[str]:
        return [checked_storage(one) for one in given]


class Settings(_Settings):
    store: str = Field(
        "recollect.db",
        description="Where memories are stored: a file, duckdb:///…, postgresql://…, dynamodb://… or memory://; or the "
        "address of a service, https://…",
    )
    api_key: SecretStr | None = Field(
        None, description="The key to a service; in a file only if nobody else can read that. See docs/guides/remote.md"
    )
    api_key_file: Path | None = Field(None, description="A file that holds the key to a service, instead of `api_key`")
    remote: RemoteSettings = Field(RemoteSettings(), description="How to wait for a service")
    readonly: bool = Field(
        False, description="Open the store to be read alone: whatever would write is refused, and nothing is written"
    )
    organization: Id = Field("default", description="The organization (tenant) to work in")
    actor: Id | None = Field(None, description="Who is acting; recorded with every change")
    timezone: TimeZone = Field(
        "UTC", description="The time zone for times without one, unless the user has one of their own"
    )
    key: SecretStr | None = Field(
        None, description="The key that the store is encrypted with; see docs/guides/encryption.md"
    )
    key_file: Path | None = Field(None, description="A file that holds the key, instead of `key`")
    key_command: str | None = Field(
        None, description="A command that prints the key, such as that of a password manager; it is run by no shell"
    )
    key_service: str | None = Field(
        None, description="The key service of an installed package, as name or name:address, instead of a key"
    )
    previous_key: SecretStr | None = Field(
        None, description="The key before the current one, until `recollect encryption rewrap` has replaced it"
    )
    previous_key_file: Path | None = Field(None, description="A file that holds the previous key")
    previous_key_command: str | None = Field(None, description="A command that prints the previous key")
    embedder: EmbedderSettings = Field(EmbedderSettings(), description="The embedding model")
    incoming_embedder: EmbedderSettings | None = Field(
        None, description="The embedding model you are moving to; see `reindex`"
    )
    vectors: VectorSettings = Field(VectorSettings(), description="The vector index; see docs/vectors.md")
    kinds: list[Name] = Field(default_factory=list, description="Your own kinds of memory")
    indexed: list[IndexedMember] | None = Field(
        None,
        max_length=20,
        description="Members of content and metadata that memories are often filtered by, such as content.success: "
        "SQLite and PostgreSQL index them. An empty list removes such indexes, none leaves them as they are",
    )
    unknown_kinds: Literal["refuse", "accept"] = Field(
        "refuse", description="What to do with a memory of a kind that is declared nowhere"
    )
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
    evidence: EvidenceSettings = Field(
        EvidenceSettings(), description="Which kinds of citations are enough for verified and for published"
    )
    months_ahead: int = Field(
        3, ge=0, le=120, description="PostgreSQL: how many months of partitions to create in advance"
    )
    citus_shards: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="Citus: into how many shards `migrate --distribute` spreads each table; by default four for each "
        "worker, and at least 16",
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
        30, ge=0, le=36500, description="How many days what was removed can be restored: users, messages, blocks, …"
    )
    strict_owners: bool = Field(
        False,
        description="Whether users, agents, sessions and projects must be added before they are named; otherwise the "
        "first write that names one adds it",
    )
    approval_seconds: float = Field(
        604_800,
        gt=0,
        le=31_622_400,
        description="How long a step of a run waits for approval before it counts as rejected, by default",
    )
    background: bool = Field(
        True,
        description="Whether programs that open the store do background work and index upkeep; the service always does",
    )
    background_seconds: float = Field(
        60.0, gt=0, description="How often a program other than the service looks for background work"
    )
    secrets: Literal["mask", "refuse", "keep"] = Field(
        "mask",
        description="What happens to secrets in texts that are stored, such as API keys, passwords and card numbers: "
        "mask replaces them, refuse refuses the request; see docs/guides/secrets.md",
    )
    secrets_in_files: Literal["mask", "refuse", "keep"] | None = Field(
        None, description="The same for text files in workspaces; by default as in `secrets`"
    )
    secrets_allow: list[str] = Field(
        default_factory=list,
        description="Values that are not secrets: regular expressions for a whole value, or sha256:… of one",
    )
    secrets_also: list[Literal["iban"]] = Field(
        default_factory=list, description="More that is treated as a secret: iban, numbers of bank accounts"
    )
    workspace_file_bytes: int = Field(100_000_000, ge=1, description="The largest file in a workspace, in bytes")
    workspace_files: int = Field(200_000, ge=1, description="How many files a workspace may have")
    workspace_bytes: int = Field(10_000_000_000, ge=1, description="The size of all files in a workspace, in bytes")
    objects: str | None = Field(
        None,
        description="Where uploaded files and other large content are stored: a folder, file:///…, s3://bucket/prefix, "
        "gs://… or az://…; by default a folder beside the store's file",
    )
    object_bytes: int = Field(
        50_000_000_000, ge=0, description="How much large content an organization may store, in bytes"
    )
    objects_cache: Path | None = Field(
        None,
        description="The folder for local copies of content in s3://, gs:// or az://; by default beside the store's "
        "file, else ~/.cache/recollect/objects",
    )
    objects_cache_bytes: int = Field(10_000_000_000, ge=0, description="The size of all local copies, in bytes")
    records_cache_bytes: int = Field(
        220_000_000,
        ge=0,
        description="How much of the memories and vectors that were read from a SQLite store each process keeps in "
        "memory, in bytes; recalls of what is kept take half the time",
    )
    data_processes: int = Field(
        2, ge=1, le=64, description="How many processes read files and run SQL over them, at most"
    )
    data_file_bytes: int = Field(
        16_000_000_000, ge=0, description="How large a file may be that is added as a source, in bytes"
    )
    connections: ConnectionSettings = Field(
        ConnectionSettings(), description="What connections may use over the service; see docs/guides/databases.md"
    )
    retention: list[RetentionTerms] = Field(
        default_factory=list,
        max_length=1000,
        description="How long memories and sessions are kept, and what happens then; see docs/guides/retention.md",
    )
    cold: ColdSettings = Field(ColdSettings(), description="Cold storage; see docs/guides/retention.md")
    backups: BackupSettings = Field(BackupSettings(), description="Backups of the store")
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

    @field_validator("secrets_allow")
    @classmethod
    def _expressions(cls, given: list[str]) -> list[str]:
        for one in given:
            try:
                re.compile(one)
            except re.error as error:
                raise ValueError(f"'{one}' is not a regular expression: {error}") from None
        return given

    @field_validator("objects")
    @classmethod
    def _storage(cls, given: str | None) -> str | None:
        return None if given is None else checked_storage(given)

    @field_validator("vectors", mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        return read_vectors(given) if isinstance(given, str) else given


def read_vectors(short: str) -> dict[str, str]:
    """`chroma+http://host:8000`, `chroma:folder`, `pgvector+postgresql://…`, `postgresql://…` or just a provider."""
    provider, plus, url = short.partition("+")
    if plus and "://" in url and "://" not in provider:
        return {"provider": provider, "url": url}
    if short.startswith(("postgresql://", "postgres://")):
        return {"provider": "pgvector", "url": short}
    if short.startswith("chroma:"):
        return {"provider": "chroma", "path": short.removeprefix("chroma:")}
    return {"provider": short}
