"""Removes the environment's passwords from sentences and log lines, even if a server repeats a password."""

import os
import re
from collections.abc import Collection, Sequence

from project.environment import urls
from weir.conf.secrets import SECRET_PREFIX
from weir.conf.texts import relay_urls
from weir.logs.redacting import Redactor

# Places in which any text is a password: before the @ in a URL, and after `password=`.
_PLACES = (re.compile(r"(://[^\s/@:]*:)[^\s@]+(?=@)"), re.compile(r"(\bpassword=)(?:'[^']*'|[^\s'&]+)", re.IGNORECASE))


def of_environment() -> Redactor:
    """Return a Redactor that masks the passwords that are in the environment now."""
    return Redactor(_secrets(), _names())


def without_secrets(text: str) -> str:
    """Return the text on one line, without the passwords that are in the environment."""
    return redacted(text, _secrets(), _names())


def redacted(text: str, secrets: Sequence[str], names: Collection[str] = ()) -> str:
    """Return the text on one line, with *** for each secret, and for each text in the place of a password."""
    for place in _PLACES:
        text = place.sub(r"\1***", text)
    return " ".join(Redactor(secrets, names).in_sentence(text).split())


def _secrets() -> list[str]:
    given = [os.environ.get(variable, "") for variable in ("EMAIL_HOST_PASSWORD", "DJANGO_SECRET_KEY")]
    given += relay_urls.secrets(os.environ.get("WEIR_MAIL_RELAYS", ""))
    given += [value for name, value in os.environ.items() if name.startswith(SECRET_PREFIX)]
    return [*urls.secrets(*(os.environ.get(variable, "") for variable in urls.EXAMPLES)), *filter(None, given)]


def _names() -> list[str]:
    return [name for variable in urls.EXAMPLES for name in urls.names(variable, os.environ.get(variable, "").strip())]
