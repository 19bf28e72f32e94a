"""What a run says at its end: what could not be tested here, and how to see again what failed."""

from __future__ import annotations

from typing import Any

from seeds import EVERYDAY, SEED, SOAK, replay


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    for reason in sorted({str(one.longrepr[2]) for one in skipped if one.longrepr}):
        if "NOT RUN" in reason:
            terminalreporter.write_line(reason.removeprefix("Skipped: "), yellow=True, bold=True)
    if not SOAK and SEED == EVERYDAY:
        return
    terminalreporter.write_line(f"RECOLLECT_SEED={SEED}", bold=True)
    for one in [*terminalreporter.stats.get("failed", []), *terminalreporter.stats.get("error", [])]:
        terminalreporter.write_line(f"again: {replay(one.nodeid)}", yellow=True)
