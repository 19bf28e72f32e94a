"""What an importer has found: how much of what, a few samples, and everything that could not be mapped."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pydantic import Field

from recollect.domain.record import clipped
from recollect.services.requests import Reply

MOST_SAMPLES = 5
SAMPLE_CHARACTERS = 200
MOST_UNMAPPED = 500
KEPT = "there is no field for it; it is kept in the metadata, under `imported`"


class ImportSample(Reply):
    """The beginning of one record that was found."""

    what: str
    id: str
    text: str


class UnmappedField(Reply):
    """Something of the source that has no place of its own here."""

    what: str = Field(description="The part of the source it belongs to")
    field: str = Field(description="Its name in the source; empty for the whole part")
    why: str
    count: int = Field(1, description="How often it was found")
    example: str = Field("", description="Where it was found first: an id, a file or a line")


@dataclass(slots=True)
class Findings:
    counts: Counter[str] = field(default_factory=Counter)
    samples: list[ImportSample] = field(default_factory=list)
    _unmapped: dict[tuple[str, str, str], UnmappedField] = field(default_factory=dict)
    _others: int = 0

    def count(self, what: str, id: str, text: str) -> None:
        self.counts[what] += 1
        shown = [one for one in self.samples if one.what == what]
        if text and not shown and len(self.samples) < MOST_SAMPLES:
            self.samples.append(ImportSample(what=what, id=id, text=clipped(text, SAMPLE_CHARACTERS)))

    def unmapped(self, what: str, field: str, why: str = KEPT, example: object = "") -> None:
        """Note it, once for each part, field and reason; names may be anything, so their number is bounded."""
        key = (what, clipped(field, 80), why)
        known = self._unmapped.get(key)
        if known is not None:
            known.count += 1
        elif len(self._unmapped) < MOST_UNMAPPED:
            self._unmapped[key] = UnmappedField(
                what=what, field=key[1], why=why, example=clipped(str(example or ""), 80)
            )
        else:
            self._others += 1

    def left_out(self, what: str, example: object, why: str) -> None:
        """Note that a whole part was left out."""
        self.unmapped(what, "", why, example)

    def report(self) -> list[UnmappedField]:
        others = UnmappedField(what="others", field="", why="too many to list", count=self._others)
        return [*self._unmapped.values(), *([others] if self._others else [])]
