"""Requests that change something, at an API with idempotency keys: each has its effect exactly once."""

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count, islice, product

import pytest
from django.db import transaction

from tests.acceptance.conftest import Cluster, all_ended, states, wait_for_progress
from tests.acceptance.fetches.idempotent_api import IdempotentApi, running
from tests.acceptance.judging import early
from tests.waiting import in_time, wait_for
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch, FetchState

KILLS = 60 if "WEIR_FAULTS" in os.environ else 1
APIS = 8
A_SECOND = 20  # requests to each API
PROGRESS = 60  # fetches between two kills
BUSY = PROGRESS + A_SECOND * APIS  # that wait, at least, so that requests go on while a killed fetcher starts again
MORE = 12  # requests of a method to an API: 288 in all, more than BUSY
NAMES = ("fetcher-1", "fetcher-2")
METHODS = ("POST", "PATCH", "PUT")


def ask(apis: list[IdempotentApi], numbers: Iterator[int]) -> None:
    """Ask all APIs for requests of three methods, each with another body, unless many wait."""
    if Fetch.objects.unfinished().count() < BUSY:
        with transaction.atomic():  # fetchers find all of them at once
            for number, method in product(islice(numbers, MORE), METHODS):
                request_fetches(
                    [f"http://{api.address}/things" for api in apis],
                    method=method,
                    json={"method": method, "number": number},
                    repeatable=True,
                    max_attempts=1_000,
                )


@pytest.mark.faults
def test_each_request_has_its_effect_exactly_once(cluster: Cluster) -> None:
    """Fetchers are killed, and the API reads requests without an answer; it is asked again with the same key."""
    chance = random.Random(os.environ.get("WEIR_FAULTS_SEED", "weir"))  # noqa: S311  which fetcher is killed
    numbers = count()
    with ExitStack() as leaving:
        apis = [leaving.enter_context(running(f"127.1.252.{place + 1}", f"api {place}")) for place in range(APIS)]
        for api in apis:
            site_settings.set_rate(api.address, f"{A_SECOND}/s", obeys_robots=False)
        cluster.start_together("ticks", "beat", *NAMES)
        for _ in range(KILLS):
            done = states()["done"]
            ask(apis, numbers)
            wait_for_progress(PROGRESS, 60, f"requests to go on: {states()}", since=done)
            in_time(Fetch.objects.unfinished().exists(), "requests wait when a fetcher is killed")
            killed = chance.choice(NAMES)
            cluster.kill(killed)
            cluster.start_together(killed)
        wait_for(all_ended, 180, f"all to end: {states()}")

    arrivals = [arrival for api in apis for arrival in api.arrivals]
    of_method = next(numbers)  # requests to each API
    statuses = sum((api.statuses for api in apis), start=Counter[int]())
    intervals = {api.address.partition(":")[0]: 1 / A_SECOND for api in apis}
    lost = sum(Fetch.objects.values_list("losses", flat=True))
    print(f"\nfetches: {Fetch.objects.count()}  requests: {len(arrivals)}  {statuses}  lost: {lost}")
    assert early(arrivals, intervals) == 0
    assert states() == {FetchState.DONE: len(METHODS) * of_method * APIS}
    assert set(Fetch.objects.values_list("status_code", flat=True)) == {201}
    for api in apis:
        assert len(api.effects) == len(METHODS) * of_method
        assert set(api.effects.values()) == {1}, "each exactly once"
        assert {str(key) for key in Fetch.objects.values_list("idempotency_key", flat=True)} >= set(api.by_key)
    assert statuses.keys() <= {0, 201, 409, 500}, "no request came with the key of another one, and none without one"
    assert statuses[409], "the API was asked again while its work went on"
    assert statuses[0] > of_method, "many requests were read, and got no answer"
