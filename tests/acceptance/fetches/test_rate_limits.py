"""APIs that state their quotas, asked for all pages by fetchers that are killed again and again."""

import os
import time
from contextlib import ExitStack
from itertools import pairwise

import pytest

from tests.acceptance.conftest import Cluster, all_ended, states, wait_for_progress
from tests.acceptance.fetches.limited_api import DRAFT, GITHUB, OLDER_DRAFT, QUOTA, LimitedApi, Served, running
from tests.acceptance.fetches.paging import TASK
from tests.acceptance.judging import early
from tests.waiting import in_time, wait_for
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.models import Fetch

KILLS = 30 if "WEIR_FAULTS" in os.environ else 1
LISTS = 2  # of each API
PAGES_A_KILL = 3
INTERVAL_S = 0.2  # so fast that each window is used up


@pytest.mark.faults
def test_all_pages_come_and_a_quota_that_is_stated_is_never_exceeded(cluster: Cluster) -> None:
    """Unless the fetcher that was told so is killed at once. Who is refused stays away for as long as it is told."""
    pages, kills = PAGES_A_KILL * (1 + KILLS), list[float]()
    with ExitStack() as leaving:
        apis = [
            leaving.enter_context(running(f"127.1.249.{place + 1}", limits, pages))
            for place, limits in enumerate((DRAFT, OLDER_DRAFT, GITHUB))
        ]
        for api in apis:
            site_settings.set_rate(api.address, "5/s", max_concurrency=1, obeys_robots=False)
        cluster.launch("worker", "worker", "--include", "tests.acceptance.fetches.paging")
        cluster.start_together("ticks", "fetcher-1", "fetcher-2", "beat")
        cluster.wait_until_ready("worker", "worker")
        for api in apis:
            for number in range(LISTS):
                request_fetch(f"http://{api.address}/list-{number}", on_done=TASK, max_attempts=20)
        for number in range(KILLS):
            wait_for_progress(LISTS * len(apis), 60, f"pages to come after {number} kills")
            name = f"fetcher-{1 + number % 2}"
            cluster.kill(name)
            kills.append(time.time())
            cluster.start_together(name)
        wanted = LISTS * pages * len(apis)
        # In this order: once all are there, none is added after those that are seen to have ended.
        wait_for(lambda: Fetch.objects.count() == wanted and all_ended(), 240, f"all pages to come: {states()}")

    assert early([arrival for api in apis for arrival in api.arrivals], dict.fromkeys(_hosts(apis), INTERVAL_S)) == 0
    assert set(Fetch.objects.values_list("status_code", flat=True)) == {200}
    used_up = list[int]()
    for api in apis:
        refused = [answer for answer in api.served if answer.status != 200]
        for_pace = [answer for answer in refused if not answer.away_until]
        used_up.append(windows := sum(answer.status == 200 and answer.left == 0 for answer in api.served))
        print(f"\n{len(api.served)} requests for {LISTS * pages} pages; quotas used up: {windows}; refused: {refused}")
        assert [answer for answer in for_pace if not _is_explained(answer, api, kills)] == []
        assert len(refused) - len(for_pace) == (LISTS if api.limits.has_second_limit else 0)
        assert [later for earlier, later in pairwise(api.served) if later.at < earlier.away_until] == []
    in_time(min(used_up) >= LISTS * pages // QUOTA // 2, "asking as fast as the APIs allow, except after kills")


def _hosts(apis: list[LimitedApi]) -> list[str]:
    return [api.address.partition(":")[0] for api in apis]


def _is_explained(refused: Served, api: LimitedApi, kills: list[float]) -> bool:
    """Return whether a fetcher was killed between the answer that used the quota up and this refusal."""
    used_up = [
        answer.at for answer in api.served if answer.status == 200 and answer.left == 0 and answer.at < refused.at
    ]
    return any(used_up[-1] < kill < refused.at for kill in kills)
