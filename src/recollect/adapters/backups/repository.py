"""A repository of backups at a place: chunks by their hash, and a manifest per backup that lists its chunks.

    chunks/KEY/ab/abcd…    pieces of content, each once (chunks.py, sealing.py)
    backups/TIME-ID        the manifest of a backup: written last, so a backup that was killed is not listed
    keys/KEY               the wrapped data key of a place with encryption
    lock/NUMBER            who writes now (place_lock.py)

Before a backup is written, chunks that no manifest names are deleted: those of backups that were killed or deleted.
(tests/adapters/backups/test_repository.py)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recollect.adapters.backups.chunks import chunks
from recollect.adapters.backups.place import Place
from recollect.adapters.backups.place_lock import locked
from recollect.adapters.backups.sealing import Sealing, Sealings
from recollect.adapters.objects.hashing import pieces_of
from recollect.domain.record import new_id, now
from recollect.errors import DamagedData, NewerStore, NotFound, WrongKey
from recollect.ports.backups import BackedUpObject, BackupInfo, BytesDone, ContentKind
from recollect.ports.keys import KeyService

FORMAT = "recollect-backup-1"
AT_ONCE = 8
_DAMAGED = "take another backup, such as an earlier one"


class _Chunk(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    size: int = Field(ge=0)


class _Content(BaseModel):
    """Bytes that were cut into chunks; `sha256` is of all of them together."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    size: int
    sha256: str
    chunks: list[_Chunk]


class _StoredObject(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    place: str
    digest: str
    content: _Content


class _Manifest(BaseModel):
    """What a backup is made of."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    made_at: datetime
    kind: ContentKind
    version: str
    new_bytes: int
    content: _Content
    objects: list[_StoredObject] = Field(default_factory=list)

    def contents(self) -> Iterator[_Content]:
        yield self.content
        yield from (one.content for one in self.objects)


class Repository:
    """Fills `ports/backups.py:BackupRepository`."""

    def __init__(self, place: Place, keys: KeyService | None) -> None:
        self._place = place
        self._sealings = Sealings(place, keys)

    @property
    def label(self) -> str:
        return self._place.label

    # -- reading -------------------------------------------------------------------------------------------------------

    def backups(self) -> list[BackupInfo]:
        found = []
        for name in self._names():
            with suppress(NotFound):  # deleted a moment ago
                found.append(_info(*self._manifest(name)))
        return found

    def ids(self) -> list[str]:
        return [name.partition("-")[2] for name in self._names()]

    def info(self, id: str) -> BackupInfo:
        return _info(*self._found(id))

    def content(self, id: str) -> Iterator[bytes]:
        manifest, sealing, _ = self._found(id)
        return self._read(manifest.content, sealing)

    def objects(self, id: str) -> Iterator[BackedUpObject]:
        manifest, sealing, _ = self._found(id)
        for one in manifest.objects:
            yield BackedUpObject(one.place, one.digest, one.content.size, partial(self._read, one.content, sealing))

    def check(self, id: str, done: BytesDone) -> None:
        manifest, sealing, _ = self._found(id)
        for content in manifest.contents():
            for piece in self._read(content, sealing):
                done(len(piece))

    def _read(self, content: _Content, sealing: Sealing) -> Iterator[bytes]:
        """Several chunks are fetched ahead; each is checked by its name, all of them together by their hash."""
        digest = hashlib.sha256()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            waiting: list[Future[bytes]] = []
            for chunk in content.chunks:
                waiting.append(pool.submit(self._fetched, chunk, sealing))
                if len(waiting) > AT_ONCE:
                    yield _hashed(waiting.pop(0).result(), digest.update)
            for one in waiting:
                yield _hashed(one.result(), digest.update)
        if digest.hexdigest() != content.sha256:
            raise DamagedData("the backup is damaged: its parts do not make up what was written", remedy=_DAMAGED)

    def _fetched(self, chunk: _Chunk, sealing: Sealing) -> bytes:
        try:
            data = sealing.open(self._place.get(_chunk_name(sealing, chunk.name)), chunk.name)
        except NotFound as error:
            raise DamagedData(error.message, remedy=_DAMAGED) from None
        if len(data) != chunk.size or sealing.name(data) != chunk.name:
            raise DamagedData(f"the part '{chunk.name}' of the backup is damaged", remedy=_DAMAGED)
        return data

    def _names(self) -> list[str]:
        """Of all manifests, newest first."""
        return sorted(self._place.names("backups"), reverse=True)

    def _found(self, id: str) -> tuple[_Manifest, Sealing, str]:
        name = next((name for name in self._names() if name.endswith(f"-{id}")), None)
        if name is None:
            raise NotFound(
                f"there is no backup '{id[:80]}' in {self.label}", remedy="`recollect backup list` shows them"
            )
        return self._manifest(name)

    def _manifest(self, name: str) -> tuple[_Manifest, Sealing, str]:
        """A manifest, how its parts are sealed, and its digest."""
        head, _, body = self._place.get(name).partition(b"\n")
        try:
            header = json.loads(head)
            if header["format"] != FORMAT:
                raise NewerStore("this backup was made by a newer Recollect", remedy="upgrade Recollect")
            sealing = self._sealings.of(header["key"])
            raw = sealing.open(body, name)
            digest = hashlib.sha256(raw).hexdigest()
            if digest != header["digest"] and header["digest"]:
                raise ValueError
            return _Manifest.model_validate_json(raw), sealing, digest
        except (ValueError, KeyError, TypeError, ValidationError):
            raise DamagedData(f"the list of a backup in {self.label} is damaged: '{name}'", remedy=_DAMAGED) from None

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(
        self,
        kind: ContentKind,
        content: Path | Iterable[bytes],
        objects: Iterable[BackedUpObject],
        done: BytesDone,
    ) -> BackupInfo:
        made_at, id = now(), new_id()
        with locked(self._place) as renew:
            sealing = self._sealings.for_writing()
            writer = _Writer(self._place, sealing, self._clear(sealing), renew, done)
            whole = writer.write(pieces_of(content) if isinstance(content, Path) else content)
            stored = self._with_objects(objects, writer)
            manifest = _Manifest(
                id=id, made_at=made_at, kind=kind, version=version("recollect"), new_bytes=writer.new_bytes,
                content=whole, objects=stored,
            )  # fmt: skip
            renew()
            name = f"backups/{made_at:%Y%m%dT%H%M%SZ}-{id}"
            raw = manifest.model_dump_json().encode()
            digest = hashlib.sha256(raw).hexdigest()
            header = {"format": FORMAT, "key": sealing.id, "digest": digest}
            self._place.put(name, json.dumps(header).encode() + b"\n" + sealing.seal(raw, name))
        return _info(manifest, sealing, digest)

    def _with_objects(self, objects: Iterable[BackedUpObject], writer: _Writer) -> list[_StoredObject]:
        """What the place has already is not read again: content is known by its digest."""
        stored = []
        for one in objects:
            content = writer.known_objects.get(one.digest)
            if content is None:
                try:
                    content = writer.write(one.read())
                except NotFound:  # it was deleted for good a moment ago
                    continue
            stored.append(_StoredObject(place=one.place, digest=one.digest, content=content))
        return stored

    def delete(self, ids: Iterable[str]) -> None:
        gone = set(ids)
        with locked(self._place):
            self._place.delete([name for name in self._names() if name.partition("-")[2] in gone])
            self._clear(None)

    def _clear(self, sealing: Sealing | None) -> _Present:
        """Delete what no backup names; gives what is there of the parts sealed in this way.

        Of parts whose manifests cannot be read, because they are damaged or of another key, nothing is deleted.
        """
        self._place.sweep()
        named: dict[str, set[str]] = {}
        unknown, present = set(), _Present()
        for name in self._names():
            try:
                manifest, how, _ = self._manifest(name)
            except (DamagedData, NewerStore, WrongKey):
                unknown.add(_key_of(self._place.get(name)))
                continue
            parts = named.setdefault(how.id, set())
            parts.update(chunk.name for content in manifest.contents() for chunk in content.chunks)
            if sealing is not None and how.id == sealing.id:
                present.objects.update({one.digest: one.content for one in manifest.objects})
        left = []
        for name in self._place.names("chunks"):
            _, key, _, part = name.split("/")
            if part in named.get(key, ()):
                present.parts.update({part} if sealing is not None and key == sealing.id else ())
            elif key not in unknown and None not in unknown:
                left.append(name)
        self._place.delete(left)
        present.objects = {
            digest: content
            for digest, content in present.objects.items()
            if all(chunk.name in present.parts for chunk in content.chunks)
        }
        return present


class _Present:
    """What a place has already: parts by name, objects by digest."""

    def __init__(self) -> None:
        self.parts: set[str] = set()
        self.objects: dict[str, _Content] = {}


class _Writer:
    """Stores content in chunks, several at once, those that are new."""

    def __init__(
        self, place: Place, sealing: Sealing, present: _Present, renew: Callable[[], None], done: BytesDone
    ) -> None:
        self._place, self._sealing, self._present = place, sealing, present
        self._renew, self._done = renew, done
        self.known_objects = present.objects
        self.new_bytes = 0

    def write(self, pieces: Iterable[bytes]) -> _Content:
        digest, size, listed = hashlib.sha256(), 0, []
        with ThreadPoolExecutor(AT_ONCE) as pool:
            waiting: list[Future[int]] = []
            for data in chunks(pieces):
                name = self._sealing.name(data)
                listed.append(_Chunk(name=name, size=len(data)))
                digest.update(data)
                size += len(data)
                if name not in self._present.parts:
                    self._present.parts.add(name)
                    waiting.append(pool.submit(self._store, name, data))
                if len(waiting) > AT_ONCE:
                    self.new_bytes += waiting.pop(0).result()
                self._renew()
                self._done(len(data))
            self.new_bytes += sum(one.result() for one in waiting)
        return _Content(size=size, sha256=digest.hexdigest(), chunks=listed)

    def _store(self, name: str, data: bytes) -> int:
        sealed = self._sealing.seal(data, name)
        self._place.put(_chunk_name(self._sealing, name), sealed)
        return len(sealed)


def _hashed(data: bytes, update: Callable[[bytes], None]) -> bytes:
    update(data)
    return data


def _chunk_name(sealing: Sealing, name: str) -> str:
    return f"chunks/{sealing.id}/{name[:2]}/{name}"


def _key_of(raw: bytes) -> str | None:
    """The key of a manifest that cannot be read; None where not even that can be told."""
    try:
        key = json.loads(raw.partition(b"\n")[0])["key"]
        return str(key)
    except (ValueError, KeyError, TypeError):
        return None


def _info(manifest: _Manifest, sealing: Sealing, digest: str) -> BackupInfo:
    return BackupInfo(
        id=manifest.id,
        made_at=manifest.made_at,
        kind=manifest.kind,
        bytes=sum(content.size for content in manifest.contents()),
        new_bytes=manifest.new_bytes,
        objects=len(manifest.objects),
        digest=digest,
        encrypted=sealing.id != "plain",
        version=manifest.version,
    )
