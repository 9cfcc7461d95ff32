"""Zones: which names have the same name servers, as far as names alone show. Pure.

A zone is a registrable domain: a name directly below a public suffix, such as `com`, `co.uk` or `github.io`. The list
of public suffixes (https://publicsuffix.org) comes with `publicsuffixlist`. Names do not show which ones are public,
and look-ups cannot teach it: an owner of ten domains below `co.uk` could make all others there share their fate. An old
list takes a new public suffix for one zone, which only makes its names share.
"""

from publicsuffixlist import PublicSuffixList

_suffixes = PublicSuffixList()


def zone_of(host: str) -> str:
    """Return the zone of a host's name in its ASCII form; a name without one, as `localhost`, is its own."""
    return _suffixes.privatesuffix(host.lower().rstrip(".")) or host
