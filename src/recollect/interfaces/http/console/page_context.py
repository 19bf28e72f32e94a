"""The context of a page: who asks, what they may ask, and the page that comes of it.

Whatever goes wrong becomes a page too, with the same status and remedy as the API gives. Nothing on a page may run or
load but our own files: the Content-Security-Policy says so, and no template has inline script or style.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from recollect.catalogue import OPERATIONS, Operation, invoke
from recollect.errors import Denied, NotFound, RecollectError, Unauthenticated
from recollect.interfaces.http.app import COOKIE, PREFIX, Endpoint, Service
from recollect.interfaces.http.console.templating import rendered
from recollect.interfaces.http.kept_figures import Counted
from recollect.services.access import keys as access
from recollect.services.access.authorize import Principal, authorize
from recollect.services.trust.citations import CitationView

ROOT = "/console"
SIGN_IN = f"{ROOT}/sign-in"
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


MOST_NAMES, ID_LENGTH = 1000, 36
TemplateValues = dict[str, object]
"""What a template is given, by name."""


class Link(NamedTuple):
    """An entry of the menu: the letter that goes there after `g`, and the operation it cannot do without."""

    path: str
    title: str
    letter: str
    needs: str
    group: str


MENU = (
    Link("", "Overview", "o", "stats", "Memory"),
    Link("/search", "Search", "s", "recall", "Memory"),
    Link("/timeline", "Timeline", "m", "activity", "Memory"),
    Link("/review", "Review", "r", "review.list", "Memory"),
    Link("/citations", "Citations", "i", "citation.list", "Memory"),
    Link("/sessions", "Sessions", "c", "session.list", "Memory"),
    Link("/patterns", "Patterns", "p", "pattern.show", "Memory"),
    Link("/ask", "Ask", "q", "query.run", "Data"),
    Link("/sources", "Sources", "d", "source.list", "Data"),
    Link("/connections", "Connections", "n", "connection.list", "Data"),
    Link("/agents", "Agents", "a", "agent.list", "Agents"),
    Link("/runs", "Runs", "t", "run.list", "Agents"),
    Link("/approvals", "Approvals", "v", "run.waiting", "Agents"),
    Link("/workspaces", "Workspaces", "w", "workspace.list", "Agents"),
    Link("/import", "Import", "x", "import_", "Service"),
    Link("/audit", "Audit", "l", "log", "Service"),
    Link("/privacy", "Privacy", "y", "privacy.find", "Service"),
    Link("/retention", "Retention", "h", "retention.preview", "Service"),
    Link("/cold", "Cold storage", "f", "cold.list", "Service"),
    Link("/backups", "Backups", "b", "backup.list", "Service"),
    Link("/users", "Users", "u", "user.revise", "Service"),
    Link("/keys", "Keys", "k", "key.list", "Service"),
    Link("/settings", "Settings", "e", "doctor", "Service"),
)


UPLOADS = frozenset({"import_"})
"""What works on a file of the machine, but is offered over HTTP with a file that is sent."""


class Page(NamedTuple):
    """A page: its path, its template, the operation it needs, and the function that collects its values."""

    path: str
    template: str
    needs: str
    gather: Callable[[PageContext], TemplateValues]


@dataclass(frozen=True)
class PageContext:
    """One request for a page: who asks, what they may ask, and the names of those whom the page mentions."""

    service: Service
    request: Request
    principal: Principal

    @property
    def is_poll(self) -> bool:
        """Whether an open page asks for what is new: that alone is not in the access log, but an answer is."""
        return bool(self.request.headers.get("x-recollect-poll"))

    def may(self, operation: str) -> bool:
        """Whether there is such an operation and the visitor may use it."""
        known = _offered(operation)
        if known is None or known.permission not in self.principal.granted:
            return False
        return known.permission != "operate" or self.principal.scope.organization_id == self.service.operator

    def call(self, operation: str, /, **fields: Any) -> Any:
        """Ask an operation as every interface does: authorized, logged, in the visitor's scope; looking is no use."""
        known = self.allowed(operation)
        if known.local:  # a page names no file of the machine: what is uploaded is sent to the API by its script
            raise NotFound("there is no such page", remedy="choose a page from the menu")
        given = {name: value for name, value in fields.items() if value not in (None, "", [])}
        reading: Literal["view", "poll"] = "poll" if self.is_poll else "view"
        return invoke(known, self.service.core, replace(self.principal.scope, reading=reading), given)

    def allowed(self, operation: str) -> Operation:
        """The operation, if the visitor may use it; a refusal is in the access log."""
        known = _offered(operation)
        if known is None:  # what works on files of the machine is for who sits at it
            raise NotFound("there is no such page", remedy="choose a page from the menu")
        with self.service.core.journal.attend(self.principal.scope, known.access, known.name, {}, failures_only=True):
            authorize(self.principal, known.name, known.permission)
            if not self.may(operation):
                raise Denied(f"only the operator of this service may use {operation}", remedy="ask the operator")
        return known

    def ask(self, operation: str, /, **fields: Any) -> Any:
        """The answer, or None where the visitor may not ask or there is nothing to ask."""
        return self.call(operation, **fields) if self.may(operation) else None

    def kept(self, operation: str, is_large: Callable[[Any], bool], /, **fields: Any) -> Counted[Any]:
        """As `call`, but of a large store what was counted lately, for the same part of it and the same zone."""
        self.allowed(operation)
        scope = self.principal.scope
        key = (operation, scope.organization_id, scope.restriction, self.introduced.timezone, tuple(fields.items()))
        return self.service.kept_figures.of(key, lambda: self.call(operation, **fields), is_large)

    def query(self, name: str, default: str = "") -> str:
        return self.request.query_params.get(name, default)

    def queries(self, name: str) -> list[str]:
        return [value for value in self.request.query_params.getlist(name) if value]

    @property
    def id(self) -> str:
        return str(self.request.path_params["id"])

    def here_with(self, **changes: object) -> str:
        """The address of this page with some of its parameters changed; what is empty is left out."""
        kept = [(name, value) for name, value in self.request.query_params.multi_items() if name not in changes]
        given = [(name, value) for name, value in [*kept, *changes.items()] if value not in (None, "")]
        return f"?{urlencode(given)}"

    def names(self, type: str, ids: Iterable[str | None]) -> dict[str, str]:
        """The names of users, agents, sessions or projects by their ids, to be read instead of ids."""
        wanted = list(dict.fromkeys(id for id in ids if id))[:MOST_NAMES]
        archived = "yes" if type == "session" else None
        known = self.ask(f"{type}.list", ids=wanted, limit=MOST_NAMES, archived=archived) if wanted else None
        return {one.id: one.title if type == "session" else one.name for one in known or ()}

    @cached_property
    def _people(self) -> dict[str, str]:
        return {}

    @cached_property
    def _keys(self) -> dict[str, str]:
        keys = self.ask("key.list", revoked=True)
        return {one.id: one.name for one in keys.keys} if keys else {}

    def learn_names(self, ids: Iterable[str | None]) -> None:
        """Learn the names of those whom a page is about to name, all in one question."""
        unknown = {id for id in ids if id and len(id) == ID_LENGTH} - self._people.keys()
        self._people.update(self.names("user", unknown))
        self._people.update({id: self._keys.get(id, id) for id in unknown - self._people.keys()})

    def learn_cited_names(self, citations: Iterable[CitationView]) -> None:
        self.learn_names(one.source.removeprefix("user:") for one in citations if one.type == "user")

    def person(self, id: str) -> str:
        """Somebody's name, if it is an id that we know; else what was given."""
        self.learn_names([id])
        return self._people.get(id, id)

    @cached_property
    def introduced(self) -> access.SignedInUser:
        return access.introduced(self.service.core, self.principal)

    def api(self, operation: str, **ids: str) -> str:
        """The path of an operation in the API, for the script of a page to ask."""
        path = OPERATIONS[operation].route.partition(" ")[2]
        for name, id in ids.items():
            path = path.replace(f"{{{name}}}", quote(id, safe=""))
        return PREFIX + path

    def frame(self) -> TemplateValues:
        """What stands around every page."""
        token = self.request.cookies.get(COOKIE, "")
        path = self.request.url.path.removeprefix(ROOT)
        here = "" if not path.strip("/") else "/" + path.strip("/").split("/")[0]
        here = {"/memories": "/search"}.get(here, here)
        return {
            "menu": [link for link in MENU if self.may(link.needs)],
            "here": here,
            "proof": access.proof(token) if token else "",
            "organization": self.principal.scope.organization_id,
            "who": self.introduced.name,
            "role": self.introduced.role,
            "me": self.principal.scope.actor,
            "may": self.may,
            "here_with": self.here_with,
            "person": self.person,
            "api": self.api,
            "zone": self.introduced.timezone,
        }


def _offered(operation: str) -> Operation | None:
    known = OPERATIONS.get(operation)
    return None if known is not None and known.local and operation not in UPLOADS else known


def page_endpoint(service: Service, page: Page) -> Endpoint:
    """A page as an endpoint of the service."""

    async def handler(request: Request) -> Response:
        return await shown(request, lambda: service.run(lambda: _rendered_page(service, request, page)))

    return "GET", ROOT + page.path, f"console{page.path or '/'}", handler


def _rendered_page(service: Service, request: Request, page: Page) -> Response:
    context = PageContext(service, request, service.principal(request))
    try:
        needed = context.allowed(page.needs)
        shown = html(page.template, **context.frame(), **page.gather(context))
        if not context.is_poll:
            return shown
        shown.headers["etag"] = f'"{sha256(shown.body).hexdigest()[:32]}"'
        if request.headers.get("if-none-match") == shown.headers["etag"]:
            return Response(status_code=304, headers={"etag": shown.headers["etag"]} | SECURITY_HEADERS)
        viewing = replace(context.principal.scope, reading="view")
        with service.core.journal.attend(viewing, needed.access, needed.name, dict(request.path_params)):
            return shown
    except RecollectError as error:
        return html("problem.html", error.http_status, **context.frame(), problem=error)


async def shown(request: Request, draw: Callable[[], Awaitable[Response]]) -> Response:
    """A page, or what went wrong as one; who is not signed in is asked to."""
    try:
        return await draw()
    except Unauthenticated:
        if request.headers.get("x-recollect-fragment"):
            raise
        return RedirectResponse(f"{SIGN_IN}?next={quote(_where(request))}", 303, SECURITY_HEADERS)
    except RecollectError as error:
        return html("problem_alone.html", error.http_status, problem=error)


def _where(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def html(template: str, status: int = 200, /, **facts: object) -> HTMLResponse:
    return HTMLResponse(rendered(template, facts), status, SECURITY_HEADERS)
