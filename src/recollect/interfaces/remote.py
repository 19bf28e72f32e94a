"""The Python client against a service: the same surface as in process, over HTTP.

    mem = recollect.connect("http://127.0.0.1:7070", key="rk.…")
    mem.remember("Alice prefers pytest")

A problem comes back as the same error that it would be in process. Whatever the service turned away undone is tried
again after the time it names. When the connection breaks, only reads are, and writes that carry an idempotency key:
another write may have been carried out, and is not sent twice.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from io import BufferedReader, FileIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote, unquote, urlencode

from recollect import errors
from recollect.catalogue import GROUPS, OPERATIONS, Operation, find_operation, validated
from recollect.domain.hash_tree import Entry
from recollect.domain.workspaces import blob_hash
from recollect.errors import DamagedData, InvalidInput, Overloaded, RateLimited, RecollectError, Unavailable
from recollect.http_client import HttpClient, NoReply, Reply, bearer, checked_url
from recollect.interfaces.client import Progress, Recollect, attach
from recollect.interfaces.progress import Report, reporting
from recollect.ports.data import ArrowStream
from recollect.retry import Retry
from recollect.services.admin.export import ExportFooter, ExportRequest, TransferReply
from recollect.services.admin.import_ import ImportReply, ImportRequest, checked
from recollect.services.data.charts import ChartQueryRequest, ChartReply
from recollect.services.data.exports import ExportQueryReply, ExportQueryRequest
from recollect.services.data.sources import SourceView
from recollect.services.data.uploads import AddSourceRequest
from recollect.services.times import RequestTimeZone, in_zone
from recollect.services.workspaces.file_reading import FileContent, ReadFileRequest, shown
from recollect.services.workspaces.files import FileView, WriteFileRequest, content_of

PREFIX = "/v1"
BYTES = "application/octet-stream"
LONGEST_PAUSE_SECONDS = 10.0  # a longer wait is the caller's to decide on
LONGEST_WORK_SECONDS = 3600.0  # what an operation may take that reads a file or goes over everything
T = TypeVar("T")
RETRY = Retry(first_pause_seconds=0.1, longest_pause_seconds=LONGEST_PAUSE_SECONDS)


class SentFile(BufferedReader):
    """A file that says how much of it was sent."""

    def __init__(self, path: Path, progress: Callable[[int, int], None] | None) -> None:
        super().__init__(FileIO(path))
        self._size, self._progress = path.stat().st_size, progress

    def read(self, size: int | None = -1, /) -> bytes:
        part = super().read(size)
        if self._progress is not None:
            self._progress(self.tell(), self._size)
        return part


@contextmanager
def written_frame(frame: ArrowStream) -> Iterator[Path]:
    """A data frame as a Parquet file, while the block lasts."""
    from recollect.app.data import EngineOnDemand

    with TemporaryDirectory(prefix="recollect-frame-") as folder, closing(EngineOnDemand(1)) as engine:
        file = Path(folder) / "frame.parquet"
        engine().write_frame(frame, file)
        yield file


class RemoteRecollect(Recollect):
    """A memory behind a service."""

    def __init__(self, url: str, key: str, *, timeout: float = 60.0, timezone: str | None = None) -> None:
        self._url = checked_url(url, "service", "http://127.0.0.1:7070")
        self._client = HttpClient(url, bearer(key), timeout_seconds=timeout)
        self._key, self._zone = key, timezone

    @property
    def _organization(self) -> str:
        """The organization that the key names; AttributeError for a key that names none, as `hasattr` expects."""
        try:
            tenant = self._key.split(".")[1]
            return base64.urlsafe_b64decode(tenant + "=" * (-len(tenant) % 4)).decode()
        except (IndexError, ValueError):
            raise AttributeError("the key does not say which organization it is of") from None

    @property
    def timezone(self) -> str:
        return self._zone or "UTC"

    def within(self, organization: str | None = None, actor: str | None = None) -> Recollect:
        raise InvalidInput("a key belongs to one organization", remedy="connect with a key of the other organization")

    def restricted(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        namespace: str | None = None,
    ) -> Recollect:
        raise InvalidInput("a key says what it reaches", remedy="connect with a restricted key: see key.add")

    def call(self, operation: str, /, *, progress: Progress = None, **fields: Any) -> Any:
        """Any operation by name, on the service. It tells how much of a file was sent, and of nothing else how far it
        is: a bar only shows that it goes on.
        """
        chosen, fields = find_operation(operation, fields)
        if progress is None or not chosen.progress:
            return self._call(operation, chosen, None, fields)
        with reporting(progress, chosen.summary) as report:
            return self._call(operation, chosen, report, fields)

    def _call(self, operation: str, chosen: Operation, progress: Report | None, fields: dict[str, Any]) -> Any:
        if chosen.local and operation not in ("export", "import_"):
            raise InvalidInput(
                f"'{operation}' does not work over the service", remedy="run it on the machine of the store"
            )
        request = validated(chosen, fields, RequestTimeZone(zone=self._zone))
        if isinstance(request, ExportRequest):
            return self._export(request)
        if isinstance(request, ImportRequest):
            return self._import(request, progress)
        if isinstance(request, WriteFileRequest):
            return self._upload(chosen, request)
        if isinstance(request, ReadFileRequest):
            return self._download(chosen, request)
        if isinstance(request, AddSourceRequest) and (request.frame is not None or request.path is not None):
            return self._add_source(chosen, request, progress)
        if isinstance(request, ExportQueryRequest) and request.path is not None:
            return self._export_query(chosen, request, Path(request.path).expanduser())
        if isinstance(request, ChartQueryRequest) and request.path is not None:
            return self._chart(request, Path(request.path).expanduser())
        given = request.model_dump(mode="json", include=set(fields), by_alias=True)
        method, path, body = _wired(chosen, given)
        safe = chosen.access == "read" or bool(fields.get("idempotency_key"))
        wait = LONGEST_WORK_SECONDS if chosen.progress else None
        return self._read(chosen, self._exchange(method, path, body, safe, wait=wait).body)

    def _read(self, operation: Operation, body: bytes) -> Any:
        reply = operation.reply.model_validate_json(body)
        return in_zone(reply, self._zone) if self._zone is not None else reply

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> RemoteRecollect:
        return self

    def __repr__(self) -> str:
        return f"<Recollect at {self._url}>"

    def _export(self, request: ExportRequest) -> TransferReply:
        """Into a file here, under another name until it is whole and its hash is right."""
        target = Path(request.path)
        given = request.model_dump(mode="json", exclude_defaults=True, exclude={"path", "plain"})
        asked = _asked(f"{PREFIX}/export", given)

        def write(file: BinaryIO) -> ExportFooter:
            self._send("GET", asked, write=file.write)
            file.seek(0)
            return checked(file, target.name)

        end = _kept(target, write)
        return TransferReply(path=str(target), records=end.records, hash=end.hash, left_out=end.left_out)

    def _import(self, request: ImportRequest, progress: Report | None) -> ImportReply:
        path = Path(request.path).expanduser()
        if path.is_dir():
            raise InvalidInput(f"'{path}' is a folder", remedy="zip it, or import it on the machine of the service")
        given = request.model_dump(mode="json", exclude_defaults=True) | {"path": path.name}
        try:
            if request.source is None:
                with path.open("rb") as whole:
                    checked(whole, path.name)
            with SentFile(path, progress) as file:
                told = self._send("POST", _asked(f"{PREFIX}/import", given), file, wait=LONGEST_WORK_SECONDS)
        except OSError as error:
            raise InvalidInput(f"cannot read '{path}': {error.strerror}", remedy="give a file you may read") from None
        return ImportReply.model_validate_json(told.body).model_copy(update={"path": str(path)})

    def _upload(self, operation: Operation, request: WriteFileRequest) -> FileView:
        """A file as it is: no base64, and as large as a workspace takes."""
        data = content_of(request)
        given = request.model_dump(mode="json", exclude={"text", "base64"}, exclude_none=True)
        path = _asked(_path(operation, given), given)
        told = self._exchange("PUT", path, bytes(data), False, {"content-type": BYTES})
        view: FileView = self._read(operation, told.body)
        return view

    def _download(self, operation: Operation, request: ReadFileRequest) -> FileContent:
        given = request.model_dump(mode="json", exclude_none=True)
        path = _asked(_path(operation, given), given)
        _, told, data = self._exchange("GET", path, None, True, {"accept": BYTES})
        entry = Entry(
            request.path, told["x-recollect-hash"], len(data), unquote(told.get("x-recollect-media-type", BYTES))
        )
        if blob_hash(data) != entry.content_hash:
            raise DamagedData("the received file does not match its hash", remedy="read it again")
        version = told.get("etag")
        return shown(entry, int(version.strip('"')) if version else None, data)

    def _add_source(
        self, operation: Operation, request: AddSourceRequest, progress: Callable[[int, int], None] | None
    ) -> SourceView:
        """A file of this machine as it is, or a data frame as Parquet."""
        if request.base64 is not None:
            raise InvalidInput("give one file", remedy="give its path, or its content as base64, or a data frame")
        given = request.model_dump(mode="json", exclude_defaults=True)
        with ExitStack() as open_files:
            if request.frame is not None:
                path = open_files.enter_context(written_frame(request.frame))
                given.setdefault("path", f"{request.name or 'data'}.parquet")
            else:
                path = Path(request.path or "").expanduser()
                given["path"] = path.name
            try:
                file = open_files.enter_context(SentFile(path, progress))
            except OSError as error:
                raise InvalidInput(
                    f"cannot read '{request.path}': {error.strerror}", remedy="give the path of a file, or a data frame"
                ) from None
            asked = _asked(_path(operation, given), given)
            told = self._exchange("POST", asked, file, False, {"content-type": BYTES}, wait=LONGEST_WORK_SECONDS)
        view: SourceView = self._read(operation, told.body)
        return view

    def _export_query(self, operation: Operation, request: ExportQueryRequest, target: Path) -> ExportQueryReply:
        """The whole result into a file here, which appears when it is whole."""
        format = request.chosen_format()
        given = request.model_dump(mode="json", exclude_defaults=True, exclude={"path"}) | {"format": format}
        method, path, body = _wired(operation, given)

        def write(file: BinaryIO) -> tuple[int, int]:
            told = self._send(method, path, body, {"accept": BYTES}, file.write, wait=request.seconds + 60)
            return int(told.headers.get("x-recollect-rows", 0)), file.tell()

        rows, size = _kept(target, write)
        return ExportQueryReply(rows=rows, bytes=size, format=format, path=str(target))

    def _chart(self, request: ChartQueryRequest, target: Path) -> ChartReply:
        given = request.model_dump(exclude_defaults=True, exclude={"path"}) | {"format": request.file_format()}
        reply: ChartReply = self.call("query.chart", **given)
        if reply.base64 is None:
            return reply
        drawn = base64.b64decode(reply.base64)
        _kept(target, lambda file: file.write(drawn))
        return reply.model_copy(update={"path": str(target), "base64": None})

    def _exchange(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None,
        safe: bool,
        headers: Mapping[str, str] | None = None,
        *,
        wait: float | None = None,
    ) -> Reply:
        """One request, sent again where that can do no harm: it is `safe`, or the service turned it away undone."""

        def asked_pause(error: RecollectError) -> float | None:
            seconds = float(error.details.get("retry_after", 0))
            is_undone = isinstance(error, Overloaded | RateLimited)
            is_passing = error.http_status in (429, 502, 503) and seconds <= LONGEST_PAUSE_SECONDS
            return seconds if is_passing and (safe or is_undone) else None

        def send(number: int) -> Reply:
            if body is not None and not isinstance(body, bytes):
                body.seek(0)
            return self._send(method, path, body, headers, wait=wait)

        return RETRY.run(send, (Unavailable, RateLimited), asked_pause)

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
        write: Callable[[bytes], object] | None = None,
        wait: float | None = None,
    ) -> Reply:
        """One request, sent once: after a broken connection nobody knows whether it was carried out."""
        headers = {"content-type": "application/json", **(headers or {})}
        try:
            reply = self._client.send(method, path, body, headers=headers, write=write, timeout_seconds=wait)
        except NoReply as error:
            look = "check whether it was done before you repeat it; with an idempotency_key, repeating is safe"
            remedy = look if error.was_sent else "check that it is running"
            raise Unavailable(f"the service did not answer: {error.reason}", remedy=remedy) from None
        if reply.status >= 400:
            raise _error(reply.status, reply.body)
        return reply


def _kept(target: Path, write: Callable[[BinaryIO], T]) -> T:
    """A file of this machine, under another name until it is whole."""
    from recollect.app import local_folders

    try:
        return local_folders().keep(target, write)
    except OSError as error:
        raise InvalidInput(
            f"cannot write '{target}': {error.strerror}", remedy="give a path you may write to"
        ) from None


def _wired(operation: Operation, given: dict[str, object]) -> tuple[str, str, bytes | None]:
    method = operation.route.partition(" ")[0]
    path = _path(operation, given)
    if method in ("GET", "DELETE"):
        return method, _asked(path, given), None
    return method, path, json.dumps(given).encode()


def _path(operation: Operation, given: dict[str, object]) -> str:
    """The path of an operation, with the fields that stand in it taken out of the others."""
    route = operation.route.partition(" ")[2]
    return PREFIX + re.sub(r"{(\w+)}", lambda found: _segment(str(given.pop(found[1]))), route)


def _segment(value: str) -> str:
    """One piece of a path; left as they are, dots alone would be taken for the folder and the one above it."""
    return value.replace(".", "%2E") if value in (".", "..") else quote(value, safe="")


def _asked(path: str, given: dict[str, object]) -> str:
    named = {name: json.dumps(value) if isinstance(value, dict) else _plain(value) for name, value in given.items()}
    asked = urlencode({name: value for name, value in named.items() if value is not None}, doseq=True)
    return f"{path}?{asked}" if asked else path


def _plain(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _error(status: int, content: bytes) -> RecollectError:
    try:
        told = json.loads(content)["error"]
        kind = _KINDS.get(told["code"], RecollectError)
        return kind(told["message"], remedy=told["remedy"], **told.get("details", {}))
    except (ValueError, KeyError, TypeError):
        return Unavailable(
            f"the service answered {status}", remedy="check that this is the address of a Recollect service"
        )


def _kinds(error: type[RecollectError]) -> Iterator[tuple[str, type[RecollectError]]]:
    """Those with a code of their own: who refines one within the program is not what a service means by it."""
    if "code" in vars(error):
        yield error.code, error
    for inner in error.__subclasses__():
        yield from _kinds(inner)


_KINDS = dict(_kinds(errors.RecollectError))
attach(RemoteRecollect, OPERATIONS.values(), GROUPS)


def connect(url: str, key: str, *, timeout: float = 60.0, timezone: str | None = None) -> Recollect:
    """A memory behind a service, with the same methods as one that `recollect.open` gives.

    Times without a zone are in the one that is named here; in the user's, as the service knows it, if none is.
    """
    return RemoteRecollect(url, key, timeout=timeout, timezone=timezone)
