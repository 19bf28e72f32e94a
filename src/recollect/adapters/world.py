"""The world that citations are checked against: files and git repositories of this machine, the log, the web.

The promise: looking never changes anything, never runs what a repository or file says, never hangs, and with `roots`
never sees a file outside them, even while somebody swaps folders for links. Files are opened part by part from their
root without following links; git is only asked for objects (`rev-parse --disambiguate`, `cat-file`), with no
configuration but the repository's own, no prompt, no hook, no pager and no transport, so nothing is fetched either.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from recollect.adapters import fetch as web
from recollect.adapters.beneath import READING, open_beneath, read_regular
from recollect.domain.provenance import page_hash
from recollect.errors import NotFound, RecollectError

FILE_LIMIT_BYTES = 50_000_000
FILE_LIMIT_LINES = 2_000_000
COMMIT_LIMIT_BYTES = 1_000_000
GIT_TIMEOUT_SECONDS = 10
GONE = "p1:gone"  # the hash of a page that the server says is gone: no page has it

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_COSTLY = frozenset({"idna", "punycode"})  # encodings that take quadratic time: a commit can name any


class LocalWorld:
    """Implements `recollect.domain.provenance.World`.

    Relative paths are taken from `root`. With `roots`, files and repositories outside of them do not exist;
    `repositories` names those that may be cited by name or address, wherever they lie.
    """

    def __init__(
        self,
        root: Path | None = None,
        roots: tuple[Path, ...] | None = None,
        repositories: Mapping[str, Path] | None = None,
        log_exists: Callable[[str], bool] = lambda log_id: False,
        fetch: bool = False,
        workspace_file: Callable[[str, str], bytes | None] = lambda workspace, path: None,
    ) -> None:
        self._root = (root or Path.cwd()).resolve()
        self._roots = None if roots is None else tuple(one.resolve() for one in roots)
        self._repositories = dict(repositories or {})
        self._log_exists = log_exists
        self._fetch = fetch
        self._workspace_file = workspace_file

    def read_lines(self, path: str) -> list[str] | None:
        try:
            real = (self._root / path).resolve()
            root = self._root_of(real)
            if not stat.S_ISREG(real.stat().st_mode):  # before opening: opening a device can already do something
                return None
            data = _read(real, root)
        except (OSError, ValueError, RuntimeError):  # not there, not ours, a NUL in the path, a circle of links
            return None
        return None if data is None else _lines(data)

    def workspace_lines(self, workspace: str, path: str) -> list[str] | None:
        data = self._workspace_file(workspace, path)
        return None if data is None or len(data) > FILE_LIMIT_BYTES else _lines(data)

    def commit_message(self, repo: str, commit: str) -> str | None:
        wanted = commit.lower()
        place = self._repository(repo)
        commits = self._commits(repo, place, wanted) if _COMMIT.fullmatch(wanted) else []
        if not commits:
            return None
        if len(commits) > 1:
            raise LookupError(f"several commits of '{repo}' begin with {wanted}: cite more of the hash")
        name, size = commits[0]
        if size > COMMIT_LIMIT_BYTES:
            raise LookupError(f"commit {wanted} of '{repo}' is too large to be read")
        return _message(self._git(repo, place, "cat-file", "commit", name))

    def log_exists(self, log_id: str) -> bool:
        return self._log_exists(log_id)

    def page_hash(self, url: str) -> str | None:
        if not self._fetch:
            return None
        try:
            return page_hash(web.fetch(url))
        except NotFound:
            return GONE
        except RecollectError as error:
            raise LookupError(str(error)) from error

    def _root_of(self, real: Path) -> Path | None:
        """The root that holds a path; None when there are no roots to stay in."""
        if self._roots is None:
            return None
        for root in self._roots:
            if real.is_relative_to(root):
                return root
        raise PermissionError(f"{real} lies outside of the roots")

    def _repository(self, repo: str) -> Path:
        mapped = self._repositories.get(repo)
        if mapped is not None:
            return self._root / mapped
        try:
            place = (self._root / repo).resolve()
            self._root_of(place)
            is_there = place.is_dir()
        except (OSError, ValueError, RuntimeError):  # outside of the roots is as good as absent
            is_there = False
        if not is_there:
            raise LookupError(f"there is no repository '{repo}' on this machine")
        return place

    def _commits(self, repo: str, place: Path, prefix: str) -> list[tuple[str, int]]:
        """Name and size of the commits whose name begins so. Branches and tags of that name do not count."""
        names = self._git(repo, place, "rev-parse", f"--disambiguate={prefix}")
        told = self._git(repo, place, "cat-file", "--batch-check", given=names) if names else b""
        parts = [line.split() for line in told.decode("ascii").splitlines()]
        return [(part[0], int(part[2])) for part in parts if part[1] == "commit"]

    def _git(self, repo: str, place: Path, *arguments: str, given: bytes = b"") -> bytes:
        command = ["git", "-C", str(place), "--no-pager", "--no-replace-objects", *arguments]
        try:
            done = subprocess.run(
                command,
                input=given,
                capture_output=True,
                timeout=GIT_TIMEOUT_SECONDS,
                env=self._environment(),
                check=False,
            )
        except FileNotFoundError:
            raise LookupError("git is not installed here") from None
        except subprocess.TimeoutExpired:
            raise LookupError(f"git took over {GIT_TIMEOUT_SECONDS} seconds to look into '{repo}'") from None
        except OSError as error:
            raise LookupError(f"git cannot be run here: {error.strerror}") from None
        if done.returncode != 0:
            owner = b"dubious ownership" in done.stderr
            why = "it belongs to another user of this machine" if owner else "it is no readable git repository"
            raise LookupError(f"cannot look into '{repo}': {why}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        """Made anew, so that no GIT_DIR or GIT_TRACE of ours reaches git."""
        kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
        ceilings = os.pathsep.join(str(root.parent) for root in self._roots or ())
        return {
            **kept,
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",  # git before 2.44 knows no GIT_NO_LAZY_FETCH; this stops its fetch as well
            "GIT_CEILING_DIRECTORIES": ceilings,
        }


def _read(real: Path, root: Path | None) -> bytes | None:
    return read_regular(_open(real, root), FILE_LIMIT_BYTES)


def _open(real: Path, root: Path | None) -> int:
    if root is None or os.open not in os.supports_dir_fd:
        return os.open(real, READING)
    return open_beneath(root, real.relative_to(root).parts)


def _lines(data: bytes) -> list[str] | None:
    """Line by line, so that one odd byte does not change how the other lines are read."""
    if data.count(b"\n") + data.count(b"\r") > FILE_LIMIT_LINES:
        return None
    return [_text(line) for line in data.removeprefix(codecs.BOM_UTF8).splitlines()]


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _message(commit: bytes) -> str:
    """The message of a raw commit object, in the encoding that its header names."""
    header, _, message = commit.partition(b"\n\n")
    named = re.search(rb"^encoding ([\w.:-]{1,40})$", header, re.MULTILINE)
    try:
        encoding = codecs.lookup(named[1].decode("ascii") if named else "utf-8").name
        return message.decode("utf-8" if encoding in _COSTLY else encoding, "replace")
    except (LookupError, UnicodeError):
        return message.decode("utf-8", "replace")
