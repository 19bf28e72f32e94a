"""The git repository that a folder is in, for programs that run in one: hooks of coding agents, CI.

A repository is known by the address of its remote, so that all clones of it are one project; by its folder where it
has none. Git is asked as for citations: it runs nothing that the repository says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from recollect.adapters.citation_lookup import LocalCitationLookup, lines_of
from recollect.adapters.git_repositories import Repository
from recollect.domain.provenance import CitationLookup

LONGEST_NAME = 200
_SCP = re.compile(r"^(?:[^@/]+@)?([^:/]+):(?!//)(.+)$")
_ADDRESS = re.compile(r"^[a-z][a-z0-9+.-]*://(?:[^@/]*@)?(.+)$", re.IGNORECASE)


@dataclass(frozen=True)
class Checkout:
    """A checkout: its folder, what the project is called, the commit it is at."""

    root: Path
    project: str
    head: str | None
    repository: Repository | None

    def changed_since(self, commit: str) -> Sequence[str] | None:
        """The files that differ from a commit; None if that cannot be told."""
        if self.repository is None or self.head is None:
            return None
        try:
            return self.repository.changed_between(commit, self.head)
        except LookupError:
            return None

    def lines_at(self, commit: str, path: str) -> list[str] | None:
        """A file as it was in a commit."""
        try:
            return lines_of(self.repository.content_at(commit, path)) if self.repository is not None else None
        except LookupError:
            return None


def checkout_of(folder: Path) -> Checkout:
    """Where there is no repository, the folder itself is the project."""
    folder = folder.expanduser().resolve()
    try:
        repository = Repository(str(folder), folder)
        root = repository.top()
    except (LookupError, OSError):
        return Checkout(folder, project_name(str(folder)), None, None)
    repository = Repository(str(root), root)
    origin = repository.origin()
    name = project_of(origin) if origin else str(repository.shared_folder().parent)
    return Checkout(root, project_name(name), repository.commit_of("HEAD"), repository)


def project_of(address: str) -> str:
    """`github.com/acme/app`, however the address is written; never what stands before its @, which may be a secret."""
    whole, short = _ADDRESS.match(address), _SCP.match(address)
    name = whole[1] if whole else f"{short[1]}/{short[2]}" if short else address
    name = name.split("?", 1)[0].split("#", 1)[0].rstrip("/").removesuffix(".git")
    host, slash, path = name.partition("/")
    return f"{host.lower()}{slash}{path}"


def project_name(name: str) -> str:
    """As an id of a project can be: printable, and not too long."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in name)
    if len(shown) <= LONGEST_NAME:
        return shown
    return f"{shown[:LONGEST_NAME]}~{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def lookup_in(root: Path) -> CitationLookup:
    """Looks citations up in a checkout, and nowhere else."""
    return LocalCitationLookup(root=root, roots=(root,))
