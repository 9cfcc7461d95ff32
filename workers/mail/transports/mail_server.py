"""Reads which mail server Django's own settings name. No other module of Weir reads these settings.

Up to Django 6.0 these settings are EMAIL_BACKEND, EMAIL_HOST and so on. If Django 6.1 finds MAILERS, it refuses to read
them, and e-mails are sent through MAILERS["default"].

If the settings name Django's SMTP backend, which is the default, Weir sends its e-mails through a subclass of that
backend, which uses the same settings, and tells how far an attempt came. The project's own e-mails are sent as before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core import mail
from django.utils.module_loading import import_string

ENTRY_S = 30.0  # the time-out of each step of connecting to a mail server, if the settings name none
OF_EMAIL_SETTINGS, OF_MAILERS = "EMAIL_BACKEND", "MAILERS['default']"
_DEFAULT = "default"
_DJANGOS, _WEIRS = "django.core.mail.backends.smtp.EmailBackend", "weir.workers.mail.smtp.EmailBackend"


@dataclass(frozen=True, kw_only=True)
class MailServer:
    """What the settings say about the mail server. A backend that is not for SMTP may ignore most of it."""

    setting: str  # the setting that names the backend
    backend: str  # the backend's import path
    host: str
    port: int
    user: str
    has_password: bool
    use_tls: bool  # whether to use TLS after STARTTLS
    use_ssl: bool  # whether to use TLS from the first byte
    timeout_s: float  # the longest time of each step of connecting
    certfile: str | None  # the file with our own certificate
    keyfile: str | None


def of_settings() -> MailServer:
    """Return the mail server that Django's settings name."""
    if (mailers := _mailers()) is not None:
        return _of_mailer(mailers.get(_DEFAULT, {}))
    return MailServer(
        setting=OF_EMAIL_SETTINGS,
        backend=_own(settings.EMAIL_BACKEND),
        host=settings.EMAIL_HOST,
        port=settings.EMAIL_PORT,
        user=settings.EMAIL_HOST_USER,
        has_password=bool(settings.EMAIL_HOST_PASSWORD),
        use_tls=settings.EMAIL_USE_TLS,
        use_ssl=settings.EMAIL_USE_SSL,
        timeout_s=ENTRY_S if settings.EMAIL_TIMEOUT is None else settings.EMAIL_TIMEOUT,
        certfile=settings.EMAIL_SSL_CERTFILE,
        keyfile=settings.EMAIL_SSL_KEYFILE,
    )


def backend(path: str = "") -> Any:  # noqa: ANN401  any mail backend
    """Return a new mail backend: the backend of the settings, or the one with this import path.

    The latter is configured by the settings, if they name it. Raises any error of importing and making the backend.
    """
    if (mailers := _mailers()) is None:
        return mail.get_connection(path or of_settings().backend)
    django: Any = mail  # the type stubs are those of a Django without MAILERS
    default = mailers.get(_DEFAULT, {})
    if not path and _DEFAULT in mailers and default.get("BACKEND", _DJANGOS) == _DJANGOS:
        return import_string(_WEIRS)(alias=_DEFAULT, **default.get("OPTIONS", {}))
    if not path:
        return django.mailers[_DEFAULT]
    alias = next((alias for alias, mailer in mailers.items() if mailer.get("BACKEND", _DJANGOS) == path), None)
    return django.mailers[alias] if alias else import_string(path)(alias=path)


def _own(path: str) -> str:
    return _WEIRS if path == _DJANGOS else path


def _mailers() -> Mapping[str, Mapping[str, Any]] | None:
    """Return MAILERS; None if the EMAIL_* settings are used."""
    found: Mapping[str, Mapping[str, Any]] | None = (
        getattr(settings, "MAILERS", None) if hasattr(mail, "mailers") else None
    )
    return found


def _of_mailer(mailer: Mapping[str, Any]) -> MailServer:
    said: Mapping[str, Any] = mailer.get("OPTIONS") or {}
    use_tls, use_ssl = bool(said.get("use_tls")), bool(said.get("use_ssl"))
    usual = 465 if use_ssl else 587 if use_tls else 25
    return MailServer(
        setting=OF_MAILERS,
        backend=_own(mailer.get("BACKEND", _DJANGOS)),
        host=said.get("host") or "localhost",
        port=said.get("port") or usual,
        user=said.get("username") or "",
        has_password=bool(said.get("password")),
        use_tls=use_tls,
        use_ssl=use_ssl,
        timeout_s=ENTRY_S if said.get("timeout") is None else said["timeout"],
        certfile=said.get("ssl_certfile"),
        keyfile=said.get("ssl_keyfile"),
    )
