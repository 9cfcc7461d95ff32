"""Reachability: which sites one fetcher reaches, and so whether a site does not answer, or this host's network is down.

Many failures look the same, whichever side causes them: a connection that times out, a look-up without an answer. Other
sites show the difference. If one of them is reached in the same respect, or hardly any other fails, the site is to
blame. If several sites fail and none is reached, our resolver or uplink is to blame. For look-ups, the names of one
zone count as one site, because their name servers are the same.

On the loop's thread only.
"""

import asyncio
import socket
from collections import defaultdict
from collections.abc import Hashable, Iterable
from contextlib import suppress
from urllib.parse import urlsplit

from weir.ratelimit import clock
from weir.ratelimit.pacing import NEVER
from weir.workers.fetches.fetcher.http.faults import Respect, SocketAddress
from weir.workers.fetches.fetcher.http.zones import zone_of
from weir.workers.fetches.fetcher.remembered import Remembered
from weir.workers.fetches.jobs import Job

EVIDENCE_S = 2.0  # seconds for which a failure waits for other failures, or for a success, before it is judged
OTHERS = 3  # the other sites that must fail, too, before our resolver or uplink is blamed
ROW = 5  # attempts that fail to connect, in a row, after which a site counts as unreachable
MOST_SITES = 50_000  # sites that do not connect and are remembered
# Where packets to the whole Internet would go: addresses that are kept free for documentation (RFC 5737, RFC 3849).
ANYWHERE: tuple[SocketAddress, ...] = ((socket.AF_INET, ("192.0.2.1", 9)), (socket.AF_INET6, ("2001:db8::1", 9)))


class Episode:
    """The time since the last success in one respect, and the sites that failed during it."""

    def __init__(self) -> None:
        self.sites: set[Hashable] = set()  # a few are enough: once the episode is settled, no more are added
        self.has_success = False
        self.settled = asyncio.Event()


class Reachability:
    """What one fetcher knows about its sites."""

    def __init__(self) -> None:
        self._episodes: defaultdict[Respect, Episode] = defaultdict(Episode)
        self._answered_at = NEVER
        # By site: attempts that failed to connect since the last connection to the site.
        self._in_a_row: Remembered[int, int] = Remembered(MOST_SITES)

    def reached(self, respect: Respect) -> None:
        """Record that a site was reached in this respect."""
        if respect is Respect.ANSWER:
            self._answered_at = clock.now()
            self.reached(Respect.CONNECTION)  # even if the connection is from the pool: the uplink works
        if self._episodes[respect].sites:
            episode = self._episodes.pop(respect)
            episode.has_success = True
            episode.settled.set()

    def has_answers_since(self, moment: float) -> bool:
        """Return whether any site has answered since this moment of the holders' clock (clock.py)."""
        return self._answered_at >= moment

    async def is_our_fault(self, respect: Respect, site: Hashable) -> bool:
        """Record that `site`, which `evidence` returned, was not reached; return whether that is our fault.

        Waits for EVIDENCE_S at most. After a failed look-up, another look-up may be answered meanwhile, because the
        resolver then looks up controls.
        """
        episode = self._episodes[respect]
        if not episode.settled.is_set():
            episode.sites.add(site)
            if len(episode.sites) > OTHERS and respect is not Respect.LOOKUP:
                episode.settled.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(episode.settled.wait(), EVIDENCE_S)
            if len(episode.sites) > OTHERS:
                episode.settled.set()
        return not episode.has_success and len(episode.sites - {site}) >= OTHERS

    def connected(self, site_id: int) -> None:
        """Record that a connection to the site was opened, or used again."""
        self._in_a_row.pop(site_id, None)

    def is_unreachable(self, site_id: int) -> bool:
        """Record that connecting failed through the site's own fault; return whether it failed ROW times in a row."""
        in_a_row = self._in_a_row.get(site_id, 0) + 1
        self._in_a_row.note(site_id, in_a_row)
        return in_a_row >= ROW


def evidence(respect: Respect, job: Job) -> Hashable:
    """Return what counts as one site among the failures: for a look-up, the zone of the host; else the site's id."""
    return zone_of(urlsplit(job.url).hostname or "") if respect is Respect.LOOKUP else job.site_id


def has_route(addresses: Iterable[SocketAddress] = ANYWHERE) -> bool:
    """Return whether this host has a route to one of these addresses, and an address of its own for it.

    A UDP socket asks the kernel, because it uses up no port of TCP; nothing is sent.
    """
    for family, address in addresses:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)
            return True
    return False
