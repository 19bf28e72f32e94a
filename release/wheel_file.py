"""Wheels as files: written whole, with one time for every member, so that the same input gives the same bytes."""

from __future__ import annotations

import base64
import hashlib
import os
import zipfile
from pathlib import Path
from time import gmtime


def written(wheel: Path, members: dict[str, bytes], info: str) -> Path:
    """A wheel with these members and the RECORD of them, which stands last in the folder `info`."""
    record = f"{info}/RECORD"
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in members.items()]
    listing = "\n".join([*lines, f"{record},,", ""]).encode()
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in {**members, record: listing}.items():
            member = zipfile.ZipInfo(name, moment())
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16 | 0o100000 << 16
            archive.writestr(member, content)
    return wheel


def members_of(wheel: Path) -> dict[str, bytes]:
    """Everything in a wheel but its RECORD."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith(".dist-info/RECORD")}


def tagged(metadata: bytes, tag: str) -> bytes:
    """The file WHEEL for another platform; `cp311-abi3-win_amd64` is no longer pure."""
    kept = [
        line for line in metadata.decode().splitlines() if line and not line.startswith(("Tag:", "Root-Is-Purelib:"))
    ]
    python, abi, platforms = tag.split("-")
    tags = [f"Tag: {python}-{abi}-{platform}" for platform in platforms.split(".")]
    return "\n".join([*kept, f"Root-Is-Purelib: {'true' if platforms == 'any' else 'false'}", *tags, ""]).encode()


def moment() -> tuple[int, int, int, int, int, int]:
    """SOURCE_DATE_EPOCH, which `make release` sets to the time of the last commit."""
    return gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "1577836800")))[:6]


def sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
