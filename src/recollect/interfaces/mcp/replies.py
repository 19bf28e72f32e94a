"""Replies as a model reads them: each memory with id, status and date on one line, what is empty left out.

The text and the structured content say the same, each whole: some hosts show a model only the one, some only the other
(Claude Code and Codex the structured content, most others the text). Neither repeats anything in itself. A long text is
cut, and says how to read on. No text of a memory can begin a line that looks like ours: it is indented.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from recollect.services.data.results import QueryReply
from recollect.services.memories.revise import Receipt
from recollect.services.recall.browse import MemoryPage, MemoryView
from recollect.services.recall.context import Context
from recollect.services.recall.hits import Hit
from recollect.services.recall.recall import RecallReply
from recollect.services.requests import Reply
from recollect.services.trust.citations import CitationView

Told = tuple[str, dict[str, Any]]
"""A reply as text, and as structured content."""
HIT_CHARACTERS = 600
LINE_CHARACTERS = 200
PART_CHARACTERS = 6_000
MOST_CHARACTERS = 20_000  # of a reply that has no form of its own
SHOWN_CITATIONS = 3
SHOWN_LINKS = 20


def told(reply: Reply, offset: int = 0) -> Told:
    """The reply in few words; of a memory, from an offset."""
    if isinstance(reply, MemoryView):
        return _memory(reply, offset)
    for type, form in _FORMS.items():
        if isinstance(reply, type):
            return form(reply)
    return _anything(reply)


def _recalled(reply: RecallReply) -> Told:
    hits = [_hit(one) for one in reply.hits]
    structured: dict[str, Any] = pruned(
        {"hits": hits, "left_out": reply.left_out or None, "notes": reply.notes, **_asides(reply)}
    )
    structured.setdefault("hits", [])
    recent = [{"at": _day(one.at), "outcome": one.outcome, "summary": one.summary} for one in reply.recent]
    if recent:
        structured["recent"] = recent
    head = f"{len(hits)} found" if hits else "nothing found"
    if hits and not reply.answered:
        head += "; none may answer the question"
        structured["answered"] = False
    done = [f"[{one['at']} {one['outcome']}] {_inside(one['summary'])}" for one in recent]
    return _lines(head, *map(_hit_text, hits), *done, *_notes(reply, reply.notes)), structured


def _hit(hit: Hit) -> dict[str, Any]:
    text, more = _answering(hit)
    shown: dict[str, Any] = pruned(
        {
            "id": hit.id,
            "status": f"message by {hit.role}" if hit.type == "message" else hit.status,
            "date": _day(hit.occurred_at),
            "author": hit.author,
            "text": text,
            "more": more,
            "cites": [_cited(one) for one in hit.citations[:SHOWN_CITATIONS]],
            "tags": hit.tags,
        }
    )
    return shown


def _answering(hit: Hit) -> tuple[str, str | None]:
    """A short memory whole, of a long one the passage that answers, and how to read the rest."""
    if len(hit.text) <= HIT_CHARACTERS:
        return hit.text, None
    start, end = (hit.passage.start, hit.passage.end) if hit.passage is not None else (0, HIT_CHARACTERS)
    end = min(end, start + HIT_CHARACTERS)
    text = "… " * (start > 0) + hit.text[start:end].strip() + " …" * (end < len(hit.text))
    whole = f"characters {start} to {end} of {len(hit.text)}"
    return text, whole if hit.type == "message" else f"{whole}: show has all"


def _hit_text(hit: Mapping[str, Any]) -> str:
    by = f" by {_label(hit['author'])}" if "author" in hit else ""
    line = f"[{hit['id']} {hit['status']} {hit['date']}{by}] {_inside(hit['text'])}"
    line += f"\n  ({hit['more']})" if "more" in hit else ""
    return line + (f"\n  sources: {_label('; '.join(hit['cites']))}" if "cites" in hit else "")


def _memory(view: MemoryView, offset: int) -> Told:
    start = min(max(offset, 0), len(view.text))
    end = min(start + PART_CHARACTERS, len(view.text))
    owners = {name: getattr(view, name) for name in ("author", "user", "agent", "session", "project")}
    structured = pruned(
        {
            "id": view.id,
            "status": view.status,
            "date": _day(view.occurred_at),
            "kind": view.kind,
            "version": view.version,
            **owners,
            "text": view.text[start:end],
            "characters": len(view.text) if end - start < len(view.text) else None,
            "next_offset": end if end < len(view.text) else None,
            "content": view.content if set(view.content) - {"text"} else None,
            "metadata": view.metadata,
            "tags": view.tags,
            "citations": [pruned({"id": one.id, "source": _cited(one), "note": one.note}) for one in view.citations],
            "links": [
                pruned({"type": one.type, "direction": one.direction, "id": one.id, "text": _cut(one.text)})
                for one in view.links[:SHOWN_LINKS]
            ],
        }
    )
    return _memory_text(structured, owners, start, end), structured


def _memory_text(seen: Mapping[str, Any], owners: Mapping[str, str | None], start: int, end: int) -> str:
    whose = "".join(f", {name} {_label(one)}" for name, one in owners.items() if one)
    tags = f", tags {_label(', '.join(seen['tags']))}" if "tags" in seen else ""
    head = f"[{seen['id']} {seen['status']} {seen['date']}] {seen['kind']}, version {seen['version']}{whose}{tags}"
    part = ""
    if "characters" in seen:
        on = f"; read on with offset={end}" if "next_offset" in seen else ""
        part = f"(characters {start} to {end} of {seen['characters']}{on})"
    more = [f"{name}: {_json(seen[name])}" for name in ("content", "metadata") if name in seen]
    cited = [f"source {one['id']}: {_label(_noted(one))}" for one in seen.get("citations", [])]
    linked = [
        f"link {_label(one['type'])} {one['direction']} {one['id']}: {_inside(one.get('text', ''))}"
        for one in seen.get("links", [])
    ]
    return _lines(head, "  " + _inside(seen.get("text", "")), part, *more, *cited, *linked)


def _noted(citation: Mapping[str, str]) -> str:
    return f"{citation['source']}: {citation['note']}" if "note" in citation else citation["source"]


def _page(reply: MemoryPage) -> Told:
    memories = [
        pruned({"id": one.id, "status": one.status, "date": str(one.occurred_at)[:10], "author": one.author,
                "text": _cut(one.text)})
        for one in reply.memories
    ]  # fmt: skip
    structured: dict[str, Any] = pruned(
        {"memories": memories, "total": reply.total, "next": reply.next, "notes": reply.notes}
    )
    structured.setdefault("memories", [])
    more = [f"more: after={reply.next}"] if reply.next else []
    head = f"{len(memories)} of {reply.total}"
    return _lines(head, *map(_hit_text, memories), *more, *_notes(reply, reply.notes)), structured


def _receipt(reply: Receipt) -> Told:
    known = {name: getattr(reply, name) or None for name in ("duplicate", "merged", "citations")}
    structured = pruned({"id": reply.id, "status": reply.status, "version": reply.version, **known, **_asides(reply)})
    structured |= {"notes": reply.notes} if reply.notes else {}
    did = "already known" if reply.duplicate else "stored" if reply.version == 1 else f"version {reply.version}"
    cited = "" if not reply.citations else f", {reply.citations} citations"
    return _lines(f"{did}: [{reply.id} {reply.status}{cited}]", *_notes(reply, reply.notes)), structured


def _context(reply: Context) -> Told:
    structured = pruned({"text": reply.text, "left_out": reply.left_out or None, "notes": reply.notes})
    return _lines(reply.text, *_notes(reply, reply.notes)), structured


def _rows(reply: QueryReply) -> Told:
    structured = pruned(reply.model_dump(mode="json", by_alias=True))
    structured["rows"] = reply.model_dump(mode="json", include={"rows"})["rows"]
    return _json(structured), structured


def _anything(reply: Reply) -> Told:
    """As JSON: on one line, without what is empty, long texts cut."""
    structured = pruned(reply.model_dump(mode="json", by_alias=True))
    if len(_json(structured)) > MOST_CHARACTERS:
        structured = _shortened(structured)
    return _json(structured), structured


_FORMS: dict[type[Reply], Callable[[Any], Told]] = {
    RecallReply: _recalled,
    MemoryPage: _page,
    Receipt: _receipt,
    Context: _context,
    QueryReply: _rows,
}


def pruned(value: Any) -> Any:
    """Without members that are empty; what stands in a list keeps its place."""
    if isinstance(value, Mapping):
        kept = {name: pruned(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if one is not None and one not in ("", [], {})}
    if isinstance(value, list):
        return [pruned(one) for one in value]
    return value


def _shortened(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _shortened(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_shortened(one) for one in value]
    return _cut(value, HIT_CHARACTERS) if isinstance(value, str) else value


def _asides(reply: Reply) -> dict[str, Any]:
    """What any reply may tell besides: who was added, what was masked."""
    return {
        "created": [f"{one.type} {one.id}" for one in reply.created],
        "masked": [f"{one.kind} in {one.field}" for one in reply.masked],
    }


def _notes(reply: Reply, notes: Sequence[str]) -> list[str]:
    told = [f"{name}: {_label(one)}" for name, some in _asides(reply).items() for one in some]
    return [*told, *(f"note: {_label(one)}" for one in notes)]


def _cited(citation: CitationView) -> str:
    """A source as it can be cited again, and what the last check found."""
    evidence = citation.evidence
    lines = f":{evidence['first_line']}-{evidence['last_line']}" if evidence.get("first_line") else ""
    return f"{citation.source}{lines} ({citation.state})"


def _day(at: datetime) -> str:
    return f"{at:%Y-%m-%d}"


def _cut(text: str, most: int = LINE_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()} … (+{len(text) - most} characters)"


def _label(text: str) -> str:
    return " ".join(text.split())


def _inside(text: str) -> str:
    """Every line but the first is indented, whatever breaks it."""
    return "\n  ".join(text.splitlines())


def _lines(*lines: str) -> str:
    return "\n".join(line for line in lines if line.strip())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
