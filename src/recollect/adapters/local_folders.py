"""Folders of this machine, read and written without ever leaving them.

Every part of a path is opened from the handle of the folder above it, without following links, so a folder that is
swapped for a link in the middle of it leads to an error and not outside. A file is written under a temporary name
and renamed, so it is whole or not there; a link in its place is replaced, never followed.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

from recollect.adapters.atomic_file import clear_left, held, sync_folder, temporary_path, unfinished, write_whole
from recollect.adapters.safe_open import FOLDER, READING, read_regular
from recollect.errors import InvalidInput, StoreFull, Unsupported
from recollect.ports.folders import Found

T = TypeVar("T")
DEEPEST = 100
_WRITING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class LocalFolders:
    """Implements `recollect.ports.folders.Folders`. `store` is the file of the store that is written from, if any: who
    opens it next deletes what a killed process has left half written, wherever that lies."""

    def __init__(self, store: Path | None = None) -> None:
        self._store = store

    def read(self, root: Path, limit: int) -> Iterator[Found]:
        handle = _open_root(root)
        try:
            yield from _walk(handle, "", limit, 0)
        finally:
            os.close(handle)

    def keep(self, path: Path, write: Callable[[BinaryIO], T]) -> T:
        clear_left(path.absolute().parent)
        temporary = temporary_path(path)
        with self._noted(temporary):
            return write_whole(temporary, path, write)

    @contextmanager
    def _noted(self, temporary: Path) -> Iterator[None]:
        with ExitStack() as note:
            if self._store is not None:
                with suppress(OSError):  # beside a store that may only be read nothing can be noted
                    note.enter_context(unfinished(self._store, temporary))
            yield

    def write(self, root: Path, files: Iterable[tuple[str, bytes]]) -> int:
        made = [folder for folder in (root, *root.parents) if not folder.exists()]
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"cannot make '{root}': {error.strerror}", remedy="give a folder to write to") from None
        handle, count = _open_root(root), 0
        touched: set[tuple[str, ...]] = {()}
        try:
            clear_left(handle)
            for path, data in files:
                folders = tuple(path.split("/")[:-1])
                _write(handle, path, data, clears=folders not in touched)
                touched.update(folders[:depth] for depth in range(1, len(folders) + 1))
                count += 1
            for folders in touched:
                _sync(handle, folders)
        finally:
            os.close(handle)
        for folder in made:
            sync_folder(folder.parent)
        return count


def _open_root(root: Path) -> int:
    """The folder itself may be reached through links: whoever names it means where they lead."""
    if os.open not in os.supports_dir_fd:
        raise Unsupported("this system cannot open files beneath a folder safely", remedy="use write and read instead")
    try:
        return os.open(root, FOLDER & ~getattr(os, "O_NOFOLLOW", 0))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not a path"
        raise InvalidInput(f"cannot open the folder '{root}': {why}", remedy="give an existing folder") from None


def _walk(folder: int, prefix: str, limit: int, depth: int) -> Iterator[Found]:
    for name in sorted(os.listdir(folder)):
        path = f"{prefix}{name}"
        try:
            name.encode()
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                yield from _descend(folder, name, path, limit, depth)
            elif stat.S_ISREG(mode):
                data = read_regular(os.open(name, READING, dir_fd=folder), limit)
                yield Found(path, data, "" if data is not None else f"it is larger than {limit} bytes")
            else:
                yield Found(path, None, "it is a link" if stat.S_ISLNK(mode) else "it is not a regular file")
        except UnicodeEncodeError:
            yield Found(os.fsencode(path).decode("utf-8", "replace"), None, "its name is not Unicode")
        except OSError as error:
            yield Found(path, None, f"it cannot be read: {error.strerror}")


def _descend(folder: int, name: str, path: str, limit: int, depth: int) -> Iterator[Found]:
    if depth >= DEEPEST:
        yield Found(path, None, f"it lies more than {DEEPEST} folders deep")
        return
    inner = os.open(name, FOLDER, dir_fd=folder)
    try:
        yield from _walk(inner, f"{path}/", limit, depth + 1)
    finally:
        os.close(inner)


def _write(root: int, path: str, data: bytes, *, clears: bool) -> None:
    *folders, name = path.split("/")
    if not all(part not in ("", ".", "..") and "\x00" not in part for part in (*folders, name)):
        raise InvalidInput(f"'{path[:200]}' does not stay inside the folder", remedy="give paths without '..'")
    handle = os.dup(root)
    try:
        for part in folders:
            handle = _entered(handle, part)
        if clears:
            clear_left(handle)
        _place(handle, name, data)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull("the disk is full", remedy="free some disk space and push again") from None
        raise InvalidInput(
            f"cannot write '{path[:200]}': {error.strerror}",
            remedy="a part of it may be a link or not a folder: remove that, or push into an empty folder",
        ) from None
    finally:
        os.close(handle)


def _sync(root: int, folders: tuple[str, ...]) -> None:
    """The names in a folder, for good: that of a file is on disk only with the folder it stands in."""
    handle = os.dup(root)
    try:
        for part in folders:
            inner = os.open(part, FOLDER, dir_fd=handle)
            os.close(handle)
            handle = inner
        os.fsync(handle)
    except OSError as error:
        where = "/".join(folders)
        raise InvalidInput(
            f"cannot finish writing '{where[:200]}': {error.strerror}",
            remedy="push again while nothing else changes the folder",
        ) from None
    finally:
        os.close(handle)


def _entered(folder: int, name: str) -> int:
    """The folder inside, made if need be; gives the outer one up."""
    with suppress(FileExistsError):  # opening it says whether it is a folder
        os.mkdir(name, dir_fd=folder)
    inner = os.open(name, FOLDER, dir_fd=folder)
    os.close(folder)
    return inner


def _place(folder: int, name: str, data: bytes) -> None:
    """Written under a temporary name, synced, renamed."""
    if _is_folder(folder, name):
        raise IsADirectoryError(errno.EISDIR, "there is a folder of that name")
    temporary = f".recollect-{secrets.token_hex(8)}"
    handle = os.open(temporary, _WRITING, 0o666, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file, held(handle):
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(temporary, dir_fd=folder)
        raise


def _is_folder(folder: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
