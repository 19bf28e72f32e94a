"""A disk for SQLite that loses what was not synced, as apsw VFS and for as many power cuts as one likes.

SQLite reads and writes real files as always. Beside them the disk keeps what is on its platters: a write goes there
when its file is synced. A cut does not stop anything: it makes an image, a folder with the files as they would be found
after power came back, and the run goes on to the next cut. In the image each sector of each write not synced yet has
survived or not, whatever happened to the others, or has become garbage; files made, cut short or deleted since the
folder was last synced likewise (the file system syncs a folder with the first sync of a journal made in it). Sectors
that were not written keep their bytes, as SQLite assumes of today's disks ("powersafe overwrite").
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import workload

import recollect

SECTOR = 512
PIECE = 4096
MADE_BY_SYNC = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
GARBAGE = 0.02
AROUND_A_SYNC = 8  # so many times likelier than at a write: where the promise is kept or broken


@dataclass
class Platter:
    """One file: its synced bytes, what was done to it since, and whether its name would be found again."""

    synced: bytearray = field(default_factory=bytearray)
    since: list[tuple[int, bytes | None]] = field(default_factory=list)  # (offset, data), or (size, None)
    is_named: bool = False

    def sync(self) -> None:
        for offset, data in self.since:
            _apply(self.synced, offset, data)
        self.since = []

    def after_a_cut(self, chance: random.Random) -> bytes:
        found = bytearray(self.synced)
        odds = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for offset, data in self.since:
            if data is None:
                if chance.random() < odds:
                    _apply(found, offset, None)
                continue
            for start, piece in _sectors(offset, data):
                if chance.random() < odds:
                    _apply(found, start, piece)
                elif chance.random() < GARBAGE:
                    _apply(found, start, chance.randbytes(len(piece)))
        return bytes(found)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _sectors(offset: int, data: bytes) -> list[tuple[int, bytes]]:
    first = SECTOR - offset % SECTOR
    cuts = [0, *range(first, len(data), SECTOR), len(data)]
    return [(offset + start, data[start:stop]) for start, stop in itertools.pairwise(cuts) if start < stop]


class Disk:
    """All files of one folder, and the cuts."""

    def __init__(self, folder: Path, chance: random.Random, every: int) -> None:
        self.folder = folder
        self.chance = chance
        self.every = every
        self.platters = {
            path.name: Platter(bytearray(path.read_bytes()), is_named=True)
            for path in folder.iterdir()
            if path.is_file()
        }
        self.deleted: dict[str, Platter] = {}  # since the folder was synced
        self.images: list[Path] = []
        self.into: Path | None = None
        self.lock = threading.RLock()
        self.on_cut: Any = None

    def happen(self, weight: int = 1) -> None:
        """Something is about to reach the disk, or just did: the power may go now."""
        if self.into is not None and self.chance.randrange(self.every) < weight:
            self.cut(self.into / str(len(self.images)))

    def cut(self, image: Path) -> None:
        image.mkdir()
        found = {name: platter for name, platter in self.platters.items() if platter.is_named or self._kept()}
        for name, platter in self.deleted.items():
            if name not in found and self._kept():
                found[name] = platter
        for name, platter in found.items():
            (image / name).write_bytes(platter.after_a_cut(self.chance))
        self.images.append(image)
        self.on_cut(image)

    def _kept(self) -> bool:
        return self.chance.random() < 0.5

    def make(self, name: str) -> None:
        if name not in self.platters:
            self.platters[name] = Platter()

    def delete(self, name: str) -> None:
        platter = self.platters.pop(name, None)
        if platter is not None and platter.is_named:
            self.deleted[name] = platter

    def sync_folder(self) -> None:
        for platter in self.platters.values():
            platter.is_named = True
        self.deleted = {}


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, filename: Any, flags: list[int]) -> None:
        super().__init__("unix", filename, flags)
        path = Path(filename.filename() if isinstance(filename, apsw.URIFilename) else filename)
        self._disk = disk
        self._name = path.name
        self._names_by_sync = bool(flags[0] & MADE_BY_SYNC)
        assert path.parent == disk.folder, path
        with disk.lock:
            disk.make(self._name)

    def xWrite(self, data: bytes, offset: int) -> None:
        with self._disk.lock:
            super().xWrite(data, offset)
            for start in range(0, len(data), PIECE):  # the power may go in the midst of a large one
                self._platter().since.append((offset + start, bytes(data[start : start + PIECE])))
                self._disk.happen()

    def xTruncate(self, size: int) -> None:
        with self._disk.lock:
            super().xTruncate(size)
            self._platter().since.append((size, None))
            self._disk.happen()

    def xSync(self, flags: int) -> None:
        with self._disk.lock:  # not passed on: nothing here needs to survive a real cut
            self._disk.happen(AROUND_A_SYNC)
            platter = self._platter()
            platter.sync()
            if self._names_by_sync and not platter.is_named:
                self._disk.sync_folder()
            self._disk.happen(AROUND_A_SYNC)

    def _platter(self) -> Platter:
        """Of this file; one that was deleted while open is nowhere to be found after a cut."""
        return self._disk.platters.get(self._name) or Platter()


class DiskVFS(apsw.VFS):
    """The default VFS from now on, so that SQLite's checksum VFS stands on it."""

    def __init__(self, disk: Disk) -> None:
        super().__init__("power-cut", "unix", makedefault=True)
        self._disk = disk

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return DiskFile(self._disk, name, flags) if name else apsw.VFSFile("unix", name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        with self._disk.lock:
            super().xDelete(filename, syncdir)
            self._disk.delete(Path(filename).name)
            if syncdir:
                self._disk.sync_folder()
            self._disk.happen()


def run(
    path: str,
    log: str,
    images: str,
    life: int,
    seed: str,
    states: dict[str, Any],
    cuts: int,
    every: int,
    synchronous: str | None = None,
) -> None:
    """Mixed writes by three threads until there were so many power cuts; the log says which cut came when."""
    chance = random.Random(seed)
    disk = Disk(Path(path).parent, chance, every)
    entries: list[dict[str, Any]] = []
    disk.on_cut = lambda image: entries.append({"cut": str(image)})
    vfs = DiskVFS(disk)
    disk.into = Path(images)
    turns = itertools.takewhile(lambda _: len(disk.images) < cuts, itertools.count())
    with recollect.open(path, embedder="hash") as mem:
        if synchronous is not None:
            store: Any = mem._core.store
            store._tables._connection.execute(f"PRAGMA synchronous = {synchronous}")
        workload.at_work(workload.hands(mem, life, 3, seed, entries.append, states), turns)
    disk.into = None
    vfs.unregister()
    Path(log).write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    shutil.rmtree(Path(path).with_name(Path(path).name + ".index"), ignore_errors=True)
