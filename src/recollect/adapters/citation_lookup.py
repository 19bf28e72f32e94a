"""Looks up what is cited: in files and git repositories of this machine, in the log, in data, on the web.

The promise: looking never changes anything, never runs what a repository or file says, never hangs, and with `roots`
never sees a file outside them, even while somebody swaps folders for links. Files are opened part by part from their
root without following links; git_repositories.py asks git.

A confined lookup is for requests over the network: without roots it has no file and no repository at all. What is spelt
outside the roots is not even looked for, so that neither the answer nor the time it takes tells whether it is there.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from recollect.adapters import public_fetch as web
from recollect.adapters.git_repositories import Repository, no_repository
from recollect.adapters.safe_open import READING, open_beneath, read_regular
from recollect.domain.provenance import GONE_PAGE, QueryCitation, page_hash
from recollect.errors import NotFound, RecollectError

FILE_LIMIT_BYTES = 50_000_000
STRANGERS_LIMIT_BYTES = 5_000_000
FILE_LIMIT_LINES = 2_000_000
# What looks like files there is the state of this machine and of this very process: nobody's to cite over the network.
_NO_FILES = tuple(map(Path, ("/proc", "/sys", "/dev")))


class LocalCitationLookup:
    """Implements `recollect.domain.provenance.CitationLookup`.

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
        confined: bool = False,
        keyed: Callable[[str], str] = lambda hash: hash,
        account_of: Callable[[str], Literal["user", "key"] | None] = lambda id: None,
        has_users: Callable[[], bool] = lambda: False,
        query_run: Callable[[str], QueryCitation | None] = lambda run: None,
        query_result: Callable[[QueryCitation], QueryCitation] | None = None,
    ) -> None:
        self.is_confined = confined
        given = (roots or ()) if confined else roots
        self._root = (root or Path.cwd()).resolve()
        self._roots = None if given is None else tuple(one.resolve() for one in given)
        self._spelt = [*(self._roots or ()), *(Path(os.path.abspath(one)) for one in given or ())]
        self._repositories = dict(repositories or {})
        self._log_exists = log_exists
        self.fetches = fetch
        self._workspace_file = workspace_file
        self._keyed = keyed
        self._account_of = account_of
        self._has_users = has_users
        self._query_run = query_run
        self._query_result = query_result
        self._last_read: tuple[str, list[str] | None] | None = None

    def names(self, path: str) -> bool:
        if self._roots is None:
            return True
        try:
            spelt = Path(os.path.normpath(self._root / path))
        except ValueError:
            return False
        if self.is_confined and any(spelt.is_relative_to(place) for place in _NO_FILES):
            return False
        return any(spelt.is_relative_to(root) for root in self._spelt)

    def read_lines(self, path: str) -> list[str] | None:
        """A confined lookup lives for one request, which may cite one file ten thousand times: the last one is kept."""
        if not self.is_confined:
            return self._lines_of(path)
        if self._last_read is None or self._last_read[0] != path:
            self._last_read = path, self._lines_of(path)
        return self._last_read[1]

    def _lines_of(self, path: str) -> list[str] | None:
        if self.is_confined and not self.names(path):
            return None
        try:
            real = (self._root / path).resolve()
            root = self._root_of(real)
            if not stat.S_ISREG(real.stat().st_mode):  # before opening: opening a device can already do something
                return None
            data = read_regular(_open(real, root), STRANGERS_LIMIT_BYTES if self.is_confined else FILE_LIMIT_BYTES)
        except (OSError, ValueError, RuntimeError):  # not there, not ours, a NUL in the path, a circle of links
            return None
        return None if data is None else lines_of(data)

    def workspace_lines(self, workspace: str, path: str) -> list[str] | None:
        data = self._workspace_file(workspace, path)
        return None if data is None or len(data) > FILE_LIMIT_BYTES else lines_of(data)

    def commit_message(self, repo: str, commit: str) -> str | None:
        return self._repository(repo).message_of(commit)

    def followed(self, path: str) -> list[str]:
        """Told as the old name was: a relative path by a relative one."""
        if self.is_confined and not self.names(path):
            return []
        try:
            old = Path(os.path.normpath(self._root / path))
            place = next(parent for parent in old.parents if parent.is_dir()).resolve()
            self._root_of(place)
            found = Repository(path, place, self._roots).names_since(old)
        except (LookupError, OSError, ValueError, RuntimeError, StopIteration):  # no repository, not ours, no git
            return []
        return [str(new) if os.path.isabs(path) else os.path.relpath(new, self._root) for new in found]

    def log_exists(self, log_id: str) -> bool:
        return self._log_exists(log_id)

    def account_of(self, id: str) -> Literal["user", "key"] | None:
        return self._account_of(id)

    def has_users(self) -> bool:
        return self._has_users()

    def keyed(self, hash: str) -> str:
        return self._keyed(hash)

    def query_run(self, run: str) -> QueryCitation | None:
        return self._query_run(run)

    def query_result(self, cited: QueryCitation) -> QueryCitation:
        if self._query_result is None:
            raise LookupError("there is no data here")
        return self._query_result(cited)

    def page_hash(self, url: str) -> str | None:
        if not self.fetches:
            return None
        try:
            return page_hash(web.fetch(url))
        except NotFound:
            return GONE_PAGE
        except RecollectError as error:
            raise LookupError(str(error)) from error

    def _root_of(self, real: Path) -> Path | None:
        """The root that holds a path; None when there are no roots to stay in."""
        if self._roots is None:
            return None
        for root in self._roots:
            if real.is_relative_to(root) and not (self.is_confined and any(map(real.is_relative_to, _NO_FILES))):
                return root
        raise PermissionError(f"{real} lies outside of the roots")

    def _repository(self, repo: str) -> Repository:
        mapped = self._repositories.get(repo)
        if mapped is not None:  # the operator's own word for it, wherever its objects lie
            return Repository(repo, self._root / mapped)
        if self.is_confined and not self.names(repo):
            raise LookupError(no_repository(repo))
        try:
            place = (self._root / repo).resolve()
            self._root_of(place)
            is_there = place.is_dir()
        except (OSError, ValueError, RuntimeError):  # outside of the roots is as good as absent
            is_there = False
        if not is_there:
            raise LookupError(no_repository(repo))
        return Repository(repo, place, self._roots)


def _open(real: Path, root: Path | None) -> int:
    if root is None or os.open not in os.supports_dir_fd:
        return os.open(real, READING)
    return open_beneath(root, real.relative_to(root).parts)


def lines_of(data: bytes) -> list[str] | None:
    """Line by line, so that one odd byte does not change how the other lines are read."""
    if data.count(b"\n") + data.count(b"\r") > FILE_LIMIT_LINES:
        return None
    return [_text(line) for line in data.removeprefix(codecs.BOM_UTF8).splitlines()]


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")
