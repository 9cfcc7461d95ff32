"""The secret of a token: made once, shown once, and known by its hash afterwards. Pure, except for randomness."""

import hashlib
import re
import secrets
from typing import Final

PREFIX: Final = "weir_"  # scanners for leaked secrets find it by this
BYTES: Final = 32  # of randomness: it cannot be guessed, so a plain hash of it is as good as a slow one
_SECRET: Final = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}", re.ASCII)


def new() -> str:
    """Return a new secret."""
    return PREFIX + secrets.token_urlsafe(BYTES)


def is_secret(text: str) -> bool:
    """Return whether the text can be a secret."""
    return _SECRET.fullmatch(text) is not None


def hash_of(secret: str) -> str:
    """Return what is stored."""
    return hashlib.sha256(secret.encode()).hexdigest()
