"""What hangs on one memory is bounded in all: repeating it, citing and relating add no more than one call might give.

What is there already stays and is shown: the bound is on adding.
"""

from __future__ import annotations

from recollect.domain.memory import Relationship, Tag
from recollect.domain.provenance import Citation
from recollect.errors import TooLarge
from recollect.services.request_limits import MOST_CITATIONS, MOST_LINKS_IN_ALL, MOST_TAGS

_BOUNDS: dict[type[Citation | Tag | Relationship], tuple[int, str, str]] = {
    Tag: (MOST_TAGS, "tags", "take some away first: revise it with the tags it shall have"),
    Citation: (MOST_CITATIONS, "citations", "take those away that it no longer needs: uncite"),
    Relationship: (MOST_LINKS_IN_ALL, "links", "link from another memory, or the other way round"),
}


def refuse_more(kind: type[Citation | Tag | Relationship], has: int, more: int) -> None:
    """TooLarge if a memory that has so many would get too many of a kind."""
    most, name, remedy = _BOUNDS[kind]
    if more and has + more > most:
        raise TooLarge(f"a memory has at most {most} {name}: it has {has}, and {more} more were given", remedy=remedy)
