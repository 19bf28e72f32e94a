"""`recollect ci`: whether a pull request breaks facts that cite the files it changes.

It looks at what the checkout changes since the base revision, finds the citations of those files in the memory, and
looks at each again in the checkout. The memory is only read: a store, an export of one in the repository, or a service;
nothing in it is demoted by a pull request that may never be merged.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from recollect.app.repositories import Checkout, checkout_of, lookup_in
from recollect.domain.provenance import KEYED_HASH, FileCitation, line_hash
from recollect.errors import InvalidInput, NotFound
from recollect.services.requests import Reply, Request

MOST_SHOWN = 50
SHOWN_TEXT = 300
ALL_ZEROS = "0" * 40  # what a CI service gives as the base of a branch that is new
State = Literal["broken", "holds", "unreachable"]


class CiRequest(Request):
    """What to compare, where the memory is, and when to fail."""

    base: str | None = Field(None, description="The revision to compare with; by default the base branch that CI names")
    store: str | None = Field(
        None, description="The memory: a store, an exported .jsonl file, or the address of a service"
    )
    checkout: Path = Field(Path(), description="The folder of the checkout; this one by default")
    project: str | None = Field(None, description="Only memories of this project")
    fail_on: Literal["trusted", "any", "never"] = Field(
        "trusted", description="Fail on broken facts that are verified or published (trusted), on any, or never"
    )
    format: Literal["text", "github", "markdown"] = Field("text", description="text, github (annotations) or markdown")
    summary: Path | None = Field(None, description="Append a markdown summary to this file; CI's own by default")
    comment: Path | None = Field(None, description="Write the summary to this file, if a fact is cited: for a comment")


class CiFinding(Reply):
    """A fact that cites a changed file, and whether it still holds."""

    memory: str
    text: str
    status: str
    path: str
    first_line: int | None = None
    last_line: int | None = None
    state: State
    note: str

    @property
    def is_trusted(self) -> bool:
        return self.status in ("verified", "published")


class CiReply(Reply):
    """What the changes do to facts that cite them."""

    base: str
    head: str
    changed_files: int
    findings: list[CiFinding]
    broken_facts: int
    failed: bool
    format: str = Field("text", exclude=True)

    @property
    def well(self) -> bool:
        return not self.failed


def ci(request: CiRequest, progress: object = None) -> CiReply:
    """Check the facts that cite what a pull request changes."""
    checkout = checkout_of(request.checkout)
    base = _base(checkout, request.base)
    assert checkout.repository is not None
    assert checkout.head is not None
    changed = set(checkout.repository.changed_between(base, checkout.head))
    known = changed | set(checkout.repository.files_at(base)) if changed else set()
    cited = _cited_files(request.store, request.project)
    looked_at = (_finding(one, checkout, base, changed, known) for one in cited)
    findings = [one for one in looked_at if one is not None]
    findings.sort(key=lambda one: (one.state != "broken", not one.is_trusted, one.path, one.first_line or 0))
    broken = [one for one in findings if one.state == "broken"]
    failed = bool(broken) if request.fail_on == "any" else any(one.is_trusted for one in broken)
    reply = CiReply(
        base=base, head=checkout.head, changed_files=len(changed), findings=findings, broken_facts=len(broken),
        failed=failed and request.fail_on != "never", format=request.format,
    )  # fmt: skip
    _summarise(reply, request.summary)
    if request.comment is not None:
        request.comment.write_text(as_markdown(reply) if findings else "", encoding="utf-8")
    return reply


def _base(checkout: Checkout, given: str | None) -> str:
    """Where the branch left the base: what others changed there meanwhile is not this one's doing."""
    if checkout.repository is None or checkout.head is None:
        raise InvalidInput("this is no git repository with a commit", remedy="run it in a checkout, or give --checkout")
    branch = os.environ.get("GITHUB_BASE_REF") or os.environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME")
    named = [given] if given else [f"origin/{branch}", branch] if branch else []
    if not named:
        raise InvalidInput("which revision to compare with is not known", remedy="give it: --base origin/main")
    for revision in named:
        commit = checkout.repository.commit_of(revision or "") if revision != ALL_ZEROS else None
        if commit is not None:
            return checkout.repository.common_ancestor(commit, checkout.head) or commit
    raise InvalidInput(
        f"there is no revision '{named[0]}' in this checkout", remedy="fetch it: in GitHub Actions with fetch-depth: 0"
    )


@dataclass(frozen=True)
class CitedFile:
    """A citation of a file, and the memory that cites it."""

    memory: str
    text: str
    status: str
    evidence: dict[str, Any]


def _cited_files(store: str | None, project: str | None) -> Iterator[CitedFile]:
    """Of what is neither forgotten nor archived: from an export, a service, or a store."""
    if store is not None and store.endswith(".jsonl"):
        yield from _exported(Path(store), project)
        return
    from recollect import app

    with app.open_for_command(store, None, None, create=False, create_organization=False, only_reads=True) as mem:
        yield from _listed(mem, project)


def _listed(mem: Any, project: str | None) -> Iterator[CitedFile]:
    after = None
    while True:
        page = mem.citation.list(limit=1000, after=after)
        for line in page.citations:
            if line.type != "file" or line.status in ("forgotten", "archived"):
                continue
            if project is None or mem.show(line.memory).project == project:
                yield CitedFile(line.memory, line.text, line.status, line.evidence)
        after = page.next
        if after is None:
            return


def _exported(path: Path, project: str | None) -> Iterator[CitedFile]:
    """Read as it is, with the status that each memory had: an import would ask for its evidence first."""
    memories: dict[str, dict[str, Any]] = {}
    citations: list[dict[str, Any]] = []
    for table, record in _records(path):
        if table == "memory" and not record["is_deleted"] and record["status"] != "archived":
            if project is None or record["project_id"] == project:
                memories[record["id"]] = record
        elif table == "citation" and record["type"] == "file":
            citations.append(record)
    for one in citations:
        memory = memories.get(one["memory_id"])
        if memory is not None:
            yield CitedFile(memory["id"], memory["text"][:SHOWN_TEXT], memory["status"], one["evidence"])


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    from recollect.services.admin.export import FORMAT

    try:
        with path.open(encoding="utf-8") as file:
            if json.loads(file.readline() or "{}").get("format") != FORMAT:
                raise ValueError
            for line in file:
                told = json.loads(line)
                if "table" in told:
                    yield told["table"], told["record"]
    except FileNotFoundError:
        raise NotFound(f"there is no file '{path}'", remedy="write it with `recollect export`") from None
    except (ValueError, AttributeError, KeyError):
        raise InvalidInput(
            f"'{path}' is no export of Recollect", remedy="write it with `recollect export --plain`"
        ) from None


def _finding(one: CitedFile, checkout: Checkout, base: str, changed: set[str], known: set[str]) -> CiFinding | None:
    """Of a citation of a changed file: what it is like in the checkout."""
    path = _in_repository(str(one.evidence.get("path", "")), checkout.root, known)
    if path is None or path not in changed or one.evidence.get("workspace"):
        return None
    cited = FileCitation.model_validate({**one.evidence, "path": path})
    if str(cited.line_hash).startswith(KEYED_HASH):
        cited = cited.model_copy(update={"line_hash": _hash_at_base(cited, checkout.lines_at(base, path))})
    found = cited.check(lookup_in(checkout.root))
    state: State = found.state if found.state in ("broken", "holds") else "unreachable"
    return CiFinding(
        memory=one.memory, text=one.text, status=one.status, path=path, first_line=cited.first_line,
        last_line=cited.last_line, state=state, note=found.note,
    )  # fmt: skip


def _hash_at_base(cited: FileCitation, lines: list[str] | None) -> str | None:
    """A service tells no hash that could be compared elsewhere: the lines as they were before the change count then."""
    if lines is None or (cited.last_line or 0) > len(lines):
        return None
    return line_hash(lines[(cited.first_line or 1) - 1 : cited.last_line or len(lines)])


def _in_repository(path: str, root: Path, known: set[str]) -> str | None:
    """A cited path as the repository calls it: the longest end of it that is a file there, for it may have been cited
    in another clone."""
    parts = Path(os.path.normpath(path)).parts
    if os.path.isabs(path) and Path(path).is_relative_to(root):
        parts = Path(path).relative_to(root).parts
    for start in range(len(parts)):
        end = Path(*parts[start:]).as_posix()
        if end in known:
            return end
    return None


# -- shown -----------------------------------------------------------------------------------------------------------


def as_text(reply: CiReply) -> Iterator[str]:
    for one in reply.findings:
        mark = {"broken": "✗", "holds": "✓"}.get(one.state, "?")
        yield f"{mark} {_place(one)}  [{one.memory} {one.status}] {_line(one.text)}: {one.note}"
    verdict = "failed" if reply.failed else "passed"
    counted = f"{len(reply.findings):,} facts cite them, {reply.broken_facts:,} broken"
    yield f"{verdict}: {reply.changed_files:,} files changed, {counted}"


def as_annotations(reply: CiReply) -> Iterator[str]:
    """As GitHub reads them off a job's output; line breaks and marks in a text cannot end one."""
    for one in reply.findings:
        if one.state != "broken":
            continue
        level = "error" if one.is_trusted else "warning"
        lines = f",line={one.first_line},endLine={one.last_line}" if one.first_line else ""
        told = f"{one.status} fact {one.memory} no longer holds: {_line(one.text)} ({one.note})"
        yield f"::{level} file={_escaped(one.path, ':,')}{lines},title=Recollect::{_escaped(told)}"


def as_markdown(reply: CiReply) -> str:
    head = "### Facts that cite the changed files\n\n"
    if not reply.findings:
        return f"{head}None of the {reply.changed_files:,} changed files is cited.\n"
    rows = [
        f"| {'❌' if one.state == 'broken' else '✅' if one.state == 'holds' else '❔'} | {_cell(one.text)} |"
        f" {one.status} | `{_cell(_place(one))}` | {_cell(one.note)} | `{_cell(one.memory)}` |\n"
        for one in reply.findings[:MOST_SHOWN]
    ]
    more = len(reply.findings) - MOST_SHOWN
    return (
        f"{head}{reply.broken_facts:,} of {len(reply.findings):,} no longer hold.\n\n"
        "| | fact | status | cites | found | id |\n| --- | --- | --- | --- | --- | --- |\n"
        + "".join(rows)
        + (f"\nand {more:,} more\n" if more > 0 else "")
    )


def _summarise(reply: CiReply, given: Path | None) -> None:
    named = given or (Path(told) if (told := os.environ.get("GITHUB_STEP_SUMMARY")) else None)
    if named is not None:
        with named.open("a", encoding="utf-8") as out:
            out.write(as_markdown(reply))


def _place(one: CiFinding) -> str:
    return f"{one.path}:{one.first_line}-{one.last_line}" if one.first_line else one.path


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    made = _line(text).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
    return made.replace("@", "@\u200b").replace("![", "!\u200b[")  # nobody is called, nothing is fetched


def _escaped(text: str, also: str = "") -> str:
    made = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    for mark in also:
        made = made.replace(mark, f"%{ord(mark):02X}")
    return made


def shown(reply: CiReply) -> Iterable[str]:
    if reply.format == "github":
        return [*as_annotations(reply), list(as_text(reply))[-1]]
    return [as_markdown(reply)] if reply.format == "markdown" else as_text(reply)
