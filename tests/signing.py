"""A verifier of signatures that is not Weir's (the package http-message-signatures), and keys."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from http_message_signatures import HTTPMessageVerifier, HTTPSignatureKeyResolver, VerifyResult, algorithms

# The test key of RFC 9421, B.1.4, its thumbprint (RFC 8037, A.3), and its public part.
TEST_KEY = """-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF
-----END PRIVATE KEY-----
"""
TEST_KEYID = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
TEST_X = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"


def new_key() -> str:
    """Return a new key, as `openssl genpkey -algorithm ed25519` writes one."""
    made = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return made.decode()


class _Keys(HTTPSignatureKeyResolver):
    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = keys

    def resolve_public_key(self, key_id: str) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(self._keys[key_id])

    def resolve_private_key(self, key_id: str) -> Any:
        raise NotImplementedError


def verified(
    message: Any, keys: Mapping[str, bytes], tag: str, *covered: str, body: bytes | None = None
) -> list[VerifyResult]:
    """Return what the signatures with this tag are over; `keys` are public ones. Raises InvalidSignature."""
    verifier = HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=_Keys(keys))
    return verifier.verify(message, expect_tag=tag, require_components=covered, body=body)


def message(method: str, url: str, headers: Mapping[str, str]) -> Any:
    """Return a request as the verifier reads it."""
    return SimpleNamespace(method=method, url=url, headers=dict(headers))


def answer(status: int, headers: Mapping[str, str], request: Any) -> Any:
    """Return an answer as the verifier reads it."""
    return SimpleNamespace(status_code=status, url=request.url, headers=dict(headers), request=request)
