"""Long things over HTTP: an export streams out in pieces, an import streams in and is checked before it is read, and
the files of workspaces go either way as they are, never whole in memory."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, cast
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from recollect.catalogue import OPERATIONS, carry_out, invoke, validated
from recollect.domain.workspaces import Content
from recollect.errors import TooLarge, typed_os_errors
from recollect.interfaces.http.app import PREFIX, Endpoint, Service, answer, operation_endpoint
from recollect.interfaces.http.request_parsing import (
    arriving,
    declared_bytes,
    media_type,
    refuse_headers,
    upload_fields,
)
from recollect.services.admin.export import ExportRequest, exported_pieces
from recollect.services.recall.filters import MemoryFilter
from recollect.services.requests import sanitized
from recollect.services.secrets import masked_request
from recollect.services.workspaces.file_reading import OpenFile, ReadFileRequest, open_file
from recollect.services.workspaces.files import WriteFileRequest

JSON_LINES = "application/x-ndjson"
BYTES = "application/octet-stream"
WRITTEN_AT_ONCE = 1 << 20
LONGEST_NAME = 100


def endpoints(service: Service) -> list[Endpoint]:
    async def export(request: Request) -> Response:
        operation = OPERATIONS["export"]
        audit = request.query_params.get("audit", "false").lower() in ("1", "true", "yes")
        damaged = request.query_params.get("damaged", "refuse")
        filters = {k: v for k, v in upload_fields(operation, request).items() if k in MemoryFilter.model_fields}

        def begun() -> Iterator[bytes]:
            scope = service.allowed(request, operation).scope
            asked = {**filters, "path": "(sent)", "audit": audit, "damaged": damaged}
            wanted = cast(ExportRequest, validated(operation, asked))
            with service.core.journal.attend(scope, "read", "export", {"audit": audit, "damaged": damaged}):
                return exported_pieces(service.core.for_scope(scope), wanted)

        return StreamingResponse(await service.run(begun), media_type=JSON_LINES)

    async def import_(request: Request) -> Response:
        operation = OPERATIONS["import_"]
        principal = await service.run(lambda: service.allowed(request, operation))
        refuse_headers(request, "import")
        fields = upload_fields(operation, request)
        remedy = "run `recollect import` on the machine of the service"
        with service.transfers, tempfile.TemporaryDirectory(prefix="recollect-import-") as folder:
            kept = Path(folder) / uploaded_name(fields.get("path"))
            with kept.open("wb") as file:
                await receive(request, file, service.settings.most_upload_bytes, remedy)
            fields["path"] = str(kept)
            reply = await service.run(lambda: invoke(operation, service.core, principal.scope, fields))
        told = reply.model_copy(update={"path": "(uploaded)"})
        return Response(told.model_dump_json(), media_type="application/json")

    return [
        ("GET", f"{PREFIX}/export", "export", export),
        ("POST", f"{PREFIX}/import", "import_", import_),
        _upload(service),
        _download(service),
    ]


def uploaded_name(path: object) -> str:
    """The name of the file as the sender has it, which can tell what it is; never a path, nor a name that hides."""
    name = re.sub(r"[^\w. -]", "_", str(path or "").replace("\\", "/").rpartition("/")[2]).strip(" .")
    return name[-LONGEST_NAME:] or "upload"


def _upload(service: Service) -> Endpoint:
    operation = OPERATIONS["workspace.write"]
    method, path, name, from_json = operation_endpoint(service, operation)

    async def write(request: Request) -> Response:
        if media_type(request) not in (BYTES, ""):
            return await from_json(request)
        await service.expect_key(request)
        principal = await service.run(lambda: service.allowed(request, operation))
        asked = cast(WriteFileRequest, validated(operation, upload_fields(operation, request)))
        most = service.core.workspaces.file_bytes
        with service.transfers, tempfile.TemporaryFile(prefix="recollect-file-") as kept:
            await receive(request, kept, most, f"a file may have {most:,} bytes at most")
            with _mapped(kept) as data:
                asked.with_content(data)
                reply = await service.run(lambda: carry_out(operation, service.core, principal.scope, asked))
        return answer(request, reply)

    return method, path, name, write


def _download(service: Service) -> Endpoint:
    operation = OPERATIONS["workspace.read"]
    method, path, name, as_json = operation_endpoint(service, operation)

    def opened(request: Request) -> OpenFile:
        scope = service.allowed(request, operation).scope
        asked = cast(ReadFileRequest, validated(operation, upload_fields(operation, request)))
        asked, _ = masked_request(service.core.for_scope(scope), asked)
        attended = service.core.journal.attend(
            scope,
            operation.access,
            operation.name,
            sanitized(asked),
            refused=lambda: sanitized(asked, refused=True),
        )
        with attended:
            return open_file(service.core.for_scope(scope), asked)

    async def read(request: Request) -> Response:
        if BYTES not in request.headers.get("accept", ""):
            return await as_json(request)
        file = await service.run(lambda: opened(request))
        headers = {
            "content-length": str(file.entry.size),
            "content-disposition": "attachment",  # nothing an agent wrote is a page of ours
            "x-recollect-hash": file.entry.content_hash,
            "x-recollect-media-type": quote(file.entry.media_type, safe="/+; ="),
        }
        if file.version is not None:
            headers["etag"] = f'"{file.version}"'
        return StreamingResponse(file.parts, media_type=BYTES, headers=headers)

    return method, path, name, read


async def receive(request: Request, file: IO[bytes], most: int, remedy: str) -> None:
    """Write the body to a file as it arrives."""
    waiting = bytearray()
    with typed_os_errors():
        async for part in pieces(request, most, remedy):
            waiting += part
            if len(waiting) >= WRITTEN_AT_ONCE:  # a disk may be slow, and nobody else waits for it
                await asyncio.to_thread(file.write, bytes(waiting))
                waiting.clear()
        await asyncio.to_thread(file.write, bytes(waiting))
        await asyncio.to_thread(file.flush)


async def pieces(request: Request, most: int, remedy: str) -> AsyncGenerator[bytes, None]:
    """The body as it arrives, up to `most` bytes."""
    too_large = TooLarge(f"the file is larger than {most:,} bytes", remedy=remedy)
    if (declared_bytes(request) or 0) > most:
        raise too_large
    size = 0
    async for part in arriving(request):
        size += len(part)
        if size > most:
            raise too_large
        yield part


@contextmanager
def _mapped(file: IO[bytes]) -> Iterator[Content]:
    """What a file holds, without reading it into memory."""
    if not os.fstat(file.fileno()).st_size:
        yield b""
        return
    with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        yield content
