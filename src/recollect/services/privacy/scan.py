"""The proof of an erasure: everything that is kept is looked through for what was erased.

Records are read as the store returns them; files, tables and stored objects byte by byte (ports/traces.py). Looked for
are the ids of what was erased, the names of the person, and pieces of the erased texts. A piece that a record of others
has, too, proves nothing and is left out. In the certificate stand keyed hashes of what was looked for, never text.

The files of an embedded store are those of all its organizations. What one of the others has is no trace, and nobody
who asks over the network may learn that they have it: for them, files are looked through only if they are theirs alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from recollect.domain.record import RECORDS, JsonObject, Record
from recollect.ports.records import Scope
from recollect.ports.traces import SHORTEST_NEEDLE, ByteSearch, RenamesDeleted, Scannable, ScannedPlace
from recollect.services.admin.export import record_line
from recollect.services.data.contents import stored_content
from recollect.services.privacy.redaction import Redaction
from recollect.services.privacy.subject import pages
from recollect.services.tenant import Tenant

LEFT_OUT = "the files of the store: for a caller over the network they are not looked through"
MOST_SAMPLES = 200
MOST_OF_A_KIND = 20
MOST_PLACES = 100
MOST_HASHES = 50
# A piece of a text that is written the same way in JSON, in a table and in a file.
_PIECE = re.compile(r'[^"\\\x00-\x1f]{12,60}')
_TEXTS = ("text", "title", "goal", "question", "summary", "description", "value", "reasoning", "task", "note")


def samples_of(records: Sequence[Record]) -> list[str]:
    """Pieces of texts that are looked for afterwards."""
    found: list[str] = []
    for record in records:
        for name in _TEXTS:
            value = getattr(record, name, None)
            piece = _PIECE.search(value) if isinstance(value, str) else None
            if piece is not None:
                found.append(piece[0].strip())
                break
    return [one for one in dict.fromkeys(found) if len(one.encode()) >= SHORTEST_NEEDLE]


@dataclass(frozen=True)
class SearchTerms:
    """What is looked for: the names of the person, their id first, the ids of the erased records, pieces of texts."""

    names: Sequence[str]
    ids: Sequence[str]
    texts: Sequence[str]


def scan(tenant: Tenant, terms: SearchTerms) -> JsonObject:
    """Look everywhere; what stands in the certificate about it."""
    texts = [one for one in terms.texts if len(one.encode()) >= SHORTEST_NEEDLE]
    wanted = [one for one in dict.fromkeys((*terms.names, *terms.ids)) if len(one.encode()) >= SHORTEST_NEEDLE]
    redaction = Redaction(tuple(terms.names), ids=dict.fromkeys(terms.names[:1], ""))
    records, named_in = _scanned_records(tenant, [*wanted, *texts], redaction)
    elsewhere = {number - len(wanted) for number in records.found if number >= len(wanted)}
    texts = [one for number, one in enumerate(texts) if number not in elsewhere]
    named = [one for one in wanted if one in terms.names[1:]]
    # A store that cannot rename what was deleted has ids in its log, by which other processes learn of the deletion.
    in_files = [*(wanted if isinstance(tenant.store, RenamesDeleted) else named), *texts]
    in_store = _scanned_store(tenant, [one.encode() for one in in_files])
    places = [
        ScannedPlace(records.name, records.bytes, frozenset(n for n in records.found if n < len(wanted))),
        *in_store,
        *_scanned_objects(tenant, [one.encode() for one in in_files]),
    ]
    keyed = [tenant.keyring.keyed(tenant.scope, one) for one in (*wanted, *texts)[:MOST_HASHES]]
    return {
        "clean": not named_in and not any(place.found for place in places),
        "records_that_name_them": named_in,
        "ids": len(wanted),
        "texts": len(texts),
        "also_stored_by_others": len(elsewhere),
        "places": _listed(places),
        "files": len(places),
        "bytes": sum(place.bytes for place in places),
        "looked_for": keyed,
        "left_out": LEFT_OUT if isinstance(tenant.store, Scannable) and not in_store else "",
    }


def _listed(places: Sequence[ScannedPlace]) -> list[JsonObject]:
    """Those where something was found first, then as many as fit."""
    first = sorted(places, key=lambda place: not place.found)
    return [{"name": one.name, "bytes": one.bytes, "found": len(one.found)} for one in first[:MOST_PLACES]]


def _scanned_records(tenant: Tenant, terms: Sequence[str], redaction: Redaction) -> tuple[ScannedPlace, int]:
    """The records with any of these in them, and how many name the person: short names are words, not bytes."""
    search, size, found, named = ByteSearch([one.encode() for one in terms]), 0, set[int](), 0
    with tenant.snapshot() as reading:
        for _, record in sorted(RECORDS.items()):
            for page in pages(reading, tenant, record):
                count, there = search.found_in([b"\n".join(piece for one in page for piece in _pieces(one))])
                size, found = size + count, found | there
                named += sum(bool(redaction.fields_found(one)) or one.created_by in redaction.ids for one in page)
    return ScannedPlace("records", size, frozenset(found)), named


def _pieces(record: Record) -> Iterator[bytes]:
    yield record_line(record)
    values = record.__dict__
    yield from (values[one.name] for one in record.columns() if one.type == "bytes" and values[one.name])


def _scanned_store(tenant: Tenant, needles: Sequence[bytes]) -> list[ScannedPlace]:
    store, is_outside = tenant.store, tenant.scope.granted is not None
    if not isinstance(store, Scannable):
        return []
    others = [one for one in tenant.store.tenants() if one != tenant.scope.organization_id] if store.scans_files else []
    if others and is_outside:
        return []
    places = list(store.scan(tenant.scope, needles))
    found = sorted({number for place in places for number in place.found})
    theirs = _stored_by(tenant, others, [needles[number] for number in found]) if found else frozenset()
    foreign = {found[number] for number in theirs}
    places = [replace(place, found=place.found - foreign) for place in places]
    if store.scans_files and is_outside:  # what the files of this machine are called is not for everybody
        whole = frozenset(number for place in places for number in place.found)
        return [ScannedPlace("files of the store", sum(place.bytes for place in places), whole)]
    return places


def _stored_by(tenant: Tenant, organizations: Sequence[str], needles: Sequence[bytes]) -> frozenset[int]:
    """Which of these bytes are in records of other organizations, whose files are the same."""
    search, found = ByteSearch(needles), set[int]()
    for organization in organizations:
        other = tenant.for_scope(Scope(organization))
        with other.snapshot() as reading:
            for record in RECORDS.values():
                for page in pages(reading, other, record):
                    found |= search.found_in([b"\n".join(piece for one in page for piece in _pieces(one))])[1]
    return frozenset(found)


def _scanned_objects(tenant: Tenant, needles: Sequence[bytes]) -> Iterator[ScannedPlace]:
    search = ByteSearch(needles)
    for info in stored_content(tenant):
        size, found = search.found_in(tenant.objects.read(tenant.content_place, info.digest))
        yield ScannedPlace(f"stored file {info.digest[:20]}", size, found)
