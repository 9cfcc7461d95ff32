"""The suppression list: addresses to which nothing is sent, or nothing of a kind from which they have unsubscribed."""

import math
import re
from collections.abc import Iterable
from datetime import datetime

from weir.postgres import batches
from weir.postgres.statements import Statement
from weir.workers.mail.addresses import address_hash
from weir.workers.mail.models import Email, Suppression, Unsubscription

__all__ = ["address_hash"]  # so that code that lists addresses need not import `addresses`

INSTEAD = "What was said here went when the recipient was forgotten."


def entry_of(address: str) -> Suppression | None:
    """Return the entry that keeps e-mails from this address; None if it is not on the list."""
    return Suppression.objects.filter(address_hash=address_hash(address)).first() if address else None


def reasons(addresses: Iterable[str]) -> dict[str, str]:
    """Return, for each of these addresses that is on the list, a sentence that says why nothing is sent to it."""
    hashes = {address: address_hash(address) for address in addresses}
    if not hashes:
        return {}
    listed = dict(Suppression.objects.filter(address_hash__in=hashes.values()).values_list("address_hash", "why"))
    return {
        address: f"The recipient is on the suppression list: {listed[hashed]}"
        for address, hashed in hashes.items()
        if hashed in listed
    }


def reasons_of(emails: Iterable[Email]) -> dict[int, str]:
    """Return, by id, why these e-mails are not sent: those to an address on the list, or of a kind it unsubscribed."""
    wanted = list(emails)
    hashes = {email.pk: address_hash(email.recipient) for email in wanted}
    left = Unsubscription.objects.filter(
        address_hash__in=hashes.values(), kind__in={email.kind for email in wanted}
    ).values_list("address_hash", "kind", "since")
    unsubscribed = {(hashed, kind): since for hashed, kind, since in (left if wanted else ())}
    because = {
        email.pk: f"The recipient unsubscribed from {email.kind} on {since:%Y-%m-%d}."
        for email in wanted
        if (since := unsubscribed.get((hashes[email.pk], email.kind)))
    }
    listed = reasons({email.recipient for email in wanted})
    return because | {email.pk: listed[email.recipient] for email in wanted if email.recipient in listed}


def unsubscribed_at(email: Email) -> datetime | None:
    """Return when the e-mail's recipient unsubscribed from its kind; None if the recipient did not, or is forgotten."""
    left = Unsubscription.objects.filter(address_hash=address_hash(email.recipient), kind=email.kind)
    return left.values_list("since", flat=True).first() if email.recipient else None


def unsubscribe(hashed: str, kind: str) -> bool:
    """Send no more e-mails of this kind to the address with this hash; return False if that was so already."""
    _, is_new = Unsubscription.objects.get_or_create(address_hash=hashed, kind=kind)
    return is_new


def resubscribe(hashed: str, kind: str) -> bool:
    """Send e-mails of this kind to the address with this hash again; return False if it had not unsubscribed."""
    deleted, _ = Unsubscription.objects.filter(address_hash=hashed, kind=kind).delete()
    return bool(deleted)


FORGET = Statement("forget", returns=int, commits=True)


def suppress(address: str, why: str, *, keep_address: bool = True) -> bool:
    """Put an address on the list, in the caller's transaction; return False if it was listed already."""
    _, is_new = Suppression.objects.get_or_create(
        address_hash=address_hash(address), defaults={"address": address if keep_address else "", "why": why}
    )
    return is_new


def release(address: str) -> bool:
    """Take an address off the list; return False if it was not listed."""
    return release_hash(address_hash(address))


def release_hash(hashed: str) -> bool:
    """Take the address with this hash off the list. The address itself may have been forgotten."""
    deleted, _ = Suppression.objects.filter(address_hash=hashed).delete()
    return bool(deleted)


def forget(address: str, why: str) -> None:
    """List only the hash of an address, whether it was listed before or not, in the caller's transaction."""
    if not suppress(address, why, keep_address=False):
        Suppression.objects.filter(address_hash=address_hash(address)).update(address="", why=why)


def is_forgotten(address: str) -> bool:
    """Return whether the list has only the hash of the address, because its owner was forgotten."""
    return bool(forgotten([address]))


def forgotten(addresses: Iterable[str]) -> list[str]:
    """Return those of these addresses of which the list has only the hash, because their owners were forgotten."""
    hashes = {address_hash(address): address for address in addresses if address}
    listed = Suppression.objects.filter(address_hash__in=hashes, address="") if hashes else Suppression.objects.none()
    return [hashes[found] for found in listed.values_list("address_hash", flat=True)]


def forget_ended(address: str, batch: int, *, within_s: float = math.inf) -> int:
    """Remove personal data from all e-mails to the address that neither wait nor are being sent (an unknown one, too).

    The reasons of their resolutions lose the address. Returns how many e-mails were changed.

    Each batch of `batch` e-mails is a transaction of its own, so this must not be called inside a transaction. No other
    batch begins after `within_s` seconds.
    """
    return batches.delete(
        FORGET, batch=batch, within_s=within_s, address=address, pattern=re.escape(address), instead=INSTEAD
    )
