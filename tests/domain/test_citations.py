"""Every type of citation: what it points at, what sealing records, what a check finds, and what is refused."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.provenance import (
    GONE_PAGE,
    AnyCitation,
    Citation,
    CitationCheck,
    CitedData,
    CommitCitation,
    FileCitation,
    LogCitation,
    QueryCitation,
    UrlCitation,
    UserCitation,
    cite,
    keyed_hash,
    line_hash,
    read_citation,
)
from recollect.errors import InvalidInput, NotFound

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
HASH = "0123456789abcdef0123456789abcdef01234567"

RUN = QueryCitation(
    run="run-9",
    sql="select sum(amount) from sales",
    sources={"s1": CitedData(name="sales", hash="o1:1")},
    tables={"sales": "t1"},
    result_hash="r1",
    row_count=1,
    values=[[1234]],
)


class SmallLookup:
    """A lookup of one file, one commit, one log entry, one page and one run of a query."""

    is_confined = False
    fetches = False

    def __init__(
        self,
        lines: list[str] | None = None,
        page: str | None = None,
        is_cut_off: bool = False,
        data: QueryCitation | None = None,
    ) -> None:
        self.lines = lines
        self.data = data
        self.page = page
        self.is_cut_off = is_cut_off

    def names(self, path: str) -> bool:
        return True

    def read_lines(self, path: str) -> list[str] | None:
        return self.lines if path == "a.py" else None

    def workspace_lines(self, workspace: str, path: str) -> list[str] | None:
        return None

    def followed(self, path: str) -> list[str]:
        return []

    def keyed(self, hash: str) -> str:
        return keyed_hash("secret", hash)

    def commit_message(self, repo: str, commit: str) -> str | None:
        if self.is_cut_off:
            raise LookupError("nobody can look")
        return "Fix the parser\n\nAt last.\n" if commit == HASH else None

    def log_exists(self, log_id: str) -> bool:
        return log_id == "run-7"

    def account_of(self, id: str) -> None:
        return None

    def has_users(self) -> bool:
        return False

    def page_hash(self, url: str) -> str | None:
        if self.is_cut_off:
            raise LookupError("nobody can look")
        return self.page

    def query_run(self, run: str) -> QueryCitation | None:
        return RUN if run == RUN.run else None

    def query_result(self, cited: QueryCitation) -> QueryCitation:
        if self.is_cut_off:
            raise LookupError("nobody can look")
        if self.data is None:
            raise NotFound("the source 'sales' was removed")
        return self.data


LOOKUP = SmallLookup(lines=["one", "two", "three"], data=RUN)
CUT_OFF = SmallLookup(is_cut_off=True)

EVERY_TYPE: list[AnyCitation] = [
    cite.commit(HASH, repo="app", message="Fix the parser", diff_summary="+1 -1"),
    cite.log("run-7", timestamp=NOON, context="make test"),
    cite.user("alice", "said so in review"),
    cite.file("a.py", lines=(1, 2)),
    cite.url("https://example.org/a", title="A", crawled_at=NOON, content_hash="p1:00"),
    cite.query("run-9"),
]


@pytest.mark.parametrize("cited", EVERY_TYPE, ids=lambda cited: cited.type)
class TestEveryType:
    def test_it_survives_being_stored(self, cited: AnyCitation) -> None:
        stored = Citation(
            organization_id="o",
            memory_id="m",
            type=cited.type,
            source=cited.source(),
            evidence=cited.model_dump(mode="json"),
        )
        assert stored.cited() == cited
        assert stored.state == "unchecked"

    def test_its_source_begins_with_its_type(self, cited: AnyCitation) -> None:
        assert cited.source().startswith(f"{cited.type}:")

    def test_it_holds_once_sealed(self, cited: AnyCitation) -> None:
        found = cited.sealed(LOOKUP).check(LOOKUP)
        assert found.state == "holds"
        assert found.note

    def test_sealing_twice_changes_nothing(self, cited: AnyCitation) -> None:
        once = cited.sealed(LOOKUP)
        assert once.sealed(SmallLookup(lines=["other"])) == once

    def test_it_cannot_be_changed(self, cited: AnyCitation) -> None:
        with pytest.raises(ValueError, match="frozen"):
            cited.type = "other"  # type: ignore[misc, assignment]

    def test_an_unknown_field_is_refused(self, cited: AnyCitation) -> None:
        with pytest.raises(InvalidInput, match="colour"):
            read_citation({**cited.model_dump(), "colour": "red"})


class TestSources:
    @pytest.mark.parametrize(
        ("cited", "source"),
        [
            (cite.commit(HASH, repo="app"), f"commit:app@{HASH}"),
            (cite.log("run-7"), "log:run-7"),
            (cite.user("alice", "yes"), "user:alice"),
            (cite.file("a.py", lines=3), "file:a.py"),
            (cite.file("a.py"), "file:a.py"),
            (cite.url("https://example.org/a"), "url:https://example.org/a"),
        ],
    )
    def test_citations_of_one_source_share_it(self, cited: AnyCitation, source: str) -> None:
        assert cited.source() == source


class TestCommits:
    def test_part_of_the_message_is_enough(self) -> None:
        assert cite.commit(HASH, message=" Fix the parser ").check(LOOKUP).state == "holds"
        assert cite.commit(HASH).check(LOOKUP).state == "holds"

    def test_a_missing_commit_breaks_it(self) -> None:
        found = cite.commit("f" * 40, repo="app").check(LOOKUP)
        assert found == CitationCheck(state="broken", note="commit ffffffffffff is not in app")

    def test_another_message_breaks_it(self) -> None:
        assert cite.commit(HASH, message="Add a parser").check(LOOKUP).state == "broken"

    def test_a_repository_out_of_reach_proves_nothing(self) -> None:
        assert cite.commit(HASH).check(CUT_OFF) == CitationCheck(state="unreachable", note="nobody can look")

    @pytest.mark.parametrize("hash", ["", "abc", "g" * 40, "HEAD", "a" * 65, HASH + "\n", "-" + HASH])
    def test_only_hashes_are_taken(self, hash: str) -> None:
        with pytest.raises(InvalidInput, match="hash") as refused:
            cite.commit(hash)
        assert refused.value.remedy == "a commit citation has hash, repo, message, diff_summary"


class TestLogs:
    def test_an_unknown_entry_breaks_it(self) -> None:
        note = "log entry run-8 is not recorded here; a log of another system is cited with its excerpt"
        assert cite.log("run-8").check(LOOKUP) == CitationCheck(state="broken", note=note)

    def test_times_are_kept_in_utc(self) -> None:
        cited = cite.log("run-7", timestamp=NOON.astimezone(timezone(timedelta(hours=7))))
        assert isinstance(cited, LogCitation)
        assert cited.timestamp == NOON
        assert cited.timestamp.tzinfo is UTC


class TestUsers:
    @pytest.mark.parametrize("comment", ["", "  \n"])
    def test_without_a_comment_it_is_broken(self, comment: str) -> None:
        assert cite.user("alice", comment).check(LOOKUP).state == "broken"

    @pytest.mark.parametrize("user_id", ["", "a" * 256, "a\x00b", "a\nb"])
    def test_odd_users_are_refused(self, user_id: str) -> None:
        with pytest.raises(InvalidInput, match="user_id"):
            cite.user(user_id, "yes")


class TestFiles:
    @pytest.mark.parametrize("lines", [None, 2, (1, 3), (3, 3), [1, 2]])
    def test_lines_can_be_none_one_or_a_range(self, lines: Any) -> None:
        assert cite.file("a.py", lines=lines).sealed(LOOKUP).check(LOOKUP).state == "holds"

    def test_a_path_can_be_a_path(self) -> None:
        assert cite.file(Path("src") / "a.py").source() == "file:src/a.py"

    def test_sealing_records_the_hash_and_both_ends(self) -> None:
        assert FileCitation(path="a.py", first_line=2).sealed(LOOKUP) == FileCitation(
            path="a.py", first_line=2, last_line=3, line_hash=line_hash(["two", "three"])
        )

    def test_a_hash_recorded_elsewhere_is_kept(self) -> None:
        cited = cite.file("b.py", lines=2, line_hash=line_hash(["two"]))
        assert cited.sealed(LOOKUP) == cited
        assert cited.check(LOOKUP).state == "broken"

    @pytest.mark.parametrize("lines", [(1, 4), (4, 4), (9, 12)])
    def test_lines_it_does_not_have_cannot_be_cited(self, lines: tuple[int, int]) -> None:
        with pytest.raises(InvalidInput, match="has 3 lines") as refused:
            cite.file("a.py", lines=lines).sealed(LOOKUP)
        assert refused.value.remedy == "cite lines that exist"

    def test_lines_of_an_empty_file_cannot_be_cited(self) -> None:
        with pytest.raises(InvalidInput, match="has 0 lines"):
            cite.file("a.py", lines=1).sealed(SmallLookup(lines=[]))

    def test_a_missing_file_cannot_be_cited(self) -> None:
        with pytest.raises(InvalidInput, match="cannot read the cited file") as refused:
            cite.file("b.py").sealed(LOOKUP)
        assert "line_hash" in refused.value.remedy

    @pytest.mark.parametrize("lines", [0, -1, (0, 3), (3, 2), (1, 2, 3), (1,), "12", "x", 1.5, {1, 2}])
    def test_odd_lines_are_refused(self, lines: Any) -> None:
        with pytest.raises(InvalidInput) as refused:
            cite.file("a.py", lines=lines)
        assert refused.value.remedy

    @pytest.mark.parametrize(("first", "last"), [(4, 9), (9, None), (4, 4)])
    def test_lines_that_do_not_exist_prove_nothing(self, first: int, last: int | None) -> None:
        """The hash of no lines at all is easy to give: it must not hold for lines after the end."""
        cited = FileCitation(path="a.py", first_line=first, last_line=last, line_hash=line_hash([]))
        assert cited.check(LOOKUP).state == "broken"

    def test_a_citation_that_was_never_sealed_proves_nothing(self) -> None:
        assert cite.file("a.py").check(LOOKUP).state == "unreachable"

    def test_the_hash_takes_any_text(self) -> None:
        assert line_hash(["a\udc80", "\x00"]).startswith("l1:")
        assert line_hash(["a \t", "b"]) == line_hash(["a", "b"])
        assert line_hash([" a"]) != line_hash(["a"])
        assert line_hash(["a", "b"]) != line_hash(["b", "a"])


class TestPages:
    @pytest.mark.parametrize(("at", "hash"), [(None, None), (NOON, None), (None, "p1:00")])
    def test_without_a_crawl_nothing_is_proved(self, at: datetime | None, hash: str | None) -> None:
        cited = cite.url("https://example.org/", crawled_at=at, content_hash=hash)
        assert cited.check(LOOKUP).state == "unreachable"

    @pytest.mark.parametrize(("page", "state"), [(None, "holds"), ("p1:00", "holds"), ("p1:11", "broken")])
    def test_what_is_served_now_is_compared(self, page: str | None, state: str) -> None:
        cited = cite.url("https://example.org/", crawled_at=NOON, content_hash="p1:00")
        assert cited.check(SmallLookup(page=page)).state == state

    def test_a_page_out_of_reach_proves_nothing(self) -> None:
        cited = cite.url("https://example.org/", crawled_at=NOON, content_hash="p1:00")
        assert cited.check(CUT_OFF).state == "unreachable"

    @pytest.mark.parametrize("url", ["", "example.org", "ftp://example.org/", "javascript:alert(1)", "https://a b"])
    def test_only_web_addresses_are_taken(self, url: str) -> None:
        with pytest.raises(InvalidInput, match="url"):
            cite.url(url)


class TestQueries:
    def test_sealing_takes_everything_from_the_run(self) -> None:
        given = QueryCitation(run="run-9", sql="select 1", values=[["forged"]])
        assert given.sealed(LOOKUP) == RUN

    @pytest.mark.parametrize("given", [cite.query("run-8"), cite.query("run-9", result_hash="r2")])
    def test_an_unknown_run_or_another_result_is_refused(self, given: AnyCitation) -> None:
        with pytest.raises(InvalidInput) as refused:
            given.sealed(LOOKUP)
        assert refused.value.remedy

    def test_a_run_that_read_nothing_cannot_be_cited(self) -> None:
        lookup = SmallLookup()
        lookup.query_run = lambda run: RUN.model_copy(update={"sources": {}})  # type: ignore[method-assign]
        with pytest.raises(InvalidInput, match="cannot be cited"):
            cite.query("run-9").sealed(lookup)

    @pytest.mark.parametrize(
        ("update", "state", "note"),
        [
            ({}, "holds", "the query gives the same result"),
            ({"sources": {"s1": CitedData(name="sales", revision=2, hash="o1:2")}}, "holds", "version 2 of sales"),
            ({"result_hash": "r2", "values": [[1300]]}, "broken", "the answer changed: was 1,234, is 1,300"),
            (
                {"result_hash": "r2", "values": [[1234], [8]], "row_count": 2},
                "broken",
                "is 8, 1 row before, 2 rows now",
            ),
            ({"result_hash": "r2", "values": [], "row_count": 0}, "broken", "was 1,234, 1 row before, 0 rows now"),
            ({"result_hash": "r2"}, "broken", "in rows after the first"),
            ({"result_hash": None, "row_count": None}, "broken", "1 row before, over a million rows now"),
        ],
    )
    def test_the_query_is_run_again(self, update: dict[str, Any], state: str, note: str) -> None:
        found = RUN.check(SmallLookup(data=RUN.model_copy(update=update)))
        assert found.state == state
        assert note in found.note

    def test_what_cannot_be_run_proves_nothing_and_what_is_gone_breaks_it(self) -> None:
        assert RUN.check(CUT_OFF).state == "unreachable"
        assert RUN.check(SmallLookup()) == CitationCheck(
            state="broken", note="the query can no longer be run: the source 'sales' was removed"
        )

    def test_its_source_names_all_it_read(self) -> None:
        two = {**RUN.sources, "s0": CitedData(name="customers", hash="o1:9")}
        assert RUN.model_copy(update={"sources": two}).source() == "query:s0,s1"


class TestReading:
    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"type": "rumour"},
            {"type": None},
            {"type": ["file"]},
            {"path": "a.py"},
            {"type": "commit"},
            {"type": "log", "log_id": 7},
            {"type": "log", "log_id": "a\x00b"},
            {"type": "user", "comment": "yes"},
            {"type": "file", "path": "a.py", "first_line": "x"},
            {"type": "file", "path": "a.py", "first_line": 3, "last_line": 2},
            {"type": "url", "url": "https://example.org/", "crawled_at": "yesterday"},
            "a.py",
            None,
            7,
            [],
        ],
    )
    def test_what_is_no_citation_is_refused_with_a_remedy(self, given: Any) -> None:
        with pytest.raises(InvalidInput) as refused:
            read_citation(given)
        assert refused.value.remedy

    def test_a_citation_without_a_type_is_told_the_types(self) -> None:
        with pytest.raises(InvalidInput) as refused:
            read_citation({"path": "a.py"})
        assert refused.value.remedy == 'give "type": commit, log, user, file, url or query'

    def test_the_error_does_not_repeat_what_was_given(self) -> None:
        with pytest.raises(InvalidInput) as refused:
            read_citation({"type": "commit", "hash": "hunter2", "repo": "app"})
        assert "hunter2" not in str(refused.value)

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ({"type": "commit", "hash": HASH, "repo": "app"}, CommitCitation(hash=HASH, repo="app")),
            ({"type": "log", "log_id": "run-7"}, LogCitation(log_id="run-7")),
            ({"type": "user", "user_id": "alice"}, UserCitation(user_id="alice")),
            ({"type": "file", "path": "a.py"}, FileCitation(path="a.py")),
            ({"type": "url", "url": "https://example.org/"}, UrlCitation(url="https://example.org/")),
            ({"type": "query", "run": "run-9"}, QueryCitation(run="run-9")),
        ],
    )
    def test_json_and_makers_give_the_same(self, given: dict[str, Any], expected: AnyCitation) -> None:
        assert read_citation(given) == expected
        assert read_citation(expected) is expected
        arguments = {name: value for name, value in given.items() if name != "type"}
        assert getattr(cite, given["type"])(**arguments) == expected


class TestOneLine:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("user:alice:said so: twice", cite.user("alice", "said so: twice")),
            ("user:alice", cite.user("alice")),
            ("file:notes.md:3-9", cite.file("notes.md", lines=(3, 9))),
            ("file:notes.md:3", cite.file("notes.md", lines=3)),
            ("file:C:notes.md", cite.file("C:notes.md")),
            ("file:notes.md:²", cite.file("notes.md:²")),
            ("commit:1a2b3c4@path/to@repo", cite.commit("1a2b3c4", repo="path/to@repo")),
            ("commit:1a2b3c4", cite.commit("1a2b3c4")),
            ("log:42", cite.log("42")),
            ("url:https://example.org/a", cite.url("https://example.org/a")),
            ("query:run-9", cite.query("run-9")),
        ],
    )
    def test_a_citation_can_be_written_on_one_line(self, text: str, expected: AnyCitation) -> None:
        assert cite.parse(text) == expected

    @pytest.mark.parametrize("text", ["", "alice", "user:", "rumour:x", ":x", "file:a:9-3", "file:a:0", "commit:x@y"])
    def test_what_is_no_citation_is_refused_with_a_remedy(self, text: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            cite.parse(text)
        assert refused.value.remedy


# As document C and programs in JavaScript write them, and what is stored of each.
IN_CAMEL_CASE: list[tuple[dict[str, Any], AnyCitation]] = [
    (
        {"type": "commit", "hash": HASH, "repo": "app", "message": "Fix the parser", "diffSummary": "+1 -1"},
        cite.commit(HASH, repo="app", message="Fix the parser", diff_summary="+1 -1"),
    ),
    (
        {"type": "log", "logId": "run-7", "timestamp": "2026-03-04T12:00:00.000Z", "context": "npm test"},
        cite.log("run-7", NOON, "npm test"),
    ),
    ({"type": "user", "userId": "ann", "comment": "맞아요"}, cite.user("ann", "맞아요")),
    (
        {"type": "file", "path": "a.py", "lineHash": line_hash(["one", "two", "three"])},
        cite.file("a.py", line_hash=line_hash(["one", "two", "three"])),
    ),
    ({"type": "file", "path": "a.py", "firstLine": 2, "lastLine": 3}, cite.file("a.py", (2, 3))),
    (
        {"type": "url", "url": "https://authjs.dev/x", "title": "Auth.js", "crawledAt": "2026-03-04T12:00:00Z"},
        cite.url("https://authjs.dev/x", "Auth.js", NOON),
    ),
]


@pytest.mark.parametrize(("given", "read"), IN_CAMEL_CASE)
def test_camel_case_is_read_and_stored_as_ours(given: dict[str, Any], read: AnyCitation) -> None:
    assert read_citation(given) == read
    kept = read_citation(given).model_dump(mode="json", exclude_none=True)
    assert not any(any(map(str.isupper, name)) for name in kept)
    assert read_citation(kept) == read


def test_a_field_given_in_both_ways_or_misspelt_is_refused_by_our_name() -> None:
    with pytest.raises(InvalidInput, match="not a citation"):
        read_citation({"type": "log", "log_id": "1", "logId": "2"})
    with pytest.raises(InvalidInput, match="log_id") as refused:
        read_citation({"type": "log", "logID": "2"})
    assert "log_id" in refused.value.remedy


def test_a_plain_sha_256_of_a_file_is_checked() -> None:
    for text in ("one\ntwo\nthree", "one\ntwo\nthree\n"):
        plain = hashlib.sha256(text.encode()).hexdigest()
        for given in (plain, plain.upper(), f"sha256:{plain}"):
            assert cite.file("a.py", line_hash=given).check(LOOKUP).state == "holds"
    assert cite.file("a.py", (2, 2), line_hash=hashlib.sha256(b"two").hexdigest()).check(LOOKUP).state == "holds"
    assert cite.file("a.py", line_hash="0" * 64).check(LOOKUP).state == "broken"
    assert cite.file("a.py", line_hash="abc").check(LOOKUP).state == "unreachable"


def test_the_log_of_another_system_is_recorded_with_its_excerpt_and_hash() -> None:
    job = cite.log("ci/4711", NOON, "make test", excerpt="981 passed in 12 s")
    assert isinstance(job, LogCitation)
    sealed = job.sealed(LOOKUP)
    assert sealed.log_hash is not None
    assert sealed.check(LOOKUP) == CitationCheck(state="holds", note="an excerpt of log ci/4711 is recorded")
    changed = sealed.model_copy(update={"excerpt": "982 passed in 12 s"})
    assert changed.check(LOOKUP).state == "broken"
    whole = cite.log("ci/4711", excerpt="981 passed", log_hash="sha256:77")
    assert whole.sealed(LOOKUP) == whole  # the hash of the whole log is kept as it was given
    assert "with its excerpt" in cite.log("ci/4711").check(LOOKUP).note
    for wrong in ({"excerpt": ""}, {"excerpt": "x" * 20_001}, {"log_hash": "sha256:77"}):
        with pytest.raises(InvalidInput):
            read_citation({"type": "log", "log_id": "ci/4711", **wrong})


def test_who_recorded_it_attests_the_log_of_another_system() -> None:
    job = cite.log("ci/4711", excerpt="981 passed").sealed(LOOKUP)
    fields = {"organization_id": "o", "memory_id": "m", "type": "log", "source": job.source()}
    kept = Citation(**fields, evidence=job.model_dump(mode="json"), entered_by="ci-key", entered_through="door")
    assert kept.evidence_kind == "attested_log"
    assert kept.looked_up(LOOKUP)["state"] == "holds"
    assert str(kept.looked_up(LOOKUP)["note"]).endswith("attested by ci-key")
    own = Citation(**fields, evidence=cite.log("run-7").model_dump(mode="json"))
    assert own.evidence_kind == "log"


def test_a_page_that_is_gone_is_not_recorded_as_one() -> None:
    page = cite.url("https://example.org/")
    assert page.sealed(SmallLookup(page=GONE_PAGE)) == page
    assert page.sealed(SmallLookup(page="p1:1")).content_hash == "p1:1"
