"""robots.txt files: fetched like any other URL, in a slot of their site, and known for a day.

1. The process that has queued fetches queues the robots.txt of their origins, if it is not known (`ask`).
2. A fetcher that has claimed fetches looks up the robots.txt of their origins (`RobotsFiles.known`). A robots.txt that
   is not known is queued before everything else at its site, and the fetches that need it wait, in their places in the
   queue (gate.py).
3. When the fetch of a robots.txt has ended, its result is stored (answers.py), and the fetches that wait for it are
   made due again (`wake`).

A site may cover more origins than it can ask for in a day, so that each robots.txt has expired when the next fetch of
its origin has a slot. Fetches still get every third slot, if nothing fails. A fetch at the head of the queue uses
three slots: in the first the fetcher learns that the robots.txt is not known, the second is for the robots.txt, and the
third is for the fetch, because nothing else comes before it. Asking ahead (step 1) is bounded, and ends when fetches
have waited for long.
"""

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from django.db import transaction
from django.db.models.functions import Least, Now

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.postgres.statements import Statement
from weir.ratelimit import clock
from weir.ratelimit.sites import sites_of
from weir.workers.fetches import backlog
from weir.workers.fetches.models import HIGHEST_PRIORITY, RobotsFile, RobotsState
from weir.workers.fetches.robots import crawl_delays
from weir.workers.fetches.robots.rules import PATH, Rules, origin_of
from weir.workers.fetches.robots.trials import Allowance, Trials
from weir.workers.fetches.robots.user_agent import product_token
from weir.workers.fetches.targets import parts_of
from weir.workers.tracing import correlation

log = get_logger(__name__)

MAX_ATTEMPTS = 3
AHEAD_OF_FETCHES = 3_600.0  # seconds: so many files are asked for ahead as fit into this time at a site's rate
MOST_AHEAD = 10_000  # robots.txt files that are asked for ahead at one site
RECHECK_AFTER = 60.0  # seconds after which a process asks PostgreSQL again about a robots.txt that it remembers
LARGE = 2**15  # characters: parsing a longer text uses up the allowance for long work (trials.py)
MOST_READ = 2**21  # bytes of texts that are read together; or one text, however long
MOVED_AT_ONCE = 1_000  # robots.txt files whose site changes, in one transaction
MOST_ORIGINS = 20_000  # origins that one process remembers
MOST_BYTES = 192 * 2**20  # bytes of parsed rules that one process remembers: 10,000 origins with rules of usual length


class KnownFile(NamedTuple):
    """What PostgreSQL knows of the robots.txt of an origin.

    `rules` is None if the process has the text already, or if the text is left out because others come first.
    """

    origin: str
    state: str
    error: str
    fetched_at: datetime
    rules: str | None
    expires_in_s: float
    is_due: bool
    site_id: int
    site_lacks_delay: bool
    is_left_out: bool


ASK_ROBOTS = Statement("ask_robots", returns=int, commits=True)
KNOWN_ROBOTS = Statement("known_robots", row=KnownFile, commits=True)
WAKE_WAITING_FOR_ROBOTS = Statement("wake_waiting_for_robots", returns=int, commits=True)


def ask(
    site_ids: Mapping[str, int], *, is_needed_now: bool = False, correlation_ids: Mapping[str, str] | None = None
) -> list[int]:
    """Queue the robots.txt of these origins, each at its site, unless it is known, queued or in flight.

    With `is_needed_now` all of them are queued, because claimed fetches wait for them. Otherwise, no more are queued
    for a site than fit into AHEAD_OF_FETCHES at its rate, and none if its fetches have waited for longer than that.
    Each gets the correlation id that `correlation_ids` has for its origin; without this argument, the caller's own id.
    Returns the sites for which a robots.txt was queued: the caller activates their backlog flags.
    """
    if not site_ids:
        return []
    ids = dict.fromkeys(site_ids, correlation.current()) if correlation_ids is None else correlation_ids
    return ASK_ROBOTS(
        origins=list(site_ids),
        urls=[origin + PATH for origin in site_ids],
        sites=list(site_ids.values()),
        correlation_ids=[ids.get(origin, "") for origin in site_ids],
        obey=settings.WEIR_OBEY_ROBOTS,
        priority=HIGHEST_PRIORITY,
        max_attempts=MAX_ATTEMPTS,
        ahead=None if is_needed_now else AHEAD_OF_FETCHES,
        most=MOST_AHEAD,
    )


def wake(site_ids: Mapping[str, int]) -> list[int]:
    """Make the fetches due, in their old places, that wait for the robots.txt of one of these origins, if it is known.

    Called by the process that has committed what a robots.txt said, and by the process that has committed that fetches
    wait for one: the later of the two finds them. Returns their sites; the caller wakes dispatch for these.
    """
    if not site_ids:
        return []
    parameters = {"origins": list(site_ids), "sites": list(site_ids.values())}
    return sorted(set(WAKE_WAITING_FOR_ROBOTS(**parameters)))


def ask_again(origins: Iterable[str], *, note: Callable[[Sequence[str]], object] | None = None) -> int:
    """Forget what is known of these origins, and ask for it again; returns how many origins were known.

    Fetchers that remember the old robots.txt notice within a minute (RECHECK_AFTER). `note` is called with the origins
    that were known, in the transaction that forgets them.
    """
    files = RobotsFile.objects.filter(origin__in=list(origins))
    with transaction.atomic(durable=True):
        files.update(refresh_at=Least("refresh_at", Now()), expires_at=Least("expires_at", Now()))
        sites = dict(files.values_list("origin", "site_id"))
        if note and sites:
            note(sorted(sites))
    backlog.activate(ask(sites, is_needed_now=True))
    return len(sites)


def follow(site_id: int, patience_s: float) -> None:
    """Move the robots.txt files of a site to the sites to which their hosts belong now, with the Crawl-delays.

    Raises SitesLocked if other transactions are in the way of new sites for longer than `patience_s` seconds.
    """
    of_site = RobotsFile.objects.filter(site=site_id)  # at most one for each origin of the site
    hosts = {origin: parts_of(origin).authority for origin in of_site.values_list("origin", flat=True)}
    sites = sites_of(set(hosts.values()), patience_s)
    gone = defaultdict(list)
    for origin, host in hosts.items():
        if sites[host] != site_id:
            gone[sites[host]].append(origin)
    for gainer, origins in gone.items():
        for start in range(0, len(origins), MOVED_AT_ONCE):
            of_site.filter(origin__in=origins[start : start + MOVED_AT_ONCE]).update(site=gainer)
    crawl_delays.settle({site_id, *gone})


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What one process knows of an origin's robots.txt. Its `_at` floats are on the process' own clock (clock.py)."""

    state: RobotsState
    error: str
    rules: Rules | None  # if the state is RULES
    size: int  # bytes that the parsed rules take, about
    fetched_at: datetime | None  # None: the rules could not be parsed, and are read again
    looked_up_at: float
    expires_at: float


class RobotsFiles:
    """The robots.txt files that this process has looked up lately, parsed. For the claimer's thread only."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Known] = OrderedDict()  # by origin; the one used last stands last
        self._bytes = 0
        self._allowance = Allowance()
        self.trials = Trials(self._allowance)

    def known(self, site_ids: Mapping[str, int], correlation_ids: Mapping[str, str] | None = None) -> dict[str, Known]:
        """Return what is known of these origins, by origin, and ask for the rest, with these correlation ids.

        Takes no query if this process knows all of them, one query otherwise. Asking takes another one, and a message.
        """
        now = clock.now()
        self._allowance.begin_claim()
        fresh = {origin for origin in site_ids if self._is_fresh(origin, now)}
        if missing := [origin for origin in site_ids if origin not in fresh]:
            still_good = self._look_up(missing)
            needed = {origin: site_ids[origin] for origin in missing if origin not in still_good}
            backlog.activate(ask(needed, is_needed_now=True, correlation_ids=correlation_ids))
        found = {origin: self._known[origin] for origin in site_ids if origin in self._known}
        for origin in found:
            self._known.move_to_end(origin)
        self._forget_oldest()
        self.trials.forget_but(self._has)
        return found

    def _has(self, url: str, rules: Rules) -> bool:
        known = self._known.get(origin_of(url))
        return known is not None and known.rules is rules

    def _is_fresh(self, origin: str, now: float) -> bool:
        known = self._known.get(origin)
        return known is not None and now < min(known.expires_at, known.looked_up_at + RECHECK_AFTER)

    def _look_up(self, origins: list[str]) -> set[str]:
        """Read what the database knows of these origins; returns the origins whose robots.txt need not be asked for."""
        had = {origin: self._known.pop(origin) for origin in origins if origin in self._known}
        self._bytes -= sum(known.size for known in had.values())
        now = clock.now()
        rows = KNOWN_ROBOTS(
            origins=origins, fetched_at=[had[o].fetched_at if o in had else None for o in origins], most=MOST_READ
        )
        self._read([row for row in rows if not row.is_left_out], had, now)
        # All of these sites obey robots.txt. One without its Crawl-delay has just begun to, or lost it to a race.
        if lacking := {row.site_id for row in rows if row.site_lacks_delay}:
            crawl_delays.settle(lacking)
        return {row.origin for row in rows if not row.is_due}

    def _read(self, rows: list[KnownFile], had: Mapping[str, Known], now: float) -> None:
        """Remember what these rows say. Rows for which the allowance does not suffice are left to later claims."""
        for row in sorted(rows, key=lambda row: len(row.rules or "")):  # rows that need no parsing come first
            is_large = len(row.rules or "") > LARGE
            if is_large and not self._allowance.is_left():
                break
            began_at = time.thread_time()
            self._known[row.origin] = _as_known(row, had, now)
            self._bytes += self._known[row.origin].size
            spend = self._allowance.spend if is_large else self._allowance.spend_free
            spend(time.thread_time() - began_at)
            if not self._allowance.is_free():
                break

    def _forget_oldest(self) -> None:
        while len(self._known) > MOST_ORIGINS or self._bytes > MOST_BYTES:
            _, forgotten = self._known.popitem(last=False)
            self._bytes -= forgotten.size


def _as_known(row: KnownFile, had: Mapping[str, Known], now: float) -> Known:
    """Return what a row says; rules that this process `had` already are not parsed again."""
    expires_at = now + row.expires_in_s
    if row.rules is None:
        return replace(had[row.origin], looked_up_at=now, expires_at=expires_at)
    known = Known(
        state=RobotsState(row.state),
        error=row.error,
        rules=None,
        size=0,
        fetched_at=row.fetched_at,
        looked_up_at=now,
        expires_at=expires_at,
    )
    if known.state != RobotsState.RULES:
        return known
    try:
        rules = Rules(row.rules, product_token(settings.WEIR_FETCH_USER_AGENT))
        return replace(known, rules=rules, size=rules.size)
    except Exception as error:  # text from the internet: after any error, the rest of the claim must go on
        log.exception("robots_not_parsed", origin=row.origin)
        reason = f"it cannot be parsed: {type(error).__name__}"
        soon = min(expires_at, now + RECHECK_AFTER)
        return replace(known, state=RobotsState.UNREACHABLE, error=reason, fetched_at=None, expires_at=soon)
