"""A file or a data frame becomes a source: stored as it came, read into tables, profiled, and listed at the end.

Nothing is listed before everything is stored: one transaction lists the source with its tables, so a process that dies
leaves nothing half listed, only bytes that no record names, which are collected.
"""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field as Having
from pydantic import PrivateAttr, ValidationInfo, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler

from recollect.domain.record import Id, Name, Text, derived_id, new_id
from recollect.domain.sources import Field, Source, SourceVersion, StoredObject, Table
from recollect.errors import InvalidInput, Overloaded, StoreBusy, TooLarge, Unavailable
from recollect.ports.data import ArrowStream, NewTable, TableProfile
from recollect.ports.objects import file_digest
from recollect.ports.query import Compare, Filter, Order, Query, equal
from recollect.ports.steps import Absent, Delete, Insert, Put, Step, Update
from recollect.services.data import value_lists
from recollect.services.data.contents import Kept, deleted_on_failure, dropping_steps, keep
from recollect.services.data.profiles import SAMPLE_ROWS, ColumnChange, changes_between, table_records
from recollect.services.data.query_citations import due_steps
from recollect.services.data.sources import READING, Progress, SourceView, join_tables, source_view
from recollect.services.data.tables import fields_of, readable_name, table_names, tables_of
from recollect.services.erasure import finish_quietly
from recollect.services.memories.data_vectors import DATA_AT_ONCE, LATER, embedding_steps, gone_steps
from recollect.services.requests import AS_GIVEN, Request
from recollect.services.secrets import masked_value
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, made, rewritten

PARQUET = "application/vnd.apache.parquet"
VERSIONS_KEPT = 3
"""How many versions of a source have their content kept; of older ones only what changed."""


class AddSourceRequest(Request):
    """A file or a data frame to ask questions of."""

    in_python: ClassVar[dict[str, object]] = {"path": str | os.PathLike[str] | ArrowStream | None}

    path: Annotated[str | None, AS_GIVEN] = Having(
        None, description="The file: CSV, TSV, JSON, JSON Lines, Parquet, Excel or SQLite"
    )
    base64: Annotated[str | None, AS_GIVEN] = Having(
        None, description="Its content as base64, where the file is not on this machine"
    )
    name: Name | None = Having(None, description="What to call it; the name of the file by default")
    description: Text = Having("", description="What it is about")
    project: Id | None = Having(None, description="The project it belongs to")
    user: Id | None = Having(None, description="The user it belongs to")
    version_of: Id | None = Having(
        None, description="The source this is a new version of; by default the one of the same name"
    )
    profile: Literal["sample", "whole"] = Having(
        "sample", description="How much to look at before replying; the rest of a large file is looked at later"
    )
    _frame: ArrowStream | None = PrivateAttr(None)
    _uploaded: Path | None = PrivateAttr(None)

    @model_validator(mode="wrap")
    @classmethod
    def _frames(cls, value: object, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """A data frame may be given where a path may; it is no JSON, so it stays out of the fields."""
        frame: ArrowStream | None = None
        if isinstance(value, dict) and not isinstance(value.get("path"), str | None):
            given = value["path"]
            if isinstance(given, os.PathLike):
                value = {**value, "path": os.fspath(given)}
            elif isinstance(given, ArrowStream):
                frame, value = given, {**value, "path": None}
        request = handler(value)
        request._frame = frame
        return request

    def with_upload(self, file: Path) -> AddSourceRequest:
        """The request with content that was sent as raw bytes; `path` is then only what the file is called."""
        self._uploaded = file
        return self

    @property
    def frame(self) -> ArrowStream | None:
        return self._frame


@dataclass(frozen=True)
class _Input:
    """A file to read, and what it is called."""

    file: Path
    label: str
    name: str


@dataclass(frozen=True)
class Draft:
    """A table that is read and stored, to be listed."""

    table: Table
    fields: list[Field]
    contents: list[Kept]


def add_source(tenant: Tenant, request: AddSourceRequest, progress: Progress = lambda done, of: None) -> SourceView:
    """Add a file or a data frame: its rows become tables that questions can be asked of."""
    with _input(tenant, request) as given, deleted_on_failure(tenant) as kept:
        size = given.file.stat().st_size
        digest = file_digest(given.file)
        same = _same_content(tenant, request, digest)
        if same is not None:
            notes = [] if same.name == given.name else [f"the same content is here already, as '{same.name}'"]
            return source_view(tenant, same, notes=notes)
        before = _version_before(tenant, request, given.name)
        source = _source(tenant, request, given, before, digest, size)
        upload = keep(tenant, given.file, source_id=source.id, purpose="upload")
        kept.append(upload)
        if upload.digest != digest:
            raise StoreBusy("the file changed while it was read", remedy="add it again when it is finished")
        drafts = _read_tables(tenant, source, given, request.profile, progress, kept)
        notes = list_tables(tenant, source, before, drafts, upload.steps)
    try:
        join_tables(tenant, source)
    except (TooLarge, Overloaded, Unavailable) as failure:  # the source is listed, and can be asked without them
        notes.append(f"likely joins were not looked for: {failure.message}")
    return source_view(tenant, load(tenant, Source, source.id), is_new=True, notes=notes)


@contextmanager
def _input(tenant: Tenant, request: AddSourceRequest) -> Iterator[_Input]:
    """The file to read, wherever its content came from."""
    named = request.path if request.base64 is None else None  # beside content, a path is only what it is called
    given = [one for one in (request.frame, request.base64, request._uploaded or named) if one is not None]
    if len(given) != 1:
        raise InvalidInput("give one file", remedy="give its path, or its content as base64, or a data frame")
    label = masked_value(tenant, os.path.basename((request.path or request.name or "data").replace("\\", "/")))
    name = request.name or _unpacked(label).stem[:200] or "data"
    if request._uploaded is not None:
        yield _Input(request._uploaded, label, name)
    elif request.path is not None and request.base64 is None:
        yield _Input(_own_file(tenant, request.path), label, name)
    else:
        with tempfile.TemporaryDirectory(prefix="recollect-source-") as folder:
            if request.frame is not None:
                file = Path(folder) / "frame.parquet"
                tenant.data_engine().write_frame(request.frame, file)
            else:
                file = Path(folder) / f"upload{Path(label).suffix[:20]}"
                file.write_bytes(_decoded(request.base64 or ""))
            yield _Input(file, label, name)


def _own_file(tenant: Tenant, path: str) -> Path:
    if tenant.scope.granted is not None:
        raise InvalidInput(
            "a path names a file on the machine of the service", remedy="send the content of the file: upload it"
        )
    file = Path(path).expanduser()
    if not file.is_file():
        raise InvalidInput(f"'{path[:200]}' is not a file", remedy="give the path of a file that you may read")
    if file.stat().st_size > tenant.data_file_bytes:
        raise TooLarge(
            f"'{file.name}' is larger than {tenant.data_file_bytes:,} bytes", remedy="raise the setting data_file_bytes"
        )
    return file


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise InvalidInput("the content is not base64", remedy="encode it as base64, or upload it as it is") from None


def _owners(tenant: Tenant, request: AddSourceRequest) -> dict[str, str | None]:
    """Whose the source is: those that the request names, or whom the caller is restricted to."""
    named = {"project_id": request.project, "user_id": request.user}
    return named | tenant.owners(Source, named)


def _owned(tenant: Tenant, request: AddSourceRequest) -> tuple[Filter, ...]:
    return tuple(equal(field, owner) for field, owner in _owners(tenant, request).items())


def _same_content(tenant: Tenant, request: AddSourceRequest, digest: str) -> Source | None:
    """The source of the same owner that has these very bytes now."""
    where = (equal("content_hash", digest), *_owned(tenant, request))
    if request.version_of is not None:
        where = (*where, equal("id", request.version_of))
    found = tenant.find(Query(Source, where, (Order("id"),), limit=1)).records
    return found[0] if found else None


def _version_before(tenant: Tenant, request: AddSourceRequest, name: str) -> Source | None:
    if request.version_of is not None:
        source = load(tenant, Source, request.version_of)
        if source.connection_id is not None:
            raise InvalidInput("a connection has no versions", remedy="refresh the connection")
        return source
    where = (equal("name", name), *_owned(tenant, request))
    found = tenant.find(Query(Source, where, (Order("id"),), limit=1)).records
    return found[0] if found else None


def _unpacked(label: str) -> Path:
    """What a packed file is called once it is unpacked."""
    path = Path(label)
    return path.with_suffix("") if path.suffix.lower() in (".gz", ".zst", ".zstd") else path


def _source(
    tenant: Tenant, request: AddSourceRequest, given: _Input, before: Source | None, digest: str, size: int
) -> Source:
    suffix = _unpacked(given.label).suffix.lstrip(".").lower()
    fields: dict[str, object] = {
        "path": given.label,
        "content_hash": digest,
        "size": size,
        "format": "frame" if request.frame is not None else suffix[:20],
        "status": "profiled",
        "revision": before.revision + 1 if before else 1,
    }
    if before is not None:
        if request.description:
            fields["description"] = request.description
        return rewritten(before, tenant, **fields)
    # Two processes that add the same name at the same time make the same id, and the second is refused.
    owners = _owners(tenant, request)
    id = derived_id("source", *(owners[field] or "" for field in ("project_id", "user_id")), given.name.casefold())
    if tenant.get(Source, id, deleted=True) is not None:
        id = new_id()  # it was renamed or removed
    source: Source = made(Source, tenant, id=id, name=given.name, description=request.description, **owners, **fields)
    return source


def _read_tables(
    tenant: Tenant,
    source: Source,
    given: _Input,
    extent: Literal["sample", "whole"],
    progress: Progress,
    kept: list[Kept],
) -> list[Draft]:
    engine, drafts = tenant.data_engine(), []
    with tempfile.TemporaryDirectory(prefix="recollect-tables-") as folder:
        new = engine.read_file(
            given.file,
            Path(folder),
            name=readable_name(source.name),
            limits=READING,
            progress=lambda what, part: progress(int(60 * part), 100),
        )
        names = table_names([table.name for table in new])
        for at, (one, name) in enumerate(zip(new, names, strict=True)):
            sample = SAMPLE_ROWS if extent == "sample" else None
            profile = engine.profile(one.path, sample_rows=sample, limits=READING)
            drafts.append(_draft(tenant, source, name, one, profile, at, kept))
            progress(60 + int(40 * (at + 1) / len(new)), 100)
    return drafts


def _draft(
    tenant: Tenant, source: Source, name: str, new: NewTable, profile: TableProfile, at: int, kept: list[Kept]
) -> Draft:
    table, fields = table_records(tenant, source.id, name, new, profile, at)
    rows = keep(tenant, new.path, source_id=source.id, purpose="table", media_type=PARQUET)
    kept.append(rows)
    table, contents = table.changed(digest=rows.digest, size=rows.size), [rows]
    if not profile.is_sample:  # the values of a large table are listed when it is profiled whole
        values = value_lists.build(tenant, new.path, source_id=source.id, columns=len(fields), limits=READING)
        if values is not None:
            kept.append(values)
            table, contents = table.changed(values_digest=values.digest), [rows, values]
    return Draft(table, fields, contents)


def list_tables(
    tenant: Tenant,
    source: Source,
    before: Source | None,
    drafts: Sequence[Draft],
    more: Sequence[Step],
    action: str = "source.add",
    first: Sequence[Step] = (),
) -> list[str]:
    """One transaction: the source, its tables, fields and objects, and the version with what changed. Returns notes."""
    tables, fields = [draft.table for draft in drafts], {draft.table.id: draft.fields for draft in drafts}
    steps: list[Step] = [Insert(source)] if before is None else [Update(source)]
    changes: list[ColumnChange] = []
    if before is not None:
        old = [known.table for known in tables_of(tenant, [before])]
        old_fields = fields_of(tenant, old)
        changes = changes_between(old, old_fields, tables, fields)
        steps += _gone_steps(old, old_fields, tables, fields)
    else:
        steps.insert(0, Absent(Source, (equal("name", source.name), equal("project_id", source.project_id),
                                        equal("user_id", source.user_id))))  # fmt: skip
    steps += [*more, *(step for draft in drafts for one in draft.contents for step in one.steps)]
    steps += [Put(table) for table in tables]
    steps += [Put(field) for some in fields.values() for field in some]
    described: list[Source | Table | Field] = [source, *tables, *(field for some in fields.values() for field in some)]
    steps += embedding_steps(tenant, described, replacing=before is not None)
    version = _version(tenant, source, tables, changes)
    steps.append(Insert(version))
    steps += _outdated_steps(tenant, version, tables) if before is not None else []
    steps.append(
        logged(
            tenant,
            "create" if before is None else "update",
            action,
            None,
            id=source.id,
            name=source.name,
            tables=len(tables),
        )
    )
    due = due_steps(tenant, source.id) if before is not None else []
    commit(tenant, [*first, *steps, *due])
    finish_quietly(tenant)
    notes = [f"answers that cite it are checked again soon: {len(due):,}"] if due else []
    return [*notes, LATER] if tenant.embedders and len(described) - 1 > DATA_AT_ONCE else notes


def _outdated_steps(tenant: Tenant, newest: SourceVersion, tables: Sequence[Table]) -> list[Step]:
    """The content of versions that are too old to be kept, and values that are no longer searched."""
    recent = Compare("number", ">", newest.number - VERSIONS_KEPT)
    versions = tenant.find(Query(SourceVersion, (equal("source_id", newest.source_id), recent))).records
    needed = {digest for one in [*versions, newest] for digest in _digests(one)}
    objects = tenant.find(Query(StoredObject, (equal("source_id", newest.source_id),))).records
    searched = {table.values_digest for table in tables}
    return dropping_steps(
        tenant, [one for one in objects if one.digest not in (searched if one.purpose == "values" else needed)]
    )


def _digests(version: SourceVersion) -> list[str]:
    return [version.content_hash, *(table["digest"] for table in version.tables)]


def _gone_steps(
    old: Sequence[Table], old_fields: dict[str, list[Field]], new: Sequence[Table], fields: dict[str, list[Field]]
) -> list[Step]:
    kept_tables, kept = {table.id for table in new}, {field.id for some in fields.values() for field in some}
    gone_tables = [table for table in old if table.id not in kept_tables]
    gone = [field for table in old for field in old_fields[table.id] if field.id not in kept]
    deleted: list[Step] = [Delete(Field, field.id) for field in gone if field.table_id in kept_tables]
    return [*gone_steps([*gone_tables, *gone]), *(Delete(Table, table.id) for table in gone_tables), *deleted]


def _version(tenant: Tenant, source: Source, tables: Sequence[Table], changes: Sequence[ColumnChange]) -> SourceVersion:
    version: SourceVersion = made(
        SourceVersion,
        tenant,
        source_id=source.id,
        number=source.revision,
        content_hash=source.content_hash,
        size=source.size,
        media_type=source.media_type,
        format=source.format,
        path=source.path,
        tables=[
            {
                "name": one.name,
                "rows": one.row_count,
                "digest": one.digest or one.metadata.get("sample"),
                "fingerprint": one.fingerprint,
            }
            for one in tables
        ],
        changes=list(changes),
    )
    return version
