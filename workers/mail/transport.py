"""The way out: what a sender needs of a mail backend. The only module that reads which backend the settings name."""

from collections.abc import Callable
from typing import Any, Protocol, cast

import structlog
from django.conf import settings
from django.core import mail
from django.core.mail.backends.base import BaseEmailBackend

from workers.mail.message import Message
from workers.mail.models import Phase

log = structlog.get_logger(__name__)


class Unreachable(Exception):
    """The mail server cannot be reached, or does not let us in: no e-mail was begun, and none is to blame."""


class Refused(Exception):
    """The mail server refused this e-mail: certainly not accepted."""

    def __init__(self, code: int, reply: str, phase: Phase) -> None:
        super().__init__(reply)
        self.is_permanent = code >= 500  # noqa: PLR2004  RFC 5321, 4.2.1
        self.phase = phase


class BrokenOff(Exception):
    """The attempt broke off before the mail server could accept the e-mail: certainly not accepted."""

    def __init__(self, reason: str, phase: Phase) -> None:
        super().__init__(reason)
        self.phase = phase


class OutcomeUnknown(Exception):
    """The e-mail may have been accepted: everything was transmitted, or the backend cannot tell."""

    def __init__(self, reason: str, phase: Phase) -> None:
        super().__init__(reason)
        self.phase = phase


class Transport(Protocol):
    """A connection to the mail server. A backend of your own that has these methods can tell how far it came."""

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, as far as it knows."""

    def connect(self) -> None:
        """Connect and log in. Raises Unreachable."""

    def close(self) -> None:
        """Close the connection, whatever state it is in. Raises nothing."""

    def submit(self, message: Message, begin: Callable[[], None]) -> str:
        """Submit one e-mail, and return what the server said when it accepted it.

        Calls `begin` once, right before the first step after which the e-mail might be accepted; if that raises, the
        e-mail must not be transmitted. Raises Unreachable before `begin`; Refused, BrokenOff and OutcomeUnknown as
        they say.
        """


class AnyBackend:
    """Any of Django's mail backends, as a Transport. It cannot tell how far it came: a failure is OutcomeUnknown."""

    def __init__(self, backend: BaseEmailBackend) -> None:
        self._backend = backend
        self.is_connected = False

    def connect(self) -> None:
        """Connect, if the backend connects at all. Raises Unreachable."""
        try:
            self._backend.open()
        except Exception as error:  # whatever the backend raises
            raise Unreachable(f"{type(error).__name__}: {error}") from error
        self.is_connected = True

    def close(self) -> None:
        """Close the backend's connection. Raises nothing."""
        self.is_connected = False
        try:
            self._backend.close()
        except Exception as error:  # noqa: BLE001  whatever the backend raises, it changes nothing about the e-mails
            log.warning("mail_backend_not_closed", error=str(error))

    def submit(self, message: Message, begin: Callable[[], None]) -> str:
        """Hand the e-mail to the backend. Raises OutcomeUnknown."""
        begin()
        try:
            sent = self._backend.send_messages([message.email_message])
        except Exception as error:  # whatever the backend raises, the e-mail may have been sent
            raise OutcomeUnknown(f"{type(error).__name__}: {error}", Phase.BEGUN) from error
        if not sent:
            raise OutcomeUnknown("The mail backend did not say that it sent it.", Phase.BEGUN)
        return "accepted by the mail backend"


def tells_phase(backend: object) -> bool:
    """Tell whether a backend (or its class) is a Transport."""
    return hasattr(backend, "submit")


def backend_path() -> str:
    """Return the import path of the backend that the settings name."""
    path: str = settings.EMAIL_BACKEND
    return path


def server_name() -> str:
    """Return the mail server that the settings name, as HOST:PORT: also the name of its site, which has the rate."""
    host = f"[{settings.EMAIL_HOST}]" if ":" in settings.EMAIL_HOST else settings.EMAIL_HOST
    return f"{host}:{settings.EMAIL_PORT}"


def new() -> Transport:
    """Return a new connection of the project's mail backend, not opened yet."""
    backend: Any = mail.get_connection(backend_path())
    return cast("Transport", backend) if tells_phase(backend) else AnyBackend(backend)
