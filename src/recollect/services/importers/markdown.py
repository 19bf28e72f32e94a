"""Markdown notes: instructions for agents (CLAUDE.md, AGENTS.md), and folders of notes as Obsidian has them.

Of instructions each list item and each paragraph is a memory, of notes each section. Every memory cites its lines.
Front matter, tags and links between notes are kept; text inside code blocks is neither a heading nor a tag.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path, PurePosixPath

import yaml

from recollect.domain.memory import Relationship
from recollect.domain.provenance import line_hash
from recollect.domain.record import JsonObject, derived_id
from recollect.services.importers.entries import Entry, Reading, Source
from recollect.services.importers.field_map import LONGEST_TAG, FieldMap, clean
from recollect.services.importers.origin import Origin
from recollect.services.request_limits import MOST_TAGS

FRONT_MATTER = FieldMap(
    "front matter",
    {
        "title": "note.title: in the metadata",
        "aliases": "note.aliases: other names that links may use",
        "alias": "note.aliases: the same",
        "tags": "memory.tags",
        "tag": "memory.tags",
        "created": "memory.created_at",
        "date": "memory.created_at",
        "updated": "memory.updated_at",
        "modified": "memory.updated_at",
    },
)
TEXT = FieldMap(
    "note",
    {
        "sections, list items": "memory.content: with its headings",
        "lines": "memory.cites: a file citation with the hash of the lines",
        "#tags": "memory.tags",
        "[[links]]": "relationship.links_to: to the first memory of the other note",
    },
)
INSTRUCTIONS = frozenset(
    {"claude.md", "claude.local.md", "agents.md", "gemini.md", "memory.md", "copilot-instructions.md"}
)
ENDINGS = (".md", ".markdown")
LONGEST_FRONT_MATTER = 64 << 10
# Each of these looks at a character a bounded number of times, whatever the text.
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")
_ITEM = re.compile(r" ?(?:[-*+]|\d{1,9}[.)])[ \t]+")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_CODE = re.compile(r"`[^`\n]*`")
_TAG = re.compile(r"(?<![\w/#&])#([\w/-]*[^\W\d][\w/-]*)")
_WIKILINK = re.compile(r"\[\[([^\[\]\n]+)\]\]")
_LINK = re.compile(r"\]\((?![a-z]+:)([^()\s#]+\.(?:md|markdown))")


@dataclass(slots=True)
class Passage:
    """A part of a note: its lines, counted from 1."""

    first: int
    lines: list[str]
    headings: tuple[str, ...] = ()
    prose: list[str] = field(default_factory=list)
    """Its lines that are not code."""

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip()


@dataclass(slots=True)
class Note:
    path: str
    fields: JsonObject
    rest: JsonObject
    aliases: list[str]
    passages: list[tuple[str, Passage]]
    """Each with the id of its memory."""


def recognises(origin: Origin) -> bool:
    if origin.is_folder or origin.is_zip:
        return next(origin.texts(*ENDINGS), None) is not None
    return origin.path.suffix.lower() in ENDINGS


def read(reading: Reading) -> Iterator[Entry]:
    firsts: dict[str, str] = {}
    for note in _notes(reading):
        if note.passages:
            for name in _names(note):
                firsts.setdefault(name, note.passages[0][0])
        for id, passage in note.passages:
            yield from reading.memory(_memory(reading, note, id, passage), {"file": note.path, **note.rest})
    if not reading.origin.is_folder and not reading.origin.is_zip:
        return
    for note in _notes(reading, quietly=True):
        for id, passage in note.passages:
            yield from _links(reading, note, id, passage, firsts)


def _notes(reading: Reading, quietly: bool = False) -> Iterator[Note]:
    findings = reading.findings if not quietly else type(reading.findings)()
    for found in reading.origin.texts(*ENDINGS):
        if found.data is None:
            findings.left_out("file", found.path, found.left_out)
            continue
        lines = _lines(found.data)
        matter, start = _front_matter(lines)
        of, rest = FRONT_MATTER.read(matter, findings)
        about = of.get("note", {})
        aliases = about.get("aliases", [])
        is_instruction = PurePosixPath(found.path).name.lower() in INSTRUCTIONS
        passages = _items(lines, start) if is_instruction else _sections(lines, start)
        title = {"title": about["title"]} if "title" in about else {}
        known: Counter[str] = Counter()
        kept: list[tuple[str, Passage]] = []
        for one in passages:
            key = f"{' > '.join(one.headings)}\x1f{one.text}"
            known[key] += 1
            kept.append((derived_id("markdown", _root(reading.origin), found.path, key, str(known[key])), one))
        if not kept:
            findings.left_out("file", found.path, "it has no text")
        listed = aliases if isinstance(aliases, list) else [aliases]
        yield Note(found.path, of.get("memory", {}), {**title, **rest}, [str(one) for one in listed], kept)


def _root(origin: Origin) -> str:
    """What tells a file from others of the same name elsewhere, wherever the folder lies."""
    if origin.is_folder:
        return origin.path.resolve().name
    return origin.path.stem if origin.is_zip or not origin.is_here else origin.path.resolve().parent.name


def _names(note: Note) -> list[str]:
    path = PurePosixPath(note.path)
    return [name.lower() for name in (str(path.with_suffix("")), path.stem, *note.aliases)]


def _memory(reading: Reading, note: Note, id: str, passage: Passage) -> JsonObject:
    heads = " > ".join(passage.headings)
    body = _ITEM.sub("", passage.text, count=1) if _ITEM.match(passage.text) else passage.text
    is_section = bool(_HEADING.match(passage.lines[0]))
    content: JsonObject = {"text": body if is_section or not heads else f"{heads}: {body}"}
    if passage.headings:
        content["headings"] = list(passage.headings)
    tags = dict.fromkeys([*note.fields.get("tags", []), *_tags(passage)])
    fields = {**note.fields, "id": id, "content": content, "tags": list(tags)[:MOST_TAGS]}
    origin = reading.origin
    if origin.can_be_cited:
        path = origin.path / note.path if origin.is_folder else Path(origin.path)
        lines = {"first_line": passage.first, "last_line": passage.first + len(passage.lines) - 1}
        cited = {"path": str(path.absolute()), **lines, "line_hash": line_hash(passage.lines)}
        fields["cites"] = [{"type": "file", **cited}]
    return fields


def _tags(passage: Passage) -> list[str]:
    found = (one for line in passage.prose for one in _TAG.findall(_CODE.sub("", line)))
    return [one for one in found if len(one) <= LONGEST_TAG]


def _links(reading: Reading, note: Note, id: str, passage: Passage, firsts: dict[str, str]) -> Iterator[Entry]:
    prose = [_CODE.sub("", line) for line in passage.prose]
    found = (one for line in prose for one in _WIKILINK.findall(line))
    wanted = [name for one in found if (name := one.partition("|")[0].partition("#")[0].strip())]
    folder = PurePosixPath(note.path).parent
    for line in prose:
        wanted += [str((folder / one).with_suffix("")) for one in _LINK.findall(line)]
    targets: set[str] = set()
    for name in dict.fromkeys(one.removesuffix(".md").lower() for one in wanted):
        target = firsts.get(name) or firsts.get(name.rpartition("/")[2])
        if target is None:
            reading.findings.left_out("link", f"{note.path}: {name}", "there is no note of that name")
        elif target != id and target not in targets:
            targets.add(target)
            fields = {"id": derived_id("markdown link", id, target), "source_id": id, "target_id": target}
            yield Entry(Relationship, {**fields, "type": "links_to"})


# -- parsing -----------------------------------------------------------------------------------------------------------


def _lines(data: bytes) -> list[str]:
    """As citations are checked: only line feeds and carriage returns end a line, and what is not UTF-8 is Latin-1."""
    lines: list[str] = []
    for raw in data.removeprefix(codecs.BOM_UTF8).splitlines():
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError:
            line = raw.decode("latin-1")
        lines.append(str(clean(line)))
    return lines


class _PlainLoader(yaml.SafeLoader):
    """YAML without aliases: a few lines of them can stand for gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)


def _front_matter(lines: list[str]) -> tuple[JsonObject, int]:
    """The fields before the text, and the line where the text begins; what is not YAML is text."""
    if not lines or lines[0].rstrip() != "---":
        return {}, 0
    end = next((place for place, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), None)
    raw = "\n".join(lines[1:end]) if end else ""
    if end is None or len(raw) > LONGEST_FRONT_MATTER:
        return {}, 0
    try:
        found = _PlainLoader(raw).get_single_data()
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, 0
    return (
        ({str(name): _plain(value) for name, value in found.items()}, end + 1) if isinstance(found, dict) else ({}, 0)
    )


def _plain(value: object) -> object:
    """YAML has more types than JSON."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | set | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, date):
        return value.isoformat()
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _walked(lines: list[str], start: int) -> Iterator[tuple[int, str, bool]]:
    """Each line with its number, and whether it is code."""
    fence = ""
    for number, line in enumerate(lines[start:], start + 1):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
            yield number, line, True
        else:
            yield number, line, bool(fence)


def _sections(lines: list[str], start: int) -> Iterator[Passage]:
    """From each heading to the next; a heading without text stands with those below it."""
    headings: list[tuple[int, str]] = []
    passage = Passage(start + 1, [])
    for number, line, is_code in _walked(lines, start):
        found = None if is_code else _HEADING.match(line)
        if found:
            yield from _finished(passage)
            headings = _below(headings, found)
            passage = Passage(number, [], tuple(name for _, name in headings))
        passage.lines.append(line)
        if not is_code:
            passage.prose.append(line if not found else found[2])
    yield from _finished(passage)


def _below(headings: list[tuple[int, str]], found: re.Match[str]) -> list[tuple[int, str]]:
    """The headings that a new one stands under, and itself, without the marks that may close it."""
    level, name = len(found[1]), found[2].rstrip()
    bare = name.rstrip("#")
    name = bare.rstrip() if bare != name and bare[-1:] in ("", " ", "\t") else name
    return [*(one for one in headings if one[0] < level), (level, name)]


def _items(lines: list[str], start: int) -> Iterator[Passage]:
    """List items with what belongs to them, and paragraphs."""
    headings: list[tuple[int, str]] = []
    passage = Passage(start + 1, [])
    for number, line, is_code in _walked(lines, start):
        found = None if is_code else _HEADING.match(line)
        is_item = not is_code and bool(_ITEM.match(line))
        ends = not is_code and not line.strip()
        if found or is_item or ends:
            yield from _finished(passage)
            if found:
                headings = _below(headings, found)
            passage = Passage(number + (not is_item), [], tuple(name for _, name in headings))
        if not found and not ends:
            passage.lines.append(line)
            passage.prose += [] if is_code else [line]
    yield from _finished(passage)


def _finished(passage: Passage) -> Iterator[Passage]:
    while passage.lines and not passage.lines[-1].strip():
        passage.lines.pop()
    while passage.lines and not passage.lines[0].strip():
        passage.lines.pop(0)
        passage.first += 1
    is_heading_alone = len(passage.lines) == 1 and bool(_HEADING.match(passage.lines[0]))
    if passage.lines and not is_heading_alone:
        yield passage


SOURCE = Source(
    "markdown",
    "Markdown notes",
    "a Markdown file, or a folder or zip of them",
    (FRONT_MATTER, TEXT),
    recognises,
    read,
)
