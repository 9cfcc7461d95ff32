"""All three jobs under load, and what became of them, by the lists of others: the sites, the mail server, the rows."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from urllib.parse import urlsplit

from django.db import Error, connection
from django.db.models import Count

from demo.fakes import site_log, sites
from demo.fakes.mail_server import MailServer
from tests.acceptance import judging
from tests.acceptance.all_jobs import Committed, emails_ended
from tests.acceptance.conftest import Cluster, all_ended, set_rates, states
from tests.waiting import wait_for
from weir.workers.fetches.models import Fetch
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState

SITES = 12
RATES = ("1/s", "2/s", "3/s", "4/s")
AHEAD_S = 30.0  # of work for each site: more than a fault lasts
EMAILS = 5  # at a time
GIVE_UP_AFTER_S = 90.0
POLL_S = 0.05


@dataclass(frozen=True, kw_only=True)
class GoesOn:
    """Seconds after the end of a fault until each job has done something that was asked for since."""

    fetches_s: float  # one of each site
    emails_s: float
    numbers_s: float  # stored in PostgreSQL, and right

    @property
    def slowest_s(self) -> float:
        """Return how long the last of them took."""
        return max(self.fetches_s, self.emails_s, self.numbers_s)


@dataclass(kw_only=True)
class Load:
    """What is asked for; `tend` starts what has ended by itself."""

    cluster: Cluster
    running: sites.Sites
    mails: MailServer
    ahead_s: float = AHEAD_S
    restarts: list[str] = field(default_factory=list)
    committed: Committed = field(default_factory=Committed)
    _numbers: "count[int]" = field(default_factory=count)

    def __post_init__(self) -> None:
        self.intervals = set_rates(
            self.running, {host: RATES[place % len(RATES)] for place, host in enumerate(self.running.hosts)}
        )

    def top_up(self) -> None:
        """Ask for fetches for `ahead_s` at each site, less what waits there, for e-mails, and for notifications."""
        waiting = dict(Fetch.objects.unfinished().values_list("site__name").annotate(Count("pk")))
        for host in self.running.hosts:
            missing = int(self.ahead_s / self.intervals[host]) - waiting.get(f"{host}:{self.running.port}", 0)
            self.committed.fetch(self._urls(missing, [host]))
        self.committed.ship(EMAILS)
        self.committed.notify()

    def _urls(self, count: int, hosts: Sequence[str]) -> list[str]:
        """Return so many new URLs of each of these sites."""
        places = [self.running.hosts.index(host) for host in hosts for _ in range(count)]
        return [self.running.url(place, f"/ok/{next(self._numbers)}") for place in places]

    def wait_until_calm(self) -> None:
        """Wait until every site is asked, and everything else has been done."""
        since_ns = time.time_ns()
        self.wait_for(lambda: self.all_asked(since_ns), "calm")
        self.wait_for(emails_ended, "e-mails")

    def goes_on(self, since_ns: int) -> GoesOn:
        """Wait until each job has done something that was asked for after this moment."""
        connection.close()  # it may have ended with the server
        last = Email.objects.order_by("-pk")[0].pk
        fresh = self._urls(1, self.running.hosts)
        self.committed.fetch(fresh, priority=1)
        paths = {urlsplit(url).path for url in fresh}
        self.top_up()
        done: dict[str, float] = {}
        looks: dict[str, Callable[[], object]] = {
            "fetches_s": lambda: paths <= {arrival.path for arrival in self.arrivals()},
            "emails_s": lambda: Email.objects.filter(pk__gt=last, state=EmailState.SENT).count() == EMAILS,
            "numbers_s": lambda: not judging.stored_wrong(),
        }

        def all_done() -> bool:
            for name, look in looks.items():
                if name not in done and look():
                    done[name] = (time.time_ns() - since_ns) / 1e9
            return len(done) == len(looks)

        try:
            self.wait_for(all_done, "all jobs to go on")
        finally:
            print(done, flush=True)
        return GoesOn(**done)

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        """Return as soon as the condition is true; starts what has ended meanwhile."""

        def holds() -> bool:
            self.tend()
            return bool(condition())

        wait_for(holds, GIVE_UP_AFTER_S, f"{what}: see {self.cluster.folder}; restarts: {self.restarts}")

    def tend(self) -> None:
        """Start what has ended by itself, as whoever runs processes does."""
        for name, process in [*self.cluster.processes.items()]:
            if name != "web" and process.poll() is not None:
                self.restarts.append(f"{name} ended with {process.returncode}")
                self.cluster.launch(name.partition("-")[0], name)

    def all_asked(self, since_ns: int) -> bool:
        """Tell whether every site was asked after this moment."""
        seen = {arrival.host for arrival in self.arrivals() if arrival.at_ns > since_ns}
        return len(seen) == len(self.intervals)

    def arrivals(self) -> list[site_log.Arrival]:
        """Return what the sites have noted."""
        return site_log.read_arrivals(self.running.log)[0]

    def early(self) -> int:
        """Return how many requests came too early, by the sites' log."""
        return judging.early(self.arrivals(), self.intervals)

    def twice(self) -> int:
        """Return how many e-mails the mail server has accepted more than once."""
        return len(judging.twice(judging.accepted(self.mails)))

    def lost(self) -> Counter[str]:
        """Return what is missing of all that was asked for, once it has ended."""
        return judging.lost(self.committed, self.arrivals(), judging.accepted(self.mails))

    def end(self) -> None:
        """Wait until everything that was asked for has ended."""
        self.wait_for(all_ended, f"all fetches to end: {states()}")
        self.wait_for(emails_ended, "the e-mails")
        self.wait_for(lambda: not judging.stored_wrong(), "the numbers")


def drift() -> int | None:
    """Return for how many users the number that is shown is not that of the rows; None where PostgreSQL is away."""
    try:
        return len(judging.shown_wrong())
    except Error:
        connection.close()
        return None
