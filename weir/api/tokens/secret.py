"""The secret of a token: created once, shown once, and then recognised by its hash. Pure, except for randomness."""

import hashlib
import re
import secrets
from typing import Final

PREFIX: Final = "weir_"  # scanners for leaked secrets find a token by this prefix
BYTES: Final = 32  # random bytes: such a secret cannot be guessed, so a fast hash of it is as safe as a slow one
_SECRET: Final = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}", re.ASCII)


def new() -> str:
    """Return a new secret."""
    return PREFIX + secrets.token_urlsafe(BYTES)


def is_secret(text: str) -> bool:
    """Return whether the text has the form of a secret."""
    return _SECRET.fullmatch(text) is not None


def hash_of(secret: str) -> str:
    """Return the hash of the secret, which is what the database stores."""
    return hashlib.sha256(secret.encode()).hexdigest()
