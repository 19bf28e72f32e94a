"""Citations against real files and real git repositories."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recollect.adapters import citation_lookup, git_repositories, public_fetch
from recollect.adapters.citation_lookup import LocalCitationLookup
from recollect.domain import provenance
from recollect.domain.provenance import CitationCheck, FileCitation, cite, line_hash, page_hash
from recollect.errors import InvalidInput, NotFound, Unavailable

TEN_LINES = "".join(f"line {number}\n" for number in range(1, 11))
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def sealed(here: LocalCitationLookup, first_line: int | None = None, last_line: int | None = None) -> FileCitation:
    return FileCitation(path="notes.txt", first_line=first_line, last_line=last_line).sealed(here)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.txt"
    path.write_text(TEN_LINES)
    return path


@pytest.fixture
def here(tmp_path: Path) -> LocalCitationLookup:
    return LocalCitationLookup(root=tmp_path)


class TestFiles:
    def test_unchanged_lines_hold(self, here: LocalCitationLookup, notes: Path) -> None:
        assert sealed(here, first_line=3, last_line=5).check(here).state == "holds"

    def test_changed_lines_are_noticed(self, here: LocalCitationLookup, notes: Path) -> None:
        cited = sealed(here, first_line=3, last_line=5)
        notes.write_text(TEN_LINES.replace("line 4", "line four"))
        assert cited.check(here) == CitationCheck(state="broken", note="the cited lines of notes.txt have changed")

    def test_a_change_elsewhere_in_the_file_does_not_matter(self, here: LocalCitationLookup, notes: Path) -> None:
        cited = sealed(here, first_line=3, last_line=5)
        notes.write_text(TEN_LINES.replace("line 9", "line nine"))
        assert cited.check(here).state == "holds"

    def test_moved_lines_hold_and_the_note_says_where_they_are(self, here: LocalCitationLookup, notes: Path) -> None:
        cited = sealed(here, first_line=3, last_line=5)
        notes.write_text("new\nnewer\n" + TEN_LINES)
        assert cited.check(here) == CitationCheck(
            state="holds", note="the cited lines of notes.txt now begin at line 5"
        )

    def test_of_several_places_the_nearest_is_named(self, here: LocalCitationLookup, notes: Path) -> None:
        notes.write_text("x\n" * 5 + "same\n")
        cited = sealed(here, first_line=6, last_line=6)
        notes.write_text("same\n" + "x\n" * 5 + "same\n")
        assert cited.check(here).note.endswith("line 7")

    def test_lines_cited_to_the_end_hold_when_the_file_grows(self, here: LocalCitationLookup, notes: Path) -> None:
        cited = sealed(here, first_line=8)
        notes.write_text("first\n" + TEN_LINES + "line 11\n")
        assert cited.check(here) == CitationCheck(
            state="holds", note="the cited lines of notes.txt now begin at line 9"
        )

    def test_lines_cited_from_the_start_are_found_when_they_move(self, here: LocalCitationLookup, notes: Path) -> None:
        cited = sealed(here, last_line=2)
        notes.write_text("first\n" + TEN_LINES)
        assert cited.check(here).state == "holds"

    def test_a_file_cut_short_is_noticed(self, here: LocalCitationLookup, notes: Path) -> None:
        cited = sealed(here, first_line=3, last_line=9)
        notes.write_text("line 1\n")
        assert cited.check(here).state == "broken"

    def test_white_space_at_line_ends_does_not_matter(self, here: LocalCitationLookup, notes: Path) -> None:
        cited = sealed(here)
        notes.write_text(TEN_LINES.replace("\n", " \t\n"))
        assert cited.check(here).state == "holds"

    @pytest.mark.parametrize("end", ["\r\n", "\r"])
    def test_other_line_ends_do_not_matter(self, here: LocalCitationLookup, notes: Path, end: str) -> None:
        cited = sealed(here, first_line=2, last_line=9)
        notes.write_bytes(TEN_LINES.replace("\n", end).encode())
        assert cited.check(here).state == "holds"

    def test_only_line_ends_end_lines(self, here: LocalCitationLookup, notes: Path) -> None:
        notes.write_text("one\x0b\x0c\x1c\x85\u2028still one\ntwo")
        assert here.read_lines("notes.txt") == ["one\x0b\x0c\x1c\x85\u2028still one", "two"]

    def test_a_byte_order_mark_is_not_text(self, here: LocalCitationLookup, notes: Path) -> None:
        notes.write_bytes(b"\xef\xbb\xbfone\n")
        assert here.read_lines("notes.txt") == ["one"]

    def test_a_whole_file_is_cited_without_lines(self, here: LocalCitationLookup, notes: Path) -> None:
        cited = sealed(here)
        assert cited.check(here).state == "holds"
        notes.write_text(TEN_LINES + "one more\n")
        assert cited.check(here).state == "broken"

    def test_an_empty_file_can_be_cited(self, here: LocalCitationLookup, notes: Path) -> None:
        notes.write_text("")
        cited = sealed(here)
        assert cited.check(here).state == "holds"
        notes.write_text("something\n")
        assert cited.check(here).state == "broken"

    def test_a_deleted_file_is_noticed(self, here: LocalCitationLookup, notes: Path) -> None:
        cited = sealed(here)
        notes.unlink()
        assert cited.check(here) == CitationCheck(state="broken", note="notes.txt cannot be read any more")

    def test_undecodable_bytes_are_hashed_all_the_same(self, here: LocalCitationLookup, notes: Path) -> None:
        notes.write_bytes(b"caf\xc3\xa9\n\xff\xfe\x00\x80\nlast\n")
        cited = sealed(here)
        assert cited.check(here).state == "holds"
        notes.write_bytes(b"caf\xc3\xa9\n\xff\xfe\x00\x81\nlast\n")
        assert cited.check(here).state == "broken"

    def test_an_odd_byte_does_not_change_the_other_lines(self, here: LocalCitationLookup, notes: Path) -> None:
        notes.write_bytes("café\nplain\n".encode())
        cited = sealed(here, first_line=1, last_line=1)
        notes.write_bytes("café\n".encode() + b"\xff\n")
        assert cited.check(here).state == "holds"

    def test_a_fifo_is_no_file_and_does_not_hang(self, here: LocalCitationLookup, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        read: list[Any] = []
        reading = threading.Thread(target=lambda: read.append(here.read_lines("pipe")), daemon=True)
        reading.start()
        reading.join(60)  # it would wait for ever for somebody to write
        assert read == [None]

    @pytest.mark.parametrize("path", ["", ".", "/dev/zero", "/dev/null", "no\x00name", "n" * 5000, "notes.txt/inner"])
    def test_what_is_no_regular_file_is_not_read(self, here: LocalCitationLookup, notes: Path, path: str) -> None:
        assert here.read_lines(path) is None

    def test_a_circle_of_links_is_not_read(self, here: LocalCitationLookup, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        assert here.read_lines("a") is None

    @pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
    def test_files_that_lie_about_their_size_are_read(self, here: LocalCitationLookup) -> None:
        assert here.read_lines("/proc/self/status")

    def test_large_files_are_not_read(
        self, here: LocalCitationLookup, notes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(citation_lookup, "FILE_LIMIT_BYTES", len(TEN_LINES) - 1)
        assert here.read_lines("notes.txt") is None
        monkeypatch.setattr(citation_lookup, "FILE_LIMIT_BYTES", len(TEN_LINES))
        assert here.read_lines("notes.txt") is not None
        monkeypatch.setattr(citation_lookup, "FILE_LIMIT_LINES", 9)
        assert here.read_lines("notes.txt") is None

    def test_looking_for_moved_lines_of_a_large_file_ends(
        self, here: LocalCitationLookup, notes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        notes.write_text("".join(f"{number}\n" for number in range(60_000)))
        cited = sealed(here, first_line=1, last_line=30_000)
        notes.write_text("".join(f"{number}\n" for number in range(1, 60_001)))
        hashed: list[int] = []
        real = provenance.line_hash
        monkeypatch.setattr(provenance, "line_hash", lambda lines: hashed.append(sum(map(len, lines))) or real(lines))
        monkeypatch.setattr(provenance, "_SEARCH_BUDGET", 10_000_000)
        assert cited.check(here).state == "broken"
        assert sum(hashed) <= 10_000_000 + hashed[0]
        assert len(hashed) > 10  # it did look


class TestRoots:
    @pytest.fixture
    def inside(self, tmp_path: Path) -> Path:
        (tmp_path / "inside").mkdir()
        (tmp_path / "inside-too").mkdir()
        (tmp_path / "secret.txt").write_text("secret\n")
        (tmp_path / "inside-too" / "secret.txt").write_text("secret\n")
        (tmp_path / "inside" / "open.txt").write_text("open\n")
        return tmp_path / "inside"

    @pytest.fixture
    def walled(self, inside: Path) -> LocalCitationLookup:
        return LocalCitationLookup(root=inside, roots=(inside,))

    def test_files_inside_are_read(self, walled: LocalCitationLookup, inside: Path) -> None:
        (inside / "deep" / "er").mkdir(parents=True)
        (inside / "deep" / "er" / "x.txt").write_text("x\n")
        assert walled.read_lines("open.txt") == ["open"]
        assert walled.read_lines(str(inside / "deep/../open.txt")) == ["open"]
        assert walled.read_lines("deep/er/x.txt") == ["x"]

    @pytest.mark.parametrize(
        "path", ["../secret.txt", "../inside-too/secret.txt", "/etc/hostname", "x/../../secret.txt"]
    )
    def test_paths_that_lead_outside_are_refused(self, walled: LocalCitationLookup, path: str) -> None:
        assert walled.read_lines(path) is None

    def test_links_that_lead_outside_are_refused(self, walled: LocalCitationLookup, inside: Path) -> None:
        (inside / "file").symlink_to(inside.parent / "secret.txt")
        (inside / "folder").symlink_to(inside.parent)
        assert walled.read_lines("file") is None
        assert walled.read_lines("folder/secret.txt") is None

    def test_links_that_stay_inside_are_followed(self, walled: LocalCitationLookup, inside: Path) -> None:
        (inside / "link").symlink_to("open.txt")
        assert walled.read_lines("link") == ["open"]

    def test_a_folder_swapped_for_a_link_while_looking_is_refused(
        self, walled: LocalCitationLookup, inside: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (inside / "folder").symlink_to(inside.parent / "inside-too")
        monkeypatch.setattr(Path, "resolve", lambda path: path)  # as if the link had come just after
        assert walled.read_lines("open.txt") == ["open"]
        assert walled.read_lines("folder/secret.txt") is None

    def test_a_file_outside_cannot_be_cited(self, walled: LocalCitationLookup) -> None:
        with pytest.raises(InvalidInput, match="cannot read the cited file"):
            FileCitation(path="../secret.txt").sealed(walled)

    def test_a_hash_made_elsewhere_does_not_open_a_file_outside(self, walled: LocalCitationLookup) -> None:
        cited = FileCitation(path="../secret.txt", line_hash=line_hash(["secret"]))
        assert cited.check(walled).state == "broken"


def git(place: Path, *arguments: str, **environment: str) -> str:
    made = subprocess.run(
        ["git", "-C", str(place), "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments],
        env={"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, **environment},
        check=True,
        capture_output=True,
    )
    return made.stdout.decode().strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    place = tmp_path / "repo"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    git(place, "commit", "-q", "--allow-empty", "-m", "Retry on 503\n\nThe gateway drops one in a hundred.")
    return place


@needs_git
class TestCommits:
    def test_a_commit_holds(self, here: LocalCitationLookup, repo: Path) -> None:
        commit = git(repo, "rev-parse", "HEAD")
        assert cite.commit(commit, repo=str(repo), message="Retry on 503").check(here).state == "holds"
        assert cite.commit(commit[:7].upper(), repo="repo").check(here).state == "holds"

    def test_the_whole_message_is_read(self, here: LocalCitationLookup, repo: Path) -> None:
        message = here.commit_message("repo", git(repo, "rev-parse", "HEAD"))
        assert message == "Retry on 503\n\nThe gateway drops one in a hundred.\n"

    def test_a_missing_commit_is_noticed(self, here: LocalCitationLookup, repo: Path) -> None:
        assert cite.commit("1234567", repo="repo").check(here).state == "broken"
        assert cite.commit("1" * 40, repo="repo").check(here).state == "broken"
        assert cite.commit("1" * 64, repo="repo").check(here).state == "broken"

    def test_another_message_is_noticed(self, here: LocalCitationLookup, repo: Path) -> None:
        found = cite.commit(git(repo, "rev-parse", "HEAD"), repo="repo", message="Never retry").check(here)
        assert found.state == "broken"
        assert "a different message" in found.note

    def test_a_commit_that_was_rewritten_away_is_noticed(self, here: LocalCitationLookup, repo: Path) -> None:
        cited = cite.commit(git(repo, "rev-parse", "HEAD"), repo="repo")
        git(repo, "commit", "-q", "--amend", "--allow-empty", "-m", "Another")
        git(repo, "reflog", "expire", "--expire=now", "--all")
        git(repo, "gc", "-q", "--prune=now")
        assert cited.check(here).state == "broken"

    def test_other_objects_are_no_commits(self, here: LocalCitationLookup, repo: Path) -> None:
        assert here.commit_message("repo", git(repo, "rev-parse", "HEAD^{tree}")) is None

    def test_a_branch_that_looks_like_a_hash_is_no_commit(self, here: LocalCitationLookup, repo: Path) -> None:
        git(repo, "update-ref", "refs/heads/abcdef1", "HEAD")
        assert here.commit_message("repo", "abcdef1") is None

    @pytest.mark.parametrize("commit", ["HEAD", "main", "--all", "-p", "abcdef", "g" * 40, "", "1234567\n", "@{-1}"])
    def test_only_hashes_are_looked_up(self, here: LocalCitationLookup, repo: Path, commit: str) -> None:
        assert here.commit_message("repo", commit) is None

    def test_a_replaced_commit_shows_what_was_committed(self, here: LocalCitationLookup, repo: Path) -> None:
        first = git(repo, "rev-parse", "HEAD")
        git(repo, "commit", "-q", "--allow-empty", "-m", "Forged")
        git(repo, "replace", first, git(repo, "rev-parse", "HEAD"))
        assert (here.commit_message("repo", first) or "").startswith("Retry on 503")

    def test_a_message_in_another_encoding_is_read(self, here: LocalCitationLookup, repo: Path, tmp_path: Path) -> None:
        (tmp_path / "message").write_bytes("Grüße".encode("latin-1"))
        git(repo, "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "--allow-empty", "-F", "../message")
        assert here.commit_message("repo", git(repo, "rev-parse", "HEAD")) == "Grüße\n"

    @pytest.mark.parametrize("place", ["missing", "https://example.org/x.git", "git@example.org:x.git", "no\x00name"])
    def test_an_absent_repository_is_unreachable(self, here: LocalCitationLookup, place: str) -> None:
        with pytest.raises(LookupError, match="there is no repository"):
            here.commit_message(place, "1234567")

    def test_unreachable_is_not_broken(self, here: LocalCitationLookup) -> None:
        assert cite.commit("1234567", repo="https://example.org/x.git").check(here).state == "unreachable"

    def test_a_folder_that_is_no_repository_is_unreachable(self, here: LocalCitationLookup, tmp_path: Path) -> None:
        (tmp_path / "plain").mkdir()
        with pytest.raises(LookupError, match="not a readable git repository"):
            here.commit_message("plain", "1234567")

    def test_an_outside_address_can_be_mapped_to_a_clone(self, repo: Path, tmp_path: Path) -> None:
        address = "https://example.org/x.git"
        mapped = LocalCitationLookup(root=tmp_path, roots=(tmp_path / "elsewhere",), repositories={address: repo})
        assert cite.commit(git(repo, "rev-parse", "HEAD"), repo=address).check(mapped).state == "holds"

    def test_repositories_outside_the_roots_are_absent(self, repo: Path, tmp_path: Path) -> None:
        (repo / "deep").mkdir()
        walled = LocalCitationLookup(root=repo / "deep", roots=(repo / "deep",))
        for place in ("..", str(repo), "."):
            with pytest.raises(LookupError):
                walled.commit_message(place, git(repo, "rev-parse", "HEAD"))

    def test_without_git_nothing_is_proved(
        self, here: LocalCitationLookup, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert cite.commit("1234567", repo="repo").check(here) == CitationCheck(
            state="unreachable", note="git is not installed here"
        )

    def test_git_that_hangs_is_given_up(
        self, here: LocalCitationLookup, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slow = tmp_path / "bin" / "git"
        slow.parent.mkdir()
        slow.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
        slow.chmod(0o755)
        monkeypatch.setenv("PATH", str(slow.parent))
        monkeypatch.setattr(git_repositories, "GIT_TIMEOUT_SECONDS", 0.2)
        with pytest.raises(LookupError, match="took over"):
            here.commit_message("repo", "1234567")

    def test_the_environment_of_this_process_does_not_reach_git(
        self, here: LocalCitationLookup, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
        monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
        assert here.commit_message("repo", git(repo, "rev-parse", "HEAD")) is not None
        assert not (tmp_path / "trace").exists()

    def test_what_a_repository_says_is_not_run(self, here: LocalCitationLookup, repo: Path, tmp_path: Path) -> None:
        """A missing object of a partial clone makes git fetch it, here with a command of the repository's choice."""
        trap = f"touch {tmp_path / 'sprung'}"
        for name, value in {
            "core.repositoryFormatVersion": "1",
            "extensions.partialClone": "origin",
            "remote.origin.promisor": "true",
            "remote.origin.url": f"ext::{trap}",
            "protocol.allow": "always",
            "core.fsmonitor": trap,
            "core.pager": trap,
            "gpg.program": trap,
            "log.showSignature": "true",
        }.items():
            git(repo, "config", name, value)
        present = git(repo, "rev-parse", "HEAD", GIT_ALLOW_PROTOCOL="none")
        assert here.commit_message("repo", present) is not None
        assert cite.commit("1" * 40, repo="repo").check(here).state in ("broken", "unreachable")
        assert not (tmp_path / "sprung").exists()


class TestLogAndPages:
    def test_the_given_callable_knows_the_log(self) -> None:
        here = LocalCitationLookup(log_exists=lambda log_id: log_id == "run-7")
        assert here.log_exists("run-7")
        assert not here.log_exists("run-8")
        assert not LocalCitationLookup().log_exists("run-7")

    def test_nothing_is_fetched_unless_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def never(*arguments: object, **options: object) -> None:
            raise AssertionError("a lookup was made")

        monkeypatch.setattr(socket, "getaddrinfo", never)
        assert LocalCitationLookup().page_hash("https://example.org/") is None

    def test_a_private_page_is_unreachable(self) -> None:
        with pytest.raises(LookupError, match="not at a public address"):
            LocalCitationLookup(fetch=True).page_hash("http://127.0.0.1:9/")

    @pytest.mark.parametrize(
        ("served", "state"),
        [
            (b"as cited", "holds"),
            (b"something else", "broken"),
            (NotFound("gone"), "broken"),
            (Unavailable("down"), "unreachable"),
        ],
    )
    def test_a_page_is_compared_with_its_hash(
        self, monkeypatch: pytest.MonkeyPatch, served: bytes | Exception, state: str
    ) -> None:
        def answer(url: str) -> bytes:
            if isinstance(served, Exception):
                raise served
            return served

        monkeypatch.setattr(public_fetch, "fetch", answer)
        page = cite.url(
            "https://example.org/",
            crawled_at=datetime(2026, 1, 2, tzinfo=UTC),
            content_hash=page_hash(b"as cited"),
        )
        assert page.check(LocalCitationLookup(fetch=True)).state == state

    def test_no_page_has_the_hash_of_a_gone_one(self) -> None:
        assert len(provenance.GONE_PAGE) != len(page_hash(b""))
