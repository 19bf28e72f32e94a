"""What of the settings is unsafe: files that every user of the machine can read, secrets written out, doors left open.

Nothing is opened or reached for it. What may be meant that way is a note, not a problem.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path

from recollect.app.objects import folder_of
from recollect.app.stores import file_of, key_file_of
from recollect.services.admin.maintenance import DoctorFinding
from recollect.settings import Settings, written_secrets

_PRIVATE = "chmod go-rwx it; it belongs to the user that runs Recollect"
EVERYWHERE = frozenset({"*", "0.0.0.0/0", "::/0"})


def unsafe_settings(settings: Settings, source: str | Path | None) -> Iterator[DoctorFinding]:
    """Problems first of what is stored, then of what can be reached."""
    for what, path in _private_files(settings):
        if _is_open_to_all(path):
            yield _problem("permissions", f"every user of this machine can read {what}, '{path}'", _PRIVATE)
    for name in written_secrets(source):
        remedy = f"write ${{NAME}} or ${{file:/path}} in its place{'; or set key_file' if name == 'key' else ''}"
        yield _problem("secrets", f"the settings file holds a secret in `{name}`", remedy)
    yield from _network(settings)
    store, key = file_of(settings.store), settings.key_file
    if store is not None and key is not None and key.expanduser().resolve().parent == store.resolve().parent:
        says = f"the key file '{key}' lies beside the store: who copies the folder has both"
        yield DoctorFinding(name="encryption", well=True, says=says, remedy="keep the key elsewhere")
    if settings.backups.to is None or settings.backups.every_hours is None:
        remedy = "set backups.to and backups.every_hours, if nothing else backs up this store"
        yield DoctorFinding(name="backups", well=True, says="no backups are made by the service", remedy=remedy)


def _private_files(settings: Settings) -> Iterator[tuple[str, Path]]:
    store, folder = file_of(settings.store), folder_of(settings)
    if store is not None:
        yield "the store", store
        yield "the owner's key", key_file_of(settings.store)
    if folder is not None:
        yield "stored files", folder
    if settings.backups.to is not None and "://" not in settings.backups.to:
        yield "the backups", Path(settings.backups.to).expanduser()
    models = (settings.embedder, settings.incoming_embedder, settings.language_model)
    keys = [model.api_key_file for model in models if model is not None]
    for key in (settings.key_file, *keys, settings.vectors.secret_file, settings.server.key_file):
        if key is not None:
            yield "a file with a key", key.expanduser()


def _is_open_to_all(path: Path) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:  # it is not there, or not ours to look at
        return False
    return os.name != "nt" and bool(mode & stat.S_IROTH)


def _network(settings: Settings) -> Iterator[DoctorFinding]:
    server = settings.server
    if not _is_loopback(server.host) and not server.proxies:
        yield _problem(
            "network",
            f"the service listens on {server.host}, and no TLS proxy is named: keys and memories travel unencrypted",
            "put a proxy with TLS in front and name it in server.proxies, or listen on 127.0.0.1",
        )
    if not _is_loopback(server.host) and not any(
        (settings.key, settings.key_file, settings.key_command, settings.key_service)
    ):
        remedy = "set key_file or key_command; see docs/guides/encryption.md"
        yield DoctorFinding(name="encryption", well=True, says="the store is not encrypted by Recollect", remedy=remedy)
    for host in settings.connections.hosts:
        if host in EVERYWHERE or _is_wide(host):
            yield _problem(
                "connections",
                f"connections.hosts lists '{host}': callers can reach every host that this machine can",
                "list the hosts of the databases that are meant",
            )
    if settings.fetch:
        says = "fetch is on: citing a url makes this machine fetch the page (never from private addresses)"
        yield DoctorFinding(name="fetch", well=True, says=says, remedy="leave it off where callers are not trusted")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_wide(host: str) -> bool:
    """A network of more than 2 ** 16 addresses."""
    try:
        return ip_network(host, strict=False).num_addresses > 1 << 16
    except ValueError:
        return False


def _problem(name: str, says: str, remedy: str) -> DoctorFinding:
    return DoctorFinding(name=name, well=False, says=says, remedy=remedy)
