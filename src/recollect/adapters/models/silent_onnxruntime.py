"""onnxruntime, kept from telling its maker about the machine.

Promise: nothing is sent and nothing is written outside of the store because a text was embedded. From 1.29 on the
packages of onnxruntime for Linux and macOS send the path of the program, the machine and the model to Microsoft, and
keep an id of the device under ~/.cache, unless a variable of the environment says no before the first session is made.
Whoever has set that variable keeps what they chose; a program that loaded onnxruntime before us has decided already.
Proof: `tests/adapters/models/test_silent_onnxruntime.py`.
"""

from __future__ import annotations

import os
from types import ModuleType

from recollect.errors import MissingExtra

# Two names for the same, of different versions.
OPT_OUTS = ("ORT_DISABLE_TELEMETRY", "ORT_TELEMETRY_DISABLED")


def silent_onnxruntime() -> ModuleType:
    wishes = [os.environ[name] for name in OPT_OUTS if name in os.environ]
    for name in OPT_OUTS if not wishes else ():
        os.environ[name] = "1"
    try:
        import onnxruntime
    except ImportError as missing:
        raise MissingExtra(
            "The default embedder needs onnxruntime.",
            remedy="pip install onnxruntime, or configure another embedder",
            package="onnxruntime",
        ) from missing
    if not wishes:
        onnxruntime.disable_telemetry_events()  # on Windows the environment is not asked
    return onnxruntime  # type: ignore[no-any-return,unused-ignore]
