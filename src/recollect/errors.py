"""Every error Recollect raises, with a stable code, a remedy and an HTTP status.

    RecollectError
    ├── InvalidInput            invalid_input        422   the request itself is wrong
    │   ├── UnknownKind         unknown_kind         422
    │   ├── TooLarge            too_large            413
    │   ├── SecretFound         secret_found         422   the settings say that texts with secrets are refused
    │   └── InvalidSettings     invalid_settings     422
    ├── NotFound                not_found            404   absent, or another tenant's: they look alike
    ├── Denied                  denied               403
    │   └── Unauthenticated     unauthenticated      401
    ├── Conflict                conflict             409   the request is fine, the state is not
    │   ├── VersionConflict     version_conflict     409
    │   ├── DuplicateKey        duplicate_key        409
    │   ├── ReferenceMissing    reference_missing    409
    │   ├── RequirementFailed   requirement_failed   409
    │   ├── IllegalTransition   illegal_transition   409
    │   ├── LeaseLost           lease_lost           409
    │   ├── Cancelled           cancelled            409   somebody asked for the work to end
    │   ├── InColdStorage       in_cold_storage      409   it was moved to a file, and can be restored from there
    │   └── OnLegalHold         on_legal_hold        409   it may not be deleted
    ├── RateLimited             rate_limited         429   slower, please
    ├── Unavailable             unavailable          503   try again, or mend the surroundings
    │   ├── Overloaded          overloaded           503
    │   ├── StoreBusy           store_busy           503
    │   ├── StoreFull           store_full           507
    │   ├── StoreReadOnly       store_read_only      503
    │   ├── EmbedderFailed      embedder_failed      502
    │   ├── IndexFailed         index_failed         502   the vector index in another system is away
    │   ├── ModelFailed         model_failed         502   a language model that cannot be reached or understood
    │   ├── MissingExtra        missing_extra        501
    │   └── Unsupported         unsupported          409   this store cannot; another can
    └── StoreError              store_error          500
        ├── DamagedData         damaged_data         500   never served: a checksum or the engine says no
        ├── WrongKey            wrong_key            500
        ├── NotARecollectStore  not_a_recollect_store 422
        ├── NewerStore          newer_store          422   made by a newer program
        ├── FileReplaced        file_replaced        503   the store's file was deleted or exchanged under us
        └── Closed              closed               503

The message says what is wrong; `remedy` says what to do next. `details` holds ids and names, never stored text.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

DOCS_URL = "https://recollect-memory.github.io/recollect/"
"""Where the documentation can be read by who has only the package: as `Documentation` in pyproject.toml."""
_PAGE = re.compile(r"\bdocs/([\w/-]+)\.md(#[\w-]+)?")


def with_addresses(text: str) -> str:
    """Pages of the documentation in a text, as addresses that can be opened."""
    return _PAGE.sub(lambda page: f"{DOCS_URL}{page[1]}.html{page[2] or ''}", text)


class RecollectError(Exception):
    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, remedy: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = with_addresses(remedy)
        self.details = details

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message

    def as_dict(self) -> dict[str, Any]:
        """The one shape in which every interface shows an error."""
        return {
            "code": self.code,
            "message": self.message,
            "remedy": self.remedy,
            "details": {name: value for name, value in self.details.items() if value is not None},
        }


class InvalidInput(RecollectError):
    code = "invalid_input"
    http_status = 422


class UnknownKind(InvalidInput):
    code = "unknown_kind"


class TooLarge(InvalidInput):
    code = "too_large"
    http_status = 413


class SecretFound(InvalidInput):
    code = "secret_found"


class InvalidSettings(InvalidInput):
    code = "invalid_settings"


class NotFound(RecollectError):
    code = "not_found"
    http_status = 404


class Denied(RecollectError):
    code = "denied"
    http_status = 403


class Unauthenticated(Denied):
    code = "unauthenticated"
    http_status = 401


class Conflict(RecollectError):
    code = "conflict"
    http_status = 409


class VersionConflict(Conflict):
    code = "version_conflict"


class DuplicateKey(Conflict):
    code = "duplicate_key"

    @classmethod
    def of(cls, table: str, fields: Sequence[str]) -> Self:
        remedy = "change the existing one, or choose another key"
        return cls(f"there is such a {table} already", remedy=remedy, fields=list(fields))


class ReferenceMissing(Conflict):
    code = "reference_missing"


class RequirementFailed(Conflict):
    code = "requirement_failed"


class IllegalTransition(Conflict):
    code = "illegal_transition"


class LeaseLost(Conflict):
    code = "lease_lost"


class Cancelled(Conflict):
    code = "cancelled"


class InColdStorage(Conflict):
    code = "in_cold_storage"


class OnLegalHold(Conflict):
    code = "on_legal_hold"


class RateLimited(RecollectError):
    code = "rate_limited"
    http_status = 429


class Unavailable(RecollectError):
    code = "unavailable"
    http_status = 503


class Overloaded(Unavailable):
    code = "overloaded"


class StoreBusy(Unavailable):
    code = "store_busy"


class StoreFull(Unavailable):
    code = "store_full"
    http_status = 507


class StoreReadOnly(Unavailable):
    code = "store_read_only"


class EmbedderFailed(Unavailable):
    code = "embedder_failed"
    http_status = 502


class IndexFailed(Unavailable):
    code = "index_failed"
    http_status = 502


class ModelFailed(Unavailable):
    code = "model_failed"
    http_status = 502


class MissingExtra(Unavailable):
    code = "missing_extra"
    http_status = 501


class Unsupported(Unavailable):
    code = "unsupported"
    http_status = 409


class StoreError(RecollectError):
    code = "store_error"


class DamagedData(StoreError):
    code = "damaged_data"


class WrongKey(StoreError):
    code = "wrong_key"


class NotARecollectStore(StoreError):
    code = "not_a_recollect_store"
    http_status = 422


class NewerStore(StoreError):
    code = "newer_store"
    http_status = 422


class FileReplaced(StoreError):
    code = "file_replaced"
    http_status = 503


class Closed(StoreError):
    code = "closed"
    http_status = 503


@contextmanager
def typed_os_errors() -> Iterator[None]:
    """What the system refuses, in our own words: for whatever no adapter has named more closely."""
    try:
        yield
    except OSError as error:
        raise of_the_system(error) from error


def of_the_system(error: OSError) -> RecollectError:
    said = error.strerror or type(error).__name__
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return Overloaded(
            "too many files are open", remedy="close some, or raise the limit (`ulimit -n`), then try again"
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull("no space left on the disk", remedy="free some disk space, then try again")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreReadOnly(f"a file or folder may not be used: {said}", remedy="check its permissions")
    if isinstance(error, ConnectionError | TimeoutError):
        return Unavailable(f"a connection failed: {said}", remedy="try again in a moment")
    return StoreError(f"the system refused: {said}", remedy="check the folder of the store and its disk")
