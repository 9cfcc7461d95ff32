"""What tests of the history need: rows of the past, and a count of them that asks nothing of the rollup."""

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import TypeVar

import pytest

from tests.integration.conftest import database_now
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site, Slot
from weir.workers.fetches.models import Fetch
from weir.workers.history.models import Watermark
from weir.workers.history.rollup import LATENESS_MS
from weir.workers.mail.models import Email

Row = TypeVar("Row", Fetch, Slot, Email)
LONGEST_LABEL = 40  # characters, as the column has it
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
INTERVALS = {"a.example": 0.1, "b.example": 1.0, "c.example": 7.0}
ERRORS = {"no complete answer within 30 s": "timeout", "the site answered 503": "refused", "?": "other"}


@dataclass
class Past:
    """A history that began some time ago."""

    began: datetime

    def at(self, minutes: float) -> datetime:
        """Return the moment so many minutes after the beginning."""
        return self.began + timedelta(minutes=minutes)

    def fill(self, minutes: int, each: int, seed: int = 1) -> None:
        """Create so many slots and ended fetches in each of these minutes, of all kinds, at some sites."""
        dice = random.Random(seed)  # noqa: S311  the same rows each time
        sites = list(Site.objects.filter(name__in=INTERVALS).order_by("name"))
        starts = [self.at(minute + dice.random()) for minute in range(minutes) for _ in range(each)]
        Slot.objects.bulk_create([_slot(dice, dice.choice(sites), start) for start in sorted(starts)])
        Fetch.objects.bulk_create([_fetch(dice, dice.choice([*sites, None]), start) for start in starts])


def _slot(dice: random.Random, site: Site, start: datetime) -> Slot:
    slot = Slot(site=site, start_time=start, use_until=start + SECOND, interval=site.interval)
    match dice.choice(["used", "given back", "missed", "nothing"]):
        case "used":
            slot.finished_at = start + dice.random() * 40 * SECOND
        case "given back":
            slot.released_at = start - SECOND
        case "missed":
            slot.released_at = start + 2 * SECOND
    return slot


def _fetch(dice: random.Random, site: Site | None, at: datetime) -> Fetch:
    fetch = Fetch(url="https://a.example/", site=site, finished_at=at, state="failed", error=dice.choice([*ERRORS]))
    if site and dice.random() < 0.7:
        fetch.state, fetch.error, fetch.status_code = "done", "", 200
        fetch.lateness_ms = dice.choice([0.4, 1.0, 3.5, 80.0, 5_000.0, 9_000.0])
    elif site and dice.random() < 0.5:
        fetch.state, fetch.error = "cancelled", ""
    return fetch


@pytest.fixture
def past(transactional_db: None) -> Past:  # noqa: ARG001  must come first
    """Return a history that began forty minutes ago."""
    for name, seconds in INTERVALS.items():
        site_settings.set_rate(name, f"1/{seconds * 1000:.0f}ms")
    return began_ago(40 * MINUTE)


def began_ago(ago: timedelta) -> Past:
    """Create a history that began so long ago."""
    began = database_now().replace(second=0, microsecond=0) - ago
    Watermark.objects.update_or_create(id=1, defaults={"rolled_until": began, "epoch": 0})
    return Past(began)


def recounted(began: datetime) -> dict[tuple[str, str], int]:
    """Count all rows of the minutes that are rolled up: row by row, without SQL, as somebody would on paper."""
    until = Watermark.objects.get().rolled_until
    found: Counter[tuple[str, str]] = Counter()
    for fetch in _within(Fetch.objects.exclude(finished_at=None), "finished_at", began, until):
        found["fetches_ended", fetch.state] += 1
        if fetch.state == "failed":
            found["fetch_failures", ERRORS[fetch.error]] += 1
        if fetch.lateness_ms is not None:
            place = bisect_left(LATENESS_MS, fetch.lateness_ms)
            found["fetch_lateness", f"{LATENESS_MS[place]:g}" if place < len(LATENESS_MS) else "inf"] += 1
            found["fetch_lateness_sum_us", ""] += round(fetch.lateness_ms * 1000)
    allowed: dict[tuple[datetime, int], timedelta] = {}
    for slot in _within(Slot.objects.all(), "start_time", began, until):
        found["slots", _fate(slot)] += 1
        allowed[slot.start_time.replace(second=0, microsecond=0), slot.site_id] = slot.interval or SECOND
    found["slots_allowed", ""] = sum(ceil(MINUTE / interval) for interval in allowed.values())
    for email in _within(Email.objects.exclude(ended_at=None), "ended_at", began, until):
        found["emails_ended", email.state] += 1
        if email.state == "sent":
            found["emails_sent", email.kind if len(email.kind) <= LONGEST_LABEL else "other"] += 1
    found["rollups", ""] = (until - began) // MINUTE
    return {key: value for key, value in found.items() if value}


def _within(rows: Iterable[Row], name: str, since: datetime, until: datetime) -> list[Row]:
    return [row for row in rows if since <= getattr(row, name) < until]


def _fate(slot: Slot) -> str:
    if slot.finished_at:
        return "used"
    if slot.released_at:
        return "missed" if slot.released_at > slot.use_until else "given back"
    return "unreported"
