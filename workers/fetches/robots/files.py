"""robots.txt files: asked for like any other URL, in a slot of their site, and known for a day.

1. Who has queued fetches has the robots.txt of their origins queued as well, where it is not known (`ask`).
2. A fetcher looks up the origins of what it has claimed (`RobotsFiles.known`), turns away what they disallow, and has
   what is not known asked for, before everything else at its site: who waits for it keeps its place (robots_gate.py).
3. When a robots.txt has come, or has not, that is noted (robots_answers.py), and who waits goes on (`wake`).

A site may cover more origins than it can ask for in a day; what was known of one has expired at its fetch's turn.
Still fetches get every third slot, if nothing fails. The one that is next in line uses three: in the first it finds out
that its robots.txt has to be asked for, that takes the second, and nothing else comes before the third. What is asked
for ahead (1) is bounded, and ends where fetches wait.
"""

import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import structlog
from django.conf import settings
from django.db.models.functions import Least, Now

from postgres import statements
from workers.fetches import backlog
from workers.fetches.models import RobotsFile, RobotsState
from workers.fetches.robots import crawl_delays
from workers.fetches.robots.rules import PATH, Rules
from workers.fetches.robots.user_agent import product_token

log = structlog.get_logger(__name__)
_query = partial(statements.run, "workers.fetches.robots")

PRIORITY = 32_767
MAX_ATTEMPTS = 3
AHEAD_OF_FETCHES = 3_600.0  # seconds: what a site can ask for in that time is asked for before a fetch needs it
MOST_AHEAD = 10_000  # at any site
LOOK_AGAIN = 60.0  # seconds after which a process looks whether what it knows is still true
PARSE_FOR = 0.25  # seconds of the processor after which one claim parses no more
MOST_ORIGINS = 20_000
MOST_CHARACTERS = 4 * 2**20  # of rules in one process; parsed they take twelve times as much, at worst eighty


def ask(sites: Mapping[str, int], *, is_needed_now: bool = False) -> list[int]:
    """Queue the robots.txt of these origins, each at its site (a site's id), unless it is known or being asked for.

    Those that no fetch can go on without are queued at any rate; of the others no more than a site can ask for in
    AHEAD_OF_FETCHES, and none while fetches there have waited for longer: they are asked for when they are needed.
    Returns the sites in which something was queued: they are to be marked (backlog.activate).
    """
    if not sites:
        return []
    rows = _query(
        "ask",
        {
            "origins": list(sites),
            "urls": [origin + PATH for origin in sites],
            "sites": list(sites.values()),
            "obey": settings.WEIR_OBEY_ROBOTS,
            "priority": PRIORITY,
            "max_attempts": MAX_ATTEMPTS,
            "ahead": None if is_needed_now else AHEAD_OF_FETCHES,
            "most": MOST_AHEAD,
        },
    )
    return [row.site_id for row in rows]


def wake(sites: Mapping[str, int]) -> list[int]:
    """Let the fetches of these origins go on that waited for a robots.txt which is known by now, each in its old place.

    Called by whoever has committed that a robots.txt came to something, and by whoever has committed that fetches wait
    for one: the later of the two finds them. Returns their sites, which may be booked.
    """
    rows = _query("wake", {"origins": list(sites), "sites": list(sites.values())}) if sites else []
    return sorted({row.site_id for row in rows})


def ask_again(origins: Iterable[str]) -> int:
    """Let what is known of these origins count no more, and have it asked for; returns of how many something was known.

    Processes that know it already notice within a minute.
    """
    files = RobotsFile.objects.filter(origin__in=list(origins))
    files.update(refresh_at=Least("refresh_at", Now()), expires_at=Least("expires_at", Now()))
    sites = dict(files.values_list("origin", "site_id"))
    backlog.activate(ask(sites, is_needed_now=True))
    return len(sites)


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What one process knows of an origin's robots.txt. Times are on its monotonic clock."""

    state: RobotsState
    error: str
    rules: Rules | None  # where the state is RULES
    size: int  # characters of the rules
    fetched_at: datetime | None  # None: its rules could not be parsed, and are looked at again
    looked_up_at: float
    expires_at: float


class RobotsFiles:
    """The robots.txt files that this process has looked up lately, parsed. For one thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Known] = OrderedDict()  # the one used last stands last
        self._characters = 0

    def known(self, sites: Mapping[str, int]) -> dict[str, Known]:
        """Return what is known of these origins (with the ids of their sites), and have the rest asked for.

        No query where this process knows them all, else one; one more, and messages, where something is to be asked.
        """
        now = time.monotonic()
        fresh = {origin for origin in sites if self._is_fresh(origin, now)}
        if missing := [origin for origin in sites if origin not in fresh]:
            still_good = self._look_up(missing)
            needed = {origin: sites[origin] for origin in missing if origin not in still_good}
            backlog.activate(ask(needed, is_needed_now=True))
        found = {origin: self._known[origin] for origin in sites if origin in self._known}
        for origin in found:
            self._known.move_to_end(origin)
        self._forget_oldest()
        return found

    def _is_fresh(self, origin: str, now: float) -> bool:
        known = self._known.get(origin)
        return known is not None and now < min(known.expires_at, known.looked_up_at + LOOK_AGAIN)

    def _look_up(self, origins: list[str]) -> set[str]:
        """Bring what is known of these origins up to date; return those that need not be asked for."""
        had = {origin: self._known.pop(origin) for origin in origins if origin in self._known}
        self._characters -= sum(known.size for known in had.values())
        now = time.monotonic()
        rows = _query(
            "known",
            {"origins": origins, "fetched_at": [had[o].fetched_at if o in had else None for o in origins]},
        )
        began_at = time.thread_time()
        for row in sorted(rows, key=lambda row: row.rules is not None):  # what need not be parsed comes first
            self._known[row.origin] = _as_known(row, had.get(row.origin), now)
            self._characters += self._known[row.origin].size
            if time.thread_time() - began_at > PARSE_FOR:
                break  # the others are for later claims
        if lacking := {row.site_id for row in rows if row.site_lacks_delay}:  # who looks, obeys: perhaps again
            crawl_delays.settle(lacking)
        return {row.origin for row in rows if not row.is_due}

    def _forget_oldest(self) -> None:
        while len(self._known) > MOST_ORIGINS or self._characters > MOST_CHARACTERS:
            _, forgotten = self._known.popitem(last=False)
            self._characters -= forgotten.size


def _as_known(row: Any, had: Known | None, now: float) -> Known:  # noqa: ANN401  a row of robots_known.sql
    """Return what a row says; a text that this process had already is not parsed again."""
    expires_at = now + row.expires_in_s
    if row.rules is None and had is not None:
        return replace(had, looked_up_at=now, expires_at=expires_at)
    known = Known(
        state=RobotsState(row.state),
        error=row.error,
        rules=None,
        size=len(row.rules),
        fetched_at=row.fetched_at,
        looked_up_at=now,
        expires_at=expires_at,
    )
    if known.state != RobotsState.RULES:
        return known
    try:
        return replace(known, rules=Rules(row.rules, product_token(settings.WEIR_FETCH_USER_AGENT)))
    except Exception as error:  # somebody else's parser, on what anybody may write: the others of the claim go on
        log.exception("robots_not_parsed", origin=row.origin)
        reason = f"it cannot be parsed: {type(error).__name__}"
        soon = min(expires_at, now + LOOK_AGAIN)
        return replace(known, state=RobotsState.UNREACHABLE, error=reason, fetched_at=None, expires_at=soon)
