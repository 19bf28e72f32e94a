"""`python -m recollect.testing.conformance package.module:make_store`: the kit on your store, and a report.

`make_store` takes an empty folder and returns an empty store; called with the same folder again, a durable store has
its data. What follows is for pytest, such as `-k references`. The exit status is 1 when a rule is broken.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import recollect.testing.conformance as kit


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    assert kit.__file__ is not None
    make_store, *others = arguments
    with TemporaryDirectory() as folder:
        settings = Path(folder, "pytest.ini")
        settings.write_text("[pytest]\n")  # not those of whoever calls
        # A process of its own: pytest explains a failed assertion only in what it imports itself.
        command = [sys.executable, "-m", "pytest", "-c", str(settings), "-p", f"{kit.__name__}.report"]
        command += ["-p", "no:cacheprovider", "--make-store", make_store, *others]
        return subprocess.run([*command, str(Path(kit.__file__).with_name("handed_in.py"))], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
