"""Sealing: how access tokens are encrypted in the database, and under which key they are found there.

A token can be read with SECRET_KEY and the client's description alone: who has the database has neither. The key of its
row is made with SECRET_KEY, too: nobody can find out by it what the description says. So another SECRET_KEY, or another
description, has another row.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final
from uuid import UUID

from django.conf import settings as django_settings
from django.utils.crypto import salted_hmac
from django.utils.encoding import force_bytes

from weir.conf.oauth_clients import OAuthClient
from weir.conf.secrets import SecretUnusable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SALT: Final = "weir.workers.fetches.access_tokens"
NONCE: Final = 12  # bytes (NIST SP 800-38D): of the token's own HMAC, so the same token is sealed in the same way


def require(client: OAuthClient) -> None:
    """Raise SecretUnusable if no token of the client can be sealed."""
    _cipher(client, django_settings.SECRET_KEY)


def key_of(client: OAuthClient) -> UUID:
    """Return the key of the row of the client's token."""
    return UUID(bytes=salted_hmac(SALT, client.canonical(), algorithm="sha256").digest()[:16])


def seal(client: OAuthClient, token: str) -> bytes:
    """Return the token, encrypted. Raises SecretUnusable without cryptography."""
    nonce = salted_hmac(SALT, client.canonical() + token.encode(), algorithm="sha256").digest()[:NONCE]
    return nonce + _cipher(client, django_settings.SECRET_KEY).encrypt(nonce, token.encode(), key_of(client).bytes)


def unseal(client: OAuthClient, sealed: bytes) -> str | None:
    """Return the token; None if it was not sealed for this client. Raises SecretUnusable without cryptography."""
    cipher = _cipher(client, django_settings.SECRET_KEY)
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415  only who has OAuth clients needs it

    try:
        return cipher.decrypt(sealed[:NONCE], sealed[NONCE:], key_of(client).bytes).decode()
    except (InvalidTag, ValueError):
        return None


@lru_cache(maxsize=1_000)
def _cipher(client: OAuthClient, secret_key: str) -> "AESGCM":
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  as above
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415
    except ModuleNotFoundError:
        said = f"the secret {client.name} cannot be used: access tokens need cryptography, install django-weir[oauth]"
        raise SecretUnusable(said) from None
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=SALT.encode() + client.canonical())
    return AESGCM(derived.derive(force_bytes(secret_key)))
