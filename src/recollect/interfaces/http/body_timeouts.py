"""Timeouts for request bodies that arrive too slowly."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

SILENT_SECONDS = 30.0  # a body that stalls for so long is dropped
SLOWEST_BYTES_A_SECOND = 1000  # and so is one that trickles


class BodyTimeouts:
    """Middleware with a clock that runs only while it waits for a piece of a body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, _timed(scope, receive) if scope["type"] == "http" else receive, send)


def _timed(scope: Scope, receive: Receive) -> Receive:
    clock = asyncio.get_running_loop().time
    waited, received, is_over = 0.0, 0, False

    async def next_message() -> Message:
        nonlocal waited, received, is_over
        if is_over:  # from here on it is only asked whether the client is still there
            return await receive()
        left = SILENT_SECONDS + received / SLOWEST_BYTES_A_SECOND - waited
        began = clock()
        try:
            async with asyncio.timeout(min(SILENT_SECONDS, left)):
                message = await receive()
        except TimeoutError:
            is_over = scope["state"]["is_unread"] = True
            return {"type": "http.disconnect"}
        waited += clock() - began
        received += len(message.get("body", b""))
        is_over = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    return next_message
