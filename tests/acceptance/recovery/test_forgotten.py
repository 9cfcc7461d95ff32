"""PostgreSQL forgets what it had granted, while everything runs: nothing is early, nothing is sent twice."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator

import pytest
from django.db import connection

from demo.fakes import site_log, sites
from demo.fakes.mail_server import MailServer
from tests import own_servers
from tests.acceptance import all_jobs, judging
from tests.acceptance.all_jobs import USERS, ship
from tests.acceptance.conftest import Cluster, set_rates, wait_for_progress
from tests.own_servers import Server, beside
from tests.waiting import wait_for
from weir.notifications import inbox
from weir.notifications.models import Reconciliation
from weir.postgres.timeline.models import KnownTimeline
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.recovery.models import Recovery

SITES = 12
RATES = ("1/s", "2/s", "4/s", "1/6s")
NAMES = ("ticks", "maintenance", "fetcher-1", "fetcher-2", "beat")


@pytest.fixture
def server(cluster: Cluster) -> Iterator[Server]:
    """A PostgreSQL of our own, and a place for a second one, either of which may be the primary."""
    with own_servers.primary() as made:
        hosts = f"{made.folder},{beside(made, 'standby')}"
        with all_jobs.on(cluster, hosts, target_session_attrs="read-write"):
            yield made


@pytest.fixture
def mails(cluster: Cluster) -> Iterator[MailServer]:
    with all_jobs.mails(cluster) as running:
        yield running


def all_right() -> bool:
    """Assert that each user is shown the number of the rows; at every moment."""
    assert judging.shown_wrong() == {}
    return True


class Loss(ABC):
    """A way in which PostgreSQL forgets what was committed since `prepare`."""

    def __init__(self, server: Server) -> None:
        self.server = server

    @abstractmethod
    def prepare(self) -> None: ...

    @abstractmethod
    def happen(self) -> None: ...


class DiskGoesBack(Loss):
    """A snapshot of the disk is restored: the same timeline, as it was."""

    def prepare(self) -> None:
        self.copy = self.server.copied(beside(self.server, "copy"))

    def happen(self) -> None:
        self.server.kill()
        self.server.take_files_of(self.copy)
        self.server.start()


class LateStandby(Loss):
    """A standby that lags is promoted."""

    def prepare(self) -> None:
        self.standby = self.server.copied(beside(self.server, "standby"), as_standby=True)

    def happen(self) -> None:
        self.server.kill()
        self.standby.start()
        self.standby.promote()


class Dump(Loss):
    """A dump is restored into another server."""

    def prepare(self) -> None:
        self.dumped = self.server.dump()

    def happen(self) -> None:
        self.server.kill()
        other = Server(folder=beside(self.server, "standby"), binaries=self.server.binaries)
        own_servers.create(other)
        other.restore(self.dumped)


AT_LENGTH = "WEIR_FAULTS" in os.environ
GO_ON, NEW = "processes go on", "all processes are new"
EACH = [(kind, processes) for kind in (DiskGoesBack, LateStandby, Dump) for processes in (GO_ON, NEW)]


@pytest.mark.faults
@pytest.mark.parametrize(("kind", "processes"), EACH if AT_LENGTH else [(DiskGoesBack, NEW), (LateStandby, GO_ON)])
def test_nothing_is_granted_twice(
    cluster: Cluster, server: Server, mails: MailServer, kind: type[Loss], processes: str
) -> None:
    """Sites rest, e-mails that may have gone are unknown, numbers are counted; and all goes on by itself."""
    loss = kind(server)
    with sites.running(SITES, cluster.folder) as running:
        intervals = set_rates(running, {host: RATES[place % len(RATES)] for place, host in enumerate(running.hosts)})
        cluster.start_together(*NAMES)
        urls = [running.url(place, f"/ok/{number}") for place in range(SITES) for number in range(200)]
        request_fetches(urls, max_attempts=100)
        inbox.notify_many([*USERS], "news", "Before")
        ship(20)
        wait_for_progress(30, 60, "fetches")
        loss.prepare()
        cluster.start("mailer", "mailer")
        inbox.notify_many([*USERS], "news", "Lost")
        ship(5)
        wait_for(lambda: not Email.objects.exclude(state=EmailState.SENT).exists(), 30, "the e-mails")
        wait_for_progress(60, 60, "fetches")

        if processes == NEW:
            for name in [*cluster.processes]:
                cluster.kill(name)
        loss.happen()
        began = time.monotonic()
        connection.close()
        if processes == NEW:
            all_jobs.forget()
            cluster.start_together(*NAMES, "mailer")
        wait_for(lambda: all_right() and Recovery.objects.exists(), 30, "the recovery", every_s=0.02)
        recovered_s = time.monotonic() - began
        wait_for_progress(30, 60, "fetches")
        going_s = time.monotonic() - began
        ship(3)
        wait_for(lambda: Email.objects.filter(state=EmailState.SENT).count() == 3, 30, "the new e-mails")
        wait_for(Reconciliation.objects.filter(trusted=True).exists, 60, "Redis to be trusted")
        assert judging.shown_wrong() == {}
    arrivals, _ = site_log.read_arrivals(running.log)
    [recovery] = Recovery.objects.all()
    unknown = Email.objects.filter(state=EmailState.UNKNOWN, phase=Phase.FORGOTTEN).count()
    print(
        f"\n{kind.__name__}: recovered after {recovered_s:.1f} s, fetches after {going_s:.1f} s; "
        f"{len(arrivals)} requests, {judging.early(arrivals, intervals)} early; "
        f"{mails.received().total()} e-mails, {unknown} unknown; {recovery.why}"
    )
    assert judging.early(arrivals, intervals) == 0
    assert judging.twice(judging.accepted(mails)) == set()
    assert unknown == recovery.emails == 20


def test_a_synchronous_standby_forgets_nothing(cluster: Cluster, server: Server, mails: MailServer) -> None:
    """It is promoted, and all goes on: no site rests, no e-mail is unknown, Redis is trusted."""
    standby = server.copied(beside(server, "standby"), as_standby=True)
    standby.options["cluster_name"] = "standby"
    standby.start()
    server.set("synchronous_standby_names", "*")
    server.set("synchronous_commit", "on")
    with sites.running(SITES, cluster.folder) as running:
        intervals = set_rates(running, {host: RATES[place % len(RATES)] for place, host in enumerate(running.hosts)})
        cluster.start_together(*NAMES, "mailer")
        urls = [running.url(place, f"/ok/{number}") for place in range(SITES) for number in range(200)]
        request_fetches(urls, max_attempts=100)
        wait_for(Reconciliation.objects.filter(trusted=True).exists, 60, "Redis to be trusted")
        ship(20)
        wait_for(KnownTimeline.objects.filter(is_synchronous=True).exists, 30, "a note that commits wait")
        wait_for_progress(60, 60, "fetches")
        known = KnownTimeline.objects.get().timeline

        server.kill()
        standby.promote()
        began = time.monotonic()
        connection.close()
        wait_for(lambda: KnownTimeline.objects.get().timeline != known, 30, "the new timeline to be known")
        known_s = time.monotonic() - began
        wait_for_progress(30, 60, "fetches")
        going_s = time.monotonic() - began
        ship(3)
        wait_for(lambda: not Email.objects.exclude(state=EmailState.SENT).exists(), 60, "the e-mails")
    arrivals, _ = site_log.read_arrivals(running.log)
    print(f"\nknown after {known_s:.1f} s, fetches after {going_s:.1f} s; {judging.early(arrivals, intervals)} early")
    assert judging.early(arrivals, intervals) == 0
    assert judging.twice(judging.accepted(mails)) == set()
    assert judging.contradictions(judging.accepted(mails)) == {}
    assert not Recovery.objects.exists()
    assert Reconciliation.objects.get().trusted
