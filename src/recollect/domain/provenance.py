"""Citations: where memories come from. Each type is one class: its fields, what it refers to, how it is checked.

To add a type, write one more class with a `type` and a `check`; records, interfaces and docs follow. A check looks at
files, repositories, pages and data only through `CitationLookup`, so the rules stay pure and testable.
"""

from __future__ import annotations

import hashlib
import hmac
import posixpath
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from os import PathLike
from typing import Annotated, ClassVar, Literal, Protocol, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from recollect.domain.answers import change_in_words
from recollect.domain.kinds import describe
from recollect.domain.record import Id, Json, JsonList, Moment, Name, Record, Reference, Shape, Text, now
from recollect.errors import InvalidInput, NotFound

LINE_HASH = "l1:"
KEYED_HASH = "k1:"
EXCERPT_HASH = "x1:"
LONGEST_EXCERPT = 20_000
_PLAIN_SHA256 = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")
HASHES = ("line_hash", "content_hash")
"""The fields of evidence that hold a hash of something which whoever sees the citation may not be able to read."""
_SEALED = (*HASHES, "result_hash")
WORKSPACE = "workspace:"
QUERY = "query:"
MOST_CITED_SOURCES = 50  # their ids are one indexed text
ONE_LINE_FORMS = "user:NAME:COMMENT, file:PATH:FIRST-LAST, commit:HASH@REPO, log:ID, url:ADDRESS or query:RUN"
CitationState = Literal["unchecked", "holds", "claimed", "broken", "unreachable"]
EvidenceKind = Literal["commit", "log", "attested_log", "user", "file", "url", "query"]
"""The types of citations, with the log of another system told apart from our own, which can be looked up."""
ENOUGH_EVIDENCE: dict[str, frozenset[EvidenceKind]] = {
    "verified": frozenset(get_args(EvidenceKind)),
    "published": frozenset(get_args(EvidenceKind)) - {"attested_log"},
}
"""What may support a promotion, by the status, where the settings do not say."""

# Looking for moved lines hashes one window per line of the file: without a bound, half of a large file costs hours.
_SEARCH_BUDGET = 100_000_000  # characters, about half a second
_WINDOW_COST = 100  # of making and hashing even an empty window, in characters


class CitationCheck(BaseModel):
    """The result of a check.

    `unreachable` means that it could not be checked, which proves nothing either way; `claimed`, that one user says it
    of another, or of a page that was not fetched here.
    """

    model_config = ConfigDict(defer_build=True)

    state: CitationState
    note: str = ""


class CitationLookup(Protocol):
    """Looks up what is cited: in files, repositories, the log, data, the web."""

    is_confined: bool
    """Whether the caller may not see this machine: nothing exists outside of the folders in the settings, and answers
    say no more about a file than whether it still has the cited lines."""

    def names(self, path: str) -> bool:
        """Whether the settings let this path be cited, by its spelling alone: nothing is looked at."""

    def read_lines(self, path: str) -> list[str] | None:
        """The lines of a text file without line ends; None if there is no such readable file."""

    def followed(self, path: str) -> list[str]:
        """What a file is called now that had this name, as the history of its repository tells; the latest last."""

    def keyed(self, hash: str) -> str:
        """The hash as strangers are shown it: with the organization's secret, so that nobody can try out guesses."""

    def workspace_lines(self, workspace: str, path: str) -> list[str] | None:
        """The lines of a file of a workspace as it is now; None if there is no such workspace or file."""

    def commit_message(self, repo: str, commit: str) -> str | None:
        """The message of a commit; None if the repository is there and the commit is not.

        Raises LookupError when the repository cannot be looked into.
        """

    def log_exists(self, log_id: str) -> bool: ...

    def account_of(self, id: str) -> Literal["user", "key"] | None:
        """Whether a user or a key of the organization has this id."""

    def has_users(self) -> bool: ...

    fetches: bool

    def page_hash(self, url: str) -> str | None:
        """The hash of what the address serves now; None when fetching was not asked for."""

    def query_run(self, run: str) -> QueryCitation | None:
        """A query that was run, with what it read and returned; None if there is no such run."""

    def query_result(self, cited: QueryCitation) -> QueryCitation:
        """The same query over the same sources as they are now.

        Raises NotFound or InvalidInput when a source is gone or no longer has what is read, and LookupError when it
        cannot be run here or now.
        """


class _CitedSource(BaseModel):
    """Fields may be given in camelCase, too, as programs in JavaScript write them (`diffSummary`)."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        loc_by_alias=False,
        defer_build=True,
    )

    def source(self) -> str:
        """The source as one string: all citations of a source share it, so that it can be rolled back."""
        raise NotImplementedError

    def sealed(self, lookup: CitationLookup) -> Self:
        """This citation with what can be recorded now, such as the hash of the lines it points at."""
        return self

    def check(self, lookup: CitationLookup) -> CitationCheck:
        raise NotImplementedError


class CommitCitation(_CitedSource):
    type: Literal["commit"] = "commit"
    hash: Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{7,64}$")]
    repo: Text
    message: Text = ""
    diff_summary: Text | None = None

    def source(self) -> str:
        return f"commit:{self.repo}@{self.hash.lower()}"

    def check(self, lookup: CitationLookup) -> CitationCheck:
        try:
            found = lookup.commit_message(self.repo, self.hash)
        except LookupError as error:
            return CitationCheck(state="unreachable", note=str(error))
        if found is None:
            return CitationCheck(state="broken", note=f"commit {self.hash[:12]} is not in {self.repo}")
        if self.message and self.message.strip() not in found:
            return CitationCheck(state="broken", note=f"commit {self.hash[:12]} has a different message than was cited")
        return CitationCheck(state="holds", note=f"commit {self.hash[:12]} is in {self.repo}")


class LogCitation(_CitedSource):
    """An entry of our own log; or, with an `excerpt`, a log of another system such as a CI job or a terminal.

    That cannot be looked up here: it is attested by whoever entered it. `log_hash` is the hash of the whole log, where
    it is given, else that of the excerpt.
    """

    type: Literal["log"] = "log"
    log_id: Text
    timestamp: Moment | None = None
    context: Text = ""
    excerpt: Annotated[Text, StringConstraints(min_length=1, max_length=LONGEST_EXCERPT)] | None = None
    log_hash: Annotated[Text, StringConstraints(max_length=200)] | None = None

    @model_validator(mode="after")
    def _shows_what_is_hashed(self) -> Self:
        if self.log_hash is not None and self.excerpt is None:
            raise ValueError("log_hash needs the excerpt that the memory rests on")
        return self

    def source(self) -> str:
        return f"log:{self.log_id}"

    def sealed(self, lookup: CitationLookup) -> Self:
        if self.excerpt is None or self.log_hash is not None:
            return self
        return self.model_copy(update={"log_hash": _excerpt_hash(self.excerpt)})

    def check(self, lookup: CitationLookup) -> CitationCheck:
        if self.excerpt is not None:
            is_ours = self.log_hash is not None and self.log_hash.startswith(EXCERPT_HASH)
            if is_ours and self.log_hash != _excerpt_hash(self.excerpt):
                return CitationCheck(state="broken", note=f"the excerpt of log {self.log_id} is not what was recorded")
            return CitationCheck(state="holds", note=f"an excerpt of log {self.log_id} is recorded")
        if lookup.log_exists(self.log_id):
            return CitationCheck(state="holds", note=f"log entry {self.log_id} was found")
        note = f"log entry {self.log_id} is not recorded here; a log of another system is cited with its excerpt"
        return CitationCheck(state="broken", note=note)


def _excerpt_hash(excerpt: str) -> str:
    return EXCERPT_HASH + hashlib.sha256(excerpt.encode("utf-8", "surrogatepass")).hexdigest()


class UserCitation(_CitedSource):
    type: Literal["user"] = "user"
    user_id: Id
    comment: Text = ""

    def source(self) -> str:
        return f"user:{self.user_id}"

    def check(self, lookup: CitationLookup) -> CitationCheck:
        if self.comment.strip():
            return CitationCheck(state="holds", note=f"the comment of {self.user_id} is recorded")
        return CitationCheck(state="broken", note=f"{self.user_id} left no comment")


class FileCitation(_CitedSource):
    """Lines of a file, counted from 1, both ends included; without lines, the whole file.

    With `workspace`, the path is one inside that workspace of an agent.
    """

    type: Literal["file"] = "file"
    path: Text
    workspace: Id | None = None
    first_line: int | None = Field(default=None, ge=1)
    last_line: int | None = Field(default=None, ge=1)
    line_hash: Text | None = None

    @model_validator(mode="after")
    def _first_comes_first(self) -> Self:
        if self.first_line and self.last_line and self.last_line < self.first_line:
            raise ValueError("last_line must not come before first_line")
        return self

    def source(self) -> str:
        return f"{WORKSPACE}{self.workspace}/{self.path}" if self.workspace else f"file:{posixpath.normpath(self.path)}"

    def _lines(self, lookup: CitationLookup) -> list[str] | None:
        return lookup.workspace_lines(self.workspace, self.path) if self.workspace else lookup.read_lines(self.path)

    def sealed(self, lookup: CitationLookup) -> Self:
        """With the hash of the lines, and both their ends: an open end would move when the file grows."""
        if self.line_hash is not None:
            return self
        if lookup.is_confined and self.first_line and not self.last_line:
            raise InvalidInput("the cited lines have no end", remedy="give last_line too, as in file:notes.md:3-9")
        lines = self._lines(lookup)
        if lines is None:
            raise self._unreadable(lookup)
        if self._is_whole():
            return self.model_copy(update={"line_hash": line_hash(lines)})
        first, last = self.first_line or 1, self.last_line or len(lines)
        if not first <= last <= len(lines):
            if lookup.is_confined:
                raise self._unreadable(lookup)
            raise InvalidInput(
                f"'{self.path}' has {len(lines)} lines; {first} to {last} are not in it", remedy="cite lines that exist"
            )
        sealing = {"first_line": first, "last_line": last, "line_hash": line_hash(lines[first - 1 : last])}
        return self.model_copy(update=sealing)

    def _unreadable(self, lookup: CitationLookup) -> InvalidInput:
        """The same answer for everything a remote caller cannot cite: missing, forbidden, not a file, no such lines."""
        if lookup.is_confined:
            return InvalidInput(
                f"cannot read what is cited of '{self.path}'",
                remedy="cite a file of a workspace, or lines of a text file in the folders that this service may read",
            )
        return InvalidInput(
            f"cannot read the cited file '{self.path}'",
            remedy="cite a readable text file, or give the line_hash recorded elsewhere",
        )

    def check(self, lookup: CitationLookup) -> CitationCheck:
        is_ours = self.line_hash is not None and self.line_hash.startswith((LINE_HASH, KEYED_HASH))
        if self.line_hash is None or not (is_ours or _PLAIN_SHA256.fullmatch(self.line_hash)):
            return CitationCheck(
                state="unreachable", note=f"the cited lines of {self.path} were recorded without a hash"
            )
        lines = self._lines(lookup)
        found = self._found_in(self.path, lines, lookup) or self._found_renamed(lookup)
        if found is not None:
            return found
        why = (
            f"{self.path} cannot be read any more" if lines is None else f"the cited lines of {self.path} have changed"
        )
        return CitationCheck(state="broken", note=why)

    def _found_in(self, path: str, lines: list[str] | None, lookup: CitationLookup) -> CitationCheck | None:
        if lines is None:
            return None
        first, last = self.first_line or 1, self.last_line or len(lines)
        fits = self._is_whole() or first <= last <= len(lines)
        if fits and self._is_of(lines[first - 1 : last], lookup):
            return CitationCheck(state="holds", note=f"{path} is as it was cited")
        moved_to = None if self._is_whole() else self._found_elsewhere(lines, first, last - first + 1, lookup)
        if moved_to is None:
            return None
        return CitationCheck(state="holds", note=f"the cited lines of {path} now begin at line {moved_to}")

    def _found_renamed(self, lookup: CitationLookup) -> CitationCheck | None:
        """In a file that was renamed, where the repository says so and the very lines are there."""
        for name in lookup.followed(self.path) if not self.workspace else ():
            found = self._found_in(name, lookup.read_lines(name), lookup)
            if found is not None:
                return CitationCheck(state="holds", note=f"{self.path} was renamed: {found.note}")
        return None

    def is_unseen(self, lookup: CitationLookup) -> bool:
        """Whether there is nothing to look at, for a reason that requests over the network must not learn."""
        return lookup.is_confined and not self.workspace and lookup.read_lines(self.path) is None

    def _is_whole(self) -> bool:
        return self.first_line is None and self.last_line is None

    def _is_of(self, lines: Sequence[str], lookup: CitationLookup) -> bool:
        """Also by a plain SHA-256 of the text as it is, with or without a line end at its end."""
        plain = _PLAIN_SHA256.fullmatch(self.line_hash or "")
        if plain is None:
            return is_hash_of(self.line_hash, line_hash(lines), lookup)
        texts = ("\n".join(lines), "\n".join([*lines, ""]))
        return plain[1].lower() in [hashlib.sha256(one.encode("utf-8", "surrogatepass")).hexdigest() for one in texts]

    def _found_elsewhere(self, lines: Sequence[str], first: int, count: int, lookup: CitationLookup) -> int | None:
        """Where the lines begin now, nearest first; None also when the search got too long."""
        if not 1 <= count <= len(lines):
            return None
        budget = _SEARCH_BUDGET
        for start in sorted(range(1, len(lines) - count + 2), key=lambda start: abs(start - first)):
            window = lines[start - 1 : start - 1 + count]
            budget -= _WINDOW_COST + count + sum(map(len, window))
            if budget < 0:
                return None
            if self._is_of(window, lookup):
                return start
        return None


GONE_PAGE = "p1:gone"
"""The hash of a page that the server says is gone: no page has it."""


class UrlCitation(_CitedSource):
    type: Literal["url"] = "url"
    url: Annotated[Text, StringConstraints(pattern=r"^https?://\S+$")]
    title: Text = ""
    crawled_at: Moment | None = None
    content_hash: Text | None = None

    def source(self) -> str:
        return f"url:{self.url}"

    def sealed(self, lookup: CitationLookup) -> Self:
        """With the hash of what is served now, where fetching is allowed."""
        if self.content_hash is not None:
            return self
        try:
            served = lookup.page_hash(self.url)
        except LookupError:
            return self
        if served is None or served == GONE_PAGE:
            return self
        return self.model_copy(update={"content_hash": served, "crawled_at": now()})

    def check(self, lookup: CitationLookup) -> CitationCheck:
        if self.crawled_at is None or self.content_hash is None:
            return CitationCheck(state="unreachable", note="no crawl time and content hash were recorded")
        try:
            served = lookup.page_hash(self.url)
        except LookupError as error:
            return CitationCheck(state="unreachable", note=str(error))
        if served is not None and not is_hash_of(self.content_hash, served, lookup):
            return CitationCheck(state="broken", note=f"{self.url} serves something different now")
        how = "serves what was cited" if served else f"was crawled {self.crawled_at:%Y-%m-%d}, its hash is recorded"
        return CitationCheck(state="holds", note=f"{self.url} {how}")


class CitedData(BaseModel):
    """A source as it was when a query read it."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: Text
    revision: int = 1
    hash: Text


class QueryCitation(_CitedSource):
    """The result of a query that was run over sources. A check runs it again, on the sources as they are then.

    Only `run` needs to be given: what the query was, what it read and what it returned is taken from the run.
    """

    type: Literal["query"] = "query"
    run: Id
    sql: Text = ""
    sources: dict[Id, CitedData] = Field(default_factory=dict)
    tables: dict[str, Id] = Field(default_factory=dict)
    result_hash: Text | None = None
    row_count: int | None = None
    values: JsonList = Field(default_factory=list)

    def source(self) -> str:
        return QUERY + ",".join(sorted(self.sources))

    def sealed(self, lookup: CitationLookup) -> Self:
        """As the run was recorded: a statement or a result that came with the citation is never relied on."""
        found = lookup.query_run(self.run)
        if found is None:
            raise InvalidInput(f"there is no run '{self.run[:80]}' of a query", remedy="run the query and cite its run")
        if found.result_hash is None or not 0 < len(found.sources) <= MOST_CITED_SOURCES:
            raise InvalidInput(
                "the result of that query cannot be cited",
                remedy=f"cite a query over 1 to {MOST_CITED_SOURCES} sources that returns at most a million rows",
            )
        if self.result_hash not in (None, found.result_hash):
            raise InvalidInput("that run had another result", remedy="cite the run without result_hash")
        return self.model_copy(update={name: getattr(found, name) for name in type(self).model_fields})

    def check(self, lookup: CitationLookup) -> CitationCheck:
        if self.result_hash is None:
            return CitationCheck(state="unreachable", note="the query was cited without the hash of its result")
        try:
            found = lookup.query_result(self)
        except LookupError as error:
            return CitationCheck(state="unreachable", note=f"the query could not be run again: {error}")
        except (NotFound, InvalidInput) as error:
            return CitationCheck(state="broken", note=f"the query can no longer be run: {error.message}")
        if found.result_hash != self.result_hash:
            change = change_in_words(self.values, found.values, self.row_count, found.row_count)
            return CitationCheck(state="broken", note=f"the answer changed: {change}")
        newer = [
            f"version {now.revision} of {now.name}" for id, now in found.sources.items() if self._is_newer(id, now)
        ]
        note = "the query gives the same result" + (f" with {', '.join(newer)}" if newer else "")
        return CitationCheck(state="holds", note=note)

    def _is_newer(self, id: str, source: CitedData) -> bool:
        return id in self.sources and self.sources[id].hash != source.hash


AnyCitation = CommitCitation | LogCitation | UserCitation | FileCitation | UrlCitation | QueryCitation
_TYPES: dict[str, type[_CitedSource]] = {cited.model_fields["type"].default: cited for cited in get_args(AnyCitation)}


@cache
def _reader() -> TypeAdapter[AnyCitation]:
    return TypeAdapter(Annotated[AnyCitation, Field(discriminator="type")])


class Citation(Record):
    """One piece of evidence for one memory: what was cited, and what the last check found."""

    shape: ClassVar[Shape] = Shape(
        "citation",
        references={"organization_id": Reference("organization"), "memory_id": Reference("memory")},
        unique=(),
        indexes=(("memory_id", "id"), ("source", "memory_id"), ("state",), ("tried_at",)),
        unset=("tried_at",),
        encrypted_texts=frozenset({"evidence", "note"}),
    )

    memory_id: Id
    type: Name
    source: Text
    evidence: Json
    state: CitationState = "unchecked"
    note: Text = ""
    checked_at: Moment | None = None
    """When the state was found."""
    tried_at: Moment | None = None
    """When it was last tried: later than `checked_at` if the source could not be reached then."""
    entered_by: Id | None = None
    entered_through: Literal["process", "door"] | None = None
    """Whoever opens the store in their own process is responsible for everything they enter; a caller over the network
    (`door`) only for themselves."""
    seen_at: Moment | None = None
    """When we ourselves recorded the hash of what is cited; empty where it was given."""
    confirmed_by: Id | None = None
    confirmed_at: Moment | None = None

    def cited(self) -> AnyCitation:
        return read_citation(self.evidence)

    @property
    def evidence_kind(self) -> str:
        return "attested_log" if self.type == "log" and self.evidence.get("excerpt") else self.type

    @property
    def is_just_seen(self) -> bool:
        """Whether the last check had a result, which is the state."""
        return self.checked_at is not None and self.checked_at == self.tried_at

    def fetched(self, lookup: CitationLookup) -> Self:
        """A page that was cited without a hash, with the hash of what it serves now, where that can be fetched."""
        cited = self.cited()
        if not isinstance(cited, UrlCitation) or cited.content_hash is not None:
            return self
        sealed = cited.sealed(lookup)
        if sealed.content_hash is None:
            return self
        return self.changed(evidence=sealed.model_dump(mode="json", exclude_none=True), seen_at=now())

    def looked_up(self, lookup: CitationLookup) -> dict[str, object]:
        """What looking it up changes about this citation.

        To requests over the network, what is out of sight looks like what is not there: neither says anything.
        But lines that once held, at a place they may see, are gone when the file is.
        """
        cited, at = self.cited(), now()
        if isinstance(cited, FileCitation) and cited.is_unseen(lookup):
            was_seen = self.state in ("holds", "broken")
            if was_seen and not lookup.names(cited.path):
                return {"tried_at": at}
            if not was_seen:
                note = f"{cited.path} cannot be read from here"
                return {"state": "unreachable", "note": note, "checked_at": at, "tried_at": at}
        finding = cited.check(lookup)
        doubt = self._doubted(cited, lookup) if finding.state == "holds" else None
        found: dict[str, object] = {"state": finding.state, "note": finding.note, "checked_at": at, "tried_at": at}
        if doubt is not None:
            return found | {"state": "claimed", "note": doubt}
        if self.evidence_kind == "attested_log":
            found["note"] = f"{finding.note}, attested by {self._enterer() or 'whoever opened the store'}"
        if isinstance(cited, UrlCitation) and finding.state == "holds" and lookup.fetches:
            found["seen_at"] = at
        return found

    def _doubted(self, cited: AnyCitation, lookup: CitationLookup) -> str | None:
        """Why this is only a claim, if it is one: users can only speak for themselves."""
        if isinstance(cited, UserCitation) and self.confirmed_at is None:
            if self._enterer() == cited.user_id:
                return f"{cited.user_id} is a key, not a user" if lookup.account_of(cited.user_id) == "key" else None
            if self._came_by_door(lookup):
                return f"someone else entered it; {cited.user_id} has not confirmed it"
            if lookup.has_users() and lookup.account_of(cited.user_id) != "user":
                return f"there is no user {cited.user_id} in this organization"
        if (
            isinstance(cited, UrlCitation)
            and self.seen_at is None
            and not lookup.fetches
            and self._came_by_door(lookup)
        ):
            return f"the hash of {cited.url} was given with the citation; the page itself was not fetched"
        return None

    def _enterer(self) -> str | None:
        return self.entered_by if self.entered_through is not None else self.created_by

    def _came_by_door(self, lookup: CitationLookup) -> bool:
        """Of citations from before this was recorded: whether who made them has an account."""
        if self.entered_through is None:
            return self.created_by is not None and lookup.account_of(self.created_by) is not None
        return self.entered_through == "door"


def entered(
    cited: AnyCitation, given: AnyCitation, by: str | None, through: Literal["process", "door"]
) -> dict[str, object]:
    """The fields of a citation that say how it came in; `given` is what was given before we sealed it.

    Who cites somebody else over the network, or a page with a hash of their own, makes a claim and no more.
    """
    own = cited.model_dump(include=set(_SEALED)) != given.model_dump(include=set(_SEALED))
    speaks_for_another = isinstance(cited, UserCitation) and cited.user_id != by
    says_it_was_seen = isinstance(cited, UrlCitation) and cited.content_hash is not None and not own
    is_claim = through == "door" and (speaks_for_another or says_it_was_seen)
    return {
        "entered_by": by,
        "entered_through": through,
        "seen_at": now() if own else None,
        "state": "claimed" if is_claim else "unchecked",
    }


def read_citation(given: AnyCitation | Json | str) -> AnyCitation:
    if isinstance(given, str):
        return cite.parse(given)
    if not isinstance(given, dict):
        if isinstance(given, _CitedSource):
            return given
        raise InvalidInput(
            f"a citation must be made with recollect.cite or be a JSON object, not {type(given).__name__}",
            remedy="use recollect.cite.user(…), file(…), commit(…), log(…), url(…) or query(…)",
        )
    try:
        return _reader().validate_python(given)
    except ValidationError as error:
        raise InvalidInput(f"that is not a citation: {describe(error)}", remedy=_remedy(given.get("type"))) from None


def _remedy(type: object) -> str:
    cited = _TYPES.get(type) if isinstance(type, str) else None
    if cited is None:
        return 'give "type": commit, log, user, file, url or query'
    return f"a {type} citation has {', '.join(name for name in cited.model_fields if name != 'type')}"


def line_hash(lines: Sequence[str]) -> str:
    """Of the lines as written, less the space at their ends: editors trim it without changing a thing."""
    text = "\n".join(line.rstrip() for line in lines)
    return LINE_HASH + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def is_hash_of(recorded: str | None, found: str, lookup: CitationLookup) -> bool:
    """Whether a hash is the recorded one, which may be as strangers were shown it."""
    if recorded is not None and recorded.startswith(KEYED_HASH):
        return hmac.compare_digest(recorded.encode(), lookup.keyed(found).encode())
    return recorded == found


def keyed_hash(secret: str, hash: str) -> str:
    return KEYED_HASH + hmac.new(secret.encode(), hash.encode(), "sha256").hexdigest()


def _ends(lines: object) -> tuple[object, object]:
    if lines is None or isinstance(lines, int):
        return lines, lines
    if isinstance(lines, tuple | list) and len(lines) == 2:
        return lines[0], lines[1]
    raise InvalidInput(
        "lines must be one line number, or the first and the last", remedy="write lines=7 or lines=(3, 9)"
    )


def page_hash(body: bytes) -> str:
    """Of a page as it was served."""
    return "p1:" + hashlib.sha256(body).hexdigest()


class cite:
    """Makers of citations."""

    page_hash = staticmethod(page_hash)

    @staticmethod
    def commit(hash: str, repo: str = ".", message: str = "", diff_summary: str | None = None) -> AnyCitation:
        return read_citation(
            {"type": "commit", "hash": hash, "repo": repo, "message": message, "diff_summary": diff_summary}
        )

    @staticmethod
    def log(
        log_id: str,
        timestamp: datetime | None = None,
        context: str = "",
        excerpt: str | None = None,
        log_hash: str | None = None,
    ) -> AnyCitation:
        """An entry of our own log; with an excerpt, the log of another system."""
        entry = {"log_id": log_id, "timestamp": timestamp, "context": context}
        return read_citation({"type": "log", **entry, "excerpt": excerpt, "log_hash": log_hash})

    @staticmethod
    def user(user_id: str, comment: str = "") -> AnyCitation:
        return read_citation({"type": "user", "user_id": user_id, "comment": comment})

    @staticmethod
    def file(
        path: str | PathLike[str],
        lines: tuple[int, int] | int | None = None,
        line_hash: str | None = None,
        workspace: str | None = None,
    ) -> AnyCitation:
        first, last = _ends(lines)
        where = {"path": str(path), "workspace": workspace}
        return read_citation({"type": "file", **where, "first_line": first, "last_line": last, "line_hash": line_hash})

    @staticmethod
    def url(
        url: str, title: str = "", crawled_at: datetime | None = None, content_hash: str | None = None
    ) -> AnyCitation:
        return read_citation(
            {"type": "url", "url": url, "title": title, "crawled_at": crawled_at, "content_hash": content_hash}
        )

    @staticmethod
    def query(run: str, result_hash: str | None = None) -> AnyCitation:
        """The result of a query, by the run that `query.run` or `ask` returned."""
        return read_citation({"type": "query", "run": run, "result_hash": result_hash})

    @staticmethod
    def parse(text: str) -> AnyCitation:
        """A citation written on one line, as on the command line.

        `user:alice:said so`, `file:notes.md:3-9`, `file:workspace:ID/notes.md:3-9`, `commit:1a2b3c4@repo`,
        `log:42`, `url:https://…`, `query:RUN`
        """
        type, _, rest = text.partition(":")
        maker = _SHORTHANDS.get(type)
        if maker is None or not rest:
            raise InvalidInput(
                f"'{text[:80]}' is not a citation",
                remedy=f"write {ONE_LINE_FORMS}",
            )
        return maker(rest)


def _file_shorthand(rest: str) -> AnyCitation:
    path, _, lines = rest.rpartition(":")
    first, _, last = lines.partition("-")
    ends = None
    if path and first.isdecimal() and (not last or last.isdecimal()):
        rest, ends = path, (int(first), int(last or first))
    workspace, slash, inner = rest.removeprefix(WORKSPACE).partition("/")
    if rest.startswith(WORKSPACE) and workspace and slash:
        return cite.file(inner, ends, workspace=workspace)
    return cite.file(rest, ends)


def _commit_shorthand(rest: str) -> AnyCitation:
    hash, _, repo = rest.partition("@")
    return cite.commit(hash, repo or ".")


_SHORTHANDS: dict[str, Callable[[str], AnyCitation]] = {
    "user": lambda rest: cite.user(*rest.partition(":")[::2]),
    "file": _file_shorthand,
    "commit": _commit_shorthand,
    "log": cite.log,
    "url": cite.url,
    "query": cite.query,
}
