"""Embedding a text sends nothing and leaves nothing in the home directory of whoever runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.adapters.models.silent_onnxruntime import OPT_OUTS

# Where onnxruntime thinks that it is tested, it is silent by itself.
TESTING = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "ORT_RUNNING_UNIT_TESTS", "PYTEST_CURRENT_TEST")
NOWHERE = {"HTTPS_PROXY": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}  # nothing leaves this machine
EMBED = """
import os, sys
from recollect.adapters.models.memory_encoder import MemoryEncoder
MemoryEncoder().embed(["some text"])
print(*[name for name in sys.argv[1:] if os.environ.get(name) == "1"])
"""


def _embedding(home: Path, **chosen: str) -> tuple[list[str], list[Path]]:
    left = {name: value for name, value in os.environ.items() if name not in (*OPT_OUTS, *TESTING)}
    ran = subprocess.run(
        [sys.executable, "-c", EMBED, *OPT_OUTS],
        env={**left, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), **NOWHERE, **chosen},
        capture_output=True,
        text=True,
        check=True,
        cwd=home,
    )
    return ran.stdout.split(), [path for path in home.rglob("*") if path.is_file()]


def test_embedding_leaves_nothing_at_home_and_tells_nobody(tmp_path: Path) -> None:
    silenced, written = _embedding(tmp_path)
    assert (silenced, written) == (list(OPT_OUTS), [])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it writes to other places")
def test_who_wants_to_tell_may_and_the_test_above_would_see_it(tmp_path: Path) -> None:
    silenced, written = _embedding(tmp_path, ORT_DISABLE_TELEMETRY="0")
    assert silenced == []
    assert [path.name for path in written if path.name == "deviceid"] == ["deviceid"]
