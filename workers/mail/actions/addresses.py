"""Suppresses, releases and forgets addresses, each with a reason and an entry in the audit trail.

The audit trail is kept when an address is forgotten. So the trail has only the hash of the address, and reasons from
which the address is removed. Each function raises acting.ActRefused if the actor may not act, or gives no reason.
"""

from functools import partial
from typing import Final

from django.db import transaction

from weir.workers.audit.acting import Actor, AuditedAction
from weir.workers.mail import addresses, suppression
from weir.workers.mail.actions.emails import MAY_ACT
from weir.workers.mail.maintenance import forgetting, operators
from weir.workers.mail.models import Suppression

SUPPRESS: Final = AuditedAction("emails.suppress", MAY_ACT, wants_reason=True)
RELEASE: Final = AuditedAction("emails.release", MAY_ACT, wants_reason=True)
FORGET: Final = AuditedAction("emails.forget", MAY_ACT, wants_reason=True)


def suppress(actor: Actor, address: str, *, why: str) -> bool:
    """Put an address on the suppression list; return False if it was listed already.

    Raises addresses.CannotBeWritten if the text is not an address.
    """
    SUPPRESS.allow(actor, why)
    hashed, reason = suppression.address_hash(addresses.canonical(address.strip())), addresses.redacted(why, address)
    with transaction.atomic():
        if is_new := operators.suppress(address, actor.name, why):
            SUPPRESS.record(actor, hashed, reason, before={"suppressed": False}, after={"suppressed": True})
        return is_new


def release(actor: Actor, address_hash: str, *, why: str, kind: str = "") -> bool:
    """Take the address with this hash off the suppression list; return False if it was not listed.

    With `kind`, the address gets e-mails of this kind again, from which its owner had unsubscribed.
    """
    RELEASE.allow(actor, why)
    with transaction.atomic():
        address = Suppression.objects.filter(address_hash=address_hash).values_list("address", flat=True).first()
        reason = addresses.redacted(why, address) if address else why
        if was_listed := operators.release_hash(address_hash, actor.name, reason, kind=kind):
            of = {"kind": kind} if kind else {}
            RELEASE.record(actor, address_hash, reason, before={"suppressed": True, **of}, after={"suppressed": False})
        return was_listed


def forget(actor: Actor, address: str, *, why: str, **times: float) -> forgetting.Forgotten:
    """Remove personal data from all e-mails to an address, in several transactions.

    The first of them writes the entry in the audit trail. `times` are those of forgetting.forget_recipient.
    """
    FORGET.allow(actor, why)
    address = addresses.as_stored(address)
    note = partial(FORGET.record, actor, suppression.address_hash(address), addresses.redacted(why, address))
    return forgetting.forget_recipient(address, actor.name, why, note=partial(note, before=None, after=None), **times)
