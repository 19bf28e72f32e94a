"""Pages about memories: the overview, search, one memory, and the inbox of what waits for a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

from recollect.domain.kinds import KINDS
from recollect.domain.memory import TRANSITIONS
from recollect.domain.review import REASONS
from recollect.errors import InvalidInput, NotFound
from recollect.interfaces.http.console.page_context import Page, PageContext, TemplateValues
from recollect.interfaces.http.console.templating import chart, fans, parts, slices, weekly, word_diff

REVIEW_SIZES = ("20", "50", "100")
STRONG_LIKENESS = 0.9  # below that, nothing is chosen for whoever reviews
PERIODS = {"30": "30 days", "90": "90 days", "365": "a year"}
MOST_BARS = 100
KEPT_FROM = 20_000  # memories: below that, figures are counted for every visit
MOST_COUNTED = 10_000
HITS, MOST_HITS = 15, 100
PALETTE_HITS, LONGEST_TYPED = 6, 500
CITED_AT_ONCE = 30
DEFAULT_HOPS, MOST_DRAWN, MOST_EXPANDED = "2", 60, 8
MESSAGES = {"": None, "yes": True, "no": False}
STATES = ("broken", "claimed", "unreachable", "unchecked", "holds")
STATUSES = ("hypothesis", "verified", "published", "archived")


def overview(context: PageContext) -> TemplateValues:
    counted = context.kept("stats", lambda stats: stats.memories > KEPT_FROM)
    stats = counted.figures
    period = int(context.query("days")) if context.query("days") in PERIODS else 30
    by = "stored" if context.query("by") == "stored" else "happened"
    made = context.kept("activity", lambda activity: activity.days[-1].total > KEPT_FROM, days=period, by=by)
    days = made.figures.days
    uses = [(day.date, day.accesses) for day in days]
    uses = weekly(uses) if period > MOST_BARS else uses
    return {
        "stats": stats,
        "period": period,
        "by": by,
        "periods": PERIODS,
        "unit": "week" if period > MOST_BARS else "day",
        "growth": chart([day.date for day in days], [day.total for day in days]),
        "made": sum(day.remembered for day in days),
        "used": sum(day.accesses for day in days),
        "activity": chart([date for date, _ in uses], [amount for _, amount in uses], bars=True),
        "kinds": slices(stats.kinds),
        "trust": [one for name in STATUSES for one in slices(stats.statuses) if one.name == name],
        "waiting": context.call("list", statuses=["hypothesis"], rolled_up=False, limit=1, count_at_most=MOST_COUNTED),
        "recent": context.call("list", limit=8, rolled_up=False, count_at_most=1).memories,
        "counted_ago": int(max(counted.seconds_ago, made.seconds_ago)),
    }


def filters(context: PageContext) -> TemplateValues:
    """The filters of recall as the form names them."""
    given: TemplateValues = {name: context.queries(name) for name in ("kinds", "statuses")}
    given["tags"] = [tag.strip() for tag in context.query("tags").split(",") if tag.strip()]
    given |= {name: context.query(name) for name in ("author", "since", "until", "session", "agent", "user")}
    given["purpose"] = "act" if context.query("act") else ""
    return {name: value for name, value in given.items() if value}


def search(context: PageContext) -> TemplateValues:
    is_user = context.principal.key.user_id is not None
    saved = context.call("user.searches").searches if is_user else []
    facts = {"kinds": list(KINDS), "statuses": STATUSES, "chosen": filters(context), "is_user": is_user}
    return {**facts, "saved": saved, **results(context)}


def results(context: PageContext) -> TemplateValues:
    """What was found, or what there is when nothing was asked for; `why not` for an id that was missed."""
    query, chosen = context.query("q").strip(), filters(context)
    by, forgotten, limit = context.query("by"), bool(context.query("forgotten")), _how_many(context)
    wanted = context.query("why_not").strip()
    messages = context.query("messages") if context.query("messages") in MESSAGES else ""
    facts: TemplateValues = {"q": query, "by": by, "forgotten": forgotten, "limit": limit, "most": MOST_HITS}
    facts |= {"messages": messages}
    facts |= {"hits": [], "lines": [], "notes": [], "missed": None, "meant": [], "problem": None}
    facts |= {"next": None, "total": 0, "is_whole": True, "wanted": wanted, "is_narrowed": bool(chosen)}
    try:
        if query and not forgotten:
            asked = {"query": query, "by": by, "limit": limit, **chosen}
            found = context.call("recall", include_messages=MESSAGES[messages], **asked)
            facts |= {"hits": [(hit, parts(hit.parts)) for hit in found.hits], "notes": found.notes}
            context.learn_cited_names(one for hit in found.hits for one in hit.citations)
            facts |= _missed(context, wanted, asked) if wanted else {}
        else:
            asked = {"after": context.query("after"), "forgotten": forgotten, **chosen}
            page = context.call("list", limit=30, count_at_most=MOST_COUNTED, **asked)
            facts |= {"lines": page.memories, "next": page.next, "total": page.total, "is_whole": page.is_whole}
    except (InvalidInput, NotFound) as error:
        facts["problem"] = error
    return facts


def _how_many(context: PageContext) -> int:
    asked = context.query("limit")
    return min(int(asked), MOST_HITS) if asked.isdecimal() and int(asked) else HITS


def _missed(context: PageContext, wanted: str, asked: TemplateValues) -> TemplateValues:
    """Why a memory is not in the answer. Who gives words instead of an id is shown which memories they may mean."""
    try:
        found = context.call("why_not", id=wanted, **asked)
        return {"missed": found, "missed_text": _text_of(context, wanted), "missed_parts": parts(found.parts)}
    except (InvalidInput, NotFound):
        return {"meant": context.call("recall", query=wanted, limit=5).hits}


def _text_of(context: PageContext, id: str) -> str:
    try:
        return str(context.call("history", id=id).entries[-1].text)
    except NotFound:
        return ""


def palette(context: PageContext) -> TemplateValues:
    """What the command palette finds: memories by recall, and saved searches by their name."""
    query = context.query("q").strip()[:LONGEST_TYPED]
    hits = context.call("recall", query=query, limit=PALETTE_HITS, include_messages=False).hits if query else []
    saved = context.call("user.searches").searches if context.principal.key.user_id is not None else []
    named = [one for one in saved if query.casefold() in one.name.casefold()]
    return {"q": query, "hits": hits, "saved": named[:PALETTE_HITS]}


def memory(context: PageContext) -> TemplateValues:
    """A memory with its citations, relations and history; of a forgotten one, only the history."""
    states = context.call("history", id=context.id).entries
    is_forgotten = states[-1].change == "forgotten"
    shown = None if is_forgotten else context.call("show", id=context.id)
    context.learn_names(state.by for state in states)
    context.learn_cited_names(shown.citations if shown else ())
    return {
        "id": context.id,
        "memory": shown,
        "now": states[-1],
        "first": states[0],
        "is_forgotten": is_forgotten,
        "history": _history(states),
        "graph": fans(shown.links) if shown else None,
        "can_become": TRANSITIONS[states[-1].status],
        "owners": _owners(context, shown.fields) if shown else {},
    }


def graph(context: PageContext) -> TemplateValues:
    """The memories around one, the links between them and what they rest on: a list, from which the page draws.

    Around those named by `expand`, their neighbours are there, too.
    """
    hops = context.query("hops") if context.query("hops") in ("1", "2", "3") else DEFAULT_HOPS
    type, expanded = context.query("type"), context.queries("expand")[:MOST_EXPANDED]
    asked: dict[str, Any] = {"types": [type] if type else None, "limit": MOST_DRAWN}
    found = context.call("relations.graph", of=context.id, hops=int(hops), **asked)
    around = [*_around(context, [id for id in expanded if id != context.id], asked)]
    nodes = {node.id: node for node in found.nodes}
    edges = {edge.id: edge for edge in found.edges}
    for one in around:  # further out than where it was expanded from
        start = nodes[one.nodes[0].id].hops if one.nodes[0].id in nodes else int(hops)
        nodes |= {n.id: n.model_copy(update={"hops": start + n.hops}) for n in one.nodes if n.id not in nodes}
        edges |= {edge.id: edge for edge in one.edges}
    links: dict[str, list[Any]] = {id: [] for id in nodes}
    for edge in edges.values():
        links[edge.source].append(edge)
    has_evidence = context.query("evidence") != "no"
    return {
        "first": found.nodes[0],
        "nodes": list(nodes.values()),
        "edges": list(edges.values()),
        "links": links,
        "cited": _evidence(context, list(nodes)) if has_evidence and context.may("citation.list") else {},
        "has_evidence": has_evidence,
        "expanded": expanded,
        "can_expand": len(expanded) < MOST_EXPANDED,
        "expanding": lambda id: _expanding(context, id),
        "texts": {node.id: node.text for node in nodes.values()},
        "types": sorted({edge.type for edge in edges.values()} | ({type} if type else set())),
        "type": type,
        "hops": hops,
        "default_hops": DEFAULT_HOPS,
        "more": found.more or any(one.more for one in around),
        "notes": [note for one in (found, *around) for note in one.notes],
    }


def _around(context: PageContext, ids: list[str], asked: dict[str, Any]) -> Iterator[Any]:
    for id in ids:
        try:
            yield context.call("relations.graph", of=id, hops=1, **asked)
        except NotFound:  # forgotten since the address was made
            continue


def _expanding(context: PageContext, id: str) -> str:
    """The address of this drawing with the neighbours of one more memory."""
    return "?" + urlencode([*context.request.query_params.multi_items(), ("expand", id)])


def _owners(context: PageContext, fields: Mapping[str, str | None]) -> dict[str, str]:
    """The names of those a memory belongs to, by the fields that hold their ids."""
    found = {}
    for type in ("user", "agent", "session", "project"):
        id = fields.get(f"{type}_id")
        found[f"{type}_id"] = context.names(type, [id]).get(id, "") or id if id else ""
    return found


def _history(states: list[Any]) -> list[TemplateValues]:
    """The changes, the newest first: each with what it did to the text."""
    changes = []
    for before, after in pairwise(states):
        changed = before.text != after.text
        diff = word_diff(before.text, after.text) if changed else []
        changes.append({"state": before, "after": after, "diff": diff})
    return changes[::-1]


def review(context: PageContext) -> TemplateValues:
    """What nobody has judged yet, the most urgent first, each with the reasons and its evidence.

    Summaries that roll up others stand and fall with those: they are shown to who chooses their kind.
    """
    chosen: dict[str, Any] = {name: context.query(name).strip() for name in ("author", "session", "reason")}
    chosen |= {"kinds": context.queries("kinds"), "reason": chosen["reason"] if chosen["reason"] in REASONS else ""}
    size = context.query("size") if context.query("size") in REVIEW_SIZES else REVIEW_SIZES[0]
    page = context.call("review.list", limit=int(size), after=context.query("after"), count_all=False, **chosen)
    cited = _evidence(context, [line.id for line in page.memories])
    return {
        "waiting": [(line, cited[line.id]) for line in page.memories],
        "next": page.next,
        "total": min(page.total, MOST_COUNTED),
        "by_reason": [(name, page.by_reason[name]) for name in REASONS if page.by_reason.get(name)],
        "is_whole": page.total <= MOST_COUNTED,
        "notes": page.notes,
        "kinds": list(KINDS),
        "chosen": chosen,
        "is_narrowed": any(chosen.values()),
        "size": size,
        "sizes": REVIEW_SIZES,
    }


def _evidence(context: PageContext, ids: list[str]) -> dict[str, list[Any]]:
    """What each of some memories cites, in the order it was cited."""
    found: dict[str, list[Any]] = {id: [] for id in ids}
    after: str | None = ""
    while ids and after is not None:
        page = context.call("citation.list", memories=ids, limit=1000, after=after)
        for one in page.citations:
            found[one.memory].insert(0, one)
        after = page.next
    context.learn_cited_names(one for cited in found.values() for one in cited)
    return found


def near(context: PageContext) -> TemplateValues:
    """The nearest in meaning to one memory: what it may repeat, support or contradict."""
    shown = context.call("show", id=context.id)
    found = context.call("recall", query=shown.text[:2000], by="meaning", limit=5).hits
    if not found:  # where no model makes vectors, words will do
        found = context.call("recall", query=shown.text[:2000], by="words", limit=5).hits
    others = [hit for hit in found if hit.id != context.id and hit.type == "memory"]
    return {"id": context.id, "hits": others[:4], "strong": STRONG_LIKENESS}


def citations(context: PageContext) -> TemplateValues:
    """What memories rest on, by what the last look found; and what to do about what broke."""
    state, source = context.query("state"), context.query("source").strip()
    chosen = {"state": state if state in STATES else "", "source": source}
    page = context.call("citation.list", limit=CITED_AT_ONCE, after=context.query("after"), **chosen)
    context.learn_cited_names(page.citations)
    return {"citations": page.citations, "next": page.next, "total": page.total, "chosen": chosen, "states": STATES}


def missing(context: PageContext) -> TemplateValues:
    raise NotFound("there is no such page", remedy="choose a page from the menu")


PAGES = (
    Page("", "overview.html", "stats", overview),
    Page("/search", "search.html", "recall", search),
    Page("/search/results", "results.html", "recall", results),
    Page("/palette", "palette.html", "recall", palette),
    Page("/memories/{id}", "memory.html", "show", memory),
    Page("/memories/{id}/graph", "graph.html", "relations.graph", graph),
    Page("/memories/{id}/near", "near.html", "recall", near),
    Page("/review", "review.html", "review.list", review),
    Page("/citations", "citations.html", "citation.list", citations),
    Page("/{rest:path}", "problem.html", "stats", missing),
)
