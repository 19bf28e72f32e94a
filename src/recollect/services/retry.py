"""Trying again: the one idiom for work that others may get in the way of."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from recollect.errors import RecollectError, VersionConflict

T = TypeVar("T")


def persistently(version: int | None, attempt: Callable[[], T]) -> T:
    """Read, change and write again for as long as others are quicker, unless the caller insists on a version."""
    return attempt() if version is not None else insistently(attempt, VersionConflict)


def insistently(attempt: Callable[[], T], *failures: type[RecollectError], tries: int = 100) -> T:
    """Again when it fails in a way that looking afresh may mend; what still fails then is raised.

    Waits a little longer each time, by chance, so that those who were in each other's way do not meet again.
    """
    for number in range(tries):
        try:
            return attempt()
        except failures:
            time.sleep(random.uniform(0, 0.001 * 2 ** min(number, 6)))
    return attempt()
