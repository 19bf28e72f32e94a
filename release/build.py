"""Build what is published into dist/: `make release`.

The sdist comes first. From it, unpacked elsewhere, the pure wheel is built: what the sdist lacks is missed here.
Each platform's wheel is the pure one with the compiled kernels. Installers choose the pure wheel where none of these
fits; there numpy and Python do the work of the kernels with the same results, and `recollect doctor` says so.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import kernel
from wheel_file import members_of, sha256, tagged, written

ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--only", help="a part of the tag: build the wheels of these platforms alone")
    chosen = parser.parse_args()
    os.environ.setdefault("SOURCE_DATE_EPOCH", _last_commit())
    with tempfile.TemporaryDirectory() as scratch:
        made = built(chosen.out, Path(scratch), chosen.only or "")
    sums = "".join(f"{sha256(file)}  {file.name}\n" for file in made)
    (chosen.out / "SHA256SUMS").write_text(sums)
    print("".join(f"{file.stat().st_size / 1e6:6.1f} MB  {file.name}\n" for file in made), end="")


def built(out: Path, scratch: Path, only: str) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    for former in [*out.glob("recollect-*.whl"), *out.glob("recollect-*.tar.gz"), *out.glob("SHA256SUMS")]:
        former.unlink()
    sdist = _packed("--sdist", ROOT, scratch / "sdist")
    pure = _packed("--wheel", _unpacked(sdist, scratch), scratch / "wheel")
    made = [sdist.replace(out / sdist.name), _repacked(pure, out / pure.name)]
    made += [_with_kernel(pure, one, out, scratch) for one in kernel.PLATFORMS if only in one.tag]
    return made


def _packed(form: str, source: Path, to: Path) -> Path:
    """What `python -m build` makes; without isolation, with the pinned setuptools of release/requirements.txt."""
    command = [sys.executable, "-m", "build", "-n", form, "-o", str(to), str(source)]
    surroundings = {**os.environ, "RECOLLECT_KERNEL": "none"}
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return next(to.iterdir())


def _unpacked(sdist: Path, scratch: Path) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch / "source", filter="data")
    return next((scratch / "source").iterdir())


def _repacked(pure: Path, to: Path) -> Path:
    members = members_of(pure)
    return written(to, members, _info(members))


def _with_kernel(pure: Path, platform: kernel.Platform, out: Path, scratch: Path) -> Path:
    members = members_of(pure)
    info = _info(members)
    members[f"{info}/WHEEL"] = tagged(members[f"{info}/WHEEL"], platform.wheel_tag)
    members |= kernel.compiled(platform, scratch)
    ordered = {name: members[name] for name in sorted(members, key=lambda name: (name.startswith(info), name))}
    return written(out / pure.name.replace("py3-none-any", platform.wheel_tag), ordered, info)


def _info(members: dict[str, bytes]) -> str:
    return next(name.partition("/")[0] for name in members if ".dist-info/" in name)


def _last_commit() -> str:
    asked = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "1577836800"


if __name__ == "__main__":
    main()
