"""Resends many failed e-mails together, after the cause of their failure was fixed.

Only e-mails that were certainly not accepted are resent. An e-mail whose outcome was unknown, and which a person left
unsent, may have arrived: operators resolve such e-mails one by one. E-mails are resent in batches. Each batch has an
entry in the audit trail, and each e-mail a Resolution. `resend` raises acting.ActRefused if the actor may not act, or
gives no reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from weir.postgres import own_commits, planner
from weir.workers.audit.acting import Actor
from weir.workers.mail import outbox, resolving
from weir.workers.mail.actions.emails import RESOLVE
from weir.workers.mail.models import Act, Email, Resolution
from weir.workers.mail.phases import EmailState

BATCH: Final = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedEmails:
    """Selects failed e-mails by their kind, by words in their last reply, and by the time since which they failed.

    "" and None select any.
    """

    kind: str = ""
    reply: str = ""
    since: timedelta | None = None

    def __str__(self) -> str:
        said = {"kind": self.kind, "reply": self.reply, "since": self.since}
        return ", ".join(f"{name} {value}" for name, value in said.items() if value) or "all"


class MoreEmailsThanExpected(ValueError):
    """More e-mails would be resent than the caller expected: nothing was done."""


def failed(wanted: WantedEmails, limit: int | None = None) -> list[int]:
    """Return the ids of the failed e-mails that would be resent, the oldest first. Reads only failed e-mails."""
    emails = _matching(wanted)
    if wanted.since is not None:
        emails = emails.filter(ended_at__gte=Now() - wanted.since)
    with transaction.atomic():
        planner.by_indexes()
        return list(emails.order_by("created_at", "pk").values_list("pk", flat=True)[:limit])


def _matching(wanted: WantedEmails) -> QuerySet[Email]:
    """Return the failed e-mails of the wanted kind, with the wanted text in their last reply, whenever they failed.

    Without those that were given up.
    """
    given_up = Resolution.objects.filter(email=OuterRef("pk"), act=Act.GIVE_UP)
    emails: QuerySet[Email] = Email.objects.filter(~Exists(given_up), state=EmailState.FAILED)
    if wanted.kind:
        emails = emails.filter(kind=wanted.kind)
    if wanted.reply:
        emails = emails.filter(last_reply__icontains=wanted.reply)
    return emails


def resend(
    actor: Actor, wanted: WantedEmails, *, why: str, limit: int | None = None, expected: int | None = None
) -> tuple[int, list[str]]:
    """Resend the oldest `limit` failed e-mails, or all. Return how many are resent, and why the others are not.

    Each batch is committed by itself. Raises TransactionManagementError inside a transaction, and
    MoreEmailsThanExpected if more than `expected` e-mails would be resent.
    """
    own_commits.refuse_transaction("resend")
    RESOLVE[Act.RESEND].allow(actor, why)
    ids = failed(wanted, limit)
    if expected is not None and len(ids) > expected:
        text = f"{len(ids):,} e-mails would be sent again, not {expected:,} at most"
        raise MoreEmailsThanExpected(f"{text}: nothing was done. Look at what failed.")
    number, refused = 0, list[str]()
    for start in range(0, len(ids), BATCH):
        number += _batch(actor, wanted, ids[start : start + BATCH], why, refused)
    return number, refused


def _batch(actor: Actor, wanted: WantedEmails, ids: Sequence[int], why: str, refused: list[str]) -> int:
    number = 0
    with transaction.atomic(durable=True):
        locked = list(Email.objects.filter(pk__in=ids).order_by("pk").select_for_update().values_list("pk", flat=True))
        # This second statement sees what other transactions committed before the rows were locked: for example, that
        # an operator left one of the e-mails unsent.
        for email_id in _matching(wanted).filter(pk__in=locked).order_by("pk").values_list("pk", flat=True):
            try:
                resolving.resolve(email_id, Act.RESEND, actor.name, why, wakes=False)
            except resolving.CannotBeResolved as error:
                refused.append(str(error))
            else:
                number += 1
        if number:
            target = f"failed e-mails: {wanted}"
            RESOLVE[Act.RESEND].record(actor, target, why, before=None, after={"sent again": number})
            transaction.on_commit(outbox.wake_mailer, robust=True)
    return number
