"""Errors of stores that are one file: what the driver and the disk raise becomes an error of Recollect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from recollect.errors import DamagedData, InvalidInput, RecollectError, StoreError, StoreFull, StoreReadOnly

E = TypeVar("E", bound=Exception)


class FileErrors(Generic[E]):
    """Translates the errors of a driver, of its values and of the disk. As a generator it took twice the time."""

    __slots__ = ("_driver", "_path", "_recollect_error")

    def __init__(self, path: Path, driver: type[E], recollect_error: Callable[[E, Path], RecollectError]) -> None:
        self._path, self._driver, self._recollect_error = path, driver, recollect_error

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        path = self._path
        if error is None or isinstance(error, RecollectError):
            return
        if isinstance(error, self._driver):
            raise self._recollect_error(error, path) from error
        if isinstance(error, UnicodeDecodeError):  # bytes of the file that are not text
            raise damaged(path) from error
        if isinstance(error, UnicodeError | OverflowError):
            raise InvalidInput(f"a value does not fit into '{path.name}': {error}") from error
        if isinstance(error, OSError):
            raise disk_error(path, error.strerror or "", error) from error


def damaged(path: Path) -> DamagedData:
    remedy = "run `recollect verify` to see what is affected, then restore a backup"
    return DamagedData(f"'{path.name}' is damaged", remedy=remedy)


def disk_error(path: Path, said: str, error: Exception) -> RecollectError:
    if "No space left" in said:
        return StoreFull(f"no space left for '{path.name}'", remedy="free some disk space; nothing was half written")
    if "Permission denied" in said or "Read-only" in said or isinstance(error, PermissionError):
        return StoreReadOnly(
            f"'{path.name}' cannot be written", remedy="check the permissions of the file and its folder"
        )
    if "No such file" in said or isinstance(error, FileNotFoundError | NotADirectoryError):
        return StoreError(
            f"cannot open '{path}'", remedy="check that its folder exists and that you may read and write there"
        )
    reason = (said or type(error).__name__).splitlines()[0][:300]
    return StoreError(f"the disk failed under '{path.name}': {reason}", remedy="check the disk")
