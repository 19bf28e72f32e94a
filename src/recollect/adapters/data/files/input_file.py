"""A file as it came, made readable: a regular file, unpacked, in UTF-8, all of it within the limits."""

from __future__ import annotations

import codecs
import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from recollect.adapters.data.files.raw_table import InputFile
from recollect.errors import DamagedData, InvalidInput, MissingExtra, NotFound, TooLarge
from recollect.ports.data import Limits

_CHUNK = 1 << 20
_KINDS = {stat.S_ISDIR: "a folder", stat.S_ISLNK: "a link", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket",
          stat.S_ISCHR: "a device", stat.S_ISBLK: "a device"}  # fmt: skip


@contextmanager
def opened(path: Path, folder: Path, limits: Limits) -> Iterator[InputFile]:
    """The file, unpacked if need be. Raises when it was changed while it was read."""
    before = _looked_at(path)
    if before.st_size > limits.input_megabytes << 20:
        raise TooLarge(f"the file is larger than {limits.input_megabytes:,} MB", remedy="split it, or allow more")
    notes: list[str] = []
    unpacked = _unpacked(path, folder, limits, notes)
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in (".gz", ".zst", ".zstd")]
    yield InputFile(unpacked, path.name, suffixes[-1] if suffixes else "", folder, limits, notes)
    after = _looked_at(path)
    if (before.st_ino, before.st_size, before.st_mtime_ns) != (after.st_ino, after.st_size, after.st_mtime_ns):
        raise InvalidInput("the file was changed while it was read", remedy="add it again when nobody writes to it")


def _looked_at(path: Path) -> os.stat_result:
    try:
        found = os.lstat(path)
    except OSError:
        raise NotFound(f"there is no file '{path.name}'", remedy="check the path") from None
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for test, name in _KINDS.items() if test(found.st_mode)), "not a file")
        raise InvalidInput(f"'{path.name}' is {kind}", remedy="give a regular file")
    return found


def head_of(path: Path, size: int = 64) -> bytes:
    with open(path, "rb") as file:
        return file.read(size)


def _unpacked(path: Path, folder: Path, limits: Limits, notes: list[str]) -> Path:
    head = head_of(path)
    if not head:
        raise InvalidInput(f"'{path.name}' is empty", remedy="give a file with at least one row")
    if head.startswith(b"\x1f\x8b"):
        return _copied(gzip.open(path, "rb"), folder / "unpacked", limits)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return _copied(_zstd(path), folder / "unpacked", limits)
    if head.startswith((b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!")):
        raise InvalidInput(f"'{path.name}' is packed in a way that is not known", remedy="unpack it, or use gz or zst")
    return path


def _zstd(path: Path) -> IO[bytes]:
    try:
        from compression import zstd  # Python 3.14
    except ImportError:
        try:
            from backports import zstd
        except ImportError:
            raise MissingExtra("zstd is not installed", remedy="pip install 'recollect[data]'") from None
    found: IO[bytes] = zstd.open(path, "rb")
    return found


def _copied(source: IO[bytes] | gzip.GzipFile, target: Path, limits: Limits) -> Path:
    """Unpack up to the limit: a few kilobytes may unpack to a terabyte."""
    most = min(limits.input_megabytes, limits.disk_megabytes) << 20
    size = 0
    try:
        with source, open(target, "wb") as file:
            while chunk := source.read(_CHUNK):
                size += len(chunk)
                if size > most:
                    raise TooLarge(f"the file unpacks to more than {most >> 20:,} MB", remedy="split it, or allow more")
                file.write(chunk)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DamagedData(f"the file cannot be unpacked: {str(error)[:120]}", remedy="pack it again") from None
    except Exception as error:
        if type(error).__name__ != "ZstdError":  # the class is where the module was found
            raise
        raise DamagedData(f"the file cannot be unpacked: {str(error)[:120]}", remedy="pack it again") from None
    return target


def as_utf8(file: InputFile) -> Path:
    """The text of a file in UTF-8: the file itself where it is, else a copy."""
    encoding = _encoding(file.path, file.name)
    if encoding in ("utf-8", "utf-8-sig"):
        return file.path
    file.notes.append(f"read as {encoding}")
    target = file.folder / "utf-8"
    decode = codecs.getincrementaldecoder(encoding)(errors="replace" if encoding == "cp1252" else "strict")
    try:
        with open(file.path, "rb") as source, open(target, "w", encoding="utf-8", newline="") as copy:
            while chunk := source.read(_CHUNK):
                copy.write(decode.decode(chunk))
            copy.write(decode.decode(b"", final=True))
    except UnicodeError:
        raise DamagedData(f"the file is not {encoding}, as it seems to be", remedy="save it as UTF-8") from None
    return target


def _encoding(path: Path, name: str) -> str:
    head = head_of(path, 4096)
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if even + odd:
        # Latin letters in UTF-16 without a mark: every second byte is zero.
        if odd > len(head) // 4 and even < odd // 8:
            return "utf-16-le"
        if even > len(head) // 4 and odd < even // 8:
            return "utf-16-be"
        raise InvalidInput(f"'{name}' is not a text file", remedy="give CSV, JSON, Parquet, Excel or SQLite")
    wrong, right = _utf8_sequences(path)
    # A file with a few broken letters among many right ones is damaged UTF-8: its broken rows are rejected, and shown.
    return "utf-8" if right >= wrong else "cp1252"


def _utf8_sequences(path: Path) -> tuple[int, int]:
    """How many bytes are wrong in UTF-8, and how many letters beyond ASCII are right."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    wrong = right = 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            text = decoder.decode(chunk)
            if not text.isascii():
                broken = text.count("\ufffd")
                wrong += broken
                right += len(text.encode("utf-8")) - len(text) - 2 * broken
            if wrong > 1000 and wrong > right:
                break
    return wrong, right
