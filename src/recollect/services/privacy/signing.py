"""Signatures of certificates: Ed25519, with one key per organization.

The private key is made when it is first needed and stored as a secret of the organization, in an encrypted field.
The public key is part of every certificate: whoever keeps one elsewhere can check a certificate without this store.
"""

from __future__ import annotations

import base64
import binascii
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from recollect.domain.memory import canonical
from recollect.domain.record import JsonObject
from recollect.domain.tenancy import OrganizationSecret
from recollect.errors import MissingExtra
from recollect.services.keyed_hashes import own_secret
from recollect.services.tenant import Tenant

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_NAME = "signing"
_SIGNATURE = ("public_key", "signature")


def signing_key(tenant: Tenant) -> Ed25519PrivateKey:
    """The key of the organization; made on first use, by whichever process is first."""
    ed25519 = _library()
    raw = bytes.fromhex(own_secret(tenant.store, tenant.scope, _NAME))
    key: Ed25519PrivateKey = ed25519.Ed25519PrivateKey.from_private_bytes(raw)
    return key


def _library() -> ModuleType:
    try:
        return import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    except ImportError:
        raise MissingExtra(
            "signing certificates needs the package cryptography", remedy="pip install 'recollect[encryption]'"
        ) from None


def known_public_key(tenant: Tenant) -> str | None:
    """The public key of the organization, if it has signed anything yet."""
    return _public_key(signing_key(tenant)) if tenant.get(OrganizationSecret, _NAME) is not None else None


def _public_key(key: Ed25519PrivateKey) -> str:
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


def signed(document: JsonObject, key: Ed25519PrivateKey) -> JsonObject:
    """The document with the public key and a signature over all the rest."""
    whole = {**document, "public_key": _public_key(key)}
    return {**whole, "signature": base64.b64encode(key.sign(_signed_bytes(whole))).decode()}


def is_signed(document: JsonObject) -> bool:
    """Whether the signature is that of the public key in the document."""
    ed25519 = _library()
    from cryptography.exceptions import InvalidSignature

    try:
        key, signature = (base64.b64decode(str(document.get(name)), validate=True) for name in _SIGNATURE)
        ed25519.Ed25519PublicKey.from_public_bytes(key).verify(signature, _signed_bytes(document))
    except (InvalidSignature, ValueError, binascii.Error):
        return False
    return True


def _signed_bytes(document: JsonObject) -> bytes:
    return canonical({name: value for name, value in document.items() if name != "signature"})
