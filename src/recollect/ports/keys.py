"""The port for keys: whoever holds the master key wraps the keys that data is encrypted with.

Data is never encrypted with the master key itself. Each organization, export and backup has a data key of its own,
stored beside it in wrapped form, so that a change of the master key rewraps a few keys and leaves the data alone, and
deleting a wrapped key makes what it protects unreadable for ever. A key service (KMS, Vault) implements the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, runtime_checkable

from recollect.ports.records import Scope

TextEncryption = Literal["clear", "sealing", "sealed", "opening", "file"]
"""How the texts of an organization are stored: in the clear, sealed one by one, on the way to one of the two, or in a
file that is encrypted as a whole."""


class KeyService(Protocol):
    """Both verbs may raise Unavailable where the service cannot be reached."""

    def wrap(self, key: bytes, context: str) -> str:
        """A key as text that can be stored; only this service can open it, and only with the same context."""

    def unwrap(self, wrapped: str, context: str) -> bytes:
        """The key again. Raises WrongKey where it was wrapped with another master key or for another context."""


class Writable(Protocol):
    def write(self, data: bytes | memoryview, /) -> object: ...


class EncryptedFiles(Protocol):
    """Files that are written beside the store, such as exports: encrypted where the store has a key."""

    @property
    def is_on(self) -> bool:
        """Whether files are encrypted."""

    def sealing(self, file: Writable) -> AbstractContextManager[Writable]:
        """What is written within the block ends up sealed in `file`; as it is where there is no key."""

    def opened(self, path: Path) -> AbstractContextManager[BinaryIO]:
        """The content of a file, sealed or not, to read and to seek in.

        Raises WrongKey where it is sealed and there is no key, or another, and OSError where it cannot be read.
        """

    def is_sealed(self, path: Path) -> bool:
        """Whether a file is sealed. Raises OSError."""


class DataKeyring(Protocol):
    """The data keys of the organizations of a store. Where two change the keys of one at once, one of them waits."""

    def key_ids(self, scope: Scope) -> list[str]:
        """The current one first, then those that something may still be sealed with; none where there is no key."""

    def is_complete(self, scope: Scope) -> bool:
        """Whether nothing is left to be sealed, or no master key is set."""

    def rotate(self, scope: Scope) -> None:
        """A new current key; what is written from now on is sealed with it, what is there stays as it is."""

    def rewrap(self, scope: Scope) -> int:
        """Wraps the keys with the master key of today; gives how many there are."""

    def retire(self, scope: Scope, key_ids: Sequence[str]) -> bool:
        """Forget all but the first of these, since nothing is sealed with them; False if these are not its keys."""

    def destroy(self, scope: Scope) -> bool:
        """Forget all of them for good: what they sealed is never read again. Says whether there were any."""

    def encrypt_texts(self, scope: Scope, wanted: bool) -> None:
        """From now on texts are written sealed, or in the clear; what is there stays as it is until it is written anew.

        Raises InvalidSettings where there is no key.
        """

    def texts_of(self, scope: Scope) -> TextEncryption:
        """How its texts are stored."""

    def seals_texts(self, organization_id: str) -> bool:
        """Whether texts are written sealed: then the store cannot filter by them."""

    def stale(self) -> AbstractContextManager[set[tuple[str, str]]]:
        """The table and id of every record that this thread reads meanwhile and the current key has not sealed."""


@runtime_checkable
class EncryptsFields(Protocol):
    """A store that seals the fields that are declared encrypted."""

    @property
    def data_keys(self) -> DataKeyring: ...

    def erase_words(self) -> None:
        """Removes what is left, in indexes and statistics, of words whose texts are no longer there in the clear."""
