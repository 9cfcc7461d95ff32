"""An answer that kills its fetcher counts against that fetch alone, and ends it, whatever else is in flight."""

import signal

import pytest
from django.db.models import F
from pytest_django import Settings

from demo.fakes import sites
from tests.integration.conftest import StartPython, database_now
from tests.integration.maintenance.test_sweep import GRACE, HOUR
from weir.ratelimit.models import Site, Slot
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.results.outcomes import UNCOUNTED_LOSSES
from weir.workers.fetches.fetcher.results.writer import SUSPECT_LOSSES
from weir.workers.fetches.maintenance.sweep import sweep
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = pytest.mark.django_db(transaction=True)

# A fetcher that is killed while the writer, or the loop, has the answer to `/poison` in hand, once it waits for the
# answers to all others.
SCRIPT = """
import os, signal, time
from django.conf import settings
settings.WEIR_FETCH_ALLOW_NETS = ["127.1.0.0/16"]
from tests.integration.fetching import reserve_all
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.fetcher.http.session import Session
from weir.workers.fetches.fetcher.in_flight import Stage
from weir.workers.fetches.fetcher.results import writer
from weir.workers.fetches.models import Fetch

judge, answer = writer.judge, Session._answer

def deadly(event, **options):
    if event.job.url.endswith("/poison"):
        while any(held.stage is not Stage.WRITTEN for held in list(fetcher._in_flight._tasks.values())):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    return judge(event, **options)

async def deadly_answer(of, attempt, connection, reader):
    if attempt.job.url.endswith("/poison"):
        os.kill(os.getpid(), signal.SIGKILL)
    return await answer(of, attempt, connection, reader)

if sys.argv[1] == "writer":
    writer.judge = deadly
else:
    Session._answer = deadly_answer
fetcher = Fetcher()
while Fetch.objects.unfinished().exists():
    if slots := reserve_all():
        fetcher.run_batch(slots)
    time.sleep(0.01)
fetcher.close(3.0)
"""


def be_lost() -> None:
    """Let the time pass until all held fetches are lost, and may be tried again."""
    Fetch.objects.exclude(lease_until=None).update(lease_until=database_now() - HOUR)
    Slot.objects.update(start_time=F("start_time") - HOUR, use_until=F("use_until") - HOUR)
    sweep()
    Fetch.objects.filter(state=FetchState.QUEUED).update(not_before=database_now() - HOUR)
    Site.objects.update(next_start=database_now() - HOUR, due_at=None, has_backlog=True)


@pytest.mark.parametrize(
    ("dies_in", "deaths"), [("writer", SUSPECT_LOSSES + 2), ("loop", UNCOUNTED_LOSSES + 2)], ids=["writer", "loop"]
)
def test_what_a_fetcher_dies_of_counts_against_that_fetch_alone(
    dies_in: str, deaths: int, running_sites: sites.Sites, start_python: StartPython, settings: Settings
) -> None:
    """The others are lost as often, at the same moments, and are done when it has ended."""
    settings.WEIR_DEFAULT_RATE = "200/s"
    settings.WEIR_FETCH_ALLOW_NETS = ["127.1.0.0/16"]
    others = request_fetches([running_sites.url(number % 3, "/slow/3000") for number in range(30)])
    poison = request_fetch(running_sites.url(0, "/poison"), max_attempts=2)
    Site.objects.update(grace=GRACE)
    counted = []
    while True:
        status = start_python(SCRIPT, dies_in).wait(60)
        if status == 0:
            break
        assert status == -signal.SIGKILL
        be_lost()
        counted.append(Fetch.objects.get(pk=poison.pk).attempts)
    assert counted == [*[0] * (deaths - 2), 1, 2]
    poison.refresh_from_db()
    assert (poison.state, poison.losses) == (FetchState.FAILED, deaths)
    assert poison.error.endswith("before the lease ran out (attempt 2 of 2)")
    ends = Fetch.objects.filter(pk__in=[fetch.pk for fetch in others]).values_list("state", "error", "attempts")
    if dies_in == "writer":
        assert set(ends) == {(FetchState.DONE, "", 1)}
        assert Fetch.objects.filter(losses=deaths).count() == len(others) + 1, "all were in flight each time"
    else:
        assert {(state, error) for state, error, _ in ends} == {(FetchState.DONE, "")}
