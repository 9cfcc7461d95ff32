"""Sites: which site a host belongs to, and how missing sites are created.

A host belongs to the site of its own name, or to the nearest site above it that covers subdomains. Both fetches and
reservations look up the sites of their hosts here.

The answer may be outdated when it is used: a *split* gives hosts of one site to another (site_settings.set_rate).
Splits are made one after the other, under LOCK, and recall reserved slots. So a slot may be used for a host if the host
still belongs to the site after the slot was committed: a later split recalls the slot. Code that reserves therefore
looks the host up again if `Site.split_until` says that the site was ever split.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from datetime import timedelta
from typing import NamedTuple

from django.db import OperationalError, transaction
from django.db.models import QuerySet
from psycopg.errors import LockNotAvailable

from weir.conf import settings
from weir.conf.texts.rates import parse_rate, spelled
from weir.postgres.statements import Statement, own_transaction
from weir.postgres.timeline import gate
from weir.ratelimit import site_names
from weir.ratelimit.models import LONG_AGO, PAUSED_FOREVER, Site
from weir.ratelimit.pacing import CONFIRMED_FOR_S

# The advisory lock of transactions that change which site a host belongs to: "Site" in ASCII.
LOCK = 0x53697465
REST_BATCH = 5_000
PATIENCE = 10.0  # seconds that a caller waits for other transactions that create or change the same sites


class KnownSite(NamedTuple):
    """The id and the name of a site that exists, and whether it ever had shares, which take turns there."""

    id: int
    name: str
    takes_turns: bool


BEGIN_TURNS = Statement("begin_turns", commits=False)
CREATE_SITES = Statement("create_sites", commits=False)
LOCK_SITE_NAMES = Statement("lock_site_names", commits=False)
NAMED_SITES = Statement("named_sites", row=KnownSite, commits=False)
REST_SITES = Statement("rest_sites", returns=int, commits=True)
STEP = Statement("step", returns=int, commits=False)


class SitesLocked(Exception):
    """Other transactions that change these sites did not end in time: nothing was created."""


class UnknownSite(LookupError):
    """There is no site of this name; `covering` is the name of a site that covers the host, if there is one."""

    def __init__(self, site: str, covering: str | None = None) -> None:
        those = "`manage.py sites` lists those that exist."
        hint = f"it is covered by {covering}. Name that one." if covering else those
        super().__init__(f"There is no site {site!r}: {hint}")


def known_sites(hosts: AbstractSet[str]) -> dict[str, KnownSite]:
    """Return the site of each of these hosts (in their canonical spelling); hosts without a site are left out."""
    found = {site.name: site for site in _named(hosts)}
    if (missing := hosts - found.keys()) and Site.objects.filter(covers_subdomains=True).exists():
        above = {host: site_names.ancestors(host) for host in missing}
        covering = _covering({ancestor for of_one in above.values() for ancestor in of_one})
        for host, of_one in above.items():
            if nearest := next((ancestor for ancestor in of_one if ancestor in covering), None):
                found[host] = covering[nearest]
    return found


def create_sites(hosts: Iterable[str], patience_s: float = PATIENCE) -> dict[str, KnownSite]:
    """Create the sites of these hosts that do not exist yet, at WEIR_DEFAULT_RATE; returns the sites of these names.

    A host that an existing site covers gets no site of its own. If a site covered the host before, the clock of its own
    site begins an interval after the last start that the former site promised. Commits in a transaction of its own, so
    that no other process has to wait for the caller's transaction. Raises SitesLocked if this has to wait for other
    transactions for longer than `patience_s` seconds.
    """
    interval = parse_rate(settings.WEIR_DEFAULT_RATE)
    names = sorted({site_names.canonical(host) for host in hosts})
    above = [(name, ancestor) for name in names for ancestor in site_names.ancestors(name)]
    try:
        with own_transaction() as execute:
            execute(LOCK_SITE_NAMES, lock=LOCK, shared=True, patience=f"{patience_s * 1000:.0f}ms")
            execute(
                CREATE_SITES,
                names=names,
                interval=interval,
                written_rate=spelled(settings.WEIR_DEFAULT_RATE),
                hosts=[host for host, _ in above],
                ancestors=[ancestor for _, ancestor in above],
                long_ago=LONG_AGO,
                rest=_rest(),
            )
            rows = execute(NAMED_SITES, names=names)
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise SitesLocked from error
        raise
    return {site.name: site for site in rows}


def rest_all() -> int:
    """Recall all slots of all sites, and let each rest: PostgreSQL has forgotten what was started there.

    Processes may still make forgotten starts for as long as the look-ahead and a confirmation last. No start is granted
    at a site in this time, nor in the grace and the time of a whole burst after it. Works in batches, each of which
    commits; returns the number of sites. May be called twice: the sites then rest for longer. Is a part of a recovery,
    and renews the recovery's lease.
    """
    rested, after, last = 0, 0, None
    while last is None or last:
        last = REST_SITES(after=after, batch=REST_BATCH, rest=_rest())
        gate.renew()
        rested, after = rested + len(last), max(last, default=after)
    return rested


def step_all(step: timedelta) -> int:
    """Correct the clocks of all sites after a step of PostgreSQL's clock, and recall all slots.

    Returns the number of sites. Runs in the caller's transaction. weir.workers.recovery.stepping calls this when no
    holder has a confirmation, so that nothing starts meanwhile.
    """
    return len(STEP(step=step, forever=PAUSED_FOREVER))


def _rest() -> timedelta:
    """Return how long, at most, processes may go on using slots that PostgreSQL has forgotten."""
    return timedelta(seconds=settings.WEIR_LOOKAHEAD + CONFIRMED_FOR_S)


def sites_of(hosts: AbstractSet[str], patience_s: float = PATIENCE) -> dict[str, int]:
    """Return the id of each host's site; missing sites are created at the default rate, and committed immediately.

    Raises SitesLocked if it has to wait for other transactions for longer than `patience_s` seconds.
    """
    return {host: site.id for host, site in each_site_of(hosts, patience_s).items()}


def each_site_of(hosts: AbstractSet[str], patience_s: float = PATIENCE) -> dict[str, KnownSite]:
    """Return each host's site, as `sites_of` does."""
    known = known_sites(hosts)
    while missing := hosts - known.keys():  # once more if another process has made a site cover a host meanwhile
        known |= create_sites(missing, patience_s)
        known |= known_sites(hosts - known.keys())
    return known


def begin_turns(sites: Iterable[KnownSite]) -> None:
    """Record that these sites have shares, before the first fetch with one is there.

    So whoever asks for a fetch from now on knows that shares take turns. Commits in a transaction of its own, as
    `create_sites` does, and waits for no other transaction. Writes nothing for sites that had shares before.
    """
    if new := sorted({site.id for site in sites if not site.takes_turns}):
        with own_transaction() as execute:
            execute(BEGIN_TURNS, sites=new)


def locked(name: str) -> Site | None:
    """Return the site of that name, and lock its row, so that nothing else changes it until the transaction ends."""
    return Site.objects.select_for_update(no_key=True).filter(name=name).first()


def is_unlocked(site_id: int) -> bool:
    """Return whether no transaction has locked the row of this site, which must exist."""
    with transaction.atomic():
        return _unlocked(pk=site_id).exists()


def end_split(site: Site) -> bool:
    """Record that the fetches of a split site have followed their hosts to other sites; returns whether it is recorded.

    Nothing is recorded if the site was split again since `site` was read, or if another transaction has locked its row.
    """
    with transaction.atomic():
        unlocked = _unlocked(pk=site.pk, split_until=site.split_until)
        return Site.objects.filter(pk__in=list(unlocked.values_list("pk", flat=True))).update(has_strays=False) > 0


def leave_to_purge(name: str) -> None:
    """Record that no person has set the site, so that purge may delete it once it has been idle."""
    Site.objects.filter(name=name).update(is_kept=False)


def _unlocked(**of_site: object) -> QuerySet[Site]:
    return Site.objects.filter(**of_site).select_for_update(skip_locked=True, no_key=True)


def unknown_site(name: str) -> UnknownSite:
    """Return the error for a name without a site of its own; the error names the site that covers the host, if any."""
    host = site_names.canonical(name)
    covering = known_sites({host}).get(host)
    return UnknownSite(name, covering.name if covering else None)


def _named(names: AbstractSet[str]) -> list[KnownSite]:
    return NAMED_SITES(names=list(names)) if names else []


def _covering(names: AbstractSet[str]) -> dict[str, KnownSite]:
    rows = Site.objects.filter(name__in=names, covers_subdomains=True).values_list("pk", "name", "turn_share")
    return {name: KnownSite(pk, name, share is not None) for pk, name, share in rows}
