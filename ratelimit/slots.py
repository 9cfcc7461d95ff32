"""Slots: the starts reserved in a lane. The only code that runs `ratelimit/sql/`.

Every call commits by itself and refuses to run inside `transaction.atomic()`. Time is the database's: it returns
durations, which are turned into points on this process' monotonic clock here: starts are counted from the arrival of
the reply, deadlines from the sending of the statement, so that neither can be wrong to the site's disadvantage.

Whoever holds slots for longer asks for `recalls`, or asks to `confirm` them: see ratelimit.pacing.
"""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from random import random

from django.conf import settings
from django.db import OperationalError
from psycopg.errors import LockNotAvailable

from postgres import statements
from ratelimit import lanes
from ratelimit.covering import known_sites
from ratelimit.models import LONGEST_GRACE, PAUSED_FOREVER, SHORTEST_GRACE, Site
from ratelimit.pacing import CONFIRMED_FOR_S, Confirmation, Run
from ratelimit.rates import parse_rate

_run = partial(statements.run, "ratelimit")

MAX_COUNT = 10_000
FARTHEST_S = 100 * 366 * 86_400.0  # PostgreSQL has no point in time for everything
PURGE_BATCH = 5_000
# Seconds: the first back-off of a row without a stated time, the longest, and what a lane must stay quiet for to have
# them forgiven.
SHORTEST_BACK_OFF = 5.0
LONGEST_BACK_OFF = 3_600.0
QUIET = 60.0
RETRY = 60.0  # seconds after which a lane may be booked again that was booked in vain
MOST_PULLS = 5  # how often set_rate tries to make a faster rate hold at once while others reserve


class Default(Enum):
    """What a setting of a lane is where nobody has said anything else."""

    DEFAULT = "default"


DEFAULT = Default.DEFAULT


class SlotTooFar(Exception):
    """The next free start of the lane is farther away than the caller would wait."""

    def __init__(self, site: str, retry_after: float) -> None:
        super().__init__(
            f"{site} is paused until somebody resumes it."
            if retry_after == math.inf
            else f"The next free start of {site} is {retry_after:.3f} s away."
        )
        self.site = site
        self.retry_after = retry_after  # seconds until that start, as of now; infinite until somebody resumes the lane

    def __reduce__(self) -> tuple[type["SlotTooFar"], tuple[str, float]]:
        """Let it travel between processes: Celery pickles what a task raises."""
        return SlotTooFar, (self.site, self.retry_after)


class UnknownSite(LookupError):
    """There is no such lane; the site may share that of another, `covering`."""

    def __init__(self, site: str, covering: str | None = None) -> None:
        hint = (
            f"it shares the lane of {covering}. Name that one."
            if covering
            else "`manage.py sites` lists those that exist."
        )
        super().__init__(f"There is no site {site!r}: {hint}")


class LaneBusy(Exception):
    """Others hold the lane for longer than the caller would wait: nothing has changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReservedSlot:
    """One start: not before `start_at`, a point on this process' monotonic clock."""

    id: int
    start_at: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """The slots of one reservation, and the run that says when each may really be used."""

    site: str
    slots: tuple[ReservedSlot, ...]
    run: Run


def check_max_wait(max_wait: float) -> None:
    """Raise ValueError for what is no time that a caller could wait."""
    if not 0 <= max_wait <= FARTHEST_S:  # nan, too
        raise ValueError(
            f"max_wait must be a number of seconds, not negative and at most 100 years, but is {max_wait}."
        )


def reserve(site: str, count: int = 1, max_wait: float = 15.0) -> Reservation:
    """Reserve `count` starts in the site's lane: its own, or that of the nearest site above which covers subdomains.

    Without either, its own is created at the default rate. One round trip, whatever the number of slots; a second one
    where a given-back slot is taken, and a few more for a site that has no lane of its own. No two reservations, by any
    process on any host, overlap: each belongs to its holder alone until `run.use_until`. The slots are reserved when
    this returns.

    Raises SlotTooFar when the first start is more than `max_wait` seconds away (nothing is reserved), ValueError for
    a count outside 1-10,000 and a `max_wait` outside 0 to 100 years, and TransactionManagementError inside a
    transaction.
    """
    check_max_wait(max_wait)
    if not 1 <= count <= MAX_COUNT:
        raise ValueError(f"count must be between 1 and {MAX_COUNT}, not {count}.")
    site = lanes.canonical(site)
    parameters = {"count": count, "places": list(range(count)), "max_wait": max_wait}
    while True:
        asked_at = time.monotonic()
        rows = _run("reserve", {"site": site, **parameters}, prepare=True)
        if not rows and count == 1:
            asked_at = time.monotonic()
            rows = _run("take_given_back", {"site": site, "max_wait": max_wait})
        answered_at = time.monotonic()
        if rows:
            break
        if (wait_s := _wait_s(site, count)) is None:
            site = _covered_or_created(site)
        elif wait_s > max_wait:
            raise SlotTooFar(site, wait_s)
    first = rows[0]
    return Reservation(
        site=site,
        slots=tuple(ReservedSlot(id=row.id, start_at=answered_at + row.wait_s) for row in rows),
        run=Run(
            interval_s=first.interval_s,
            burst=first.burst,
            start_until=asked_at + first.use_until_s,
            use_until=asked_at + first.use_until_s,
            confirmation=Confirmation(asked_at=asked_at),
        ),
    )


def confirm(reservation: Reservation) -> bool:
    """Ask whether the reservation's slots all still stand, and note in its run that this was asked."""
    asked_at = time.monotonic()
    ids = [slot.id for slot in reservation.slots]
    stands = len(_run("confirm", {"slots": ids})) == len(ids)
    reservation.run.confirmation.asked_at = asked_at
    return stands


@dataclass(frozen=True, kw_only=True, slots=True)
class Recall:
    """Slots that are void: of a lane, all up to `last_slot`; or the one `passed_on`, which has become another's."""

    site_id: int
    at: datetime  # the database's clock: the same slot may be passed on again
    last_slot: int | None = None
    passed_on: int | None = None


def recalls(window_s: float) -> list[Recall]:
    """Return what was recalled in the last `window_s` seconds, by the database's clock."""
    return [
        Recall(site_id=row.site_id, at=row.at, last_slot=row.recalled_slot, passed_on=row.slot_id)
        for row in _run("recalls", {"window": window_s}, prepare=True)
    ]


def create_sites(names: Iterable[str]) -> None:
    """Create those lanes that do not exist yet, at WEIR_DEFAULT_RATE."""
    interval = parse_rate(settings.WEIR_DEFAULT_RATE)
    # Sorted: two callers that create the same sites in another order would lock each other out.
    Site.objects.bulk_create(
        [Site(name=name, interval=interval) for name in sorted({lanes.canonical(name) for name in names})],
        ignore_conflicts=True,
    )


def release(*slot_ids: int) -> int:
    """Give unused slots back; returns how many were still open.

    A slot that was reserved alone and lies in the future goes to the next reservation before any new one. A slot that
    was used or given back already is left as it is, so that this may be called twice.
    """
    return len(_run("release", {"slots": list(slot_ids)}))


def unbook(slot_ids: Iterable[int]) -> None:
    """Let slow lanes forget slots that were given back, where each was reserved alone and nothing was booked behind it.

    The next start may then be made in a minute, and not only after an interval. May be called twice.
    """
    if ids := list(slot_ids):
        _run("unbook", {"slots": ids, "retry": RETRY})


def finish(*slot_ids: int) -> None:
    """Note that the slots were used. May be called twice."""
    _run("finish", {"slots": list(slot_ids)})


def estimate(site: str) -> float:
    """Return the seconds until a reservation made now would start; infinite while the lane is paused until resumed.

    Reserves nothing; 0 for an idle or unknown lane.
    """
    site = lanes.canonical(site)
    wait_s = _wait_s(site, 1)
    if wait_s is None and (known := known_sites({site})):
        wait_s = _wait_s(known[site].name, 1)
    return wait_s or 0.0


def _wait_s(site: str, count: int) -> float | None:
    """Return the seconds until a reservation in this very lane would start; None where there is no such lane."""
    rows = _run("estimate", {"site": site, "count": count, "forever": PAUSED_FOREVER})
    return float(rows[0].wait_s) if rows else None


def _covered_or_created(site: str) -> str:
    """Return the name of the lane that covers a site which has none of its own; without one, its own is created."""
    if known := known_sites({site}):
        return known[site].name
    create_sites([site])
    return site


def back_off(
    site: str,
    seconds: float | None = None,
    *,
    until: datetime | None = None,
    slot: int | None = None,
    patience_s: float | None = None,
) -> float | None:
    """Start nothing in the lane for `seconds`, or until a moment, as its site refuses: for all who hold its slots.

    Calls overlap, the longest counts; a stated time is cut to WEIR_RETRY_AFTER_MAX. Without one the time doubles with
    each back-off in a row, from 5 s to an hour, and up to half is added at random; the row is forgiven when the lane
    stays quiet for as long, a minute at least. `slot` is the one whose start was refused: refusals of slots that
    were reserved before the last back-off belong to it and count once. What is reserved in the lane is recalled.

    Returns the seconds, None where nothing changed. Raises UnknownSite, ValueError for a negative time, a naive `until`
    and two times at once, and LaneBusy where others book or change the lane for longer than `patience_s`.
    """
    _check_stated(seconds, until)
    site = lanes.canonical(site)
    if known := known_sites({site}):
        site = known[site].name
    parameters = {
        "site": site,
        "slot": slot,
        "seconds": seconds,
        "until": until,
        "shortest": SHORTEST_BACK_OFF,
        "longest": LONGEST_BACK_OFF,
        "quiet": QUIET,
        "most": settings.WEIR_RETRY_AFTER_MAX,
        "chance": random(),  # noqa: S311  jitter
        "patience": f"{(patience_s or 0) * 1000:.0f}ms",
    }
    try:
        rows = _run("back_off", parameters)
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise LaneBusy(site) from error
        raise
    if not rows and not Site.objects.filter(name=site).exists():
        raise UnknownSite(site)
    return float(rows[0].wait_s) if rows else None


def _check_stated(seconds: float | None, until: datetime | None) -> None:
    if seconds is not None and until is not None:
        raise ValueError("A back-off takes seconds or until, not both.")
    if seconds is not None and not seconds >= 0:  # nan, too
        raise ValueError(f"seconds must be a number, not negative, but is {seconds}.")
    if until is not None and until.tzinfo is None:
        raise ValueError("until must be an aware datetime: give it a time zone.")


def set_rate(
    site: str,
    rate: str | None = None,
    *,
    burst: int | None = None,
    max_concurrency: int | Default | None = None,
    grace: timedelta | Default | None = None,
    covers_subdomains: bool | None = None,
    obeys_robots: bool | Default | None = None,
) -> None:
    """Create the lane at this rate, or change it; what is None stays as it is, DEFAULT takes back what was set.

    Holds at once, for everybody: what is reserved in the lane already is recalled, unless nothing changes that matters
    to it. Where it was booked farther ahead than the new rate needs, this waits until no holder relies on it any more
    (half a second), so that a faster rate need not wait for it. Raises InvalidRate, UnknownSite where there is neither
    a lane nor a rate, and ValueError for a burst or concurrency below 1 and a grace outside 15 ms to one day.
    """
    _check_settings(burst, max_concurrency, grace)
    site = lanes.canonical(site)
    settable = {"max_concurrency": max_concurrency, "grace": grace, "obeys_robots": obeys_robots}
    rows = _run(
        "set_rate",
        {
            "site": site,
            "interval": None if rate is None else parse_rate(rate),
            "burst": burst,
            "covers_subdomains": covers_subdomains,
            **{name: None if value is DEFAULT else value for name, value in settable.items()},
            "defaults": [name for name, value in settable.items() if value is DEFAULT],
        },
    )
    if not rows:
        raise unknown_site(site)
    [lane] = rows
    for _ in range(MOST_PULLS):
        if not lane.is_booked or _pulled_back(lane.id, lane.next_start):
            break
        [lane] = _run("recall", {"site": lane.id})  # somebody reserved meanwhile: that is recalled, too


def _check_settings(
    burst: int | None, max_concurrency: int | Default | None, grace: timedelta | Default | None
) -> None:
    for name, value in (("burst", burst), ("max_concurrency", max_concurrency)):
        if isinstance(value, int) and value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}.")
    if burst is not None and burst > MAX_COUNT:
        raise ValueError(f"burst must be at most {MAX_COUNT}, not {burst}.")
    if isinstance(grace, timedelta) and not SHORTEST_GRACE <= grace <= LONGEST_GRACE:
        raise ValueError(f"grace must be between 15 ms and one day, not {grace}.")


def _pulled_back(site_id: int, booked: datetime) -> bool:
    """Wait until nothing is done any more in the slots that were recalled, and let the lane begin anew."""
    time.sleep(CONFIRMED_FOR_S)
    return bool(_run("pull_back", {"site": site_id, "booked": booked}))


def set_crawl_delay(site_id: int, delay: timedelta | None) -> bool:
    """Note what robots.txt asks for, at once and for everybody; returns whether that changed anything."""
    return bool(_run("set_crawl_delay", {"site": site_id, "crawl_delay": delay}))


def pause(site: str, duration: timedelta | None = None) -> None:
    """Start nothing in the lane for that long, or until `resume`. Replaces an earlier pause.

    What is reserved is recalled: it may still start within the next half second, and hardly ever does. Raises
    UnknownSite, and ValueError for a duration outside 0 to 100 years.
    """
    if duration is not None and not timedelta(0) <= duration <= timedelta(seconds=FARTHEST_S):
        raise ValueError(f"duration must not be negative, and at most 100 years, but is {duration}.")
    seconds = None if duration is None else duration.total_seconds()
    if not _run("pause", {"site": lanes.canonical(site), "seconds": seconds, "forever": PAUSED_FOREVER}):
        raise unknown_site(site)


def resume(site: str) -> None:
    """End a pause and a back-off; the lane still remembers its last start. Raises UnknownSite."""
    if not _run("resume", {"site": lanes.canonical(site)}):
        raise unknown_site(site)


def unknown_site(site: str) -> UnknownSite:
    """Return the refusal of a site without a lane of its own: others share what covers it, so that is never guessed."""
    name = lanes.canonical(site)
    covering = known_sites({name}).get(name)
    return UnknownSite(site, covering and covering.name)


def purge(older_than: timedelta) -> int:
    """Delete the slots whose start lies more than `older_than` back, in short batches; returns their number."""
    deleted, after, more = 0, 0, True
    while more:
        parameters = {"older_than": older_than.total_seconds(), "batch": PURGE_BATCH, "after": after}
        [batch] = _run("purge", parameters)
        deleted += batch.deleted
        after, more = batch.last, batch.more
    return deleted
