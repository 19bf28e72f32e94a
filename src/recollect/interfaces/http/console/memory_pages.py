"""Pages about memories: the overview, search, one memory, and the inbox of what waits for a verdict."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from recollect.domain.kinds import KINDS
from recollect.domain.memory import TRANSITIONS
from recollect.errors import InvalidInput, NotFound
from recollect.interfaces.http.console.page_context import Page, Visit
from recollect.interfaces.http.console.templating import chart, fans, parts, slices, weekly, word_diff

REVIEWED_AT_ONCE = 20
PERIODS = {"30": "30 days", "90": "90 days", "365": "a year"}
MOST_BARS = 100
HITS, MOST_HITS = 15, 100
CITED_AT_ONCE = 30
STATES = ("broken", "claimed", "unreachable", "unchecked", "holds")
STATUSES = ("hypothesis", "verified", "published", "archived")


def overview(visit: Visit) -> dict[str, Any]:
    stats = visit.call("stats")
    period = int(visit.query("days")) if visit.query("days") in PERIODS else 30
    days = visit.call("activity", days=period).days
    uses = [(day.date, day.accesses) for day in days]
    uses = weekly(uses) if period > MOST_BARS else uses
    return {
        "stats": stats,
        "period": period,
        "periods": PERIODS,
        "unit": "week" if period > MOST_BARS else "day",
        "growth": chart([day.date for day in days], [day.total for day in days]),
        "made": sum(day.remembered for day in days),
        "used": sum(day.accesses for day in days),
        "activity": chart([date for date, _ in uses], [amount for _, amount in uses], bars=True),
        "kinds": slices(stats.kinds),
        "trust": [one for name in STATUSES for one in slices(stats.statuses) if one.name == name],
        "waiting": visit.call("list", statuses=["hypothesis"], rolled_up=False, limit=1).total,
        "recent": visit.call("list", limit=8, rolled_up=False).memories,
    }


def _filters(visit: Visit) -> dict[str, Any]:
    """The filters of recall as the form names them."""
    given: dict[str, Any] = {name: visit.queries(name) for name in ("kinds", "statuses")}
    given["tags"] = [tag.strip() for tag in visit.query("tags").split(",") if tag.strip()]
    given |= {name: visit.query(name) for name in ("author", "since", "until", "session", "agent", "user")}
    given["purpose"] = "act" if visit.query("act") else ""
    return {name: value for name, value in given.items() if value}


def search(visit: Visit) -> dict[str, Any]:
    return {"kinds": list(KINDS), "statuses": STATUSES, "chosen": _filters(visit), **results(visit)}


def results(visit: Visit) -> dict[str, Any]:
    """What was found, or what there is when nothing was asked for; `why not` for an id that was missed."""
    query, filters = visit.query("q").strip(), _filters(visit)
    by, forgotten, limit = visit.query("by"), bool(visit.query("forgotten")), _how_many(visit)
    facts: dict[str, Any] = {"q": query, "by": by, "forgotten": forgotten, "limit": limit, "most": MOST_HITS}
    facts |= {"hits": [], "lines": [], "notes": [], "missed": None, "meant": [], "problem": None}
    facts |= {"next": None, "total": 0, "wanted": visit.query("why_not").strip(), "is_narrowed": bool(filters)}
    try:
        if query and not forgotten:
            asked = {"query": query, "by": by, "limit": limit, **filters}
            found = visit.call("recall", **asked)
            facts |= {"hits": [(hit, parts(hit.parts)) for hit in found.hits], "notes": found.notes}
            visit.meet_cited(one for hit in found.hits for one in hit.citations)
            facts |= _missed(visit, facts["wanted"], asked) if facts["wanted"] else {}
        else:
            page = visit.call("list", limit=30, after=visit.query("after"), forgotten=forgotten, **filters)
            facts |= {"lines": page.memories, "next": page.next, "total": page.total}
    except (InvalidInput, NotFound) as error:
        facts["problem"] = error
    return facts


def _how_many(visit: Visit) -> int:
    asked = visit.query("limit")
    return min(int(asked), MOST_HITS) if asked.isdecimal() and int(asked) else HITS


def _missed(visit: Visit, wanted: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Why a memory is not in the answer. Who gives words instead of an id is shown which memories they may mean."""
    try:
        found = visit.call("why_not", id=wanted, **asked)
        return {"missed": found, "missed_text": _text_of(visit, wanted), "missed_parts": parts(found.parts)}
    except (InvalidInput, NotFound):
        return {"meant": visit.call("recall", query=wanted, limit=5).hits}


def _text_of(visit: Visit, id: str) -> str:
    try:
        return str(visit.call("history", id=id).entries[-1].text)
    except NotFound:
        return ""


def memory(visit: Visit) -> dict[str, Any]:
    """A memory with all that hangs on it; of a forgotten one, what it was."""
    states = visit.call("history", id=visit.id).entries
    is_forgotten = states[-1].change == "forgotten"
    shown = None if is_forgotten else visit.call("show", id=visit.id)
    visit.meet(state.by for state in states)
    visit.meet_cited(shown.citations if shown else ())
    return {
        "id": visit.id,
        "memory": shown,
        "now": states[-1],
        "first": states[0],
        "is_forgotten": is_forgotten,
        "history": _history(states),
        "graph": fans(shown.links) if shown else None,
        "can_become": TRANSITIONS[states[-1].status],
        "owners": _owners(visit, shown.fields) if shown else {},
    }


def _owners(visit: Visit, fields: dict[str, Any]) -> dict[str, str]:
    """The names of those a memory belongs to, by the fields that hold their ids."""
    found = {}
    for type in ("user", "agent", "session", "project"):
        id = fields.get(f"{type}_id")
        found[f"{type}_id"] = visit.names(type, [id]).get(id, "") or id if id else ""
    return found


def _history(states: list[Any]) -> list[dict[str, Any]]:
    """The changes, the newest first: each with what it did to the text."""
    changes = []
    for before, after in pairwise(states):
        changed = before.text != after.text
        diff = word_diff(before.text, after.text) if changed else []
        changes.append({"state": before, "after": after, "diff": diff})
    return changes[::-1]


def review(visit: Visit) -> dict[str, Any]:
    """What nobody has judged yet, the newest first, each with its evidence.

    Summaries that roll up others stand and fall with those: they are shown to who chooses their kind.
    """
    chosen = {"kinds": visit.queries("kinds"), "author": visit.query("author").strip()}
    after = visit.query("after")
    waits = {"statuses": ["hypothesis"], "rolled_up": False, **chosen}
    page = visit.call("list", limit=REVIEWED_AT_ONCE, after=after, **waits)
    cited = _evidence(visit, [line.id for line in page.memories])
    waiting = [(line, cited[line.id]) for line in page.memories]
    return {"waiting": waiting, "next": page.next, "total": page.total, "kinds": list(KINDS), "chosen": chosen}


def _evidence(visit: Visit, ids: list[str]) -> dict[str, list[Any]]:
    """What each of some memories cites, in the order it was cited."""
    found: dict[str, list[Any]] = {id: [] for id in ids}
    after: str | None = ""
    while ids and after is not None:
        page = visit.call("citation.list", memories=ids, limit=1000, after=after)
        for one in page.citations:
            found[one.memory].insert(0, one)
        after = page.next
    visit.meet_cited(one for cited in found.values() for one in cited)
    return found


def near(visit: Visit) -> dict[str, Any]:
    """The nearest in meaning to one memory: what it may repeat, support or contradict."""
    shown = visit.call("show", id=visit.id)
    found = visit.call("recall", query=shown.text[:2000], by="meaning", limit=5).hits
    if not found:  # where no model makes vectors, words will do
        found = visit.call("recall", query=shown.text[:2000], by="words", limit=5).hits
    return {"id": visit.id, "hits": [hit for hit in found if hit.id != visit.id][:4]}


def citations(visit: Visit) -> dict[str, Any]:
    """What memories rest on, by what the last look found; and what to do about what broke."""
    state, source = visit.query("state"), visit.query("source").strip()
    chosen = {"state": state if state in STATES else "", "source": source}
    page = visit.call("citation.list", limit=CITED_AT_ONCE, after=visit.query("after"), **chosen)
    visit.meet_cited(page.citations)
    return {"citations": page.citations, "next": page.next, "total": page.total, "chosen": chosen, "states": STATES}


def missing(visit: Visit) -> dict[str, Any]:
    raise NotFound("there is no such page", remedy="see the menu for all there are")


PAGES = (
    Page("", "overview.html", "stats", overview),
    Page("/search", "search.html", "recall", search),
    Page("/search/results", "results.html", "recall", results),
    Page("/memories/{id}", "memory.html", "show", memory),
    Page("/memories/{id}/near", "near.html", "recall", near),
    Page("/review", "review.html", "list", review),
    Page("/citations", "citations.html", "citation.list", citations),
    Page("/{rest:path}", "problem.html", "stats", missing),
)
