"""Hides secrets in Weir's settings, because Django shows all settings on its error pages, and mails them to ADMINS."""

from typing import Any

from django.conf import settings
from pydantic import SecretStr

# Django itself hides WEIR_METRICS_TOKEN, by its name.
_WITH_PASSWORDS = ("WEIR_MAIL_RELAYS", "WEIR_REDIS_URL")


def hide() -> None:
    """Wrap the settings' URLs that may contain passwords in SecretStr, which never shows its content.

    A second call changes nothing.
    """
    for name in _WITH_PASSWORDS:
        if given := getattr(settings, name, None):
            setattr(settings, name, _hidden(given))


def _hidden(given: Any) -> Any:  # noqa: ANN401  whatever a project has written
    if isinstance(given, list | tuple):
        return [_hidden(each) for each in given]
    return SecretStr(given) if isinstance(given, str) else given
