"""Zones: whose name servers answer for a name, as far as names alone tell. Pure.

A zone is a registrable domain: what somebody can register below a public suffix, such as `com`, `co.uk` or `github.io`,
whose list (https://publicsuffix.org) comes with `publicsuffixlist`. Which domains are public cannot be seen from their
names, nor learned from look-ups: who owns ten domains below `co.uk` could have all others there share their fate.
An old list takes a new public suffix for one zone, which only makes its names share.
"""

from publicsuffixlist import PublicSuffixList

_suffixes = PublicSuffixList()


def zone_of(host: str) -> str:
    """Return the zone of a host's name in its ASCII form; a name without one, as `localhost`, is its own."""
    return _suffixes.privatesuffix(host.lower().rstrip(".")) or host
