"""Encryption at rest: master keys, and files that are sealed piece by piece.

`cryptography` belongs to the extra `encryption`; it is imported when a key is used, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recollect.errors import MissingExtra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV


def aes_gcm(key: bytes) -> AESGCM:
    """AES-256-GCM with this key."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise MissingExtra("encryption is not installed", remedy="pip install 'recollect[encryption]'") from None
    return AESGCM(key)


def aes_siv(key: bytes) -> AESSIV:
    """AES-SIV with this key of 64 bytes: the same plain text is always sealed the same way. After `aes_gcm`."""
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

    return AESSIV(key)
