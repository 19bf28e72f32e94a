"""Finding what is stored about a person: how much of which kind, and every record of it, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from recollect.domain.record import RECORDS, Id, Name, QueryText, Record, clipped
from recollect.errors import InvalidInput, NotFound
from recollect.ports.query import OneOf, Query
from recollect.services.memories.indexing import Progress
from recollect.services.privacy.certificate import CertificateView, certificates_of
from recollect.services.privacy.subject import RELATIONS, Relation, Subject, SubjectData, collect, subject_of
from recollect.services.requests import AS_GIVEN, PageReply, Reply, Request
from recollect.services.tenant import Tenant

MOST_NAMES = 20
TITLE = 80
KINDS = {"execution": "run", "cycle": "step"}
"""Tables that are called otherwise where people read of them."""
_TITLES = ("text", "title", "name", "goal", "question", "path", "label", "tag", "task", "key", "thread", "why")


class SubjectRequest(Request):
    """Whom it is about."""

    user: Id = Field(description="The id of the person")
    also: Annotated[list[Name], AS_GIVEN] = Field(
        default_factory=list,
        max_length=MOST_NAMES,
        description="What else they are called in texts; their id, name and email are known",
    )


class FindSubjectRequest(SubjectRequest):
    """Whose records to find, and which of them to list."""

    kind: Name | None = Field(None, description="Only list records of this kind, such as memory")
    relation: Relation | None = Field(None, description="Only list own, by, about or shared ones")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class SubjectCount(Reply):
    """How many records of one kind are theirs, made by them, about them or shared with them."""

    kind: str
    relation: Relation
    count: int


class SubjectRecord(Reply):
    """One record about a person."""

    kind: str
    relation: Relation
    id: str
    title: str = ""
    created_at: datetime | None = None


class SubjectPage(PageReply[SubjectRecord]):
    """What is stored about a person."""

    records: list[SubjectRecord]
    user: str
    name: str = ""
    names: list[str] = Field(default_factory=list, description="What was looked for in texts")
    counts: list[SubjectCount] = Field(default_factory=list)
    log_entries: int = Field(0, description="How many entries of the access log name them")
    certificates: list[CertificateView] = Field(
        default_factory=list, description="Erasures of the same id, which may have been another person's"
    )


def kind_of(table: str) -> str:
    return KINDS.get(table, table.replace("_", " "))


def find(
    tenant: Tenant, request: FindSubjectRequest, progress: Progress = lambda done, total: None
) -> SubjectPage:  # fmt: skip
    """Everything that is stored about a person: counts for all of it, and the records page by page.

    Reads every record of the organization once.
    """
    subject = subject_of(tenant, request.user, request.also)
    data = collect(tenant, subject, progress)
    known = certificates_of(tenant, subject.id)
    if known:  # the log must not name again who was erased
        tenant.journal.note(tenant.scope, "read", "privacy.find", (), subject=known[0].subject)
    if data.is_empty and not known:
        raise nothing_stored(subject)
    listed = [key for key in _keys(data) if _is_wanted(key, request)]
    start = _start(request.after)
    page = listed[start : start + request.limit]
    return SubjectPage(
        records=list(_shown(tenant, page)),
        next=str(start + request.limit) if start + request.limit < len(listed) else None,
        user=subject.id,
        name=subject.user.name if subject.user is not None else "",
        names=list(subject.names),
        counts=counts_of(data),
        log_entries=data.log_entries,
        certificates=known,
    )


def nothing_stored(subject: Subject) -> NotFound:
    return NotFound(
        f"nothing is stored about '{subject.id[:80]}'",
        remedy="check the id with `recollect user list`; `recollect privacy certificates` lists who was erased",
        id=subject.id[:255],
    )


def counts_of(data: SubjectData) -> list[SubjectCount]:
    return [
        SubjectCount(kind=kind_of(table), relation=relation, count=len(ids))
        for relation in RELATIONS
        for table, ids in sorted(listed_ids(data, relation).items())
    ]


def listed_ids(data: SubjectData, relation: Relation) -> dict[str, set[str]]:
    """The records of one relation; what they made and others keep is by them, files with their words are about them."""
    found = {table: set(ids) for table, ids in data.of(relation).items()}
    if relation == "by":
        for table, ids in data.touched.items():
            more = ids - data.about.get(table, set())
            found[table] = found.get(table, set()) | more
    if relation == "about":
        files = {file.id for file in data.files} - data.by.get("workspace_file", set())
        found |= {"workspace_file": files, "snapshot": {one.id for one in data.snapshots}}
    return {table: ids for table, ids in found.items() if ids}


_Key = tuple[Relation, str, str]


def _keys(data: SubjectData) -> Iterator[_Key]:
    for relation in RELATIONS:
        for table, ids in sorted(listed_ids(data, relation).items()):
            yield from ((relation, table, id) for id in sorted(ids))


def _is_wanted(key: _Key, request: FindSubjectRequest) -> bool:
    relation, table, _ = key
    return (request.relation in (None, relation)) and (request.kind in (None, table, kind_of(table)))


def _start(after: str | None) -> int:
    if after is None:
        return 0
    if not after.isdecimal() or len(after) > 12:
        raise InvalidInput("that is not the `next` of a page", remedy="give the `next` of the page before")
    return int(after)


def _shown(tenant: Tenant, page: Sequence[_Key]) -> Iterator[SubjectRecord]:
    tables = {table for _, table, _ in page}
    known = {table: records_of(tenant, table, [id for _, one, id in page if one == table]) for table in tables}
    for relation, table, id in page:
        record = known[table].get(id)
        created = record.created_at if record is not None else None
        yield SubjectRecord(
            kind=kind_of(table), relation=relation, id=id, title=title_of(record), created_at=created
        )  # fmt: skip


def records_of(tenant: Tenant, table: str, ids: Sequence[str]) -> dict[str, Record]:
    """The records of one type with these ids, removed ones too."""
    found: Query[Any] = Query(RECORDS[table], (OneOf("id", tuple(ids)),), deleted="yes")
    return {one.id: one for one in tenant.find(found).records} if ids else {}


def title_of(record: Record | None) -> str:
    named = (getattr(record, name, None) for name in _TITLES)
    return clipped(" ".join(next((str(one) for one in named if one), "").split()), TITLE)
