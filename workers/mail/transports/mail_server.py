"""Reads which mail server Django's own settings name. No other module of Weir reads these settings.

Up to Django 6.0 these settings are EMAIL_BACKEND, EMAIL_HOST and so on. If Django 6.1 finds MAILERS, it refuses to read
them, and e-mails are sent through MAILERS["default"].

If the settings name Django's SMTP backend, which is the default, Weir sends its e-mails through a subclass of that
backend, which uses the same settings, and tells how far an attempt came. The project's own e-mails are sent as before.

If they name the outbox (`django_mail`), in which Django's own messages are queued, that is not where Weir sends its
e-mails: Weir uses the server of the EMAIL_* settings or, from MAILERS, the mailer in the option `relay` of the outbox.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.conf import settings
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

ENTRY_S = 30.0  # the time-out of each step of connecting to a mail server, if the settings name none
OF_EMAIL_SETTINGS, OF_MAILERS = "EMAIL_BACKEND", "MAILERS['default']"
_DEFAULT = "default"
_DJANGOS, _WEIRS = "django.core.mail.backends.smtp.EmailBackend", "weir.workers.mail.smtp.EmailBackend"
_OUTBOX = frozenset({"weir.OutboxBackend", "weir.workers.mail.django_mail.backend.OutboxBackend"})


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
        alias = _alias(mailers)
        return _of_mailer(alias, mailers.get(alias, {}))
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

    The latter is configured by the settings, if they name it. Raises any error of importing and making the backend, and
    ImproperlyConfigured if it would be the outbox, to which a mailer must not send what it has taken from it.
    """
    if sentence := outbox_fault(path):
        raise ImproperlyConfigured(sentence)
    if (mailers := _mailers()) is None:
        return mail.get_connection(path or of_settings().backend)
    django: Any = mail  # the type stubs are those of a Django without MAILERS
    named = _alias(mailers)
    mailer = mailers.get(named, {})
    if not path and named in mailers and mailer.get("BACKEND", _DJANGOS) == _DJANGOS:
        return import_string(_WEIRS)(alias=named, **mailer.get("OPTIONS", {}))
    if not path:
        return django.mailers[named]
    alias = next((alias for alias, mailer in mailers.items() if mailer.get("BACKEND", _DJANGOS) == path), None)
    return django.mailers[alias] if alias else import_string(path)(alias=path)


def names_outbox() -> bool:
    """Return whether Django's settings name the outbox itself, not a subclass of it. Imports no backend."""
    if (mailers := _mailers()) is not None:
        return any(mailer.get("BACKEND") in _OUTBOX for mailer in mailers.values())
    return settings.EMAIL_BACKEND in _OUTBOX


def outbox_fault(path: str = "") -> str:
    """Return why a mailer cannot send through the backend of the settings, or the one with this import path.

    An empty string if that is not the outbox.
    """
    if path:
        return f"{path} is the outbox itself: name a mail server, such as smtp://HOST:25." if _is_outbox(path) else ""
    if (mailers := _mailers()) is None:
        return ""
    alias = _alias(mailers)
    if alias in mailers and not _is_outbox(mailers[alias].get("BACKEND", _DJANGOS)):
        return ""
    if not _is_outbox(mailers.get(_DEFAULT, {}).get("BACKEND", _DJANGOS)):
        return ""
    return (
        f"{OF_MAILERS} is the outbox, and its option 'relay' names no mail server: add an entry to MAILERS for it, and "
        "name that entry in the option."
    )


@cache
def _is_outbox(path: str) -> bool:
    """Return whether the backend is the outbox, or a subclass of it. A path that leads nowhere is not (weir.E011)."""
    if path in _OUTBOX:
        return True
    try:
        return bool(getattr(import_string(path), "is_outbox", False))
    except Exception:  # noqa: BLE001  importing a module runs its code, which may raise anything
        return False


def _alias(mailers: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the mailer through which Weir sends: the default one or, if that is the outbox, the one that it names."""
    default = mailers.get(_DEFAULT, {})
    if not _is_outbox(default.get("BACKEND", _DJANGOS)):
        return _DEFAULT
    return str((default.get("OPTIONS") or {}).get("relay", ""))


def _own(path: str) -> str:
    return _WEIRS if path == _DJANGOS or _is_outbox(path) else path


def _mailers() -> Mapping[str, Mapping[str, Any]] | None:
    """Return MAILERS; None if the EMAIL_* settings are used."""
    found: Mapping[str, Mapping[str, Any]] | None = (
        getattr(settings, "MAILERS", None) if hasattr(mail, "mailers") else None
    )
    return found


def _of_mailer(alias: str, mailer: Mapping[str, Any]) -> MailServer:
    said: Mapping[str, Any] = mailer.get("OPTIONS") or {}
    use_tls, use_ssl = bool(said.get("use_tls")), bool(said.get("use_ssl"))
    usual = 465 if use_ssl else 587 if use_tls else 25
    return MailServer(
        setting=f"MAILERS[{alias or _DEFAULT!r}]",
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
