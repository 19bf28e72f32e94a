"""Files that are encrypted where the store has a key: written piece by piece, read from any place."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from recollect.adapters.encryption.sealed import PIECE, SealedPieces, SealedWriter, is_sealed
from recollect.errors import WrongKey
from recollect.ports.keys import KeyService, Writable


class SealedFiles:
    """Without a key service files are written as they are."""

    def __init__(self, keys: KeyService | None) -> None:
        self._keys = keys

    @property
    def is_on(self) -> bool:
        return self._keys is not None

    @contextmanager
    def sealing(self, file: Writable) -> Iterator[Writable]:
        if self._keys is None:
            yield file
            return
        writer = SealedWriter(file, self._keys)
        yield writer
        writer.end()

    @contextmanager
    def opened(self, path: Path) -> Iterator[BinaryIO]:
        with path.open("rb") as file:
            if not is_sealed(path):
                yield file
                return
            if self._keys is None:
                raise WrongKey(
                    f"'{path.name}' is encrypted",
                    remedy="give the key of the store that wrote it: `key`, `key_file` or `key_command`",
                )
            yield io.BufferedReader(_SealedReader(SealedPieces(_FileSlices(file), self._keys)), PIECE)

    def is_sealed(self, path: Path) -> bool:
        return is_sealed(path)


class _FileSlices:
    """A file that is read where it is needed; somebody may cut it meanwhile, which a mapping would not survive."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def __len__(self) -> int:
        return self._file.seek(0, io.SEEK_END)

    def __getitem__(self, place: slice) -> bytes:
        self._file.seek(place.start)
        return self._file.read(place.stop - place.start)


class _SealedReader(io.RawIOBase):
    def __init__(self, pieces: SealedPieces) -> None:
        self._pieces, self._place = pieces, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._pieces.size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        number, start = divmod(self._place, PIECE)
        if number >= self._pieces.count:
            return 0
        some = self._pieces.piece(number)[start : start + len(buffer)]
        buffer[: len(some)] = some
        self._place += len(some)
        return len(some)
