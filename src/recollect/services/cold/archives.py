"""Looking through cold storage: which sessions are there, where, and what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from recollect.domain.cold import ColdArchive
from recollect.domain.conversations import Session
from recollect.domain.record import Id, QueryText
from recollect.errors import DamagedData, NotFound, Unavailable
from recollect.ports.query import Compare, Filter, Holds, IsNull, OneOf, Order, Query, equal
from recollect.services.cold.archive_files import fetched, manifest_of
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.times import From, Through
from recollect.services.transaction import load


class ArchiveView(Reply):
    """A session in cold storage."""

    session: str
    title: str = ""
    user: str | None = None
    agent: str | None = None
    project: str | None = None
    at: str = Field(description="Where its files are")
    stored_at: datetime | None = None
    first_at: datetime | None = Field(None, description="When the first of it was said or done")
    last_at: datetime | None = None
    records: int
    counts: dict[str, int] = Field(default_factory=dict, description="How many records of each type")
    bytes: int = Field(description="The size of its files")


class ArchiveFilter(Request):
    """Which archives to look at."""

    session: Id | None = Field(None, description="Only this session")
    project: Id | None = Field(None, description="Only sessions of this project")
    user: Id | None = Field(None, description="Only those with something of this user")
    agent: Id | None = Field(None, description="Only those with something of this agent")
    since: From | None = Field(None, description="Only what was said or done from this time on")
    until: Through | None = Field(None, description="Only before this time; a date includes the whole day")

    def filters(self) -> tuple[Filter, ...]:
        where: list[Filter] = [equal("status", "stored"), IsNull("session_id", wanted=False)]
        where += [equal("id", self.session)] if self.session is not None else []
        for name, value in (("project_ids", self.project), ("user_ids", self.user), ("agent_ids", self.agent)):
            where += [Holds(name, value)] if value is not None else []
        where += [Compare("last_at", ">=", self.since)] if self.since is not None else []
        where += [Compare("first_at", "<", self.until)] if self.until is not None else []
        return tuple(where)


class ListColdRequest(ArchiveFilter):
    """Which sessions in cold storage to list."""

    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class ArchivePage(PageReply[ArchiveView]):
    """Sessions in cold storage, the newest first."""

    archives: list[ArchiveView]
    bytes: int = Field(0, description="The size of the files of this page")


def list_archives(tenant: Tenant, request: ListColdRequest) -> ArchivePage:
    """Sessions in cold storage, the newest first. Reads no file."""
    order = (Order("last_at", descending=True),)
    page = tenant.find(Query(ColdArchive, request.filters(), order, request.limit, request.after))
    views = archive_views(tenant, page.records)
    return ArchivePage(archives=views, next=page.next, bytes=sum(one.bytes for one in views))


def archive_views(tenant: Tenant, archives: Sequence[ColdArchive]) -> list[ArchiveView]:
    of_these = Query(Session, (OneOf("id", tuple(one.id for one in archives)),), deleted="yes")
    sessions = {one.id: one for one in tenant.find(of_these).records} if archives else {}
    return [_view(tenant, archive, sessions.get(archive.id)) for archive in archives]


def _view(tenant: Tenant, archive: ColdArchive, session: Session | None) -> ArchiveView:
    return ArchiveView(
        session=archive.id,
        title=session.title if session else "",
        user=session.user_id if session else None,
        agent=session.agent_id if session else None,
        project=session.project_id if session else None,
        at=_label(tenant, archive),
        stored_at=session.cold_at if session else None,
        first_at=archive.first_at,
        last_at=archive.last_at,
        records=sum(archive.counts.values()),
        counts=archive.counts,
        bytes=archive.bytes,
    )


def _label(tenant: Tenant, archive: ColdArchive) -> str:
    """Callers over the network are not told the folders of this machine."""
    if tenant.scope.granted is not None and (archive.address or "file:").startswith("file:"):
        return "the storage of the service"
    return archive.address if archive.address is not None else tenant.objects.label


class ColdRequest(Request):
    """One session in cold storage."""

    id: Id = Field(description="The session")


class ShowColdReply(ArchiveView):
    """A session in cold storage, and whether its files are there and intact."""

    format: str = ""
    digest: str = Field(description="The hash of the file of its records")
    manifest: str = Field(description="The hash of its manifest")
    intact: bool = False
    problem: str = Field("", description="What is wrong with the files")


def show(tenant: Tenant, request: ColdRequest) -> ShowColdReply:
    """One session in cold storage; its files are read and checked by their hashes."""
    archive = stored_archive(tenant, request.id)
    told = archive_views(tenant, [archive])[0].model_dump()
    reply = ShowColdReply(**told, digest=archive.digest, manifest=archive.manifest)
    try:
        manifest = manifest_of(tenant, archive)
        with fetched(tenant, archive):
            return reply.model_copy(update={"format": manifest.format, "intact": True})
    except (DamagedData, NotFound, Unavailable) as error:
        return reply.model_copy(update={"problem": error.message})


def stored_archive(tenant: Tenant, id: str) -> ColdArchive:
    """The archive of a session, or an error that says that it is not in cold storage."""
    archive = tenant.get(ColdArchive, id)
    if archive is not None and archive.status == "stored" and archive.session_id is not None:
        return archive
    session = load(tenant, Session, id, deleted=True)
    raise NotFound(
        f"session '{session.id[:80]}' is not in cold storage",
        remedy="`recollect cold list` shows those that are",
        id=session.id,
    )
