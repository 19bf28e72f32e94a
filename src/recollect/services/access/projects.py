"""Projects: what is worked on over many sessions, and who takes part in them."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from recollect.domain.access import ROLES, Role
from recollect.domain.record import Id, Name, QueryText, Text
from recollect.domain.tenancy import Membership, Project, User
from recollect.errors import DuplicateKey, InvalidInput, NotFound, VersionConflict
from recollect.ports.query import Filter, Linked, OneOf, Order, Query, equal
from recollect.ports.steps import DeleteWhere, Insert, Update
from recollect.retry import retry, retry_unless_pinned
from recollect.services.access.authorize import refuse_beyond_own
from recollect.services.parties import AddRequest, ListRequest, PartyView, add, find_page, restorable_until, stamps
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import as_of_version, commit, load, logged, made, rewritten


class ProjectView(PartyView):
    """A project."""

    id: str
    name: str
    description: str = ""
    owner: str | None = Field(None, description="The user it belongs to")
    created_at: datetime
    updated_at: datetime
    created_by: str | None = None
    updated_by: str | None = None
    version: int
    restorable_until: datetime | None = Field(None, description="Set for a removed one: `project.restore` until then")


class ProjectPage(PageReply[ProjectView]):
    """Projects, the newest first."""

    projects: list[ProjectView]


class AddProjectRequest(AddRequest):
    """Something that is worked on over many sessions."""

    name: Name | None = Field(None, description="What to call it; its id by default")
    description: Text = Field("", description="What it is about")
    owner: Id | None = Field(None, description="The user it belongs to")


def add_project(tenant: Tenant, request: AddProjectRequest) -> ProjectView:
    """Add a project."""
    return project_view(tenant, add(tenant, Project, request))


class ProjectRequest(Request):
    """One project."""

    id: Id = Field(description="The project")


def show_project(tenant: Tenant, request: ProjectRequest) -> ProjectView:
    """A project with its owner."""
    return project_view(tenant, load(tenant, Project, request.id))


class ListProjectsRequest(ListRequest):
    """Which projects to list."""

    user: Id | None = Field(None, description="Only those that belong to this user")
    member: Id | None = Field(None, description="Only those that this user is a member of")


def list_projects(tenant: Tenant, request: ListProjectsRequest) -> ProjectPage:
    """Projects, the newest first."""
    where: list[Filter] = [equal("owner_id", request.user)] if request.user else []
    if request.member is not None:
        where.append(Linked(Membership, "project_id", (equal("user_id", request.member),)))
    page = find_page(tenant, Project, request, where)
    return ProjectPage(projects=[project_view(tenant, one) for one in page.records], next=page.next)


class ReviseProjectRequest(ProjectRequest):
    """Change a project; what is left out stays."""

    name: Name | None = Field(None, description="What to call it")
    description: Text | None = Field(None, description="What it is about")
    owner: Id | None = Field(None, description="The user it belongs to from now on")
    version: int | None = Field(None, ge=1, description="Only if it still has this version")


def revise_project(tenant: Tenant, request: ReviseProjectRequest) -> ProjectView:
    """Change a project's name, description or owner."""
    given = request.model_dump(exclude={"id", "version"}, exclude_none=True)
    fields = {"owner_id" if name == "owner" else name: value for name, value in given.items()}
    if not fields:
        raise InvalidInput("nothing to change was given", remedy="give name, description or owner")

    def attempt() -> ProjectView:
        project = as_of_version(load(tenant, Project, request.id), request.version)
        after = rewritten(project, tenant, **fields)
        entry = logged(tenant, "update", "project.revise", None, id=project.id, fields=sorted(fields))
        commit(tenant, [Update(after), entry])
        return project_view(tenant, after.changed(version=project.version + 1))

    return retry_unless_pinned(request.version, attempt)


class MemberView(Reply):
    """A user in a project."""

    user: str
    name: str
    role: Role
    since: datetime


class ListMembersRequest(ProjectRequest):
    """The members of which project."""

    limit: int = Field(100, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class MemberPage(PageReply[MemberView]):
    """Members of a project, those who came last first."""

    members: list[MemberView]


def list_members(tenant: Tenant, request: ListMembersRequest) -> MemberPage:
    """The members of a project with their roles, without users who are removed."""
    load(tenant, Project, request.id)
    newest = (Order("id", descending=True),)
    of_it = (equal("project_id", request.id),)
    page = tenant.find(Query(Membership, of_it, newest, request.limit, request.after))
    ids = tuple(one.user_id for one in page.records)
    names = dict(tenant.select(Query(User, (OneOf("id", ids),)), ("id", "name"))) if ids else {}
    shown = [
        MemberView(user=one.user_id, name=names[one.user_id], role=one.role, since=one.created_at)
        for one in page.records
        if one.user_id in names
    ]
    return MemberPage(members=shown, next=page.next)


class MemberRequest(ProjectRequest):
    """A user and a project."""

    user: Id = Field(description="The user")

    def where(self) -> tuple[Filter, ...]:
        return (equal("project_id", self.id), equal("user_id", self.user))


class AddMemberRequest(MemberRequest):
    """A user to take into a project."""

    role: Role = Field("writer", description="What they may do in it: reader, writer, curator, admin or owner")


def add_member(tenant: Tenant, request: AddMemberRequest) -> MemberView:
    """Take a user into a project, or change their role in it."""
    refuse_beyond_own(tenant.scope, ROLES[request.role])

    def attempt() -> MemberView:
        load(tenant, Project, request.id)
        user = load(tenant, User, request.user)
        known = next(iter(tenant.find(Query(Membership, request.where())).records), None)
        if known is None:
            member = made(Membership, tenant, project_id=request.id, user_id=user.id, role=request.role)
        else:
            member = rewritten(known, tenant, role=request.role)
        entry = logged(tenant, "update", "project.add_member", None, id=request.id, user=user.id, role=request.role)
        if known is None or known.role != request.role:
            commit(tenant, [Insert(member) if known is None else Update(member), entry])
        return MemberView(user=user.id, name=user.name, role=request.role, since=member.created_at)

    return retry(attempt, VersionConflict, DuplicateKey)


def remove_member(tenant: Tenant, request: MemberRequest) -> ProjectView:
    """Take a user out of a project; what they wrote in it stays."""
    project = load(tenant, Project, request.id)
    if not tenant.count(Query(Membership, request.where())):
        raise NotFound(
            f"user '{request.user[:80]}' is not a member of that project", remedy="see project.members", id=request.user
        )
    entry = logged(tenant, "update", "project.remove_member", None, id=project.id, user=request.user)
    commit(tenant, [DeleteWhere(Membership, request.where()), entry])
    return project_view(tenant, project)


def project_view(tenant: Tenant, project: Project) -> ProjectView:
    return ProjectView(
        id=project.id,
        name=project.name,
        description=project.description,
        owner=project.owner_id,
        **stamps(project),
        restorable_until=restorable_until(tenant, project),
    )
