"""Opens outside databases by their address, as far as the operator allows it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from recollect.adapters.connections.access import FILE_OPTIONS, ConnectionAccess, secret_value
from recollect.adapters.connections.jobs import Jobs
from recollect.domain.database_address import DatabaseAddress
from recollect.errors import MissingExtra
from recollect.ports.connections import OutsideDatabase

_PACKAGES = {
    "postgresql": ("sqlglot", "pyarrow", "adbc_driver_postgresql"),
    "mysql": ("sqlglot", "pyarrow", "pymysql"),
    "sqlite": ("sqlglot", "pyarrow"),
}


@dataclass(frozen=True)
class Databases:
    """Fills `OutsideDatabases`. `secret` reads an environment variable, or a file where the name begins with file:."""

    access: ConnectionAccess
    secret: Callable[[str], str | None]
    jobs: Jobs = field(default_factory=Jobs)

    def open(
        self, address: str, secret_name: str | None, options: Mapping[str, object], *, confined: bool
    ) -> OutsideDatabase:
        parsed = DatabaseAddress.parse(address, options)
        for package in _PACKAGES[parsed.engine]:
            if importlib.util.find_spec(package) is None:
                raise MissingExtra(f"{package} is not installed", remedy="pip install 'recollect[connections]'")
        at = ""
        if confined:
            if secret_name is not None:
                self.access.check_secret(secret_name)
            for name in FILE_OPTIONS:
                if name in parsed.options and parsed.options[name] != "system":
                    self.access.check_file(parsed.options[name])
            if parsed.engine == "sqlite":
                self.access.check_file(parsed.path)
            else:
                at = self.access.judged_host(parsed)
        if parsed.engine == "sqlite":
            from recollect.adapters.connections.sqlite import SqliteFile

            return SqliteFile(parsed, self.jobs)
        password = secret_value(secret_name, self.secret) if secret_name is not None else None
        if parsed.engine == "mysql":
            from recollect.adapters.connections.mysql import MySqlServer

            return MySqlServer(parsed, password, self.jobs, at=at)
        from recollect.adapters.connections.postgres import PostgresServer

        return PostgresServer(parsed, password, self.jobs, at=at)

    def cancel(self, job: str) -> bool:
        return self.jobs.cancel(job)

    def close(self) -> None:
        self.jobs.close()
