"""Zones: which names have the same name servers, as far as names alone show. Pure.

A zone is a registrable domain: a name directly below a public suffix, such as `com`, `co.uk` or `github.io`. The list
of public suffixes (https://publicsuffix.org) comes with `publicsuffixlist`. A suffix does not show that it is public,
and Weir must not learn it from look-ups: an owner of ten domains below `co.uk` could make all other domains there share
their fate. An old list takes a new public suffix for one zone, so that the names below it share one window.
"""

from publicsuffixlist import PublicSuffixList

_suffixes = PublicSuffixList()


def zone_of(host: str) -> str:
    """Return the zone of a host's name in its ASCII form; a name without one, such as `localhost`, is its own zone."""
    return _suffixes.privatesuffix(host.lower().rstrip(".")) or host
