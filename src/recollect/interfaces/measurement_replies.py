"""What measurements and the leak test say (interfaces/measurements.py)."""

from __future__ import annotations

from pydantic import Field

from recollect.services.requests import Reply


class RecallMeasure(Reply):
    """How much of the evidence for the questions was found."""

    questions: int
    recall_at_1: float = Field(description="How much of the evidence is the first hit, 0 to 1, over all questions")
    recall_at_5: float
    recall_at_10: float
    mrr: float = Field(description="The mean of 1 divided by the rank of the first hit that is evidence")
    missed: list[str] = Field(default_factory=list, description="Questions without any evidence among ten hits")


class CallTimes(Reply):
    """How long calls of an operation took, in milliseconds."""

    operation: str
    calls: int
    p50: float
    p95: float
    slowest: float
    chart: list[str] = Field(default_factory=list, description="How many calls took how long, a line per range")


class SpeedMeasure(Reply):
    """How long remembering and recalling take on a copy of the store."""

    store: str = Field(description="What kind of store the copy is")
    memories: int
    times: list[CallTimes]
    notes: list[str] = Field(default_factory=list)


class LeakTestRow(Reply):
    """What came of trying one operation."""

    operation: str
    caller: str = Field(description="Who asked")
    tries: int
    leaks: list[str] = Field(default_factory=list)


class LeakTestReply(Reply):
    """What came of trying every operation with the ids of others."""

    well: bool = Field(description="Whether nothing leaked")
    operations: int
    tries: int
    rows: list[LeakTestRow] = Field(description="Where something leaked; with `every`, all of them")
