"""Projects: what is worked on over many sessions. Added, shown, listed, changed."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from recollect.domain.record import Id, Name, Text
from recollect.domain.tenancy import Project
from recollect.errors import InvalidInput
from recollect.ports.query import equal
from recollect.ports.steps import Update
from recollect.retry import retry_unless_pinned
from recollect.services.parties import AddRequest, ListRequest, PartyView, add, find_page, restorable_until
from recollect.services.requests import PageReply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import as_of_version, commit, load, logged, rewritten


class ProjectView(PartyView):
    """A project."""

    id: str
    name: str
    description: str = ""
    owner: str | None = Field(None, description="The user it belongs to")
    created_at: datetime
    version: int
    restorable_until: datetime | None = Field(None, description="Set for a removed one: `project.restore` until then")


class ProjectPage(PageReply[ProjectView]):
    """Projects, the newest first."""

    projects: list[ProjectView]


class AddProjectRequest(AddRequest):
    """Something that is worked on over many sessions."""

    name: Name = Field(description="What to call it")
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


def list_projects(tenant: Tenant, request: ListProjectsRequest) -> ProjectPage:
    """Projects, the newest first."""
    where = (equal("owner_id", request.user),) if request.user else ()
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


def project_view(tenant: Tenant, project: Project) -> ProjectView:
    return ProjectView(
        id=project.id,
        name=project.name,
        description=project.description,
        owner=project.owner_id,
        created_at=project.created_at,
        version=project.version,
        restorable_until=restorable_until(tenant, project),
    )
