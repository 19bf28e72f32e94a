"""The service: every operation of the catalogue as a route, behind keys, permissions and limits.

The core is synchronous: requests run in a few threads, behind a limit that turns away what would only queue. Every
answer carries a request id; every problem has one shape; nothing of what is stored reaches a log.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from starlette.types import Lifespan

from recollect.catalogue import FORMER_NAMES, Operation, invoke
from recollect.domain.record import new_id
from recollect.domain.text.secrets import find
from recollect.errors import Denied, RecollectError, Unauthenticated, Unavailable
from recollect.interfaces.http import openapi
from recollect.interfaces.http.body_timeouts import BodyTimeouts
from recollect.interfaces.http.client_address import Proxies, client_network
from recollect.interfaces.http.counts import Counts, OwnCounts
from recollect.interfaces.http.host_check import check_host, is_loopback
from recollect.interfaces.http.kept_figures import KeptFigures
from recollect.interfaces.http.limits import TRIES_BY_ACCOUNT, TRIES_BY_ADDRESS, Rates, RequestLimit, Usage
from recollect.interfaces.http.log_lines import log_request
from recollect.interfaces.http.metrics import CONTENT_TYPE, Metrics, RequestsInside
from recollect.interfaces.http.paths import PathRoute
from recollect.interfaces.http.request_parsing import body_of, declared_bytes, fields_of
from recollect.services.access import keys
from recollect.services.access.authorize import Principal, authorize
from recollect.services.access_journal import BUSY_SECONDS
from recollect.services.requests import Reply
from recollect.services.tenant import Core
from recollect.settings import ServerSettings

PREFIX = "/v1"
COOKIE = "recollect"
CSRF = "x-recollect-csrf"
SMALL_BODY = 1 << 16
ANY_HOST = frozenset({"health", "ready"})  # probes ask by whatever address they know
UNTRACED = ANY_HOST | {"metrics"}  # asked every few seconds
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
Handler = Callable[[Request], Awaitable[Response]]
Endpoint = tuple[str, str, str, Handler]
"""Method, path, the name it has in figures and logs, and what answers."""
T = TypeVar("T")
log = logging.getLogger("recollect.service")


class Service:
    """What the routes share: the core, the threads, the limits and the figures."""

    def __init__(
        self,
        core: Core,
        settings: ServerSettings,
        operator: str,
        counts: Counts | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.core = core = replace(core, passages_at_once=settings.passages_at_once)
        self.settings = settings
        self.operator = operator
        self.threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="recollect-http")
        self.counts = counts = counts or OwnCounts()
        self.requests = RequestLimit(settings.threads + settings.waiting, counts.inside[0])
        self.data_threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="recollect-data")
        self.data_requests = RequestLimit(settings.threads + settings.waiting, counts.inside[1])
        self.transfers = RequestLimit(2 * settings.threads)
        self.rates = Rates(counts=counts)
        self.usage = Usage(partial(keys.count_uses, core), counts)
        self.metrics = metrics or Metrics(RequestsInside(counts.requests_inside))
        self.kept_figures = KeptFigures(self.threads)
        self.is_closing = False
        self._busy_until = 0.0

    def is_busy(self) -> bool:
        """Whether somebody waits for an answer, or did a moment ago."""
        return time.monotonic() < self._busy_until or self.counts.requests_inside() > 0

    async def run(self, work: Callable[[], T], operation: Operation | None = None) -> T:
        """In a thread, if there is room for one more. However many files are being read, memories are answered."""
        is_data = operation is not None and operation.reads_data
        limit, threads = (self.data_requests, self.data_threads) if is_data else (self.requests, self.threads)
        with limit:
            self._busy_until = time.monotonic() + BUSY_SECONDS
            traced = partial(contextvars.copy_context().run, work)
            return await asyncio.get_running_loop().run_in_executor(threads, traced)

    async def expect_key(self, request: Request) -> None:
        """Nothing is read from those who bring no key, and nothing large from those whose key is not valid."""
        token = needed_token(request)
        size = declared_bytes(request)
        if size is None or size > SMALL_BODY:
            await self.run(lambda: keys.authenticate(self.core, token, address_of(request)))

    def principal(self, request: Request) -> Principal:
        """Who asks: by a key in the header, or by the console's cookie with the proof that our own page asks."""
        token = needed_token(request)
        principal = keys.authenticate(self.core, token, address_of(request))
        if _token(request)[1] and request.method not in ("GET", "HEAD"):
            _check_proof(request, token)
        self.rates.take(principal.key.id, principal.key.rate_per_minute or self.settings.rate_per_minute)
        self.usage.count(principal.key)
        request.state.organization, request.state.key = principal.scope.organization_id, principal.key.id
        return principal

    def allowed(self, request: Request, operation: Operation) -> Principal:
        """Who asks, if they may; a refusal is in the access log."""
        return self.permitted(self.principal(request), operation)

    def permitted(self, principal: Principal, operation: Operation) -> Principal:
        with self.core.journal.attend(principal.scope, operation.access, operation.name, {}, failures_only=True):
            authorize(principal, operation.name, operation.permission)
            if not self.grants(principal, operation):
                raise _operators_alone(operation.name)
            if operation.takes_password:
                self.rates.take(f"sign-in from {client_network(principal.scope.address)}", TRIES_BY_ADDRESS)
                self.rates.take(f"password of {principal.scope.actor}", TRIES_BY_ACCOUNT)
        return principal

    def grants(self, principal: Principal, operation: Operation) -> bool:
        """What concerns all tenants is the operator's alone, whatever a key of another says."""
        is_operator = principal.scope.organization_id == self.operator
        return operation.permission in principal.granted and (operation.permission != "operate" or is_operator)

    def operators(self, request: Request, what: str) -> None:
        """Denied to everybody but those who run the service."""
        principal = self.principal(request)
        authorize(principal, what, "operate")
        if principal.scope.organization_id != self.operator:
            raise _operators_alone(what)

    def close(self) -> None:
        self.is_closing = True
        self.data_threads.shutdown(wait=False, cancel_futures=True)  # the store's closing ends what is being read
        self.threads.shutdown(wait=True, cancel_futures=True)
        self.usage.flush()


def _operators_alone(what: str) -> Denied:
    return Denied(f"only the operator of this service may use {what}", remedy="ask the operator")


def _token(request: Request) -> tuple[str | None, bool]:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in ("bearer", "token") and given.strip():  # mem0's clients say Token
        return given.strip(), False
    if "x-api-key" in request.headers:
        return request.headers["x-api-key"], False
    return request.cookies.get(COOKIE), True


def needed_token(request: Request) -> str:
    token, _ = _token(request)
    if token is None:
        raise Unauthenticated("a key is required", remedy="send the header Authorization: Bearer KEY")
    return token


def address_of(request: Request) -> str | None:
    return request.client.host if request.client else None


def _is_local(request: Request, settings: ServerSettings) -> bool:
    """Whether the client is on this machine: not behind a proxy, where everybody seems to be."""
    is_fronted = settings.hosts or settings.proxies or not request.state.is_direct
    return not is_fronted and is_loopback(address_of(request) or "")


def _check_proof(request: Request, token: str) -> None:
    """CSRF protection: a browser sends its cookies for any page, but only the console knows the token."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    if not keys.proves(token, request.headers.get(CSRF, "")) or site not in ("same-origin", "none"):
        raise Denied("this request did not come from the console", remedy="reload the page and try again")


def build(
    service: Service,
    endpoints: Iterable[Endpoint] = (),
    routes: Iterable[BaseRoute] = (),
    lifespan: Lifespan[Starlette] | None = None,
) -> Starlette:
    """The application: the operations, what a service needs, and the endpoints and routes of the other interfaces."""
    own = [*map(partial(operation_endpoint, service), openapi.offered()), *_former_endpoints(service)]
    own += [*_service_endpoints(service), *endpoints]
    app = Starlette(
        routes=[*_routes(service, own), *routes],
        exception_handlers={HTTPException: _unrouted},  # type: ignore[dict-item]
        lifespan=lifespan,
        middleware=[Middleware(Proxies, trusted=service.settings.proxies), Middleware(BodyTimeouts)],
    )
    app.router.redirect_slashes = False  # the redirect would lead to whatever name the request gave
    app.state.service = service
    return app


def _routes(service: Service, endpoints: Iterable[Endpoint]) -> list[PathRoute]:
    """One route a path, so that a wrong method is told which are right; fixed words come before ids."""
    paths: dict[str, dict[str, Handler]] = {}
    for method, path, name, handler in endpoints:
        paths.setdefault(path, {})[method] = partial(_answered, service, name, handler)
    ordered = sorted(paths, key=lambda path: [part.startswith("{") for part in path.split("/")])
    return [_route(path, paths[path]) for path in ordered]


def _route(path: str, handlers: dict[str, Handler]) -> PathRoute:
    async def endpoint(request: Request) -> Response:
        return await handlers["GET" if request.method == "HEAD" else request.method](request)

    return PathRoute(path, endpoint, methods=list(handlers))


def operation_endpoint(service: Service, operation: Operation) -> Endpoint:
    method, _, path = operation.route.partition(" ")

    def work(request: Request, body: bytes) -> Response:
        principal = service.allowed(request, operation)
        reply = invoke(operation, service.core, principal.scope, fields_of(operation, request, body))
        return answer(request, reply)

    async def handler(request: Request) -> Response:
        await service.expect_key(request)
        body = await body_of(request, service.settings.most_body_bytes)
        response: Response = await service.run(partial(work, request, body), operation)
        return response

    return method, PREFIX + path, operation.name, handler


def _former_endpoints(service: Service) -> Iterable[Endpoint]:
    """The routes of one version ago: they answer as those of today, and name them."""
    for former in FORMER_NAMES.values():
        method, _, route = former.route.partition(" ")
        for type, operation in zip(former.types or ("",), former.operations if route else (), strict=False):
            handler = _deprecated(operation_endpoint(service, operation))
            yield method, PREFIX + route.replace("{type}", type), operation.name, handler


def _deprecated(endpoint: Endpoint) -> Handler:
    _, path, _, handler = endpoint

    async def answered(request: Request) -> Response:
        response = await handler(request)
        successor = path.replace("{id}", quote(request.path_params.get("id", ""), safe=""))
        response.headers["deprecation"] = "true"
        response.headers["link"] = f'<{successor}>; rel="successor-version"'
        return response

    return answered


def answer(request: Request, reply: Reply) -> Response:
    version = getattr(reply, "version", None)
    headers = {"etag": f'"{version}"'} if isinstance(version, int) else {}
    if headers and request.method == "GET" and request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(reply.model_dump_json(), media_type="application/json", headers=headers)


async def _answered(service: Service, name: str, handler: Handler, request: Request) -> Response:
    if name in UNTRACED:
        return await _answer_of(service, name, handler, request)
    with service.core.tracing.request(name, request.method, request.headers) as span:
        response = await _answer_of(service, name, handler, request)
        span.note("http.response.status_code", response.status_code)
        span.note("recollect.request_id", request.state.id)
        return response


async def _answer_of(service: Service, name: str, handler: Handler, request: Request) -> Response:
    """Every request ends here: an answer or a problem in our shape, a request id, a figure, a line in the log."""
    began = time.perf_counter()
    request.state.id = request_id(request)
    try:
        if name not in ANY_HOST:
            check_host(request, service.settings)
        response = await handler(request)
    except RecollectError as error:
        response = problem(request, error)
    except Exception as error:
        log.exception("request %s failed", request.state.id)
        wrong = RecollectError(
            f"internal error: {type(error).__name__}", remedy="find the request_id in the service's log"
        )
        response = problem(request, wrong)
    seconds = time.perf_counter() - began
    response.headers["x-request-id"] = request.state.id
    response.headers.setdefault("cache-control", "no-store")
    response.headers["x-content-type-options"] = "nosniff"
    if getattr(request.state, "is_unread", False) or (response.status_code >= 400 and "expect" in request.headers):
        # What is still on its way is not waited for. (Who asked before sending may send nothing more: then the next
        # request would be taken for this one's body. All others are heard out, or they would never read the answer.)
        response.headers["connection"] = "close"
    service.metrics.count(name, response.status_code, seconds)
    log_request(
        request_id=request.state.id,
        operation=name,
        method=request.method,
        status=response.status_code,
        ms=round(seconds * 1000, 2),
        organization=getattr(request.state, "organization", None),
        key=getattr(request.state, "key", None),
        address=address_of(request),
    )
    return response


def request_id(request: Request) -> str:
    given = request.headers.get("x-request-id", "")
    return given if REQUEST_ID.fullmatch(given) and not find(given) else new_id()


def problem(request: Request, error: RecollectError) -> Response:
    told = error.as_dict() | {"request_id": request.state.id}
    headers = {"retry-after": str(error.details.get("retry_after", 1))} if error.http_status in (429, 503) else {}
    if error.http_status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse({"error": told}, error.http_status, headers)


async def _unrouted(request: Request, error: HTTPException) -> Response:
    """No such path, or not with this method."""
    request.state.id = request_id(request)
    remedy = "see /openapi.json for all routes"
    told = {"code": "no_such_route", "message": error.detail, "remedy": remedy, "details": {}}
    headers = {**(error.headers or {}), "x-request-id": request.state.id}
    return JSONResponse({"error": told | {"request_id": request.state.id}}, error.status_code, headers)


def _service_endpoints(service: Service) -> list[Endpoint]:
    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        """Ready means that a request would be served: the store answers and there is room."""
        if service.is_closing:
            raise Unavailable("the service is stopping", remedy="try again later")
        await service.run(service.core.store.tenants)
        return JSONResponse({"status": "ready", "store": service.core.store.capabilities.name})

    async def metrics(request: Request) -> Response:
        if not _is_local(request, service.settings):
            await service.run(lambda: service.operators(request, "metrics"))
        return Response(service.metrics.page(), media_type=CONTENT_TYPE)

    async def openapi_json(request: Request) -> Response:
        described = await asyncio.to_thread(openapi.as_json, PREFIX)
        return Response(described, media_type="application/json")

    named = {"/health": health, "/ready": ready, "/metrics": metrics, "/openapi.json": openapi_json}
    return [("GET", path, path.strip("/"), handler) for path, handler in named.items()]
