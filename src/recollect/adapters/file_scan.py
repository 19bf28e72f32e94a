"""Looking through the files of a store that is in files: its own, and all beside it that begin with its name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from recollect.ports.traces import PIECE_BYTES, ByteSearch, ScannedPlace

Pieces = Callable[[Path], Iterator[bytes]]
_CAT = "import shutil, sys; shutil.copyfileobj(open(sys.argv[1], 'rb'), sys.stdout.buffer, 1 << 20)"


def files_of(store: Path) -> list[Path]:
    """The file of a store, its logs, and what lies beside it under its name: index, stored files."""
    found: list[Path] = []
    for path in sorted(store.absolute().parent.glob(f"{_literal(store.name)}*")):
        found += [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    return found


def _literal(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)


def _plain_pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def pieces_by_child(path: Path) -> Iterator[bytes]:
    """The bytes of a file that is locked by this process, read by another: closing it here would undo the lock."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", _CAT, str(path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        while piece := child.stdout.read(PIECE_BYTES):
            yield piece
    if child.returncode:
        raise FileNotFoundError(str(path))


def scan_files(
    store: Path, needles: Sequence[bytes], own_pieces: Pieces, left_out: Sequence[str] = ()
) -> Iterator[ScannedPlace]:  # fmt: skip
    """Look through every file of a store, its own by `own_pieces`; one that goes meanwhile is not there to be seen."""
    search = ByteSearch(needles)
    for path in files_of(store):
        if path.name in left_out:
            continue
        try:
            is_own = path == store.absolute()
            size, found = search.found_in(own_pieces(path) if is_own else _plain_pieces(path))
        except FileNotFoundError:
            continue
        yield ScannedPlace(str(path.relative_to(store.absolute().parent)), size, found)
