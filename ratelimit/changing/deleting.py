"""Deletes sites, in the caller's transaction. The caller says which sites are in use; their clocks are judged here."""

from collections.abc import Sequence
from typing import NamedTuple

from weir.conf import settings
from weir.conf.texts.rates import parse_rate
from weir.postgres.statements import Statement
from weir.ratelimit import site_names
from weir.ratelimit.pacing import CONFIRMED_FOR_S
from weir.ratelimit.sites import LOCK, LOCK_SITE_NAMES


class LockedSite(NamedTuple):
    """A site that may be deleted, and whose row is locked."""

    id: int
    name: str


class JudgedSite(NamedTuple):
    """A site that was deleted, or the reason why it stays, and for how many seconds its clock does not let it go."""

    id: int
    name: str
    busy: str | None  # None: it was deleted
    free_in_s: float


DELETE_SITES = Statement("delete_sites", row=JudgedSite, commits=False)
HOLD_SITES = Statement("hold_sites", row=LockedSite, commits=False)
PURGE_DELETED_SITES = Statement("purge_deleted_sites", returns=int, commits=True)


def hold(sites: Sequence[int], patience_s: float) -> list[LockedSite]:
    """Lock these sites until the transaction ends; those that another transaction has locked are left out.

    Meanwhile nothing is reserved at these sites, and no other transaction changes which site a host belongs to. Raises
    OperationalError (LockNotAvailable) if another transaction holds the lock on site names for longer than `patience_s`
    seconds.
    """
    LOCK_SITE_NAMES(lock=LOCK, shared=False, patience=f"{patience_s * 1000:.0f}ms")
    return HOLD_SITES(sites=list(sites))


def delete(held: Sequence[LockedSite], in_use: Sequence[int], idle_for: float | None = None) -> list[JudgedSite]:
    """Delete the sites that `hold` has locked, except those `in_use` and busy ones; returns all of them, judged.

    With `idle_for`, sites that a person has set stay, too, and so do sites that were in use less than `idle_for`
    seconds ago. No host is asked sooner because its site was deleted.
    """
    above = [(site.name, ancestor) for site in held for ancestor in site_names.ancestors(site.name)]
    return DELETE_SITES(
        sites=[site.id for site in held],
        in_use=list(in_use),
        hosts=[host for host, _ in above],
        ancestors=[ancestor for _, ancestor in above],
        default_interval=parse_rate(settings.WEIR_DEFAULT_RATE),
        confirmed_for=CONFIRMED_FOR_S,
        idle_for=idle_for,
    )
