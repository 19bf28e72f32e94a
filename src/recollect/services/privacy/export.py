"""Handing over what is stored about a person: a folder that they can read, and the records for programs.

`README.md` says what there is; one Markdown file per kind has it in words; `files/` has the files of workspaces and the
uploaded files as they were; `records.jsonl` has every record whole, as an export of the store has them. Secrets (the
hashes of passwords and keys, vectors) are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from pydantic import Field

from recollect.domain.record import RECORDS, JsonObject, Record, now
from recollect.domain.sources import Source, SourceVersion, StoredObject
from recollect.domain.workspaces import WorkspaceFile
from recollect.errors import InvalidInput
from recollect.ports.query import Compare, Order, Query, equal
from recollect.services.admin.export import record_line
from recollect.services.memories.indexing import Progress
from recollect.services.privacy.find import SubjectRequest, kind_of, listed_ids, nothing_stored, records_of, title_of
from recollect.services.privacy.subject import RELATIONS, Relation, SubjectData, collect, subject_of
from recollect.services.requests import AS_GIVEN, Reply
from recollect.services.tenant import Tenant
from recollect.services.workspaces.blobs import read_parts

PAGE = 500
HEADING = 80
# What is no data of the person: derived, or a secret.
_LEFT_OUT = frozenset({"embedding", "index_task", "item_vector", "object", "changed_bucket"})
_SECRET = {"user": ("password_hash",), "api_key": ("key_hash",)}
_QUIET = frozenset({"organization_id", "version", "is_deleted", "identity", "content_hash", "idempotency_key", "salt"})


class ExportSubjectRequest(SubjectRequest):
    """Whose data to write, and where to."""

    path: Annotated[str, AS_GIVEN] = Field(description="The folder to write; it must be empty or not exist yet")
    about: bool = Field(True, description="Include records of others that name the person")


class SubjectExport(Reply):
    """What was written."""

    path: str
    records: int
    files: int
    kinds: dict[str, int] = Field(default_factory=dict, description="How many records of which kind")


def export(
    tenant: Tenant, request: ExportSubjectRequest, progress: Progress = lambda done, total: None
) -> SubjectExport:  # fmt: skip
    """Write everything about a person to a folder: Markdown to read, their files, and JSON Lines for programs."""
    subject = subject_of(tenant, request.user, request.also)
    folder = _new_folder(request.path)
    data = collect(tenant, subject, progress)
    if data.is_empty:
        raise nothing_stored(subject)
    relations: tuple[Relation, ...] = ("own", "by", "about") if request.about else ("own", "by")
    writer = _Writer(tenant, folder)
    kinds = writer.records(data, relations)
    kinds |= writer.log(data)
    files = writer.files(data)
    writer.readme(data, kinds, files)
    return SubjectExport(path=str(folder), records=sum(kinds.values()), files=files, kinds=kinds)


def _new_folder(path: str) -> Path:
    folder = Path(path).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        taken = any(folder.iterdir())
    except OSError as error:
        raise InvalidInput(f"cannot make '{folder}': {error.strerror}", remedy="give a folder to write to") from None
    if taken:
        raise InvalidInput(f"'{folder}' is not empty", remedy="give a folder that is empty or does not exist yet")
    return folder


class _Writer:
    """Writes the files of one export; each is whole or not there."""

    def __init__(self, tenant: Tenant, folder: Path) -> None:
        self._tenant, self._folder = tenant, folder

    def _write(self, name: str, pieces: Iterable[bytes]) -> None:
        target = self._folder / name
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)

        def write(file: BinaryIO) -> None:
            for piece in pieces:
                file.write(piece)

        self._tenant.folders.keep(target, write)

    def records(self, data: SubjectData, relations: tuple[Relation, ...]) -> dict[str, int]:
        """One Markdown file per kind, and all records in one file of JSON Lines; how many of each kind."""
        tables = sorted({table for relation in relations for table in listed_ids(data, relation)} - _LEFT_OUT)
        kinds: dict[str, int] = {}
        for table in tables:
            groups = {relation: sorted(listed_ids(data, relation).get(table, ())) for relation in relations}
            kinds[kind_of(table)] = len({id for ids in groups.values() for id in ids})
            self._write(f"{_file_name(table)}.md", self._markdown(table, groups))
        self._write("records.jsonl", self._lines(data, tables, relations))
        return kinds

    def _found(self, table: str, ids: list[str]) -> Iterator[Record]:
        for start in range(0, len(ids), PAGE):
            found = records_of(self._tenant, table, ids[start : start + PAGE])
            yield from sorted(found.values(), key=lambda one: one.id)

    def _markdown(self, table: str, groups: dict[Relation, list[str]]) -> Iterator[bytes]:
        yield f"# {_plural(table)}\n".encode()
        for relation, ids in groups.items():
            if ids:
                yield f"\n## What {RELATIONS[relation]}\n".encode()
            for record in self._found(table, ids):
                yield _section(record).encode()

    def _lines(self, data: SubjectData, tables: list[str], relations: tuple[Relation, ...]) -> Iterator[bytes]:
        for table in tables:
            ids = sorted({id for relation in relations for id in listed_ids(data, relation).get(table, ())})
            for record in self._found(table, ids):
                yield record_line(_without_secrets(record))

    def log(self, data: SubjectData) -> dict[str, int]:
        """The entries of the access log that name them."""
        if not data.log_entries:
            return {}
        redaction, written = data.subject.redaction, 0

        def lines() -> Iterator[bytes]:
            nonlocal written
            after = ""
            while True:
                where = (Compare("id", ">", after),) if after else ()
                found: Query[Any] = Query(RECORDS["access_log"], where, (Order("id"),), PAGE)
                entries = self._tenant.find(found).records
                for entry in entries:
                    if redaction.fields_found(entry):
                        written += 1
                        yield record_line(entry.changed(salt=None))
                if len(entries) < PAGE:
                    return
                after = entries[-1].id

        self._write("access-log.jsonl", lines())
        return {"log entry": written}

    def files(self, data: SubjectData) -> int:
        """Uploaded files and files of workspaces, as they are."""
        count = 0
        theirs = {table: sorted({*data.own.get(table, ()), *data.by.get(table, ())}) for table in ("source",)}
        for source in self._found("source", theirs["source"]):
            assert isinstance(source, Source)
            count += self._uploaded(source)
        files = {one.id: one for one in data.files}
        for one in self._found("workspace_file", sorted(data.own.get("workspace_file", ()))):
            assert isinstance(one, WorkspaceFile)
            files[one.id] = one
        for file in sorted(files.values(), key=lambda one: one.id):
            pieces = read_parts(self._tenant.store, self._tenant.scope, file.content_hash)
            self._write(f"files/workspaces/{_file_name(file.workspace_id)}/{file.path}", pieces)
            count += 1
        return count

    def _uploaded(self, source: Source) -> int:
        """The file of each version that is kept."""
        kept = Query(StoredObject, (equal("source_id", source.id), equal("purpose", "upload")))
        digests = {one.digest for one in self._tenant.find(kept).records}
        versions = Query(SourceVersion, (equal("source_id", source.id),), (Order("number"),))
        written = 0
        for version in self._tenant.find(versions).records:
            if version.content_hash in digests:
                name = f"{_file_name(source.id)}-{version.number}-{_file_name(Path(version.path).name or source.name)}"
                pieces = self._tenant.objects.read(self._tenant.content_place, version.content_hash)
                self._write(f"files/sources/{name}", pieces)
                written += 1
        return written

    def readme(self, data: SubjectData, kinds: dict[str, int], files: int) -> None:
        self._write("README.md", [_readme(data, kinds, files).encode()])


def _readme(data: SubjectData, kinds: dict[str, int], files: int) -> str:
    who = data.subject.user.name if data.subject.user is not None else data.subject.id
    listed = [f"| {kind} | {count} | {_link(kind)} |" for kind, count in sorted(kinds.items())]
    return "\n".join(
        [
            f"# What is stored about {who}",
            "",
            f"Written on {now().date().isoformat()} for user `{data.subject.id}`.",
            "",
            "| kind | records | file |",
            "| --- | --- | --- |",
            *listed,
            "",
            f"`files/` has {files} files as they were uploaded or written. `records.jsonl` has the same records for",
            "programs: one JSON object per line, with its table and all its fields.",
            "",
        ]
    )


def _link(kind: str) -> str:
    name = "access-log.jsonl" if kind == "log entry" else f"{_file_name(kind)}.md"
    return f"[{name}]({name})"


def _plural(table: str) -> str:
    kind = kind_of(table)
    return (f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s").capitalize()


def _file_name(text: str) -> str:
    """A name that is the same file on every system, and never leads out of the folder."""
    plain = "".join(one if one.isalnum() or one in "-_." else "-" for one in kind_of(text)).strip(".-")
    return plain[:100] or "unnamed"


def _without_secrets(record: Record) -> Record:
    hidden = _SECRET.get(record.shape.table, ())
    return record.changed(**dict.fromkeys(hidden, "")) if hidden else record


def _section(record: Record) -> str:
    """One record in words: its title, then every field that says something."""
    shown = _without_secrets(record).__dict__
    title = (title_of(record) or record.id)[:HEADING].replace("\n", " ")
    lines = [f"\n### {title}\n"]
    lines += [f"- {name.replace('_', ' ')}: {_value(value)}" for name, value in shown.items() if _is_shown(name, value)]
    return "\n".join(lines) + "\n"


def _is_shown(name: str, value: object) -> bool:
    return name not in _QUIET and not isinstance(value, bytes) and value not in (None, "", [], {}, False)


def _value(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, str):
        return value if "\n" not in value else "\n\n  ```text\n" + _indented(value) + "\n  ```"
    plain: JsonObject | object = value
    return f"`{json.dumps(plain, ensure_ascii=False, default=str)}`"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
