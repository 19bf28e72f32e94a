"""Git repositories of this machine, asked for objects and nothing else.

The promise: git never runs what a repository says (hooks, monitors, filters, pagers, helpers), reads no configuration
but the repository's own, prompts nobody, takes no lock and opens no connection, so nothing is fetched either. With
`roots`, a repository whose objects lie outside of them (a `.git` file that points elsewhere) does not exist.
"""

from __future__ import annotations

import codecs
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

COMMIT_LIMIT_BYTES = 1_000_000
GIT_TIMEOUT_SECONDS = 10
MOST_RENAMES = 20
_RENAMES = ("-M30%", "-l1000", "--diff-filter=R", "--name-status", "-z")  # the lines' hash proves what git suspects

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_COSTLY = frozenset({"idna", "punycode"})  # encodings that take quadratic time: a commit can name any
# What a repository's own configuration could make git run or reach, switched off for every command.
_HARMLESS = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "protocol.allow=never",
    "log.showSignature=false",
    "log.follow=false",
)


class Repository:
    """One repository, called `name` by whoever cites it. Raises LookupError when it cannot be looked into."""

    def __init__(self, name: str, place: Path, roots: Sequence[Path] | None = None) -> None:
        self._name = name
        self._place = place
        self._roots = roots
        if roots is not None:
            self._stay_inside(roots)

    def message_of(self, commit: str) -> str | None:
        """The message of a commit; None if there is no such commit."""
        wanted = commit.lower()
        commits = self._commits(wanted) if _COMMIT.fullmatch(wanted) else []
        if not commits:
            return None
        if len(commits) > 1:
            raise LookupError(f"several commits of '{self._name}' begin with {wanted}: cite more of the hash")
        name, size = commits[0]
        if size > COMMIT_LIMIT_BYTES:
            raise LookupError(f"commit {wanted} of '{self._name}' is too large to be read")
        return _message(self._git("cat-file", "commit", name))

    def names_since(self, path: Path) -> list[Path]:
        """The names that a file of this path was given since, one after the other, committed or about to be."""
        top = Path(os.fsdecode(self._git("rev-parse", "--show-toplevel").rstrip(b"\n")))
        real = path.parent.resolve() / path.name
        names = [os.path.relpath(real, top)]
        whole = Repository(self._name, top)
        while len(names) <= MOST_RENAMES:
            new = whole._renamed(names[-1])
            if new is None or new in names:
                break
            names.append(new)
        return [top / name for name in names[1:]]

    def top(self) -> Path:
        """The folder of the checkout."""
        return Path(os.fsdecode(self._git("rev-parse", "--show-toplevel").rstrip(b"\n")))

    def shared_folder(self) -> Path:
        """What all worktrees of one clone have in common."""
        told = os.fsdecode(self._git("rev-parse", "--git-common-dir").rstrip(b"\n"))
        return (self._place / told).resolve()

    def origin(self) -> str:
        """The address of the remote `origin`; empty if there is none."""
        try:
            return self._git("config", "--local", "--get", "remote.origin.url").decode("utf-8", "replace").strip()
        except LookupError:
            return ""

    def commit_of(self, revision: str) -> str | None:
        """The commit that a branch, tag or hash stands for; None if there is none."""
        try:
            told = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except LookupError:
            return None
        return told.decode("ascii").strip() or None

    def common_ancestor(self, one: str, other: str) -> str | None:
        try:
            return self._git("merge-base", one, other).decode("ascii").strip() or None
        except LookupError:
            return None

    def changed_between(self, base: str, head: str) -> list[str]:
        """The files that differ, by their paths from the top; of a renamed one both names."""
        told = self._git("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-commit-id", base, head)
        return [os.fsdecode(path) for path in told.split(b"\0") if path]

    def content_at(self, commit: str, path: str) -> bytes:
        return self._git("cat-file", "blob", f"{commit}:{path}")

    def files_at(self, commit: str) -> list[str]:
        told = self._git("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
        return [os.fsdecode(path) for path in told.split(b"\0") if path]

    def _renamed(self, name: str) -> str | None:
        """What the commit that took a file away calls it, or the index if no commit did yet."""
        gone = self._git("log", "-1", "--format=%H", "--diff-filter=D", "--no-renames", "--", name).strip()
        staged = ("diff-index", *_RENAMES, "--cached", "HEAD")
        committed = ("diff-tree", *_RENAMES, "-r", "--no-commit-id", gone.decode("ascii")) if gone else ()
        for compared in filter(None, (committed, staged)):
            told = self._git(*compared).split(b"\0")
            pairs = dict(zip(told[1::3], told[2::3], strict=False))
            if os.fsencode(name) in pairs:
                return os.fsdecode(pairs[os.fsencode(name)])
        return None

    def _commits(self, prefix: str) -> list[tuple[str, int]]:
        """Name and size of the commits whose name begins so. Branches and tags of that name do not count."""
        names = self._git("rev-parse", f"--disambiguate={prefix}")
        told = self._git("cat-file", "--batch-check", given=names) if names else b""
        parts = [line.split() for line in told.decode("ascii").splitlines()]
        return [(part[0], int(part[2])) for part in parts if part[1] == "commit"]

    def _stay_inside(self, roots: Sequence[Path]) -> None:
        """Git finds its objects where a `.git` file or a worktree says, which may be anywhere."""
        told = self._git("rev-parse", "--absolute-git-dir", "--git-common-dir").split(b"\n")
        places = [(self._place / os.fsdecode(line)).resolve() for line in told if line]
        if not all(any(place.is_relative_to(root) for root in roots) for place in places):
            raise LookupError(no_repository(self._name))

    def _git(self, *arguments: str, given: bytes = b"") -> bytes:
        settings = [part for one in _HARMLESS for part in ("-c", one)]
        command = ["git", "-C", str(self._place), "--no-pager", "--no-replace-objects", *settings, *arguments]
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
            raise LookupError(f"git took over {GIT_TIMEOUT_SECONDS} seconds to read '{self._name}'") from None
        except OSError as error:
            raise LookupError(f"git cannot be run here: {error.strerror}") from None
        if done.returncode != 0:
            owner = b"dubious ownership" in done.stderr
            why = "it belongs to another user of this machine" if owner else "it is not a readable git repository"
            raise LookupError(f"cannot read '{self._name}': {why}")
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
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",  # git before 2.44 knows no GIT_NO_LAZY_FETCH; this stops its fetch as well
            "GIT_CEILING_DIRECTORIES": ceilings,
        }


def no_repository(name: str) -> str:
    return f"there is no repository '{name}' on this machine"


def _message(commit: bytes) -> str:
    """The message of a raw commit object, in the encoding that its header names."""
    header, _, message = commit.partition(b"\n\n")
    named = re.search(rb"^encoding ([\w.:-]{1,40})$", header, re.MULTILINE)
    try:
        encoding = codecs.lookup(named[1].decode("ascii") if named else "utf-8").name
        return message.decode("utf-8" if encoding in _COSTLY else encoding, "replace")
    except (LookupError, UnicodeError):
        return message.decode("utf-8", "replace")
