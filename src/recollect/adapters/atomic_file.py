"""Files that are whole or not there: written under a temporary name, synced, renamed. What killed
processes left of them is deleted; a file that somebody deleted or exchanged under us is noticed.
"""

from __future__ import annotations

import glob
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

from recollect.errors import FileReplaced
from recollect.ports.folders import private_opener

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")
_TEMPORARY_ENDINGS = (".part", ".restoring")
_LEFT = re.compile(r"\.recollect-[0-9a-f]{16}|.+\.recollect-[0-9a-f]{16}\.part", re.DOTALL)
_SECONDS_UNTIL_LOCKED = 60
_ZEROS = bytes(1 << 20)
_PIECES = ("", "-journal", "-wal", "-shm", "-notes")


def locked(handle: int, *, wait: bool) -> bool:
    """Whether the lock on an open file is ours; the kernel gives it back when the process dies."""
    if fcntl is None:
        return wait  # nobody else can be told to be gone
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


@contextmanager
def unfinished(store: Path, temporary: Path) -> Iterator[None]:
    """While a copy of a store is written, a note beside the store says where: a killed process leaves both.

    The note is locked for as long as its writer lives, so whoever opens the store next knows what nobody writes now.
    """
    note = store.with_name(f"{store.name}.writing-{secrets.token_hex(6)}")
    handle = os.open(note, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        locked(handle, wait=True)
        os.write(handle, os.fsencode(temporary.absolute()))
        yield
    finally:
        os.close(handle)
        note.unlink(missing_ok=True)


def clear_unfinished(store: Path) -> list[Path]:
    """Delete the copies that killed processes have left half written; says which. Only what a note of ours names."""
    cleared = []
    for name in glob.glob(f"{glob.escape(str(store.absolute()))}.writing-*"):
        with suppress(OSError):  # finished a moment ago, or not ours to delete
            handle = os.open(name, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
            try:
                if not locked(handle, wait=False):
                    continue
                temporary = Path(os.fsdecode(os.read(handle, 8192)))
                if temporary.suffix in _TEMPORARY_ENDINGS and temporary.is_absolute():
                    for ending in _PIECES:
                        temporary.with_name(temporary.name + ending).unlink(missing_ok=True)
                    os.unlink(name)
                    cleared.append(temporary)
            finally:
                os.close(handle)
    return cleared


def temporary_path(path: Path) -> Path:
    """The name a file is written under until it is whole: nobody else's, and known for ours."""
    return path.with_name(f"{path.name}.recollect-{secrets.token_hex(8)}.part")


@contextmanager
def held(handle: int) -> Iterator[None]:
    """An open file is locked to the end of the block, also when it has been closed and renamed before."""
    if fcntl is None:
        yield
        return
    kept = os.dup(handle)
    try:
        locked(kept, wait=True)
        yield
    finally:
        os.close(kept)


def clear_left(folder: int | Path) -> None:
    """Delete what killed processes have left half written in a folder: named as ours alone are, and held by nobody."""
    if fcntl is None:
        return
    handle = os.open(folder, os.O_RDONLY) if isinstance(folder, Path) else os.dup(folder)
    try:
        for name in filter(_LEFT.fullmatch, os.listdir(handle)):
            with suppress(OSError):  # finished a moment ago, or not ours to delete
                _clear(handle, name)
    finally:
        os.close(handle)


def _clear(folder: int, name: str) -> None:
    left = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        there = os.fstat(left)
        # An empty one may be about to be locked by its writer, but not for long.
        if locked(left, wait=False) and (there.st_size or there.st_mtime < time.time() - _SECONDS_UNTIL_LOCKED):
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(left)


def write_whole(temporary: Path, target: Path, write: Callable[[BinaryIO], T]) -> T:
    """Let a file be written, and give it its name when it is whole and on disk; of one that fails nothing is left."""
    temporary.unlink(missing_ok=True)
    try:
        with open(temporary, "x+b", buffering=1 << 20, opener=private_opener) as file, held(file.fileno()):
            result = write(file)
            file.flush()
            os.fsync(file.fileno())
            file.close()
            publish(temporary, target)
        return result
    finally:
        temporary.unlink(missing_ok=True)


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)


@contextmanager
def atomic_path(target: Path, store: Path | None = None, discard: Callable[[Path], object] = _delete) -> Iterator[Path]:
    """A path for others to write to; it becomes `target` when the block ends, and is deleted if the block fails.

    `store` is the store that is copied, which remembers the path in case the process is killed (`unfinished`);
    `discard` deletes a file together with what its writer may have put beside it.
    """
    temporary = target.with_name(target.name + ".part")
    discard(temporary)
    with unfinished(store, temporary) if store is not None else nullcontext():
        try:
            yield temporary
            sync_file(temporary)
            publish(temporary, target)
        finally:
            discard(temporary)


def publish(temporary: Path, target: Path) -> None:
    """Give a finished file its name, for good: the folder is synced too."""
    temporary.replace(target)
    sync_folder(target.parent)


def sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """The names in a folder, for good."""
    if os.name != "nt":
        sync_file(folder)


def wipe(path: Path) -> None:
    """Delete a file after its bytes were overwritten."""
    handle = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        overwrite(handle)
    finally:
        os.close(handle)
    path.unlink(missing_ok=True)


def overwrite(handle: int) -> None:
    """The bytes of an open file, with zeros, for good as far as the disk writes in place."""
    left = os.fstat(handle).st_size
    os.lseek(handle, 0, os.SEEK_SET)
    while left > 0:
        left -= os.write(handle, _ZEROS[: min(left, len(_ZEROS))])
    os.fsync(handle)


def identity(path: Path) -> tuple[int, int] | None:
    """Which file has this name; None if none has."""
    try:
        there = os.stat(path)
    except OSError:
        return None
    return there.st_dev, there.st_ino


def is_named(handle: int, path: Path) -> bool:
    """Whether an open file has this name still: it may have been deleted, or another put in its place."""
    opened = os.fstat(handle)
    return identity(path) == (opened.st_dev, opened.st_ino)


def refuse_replaced(path: Path, opened: tuple[int, int] | None) -> None:
    """What is written to a file that was deleted or exchanged is written into nothing."""
    if identity(path) != opened:
        raise FileReplaced(
            f"'{path.name}' was deleted, moved or replaced while it was in use; nothing more is written to it",
            remedy="close it and open it again; what was acknowledged before is in the file that was taken away",
        )
