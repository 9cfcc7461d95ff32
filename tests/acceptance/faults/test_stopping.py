"""Every process is asked to stop at some moment after the broker began to refuse, hang or be gone: it ends in time."""

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import pytest

from demo.fakes import sites
from tests.acceptance import all_jobs, web_process
from tests.acceptance.all_jobs import Committed
from tests.acceptance.broker_faults import frozen, gone, refusing, refusing_at_times
from tests.acceptance.conftest import Cluster, set_rates, states, wait_for_progress
from tests.waiting import wait_for
from weir.workers.fetches.models import FetchState
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.processes.models import Process

AT_LENGTH = "WEIR_FAULTS" in os.environ
SEED = os.environ.get("WEIR_FAULTS_SEED", "weir")
STOPS = 10 if AT_LENGTH else 1  # of each process, for each fault
FAULTS = (refusing, refusing_at_times, frozen, gone) if AT_LENGTH else (refusing_at_times,)
WORKERS = ("worker", "ticks", "ticks-2", "maintenance", "fetcher", "mailer", "beat")
NAMES = (*WORKERS, "web")
GRACE_S = 20.0
LATEST_S = 8.0  # after which they are asked to stop
SITES = 6
pytestmark = [pytest.mark.alone, pytest.mark.faults]
Fault = Callable[[Cluster], AbstractContextManager[None]]


@pytest.mark.parametrize("fault", FAULTS)
def test_every_process_stops_within_its_grace(cluster: Cluster, fault: Fault) -> None:
    """Under load of all three jobs. A mailer waits for its mail server, which here answers soon."""
    chance = random.Random(f"{SEED} {fault.__name__}")  # noqa: S311  when
    longest: dict[str, float] = dict.fromkeys(NAMES, 0.0)
    with all_jobs.mails(cluster), sites.running(SITES, cluster.folder) as running:
        set_rates(running, dict.fromkeys(running.hosts, "10/s"))
        for number in range(STOPS):
            committed = Committed()
            committed.fetch(running.url(place, f"/ok/{number}/{page}") for place in range(SITES) for page in range(300))
            committed.ship(30, treated="late-300")
            cluster.start_together(*WORKERS)
            web_process.start(cluster, "web")
            wait_for_progress(5 * SITES, 30, "the fetcher to have work")
            committed.notify()
            with fault(cluster):
                wait_s = chance.uniform(0, LATEST_S)
                time.sleep(wait_s)
                took = _stop(cluster, NAMES)
            print(f"\n{fault.__name__}, asked after {wait_s:.1f} s: {took}")
            longest = {name: max(took[name], longest[name]) for name in NAMES}
            codes = {name: cluster.processes[name].returncode for name in NAMES}
            assert codes == {**dict.fromkeys(WORKERS, 0), "web": -signal.SIGTERM} or codes["web"] == 0
            assert states()[FetchState.RUNNING] == 0
            assert not Process.objects.exists()
    print(f"{STOPS} stops of each, {fault.__name__}: longest {longest}")
    assert {name: took_s for name, took_s in longest.items() if took_s > GRACE_S} == {}


def test_a_refusal_for_one_task_does_not_hold_up_the_other(cluster: Cluster) -> None:
    """Both are in hand when the worker is to stop, and the broker refuses to note that they have ended."""
    with all_jobs.mails(cluster):
        cluster.start_together("mailer", "beat")
        for count in (1, 2):  # a task for each
            all_jobs.ship(1, treated="late-8000")
            wait_for(lambda count=count: _sending() == count, 30, "an e-mail to be sent")  # type: ignore[misc]
        with refusing(cluster):
            took = _stop(cluster, ("mailer",))
    print(f"\n{took}")
    assert took["mailer"] < GRACE_S


def _sending() -> int:
    return Email.objects.filter(state=EmailState.SENDING).count()


def _stop(cluster: Cluster, names: Sequence[str]) -> dict[str, float]:
    """Ask these processes to stop, and return after how many seconds each of them did."""
    for name in names:
        cluster.processes[name].send_signal(signal.SIGTERM)
    asked_at = time.monotonic()
    took: dict[str, float] = {}

    def have_ended() -> bool:
        for name in set(names) - set(took):
            if cluster.processes[name].poll() is not None:
                took[name] = round(time.monotonic() - asked_at, 1)
        return len(took) == len(names)

    wait_for(have_ended, 3 * GRACE_S, f"the end of all; {took}")
    return took
