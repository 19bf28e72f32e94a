"""How tenants and digests are written in paths.

A tenant's name is any text; its folder is plain ASCII in lower case, so that no name leads out of the folder and no two
names are the same to a file system that ignores case or normalizes Unicode.
"""

from __future__ import annotations

import hashlib
import re
import string

from recollect.errors import InvalidInput
from recollect.ports.objects import OBJECT_HASH, is_object_hash

LONGEST = 120
_PLAIN = frozenset(string.ascii_lowercase + string.digits + "_-")
FILE_NAME = re.compile("[0-9a-f]{64}")


def folder_name(tenant: str) -> str:
    """`t-acme` for acme, `t-=41cme` for Acme; a hash for long names. The prefix avoids names that Windows reserves."""
    written = "".join(
        character
        if character in _PLAIN
        else "".join(f"={byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
        for character in tenant
    )
    if len(written) <= LONGEST:
        return f"t-{written}"
    return f"h-{hashlib.sha256(tenant.encode('utf-8', 'surrogatepass')).hexdigest()}"


def file_name(digest: str) -> str:
    """The name of the file with this content. Only a digest ever becomes one."""
    if not is_object_hash(digest):
        raise InvalidInput(
            f"'{digest[:80]}' is not the digest of an object", remedy=f"give '{OBJECT_HASH}' and 64 hexadecimal digits"
        )
    return digest.removeprefix(OBJECT_HASH)


def digest_of(name: str) -> str:
    return OBJECT_HASH + name
