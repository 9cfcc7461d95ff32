"""A mail backend of Django's that queues each message in the outbox, in the caller's transaction.

1. What Django would transmit is read, and checked (`written`).
2. For each recipient a row is stored, with these bytes, in the caller's transaction: `pending`. If the caller has no
   transaction, all rows of a message are committed together.
3. The commit wakes a mailer, which sends each e-mail once.

If the process is killed before the commit, nothing was queued. If it is killed after it, the e-mails are sent, and a
task that then runs again finds their keys (`keys`).
"""

from collections.abc import Sequence
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import uuid4

from django.conf import settings as django_settings
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.db import Error, transaction
from django.utils import translation

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.postgres.statements import Statement
from weir.workers.ledger import queueing
from weir.workers.mail import kinds, outbox
from weir.workers.mail.addresses import CannotBeWritten
from weir.workers.mail.django_mail import keys
from weir.workers.mail.django_mail.written import WrittenMessage, written
from weir.workers.mail.message import FromOutbox
from weir.workers.mail.models import Email
from weir.workers.mail.rendering import LONGEST_SUBJECT, Rendered
from weir.workers.mail.transports.base import RelayRefuses
from weir.workers.tracing import correlation, spans

log = get_logger(__name__)
_tells = ContextVar("weir_outbox_tells", default=False)


class AlikeRow(NamedTuple):
    """The newest e-mail of the same content."""

    id: int
    number: int
    is_recent: bool


FIND_ALIKE = Statement("find_alike", row=AlikeRow, commits=False, prepare=True)

if kinds.OF_DJANGO not in kinds.names():
    kinds.register_written(kinds.OF_DJANGO)


class OutboxBackend(BaseEmailBackend):
    """EMAIL_BACKEND = "weir.OutboxBackend": each message that Django sends is queued in the outbox, and sent once.

    It takes no part in what Weir's mailers do: EMAIL_HOST and the like, or WEIR_MAIL_RELAYS, name their mail server.
    """

    is_outbox = True
    fail_silently: bool

    def __init__(
        self,
        *,
        fail_silently: bool = False,
        kind: str = kinds.OF_DJANGO,
        priority: int = 0,
        relay: str = "",  # noqa: ARG002  mail_server reads it
        username: str | None = None,  # noqa: ARG002  of a mail server
        password: str | None = None,  # noqa: ARG002  of a mail server
        **options: Any,
    ) -> None:
        """Take the kind and the priority of its messages, and what Django gives to each backend.

        `relay`, in OPTIONS of MAILERS, names the mailer through which Weir sends. Django's `auth_user` and
        `auth_password` mean nothing here.
        """
        super().__init__(**options)
        self.fail_silently = fail_silently
        self.kind, self.priority = kind, priority

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Queue the messages; return how many are in the outbox now. A message that was there already counts, too.

        Raises CannotBeWritten (a ValueError) for a message that the outbox does not take, UnknownKind, errors of the
        database, and what Django raises for a message that cannot be written. If `fail_silently` is true, only the last
        of these are raised; the others are logged, and the caller's transaction goes on.
        """
        if _tells.get():  # a log handler sends its lines by e-mail
            return 0
        return sum(self._is_queued(message) for message in email_messages or () if message.recipients())

    def _is_queued(self, message: EmailMessage) -> bool:
        if isinstance(message, FromOutbox):
            raise RelayRefuses("The settings make the outbox its own relay: name a mail server in WEIR_MAIL_RELAYS.")
        try:
            self._queue(written(message))
        except (CannotBeWritten, kinds.UnknownKind, Error) as error:
            if not self.fail_silently:
                raise
            _tell(error)
            return False
        return True

    def _queue(self, message: WrittenMessage) -> None:
        """Queue the message for all of its recipients, or for none."""
        kind = message.kind or self.kind
        kinds.get(kind)
        if not kinds.is_written(kind):
            raise CannotBeWritten(f"{kind} is a kind that an app renders: register another one with written_kind.")
        try:
            queueing.check_priority(self.priority)
        except ValueError as error:
            raise CannotBeWritten(str(error)) from error
        with (
            spans.span("enqueue e-mail", {"weir.kind": kind}),
            transaction.atomic(savepoint=self.fail_silently),
        ):
            for address in sorted(message.recipients):  # in one order, or two callers might wait for each other
                self._queue_for(message, kind, address)

    def _queue_for(self, message: WrittenMessage, kind: str, address: str) -> None:
        key = keys.for_recipient(message.key, address) if message.key else _free_key(message.digest, kind, address)
        if not key:
            return
        email = Email(
            kind=kind,
            key=key,
            recipient_name=message.recipients[address],
            language=translation.get_language() or django_settings.LANGUAGE_CODE,
            priority=self.priority,
            message_id=message.message_id,
            envelope_sender=message.sender,
            is_id_shared=message.is_id_shared,
            correlation_id=correlation.current(),
            traceparent=spans.traceparent(),
        )
        outbox.store(email, Rendered(address, message.content, message.subject[:LONGEST_SUBJECT]))


def _free_key(digest: str, kind: str, address: str) -> str:
    """Return the key of the next e-mail of this content; an empty string if the last one is recent enough to be it.

    Of callers that get the same key at once, `outbox.store` lets one store its e-mail.
    """
    beginning, within = keys.alike(digest, address), timedelta(seconds=settings.WEIR_MAIL_SAME_WITHIN)
    if not within:
        return f"{beginning}{uuid4().hex}"
    found = FIND_ALIKE(
        kind=kind,
        digest=beginning,
        first=keys.numbered(beginning, 0),
        last=keys.numbered(beginning, keys.MOST),
        digits=keys.DIGITS,
        within=within,
    )
    if not found:
        return keys.numbered(beginning, 0)
    return "" if found[0].is_recent else keys.numbered(beginning, found[0].number + 1)


def _tell(error: Exception) -> None:
    """Log why a message is not in the outbox. A log handler that sends e-mails is not asked to send one about this."""
    token = _tells.set(True)
    try:
        log.warning("email_not_queued", error=str(error))
    finally:
        _tells.reset(token)
