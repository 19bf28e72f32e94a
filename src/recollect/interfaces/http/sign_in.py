"""Signing in over the API: an email and a password for a key that expires, and the end of such a key.

Unknown users and wrong passwords get the same answer in the same time; tries are counted by address and by account,
before anything is looked at. The console signs in the same way (console/sign_in.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from recollect.domain.kinds import describe
from recollect.errors import InvalidInput, NotFound, Unauthenticated
from recollect.interfaces.http.app import PREFIX, Endpoint, Service, address_of, answer
from recollect.interfaces.http.client_address import client_network
from recollect.interfaces.http.limits import TRIES_BY_ACCOUNT, TRIES_BY_ADDRESS
from recollect.interfaces.http.request_parsing import body_of, json_fields
from recollect.services.access import passwords
from recollect.services.access.keys import NewKey
from recollect.services.access.passwords import SignInReply, SignInRequest

MOST_BYTES = 8192
T = TypeVar("T")


def endpoints(service: Service) -> list[Endpoint]:
    async def enter(request: Request) -> Response:
        body = await body_of(request, MOST_BYTES)
        return answer(request, await service.run(lambda: _signed_in(service, request, body)))

    async def leave(request: Request) -> Response:
        await service.expect_key(request)
        await service.run(lambda: passwords.sign_out(service.core, service.principal(request)))
        return Response(status_code=204)

    return [("POST", f"{PREFIX}/sign-in", "sign in", enter), ("POST", f"{PREFIX}/sign-out", "sign out", leave)]


def _signed_in(service: Service, request: Request, body: bytes) -> SignInReply:
    take_try(service, request)
    try:
        asked = SignInRequest.model_validate(json_fields(body, request.headers.get("content-type", "")))
    except ValidationError as error:
        raise InvalidInput(f"sign-in: {describe(error)}", remedy="send email and password") from None
    organization = asked.organization or service.operator
    made = password_key(service, request, organization, asked.email, asked.password)
    assert made.user is not None  # a key that signing in makes is always somebody's
    return SignInReply(key=made.key, user=made.user, organization=organization, expires_at=made.expires_at)


def take_try(service: Service, request: Request) -> None:
    """Tries count before anything is looked at, so that nothing is told by them."""
    service.rates.take(f"sign-in from {client_network(address_of(request))}", TRIES_BY_ADDRESS)


def password_key(service: Service, request: Request, organization: str, email: str, password: str) -> NewKey:
    """A key for whoever has this email and this password."""
    service.rates.take(f"sign-in as {organization} {email.casefold()}", TRIES_BY_ACCOUNT)
    return attempted(lambda: passwords.sign_in(service.core, organization, email, password, address_of(request)))


def attempted(enter: Callable[[], T]) -> T:
    """One answer for whatever is wrong, an organization's odd name included."""
    try:
        return enter()
    except (Unauthenticated, InvalidInput, NotFound):
        raise Unauthenticated(
            "wrong email, password or key",
            remedy="check what you typed, or ask an administrator of the organization for a key",
        ) from None
