"""Operations that carry files of this machine to a service, or bring them from there."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from io import BufferedReader, FileIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar
from urllib.parse import unquote

from recollect.catalogue import Operation
from recollect.domain.hash_tree import Entry
from recollect.domain.workspaces import blob_hash
from recollect.errors import DamagedData, InvalidInput
from recollect.interfaces.remote_exchange import BYTES, LONGEST_WORK_SECONDS, PREFIX, asked, path_of, wired
from recollect.services.admin.export import ExportFooter, ExportRequest, TransferReply
from recollect.services.admin.import_ import ImportReply, ImportRequest, checked
from recollect.services.data.charts import ChartQueryRequest, ChartReply
from recollect.services.data.exports import ExportQueryReply, ExportQueryRequest
from recollect.services.data.sources import SourceView
from recollect.services.data.uploads import AddSourceRequest
from recollect.services.workspaces.file_reading import FileContent, ReadFileRequest, shown
from recollect.services.workspaces.files import FileView, WriteFileRequest, content_of

if TYPE_CHECKING:
    from recollect.interfaces.progress import Report
    from recollect.interfaces.remote import RemoteRecollect
    from recollect.ports.data import ArrowStream
    from recollect.services.requests import Request

T = TypeVar("T")
Carry = Callable[[], Any]


def carrying(mem: RemoteRecollect, operation: Operation, request: Request, progress: Report | None) -> Carry | None:
    """What carries out the operation, if it has to do with a file of this machine; None if it is sent as any other."""
    if isinstance(request, ExportRequest):
        return partial(_export, mem, request)
    if isinstance(request, ImportRequest):
        return partial(_import, mem, request, progress)
    if isinstance(request, WriteFileRequest):
        return partial(_upload, mem, operation, request)
    if isinstance(request, ReadFileRequest):
        return partial(_download, mem, operation, request)
    if isinstance(request, AddSourceRequest) and (request.frame is not None or request.path is not None):
        return partial(_add_source, mem, operation, request, progress)
    if isinstance(request, ExportQueryRequest) and request.path is not None:
        return partial(_export_query, mem, operation, request, Path(request.path).expanduser())
    if isinstance(request, ChartQueryRequest) and request.path is not None:
        return partial(_chart, mem, request, Path(request.path).expanduser())
    return None


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


def _export(mem: RemoteRecollect, request: ExportRequest) -> TransferReply:
    """Into a file here, under another name until it is whole and its hash is right."""
    target = Path(request.path)
    given = request.model_dump(mode="json", exclude_defaults=True, exclude={"path", "plain"})
    path = asked(f"{PREFIX}/export", given)

    def write(file: BinaryIO) -> ExportFooter:
        mem.exchange.send("GET", path, write=file.write)
        file.seek(0)
        return checked(file, target.name)

    end = _kept(target, write)
    return TransferReply(path=str(target), records=end.records, hash=end.hash, left_out=end.left_out)


def _import(mem: RemoteRecollect, request: ImportRequest, progress: Report | None) -> ImportReply:
    path = Path(request.path).expanduser()
    if path.is_dir():
        raise InvalidInput(f"'{path}' is a folder", remedy="zip it, or import it on the machine of the service")
    given = request.model_dump(mode="json", exclude_defaults=True) | {"path": path.name}
    try:
        if request.source is None:
            with path.open("rb") as whole:
                checked(whole, path.name)
        with SentFile(path, progress) as file:
            told = mem.exchange.send("POST", asked(f"{PREFIX}/import", given), file, wait=LONGEST_WORK_SECONDS)
    except OSError as error:
        raise InvalidInput(f"cannot read '{path}': {error.strerror}", remedy="give a file you may read") from None
    return ImportReply.model_validate_json(told.body).model_copy(update={"path": str(path)})


def _upload(mem: RemoteRecollect, operation: Operation, request: WriteFileRequest) -> FileView:
    """A file as it is: no base64, and as large as a workspace takes."""
    data = content_of(request)
    given = request.model_dump(mode="json", exclude={"text", "base64"}, exclude_none=True)
    path = asked(path_of(operation, given), given)
    told = mem.exchange.repeated("PUT", path, bytes(data), False, {"content-type": BYTES})
    view: FileView = mem.read(operation, told.body)
    return view


def _download(mem: RemoteRecollect, operation: Operation, request: ReadFileRequest) -> FileContent:
    given = request.model_dump(mode="json", exclude_none=True)
    path = asked(path_of(operation, given), given)
    _, told, data = mem.exchange.repeated("GET", path, None, True, {"accept": BYTES})
    entry = Entry(request.path, told["x-recollect-hash"], len(data), unquote(told.get("x-recollect-media-type", BYTES)))
    if blob_hash(data) != entry.content_hash:
        raise DamagedData("the received file does not match its hash", remedy="read it again")
    version = told.get("etag")
    return shown(entry, int(version.strip('"')) if version else None, data)


def _add_source(
    mem: RemoteRecollect, operation: Operation, request: AddSourceRequest, progress: Callable[[int, int], None] | None
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
        where = asked(path_of(operation, given), given)
        told = mem.exchange.repeated("POST", where, file, False, {"content-type": BYTES}, wait=LONGEST_WORK_SECONDS)
    view: SourceView = mem.read(operation, told.body)
    return view


def _export_query(
    mem: RemoteRecollect, operation: Operation, request: ExportQueryRequest, target: Path
) -> ExportQueryReply:
    """The whole result into a file here, which appears when it is whole."""
    format = request.chosen_format()
    given = request.model_dump(mode="json", exclude_defaults=True, exclude={"path"}) | {"format": format}
    method, path, body = wired(operation, given)

    def write(file: BinaryIO) -> tuple[int, int]:
        told = mem.exchange.send(method, path, body, {"accept": BYTES}, file.write, wait=request.seconds + 60)
        return int(told.headers.get("x-recollect-rows", 0)), file.tell()

    rows, size = _kept(target, write)
    return ExportQueryReply(rows=rows, bytes=size, format=format, path=str(target))


def _chart(mem: RemoteRecollect, request: ChartQueryRequest, target: Path) -> ChartReply:
    given = request.model_dump(exclude_defaults=True, exclude={"path"}) | {"format": request.file_format()}
    reply: ChartReply = mem.call("query.chart", **given)
    if reply.base64 is None:
        return reply
    drawn = base64.b64decode(reply.base64)
    _kept(target, lambda file: file.write(drawn))
    return reply.model_copy(update={"path": str(target), "base64": None})


def _kept(target: Path, write: Callable[[BinaryIO], T]) -> T:
    """A file of this machine, under another name until it is whole."""
    from recollect.app import local_folders

    try:
        return local_folders().keep(target, write)
    except OSError as error:
        raise InvalidInput(
            f"cannot write '{target}': {error.strerror}", remedy="give a path you may write to"
        ) from None
