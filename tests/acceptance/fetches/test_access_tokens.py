"""An API with pages and short-lived access tokens, asked by fetchers that are killed again and again."""

import json
import os
from itertools import pairwise

import pytest

from demo.fakes import judge
from tests.acceptance.conftest import Cluster, all_ended, states, wait_for_progress
from tests.acceptance.fetches.paging import TASK
from tests.answering import answering
from tests.oauth import CLIENT, Server
from tests.rows import rows
from tests.waiting import wait_for
from weir.ratelimit import site_settings
from weir.workers.fetches.access_tokens.tokens import fresh_s
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.models import AccessToken, Fetch, FetchState

KILLS = 30 if "WEIR_FAULTS" in os.environ else 2
LISTS = 3  # lists of pages, each page of which names the next one
PAGES_A_KILL = 4
LIFE_S = 4.0
INTERVAL_S = 0.1


@pytest.mark.faults
def test_all_pages_come_with_one_request_for_a_token_in_each_of_its_lives(cluster: Cluster) -> None:
    """None is early, none is refused, and a token or a secret is nowhere but in requests."""
    api = Server("127.1.250.1", life_s=LIFE_S, pages=PAGES_A_KILL * KILLS)
    cluster.environment["WEIR_SECRET_SHOP"] = json.dumps(api.described())
    site_settings.set_rate(api.name, "10/s", headers={"Authorization": "Bearer {token:SHOP}"}, obeys_robots=False)
    with answering(api.server):
        cluster.launch("worker", "worker", "--include", "tests.acceptance.fetches.paging")
        cluster.start_together("ticks", "fetcher-1", "fetcher-2", "beat")
        cluster.wait_until_ready("worker", "worker")
        for number in range(LISTS):
            request_fetch(api.url(f"/list-{number}"), on_done=TASK, max_attempts=20)
        for number in range(KILLS):
            wait_for_progress(LISTS, 60, f"pages to come after {number} kills")
            name = f"fetcher-{1 + number % 2}"
            cluster.kill(name)
            cluster.start_together(name)
        wait_for(lambda: all_ended() and _pages() == LISTS * api.pages, 120, f"all pages to come: {states()}")
    _judge(api)
    told = rows() + "".join(cluster.log(name).read_text(errors="replace") for name in cluster.launched)
    for text in (*api.issued, CLIENT["client_secret"], json.dumps(CLIENT["client_secret"])[1:-1]):
        assert text not in told


def _pages() -> int:
    return Fetch.objects.filter(state=FetchState.DONE, url__contains="/list-", status_code=200).count()


def _judge(api: Server) -> None:
    gaps = [later.at - earlier.at for earlier, later in pairwise(api.requests)]
    soon = [round(gap, 2) for gap in gaps if gap < fresh_s(LIFE_S)]
    early = judge.early_starts(sorted(api.arrivals), INTERVAL_S)
    refused = [asked for asked in api.asked if asked.status != 200]
    span_s = api.asked[-1].at - api.asked[0].at
    print(
        f"\n{KILLS} kills, {len(api.asked)} requests for {LISTS * api.pages} pages in {span_s:.1f} s: early {early}, "
        f"refused {len(refused)}; requests for tokens: {len(api.requests)}, sooner than its life wants: {soon}"
    )
    assert len(api.arrivals) == len(api.asked) + len(api.requests)
    assert (early, refused) == (0, [])
    assert len(soon) <= KILLS
    assert {asked.path for asked in api.asked} >= {
        f"/list-{number}?page={page}" for number in range(LISTS) for page in range(1, api.pages)
    }
    assert AccessToken.objects.get().version == len(api.requests) - len(soon)
