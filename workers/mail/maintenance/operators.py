"""What operators do about whole kinds and about addresses. Each act is recorded, with who did it and why (MailAct).

Acts are kept when an address is forgotten, so the address is removed from reasons before they are recorded.

The functions raise ValueError, and do nothing, if they would record an act with a blank `who` or `why`.
"""

from django.db import transaction

from weir.workers.mail import addresses, kinds, outbox, suppression
from weir.workers.mail.models import MailAct, PausedKind

What = MailAct.What


def pause(kind: str, who: str, why: str) -> bool:
    """Begin no more e-mails of the kind; return False if it was paused already: then the first reason stays.

    E-mails of the kind that a mailer has claimed are still sent. Raises kinds.UnknownKind.
    """
    kinds.get(kind)
    with transaction.atomic():
        _, is_new = PausedKind.objects.get_or_create(kind=kind, defaults={"who": who.strip(), "why": why.strip()})
        if is_new:
            note(What.PAUSE, kind, who, why)
    return is_new


def resume(kind: str, who: str, why: str) -> bool:
    """Resume sending this kind; return False if it was not paused. The kind need not be registered any more."""
    with transaction.atomic():
        is_gone, _ = PausedKind.objects.filter(kind=kind).delete()
        if is_gone:
            note(What.RESUME, kind, who, why)
            transaction.on_commit(outbox.wake_mailer, robust=True)
    return bool(is_gone)


def suppress(address: str, who: str, why: str) -> bool:
    """Put an address on the suppression list; return False if it was listed already: then the first reason stays.

    Raises CannotBeWritten if the text is not an address.
    """
    address = addresses.canonical(address.strip())
    with transaction.atomic():
        is_new = suppression.suppress(address, why.strip())
        if is_new:
            note(What.SUPPRESS, suppression.address_hash(address), who, addresses.redacted(why, address))
    return is_new


def release(address: str, who: str, why: str, *, kind: str = "") -> bool:
    """Take an address off the suppression list; return False if it was not listed.

    With `kind`, the address gets e-mails of this kind again, from which its owner had unsubscribed; return False if it
    had not.
    """
    address_hash = suppression.address_hash(addresses.as_stored(address))
    return release_hash(address_hash, who, addresses.redacted(why, address), kind=kind)


def release_hash(address_hash: str, who: str, why: str, *, kind: str = "") -> bool:
    """Do what `release` does for the address with this hash. The address itself may have been forgotten.

    The caller must have removed the address from `why`.
    """
    with transaction.atomic():
        is_gone = suppression.resubscribe(address_hash, kind) if kind else suppression.release_hash(address_hash)
        if is_gone:
            note(What.RELEASE, address_hash, who, f"{kind}: {why}" if kind and why.strip() else why)
    return is_gone


def note(what: MailAct.What, about: str, who: str, why: str) -> None:
    """Record what an operator does, in the caller's transaction."""
    if not who.strip() or not why.strip():
        raise ValueError("Say who does it, and why.")
    MailAct.objects.create(what=what, about=about, who=who.strip(), why=why.strip())
