"""Long texts about something else that hold one fact, and the question it answers."""

from __future__ import annotations

from recollect.ports.models import Vectors
from recollect.testing.fakes import HashEmbedder

FACT = "Grandmother hid the silver locket under the third stair of the lighthouse."
ASKED = "where is the silver locket of grandmother hidden"
_FILLER = (
    "The committee met on day {n} and talked about drainage, parking and the budget for the coming season. "
    "Nobody objected to minute {n}, and the treasurer promised a report on gravel."
)


def prose(words: int, fact_at: float) -> str:
    """So many words about something else, with the fact after a share of them."""
    filler = " ".join(_FILLER.format(n=n) for n in range(words // 25 + 1)).split()[:words]
    place = round(len(filler) * fact_at)
    return " ".join([*filler[:place], FACT, *filler[place:]])


LONG = {
    "end of 350 words": prose(350, 1.0),
    "end of 2000 words": prose(2000, 1.0),
    "middle of 2000 words": prose(2000, 0.5),
}


class ShortSighted(HashEmbedder):
    """As real models do, it reads the beginning of a text and leaves the rest in silence."""

    def embed_query(self, text: str) -> Vectors:
        return super().embed_query(" ".join(text.split()[:240]))
