"""Sites: to which one a host belongs, and how missing ones are created.

A host belongs to the site of its own name, or to the nearest site above it that covers subdomains. Fetches and
reservations both ask here.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from django.conf import settings

from ratelimit import site_names
from ratelimit.models import Site
from ratelimit.rates import parse_rate


class KnownSite(NamedTuple):
    """The id and the name of a site that exists."""

    id: int
    name: str


class UnknownSite(LookupError):
    """There is no site of this name; `covering` names the site that covers it, if there is one."""

    def __init__(self, site: str, covering: str | None = None) -> None:
        hint = (
            f"it is covered by {covering}. Name that one." if covering else "`manage.py sites` lists those that exist."
        )
        super().__init__(f"There is no site {site!r}: {hint}")


def known_sites(hosts: AbstractSet[str]) -> dict[str, KnownSite]:
    """Return the site of each of these hosts (in their canonical spelling); hosts without a site are left out."""
    found = _by_name(hosts)
    if (missing := hosts - found.keys()) and Site.objects.filter(covers_subdomains=True).exists():
        above = {host: site_names.ancestors(host) for host in missing}
        covering = _by_name({ancestor for of_one in above.values() for ancestor in of_one}, covers_subdomains=True)
        for host, of_one in above.items():
            if nearest := next((ancestor for ancestor in of_one if ancestor in covering), None):
                found[host] = covering[nearest]
    return found


def create_sites(hosts: Iterable[str]) -> None:
    """Create the sites of these hosts that do not exist yet, at WEIR_DEFAULT_RATE."""
    interval = parse_rate(settings.WEIR_DEFAULT_RATE)
    # Sorted, as two callers that create the same sites in different orders would deadlock (lock order).
    Site.objects.bulk_create(
        [Site(name=name, interval=interval) for name in sorted({site_names.canonical(host) for host in hosts})],
        ignore_conflicts=True,
    )


def sites_of(hosts: AbstractSet[str]) -> dict[str, int]:
    """Return the id of each host's site; missing sites are created at the default rate."""
    known = {host: site.id for host, site in known_sites(hosts).items()}
    if missing := hosts - known.keys():
        create_sites(missing)
        known.update(Site.objects.filter(name__in=missing).values_list("name", "pk"))
    return known


def unknown_site(name: str) -> UnknownSite:
    """Return the error for a name that has no site of its own; it names the site that covers it, if there is one."""
    host = site_names.canonical(name)
    covering = known_sites({host}).get(host)
    return UnknownSite(name, covering and covering.name)


def _by_name(names: AbstractSet[str], **conditions: bool) -> dict[str, KnownSite]:
    if not names:
        return {}
    rows = Site.objects.filter(name__in=names, **conditions).values_list("pk", "name")
    return {name: KnownSite(pk, name) for pk, name in rows}
