"""File descriptors: the limit of this process, and whether its connections use most of them."""

import os
import resource

from weir.conf import settings

FOLDERS = ("/proc/self/fd", "/dev/fd")  # Linux; other systems
SCARCE = 0.6  # the part of the limit beyond which a connection is closed after its answer, not kept for another request
SHORT = 0.9  # the part of the limit beyond which no messages are taken
IN_FLIGHT = 0.6  # the part of the limit that fetches may use: each has a connection at most
LOOKUPS = 0.25  # the part that look-ups may use: each has a socket
BESIDE = 0.1  # the part that fetches may use while they try several addresses together


def raise_limit() -> None:
    """Raise this process' limit of open files to the hard limit: the usual 1,024 is too low for a thousand sites."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def most_in_flight() -> int:
    """Return how many fetches this process may hold: WEIR_FETCH_MAX_IN_FLIGHT, or what its descriptors allow."""
    return min(settings.WEIR_FETCH_MAX_IN_FLIGHT, int(IN_FLIGHT * _limit()))


def most_lookups(wanted: int) -> int:
    """Return how many look-ups may run together: as many as wanted, or what the descriptors of this process allow."""
    return max(1, min(wanted, int(LOOKUPS * _limit())))


def most_beside() -> int:
    """Return how many sockets all fetches together may have while they connect, besides one socket for each fetch."""
    return int(BESIDE * _limit())


def used_part() -> float:
    """Return the part of its descriptors that this process uses. Takes a millisecond for each thousand of them."""
    folder = next(filter(os.path.isdir, FOLDERS), None)
    try:
        return len(os.listdir(folder)) / _limit() if folder else 0.0  # noqa: PTH208  only their number
    except OSError:  # no descriptor is left for reading the folder
        return 1.0


def _limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft
