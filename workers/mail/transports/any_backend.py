"""Makes a Transport of any of Django's mail backends."""

import smtplib
from collections.abc import Callable
from datetime import timedelta

from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

from weir.logs.loggers import get_logger
from weir.workers.mail.headers.texts import CannotBeWritten
from weir.workers.mail.message import Message
from weir.workers.mail.phases import Phase
from weir.workers.mail.transports.base import Accepted, BrokenOff, OutcomeUnknown, Refused, RelayRefuses, Unreachable
from weir.workers.mail.transports.foreign_errors import reason, verdict

log = get_logger(__name__)


class AnyBackend:
    """Any of Django's mail backends, as a Transport.

    The backend cannot tell how far an attempt came. If an error says for certain what became of the e-mail
    (`foreign_errors`), that counts; every other error is OutcomeUnknown. After an error the connection is closed.
    """

    key_lifetime: timedelta | None = None

    def __init__(self, backend: BaseEmailBackend) -> None:
        self._backend = backend
        self.is_connected = False

    def connect(self) -> None:
        """Connect, if the backend uses connections. Raises Unreachable."""
        try:
            self._backend.open()
        except Exception as error:  # whatever the backend raises
            self.close()
            found = verdict(error)
            raise (found if isinstance(found, RelayRefuses) else Unreachable(reason(error))) from error
        self.is_connected = True

    def close(self) -> None:
        """Close the backend's connection. Raises nothing."""
        self.is_connected = False
        try:
            self._backend.close()
        except Exception as error:  # noqa: BLE001  whatever the backend raises, it says nothing about an e-mail
            log.warning("mail_backend_not_closed", error=str(error))

    def submit(self, message: Message, begin: Callable[[], None]) -> Accepted:
        """Hand the e-mail to the backend; see `base.Transport`."""
        try:
            written = message.as_django()
        except CannotBeWritten as error:
            raise Refused(str(error), Phase.NOT_BEGUN, is_permanent=True) from error
        try:
            self._ask_whether_connected()
            begin()
            self._send(written)
        except BaseException:
            self.close()
            raise
        return Accepted("accepted by the mail backend", _provider_id(written))

    def _send(self, written: EmailMessage) -> None:
        try:
            sent = self._backend.send_messages([written])
        except Exception as error:
            raise verdict(error) from error
        if not sent:
            raise OutcomeUnknown("The mail backend did not say that it sent it.", Phase.BEGUN)

    def _ask_whether_connected(self) -> None:
        """Send NOOP if the backend speaks SMTP, because the server may have closed the connection. Raises BrokenOff.

        Without NOOP, a closed connection would make the e-mail unknown: smtplib raises the same error after the dot.
        """
        connection = getattr(self._backend, "connection", None)
        if isinstance(connection, smtplib.SMTP):
            try:
                connection.noop()
            except OSError as error:  # smtplib's errors are OSErrors
                raise BrokenOff(reason(error), Phase.NOT_BEGUN) from error


def _provider_id(sent: EmailMessage) -> str:
    """Return the id that a provider gave to the e-mail, if the backend keeps it as django-anymail's backends do."""
    named = getattr(getattr(sent, "anymail_status", None), "message_id", None)
    return named if isinstance(named, str) else ""
