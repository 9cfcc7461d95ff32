"""Any of Django's mail backends as a Transport."""

from collections.abc import Callable
from datetime import timedelta

import structlog
from django.core.mail.backends.base import BaseEmailBackend

from workers.mail.message import Message
from workers.mail.phases import Phase
from workers.mail.transports.base import Accepted, OutcomeUnknown, Unreachable

log = structlog.get_logger(__name__)


class AnyBackend:
    """Any of Django's mail backends, as a Transport. It cannot tell how far it came: a failure is OutcomeUnknown."""

    key_lifetime: timedelta | None = None

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

    def submit(self, message: Message, begin: Callable[[], None]) -> Accepted:
        """Hand the e-mail to the backend. Raises OutcomeUnknown."""
        begin()
        try:
            sent = self._backend.send_messages([message.as_django()])
        except Exception as error:  # whatever the backend raises, the e-mail may have been sent
            self.close()
            raise OutcomeUnknown(f"{type(error).__name__}: {error}", Phase.BEGUN) from error
        if not sent:
            self.close()
            raise OutcomeUnknown("The mail backend did not say that it sent it.", Phase.BEGUN)
        return Accepted("accepted by the mail backend")
