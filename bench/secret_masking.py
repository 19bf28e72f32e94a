"""Secrets: how many of a made corpus are found, how much ordinary text is taken for one, and what looking costs.

Found: secrets of every format, each inside a sentence or a line as it is met with, found whole. False: what is found in
text that has no secrets: our own sources and pages, files of installed packages, chats, and things that look random
(ids, hashes, lock files, images). Findings in packages and chats may be real ones; their kinds are counted, so that one
can look. Cost: per kilobyte of each corpus, and of one remember with and without the mask. With detect-secrets
installed, the same beside it.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import sysconfig
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import recollect
from recollect.domain.text.secrets import find
from recollect.testing.made_secrets import TEMPLATES, made
from shared import console, corpus, in_words, machine, summary, table, timed

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
CHATS = HERE.parents[1] / "shared" / "data"
EACH, PACKAGE_FILES, REMEMBERS = 200, 2000, 300
LARGEST_FILE = 5_000_000
Scan = Callable[[str], Iterable[str]]
"""The kinds of what is found in a text."""


def ours(text: str) -> list[str]:
    return [secret.kind for secret in find(text)]


def detect_secrets(text: str) -> list[str]:
    """All its plugins and filters, over a file, as it works."""
    settings, scan = import_module("detect_secrets.settings"), import_module("detect_secrets.core.scan")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file, settings.default_settings():
        file.write(text)
        file.flush()
        return [str(secret.type) for secret in scan.scan_file(file.name)]


def found_by_format(each: int) -> dict[str, float]:
    """The share that is found whole."""
    shares = {}
    for format in TEMPLATES:
        whole = 0
        for seed in range(each):
            secret, text = made(format, seed)
            start = text.index(secret)
            whole += any(one.start <= start and start + len(secret) <= one.end for one in find(text))
        shares[format] = whole / each
    return shares


def scanned(texts: Sequence[str], scan: Scan) -> dict[str, Any]:
    kinds: Counter[str] = Counter()
    began = time.process_time()
    for text in texts:
        kinds.update(scan(text))
    took = time.process_time() - began
    size = sum(map(len, texts))
    return {
        "texts": len(texts),
        "megabytes": round(size / 1e6, 2),
        "found": kinds.total(),
        "per_megabyte": round(kinds.total() / (size / 1e6), 3),
        "us_per_kilobyte": round(took * 1e6 / (size / 1024), 1),
        "kinds": dict(kinds.most_common()),
    }


def read(paths: Iterable[Path]) -> list[str]:
    whole = (path for path in paths if path.is_file() and path.stat().st_size < LARGEST_FILE)
    return [path.read_text(encoding="utf-8", errors="replace") for path in whole]


def corpora(package_files: int, chats: Path) -> dict[str, list[str]]:
    root, draw = HERE.parent, random.Random(7)
    packages = sorted(Path(sysconfig.get_paths()["purelib"]).rglob("*.py"))
    sources = [*root.glob("src/**/*.py"), *root.glob("docs/**/*.md"), *root.glob("*.md"), root / "requirements.lock"]
    made_up = {
        "our sources and pages": read(path for path in sources if path.name != "made_secrets.py"),
        "files of packages": read(draw.sample(packages, min(package_files, len(packages)))),
        "ids, hashes and images": [_looks_random(draw) for _ in range(200)],
        "memories": corpus(2000, questions=10).texts,
    }
    told = read(sorted(path for ending in ("*.json", "*.jsonl", "*.md") for path in chats.rglob(ending)))
    return made_up | ({"chats": told} if told else {})


def _looks_random(draw: random.Random) -> str:
    """Lines with ids and hashes, a piece of a lock file and an image."""
    lines = []
    for _ in range(20):
        lines.append(f"run {uuid.UUID(int=draw.getrandbits(128))} of commit {draw.getrandbits(160):040x}")
        lines.append(f"    --hash=sha256:{draw.getrandbits(256):064x} \\")
        lines.append(f'"integrity": "sha512-{base64.b64encode(draw.randbytes(64)).decode()}",')
        lines.append(f"order {draw.randrange(10**9, 10**12)} at {draw.randrange(1_600_000_000_000, 1_800_000_000_000)}")
    return "\n".join([*lines, f"data:image/png;base64,{base64.b64encode(draw.randbytes(3000)).decode()}"])


def remembering(count: int) -> dict[str, Any]:
    """One remember of a kilobyte, with the mask and without, a turn each; by a stand-in for a model."""
    texts = [" ".join(corpus(20, questions=1, seed=number).texts)[:1024] for number in range(40)]
    with tempfile.TemporaryDirectory() as folder:
        opened = {
            mode: recollect.open(Path(folder) / f"{mode}.db", embedder="hash", background=False, secrets=mode)
            for mode in ("mask", "keep")
        }
        spent: dict[str, list[float]] = {mode: [] for mode in opened}
        for number in range(count):
            for mode, mem in opened.items():
                text = f"{number} {texts[number % len(texts)]}"
                spent[mode] += timed([partial(mem.remember, text, tags=["a", "b"])], 60.0)
        for mem in opened.values():
            mem.close()
    return {mode: summary(values) for mode, values in spent.items()}


def measure(each: int, package_files: int, remembers: int, chats: Path) -> dict[str, Any]:
    texts = corpora(package_files, chats)
    report: dict[str, Any] = {
        "machine": machine(),
        "each": each,
        "found": found_by_format(each),
        "corpora": {name: scanned(some, ours) for name, some in texts.items()},
        "remember": remembering(remembers),
    }
    if find_spec("detect_secrets"):
        report["detect_secrets"] = {name: scanned(some[:20], detect_secrets) for name, some in texts.items()}
        shares = [any(detect_secrets(made(format)[1])) for format in TEMPLATES]
        report["detect_secrets_formats"] = sum(shares) / len(shares)
    return report


def show(report: dict[str, Any]) -> None:
    shares = report["found"]
    missed = [f"{name} {share:.1%}" for name, share in shares.items() if share < 1]
    console.print(f"{len(shares)} formats, {report['each']} each: found {sum(shares.values()) / len(shares):.2%}")
    console.print(f"not all of: {', '.join(missed) or 'none'}")
    for title, cells in (("Recollect", report["corpora"]), ("detect-secrets", report.get("detect_secrets", {}))):
        rows = [
            (
                name,
                str(cell["megabytes"]),
                str(cell["found"]),
                in_words(cell["per_megabyte"]),
                str(cell["us_per_kilobyte"]),
            )
            for name, cell in cells.items()
        ]
        if rows:
            console.print(table(title, ("text", "MB", "found", "per MB", "µs per kB"), rows))
    times = {mode: in_words(cell["p50_ms"]) for mode, cell in report["remember"].items()}
    console.print(f"one remember of a kilobyte, median ms: masked {times['mask']}, kept {times['keep']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=EACH, help="how many secrets of each format")
    parser.add_argument("--package-files", type=int, default=PACKAGE_FILES)
    parser.add_argument("--remembers", type=int, default=REMEMBERS)
    parser.add_argument("--chats", type=Path, default=CHATS, help="a folder with chats, as JSON or Markdown")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where secrets.json goes")
    options = parser.parse_args()
    report = measure(options.each, options.package_files, options.remembers, options.chats)
    show(report)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "secrets.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
