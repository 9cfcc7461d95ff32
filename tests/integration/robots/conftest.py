"""What tests of robots.txt share: a site, the fetch of its robots.txt, and how that ended."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pytest_django import Settings

from tests.integration.conftest import claim, database_now
from weir.ratelimit import clock
from weir.ratelimit.models import Site, Slot
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.fetcher.results.outcomes import judge
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.jobs import Answer, Event, Job
from weir.workers.fetches.models import Fetch, FetchState, RobotsFile, RobotsState
from weir.workers.fetches.robots.files import RobotsFiles

ORIGIN = "https://site.example"
ROBOTS = f"{ORIGIN}/robots.txt"
PAGE = f"{ORIGIN}/page"
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
RULES = "User-agent: *\nDisallow: /private\n"

Elapse = Callable[[float], None]


@pytest.fixture(autouse=True)
def _obeyed(settings: Settings) -> None:
    """Obey robots.txt, which the settings of the tests do not."""
    settings.WEIR_OBEY_ROBOTS = True


@pytest.fixture
def files() -> RobotsFiles:
    """Return what a process knows that has just started."""
    return RobotsFiles()


@pytest.fixture
def elapse(monkeypatch: pytest.MonkeyPatch) -> Elapse:
    """Return a function that moves this process' clock on, for what it knows of robots.txt files."""
    real, ahead = clock.now, [0.0]
    monkeypatch.setattr(clock, "now", lambda: real() + ahead[0])

    def by(seconds: float) -> None:
        ahead[0] += seconds

    return by


def known(origin: str = ORIGIN, state: RobotsState = RobotsState.ALLOWED, **fields: Any) -> RobotsFile:
    """Store what is known of an origin's robots.txt, just fetched unless the fields say else."""
    now = database_now()
    site, _ = Site.objects.get_or_create(
        name=origin.partition("//")[2], defaults={"interval": timedelta(milliseconds=100)}
    )
    whole = {
        "site": site,
        "state": RobotsState.RULES if "rules" in fields else state,
        "fetched_at": now,
        "refresh_at": now + DAY - timedelta(hours=1),
        "expires_at": now + DAY,
        **fields,
    }
    file, _ = RobotsFile.objects.update_or_create(origin=origin, defaults=whole)
    return file


def robots_fetches() -> list[Fetch]:
    """Return the fetches of robots.txt files, the oldest first."""
    return list(Fetch.objects.filter(is_robots=True).order_by("pk"))


def claimed() -> list[Job]:
    """Dispatch what is due, and claim what is reserved; a busy machine may claim it late."""
    Site.objects.update(grace=timedelta(seconds=10))
    dispatch()
    return claim(list(Fetch.objects.filter(state=FetchState.RESERVED).values_list("pk", flat=True)))


def stored(event: Event) -> None:
    """Judge and store the event of an attempt, as the fetcher's writer does."""
    store([judge(event, max_body=5 * 2**20, chance=0.0)])


def answered(job: Job, status: int = 200, body: bytes = b"", *headers: tuple[bytes, bytes]) -> None:
    """Let the site answer."""
    stored(Answer(job=job, status_code=status, headers=headers, body=body, lateness_ms=1.0, elapsed_ms=2.0))


def all_due() -> None:
    """Let the time pass that anything waits for: queued fetches are due, and sites are free."""
    long_ago = database_now() - timedelta(hours=1)
    Fetch.objects.filter(state=FetchState.QUEUED).update(not_before=long_ago)
    Site.objects.update(next_start=long_ago)
    Site.objects.filter(due_at__isnull=False).update(due_at=long_ago)
    Slot.objects.update(start_time=long_ago)
