"""The compiled kernels for every platform, built on this one: `zig cc` compiles C for all of them.

They use the limited API of Python 3.11, so one file serves every Python from 3.11 on. On Windows they are linked with
an import library made from `windows/python3.def`, elsewhere Python's functions are found when a module is loaded.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = HERE.parent / "src"
KERNELS = (
    "recollect/adapters/records/sqlite/_log_writes",
    "recollect/adapters/vectors/embedded/_scan",
    "recollect/domain/text/pool_words/_words",
)


@dataclass(frozen=True)
class Platform:
    """What a wheel for it is called, and what zig calls it."""

    tag: str
    target: str
    machine: str = ""
    """What `dlltool` calls the processor, for Windows."""

    def member(self, kernel: str) -> str:
        return f"{kernel}{'.pyd' if self.machine else '.abi3.so'}"

    @property
    def wheel_tag(self) -> str:
        return f"cp311-abi3-{self.tag}"


PLATFORMS = (
    Platform("manylinux_2_17_x86_64.manylinux2014_x86_64", "x86_64-linux-gnu.2.17"),
    Platform("manylinux_2_17_aarch64.manylinux2014_aarch64", "aarch64-linux-gnu.2.17"),
    Platform("macosx_11_0_x86_64", "x86_64-macos.11.0"),
    Platform("macosx_11_0_arm64", "aarch64-macos.11.0"),
    Platform("win_amd64", "x86_64-windows-gnu", "i386:x86-64"),
    Platform("win_arm64", "aarch64-windows-gnu", "arm64"),
)


def compiled(platform: Platform, folder: Path) -> dict[str, bytes]:
    """The kernels for a platform by what they are in a wheel; `folder` is for what is made on the way."""
    return {platform.member(kernel): _compiled(platform, kernel, folder) for kernel in KERNELS}


def _compiled(platform: Platform, kernel: str, folder: Path) -> bytes:
    made = folder / f"{platform.target}.out"
    common = ["-O3", "-g0", "-shared", "-Wall", "-Werror", "-DPy_LIMITED_API=0x030B0000"]
    source = str(SOURCES / f"{kernel}.c")
    _zig("cc", "-target", platform.target, *common, *_linked(platform, folder), source, "-o", str(made))
    return made.read_bytes()


def _linked(platform: Platform, folder: Path) -> list[str]:
    headers = Path(sysconfig.get_paths()["include"])
    if platform.machine:
        library = folder / f"python3-{platform.target}.lib"
        _zig("dlltool", "-d", str(HERE / "windows/python3.def"), "-l", str(library), "-m", platform.machine)
        return ["-s", f"-I{HERE / 'windows'}", f"-I{_without_settings(headers, folder)}", str(library)]
    if "macos" in platform.target:
        return ["-undefined", "dynamic_lookup", f"-I{headers}"]
    return ["-s", "-fPIC", f"-I{headers}"]


def _without_settings(headers: Path, folder: Path) -> Path:
    """Python's headers without pyconfig.h, which would be found beside them before ours."""
    copy = folder / "include"
    shutil.copytree(headers, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("pyconfig.h"))
    return copy


def _zig(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "ziglang", *arguments], check=True)
