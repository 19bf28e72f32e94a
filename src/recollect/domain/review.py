"""In which order hypotheses are reviewed: what agents use, what does harm if it is wrong, what the evidence allows.

Each reason adds to the urgency of a hypothesis and is said in words, so that nobody has to guess why it stands where
it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import log2
from typing import Literal, NamedTuple, get_args

ReviewReason = Literal["contradicted", "broken", "depended_on", "used", "important", "supported", "claimed", "uncited"]
REASONS: tuple[ReviewReason, ...] = get_args(ReviewReason)
CONTRADICTS = "contradicts"
HIGH_PRIORITY = 8
MOST_BY_NUMBER = 5.0  # what being used or depended on can add at most


class Reason(NamedTuple):
    """Why a hypothesis is urgent, or can wait."""

    name: ReviewReason
    words: str
    weight: float


@dataclass(frozen=True, slots=True)
class Signals:
    """What is known of a hypothesis without reading it."""

    uses: int = 0
    priority: int = 5
    contradictions: int = 0
    dependents: int = 0
    """How many memories were concluded from it, or rest on it."""
    citations: Mapping[str, int] = field(default_factory=dict)
    """How many of its citations are in each state."""


def reasons(signals: Signals) -> list[Reason]:
    """Why to review it, the weightiest first."""
    return sorted(_reasons(signals), key=lambda reason: -abs(reason.weight))


def urgency(found: list[Reason]) -> float:
    return round(sum(reason.weight for reason in found), 4)


def _reasons(signals: Signals) -> Iterator[Reason]:
    if signals.contradictions:
        yield Reason("contradicted", f"contradiction with {_counted(signals.contradictions, 'memory')}", 4.0)
    if broken := signals.citations.get("broken", 0):
        yield Reason("broken", f"{_counted(broken, 'citation')} no longer {'holds' if broken == 1 else 'hold'}", 3.0)
    if signals.dependents:
        rest = "rests" if signals.dependents == 1 else "rest"
        yield Reason("depended_on", f"{_counted(signals.dependents, 'memory')} {rest} on it", _more(signals.dependents))
    if signals.uses:
        yield Reason("used", f"used {_counted(signals.uses, 'time')}", _more(signals.uses))
    if signals.priority >= HIGH_PRIORITY:
        yield Reason("important", f"priority {signals.priority} of 10", (signals.priority - HIGH_PRIORITY + 1) / 2)
    if holding := signals.citations.get("holds", 0):
        yield Reason("supported", f"{_counted(holding, 'citation')} {'holds' if holding == 1 else 'hold'}", 1.0)
    elif cited := sum(signals.citations.values()) - broken:
        yield Reason("claimed", f"{_counted(cited, 'citation')} not proven yet", 0.5)
    elif not broken:
        yield Reason("uncited", "no citation yet, so it cannot be approved", -1.0)


def _more(number: int) -> float:
    """Ten times as much is not ten times as urgent."""
    return round(min(log2(1 + number), MOST_BY_NUMBER), 4)


def _counted(number: int, noun: str) -> str:
    several = "memories" if noun == "memory" else f"{noun}s"
    return f"{number:,} {noun if number == 1 else several}"
