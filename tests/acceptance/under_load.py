"""All three jobs under load, while what they depend on is taken from them: what was lost, and when each goes on."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final

from django.db import Error, connection

from demo.fakes import site_log, sites
from demo.fakes.mail_server import ACCEPTED, MailServer
from tests.acceptance import judging
from tests.acceptance.all_jobs import USERS, Committed, emails_ended
from tests.acceptance.conftest import CELERY, Cluster, all_ended, set_rates, states
from tests.waiting import comes_true, in_time, wait_for
from weir.notifications import inbox
from weir.notifications.models import FlushedEpoch, Reconciliation
from weir.workers.fetches.models import Fetch
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState

FETCHES, FLUSHES, EMAILS = "fetches", "flushes", "e-mails"
WRITE_EVERY_S: Final = 0.1
GIVE_UP_S: Final = 90.0
SITES: Final = 12
RATES: Final = ("2/s", "4/s", "8/s")
NAMES: Final = ("ticks", "maintenance", "worker", "fetcher-1", "fetcher-2", "beat", "mailer")


@dataclass(kw_only=True)
class Web:
    """A thread that does what web code does: it notifies, ships, and asks for fetches. It notes what was committed."""

    running: sites.Sites
    committed: Committed = field(default_factory=Committed)
    refused: int = 0  # times that the database was away
    broken: list[BaseException] = field(default_factory=list)
    _ends: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def working(self) -> Iterator["Web"]:
        """Let it work, and raise what was no error of the database."""
        thread = threading.Thread(target=self._work, name="web", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ends.set()
            thread.join(GIVE_UP_S)
        assert not thread.is_alive(), "web code hangs"
        assert self.broken == []

    def _work(self) -> None:
        try:
            while not self._ends.wait(WRITE_EVERY_S):
                try:
                    self._write()
                except Error:
                    self.refused += 1
                finally:
                    connection.close()  # as Django does when a request ends: the next tries the hosts from the first on
        except BaseException as error:  # noqa: BLE001  `working` raises it
            self.broken.append(error)

    def _write(self) -> None:
        number = time.time_ns()
        urls = [self.running.url(place, f"/ok/{number}") for place in range(len(self.running.hosts))]
        self.committed.fetch(urls[number % 3 :: 3])
        self.committed.notify()
        if number % 2:
            inbox.mark_all_read(1 + number % len(USERS))
        self.committed.ship(1)


def seconds_until_each_goes_on(mails: MailServer, began_at: datetime) -> dict[str, float]:
    """Return how long after that moment the first request, flush and e-mail began; web code works meanwhile."""
    _, offset = mails.events_since(0)
    ways: Mapping[str, Callable[[], bool]] = {
        FETCHES: Fetch.objects.filter(started_at__gt=began_at).exists,
        FLUSHES: FlushedEpoch.objects.filter(users__gt=0, flushed_at__gt=began_at).exists,
        EMAILS: partial(_was_accepted, mails, offset),
    }
    went_on: dict[str, float] = {}

    def all_go_on() -> bool:
        for way in ways.keys() - went_on:
            try:
                if ways[way]():
                    went_on[way] = (datetime.now(UTC) - began_at).total_seconds()
            except Error:
                connection.close()
        return len(went_on) == len(ways)

    comes_true(all_go_on, GIVE_UP_S)
    assert went_on.keys() == ways.keys(), f"only {went_on} go on"
    return went_on


def _was_accepted(mails: MailServer, offset: int) -> bool:
    return any(event.event == ACCEPTED for event in mails.events_since(offset)[0])


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run has come to, by the logs of the sites and the mail server, and by the rows."""

    requests: int
    early: int
    emails: int
    twice: int
    unknown: int
    lost: Counter[str]  # what was committed for web code, and is missing or has not been done
    drift: Mapping[int, tuple[int, int]]

    def __str__(self) -> str:
        """Say it in one line."""
        return (
            f"{self.requests} requests, {self.early} early; {self.emails} e-mails, {self.twice} twice, {self.unknown} "
            f"unknown; lost: {dict(self.lost)}; {len(self.drift)} numbers wrong"
        )

    def check(self) -> None:
        """State what Weir promises."""
        assert self.early == 0
        assert self.twice == 0
        assert self.lost == Counter()
        assert self.drift == {}


def outcome(running: sites.Sites, mails: MailServer, committed: Committed, intervals: Mapping[str, float]) -> Outcome:
    """Wait until all is done that was committed, and return what has become of it."""
    wait_for(all_ended, 240, f"all fetches to end: {states()}")
    wait_for(emails_ended, 120, "all e-mails to end")
    comes_true(lambda: judging.shown_wrong() == {}, 60)
    arrivals, _ = site_log.read_arrivals(running.log)
    accepted = judging.accepted(mails)
    return Outcome(
        requests=len(arrivals),
        early=judging.early(arrivals, intervals),
        emails=len(accepted),
        twice=len(judging.twice(accepted)),
        unknown=Email.objects.filter(state=EmailState.UNKNOWN).count(),
        lost=judging.lost(committed, arrivals, accepted),
        drift=judging.shown_wrong(),
    )


def now() -> datetime:
    """Return the moment, by the clock of this host, where PostgreSQL is, too."""
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a run has come to, and the longest that each way took to go on after a fault."""

    outcome: Outcome
    slowest: Mapping[str, float]
    refused: int

    def check(self, within_s: float) -> None:
        """State what Weir promises, and that each way went on in time."""
        self.outcome.check()
        in_time(max(self.slowest.values()) < within_s, f"slowest: {self.slowest}")


def run(
    cluster: Cluster,
    mails: MailServer,
    faults: int,
    fault: Callable[[], object],
    mend: Callable[[], object] = now,
    *,
    names: Sequence[str] = NAMES,
    celery: Sequence[str] = CELERY,
) -> Run:
    """Let the cluster work under load, and so many faults happen; each is over when `fault` returns.

    `mend` prepares the next one, once all ways have gone on. `names` are those of the processes, and `celery` is as for
    the cluster. Prints the figures.
    """
    slowest: Counter[str] = Counter()
    with sites.running(SITES, cluster.folder) as running:
        intervals = set_rates(running, {host: RATES[place % len(RATES)] for place, host in enumerate(running.hosts)})
        cluster.start_together(*names, celery=celery)
        wait_for(Reconciliation.objects.filter(trusted=True).exists, 60, "Redis to be trusted")
        web = Web(running=running)
        with web.working():
            seconds_until_each_goes_on(mails, now())
            for _ in range(faults):
                fault()
                went_on = seconds_until_each_goes_on(mails, now())
                slowest |= Counter(went_on)
                print(", ".join(f"{way} after {seconds:.1f} s" for way, seconds in went_on.items()))
                mend()
        connection.close()
        found = Run(outcome=outcome(running, mails, web.committed, intervals), slowest=slowest, refused=web.refused)
    told = ", ".join(f"{way} {seconds:.1f} s" for way, seconds in slowest.items())
    print(f"\n{faults} faults: {found.outcome}; web code was refused {web.refused} times; at the slowest {told}")
    return found
