"""What an erasure needs until it is finished: whom it is about, what was deleted, which texts to look for afterwards.

It is stored with the running certificate, so that another process can go on after the first was killed, and deleted
when the certificate is finished. It is masked: what is looked for must not be found in the very record that says so.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import zlib
from dataclasses import asdict, dataclass

from recollect.services.privacy.deletion import Mentions
from recollect.services.privacy.redaction import Redaction
from recollect.services.privacy.scan import SearchTerms

_KEY_BYTES = 16


@dataclass(frozen=True)
class ErasureWork:
    names: list[str]
    """What the person is called; their id first."""
    mentions: Mentions
    pseudonym: str
    key: str
    """What the pseudonyms of ids are made with; once it is deleted, nobody can make them again."""
    ids: list[tuple[str, str]]
    """The table and the id of each record that was deleted."""
    texts: list[str]

    def packed(self) -> bytes:
        key, plain = secrets.token_bytes(_KEY_BYTES), zlib.compress(json.dumps(asdict(self)).encode())
        return key + _masked(key, plain)

    @classmethod
    def unpacked(cls, raw: bytes) -> ErasureWork:
        given = json.loads(zlib.decompress(_masked(raw[:_KEY_BYTES], raw[_KEY_BYTES:])))
        return cls(**{**given, "ids": [(table, id) for table, id in given["ids"]]})

    def redaction(self, *, in_texts: bool = True) -> Redaction:
        """What takes the place of the person, and of the ids of what was deleted."""
        ids = {id: f"erased-{_digest(self.key, id)}" for _, id in self.ids}
        return Redaction(tuple(self.names) if in_texts else (), self.pseudonym, {**ids, self.names[0]: self.pseudonym})

    def terms(self) -> SearchTerms:
        return SearchTerms(self.names, sorted({id for _, id in self.ids}), self.texts)


def new_pseudonym() -> str:
    return f"erased-{secrets.token_hex(6)}"


def _digest(key: str, id: str) -> str:
    return hmac.new(bytes.fromhex(key), id.encode(), hashlib.sha256).hexdigest()[:20]


def _masked(key: bytes, data: bytes) -> bytes:
    stream = hashlib.shake_256(key).digest(len(data))
    return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")
