"""The outbox: e-mails that wait to be sent. What becomes of them on their way: `sending.leases`."""

from django.db import transaction

from workers import task_names
from workers.mail import kinds, rendering
from workers.mail.models import Email
from workers.publish import publish


def add(kind: str, key: str) -> Email:
    """Queue the e-mail of this kind about `key`, in the caller's transaction. Workers hear of it when that commits.

    Raises kinds.UnknownKind, and IntegrityError if there is one already.
    """
    kinds.get(kind)
    email: Email = Email.objects.create(kind=kind, key=key, message_id=rendering.message_id(kind, key))
    transaction.on_commit(lambda: _wake_mailer_unless_others_wait(email), robust=True)  # it is in the outbox by then
    return email


def wake_mailer() -> None:
    """Have a worker look for e-mails that are due. The schedule does so every two seconds."""
    publish(task_names.SEND_EMAILS)


def _wake_mailer_unless_others_wait(email: Email) -> None:
    """Send a message, unless an older e-mail is still due: the worker that takes that one goes on to this one."""
    if not Email.objects.due().filter(pk__lt=email.pk).exists():
        wake_mailer()
