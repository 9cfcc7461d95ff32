"""Forgets a recipient: removes personal data from all e-mails to an address, and keeps the proof of what was sent."""

import math
import time
from collections.abc import Callable
from typing import NamedTuple

from django.db import transaction
from django.db.models import QuerySet, Value
from django.db.models.functions import Lower

from weir.workers.mail import addresses, resolving, suppression
from weir.workers.mail.maintenance import operators, purge
from weir.workers.mail.models import LOWER_RECIPIENT, Act, Email, MailAct

BATCH = 500  # e-mails
WAIT_S = 10.0  # how long to wait for e-mails that are being transmitted
LOOK_EVERY_S = 0.2
LISTED_BECAUSE = "Its owner was forgotten."


class Forgotten(NamedTuple):
    """What became of the e-mails to an address: how many were forgotten, and how many of these were cancelled first.

    `left` counts those that a relay has in hand, or is asked about, or for which time was short: call again.
    """

    forgotten: int
    cancelled: int
    left: int


def forget_recipient(
    address: str,
    who: str,
    why: str,
    *,
    wait_s: float = WAIT_S,
    within_s: float = math.inf,
    note: Callable[[], object] | None = None,
) -> Forgotten:
    """Remove an address from all e-mails; no more is written to it.

    1. The address's hash is put on the suppression list, the act is recorded with this hash, and `note` is called.
    2. E-mails that wait are cancelled, including those that a mailer has claimed and not begun.
    3. Recipient, context, subject, replies and contents of ended e-mails are removed, and so are the contents of the
       same messages to others: at once, or by the next purge after their end. Kind, key, Message-ID, hashes,
       times, state, relay and the provider's id stay: keys should not be personal.
    4. For e-mails that are being transmitted, this function waits, `wait_s` seconds at most.

    An e-mail may be queued in a transaction that commits only after this call. The mailer that finds it forgets it.

    Works in short transactions, so it may be killed anywhere, and repeated. No further transaction begins after
    `within_s` seconds. Raises ValueError if `address`, `who` or
    `why` is blank, and RuntimeError inside a transaction.
    """
    address = addresses.as_stored(address)
    if not address:  # a blank would match all e-mails whose recipient was forgotten, or is not known yet
        raise ValueError("Say which address is to be forgotten.")
    with transaction.atomic(durable=True):
        reason = addresses.redacted(why, address)
        operators.note(MailAct.What.FORGET, suppression.address_hash(address), who, reason)
        suppression.forget(address, LISTED_BECAUSE)
        if note:
            note()
    forgotten = cancelled = 0
    give_up_at, end_at = time.monotonic() + min(wait_s, within_s), time.monotonic() + within_s
    while True:
        cancelled += _cancel(address, who, why, end_at)
        forgotten += suppression.forget_ended(address, BATCH, within_s=end_at - time.monotonic())
        purge.purge(max(0.0, end_at - time.monotonic()))
        left = _to(address).count()
        if not left or time.monotonic() >= give_up_at:
            return Forgotten(forgotten=forgotten, cancelled=cancelled, left=left)
        time.sleep(LOOK_EVERY_S)


def _to(address: str) -> QuerySet[Email]:
    """Return the e-mails that still name the address. Uses the index weir_email_recipient."""
    found: QuerySet[Email] = Email.objects.alias(lower_recipient=LOWER_RECIPIENT).filter(
        lower_recipient=Lower(Value(address))
    )
    return found


def _cancel(address: str, who: str, why: str, end_at: float) -> int:
    """Cancel the waiting e-mails, each in a transaction of its own, until `end_at`; return how many were cancelled."""
    waiting = _to(address).filter(state__in=resolving.ALLOWED[Act.CANCEL], ask_until=None).order_by("pk")
    done = 0
    ids = [0]
    while ids := list(waiting.filter(pk__gt=ids[-1]).values_list("pk", flat=True)[:BATCH]):
        for email_id in ids:
            if time.monotonic() >= end_at:
                return done
            try:
                resolving.resolve(email_id, Act.CANCEL, who, f"The recipient is forgotten: {why}")
            except resolving.CannotBeResolved:  # a mailer has begun to send it meanwhile
                continue
            done += 1
    return done
