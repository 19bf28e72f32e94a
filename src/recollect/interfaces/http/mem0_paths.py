"""mem0's REST interface under /mem0, for programs that speak it: its platform's paths and its own server's.

Closed unless the setting `server.mem0` opens it. Keys, permissions, limits and the access log are those of the rest:
each request is made of operations of the catalogue, and each of those is asked for the permission it needs.
mem0's own client reaches it with `MemoryClient(api_key=KEY, host="https://…/mem0")`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from recollect.catalogue import find_operation, invoke
from recollect.errors import RecollectError
from recollect.integrations.mem0.platform import PlatformCalls
from recollect.interfaces.client import Recollect
from recollect.interfaces.http.app import Endpoint, Service, problem
from recollect.interfaces.http.request_parsing import body_of, json_fields
from recollect.services.access.authorize import Principal

PREFIX = "/mem0"
Fields = dict[str, Any]
Answer = Callable[[PlatformCalls, Fields, Fields], Any]
"""What a request means: the calls, the members of its body and query, the names in its path."""


def _listing(calls: PlatformCalls, given: Fields, path: Fields) -> Any:
    """mem0's own server gives the results alone."""
    return {"results": calls.get_all({"page_size": given.pop("limit", 100), **given})["results"]}


ROUTES: dict[str, Answer] = {
    "GET /v1/ping": lambda calls, given, path: calls.ping(),
    "POST /v3/memories/add": lambda calls, given, path: calls.add(given),
    "POST /v1/memories": lambda calls, given, path: calls.add(given),
    "POST /v3/memories": lambda calls, given, path: calls.get_all(given),
    "POST /v2/memories": lambda calls, given, path: calls.get_all(given),
    "GET /v1/memories": lambda calls, given, path: calls.get_all(given),
    "POST /v3/memories/search": lambda calls, given, path: calls.search(given),
    "POST /v2/memories/search": lambda calls, given, path: calls.search(given),
    "POST /v1/memories/search": lambda calls, given, path: calls.search(given),
    "DELETE /v1/memories": lambda calls, given, path: calls.delete_all(given),
    "GET /v1/memories/{id}": lambda calls, given, path: calls.get(path["id"]),
    "PUT /v1/memories/{id}": lambda calls, given, path: calls.update(path["id"], given),
    "DELETE /v1/memories/{id}": lambda calls, given, path: calls.delete(path["id"]),
    "GET /v1/memories/{id}/history": lambda calls, given, path: calls.history(path["id"]),
    "GET /v1/entities": lambda calls, given, path: calls.entities(),
    "DELETE /v2/entities/{type}/{name}": lambda calls, given, path: calls.delete_entity(path["type"], path["name"]),
    "PUT /v1/batch": lambda calls, given, path: calls.batch_update(given),
    "DELETE /v1/batch": lambda calls, given, path: calls.batch_delete(given),
    # mem0's own server
    "POST /memories": lambda calls, given, path: calls.add(given),
    "GET /memories": _listing,
    "DELETE /memories": lambda calls, given, path: calls.delete_all(given),
    "GET /memories/{id}": lambda calls, given, path: calls.get(path["id"]),
    "PUT /memories/{id}": lambda calls, given, path: calls.update(path["id"], given),
    "DELETE /memories/{id}": lambda calls, given, path: calls.delete(path["id"]),
    "GET /memories/{id}/history": lambda calls, given, path: calls.history(path["id"]),
    "POST /search": lambda calls, given, path: calls.search(given),
    "POST /reset": lambda calls, given, path: calls.reset(),
}


def endpoints(service: Service) -> list[Endpoint]:
    """None, unless the operator opened them. mem0's platform ends its paths with a slash, its server does not."""
    if not service.settings.mem0:
        return []
    return [
        (method, PREFIX + path + slash, "mem0", partial(_handled, service, answer))
        for route, answer in ROUTES.items()
        for method, _, path in [route.partition(" ")]
        for slash in ("", "/")
    ]


async def _handled(service: Service, answer: Answer, request: Request) -> Response:
    try:
        await service.expect_key(request)
        body = await body_of(request, service.settings.most_body_bytes)
        response: Response = await service.run(partial(_answered, service, answer, request, body))
        return response
    except RecollectError as error:
        return _with_detail(problem(request, error), error)


def _answered(service: Service, answer: Answer, request: Request, body: bytes) -> Response:
    calls = PlatformCalls(PermittedMemory(service, service.principal(request)))
    given = {**request.query_params, **json_fields(body, request.headers.get("content-type", ""))}
    return JSONResponse(answer(calls, given, request.path_params))


def _with_detail(told: Response, error: RecollectError) -> Response:
    """Where mem0's clients look for what went wrong."""
    headers = {name: value for name, value in told.headers.items() if name not in ("content-length", "content-type")}
    return JSONResponse({**json.loads(bytes(told.body)), "detail": error.message}, told.status_code, headers)


class PermittedMemory(Recollect):
    """An open memory as somebody with a key may use it: each operation is asked for its permission."""

    def __init__(self, service: Service, principal: Principal) -> None:
        super().__init__(service.core, principal.scope, lambda store, scope: None, owns=False)
        self._service, self._principal = service, principal

    def call(self, operation: str, /, *, progress: Any = None, **fields: Any) -> Any:
        chosen, given = find_operation(operation, fields)
        self._service.permitted(self._principal, chosen)
        return invoke(chosen, self._core, self._scope, given)
