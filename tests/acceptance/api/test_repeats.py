"""What programs repeat, and what they do at the same time: over real web processes, which are killed."""

import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from itertools import count
from typing import Any

import pytest
from django.db.models.functions import Now

from tests import programs
from tests.acceptance import web_process
from tests.acceptance.api import web
from tests.acceptance.api.web import Answer
from tests.acceptance.conftest import Cluster
from tests.programs import HOST
from tests.waiting import wait_for
from weir.api.models import KeptAnswer
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.audit.models import Entry
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch, FetchState

AT_LENGTH = "WEIR_FAULTS" in os.environ
KEYS, REPEATS, KILLS = (200, 8, 20) if AT_LENGTH else (12, 6, 2)
WRITERS, CHANGES = (8, 10) if AT_LENGTH else (4, 3)
RETRIERS = 8


class Webs:
    """Some web processes, which are killed one after the other, and replaced."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self._cluster = cluster
        self._numbers = count()
        self.urls: dict[str, str] = {}
        for _ in range(number):
            self.start()

    def start(self) -> None:
        name = f"web-{next(self._numbers)}"
        self.urls[name] = web_process.start(self._cluster, name)

    def kill_one(self) -> None:
        """End one with SIGKILL, and start another one in its place."""
        name = random.choice(list(self.urls))  # noqa: S311
        self._cluster.kill(name)
        del self.urls[name]
        self.start()

    def until_answered(self, ask: Callable[[str], Answer], *meanwhile: int) -> Answer:
        """Ask any of them, again and again, until an answer has none of these statuses."""
        found: list[Answer] = []

        def is_answered() -> bool:
            try:
                found.append(ask(random.choice(list(self.urls.values()))))  # noqa: S311
            except (OSError, HTTPException):  # it was killed
                return False
            return found[-1].status not in meanwhile

        wait_for(is_answered, 120, f"an answer after {found[-1:]}")
        return found[-1]


@pytest.mark.faults
def test_a_request_that_is_repeated_is_done_once(cluster: Cluster) -> None:
    """Each key has one effect, and all programs that send it get the same answer, though web processes are killed."""
    webs = Webs(cluster, 3)
    secret = programs.token()
    calls = [number for number in range(KEYS) for _ in range(REPEATS)]
    random.shuffle(calls)

    def post(number: int) -> tuple[int, Answer]:
        body = {"urls": [f"https://{HOST}/{number}/{place}" for place in range(3)]}
        key = {"Idempotency-Key": f"order-{number}"}
        return number, webs.until_answered(
            lambda url: web.call(url, secret, "POST", "/fetches", body, headers=key), 409, 429, 503
        )

    with ThreadPoolExecutor(16) as pool:
        answers = pool.map(post, calls)
        for _ in range(KILLS):
            webs.kill_one()
        found = list(answers)
    assert {answer.status for _, answer in found} == {202}
    assert len({(number, answer.body) for number, answer in found}) == KEYS
    assert Fetch.objects.filter(is_robots=False).count() == 3 * KEYS
    assert KeptAnswer.objects.count() == KEYS
    print(f"{KEYS} keys, each sent {REPEATS} times, {KILLS} web processes killed: each was done once")


def test_of_writers_at_once_none_loses_a_change(cluster: Cluster) -> None:
    """Each reads a site, and increments its burst: with If-Match the sum is right."""
    webs = Webs(cluster, 2)
    secret = programs.token()
    site_settings.set_rate(HOST, "100/s", burst=1)
    refused = []

    def count_up(_writer: int) -> None:
        changed = 0
        while changed < CHANGES:
            url = random.choice(list(webs.urls.values()))  # noqa: S311
            seen = web.call(url, secret, "GET", f"/sites/{HOST}")
            settings: dict[str, Any] = seen.data["settings"]
            wanted = {**settings, "burst": settings["burst"] + 1}
            version = {"If-Match": seen.headers["etag"]}
            answer = web.call(url, secret, "PUT", f"/sites/{HOST}", wanted, headers=version)
            assert answer.status in {200, 412, 409}, answer
            changed += answer.status == 200
            refused.extend([answer.status] * (answer.status != 200))

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(count_up, range(WRITERS)))
    assert Site.objects.get(name=HOST).burst == 1 + WRITERS * CHANGES
    assert Entry.objects.filter(target=HOST, action="sites.set", door="api").count() == WRITERS * CHANGES
    print(f"{WRITERS * CHANGES} changes, {len(refused)} refused as another one came first")


def test_no_retry_queues_more_than_expected(cluster: Cluster) -> None:
    """Programs retry together, each with what it expects, while more fetches fail. Each fetch is queued again once."""
    webs = Webs(cluster, 2)
    secret = programs.token()
    ids = [fetch.pk for fetch in request_fetches(f"https://{HOST}/{number}" for number in range(300))]
    ended = {"state": FetchState.FAILED, "error": "no answer", "finished_at": Now()}
    Fetch.objects.filter(pk__in=ids[:100]).update(**ended)
    is_over = threading.Event()

    def fail_more() -> None:
        for place in range(100, 300, 10):
            Fetch.objects.filter(pk__in=ids[place : place + 10]).update(**ended)
            if is_over.wait(0.02):
                break

    def retry(number: int) -> tuple[int, Answer]:
        expected = 50 * number
        body = {"filter": {"site": HOST, "error": "no answer"}, "expected": expected}
        url = random.choice(list(webs.urls.values()))  # noqa: S311
        return expected, web.call(url, secret, "POST", "/fetch-retries", body)

    with ThreadPoolExecutor(RETRIERS + 1) as pool:
        failing = pool.submit(fail_more)
        found = list(pool.map(retry, range(RETRIERS)))
        is_over.set()
        failing.result()
    assert {answer.status for _, answer in found} <= {200, 409}
    queued = [(expected, answer.data["queued"]) for expected, answer in found if answer.status == 200]
    assert queued
    assert all(number <= expected for expected, number in queued)
    recorded = Entry.objects.filter(action="fetches.retry").values_list("after__queued", flat=True)
    assert sum(number for _, number in queued) == sum(recorded)
