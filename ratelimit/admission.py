"""Admission: lets in the requests that programs make to Weir, at the rate of a site.

A start that Weir makes itself has a slot (weir.ratelimit.slots), which a process holds, may use too late, or has to
give back. A request to Weir has none: it is counted when PostgreSQL lets it in.
"""

from weir.postgres.statements import Statement
from weir.ratelimit import site_names, slots
from weir.ratelimit.sites import create_sites, unknown_site

ADMIT = Statement("admit", returns=float, commits=True, prepare=True)


def admit(site: str, max_wait: float) -> float:
    """Let one request in; returns the seconds, `max_wait` at most, by which it is to be delayed.

    However many processes ask at the same time, the site's rate and burst hold. A missing site is created at the
    default rate. Commits by itself. Raises SlotTooFar if the wait would be longer (nothing is counted then), ValueError
    for a `max_wait` outside 0 to 100 years, and TransactionManagementError inside a transaction.
    """
    slots.check_max_wait(max_wait)
    site = site_names.canonical(site)
    while not (waits := ADMIT(site=site, max_wait=max_wait)):
        next_s = slots.wait_at(site, count=2)  # with a count of 1, it might be that of a slot that was given back
        if next_s is None:
            if not create_sites([site]):
                raise unknown_site(site)
        elif next_s > max_wait:
            raise slots.SlotTooFar(site, next_s)
    return waits[0]
