"""The address of an outside database: postgresql://reader@db.example.com/shop, mysql://…, sqlite:///path/to/file.db.

It names a server, never a secret: a password stands in an environment variable or a file, and a connection only
names that. An address with a password in it is refused before it is stored or shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from recollect.errors import InvalidInput

DatabaseEngine = Literal["postgresql", "mysql", "sqlite"]

_ENGINES: dict[str, DatabaseEngine] = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
    "sqlite": "sqlite",
}
_PORTS = {"postgresql": 5432, "mysql": 3306}
_LONGEST = 4000
_HOST = re.compile(r"[a-z0-9._-]{1,253}|[0-9a-f:.]{2,45}", re.IGNORECASE)
_SECRET = re.compile("pass|secret|token|pwd", re.IGNORECASE)
_FORMS = "postgresql://user@host/database, mysql://user@host/database or sqlite:///path/to/file.db"
TLS_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
OPTIONS = frozenset({"sslmode", "sslrootcert", "sslcert", "sslkey"})
_SPELLINGS = {"ssl_mode": "sslmode", "ssl_ca": "sslrootcert", "ssl_cert": "sslcert", "ssl_key": "sslkey"}
_MYSQL_MODES = {
    "disabled": "disable",
    "preferred": "prefer",
    "required": "require",
    "verify_ca": "verify-ca",
    "verify_identity": "verify-full",
}


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """`path` is the file of a SQLite database; the others have a host. `host` may be the folder of a Unix socket."""

    engine: DatabaseEngine
    host: str = ""
    port: int = 0
    database: str = ""
    user: str = ""
    path: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, address: str, options: Mapping[str, object] | None = None) -> DatabaseAddress:
        """Raises InvalidInput, without repeating the address: it may hold what should not be shown."""
        text = address.strip()
        if len(text) > _LONGEST or any(character < " " or character == "\x7f" for character in text):
            raise InvalidInput("the address is too long or has control characters", remedy=f"write {_FORMS}")
        scheme, separator, _ = text.partition("://")
        engine = _ENGINES.get(scheme.lower().partition("+")[0]) if separator else None
        if engine is None:
            raise InvalidInput("this is not the address of a database that can be read", remedy=f"write {_FORMS}")
        try:
            parts = urlsplit(text)
            port, password = parts.port, parts.password
        except ValueError:
            raise InvalidInput("the address cannot be read", remedy=f"write {_FORMS}") from None
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        if password is not None or any(_SECRET.search(name) for name in [*query, *(options or {})]):
            raise InvalidInput(
                "an address must not contain a password",
                remedy="put the password into an environment variable or a file, and name that as the secret",
            )
        known = _options({**query, **{name: str(value) for name, value in (options or {}).items()}})
        if engine == "sqlite":
            return _sqlite(text, known)
        host = unquote(known.pop("host", "") or parts.hostname or "")
        if not host.startswith("/") and not _HOST.fullmatch(host):
            raise InvalidInput("the address has no valid host", remedy=f"write {_FORMS}")
        database = unquote(parts.path.lstrip("/"))
        if not database:
            raise InvalidInput("the address names no database", remedy=f"write {_FORMS}")
        return cls(engine, host, port or _PORTS[engine], database, unquote(parts.username or ""), options=known)

    def __str__(self) -> str:
        """For people: server and database, nothing else."""
        if self.engine == "sqlite":
            return f"sqlite:///{quote(self.path)}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        place = f"{host}:{self.port}" if self.port != _PORTS[self.engine] else host
        if self.host.startswith("/"):
            place = ""
        return f"{self.engine}://{user}{place}/{quote(self.database, safe='')}"


def _sqlite(text: str, options: Mapping[str, str]) -> DatabaseAddress:
    """As SQLAlchemy has it: three slashes before a relative path, four before an absolute one; two are fine, too."""
    path = unquote(re.sub(r"^[^:]+:///?", "", text.partition("?")[0].partition("#")[0]))
    if not path or path == ":memory:" or "\0" in path:
        raise InvalidInput("the address names no file", remedy="write sqlite:///path/to/file.db")
    if options:
        raise InvalidInput("a SQLite file has no options", remedy="write sqlite:///path/to/file.db")
    return DatabaseAddress("sqlite", path=path)


def _options(given: Mapping[str, str]) -> dict[str, str]:
    known = {}
    for name, value in given.items():
        spelt = name.lower().replace("-", "_")
        spelt = _SPELLINGS.get(spelt, spelt)
        if spelt not in OPTIONS | {"host"}:
            raise InvalidInput(
                f"the option '{name[:40]}' of an address cannot be used here",
                remedy=f"use {', '.join(sorted(OPTIONS))}",
            )
        known[spelt] = value
    if "sslmode" in known:
        mode = known["sslmode"].lower()
        known["sslmode"] = _MYSQL_MODES.get(mode.replace("-", "_"), mode)
        if known["sslmode"] not in TLS_MODES:
            raise InvalidInput("sslmode is not known", remedy=f"use {', '.join(TLS_MODES)}")
    return known
