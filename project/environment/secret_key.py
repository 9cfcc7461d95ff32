"""The key with which Django signs sessions: when the placeholder is refused, and the key of a checkout."""

import os
import secrets
from pathlib import Path

from project.environment.variables import INSECURE_SECRET_KEY, Variables


def refusal(variables: Variables) -> str | None:
    """Return the sentence that refuses the placeholder if DATABASE_URL is set and DEBUG is off; None otherwise."""
    is_real = bool(variables.DATABASE_URL.get_secret_value()) and not variables.DJANGO_DEBUG
    if not is_real or variables.DJANGO_SECRET_KEY.get_secret_value() != INSECURE_SECRET_KEY:
        return None
    return (
        "DJANGO_SECRET_KEY must be a long random text where DATABASE_URL is set, but is the placeholder, which "
        'everybody knows: python -c "import secrets; print(secrets.token_urlsafe(50))" makes one.'
    )


def of_checkout(home: Path) -> str:
    """Return the key in this folder. The first call makes the key, in a file that only this user can read."""
    path = home / "secret-key"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text()
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(50))
    return path.read_text()
