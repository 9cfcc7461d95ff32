"""The keys of signatures: Ed25519 keys in secrets (weir.conf.secrets), which WEIR_SIGNATURE_KEYS names.

The first of them signs requests. All of them are published (directory.py), so that sites know a key before it signs,
and while a signature of it still counts. Weir stores and shows only the names of the secrets, and what is public of the
keys.
"""

import base64
import hashlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from weir.conf import settings
from weir.conf.kinds import MOST_SIGNATURE_KEYS
from weir.conf.secrets import SecretUnusable, secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

OF_EVERYBODY: Final = frozenset({"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"})  # the private key in RFC 9421, B.1.4
MAKE_ONE: Final = "make one by `openssl genpkey -algorithm ed25519`"


class SignatureKey:
    """A private key. Its `keyid` is the thumbprint of the public key `x` (RFC 7638; RFC 8037, A.3)."""

    def __init__(self, private: "Ed25519PrivateKey") -> None:
        self._private = private
        self.x = _base64url(private.public_key().public_bytes_raw())
        self.keyid = _base64url(hashlib.sha256(json.dumps(self._required, separators=(",", ":")).encode()).digest())

    @property
    def jwk(self) -> dict[str, str]:
        """The public key, as a JSON Web Key."""
        return {**self._required, "kid": self.keyid, "use": "sig"}

    @property
    def _required(self) -> dict[str, str]:
        return {"crv": "Ed25519", "kty": "OKP", "x": self.x}

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)


def keys() -> tuple[SignatureKey, ...]:
    """Return all keys that the setting names. Raises SecretUnusable, which quotes nothing of a secret."""
    return tuple(map(key, settings.WEIR_SIGNATURE_KEYS))


def key(name: str) -> SignatureKey:
    """Return the key in this secret. Raises SecretUnusable, which quotes nothing of the secret."""
    found = parsed(name, secret(name))
    if found.keyid in OF_EVERYBODY:
        raise SecretUnusable(f"the secret {name} is the test key of RFC 9421, which everybody has: {MAKE_ONE}")
    return found


@lru_cache(maxsize=2 * MOST_SIGNATURE_KEYS)
def parsed(name: str, pem: str) -> SignatureKey:
    """Return the key in the text of this secret. Raises SecretUnusable, which quotes nothing of the text."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415  only who signs needs it
            Ed25519PrivateKey,
        )
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415  as above
    except ModuleNotFoundError:
        said = f"the secret {name} cannot be used: signatures need cryptography, install django-weir[signatures]"
        raise SecretUnusable(said) from None
    try:
        private = load_pem_private_key(pem.encode(), password=None)
    except Exception:  # noqa: BLE001  ValueError, TypeError, or an error of the package; each may quote the text
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise SecretUnusable(f"the secret {name} has no private Ed25519 key in PEM without a password: {MAKE_ONE}")
    return SignatureKey(private)


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
