"""Files of data over HTTP: a file that is added streams in, as it is or in a form; whole results and charts stream out.

None is ever whole in memory.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import cast

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from recollect.catalogue import OPERATIONS, carry_out, validated
from recollect.errors import InvalidInput, typed_os_errors
from recollect.interfaces.http.app import Endpoint, Service, answer, operation_endpoint
from recollect.interfaces.http.files import BYTES, pieces, receive
from recollect.interfaces.http.request_parsing import body_of, fields_of, media_type, upload_fields
from recollect.services.data.charts import ChartQueryRequest
from recollect.services.data.exports import ExportedFile, ExportQueryRequest, exported, own_target
from recollect.services.data.uploads import AddSourceRequest
from recollect.services.requests import sanitized
from recollect.services.secrets import masked_request

FORM = "multipart/form-data"
MOST_FORM_FIELDS = 20


def endpoints(service: Service) -> list[Endpoint]:
    return [_add_source(service), _export(service), _chart(service)]


def _add_source(service: Service) -> Endpoint:
    operation = OPERATIONS["source.add"]
    method, path, name, from_json = operation_endpoint(service, operation)

    async def add(request: Request) -> Response:
        sent_as = media_type(request)
        if sent_as == "application/json" or (not sent_as and not request.query_params):
            return await from_json(request)
        await service.expect_key(request)
        principal = await service.run(lambda: service.allowed(request, operation))
        fields = upload_fields(operation, request)
        validated(operation, fields)  # before anything large is received
        with service.transfers, tempfile.TemporaryDirectory(prefix="recollect-upload-") as folder:
            if sent_as == FORM:
                file = await _file_of_form(service, request, fields, Path(folder))
            else:
                file = Path(folder) / _file_name(fields)
                with file.open("wb") as target:
                    await receive(request, target, *_limit(service))
            asked = cast(AddSourceRequest, validated(operation, fields)).with_upload(file)
            reply = await service.run(lambda: carry_out(operation, service.core, principal.scope, asked), operation)
        return answer(request, reply)

    return method, path, name, add


async def _file_of_form(service: Service, request: Request, fields: dict[str, object], folder: Path) -> Path:
    """The one file of a form, as browsers and `curl -F` send it; what else is in the form joins the fields."""
    arriving = pieces(request, *_limit(service))
    try:
        with typed_os_errors():
            form = await MultiPartParser(
                request.headers, arriving, max_files=1, max_fields=MOST_FORM_FIELDS, max_part_size=1 << 16
            ).parse()
    except MultiPartException as error:
        raise InvalidInput(f"the form cannot be read: {error.message}", remedy="send one file in 'file'") from None
    try:
        upload = form.get("file")
        if not isinstance(upload, UploadFile):
            raise InvalidInput("there is no file in the form", remedy="send it in the field 'file': curl -F file=@…")
        fields.update({name: value for name, value in form.multi_items() if name != "file"})
        fields.setdefault("path", upload.filename or "data")
        file = folder / _file_name(fields)
        with typed_os_errors(), file.open("wb") as target:
            await asyncio.to_thread(shutil.copyfileobj, upload.file, target, 1 << 20)
        return file
    finally:
        await form.close()


def _limit(service: Service) -> tuple[int, str]:
    most = service.core.data_file_bytes
    return most, f"a file may have {most:,} bytes at most; the operator can raise data_file_bytes"


def _file_name(fields: dict[str, object]) -> str:
    """A name for the file while it is read: messages call it as its sender does, and it stays in its folder."""
    given = os.path.basename(str(fields.get("path") or "").replace("\\", "/"))
    return re.sub(r"[^\w.-]", "_", given)[-60:].lstrip(".") or "upload"


def _export(service: Service) -> Endpoint:
    operation = OPERATIONS["query.export"]
    method, path, name, as_json = operation_endpoint(service, operation)

    def opened(request: Request, body: bytes, open_files: ExitStack) -> ExportedFile:
        scope = service.allowed(request, operation).scope
        tenant = service.core.for_scope(scope)
        given = cast(ExportQueryRequest, validated(operation, fields_of(operation, request, body)))
        asked, _ = masked_request(tenant, given)
        attended = service.core.journal.attend(
            scope,
            operation.access,
            operation.name,
            sanitized(asked),
            refused=lambda: sanitized(asked, refused=True),
        )
        with attended:
            if asked.path is not None:
                own_target(tenant, asked.path)
            return open_files.enter_context(exported(tenant, asked))

    async def export(request: Request) -> Response:
        if BYTES not in request.headers.get("accept", ""):
            return await as_json(request)
        await service.expect_key(request)
        body = await body_of(request, service.settings.most_body_bytes)
        with ExitStack() as open_files:
            open_files.enter_context(service.transfers)
            file = await service.run(lambda: opened(request, body, open_files), operation)
            headers = {
                "content-length": str(file.path.stat().st_size),
                "x-recollect-rows": str(file.rows),
                "x-recollect-media-type": file.media_type,
                **_attached(f"result.{file.format}"),
            }
            return StreamingResponse(_parts(file.path, open_files.pop_all()), media_type=BYTES, headers=headers)

    return method, path, name, export


def _chart(service: Service) -> Endpoint:
    operation = OPERATIONS["query.chart"]
    method, path, name, as_json = operation_endpoint(service, operation)

    def drawn(request: Request, body: bytes) -> Response:
        scope = service.allowed(request, operation).scope
        fields = fields_of(operation, request, body)
        asked = cast(ChartQueryRequest, validated(operation, {"format": "svg", **fields}))
        reply = carry_out(operation, service.core, scope, asked)
        if reply.base64 is None:
            raise InvalidInput(f"there is no chart: {reply.reason}", remedy="choose another kind, or another query")
        content = base64.b64decode(reply.base64)
        return Response(content, media_type=BYTES, headers=_attached(f"chart.{asked.file_format()}"))

    async def chart(request: Request) -> Response:
        if BYTES not in request.headers.get("accept", ""):
            return await as_json(request)
        await service.expect_key(request)
        body = await body_of(request, service.settings.most_body_bytes)
        return await service.run(lambda: drawn(request, body), operation)

    return method, path, name, chart


def _attached(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{name}"'}


def _parts(file: Path, open_files: ExitStack) -> Iterator[bytes]:
    with open_files, file.open("rb") as content:
        while part := content.read(1 << 20):
            yield part
