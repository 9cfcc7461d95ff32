"""One fault after the other hits all three jobs: nothing is early, lost, twice or wrong, and work goes on soon."""

import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.db import connection

from demo.fakes import sites
from demo.fakes.distance import distance
from project import embedded
from tests import own_servers
from tests.acceptance import all_jobs, web_process
from tests.acceptance.conftest import Cluster
from tests.acceptance.faults import faults
from tests.acceptance.faults.faults import Fault
from tests.acceptance.faults.host import Host, child_killed_for_memory, disk_full, hung, killed_for_memory, slow
from tests.acceptance.faults.load import SITES, GoesOn, Load, drift
from tests.waiting import wait_for
from weir.workers.recovery.models import Recovery

pytestmark = [
    pytest.mark.alone,
    pytest.mark.faults,
    pytest.mark.skipif("WEIR_FAULTS" not in os.environ, reason="takes minutes: make faults"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system"),
]
NAMES = ("worker", "ticks", "maintenance", "fetcher-1", "fetcher-2", "mailer", "beat")
DISK = "600m"
GOES_ON_WITHIN_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Told:
    """How one fault went by. The first two are all that happened so far in this run."""

    early: int
    twice: int
    shown_wrong: list[int]  # how many users were shown a wrong number, at each look that PostgreSQL has answered
    goes_on: GoesOn
    during: int  # requests
    restarts: list[str]


@contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """Mount a file system of this size."""
    folder = Path(tempfile.mkdtemp(prefix="weir-disk-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "weir", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


@contextmanager
def host_of(cluster: Cluster, *, lines: bool) -> Iterator[Host]:
    """Run the servers and all processes; with `lines`, these reach the servers by TCP."""
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(DISK))
        server = stack.enter_context(own_servers.primary(parent=disk))
        stack.enter_context(all_jobs.on(cluster, str(server.folder)))
        mails = stack.enter_context(all_jobs.mails(cluster))
        running = stack.enter_context(sites.running(SITES, cluster.folder))
        between = {}
        if lines:
            between = {
                "PostgreSQL": stack.enter_context(distance(server.folder / ".s.PGSQL.5432", 0.0)),
                "broker": stack.enter_context(distance(embedded.valkey_socket(cluster.broker_home), 0.0)),
            }
            cluster.environment |= {
                "DATABASE_URL": f"postgresql://postgres@127.0.0.1:{between['PostgreSQL'].port}/{own_servers.NAME}",
                "REDIS_URL": f"redis://127.0.0.1:{between['broker'].port}/0",
            }
        stack.callback(cluster.stop)
        cluster.start_together(*NAMES)
        yield Host(load=Load(cluster=cluster, running=running, mails=mails), server=server, disk=disk, lines=between)


def of_servers(host: Host) -> list[Fault]:
    """Return the faults of PostgreSQL and Redis."""
    return [
        disk_full(host),
        faults.connections_used_up(host),
        faults.postgres_read_only(host),
        faults.postgres_killed(host),
        faults.redis_full(host),
        faults.redis_frozen(host),
    ]


def of_processes(host: Host) -> list[Fault]:
    """Return the faults of each kind of process."""
    kinds = ("worker", "ticks", "maintenance", "fetcher", "mailer", "beat", "web")
    return [
        *(faults.frozen(host, kind) for kind in kinds),
        *(child_killed_for_memory(host, name) for name in ("worker", "ticks", "maintenance", "mailer")),
        *(killed_for_memory(host, name) for name in ("ticks", "fetcher-1", "mailer", "beat")),
    ]


def of_networks(host: Host) -> list[Fault]:
    """Return the faults of the lines between processes and servers."""
    return [hung(host, "broker"), hung(host, "PostgreSQL"), slow(host)]


def answers(url: str) -> bool:
    """Tell whether the web process, and PostgreSQL behind it, answer."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310  our own
            return bool(answer.status == 200)
    except OSError:
        return False


def went_by(host: Host, fault: Fault) -> Told:
    """Let a fault hit everything under load, and wait until all goes on."""
    load = host.load
    load.top_up()
    load.wait_until_calm()
    load.top_up()
    already = len(load.restarts)
    began_ns = time.time_ns()
    looks: list[int | None] = []
    with fault.happens():
        until = time.monotonic() + fault.lasts_s
        while time.monotonic() < until:
            load.tend()
            looks.append(drift())
            time.sleep(0.5)
        connection.close()
    ended_ns = time.time_ns()
    goes_on = load.goes_on(ended_ns)
    told = Told(
        early=load.early(),
        twice=load.twice(),
        shown_wrong=[wrong for wrong in (*looks, drift()) if wrong is not None],
        goes_on=goes_on,
        during=sum(began_ns < arrival.at_ns <= ended_ns for arrival in load.arrivals()),
        restarts=load.restarts[already:],
    )
    print(fault.name, told, flush=True)
    return told


@pytest.mark.parametrize("group", [of_servers, of_processes, of_networks], ids=lambda group: group.__name__)
def test_all_jobs_go_on_after_every_fault(cluster: Cluster, group: object) -> None:
    """A full disk, no connections, hung lines, frozen and killed processes, loss and delay."""
    with host_of(cluster, lines=group is of_networks) as host:
        address = f"{web_process.start(cluster, 'web')}/healthz"
        wait_for(lambda: answers(address), 30, "the web process")
        told = {fault.name: went_by(host, fault) for fault in group(host)}  # type: ignore[operator]
        wait_for(lambda: answers(address), 10, "the web process to answer")
        host.load.end()
        report(told, host.load)
        print(f"{len(host.load.arrivals())} requests; {host.load.mails.received().total()} e-mails accepted")
        assert host.load.early() == 0
        assert host.load.twice() == 0
        assert host.load.lost() == {}
        assert drift() == 0
        assert {name: sum(each.shown_wrong) for name, each in told.items()} == dict.fromkeys(told, 0)
        assert all(each.shown_wrong for each in told.values())  # PostgreSQL has answered, afterwards at least
        assert not Recovery.objects.exists()
        assert {name: each.goes_on for name, each in told.items() if each.goes_on.slowest_s > GOES_ON_WITHIN_S} == {}


def report(told: dict[str, Told], load: Load) -> None:
    """Print the table, as it stands in docs."""
    print(
        "\n| fault | early | lost | twice | drift, of so many looks | requests meanwhile | "
        "fetches, e-mails, numbers go on after |"
    )
    print("|---|---|---|---|---|---|---|")
    early = twice = 0
    lost = load.lost().total()
    for name, each in told.items():
        after = each.goes_on
        print(
            f"| {name} | {each.early - early} | {lost} | {each.twice - twice} | "
            f"{sum(each.shown_wrong)} of {len(each.shown_wrong)} | {each.during} | "
            f"{after.fetches_s:.1f} s, {after.emails_s:.1f} s, {after.numbers_s:.1f} s |"
        )
        early, twice = each.early, each.twice
    print("restarts:", load.restarts)
