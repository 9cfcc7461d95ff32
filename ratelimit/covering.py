"""Which site's lane a host belongs to: its own, or that of the nearest site above it that covers subdomains.

The one place that says so, for fetches and for reservations.
"""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from ratelimit.lanes import ancestors
from ratelimit.models import Site


class KnownSite(NamedTuple):
    """A site that exists."""

    id: int
    name: str


def known_sites(names: AbstractSet[str]) -> dict[str, KnownSite]:
    """Return the site of each of these names, in their canonical spelling, that has one or is covered by one."""
    found = _by_name(names)
    if (missing := names - found.keys()) and Site.objects.filter(covers_subdomains=True).exists():
        above = {name: ancestors(name) for name in missing}
        covering = _by_name({ancestor for of_one in above.values() for ancestor in of_one}, covers_subdomains=True)
        for name, of_one in above.items():
            if nearest := next((ancestor for ancestor in of_one if ancestor in covering), None):
                found[name] = covering[nearest]
    return found


def _by_name(names: AbstractSet[str], **conditions: bool) -> dict[str, KnownSite]:
    if not names:
        return {}
    rows = Site.objects.filter(name__in=names, **conditions).values_list("pk", "name")
    return {name: KnownSite(pk, name) for pk, name in rows}
