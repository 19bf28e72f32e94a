"""The master key of a store: a text that an operator keeps elsewhere, from which wrapping keys are derived.

The text may be a random key (`recollect encryption new-key`) or a passphrase: scrypt makes guessing expensive either
way. Each wrapped key has a salt of its own process, so a process derives once for what it wraps and once per salt that
it reads.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import threading

from recollect.adapters.encryption import aes_gcm
from recollect.errors import InvalidSettings, WrongKey
from recollect.ports.keys import KeyService

KEY_BYTES = 32
SHORTEST = 16
_PREFIX = "w1:"
_SALT, _NONCE = 16, 12
_WRONG = "use the key that it was encrypted with: see `key`, `key_file` and `key_command` in docs/reference/settings.md"


def new_key() -> str:
    """A random master key, as text that fits in a file or an environment variable."""
    return secrets.token_urlsafe(KEY_BYTES)


def new_data_key() -> bytes:
    return os.urandom(KEY_BYTES)


class MasterKey:
    """A key service in this process; its repr, which ends up in logs, shows no key."""

    def __init__(self, text: str) -> None:
        if len(text) < SHORTEST:
            raise InvalidSettings(
                f"the key is shorter than {SHORTEST} characters", remedy="make one with `recollect encryption new-key`"
            )
        self._text = text.encode()
        self._own_salt = os.urandom(_SALT)
        self._derived: dict[bytes, bytes] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return "MasterKey(…)"

    def derive(self, salt: bytes) -> bytes:
        """32 bytes for one purpose; the same text and salt always give the same."""
        with self._lock:
            if salt not in self._derived:
                self._derived[salt] = hashlib.scrypt(
                    self._text, salt=salt, n=1 << 15, r=8, p=1, maxmem=64 << 20, dklen=KEY_BYTES
                )
            return self._derived[salt]

    def wrap(self, key: bytes, context: str) -> str:
        nonce = os.urandom(_NONCE)
        sealed = aes_gcm(self.derive(self._own_salt)).encrypt(nonce, key, context.encode())
        return _PREFIX + base64.urlsafe_b64encode(self._own_salt + nonce + sealed).decode()

    def unwrap(self, wrapped: str, context: str) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            raw = base64.b64decode(wrapped.removeprefix(_PREFIX), altchars=b"-_", validate=True)
            salt, nonce, sealed = raw[:_SALT], raw[_SALT : _SALT + _NONCE], raw[_SALT + _NONCE :]
            return aes_gcm(self.derive(salt)).decrypt(nonce, sealed, context.encode())
        except (ValueError, InvalidTag):
            raise WrongKey("this is encrypted with another key", remedy=_WRONG) from None


class KeyAndPrevious:
    """Two key services while the master key is changed: wraps with the new one, and opens what either has wrapped."""

    def __init__(self, current: KeyService, previous: KeyService) -> None:
        self.current, self.previous = current, previous

    def wrap(self, key: bytes, context: str) -> str:
        return self.current.wrap(key, context)

    def unwrap(self, wrapped: str, context: str) -> bytes:
        try:
            return self.current.unwrap(wrapped, context)
        except WrongKey:
            return self.previous.unwrap(wrapped, context)
