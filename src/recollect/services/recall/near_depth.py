"""How many of the nearest an index is asked for, so that enough of them pass what it does not know.

The summaries that a service makes have vectors beside what they summarise, and a recall leaves them out. Asked for a
hundred, the index suggests ninety that pass, and every recall would search twice, the second time four times as deep:
measured, that doubled the time of a recall. So each search remembers which share passed, and the next asks for more.
Proof: tests/services/recall/test_near_depth.py.
"""

from __future__ import annotations

import math

from recollect.services.recall.filters import SearchConditions
from recollect.services.recall.message_conditions import MessageConditions

MOST_KNOWN = 4096
LEAST_SHARE, ALL = 0.25, 0.99
FORGETTING = 0.02
"""What a share that was low comes nearer to one with each search in which more passed."""
MARGIN = 1.25
DEEPEST_STEP = 16

Conditions = SearchConditions | MessageConditions
_shares: dict[tuple[str, str], float] = {}


def first_depth(organization_id: str, conditions: Conditions, limit: int) -> int:
    """As many as are likely to hold `limit` that pass; just these where all passed so far."""
    return limit if conditions.is_narrowed else math.ceil(limit / _known(organization_id, conditions))


def note_share(organization_id: str, conditions: Conditions, found: int, passing: int) -> None:
    """The lowest of late counts: who asks for a few too many reads less than who searches twice.

    What a caller's own filter leaves out says nothing about the next question.
    """
    if not found or conditions.is_narrowed:
        return
    share, known = max(passing / found, LEAST_SHARE), _known(organization_id, conditions)
    kept = min(share, known + FORGETTING * (1 - known))
    key = (organization_id, conditions.record.shape.table)
    if kept > ALL:
        _shares.pop(key, None)
        return
    if len(_shares) >= MOST_KNOWN:
        _shares.clear()
    _shares[key] = kept


def _known(organization_id: str, conditions: Conditions) -> float:
    return _shares.get((organization_id, conditions.record.shape.table), 1.0)


def next_depth(depth: int, limit: int, found: int, passing: int) -> int:
    """How deep to look after too few passed: half as deep again at least. Each time all is searched anew, so the steps
    are long."""
    wanted = MARGIN * limit * found / passing if passing else math.inf
    return math.ceil(min(max(wanted, 1.5 * depth), DEEPEST_STEP * depth))
