"""The way into the console and out again, and the files its pages are drawn with.

Signing in takes an email and a password, or a key. Unknown users and wrong passwords get the same answer in the same
time; tries are counted by address and by account. The cookie cannot be read by scripts and is sent by our pages only.
"""

from __future__ import annotations

import mimetypes
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from recollect.errors import Denied, InvalidInput, NotFound, RateLimited, Unauthenticated
from recollect.interfaces.http.app import COOKIE, Endpoint, Service, address_of
from recollect.interfaces.http.console.page_context import ROOT, SECURITY_HEADERS, SIGN_IN, html, shown
from recollect.interfaces.http.console.templating import STATIC, VERSION
from recollect.interfaces.http.request_parsing import body_of
from recollect.interfaces.http.sign_in import attempted, password_key, take_try
from recollect.services.access import keys, passwords

MOST_FORM_BYTES = 8192


def endpoints(service: Service) -> list[Endpoint]:
    async def ask(request: Request) -> Response:
        return _form(service, request)

    async def enter(request: Request) -> Response:
        return await shown(request, lambda: _enter(service, request))

    async def leave(request: Request) -> Response:
        await service.run(lambda: passwords.sign_out(service.core, service.principal(request)))
        response = Response(status_code=204, headers=SECURITY_HEADERS)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response

    async def home(request: Request) -> Response:
        return RedirectResponse(ROOT, 303, SECURITY_HEADERS)

    return [
        ("GET", "/", "console home", home),
        ("GET", f"{ROOT}/", "console home", home),
        ("GET", SIGN_IN, "console sign-in", ask),
        ("POST", SIGN_IN, "console sign-in", enter),
        ("POST", f"{ROOT}/sign-out", "console sign-out", leave),
        ("GET", f"{ROOT}/static/{{name}}", "console static", _static),
    ]


def _form(service: Service, request: Request, given: dict[str, str] | None = None, error: Any = None) -> Response:
    given = given or {}
    return html(
        "sign_in.html",
        error.http_status if error else 200,
        problem=error,
        email=given.get("email", ""),
        organization=given.get("organization") or service.operator,
        default=service.operator,
        next=given.get("next") or request.query_params.get("next", ""),
    )


async def _enter(service: Service, request: Request) -> Response:
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Denied("sign in on the console's own page", remedy=f"open {SIGN_IN}")
    given = _fields(await body_of(request, MOST_FORM_BYTES))
    try:
        token = await service.run(lambda: _token(service, request, given))
    except (Unauthenticated, Denied, RateLimited, InvalidInput) as error:
        return _form(service, request, given, error)
    response = RedirectResponse(_inside(given.get("next", "")), 303, SECURITY_HEADERS)
    secure = service.settings.secure_cookies or request.url.scheme == "https"
    response.set_cookie(COOKIE, token, path="/", httponly=True, samesite="strict", secure=secure)
    return response


def _fields(body: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(body.decode(), max_num_fields=10))
    except ValueError:
        raise InvalidInput("the form could not be read", remedy="send it again") from None


def _token(service: Service, request: Request, given: dict[str, str]) -> str:
    """What the cookie holds from now on."""
    key = given.get("key", "").strip()
    take_try(service, request)
    if key:
        attempted(lambda: keys.authenticate(service.core, key, address_of(request)))
        return key
    organization, email = given.get("organization") or service.operator, given.get("email", "").strip()
    return password_key(service, request, organization, email, given.get("password", "")).key


def _inside(path: str) -> str:
    """Only back to a page of the console, never to another place."""
    return path if path.startswith(ROOT) and path[len(ROOT) : len(ROOT) + 1] in ("", "/", "?") else ROOT


async def _static(request: Request) -> Response:
    content = STATIC.get(request.path_params["name"])
    if content is None:
        raise NotFound("there is no such file", remedy="reload the page")
    fresh = request.query_params.get("v") == VERSION
    media = mimetypes.guess_type(request.path_params["name"])[0] or "application/octet-stream"
    headers = {"cache-control": "public, max-age=31536000, immutable" if fresh else "no-cache"}
    return Response(content, media_type=media, headers=headers | SECURITY_HEADERS)
