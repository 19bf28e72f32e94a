"""Long things over HTTP: an export streams out in pieces, an import streams in and is checked before it is read."""

from __future__ import annotations

import tempfile
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from recollect.catalogue import OPERATIONS, invoke
from recollect.errors import TooLarge
from recollect.interfaces.http.reading import arriving, refuse_headers
from recollect.interfaces.http.service import PREFIX, Endpoint, Service
from recollect.services.transfer import exported_pieces

JSON_LINES = "application/x-ndjson"


def endpoints(service: Service) -> list[Endpoint]:
    async def export(request: Request) -> Response:
        operation = OPERATIONS["export"]
        audit = request.query_params.get("audit", "false").lower() in ("1", "true", "yes")
        principal = await service.run(lambda: service.allowed(request, operation))
        with service.core.journal.attend(principal.scope, "read", "export", {"audit": audit}):
            pieces = exported_pieces(service.core, principal.scope, audit)
        return StreamingResponse(pieces, media_type=JSON_LINES)

    async def import_(request: Request) -> Response:
        operation = OPERATIONS["import_"]
        principal = await service.run(lambda: service.allowed(request, operation))
        refuse_headers(request, "import")
        existing = request.query_params.get("existing", "skip")
        with tempfile.NamedTemporaryFile(prefix="recollect-import-") as kept:
            await _receive(request, Path(kept.name), service.settings.most_upload_bytes)
            fields = {"path": kept.name, "existing": existing}
            reply = await service.run(lambda: invoke(operation, service.core, principal.scope, fields))
        told = reply.model_copy(update={"path": "(uploaded)"})
        return Response(told.model_dump_json(), media_type="application/json")

    return [
        ("GET", f"{PREFIX}/export", "export", export),
        ("POST", f"{PREFIX}/import", "import_", import_),
    ]


async def _receive(request: Request, path: Path, most: int) -> None:
    size = 0
    with path.open("wb") as file:
        async for part in arriving(request):
            size += len(part)
            if size > most:
                raise TooLarge(f"the file is larger than {most:,} bytes", remedy="import it on the machine itself")
            file.write(part)
