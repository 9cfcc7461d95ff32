"""Deletes sites, in the caller's transaction: judged by their clocks here, and in use where the caller says so."""

from collections.abc import Sequence
from typing import NamedTuple

from weir.conf import settings
from weir.conf.texts.rates import parse_rate
from weir.postgres.statements import Statement
from weir.ratelimit import site_names
from weir.ratelimit.pacing import CONFIRMED_FOR_S
from weir.ratelimit.sites import LOCK, LOCK_SITE_NAMES


class LockedSite(NamedTuple):
    """A site that is judged, and whose row is locked."""

    id: int
    name: str


class JudgedSite(NamedTuple):
    """A site that was deleted, or why it stays, and how many seconds its clock keeps it."""

    id: int
    name: str
    busy: str | None  # None: it was deleted
    free_in_s: float


DELETE_SITES = Statement("delete_sites", row=JudgedSite, commits=False)
HOLD_SITES = Statement("hold_sites", row=LockedSite, commits=False)
PURGE_DELETED_SITES = Statement("purge_deleted_sites", returns=int, commits=True)


def hold(sites: Sequence[int], patience_s: float) -> list[LockedSite]:
    """Lock these sites until the transaction ends; those that another transaction has locked are left out.

    Nothing is reserved there meanwhile, and nobody else changes which site a host belongs to. Raises OperationalError
    (LockNotAvailable) where another transaction does so for longer than `patience_s` seconds.
    """
    LOCK_SITE_NAMES(lock=LOCK, shared=False, patience=f"{patience_s * 1000:.0f}ms")
    return HOLD_SITES(sites=list(sites))


def delete(held: Sequence[LockedSite], in_use: Sequence[int], idle_for: float | None = None) -> list[JudgedSite]:
    """Delete those of the sites that `hold` has locked that are neither `in_use` nor busy; returns all of them, judged.

    With `idle_for`, those stay, too, that a person has set, or that were in use less than so many seconds ago. No host
    is asked sooner for having lost its site.
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
