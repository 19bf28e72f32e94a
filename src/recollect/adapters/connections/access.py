"""Which hosts, files and secrets a connection may use.

In process, whoever opens the store could connect without us, so nothing is closed. Over the network nothing is open but
what the settings list. A host is looked up once and the connection goes to the very address that was judged, so a name
that answers differently the second time gains nothing. Loopback and link-local addresses, where this machine's own
services and cloud metadata live, must be listed themselves: a listed name that points there is not enough.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recollect.domain.database_address import DatabaseAddress
from recollect.errors import Denied, NotFound, Unavailable

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Lookup = Callable[[str, int], list[str]]
FILE_OPTIONS = ("sslrootcert", "sslcert", "sslkey")


def system_lookup(host: str, port: int) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


@dataclass(frozen=True)
class ConnectionAccess:
    """`hosts`: names (with or without a port), addresses and networks; `folders` of files; names of `secrets`."""

    hosts: Sequence[str] = ()
    folders: Sequence[Path] = ()
    secrets: Sequence[str] = ()
    lookup: Lookup = field(default=system_lookup, repr=False)

    def judged_host(self, address: DatabaseAddress) -> str:
        """The address to connect to, from one lookup."""
        if address.host.startswith("/"):
            raise _closed("a Unix socket", "connections.hosts", "the name of a host")
        names, networks = self._listed(address.port)
        host = address.host.lower().rstrip(".")
        is_named = host in names
        if not is_named and not networks:  # not even looked up: the answer would tell what names exist
            raise _closed(f"the host {address.host}", "connections.hosts", address.host)
        try:
            found = [ipaddress.ip_address(one) for one in self.lookup(host, address.port)]
        except (OSError, UnicodeError, ValueError):
            raise Unavailable(
                f"the host {address.host} cannot be looked up", remedy="correct the host in the address"
            ) from None
        for one in found:
            if self._is_allowed(_plain(one), is_named or host == "localhost", names, networks):
                return str(one)
        raise _closed(f"the host {address.host}", "connections.hosts", address.host)

    def _listed(self, port: int) -> tuple[set[str], list[Network]]:
        names, networks = set(), []
        for entry in self.hosts:
            text = entry.strip().lower().rstrip(".")
            try:
                networks.append(ipaddress.ip_network(text.strip("[]")))
                continue
            except ValueError:
                name, colon, given = text.rpartition(":")
            if not colon:
                names.add(text)
            elif given == str(port):
                names.add(name)
        return names, networks

    def _is_allowed(self, ip: IpAddress, is_named: bool, names: set[str], networks: list[Network]) -> bool:
        if any(ip in network for network in networks if network.version == ip.version):
            return True
        if ip.is_loopback and "localhost" in names:
            return True
        is_special = ip.is_loopback or ip.is_link_local or ip.is_multicast or ip.is_unspecified or ip.is_reserved
        return is_named and not is_special

    def check_file(self, path: str) -> None:
        """Only what is spelt inside a listed folder is looked for, and links that lead out of it are not followed."""
        spelt = Path(os.path.abspath(path))
        folders = [Path(os.path.abspath(one.expanduser())) for one in self.folders]
        inside = [folder for folder in folders if spelt.is_relative_to(folder)]
        if not inside or not any(spelt.resolve().is_relative_to(folder.resolve()) for folder in inside):
            raise _closed("this file", "connections.folders", "its folder")

    def check_secret(self, name: str) -> None:
        if name not in self.secrets:
            raise _closed(f"the secret {name[:80]}", "connections.secrets", name[:80])


def secret_value(name: str, read: Callable[[str], str | None]) -> str:
    value = read(name)
    if not value:
        what = f"the file '{name[5:][:200]}'" if name.startswith("file:") else f"the environment variable {name[:80]}"
        raise NotFound(f"the secret of the connection is missing: {what}", remedy="set it where Recollect runs")
    return value


def _plain(ip: IpAddress) -> IpAddress:
    """An IPv4 address that is written as an IPv6 one is judged as what it is."""
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return mapped or ip


def _closed(what: str, setting: str, entry: str) -> Denied:
    return Denied(
        f"{what} is not open for connections of this service",
        remedy=f"an operator can add {entry} to the setting {setting}",
    )
