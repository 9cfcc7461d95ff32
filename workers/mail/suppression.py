"""The suppression list: addresses that are not written to."""

import hashlib
import re
from collections.abc import Iterable

from weir.postgres import batches
from weir.postgres.statements import Statement
from weir.workers.mail.models import Suppression

INSTEAD = "What was said here went when the recipient was forgotten."


def address_hash(address: str) -> str:
    """Return what an address is recognised by, even after it was forgotten: the SHA-256 of it in lower case."""
    return hashlib.sha256(address.lower().encode()).hexdigest()


def entry_of(address: str) -> Suppression | None:
    """Return the entry that keeps e-mails from this address; None if it is not on the list."""
    return Suppression.objects.filter(address_hash=address_hash(address)).first() if address else None


def reasons(addresses: Iterable[str]) -> dict[str, str]:
    """Return, for each of these addresses that is on the list, why it is not written to."""
    hashes = {address: address_hash(address) for address in addresses}
    if not hashes:
        return {}
    listed = dict(Suppression.objects.filter(address_hash__in=hashes.values()).values_list("address_hash", "why"))
    return {
        address: f"The recipient is on the suppression list: {listed[hashed]}"
        for address, hashed in hashes.items()
        if hashed in listed
    }


FORGET = Statement("forget", returns=int, commits=True)


def suppress(address: str, why: str, *, keep_address: bool = True) -> bool:
    """Put an address on the list, in the caller's transaction; False if it was there."""
    _, is_new = Suppression.objects.get_or_create(
        address_hash=address_hash(address), defaults={"address": address if keep_address else "", "why": why}
    )
    return is_new


def release(address: str) -> bool:
    """Take an address off the list; False if it was not there."""
    return release_hash(address_hash(address))


def release_hash(hashed: str) -> bool:
    """Take an address off the list by its hash: the address itself may have been forgotten."""
    deleted, _ = Suppression.objects.filter(address_hash=hashed).delete()
    return bool(deleted)


def forget(address: str, why: str) -> None:
    """Put an address on the list, or leave it there, by its hash only, in the caller's transaction."""
    if not suppress(address, why, keep_address=False):
        Suppression.objects.filter(address_hash=address_hash(address)).update(address="", why=why)


def is_forgotten(address: str) -> bool:
    """Return whether the address is on the list by its hash only, because its owner was forgotten."""
    return bool(forgotten([address]))


def forgotten(addresses: Iterable[str]) -> list[str]:
    """Return which of these addresses are on the list by their hash only, because their owners were forgotten."""
    hashes = {address_hash(address): address for address in addresses if address}
    listed = Suppression.objects.filter(address_hash__in=hashes, address="") if hashes else Suppression.objects.none()
    return [hashes[found] for found in listed.values_list("address_hash", flat=True)]


def forget_ended(address: str, batch: int) -> int:
    """Remove personal data from all e-mails to the address that have ended; return how many.

    In transactions of `batch` e-mails each, so not inside a transaction.
    """
    return batches.delete(FORGET, batch=batch, address=address, pattern=re.escape(address), instead=INSTEAD)
