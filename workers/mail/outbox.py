"""Queues e-mails for web code, each once.

from weir.workers.mail import outbox
outbox.send_once("user.welcome", str(user.pk), to=user.email, context={"user_id": user.pk})

`sending.leases` describes what becomes of a queued e-mail.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime
from typing import Any, NamedTuple

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, InterfaceError, OperationalError, connection, transaction
from django.utils import timezone, translation

from weir.postgres.statements import Statement
from weir.postgres.texts import storable
from weir.workers import task_names
from weir.workers.ledger import queueing
from weir.workers.ledger.waking import Waker, believed_for
from weir.workers.mail import addresses, kinds, renderings
from weir.workers.mail.addresses import CannotBeWritten
from weir.workers.mail.models import Email
from weir.workers.mail.phases import NAMES
from weir.workers.mail.rendering import Rendered, message_id, project_language, render
from weir.workers.publish import publish
from weir.workers.tracing import correlation, spans

# The fields of an Email that are passed to the statement `queue` unchanged.
_STORED = (
    "kind",
    "key",
    "recipient",
    "recipient_name",
    "language",
    "priority",
    "message_id",
    "correlation_id",
    "traceparent",
    "expires_at",
    "envelope_sender",
    "is_id_shared",
    *renderings.NOTED,
)
QUEUED_AT_ONCE = 1_000  # e-mails of a drafted kind in one statement


class StoredRow(NamedTuple):
    """What queue.sql returns of the e-mail that it has stored."""

    id: int
    created_at: datetime
    next_attempt_at: datetime
    expires_at: datetime | None
    does_older_wait: bool | None


class Queued(NamedTuple):
    """The e-mail of a kind and key, and whether this call has queued it."""

    email: Email
    is_new: bool


QUEUE = Statement("queue", row=StoredRow, commits=False, prepare=True)
_FIND = queueing.FIND.with_names(NAMES._asdict())


def send_once(
    kind: str,
    key: str,
    *,
    to: str,
    context: Mapping[str, Any] | None = None,
    language: str | None = None,
    not_before: datetime | None = None,
    expires_at: datetime | None = None,
    priority: int = 0,
    raises: bool = True,
) -> Email:
    """Queue the e-mail of this kind and key; return it, or the existing e-mail. Works in the caller's transaction.

    There is one e-mail for each kind and key, even if many processes call this at the same time: the first call counts,
    and later calls change nothing. The e-mail is submitted at most once. Workers are told when the transaction commits.

    The e-mail is rendered here, and sent as it is rendered now: later changes of templates or data do not change it.
    `to` is an address, or `Name <address>`. `context` has the kind's keyword arguments, which must be JSON. `language`
    is one of LANGUAGES, by default the active language. The e-mail is not sent before `not_before`. E-mails of a higher
    `priority` are sent first. No attempt begins at `expires_at` or later, by the database's clock: the e-mail is then
    `expired`. If `expires_at` is not given, the kind may say for how long the e-mail may be sent (`expires_after`).

    Raises kinds.UnknownKind. Raises CannotBeWritten (a ValueError), and stores nothing, if the key, an address, a time,
    the context, or what the kind returns is bad. An `expires_at` in the past is bad, unless the e-mail exists already.
    With `raises=False`, an e-mail that cannot be rendered is stored all the same. A mailer then tries to render it; if
    that fails, too, the e-mail is `failed`, and says why.
    """
    return queue_once(
        kind,
        key,
        to=to,
        context=context,
        language=language,
        not_before=not_before,
        expires_at=expires_at,
        priority=priority,
        raises=raises,
    ).email


def queue_once(
    kind: str,
    key: str,
    *,
    to: str,
    context: Mapping[str, Any] | None = None,
    language: str | None = None,
    not_before: datetime | None = None,
    expires_at: datetime | None = None,
    priority: int = 0,
    raises: bool = True,
) -> Queued:
    """Queue an e-mail as `send_once` does, and say whether there was none of this kind and key.

    Of calls at the same time, one has the new e-mail. The others wait until its transaction has ended.
    """
    kinds.get(kind)
    try:
        queueing.check("an e-mail", key, context, priority)
        due_at, ends_at = queueing.times(not_before, expires_at, kinds.expires_after(kind))
    except ValueError as error:
        raise CannotBeWritten(str(error)) from error
    language = project_language(language) if language else translation.get_language() or settings.LANGUAGE_CODE
    if _FIND(kind=kind, key=key):
        return Queued(Email.objects.get(kind=kind, key=key), is_new=False)
    if ends_at and ends_at <= timezone.now():
        raise CannotBeWritten(f"expires_at is past, so that it would never be sent: {ends_at}.")
    email = Email(
        kind=kind,
        key=key,
        context=dict(context or {}),
        language=language,
        priority=priority,
        message_id=message_id(kind, key),
        correlation_id=correlation.current(),
        expires_at=ends_at,
    )
    if due_at:
        email.next_attempt_at = due_at
    rendered: Rendered | None = None
    try:
        if storable(to, len(to)) == to:  # with letters replaced, the address might be another person's
            email.recipient = to.strip()[: addresses.LONGEST]
        email.recipient_name, email.recipient = addresses.split(to)
        rendered = render(email) if raises else _render_apart(email)
    except (CannotBeWritten, OperationalError, InterfaceError):
        if raises:
            raise
    with spans.span("enqueue e-mail", {"weir.kind": kind}):
        email.traceparent = spans.traceparent()
        return store(email, rendered)


def queue_drafted(kind: str, wanted: Sequence[tuple[str, str, Mapping[str, Any]]]) -> list[int]:
    """Queue e-mails of a drafted kind, each with a recipient, a key of its own and a context; return their ids.

    Works in the caller's transaction, with one statement for a thousand e-mails. An address that is none makes its
    e-mail fail when a mailer drafts it. Workers are told when the transaction commits.
    """
    emails = [_unrendered(kind, *each) for each in wanted]
    Email.objects.bulk_create(emails, batch_size=QUEUED_AT_ONCE)
    transaction.on_commit(wake_mailer, robust=True)
    return [email.pk for email in emails]


def _unrendered(kind: str, to: str, key: str, context: Mapping[str, Any]) -> Email:
    email = Email(
        kind=kind,
        key=key,
        context=dict(context),
        language=settings.LANGUAGE_CODE,
        message_id=message_id(kind, key),
        correlation_id=correlation.current(),
        expires_at=None,
    )
    with suppress(CannotBeWritten):
        if storable(to, len(to)) == to:
            email.recipient_name, email.recipient = addresses.split(to)
    return email


def wake_mailer(*, unless: Callable[[], bool] | None = None) -> None:
    """Tell a worker to look for e-mails that are due. The schedule also tells one every two seconds."""
    publish(task_names.SEND_EMAILS, unless=unless)


def _render_apart(email: Email) -> Rendered:
    """Render the e-mail in such a way that a failing query of its kind does not abort the caller's transaction."""
    with transaction.atomic() if connection.in_atomic_block else nullcontext():
        return render(email)


def store(email: Email, rendered: Rendered | None) -> Queued:
    """Store the e-mail and its rendering in the caller's transaction, unless there is one of its kind and key.

    Returns the stored e-mail. While another transaction is storing it, this waits for the end of that transaction.
    Workers are told when the caller's transaction commits.
    """
    if rendered:
        renderings.note(email, rendered)
    parameters = {name: getattr(email, name) for name in _STORED} | {
        "context": json.dumps(email.context),
        "not_before": email.next_attempt_at if isinstance(email.next_attempt_at, datetime) else None,
        "content": rendered.content if rendered else None,
        "expires_after": kinds.expires_after(email.kind),
        "believed_for": believed_for(),
    }
    stored = QUEUE(**parameters)
    if not stored:
        return Queued(Email.objects.get(kind=email.kind, key=email.key), is_new=False)
    email.pk, email.created_at, email.next_attempt_at, email.expires_at, does_older_wait = stored[0]
    email._state.adding, email._state.db = False, DEFAULT_DB_ALIAS  # noqa: SLF001  documented, in spite of its name
    _WAKER.after_commit(email, does_older_wait=does_older_wait)
    return Queued(email, is_new=True)


_WAKER = Waker(queueing.DOES_OLDER_WAIT.with_names(NAMES._asdict()), wake_mailer)
