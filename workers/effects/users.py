"""The key of the user whom an effect concerns, and texts without it, which are kept for longer."""

import hashlib
from uuid import UUID

from weir.postgres.texts import storable
from weir.workers.effects.models import LONGEST_USER


def key_of(user: str | int | UUID) -> str:
    """Return the key of a user as text. Raises TypeError for what is no key, and ValueError for one that is bad."""
    if isinstance(user, bool) or not isinstance(user, str | int | UUID):
        raise TypeError(f"A user is named by a key, such as user.pk, and not by {user!r}.")
    key = str(user)
    if not key.strip() or storable(key, LONGEST_USER) != key:
        raise ValueError(f"The key of a user has 1 to {LONGEST_USER} characters, but is {key!r}.")
    return key


def key_hash(key: str) -> str:
    """Return the SHA-256 of the key, which identifies the user even after the user was forgotten."""
    return hashlib.sha256(key.encode()).hexdigest()


def redacted(text: str, key: str) -> str:
    """Return the text with `<user>` for the key, unless that is a number, which may mean something else."""
    return text if not key or key.isdecimal() else text.replace(key, "<user>")
